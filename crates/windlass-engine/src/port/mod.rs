//! The ports: the driver's dependencies on the outside, as object-safe traits.
//!
//! A port has no default implementation and does not depend on an adapter.

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
