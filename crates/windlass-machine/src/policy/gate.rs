//! The gate: may this call run? Order-free: any Deny wins, then any Ask, then Allow.
//!
//! It knows neither people nor interrupts; an Ask is a verdict like the others.

use serde::{Deserialize, Serialize};

use crate::agent::Annotations;
use crate::event::Verdict;

/// Which calls run without asking. (ZE-H1)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AutoRun {
    /// Those whose trusted annotations say that they change nothing; the others ask. (SK-A1)
    #[default]
    Ask,
    /// Those, and the tools of the allow list.
    Allowlist,
    /// All: the administrator's word, destructive ones included. (CF-1)
    Everything,
}

/// Judges a call; names what decided.
pub fn judge(auto_run: AutoRun, hints: Annotations) -> (Verdict, &'static str) {
    match auto_run {
        AutoRun::Everything => (Verdict::Allow, "mode"),
        // A read that talks to the outside world can carry data out, so it asks.
        AutoRun::Ask | AutoRun::Allowlist if hints.read_only_hint && !hints.open_world_hint => {
            (Verdict::Allow, "annotations")
        }
        AutoRun::Ask | AutoRun::Allowlist => (Verdict::Ask, "annotations"),
    }
}
