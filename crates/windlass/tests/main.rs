//! The library's tests from outside, one module per area.

#[cfg(all(unix, feature = "sqlite", feature = "testing"))]
mod store;
