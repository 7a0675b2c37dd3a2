//! The ports: what the driver needs from the outside, as object-safe traits.
//!
//! A port has no default and knows no adapter.

pub mod background;
pub mod blob;
pub mod budget;
pub mod bus;
pub mod clock;
pub mod fault;
pub mod hook;
pub mod journal;
pub mod model;
pub mod observe;
pub mod offload;
pub mod records;
pub mod schema;
pub mod store;
pub mod tool;
