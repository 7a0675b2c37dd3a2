//! A thread's journal: folding, appending, and the rows of lists.
//!
//! This module drives no threads.

pub(super) mod append;
pub(super) mod lease;
pub(super) mod measure;
pub(crate) mod row;
pub(crate) mod store;
