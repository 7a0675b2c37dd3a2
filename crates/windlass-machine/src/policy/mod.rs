//! Policies: small pure judgements that `on/` asks for.

mod retry;

pub use retry::FailureClass;
