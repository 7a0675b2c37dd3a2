//! The fencing number of a thread's owner.
//!
//! Each claim increments the number; the store rejects an append with an older number.

use serde::{Deserialize, Serialize};

/// Fencing number of a thread's owner. Each claim increments the number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Epoch(pub u64);
