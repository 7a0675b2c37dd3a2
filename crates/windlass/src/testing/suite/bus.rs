//! Live signals.

/// Placeholder.
pub async fn bus_suite() {}
