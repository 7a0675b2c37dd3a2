//! Stands in for `pdf.rs` in a build without the feature `pdf`.
//!
//! Refuses every PDF with a message that names the feature. Reads nothing.

use std::fmt::Display;

use tokio_util::sync::CancellationToken;

use super::{Answer, Refusal};

/// Refuses the file.
pub(in crate::tool) fn show(
    _bytes: Vec<u8>,
    path: &dyn Display,
    _first: u64,
    _count: Option<u64>,
    _cancel: &CancellationToken,
) -> Answer {
    Err(Refusal(format!("cannot read the PDF `{path}`: this build does not read PDF files (feature `pdf`)")))
}
