//! Signed tokens (JWT, HS256). The key is drawn once per store and kept sealed by the vault, so that a copy of the
//! database signs nothing.
//!
//! A token says whose session it is and nothing that could be out of date: role and state are looked up.

use std::sync::{Arc, Mutex, PoisonError};

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use windlass::machine::{Principal, Timestamp};
use windlass::port::journal::StoreError;
use windlass::port::records::{Expect, RecordChange, RecordError};

use super::audit::Note;
use super::error::AccountError;
use super::link::LINK;
use super::record::{PAGE, put, read};
use super::session::{REFRESH, SESSION};
use super::user::{DEFAULT_WORKSPACE, LOCAL};
use super::{Accounts, secret};
use crate::vault::Vault;

/// The kind of the one record with the key.
const SIGNING_KEY: &str = "signing_key";
const THE_ONE: &str = "hs256";
/// The name that the key is sealed under.
const SEALED_AS: &str = "account/signing_key";
/// How often the key is read again after another process wrote it.
const TRIES: usize = 3;

/// What a token is for, so that none is taken for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Purpose {
    /// Requests of a session.
    Access,
    /// A sign-in elsewhere that is under way.
    Provider,
}

#[derive(Serialize, Deserialize)]
struct Claims<T> {
    #[serde(rename = "use")]
    purpose: Purpose,
    /// Seconds since the Unix epoch.
    iat: u64,
    exp: u64,
    #[serde(flatten)]
    about: T,
}

/// The keys of a store.
pub(super) struct Signer {
    encoding: EncodingKey,
    decoding: DecodingKey,
    marking: hmac::Key,
}

#[derive(Serialize, Deserialize)]
struct KeyRecord {
    /// The key's 32 bytes in URL-safe base64, sealed by the vault.
    sealed: String,
}

impl KeyRecord {
    /// A new key.
    fn draw(vault: &Vault) -> Self {
        Self { sealed: vault.seal(SEALED_AS, &secret::draw::<32>()) }
    }

    /// `None` if it is sealed by another vault.
    fn open(&self, vault: &Vault) -> Option<Signer> {
        let opened = vault.unseal(SEALED_AS, &self.sealed).ok()?;
        URL_SAFE_NO_PAD.decode(opened.expose()).ok().map(|bytes| Signer::new(&bytes))
    }
}

/// The keys as they were last read, for one state of the records.
#[derive(Default)]
pub(super) struct SignerCache(Mutex<Option<Cached>>);

struct Cached {
    changes: u64,
    version: u64,
    signer: Arc<Signer>,
}

impl SignerCache {
    fn find(&self, changes: u64) -> Option<Arc<Signer>> {
        let cached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        cached.as_ref().filter(|cached| cached.changes >= changes).map(|cached| cached.signer.clone())
    }

    fn keep(&self, news: Cached) {
        let mut cached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if cached.as_ref().is_none_or(|known| known.changes <= news.changes) {
            *cached = Some(news);
        }
    }

    fn of_version(&self, version: u64) -> Option<Arc<Signer>> {
        let cached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        cached.as_ref().filter(|cached| cached.version == version).map(|cached| cached.signer.clone())
    }
}

/// What a rotation does to sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sessions {
    /// They stay valid: each gets a new access token with its refresh token.
    Keep,
    /// They end, and one-time links with them.
    End,
}

impl Signer {
    fn new(secret: &[u8]) -> Self {
        Self {
            encoding: EncodingKey::from_secret(secret),
            decoding: DecodingKey::from_secret(secret),
            marking: hmac::Key::new(hmac::HMAC_SHA256, secret),
        }
    }

    /// 20 letters that only we can put to the beginning of a refresh token.
    pub fn mark(&self, begins: &str) -> String {
        // What is signed for a JWT has no line feed.
        let tag = hmac::sign(&self.marking, format!("refresh\n{begins}").as_bytes());
        URL_SAFE_NO_PAD.encode(&tag.as_ref()[..15])
    }

    /// Whether letters are those.
    pub fn is_mark(&self, begins: &str, mark: &str) -> bool {
        verify_slices_are_equal(self.mark(begins).as_bytes(), mark.as_bytes()).is_ok()
    }

    /// A token about something, for some seconds.
    pub fn sign<T: Serialize>(
        &self,
        purpose: Purpose,
        about: T,
        now: Timestamp,
        seconds: u64,
    ) -> Result<String, StoreError> {
        let iat = now.0 / 1_000;
        let claims = Claims { purpose, iat, exp: iat + seconds, about };
        jsonwebtoken::encode(&Header::new(Algorithm::HS256), &claims, &self.encoding)
            .map_err(|error| StoreError::Refused { why: format!("a token cannot be signed: {error}") })
    }

