//! The library's tests from outside, one module per area.

mod store;
