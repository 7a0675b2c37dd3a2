//! The OAuth client settings of a server, and the secrets to redact from its output.
//!
//! `oauth` implements the sign-in, `mask` the redaction.

use std::fmt;

use windlass_outbound::secret::Secret;

/// The OAuth client of this program.
#[derive(Clone)]
pub struct OAuth {
    /// The redirect URI of the authorization request.
    pub redirect_uri: String,
    /// A client id registered beforehand. Takes precedence over registration.
    pub client_id: Option<String>,
    /// The secret of `client_id`; `None` for a public client.
    pub client_secret: Option<String>,
    /// The https URL of this client's Client ID Metadata Document.
    pub client_metadata_url: Option<String>,
    /// The client name sent at dynamic registration.
    pub client_name: String,
    /// The requested scopes; if empty, the scopes that the server advertises.
    pub scopes: Vec<String>,
    /// `native` or `web`, sent at dynamic registration.
    pub application_type: String,
}

impl OAuth {
    /// Creates a client that registers dynamically and uses this redirect URI.
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

/// Values to redact from the output of a server before a model reads it.
#[derive(Clone, Default)]
pub struct Secrets(pub Vec<Secret>);

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} secrets", self.0.len())
    }
}
