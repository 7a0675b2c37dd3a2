//! What this program tells a server of itself: how it signs in, and which values it must not say back.
//!
//! Signing in is in `oauth`, masking in `mask`.

use std::fmt;

use crate::secret::Secret;

/// Who signs in, and how the authorization server knows this client.
#[derive(Clone)]
pub struct OAuth {
    /// Where the browser comes back to.
    pub redirect_uri: String,
    /// An id that the authorization server has given out beforehand; it goes before the rest.
    pub client_id: Option<String>,
    /// The secret that goes with it.
    pub client_secret: Option<String>,
    /// Where this client's own description is published, https. (Client ID Metadata Document)
    pub client_metadata_url: Option<String>,
    /// The name to register under, where nothing else is known.
    pub client_name: String,
    /// What is asked for; empty: what the server names.
    pub scopes: Vec<String>,
    /// `native` or `web`, told at registration.
    pub application_type: String,
}

impl OAuth {
    /// A client that registers itself, and comes back to this address.
    pub fn new(redirect_uri: impl Into<String>) -> Self {
        Self {
            redirect_uri: redirect_uri.into(),
            client_id: None,
            client_secret: None,
            client_metadata_url: None,
            client_name: "Windlass".into(),
            scopes: Vec::new(),
            application_type: "native".into(),
        }
    }
}

impl fmt::Debug for OAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OAuth")
            .field("redirect_uri", &self.redirect_uri)
            .field("client_id", &self.client_id)
            .field("client_secret", &self.client_secret.as_ref().map(|_| "…"))
            .field("client_metadata_url", &self.client_metadata_url)
            .field("scopes", &self.scopes)
            .finish()
    }
}

/// Values that a server must not say back in what the model reads.
#[derive(Clone, Default)]
pub struct Secrets(pub Vec<Secret>);

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} secrets", self.0.len())
    }
}
