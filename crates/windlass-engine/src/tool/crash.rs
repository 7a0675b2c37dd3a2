//! What is told of work that crashed: its own words, and none of the secrets that it was given.
//!
//! What becomes of a call that crashed is the driver's to say.

use std::any::Any;
use std::panic::{AssertUnwindSafe, resume_unwind};

use futures_util::FutureExt;
use windlass_outbound::secret::Mask;

/// What a panic said.
pub fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "it did not say why".to_owned())
}

/// Does work. Where it crashes, it does so in masked words: whoever contains it tells and records them.
pub async fn crashing_masked<T>(work: impl Future<Output = T>, mask: impl FnOnce() -> Mask) -> T {
    match AssertUnwindSafe(work).catch_unwind().await {
        Ok(done) => done,
        // The program's own hook has heard of it already.
        Err(panic) => resume_unwind(Box::new(mask().text(&panic_text(&*panic)))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_outbound::secret::Secret;

    #[tokio::test]
    async fn a_crash_is_told_without_secrets() {
        let secret = Secret::new("SENTINEL-crash");
        let mask = || Mask::new(&[Secret::new("SENTINEL-crash")]);
        let crashes = async move { panic!("the token {} was refused", secret.expose()) };
        let crashed: Result<(), _> = tokio::spawn(crashing_masked(crashes, mask)).await;
        let panic = crashed.unwrap_err().into_panic();
        assert_eq!(panic_text(&*panic), "the token [masked] was refused");
        assert_eq!(crashing_masked(async { 7 }, || Mask::new(&[])).await, 7);
    }
}
