//! The fencing number of a thread's owner.
//!
//! It grows with each claim; an append with an older one is refused.

use serde::{Deserialize, Serialize};

/// Fencing number of a thread's owner: every claim raises it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Epoch(pub u64);
