//! Connections: accepting, TLS, limits, and shutdown.

pub mod listen;
pub mod tls;
pub mod wire;
