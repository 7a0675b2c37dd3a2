//! The key that signs tokens: generated once per store, reloaded after a change by another process, and rotated.

use std::sync::Arc;

use windlass::machine::Principal;
use windlass::port::journal::StoreError;
use windlass::port::records::{Expect, RecordChange, RecordError};

use crate::account::Accounts;
use crate::account::audit::Note;
use crate::account::error::AccountError;
use crate::account::link::LINK;
use crate::account::people::user::{DEFAULT_WORKSPACE, LOCAL};
use crate::account::record::{PAGE, put, read};
use crate::account::sessions::session::{REFRESH, SESSION};
use crate::account::sessions::token::{Cached, KeyRecord, SIGNING_KEY, Signer, THE_ONE};

/// Maximum number of attempts to read the key while another process writes it concurrently.
const TRIES: usize = 3;

/// The effect of a key rotation on sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sessions {
    /// Sessions remain valid; each obtains a new access token with its refresh token.
    Keep,
    /// Sessions end, and one-time links are revoked.
    End,
}

impl Accounts {
    /// Returns the current keys. Generates them if the store has none.
    pub(in crate::account) async fn signer(&self) -> Result<Arc<Signer>, StoreError> {
        let [changes] = self.changes([SIGNING_KEY]).await?;
        self.signer_at(changes).await
    }

    /// Returns the keys as of the given change of their record, because another process may have rotated them.
    pub(in crate::account) async fn signer_at(&self, changes: u64) -> Result<Arc<Signer>, StoreError> {
        let cache = &self.memory.signer;
        if let Some(signer) = cache.find(changes) {
            return Ok(signer);
        }
        for _ in 0..TRIES {
            let record = self.records.get(SIGNING_KEY, THE_ONE).await?;
            let Some(record) = record else {
                self.draw_key(Expect::Absent).await?;
                continue;
            };
            let version = record.version;
            let opened = cache.of_version(version).or_else(|| {
                let kept = read::<KeyRecord>(record).ok()?;
                kept.open(&self.memory.vault).map(Arc::new)
            });
            if let Some(signer) = opened {
                cache.keep(Cached { changes, version, signer: signer.clone() });
                return Ok(signer);
            }
            // A restored store has another vault. All clients then need new tokens.
            tracing::warn!("this vault cannot decrypt the key that signs tokens; creating a new one");
            self.draw_key(Expect::Version(version)).await?;
        }
        Err(StoreError::Corrupt { why: "the key that signs tokens cannot be read".into() })
    }

    async fn draw_key(&self, expected: Expect) -> Result<(), StoreError> {
        let change = put(SIGNING_KEY, THE_ONE, "", &KeyRecord::draw(&self.memory.vault), expected);
        match self.records.apply(vec![change]).await {
            // Another process has written a key concurrently.
            Ok(_) | Err(RecordError::Conflict { .. }) => Ok(()),
            Err(RecordError::Store(error)) => Err(error),
        }
    }

    /// Generates a new signing key. All access tokens and all sign-ins in progress at providers become invalid, in all
    /// processes on the store. Returns the number of ended sessions.
    pub async fn rotate_keys(&self, sessions: Sessions) -> Result<usize, AccountError> {
        let key = put(SIGNING_KEY, THE_ONE, "", &KeyRecord::draw(&self.memory.vault), Expect::Any);
        let ended = match sessions {
            Sessions::Keep => 0,
            Sessions::End => {
                for kind in [REFRESH, LINK] {
                    self.delete_every(kind).await?;
                }
                self.delete_every(SESSION).await?
            }
        };
        let note = Note::new(DEFAULT_WORKSPACE, "keys.rotate").actor(&Principal::from(LOCAL));
        self.commit(vec![key], note.with("sessions_ended", ended)).await?;
        Ok(ended)
    }

    /// Deletes all records of a kind, of all owners. Returns the number of deleted records.
    async fn delete_every(&self, kind: &str) -> Result<usize, RecordError> {
        let mut count = 0;
        loop {
            let page = self.records.list(kind, None, None, PAGE).await?;
            if page.is_empty() {
                return Ok(count);
            }
            count += page.len();
            let gone = page.iter().map(|record| RecordChange::delete(kind, &record.key, Expect::Any));
            self.records.apply(gone.collect()).await?;
        }
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;

    use super::*;
    use crate::account::login::trial::Trial;
    use crate::account::sessions::session::Client;
    use crate::account::sessions::token::Purpose;
    use crate::account::{Role, link};

    #[tokio::test]
    async fn a_copy_of_the_records_signs_no_token() {
        let trial = Trial::new();
        let (_, tokens) = trial.member().await;
        let record = trial.accounts.records.get(SIGNING_KEY, THE_ONE).await.unwrap().unwrap();
        let sealed = record.value["sealed"].as_str().unwrap().to_owned();
        assert_eq!(record.value.as_object().unwrap().len(), 1, "nothing beside the sealed key");
        // Neither the stored bytes nor their decoded form produce a valid signature.
        let now = trial.accounts.clock.now();
        let about = || serde_json::json!({"sub": tokens.user.id, "sid": tokens.session});
        let bytes = base64::engine::general_purpose::STANDARD.decode(&sealed).unwrap();
        for secret in [sealed.as_bytes(), &bytes, &bytes[bytes.len() - 32..]] {
            let forged = Signer::new(secret).sign(Purpose::Access, about(), now, 900).unwrap();
            assert!(trial.accounts.by_token(&forged).await.unwrap().is_err());
        }
        let real = trial.accounts.signer().await.unwrap().sign(Purpose::Access, about(), now, 900).unwrap();
        assert!(trial.accounts.by_token(&real).await.unwrap().is_ok());
    }

    #[tokio::test]
    async fn a_rotated_key_ends_access_tokens_in_every_process_and_sessions_if_wanted() {
        let trial = Trial::new();
        let (_, tokens) = trial.member().await;
        // A second process that uses the same records and vault.
        let other = trial.beside();
        assert!(other.by_token(&tokens.access).await.unwrap().is_ok());
        trial.accounts.rotate_keys(Sessions::Keep).await.unwrap();
        for accounts in [&trial.accounts, &other] {
            assert!(accounts.by_token(&tokens.access).await.unwrap().is_err());
        }
        let refresh = tokens.refresh.unwrap();
        let next = other.refresh_session(&refresh, &Client::default()).await.unwrap();
        assert!(trial.accounts.by_token(&next.access).await.unwrap().is_ok());
        let invite = link::LinkUse::Invite { role: Role::Member, email: None };
        let made =
            trial.accounts.make_link(link::Maker::Terminal, "default", invite, link::DAY_S).await.unwrap();
        assert_eq!(trial.accounts.rotate_keys(Sessions::End).await.unwrap(), 1);
        assert!(other.by_token(&next.access).await.unwrap().is_err());
        assert!(other.refresh_session(&next.refresh.unwrap(), &Client::default()).await.is_err());
        assert!(other.look_at_link(&made.1).await.is_err());
    }

    #[tokio::test]
    async fn a_key_of_another_vault_is_replaced() {
        let trial = Trial::new();
        let (_, tokens) = trial.member().await;
        let restored = trial.with_another_vault();
        assert!(restored.by_token(&tokens.access).await.unwrap().is_err());
        let next = restored.refresh_session(&tokens.refresh.unwrap(), &Client::default()).await.unwrap();
        assert!(restored.by_token(&next.access).await.unwrap().is_ok());
    }
}
