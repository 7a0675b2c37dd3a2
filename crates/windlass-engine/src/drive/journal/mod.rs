//! A thread's journal: folded, appended to, and summed up in the rows of lists.
//!
//! It drives nothing.

pub(super) mod append;
pub(super) mod lease;
pub(super) mod measure;
pub(crate) mod row;
pub(crate) mod store;