    /// What a token is about; `None` where it is none of ours, or for something else.
    pub fn read<T: DeserializeOwned>(
        &self,
        purpose: Purpose,
        token: &str,
        now: Timestamp,
    ) -> Option<Read<T>> {
        let mut rules = Validation::new(Algorithm::HS256);
        // The time is the clock port's, below.
        rules.validate_exp = false;
        rules.validate_aud = false;
        rules.required_spec_claims.clear();
        let claims = jsonwebtoken::decode::<Claims<T>>(token, &self.decoding, &rules).ok()?.claims;
        if claims.purpose != purpose {
            return None;
        }
        Some(if claims.exp > now.0 / 1_000 { Read::Valid(claims.about) } else { Read::Expired })
    }
}

/// A token that was ours.
pub(super) enum Read<T> {
    /// It counts.
    Valid(T),
    /// Its time is over.
    Expired,
}

impl Accounts {
    /// The keys, drawn if there are none yet.
    pub(super) async fn signer(&self) -> Result<Arc<Signer>, StoreError> {
        let changes = self.records.changes().await?;
        self.signer_at(changes).await
    }

    /// The keys at a state of the records: another process may have rotated them.
    pub(super) async fn signer_at(&self, changes: u64) -> Result<Arc<Signer>, StoreError> {
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
            // A restored store has another vault: everybody gets new tokens.
            tracing::warn!("the key that signs tokens cannot be opened by this vault; a new one is drawn");
            self.draw_key(Expect::Version(version)).await?;
        }
        Err(StoreError::Corrupt { why: "the key that signs tokens cannot be read".into() })
    }

    async fn draw_key(&self, expected: Expect) -> Result<(), StoreError> {
        let change = put(SIGNING_KEY, THE_ONE, "", &KeyRecord::draw(&self.memory.vault), expected);
        match self.records.apply(vec![change]).await {
            // Another process was first.
            Ok(_) | Err(RecordError::Conflict { .. }) => Ok(()),
            Err(RecordError::Store(error)) => Err(error),
        }
    }

    /// Draws a new signing key. Every access token and every sign-in under way at a provider ends at once, in all
    /// processes on the store. Returns how many sessions were ended.
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

    /// Deletes every record of a kind, of all owners; returns how many there were.
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
    use super::super::session::Client;
    use super::super::trial::Trial;
    use super::super::{Role, link};
    use super::*;

    #[derive(Serialize, Deserialize)]
    struct About {
        secret: String,
    }

    #[test]
    fn a_token_counts_for_its_time_and_purpose_alone() {
        let signer = Signer::new;
        let ours = signer(&[1; 32]);
        let about = About { secret: "x".into() };
        let token = ours.sign(Purpose::Access, about, Timestamp(5_000), 10).unwrap();
        let seen = |signer: &Signer, purpose, token: &str, at| match signer.read::<About>(
            purpose,
            token,
            Timestamp(at),
        ) {
            Some(Read::Valid(about)) => about.secret,
            Some(Read::Expired) => "expired".into(),
            None => "foreign".into(),
        };
        assert_eq!(seen(&ours, Purpose::Access, &token, 14_999), "x");
        assert_eq!(seen(&ours, Purpose::Access, &token, 15_000), "expired");
        assert_eq!(seen(&ours, Purpose::Provider, &token, 5_000), "foreign");
        assert_eq!(seen(&signer(&[2; 32]), Purpose::Access, &token, 5_000), "foreign");
        // "alg": "none", without a signature.
        let bare = token.split('.').nth(1).unwrap();
        let none = format!("{}.{bare}.", URL_SAFE_NO_PAD.encode(r#"{"alg":"none","typ":"JWT"}"#));
        assert_eq!(seen(&ours, Purpose::Access, &none, 5_000), "foreign");
    }

    #[tokio::test]
    async fn a_copy_of_the_records_signs_no_token() {
        let trial = Trial::new();
        let (_, tokens) = trial.member().await;
        let record = trial.accounts.records.get(SIGNING_KEY, THE_ONE).await.unwrap().unwrap();
        let sealed = record.value["sealed"].as_str().unwrap().to_owned();
        assert_eq!(record.value.as_object().unwrap().len(), 1, "nothing beside the sealed key");
        // The bytes as they are kept, and what they are the base64 of, sign nothing that counts.
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
        // Another process on the same records and vault.
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
