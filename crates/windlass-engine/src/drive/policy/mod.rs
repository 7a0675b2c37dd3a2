//! The policy and the budgets that apply to a run.
//!
//! This module judges no calls; the machine does.

pub(super) mod budgets;
pub(super) mod prune;
pub(crate) mod service;
pub(super) mod spend;
