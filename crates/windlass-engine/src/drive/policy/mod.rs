//! What people allow: the policy that counts for a run, and the budgets that bound it.
//!
//! It judges nothing; the machine does.

pub(super) mod budgets;
pub(super) mod prune;
pub(crate) mod service;
pub(super) mod spend;
