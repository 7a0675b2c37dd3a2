//! Policies: small pure judgements that `on/` asks for.

mod gate;
mod retry;

pub use gate::AutoRun;
pub use retry::FailureClass;
