//! JSON schemas: derived from Rust types for function tools, and used to validate values.
//!
//! This crate makes no decision about calls. The engine limits schemas that come from other systems.

mod check;
mod function;
mod typed;

pub use self::check::JsonSchemas;
pub use self::function::{FunctionTool, IntoToolOutcome, Json, schema_for};
pub use self::typed::{ContentKind, Typed, TypedContent};
