//! Connections: accepted, encrypted, bounded, and ended.

pub mod listen;
pub mod tls;
pub mod wire;
