//! Signed tokens (JWT, HS256). The key is generated once per store and sealed by the vault, so that a copy of the
//! database cannot sign tokens.
//!
//! A token only identifies its session. The server looks up role and state for each request, so they are never
//! outdated.

use std::sync::{Arc, Mutex, PoisonError};

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use windlass::machine::Timestamp;
use windlass::port::journal::StoreError;

use crate::account::secret;
use crate::vault::Vault;

/// Kind of the single record with the key.
pub(in crate::account) const SIGNING_KEY: &str = "signing_key";
pub(in crate::account) const THE_ONE: &str = "hs256";
/// Name under which the vault seals the key.
const SEALED_AS: &str = "account/signing_key";

/// Purpose of a token. A token for one purpose is invalid for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::account) enum Purpose {
    /// Authenticates the requests of a session.
    Access,
    /// Identifies a sign-in in progress at an OpenID Connect provider.
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
pub(in crate::account) struct Signer {
    encoding: EncodingKey,
    decoding: DecodingKey,
    marking: hmac::Key,
}

#[derive(Serialize, Deserialize)]
pub(in crate::account) struct KeyRecord {
    /// The key's 32 bytes in URL-safe base64, sealed by the vault.
    sealed: String,
}

impl KeyRecord {
    /// Generates a new key.
    pub(in crate::account) fn draw(vault: &Vault) -> Self {
        Self { sealed: vault.seal(SEALED_AS, &secret::draw::<32>()) }
    }

    /// Opens the key. Returns `None` if another vault sealed it.
    pub(in crate::account) fn open(&self, vault: &Vault) -> Option<Signer> {
        let opened = vault.unseal(SEALED_AS, &self.sealed).ok()?;
        URL_SAFE_NO_PAD.decode(opened.expose()).ok().map(|bytes| Signer::new(&bytes))
    }
}

/// The keys as last read, with the change and version of their record.
#[derive(Default)]
pub(in crate::account) struct SignerCache(Mutex<Option<Cached>>);

pub(in crate::account) struct Cached {
    pub(in crate::account) changes: u64,
    pub(in crate::account) version: u64,
    pub(in crate::account) signer: Arc<Signer>,
}

impl SignerCache {
    pub(in crate::account) fn find(&self, changes: u64) -> Option<Arc<Signer>> {
        let cached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        cached.as_ref().filter(|cached| cached.changes >= changes).map(|cached| cached.signer.clone())
    }

    pub(in crate::account) fn keep(&self, news: Cached) {
        let mut cached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if cached.as_ref().is_none_or(|known| known.changes <= news.changes) {
            *cached = Some(news);
        }
    }

    pub(in crate::account) fn of_version(&self, version: u64) -> Option<Arc<Signer>> {
        let cached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        cached.as_ref().filter(|cached| cached.version == version).map(|cached| cached.signer.clone())
    }
}

impl Signer {
    pub(in crate::account) fn new(secret: &[u8]) -> Self {
        Self {
            encoding: EncodingKey::from_secret(secret),
            decoding: DecodingKey::from_secret(secret),
            marking: hmac::Key::new(hmac::HMAC_SHA256, secret),
        }
    }

    /// Returns the keyed digest at the end of a refresh token: 20 characters, computed over the token's other parts.
    pub fn mark(&self, begins: &str) -> String {
        // The signed part of a JWT has no line feed, so the two kinds of signatures cannot be confused.
        let tag = hmac::sign(&self.marking, format!("refresh\n{begins}").as_bytes());
        URL_SAFE_NO_PAD.encode(&tag.as_ref()[..15])
    }

    /// Verifies a digest, in constant time.
    pub fn is_mark(&self, begins: &str, mark: &str) -> bool {
        verify_slices_are_equal(self.mark(begins).as_bytes(), mark.as_bytes()).is_ok()
    }

    /// Signs a token, with its lifetime in seconds.
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

    /// Verifies a token and returns its content. Returns `None` if the token is invalid or has another purpose.
    pub fn read<T: DeserializeOwned>(
        &self,
        purpose: Purpose,
        token: &str,
        now: Timestamp,
    ) -> Option<Read<T>> {
        let mut rules = Validation::new(Algorithm::HS256);
        // The code below checks the expiry, with the clock port.
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

/// The content of a token with a valid signature.
pub(in crate::account) enum Read<T> {
    /// The token is within its lifetime.
    Valid(T),
    /// The token has expired.
    Expired,
}

#[cfg(test)]
mod tests {
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
        // A token with "alg": "none" and without a signature.
        let bare = token.split('.').nth(1).unwrap();
        let none = format!("{}.{bare}.", URL_SAFE_NO_PAD.encode(r#"{"alg":"none","typ":"JWT"}"#));
        assert_eq!(seen(&ours, Purpose::Access, &none, 5_000), "foreign");
    }
}
