//! JSON schemas: derived from Rust types for function tools, and checks of values.
//!
//! It decides nothing about calls. The bounds on schemas from outside are the engine's.

mod check;
mod function;
mod typed;

pub use self::check::JsonSchemas;
pub use self::function::{FunctionTool, IntoToolOutcome, Json, schema_for};
pub use self::typed::{ContentKind, Typed, TypedContent};
