//! Reads a provider's metadata and keys on demand, and caches them for some minutes. After a failure, the server does
//! not contact the provider again for some seconds.

use std::sync::Arc;

use openidconnect::IssuerUrl;
use openidconnect::core::CoreProviderMetadata;

use super::super::Accounts;
use super::super::error::AccountError;
use super::fetch::{Clients, fetch};
use super::{Provider, failed, misconfigured};

/// Time for which cached metadata is valid, in milliseconds.
const FRESH_MS: u64 = 10 * 60 * 1_000;
/// Time after a failed request during which the server does not contact the provider again, in milliseconds.
const SILENT_MS: u64 = 5_000;

impl Accounts {
    /// Returns the metadata of a provider with its keys.
    pub(super) async fn described(
        &self,
        provider: &Provider,
        age: Age,
    ) -> Result<Arc<CoreProviderMetadata>, AccountError> {
        let known = &self.memory.providers;
        let now = self.clock.monotonic_ms();
        let kept = known.described().get(&provider.issuer).cloned();
        if let Some((at, described)) = kept.filter(|(at, _)| age == Age::Some && now - at < FRESH_MS) {
            tracing::trace!(issuer = provider.issuer, at, "using the cached metadata of a provider");
            return Ok(described);
        }
        let asked = known.silent().get(&provider.issuer).copied();
        if asked.is_some_and(|at| age == Age::Some && now.saturating_sub(at) < SILENT_MS) {
            return Err(unreached(provider));
        }
        let issuer =
            IssuerUrl::new(provider.issuer.clone()).map_err(|error| misconfigured(provider, &error))?;
        let http = self.http(provider)?;
        let send = |request| fetch(http.clone(), provider.issuer.clone(), request);
        let described = CoreProviderMetadata::discover_async(issuer, &send).await;
        let described = described.map_err(|error| {
            known.silent().insert(provider.issuer.clone(), self.clock.monotonic_ms());
            failed(provider, UNREACHED, &error)
        })?;
        let described = Arc::new(described);
        known.described().insert(provider.issuer.clone(), (now, described.clone()));
        Ok(described)
    }

    pub(super) fn http(&self, provider: &Provider) -> Result<reqwest::Client, AccountError> {
        let clients = &self.memory.providers.clients;
        if let Some(clients) = clients.get() {
            return Ok(clients.of(&provider.issuer));
        }
        let made = Clients::new().map_err(|error| failed(provider, "cannot be reached", &error))?;
        Ok(clients.get_or_init(|| made).of(&provider.issuer))
    }
}

/// The allowed age of a provider's metadata.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Age {
    /// Metadata may be some minutes old.
    Some,
    /// Metadata must be read again.
    New,
}

const UNREACHED: &str = "cannot be reached";

fn unreached(provider: &Provider) -> AccountError {
    AccountError::Provider(format!("the provider `{}` {UNREACHED}", provider.name))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::net::TcpListener;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::super::Answer;
    use super::*;
    use crate::account::login::trial::Trial;
    use crate::account::sessions::session::Client;

    fn provider(issuer: String) -> Provider {
        Provider {
            name: "corp".into(),
            issuer,
            client_id: "c".into(),
            client_secret: None,
            scopes: Vec::new(),
            domains: Vec::new(),
            role: None,
            workspace: "default".into(),
            link_by_email: false,
        }
    }

    #[tokio::test]
    async fn a_provider_that_fails_is_not_asked_by_every_request() {
        let trial = Trial::new();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let corp = provider(format!("http://{}", listener.local_addr().unwrap()));
        let asked = Arc::new(AtomicUsize::new(0));
        let count = asked.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                count.fetch_add(1, Ordering::SeqCst);
                let _ = stream.unwrap().write_all(b"HTTP/1.1 500 X\r\ncontent-length: 0\r\n\r\n");
            }
        });
        let begin = async || trial.accounts.begin_oidc(&corp, "http://a/b").await.unwrap_err().to_string();
        for _ in 0..5 {
            assert_eq!(begin().await, "the provider `corp` cannot be reached");
        }
        assert_eq!(asked.load(Ordering::SeqCst), 1);
        trial.clock.advance_ms(SILENT_MS);
        begin().await;
        assert_eq!(asked.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn unknown_sign_ins_are_rate_limited_and_not_audited() {
        let trial = Trial::new();
        let corp = provider("http://127.0.0.1:1".into());
        let client = Client { from: Some("192.0.2.1".parse().unwrap()), agent: None };
        let mut refused = Vec::new();
        for _ in 0..60 {
            let answer = Answer { code: "c".into(), state: "s".into(), issuer: None };
            let ended = trial.accounts.finish_oidc(&corp, Some("x"), answer, &client).await;
            refused.push(matches!(ended, Err(AccountError::TooMany { .. })));
        }
        assert_eq!(refused.iter().filter(|refused| **refused).count(), 9);
        assert_eq!(trial.accounts.audit_before("default", None, 10).await.unwrap(), []);
    }
}
