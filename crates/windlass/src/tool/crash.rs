//! What is told of work that crashed: its own words, and none of the secrets that it was given.

use std::any::Any;
use std::panic::{AssertUnwindSafe, resume_unwind};

use futures::FutureExt;

use crate::secret::Mask;

/// What a panic said.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "it did not say why".to_owned())
}

/// Does work. Where it crashes, it does so in masked words: whoever contains it tells and records them.
pub(crate) async fn crashing_masked<T>(work: impl Future<Output = T>, mask: impl FnOnce() -> Mask) -> T {
    match AssertUnwindSafe(work).catch_unwind().await {
        Ok(done) => done,
        // The program's own hook has heard of it already.
        Err(panic) => resume_unwind(Box::new(mask().text(&panic_text(&*panic)))),
    }
}
