//! Texts of panics, without the secrets that the crashed code had.
//!
//! The driver decides whether a crashed call is repeated.

use std::any::Any;
use std::panic::{AssertUnwindSafe, resume_unwind};

use futures_util::FutureExt;
use windlass_outbound::secret::Mask;

/// Returns the message of a panic.
pub fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "it did not say why".to_owned())
}

/// Runs a future. If the future panics, the panic continues with a masked
/// message, because its handler reports and records the message.
pub async fn crashing_masked<T>(work: impl Future<Output = T>, mask: impl FnOnce() -> Mask) -> T {
    match AssertUnwindSafe(work).catch_unwind().await {
        Ok(done) => done,
        // The program's own panic hook has already received the panic.
        Err(panic) => resume_unwind(Box::new(mask().text(&panic_text(&*panic)))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_outbound::secret::Secret;

    #[tokio::test]
    async fn a_crash_message_has_its_secrets_redacted() {
        let secret = Secret::new("SENTINEL-crash");
        let mask = || Mask::new(&[Secret::new("SENTINEL-crash")]);
        let crashes = async move { panic!("the token {} was refused", secret.expose()) };
        let crashed: Result<(), _> = tokio::spawn(crashing_masked(crashes, mask)).await;
        let panic = crashed.unwrap_err().into_panic();
        assert_eq!(panic_text(&*panic), "the token [masked] was refused");
        assert_eq!(crashing_masked(async { 7 }, || Mask::new(&[])).await, 7);
    }
}
