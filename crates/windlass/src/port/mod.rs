//! The ports: what the driver needs from the outside, as object-safe traits.

pub mod model;
pub mod tool;
