//! The gate: may this call run? Order-free: any Deny wins, then any Ask, then Allow.

use serde::{Deserialize, Serialize};

/// Which calls run without asking. (ZE-H1)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AutoRun {
    /// Those whose trusted annotations say that they change nothing; the others ask. (SK-A1)
    #[default]
    Ask,
    /// All: the administrator's word, destructive ones included. (CF-1)
    Everything,
}
