//! For tests of programs that embed Windlass, and of adapters that others write.
//!
//! Doubles that behave like the real thing, and the suites that every store and bus must pass.

pub mod mcp;
pub mod provider;
pub mod scripted;
pub mod suite;
