//! Sign-in with an OpenID Connect provider: authorization code flow with PKCE, state and nonce.
//!
//! The state of a sign-in in progress is in a signed cookie of the browser. So no other browser can finish the sign-in,
//! and its start stores nothing on the server. The sign-in finds accounts by issuer and subject. It finds them by email
//! address only if the configuration allows it and the provider has verified the address.

mod cache;
mod discovery;
mod fetch;

use std::sync::Arc;

use openidconnect::core::{
    CoreAuthenticationFlow, CoreClient, CoreClientAuthMethod, CoreIdToken, CoreIdTokenVerifier,
    CoreJwsSigningAlgorithm as Alg, CoreProviderMetadata,
};
use openidconnect::{
    AuthType, AuthorizationCode, ClaimsVerificationError, ClientId, ClientSecret, CsrfToken, Nonce,
    PkceCodeChallenge, PkceCodeVerifier, RedirectUrl, Scope, TokenResponse,
};
use serde::{Deserialize, Serialize};
use windlass::machine::{Principal, Timestamp};
use windlass::port::records::{Expect, RecordChange};

pub use self::cache::ProviderCache;
use self::discovery::Age;
use self::fetch::fetch;
use super::audit::Note;
use super::error::{AccountError, conflict};
use super::login::{SUBJECT, taken};
use super::record::{put, read};
use super::{Accounts, Role, Unknown, secret};
use crate::account::login::failed::Whose;
use crate::account::people::user::{User, fold_email};
use crate::account::sessions::session::FirstRefresh;
use crate::account::sessions::session::{Client, Tokens};
use crate::account::sessions::token::{Purpose, Read};
use crate::text::first_line;

/// Record kind of finished sign-ins, kept until their expiry. The key is the digest of their state parameter.
const FINISHED: &str = "oidc_finished";

/// Maximum duration of a sign-in at the provider, in seconds.
pub const FLOW_S: u64 = 600;
/// Maximum number of finished sign-ins that are checked for expiry when another sign-in is finished.
const SWEPT: usize = 100;

/// Accepted signature algorithms: only algorithms that use the provider's private key, none with a shared secret.
const SIGNATURES: [Alg; 9] = [
    Alg::RsaSsaPkcs1V15Sha256,
    Alg::RsaSsaPkcs1V15Sha384,
    Alg::RsaSsaPkcs1V15Sha512,
    Alg::RsaSsaPssSha256,
    Alg::RsaSsaPssSha384,
    Alg::RsaSsaPssSha512,
    Alg::EcdsaP256Sha256,
    Alg::EcdsaP384Sha384,
    Alg::EdDsa,
];

/// The configuration of a provider.
#[derive(Clone)]
pub struct Provider {
    /// Name in our URLs.
    pub name: String,
    /// Issuer URL, exactly as the provider reports it.
    pub issuer: String,
    /// Client id of this server at the provider.
    pub client_id: String,
    /// Secret of the client.
    pub client_secret: Option<String>,
    /// Scopes to request in addition to `openid`.
    pub scopes: Vec<String>,
    /// Allowed domains of verified email addresses of new accounts. Empty allows any.
    pub domains: Vec<String>,
    /// Role of new accounts; `None` creates no accounts.
    pub role: Option<Role>,
    /// Workspace of its users.
    pub workspace: String,
    /// Whether a verified email address signs in to the existing account with that address. Requires that an
    /// administrator has vouched for the address.
    pub link_by_email: bool,
}

/// A sign-in in progress.
#[derive(Serialize, Deserialize)]
struct Flow {
    provider: String,
    state: String,
    nonce: String,
    verifier: String,
    redirect: String,
}

/// The parameters of the provider's redirect.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Authorization code.
    pub code: String,
    /// State parameter of the authorization request.
    pub state: String,
    /// Issuer, if the provider sends it. (RFC 9207)
    pub issuer: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct Subject {
    user: Principal,
    issuer: String,
    subject: String,
}

/// A person, as identified by the provider.
struct Person {
    subject: String,
    /// The email address, if the provider has verified it.
    email: Option<String>,
    name: String,
}

impl Accounts {
    /// Starts a sign-in. Returns the provider's authorization URL and the value of the cookie for the flow.
    pub async fn begin_oidc(
        &self,
        provider: &Provider,
        redirect: &str,
    ) -> Result<(String, String), AccountError> {
        let described = self.described(provider, Age::Some).await?;
        let verifier = PkceCodeVerifier::new(secret::draw::<32>());
        let challenge = PkceCodeChallenge::from_code_verifier_sha256(&verifier);
        let client = CoreClient::from_provider_metadata(
            described.as_ref().clone(),
            ClientId::new(provider.client_id.clone()),
            None,
        )
        .set_redirect_uri(
            RedirectUrl::new(redirect.to_owned()).map_err(|error| misconfigured(provider, &error))?,
        );
        let scopes = provider.scopes.iter().map(|scope| Scope::new(scope.clone()));
        let (url, state, nonce) = client
            .authorize_url(
                CoreAuthenticationFlow::AuthorizationCode,
                || CsrfToken::new(secret::draw::<32>()),
                || Nonce::new(secret::draw::<32>()),
            )
            .add_scopes(scopes)
            .set_pkce_challenge(challenge)
            .url();
        let flow = Flow {
            provider: provider.name.clone(),
            state: state.into_secret(),
            nonce: nonce.secret().clone(),
            verifier: verifier.into_secret(),
            redirect: redirect.to_owned(),
        };
        let cookie = self.signer().await?.sign(Purpose::Provider, flow, self.clock.now(), FLOW_S)?;
        Ok((url.to_string(), cookie))
    }

    /// Finishes a sign-in with the parameters of the provider's redirect and the cookie of the flow.
    pub async fn finish_oidc(
        &self,
        provider: &Provider,
        cookie: Option<&str>,
        answer: Answer,
        client: &Client,
    ) -> Result<Tokens, AccountError> {
        let attempt = self.begin_attempt(None, client)?;
        // Do not audit requests that belong to no started sign-in: anyone can send an unlimited number of them.
        let flow = self.begun(provider, cookie, &answer).await?;
        let signed_in = self.try_finish(provider, flow, answer.code, client).await;
        match &signed_in {
            Ok(_) => self.memory.attempts.forgive(attempt),
            Err(error) => {
                let note = Note::new(&provider.workspace, "login.failed").from(client.from);
                let note = note.with("provider", provider.name.as_str()).with("why", error.to_string());
                self.record_failure(Whose::Stranger, note).await?;
            }
        }
        signed_in
    }

    /// Validates that this browser has started the sign-in, and returns its state.
    async fn begun(
        &self,
        provider: &Provider,
        cookie: Option<&str>,
        answer: &Answer,
    ) -> Result<Flow, AccountError> {
        let signer = self.signer().await?;
        let flow = match cookie.and_then(|cookie| signer.read(Purpose::Provider, cookie, self.clock.now())) {
            Some(Read::Valid(flow)) => flow,
            Some(Read::Expired) | None => return Err(foreign()),
        };
        let Flow { provider: begun_at, state, .. } = &flow;
        // Compare digests, so that the response time reveals nothing about the state.
        let ours = *begun_at == provider.name && secret::hash(state) == secret::hash(&answer.state);
        if !ours || answer.issuer.as_ref().is_some_and(|issuer| *issuer != provider.issuer) {
            return Err(foreign());
        }
        if self.records.get(FINISHED, &secret::hash(state)).await?.is_some() {
            return Err(foreign());
        }
        Ok(flow)
    }

    async fn try_finish(
        &self,
        provider: &Provider,
        flow: Flow,
        code: String,
        client: &Client,
    ) -> Result<Tokens, AccountError> {
        let person = self.person(provider, &flow, code).await?;
        // A concurrent request registered the first account, so this account becomes an ordinary one.
        match self.admit(provider, &person, &flow, client).await {
            Err(AccountError::NotFirst) => self.admit(provider, &person, &flow, client).await,
            admitted => admitted,
        }
    }

    async fn admit(
        &self,
        provider: &Provider,
        person: &Person,
        flow: &Flow,
        client: &Client,
    ) -> Result<Tokens, AccountError> {
        let (user, mut changes, note) = self.account_of(provider, person).await?;
        changes.extend(self.finished(flow).await?);
        let tokens = self.open_session(&user, client, FirstRefresh::Now, changes, note).await;
        tokens.map_err(|error| match conflict(&error) {
            Some(FINISHED) => foreign(),
            _ => taken(error, user.email.as_deref().unwrap_or_default()),
        })
    }

    /// Returns the changes that mark a sign-in as finished and remove expired marks.
    async fn finished(&self, flow: &Flow) -> Result<Vec<RecordChange>, AccountError> {
        let now = self.clock.now();
        let until = Timestamp(now.0 + FLOW_S * 1_000);
        let mut changes = vec![put(FINISHED, &secret::hash(&flow.state), "", &until, Expect::Absent)];
        for record in self.records.list(FINISHED, None, None, SWEPT).await? {
            let key = record.key.clone();
            if read::<Timestamp>(record)? <= now {
                changes.push(RecordChange::delete(FINISHED, &key, Expect::Any));
            }
        }
        Ok(changes)
    }

    /// Exchanges the code, and verifies the signed identity of the response.
    async fn person(&self, provider: &Provider, flow: &Flow, code: String) -> Result<Person, AccountError> {
        let described = self.described(provider, Age::Some).await?;
        let redirect =
            RedirectUrl::new(flow.redirect.clone()).map_err(|error| misconfigured(provider, &error))?;
        let client = CoreClient::from_provider_metadata(
            described.as_ref().clone(),
            ClientId::new(provider.client_id.clone()),
            provider.client_secret.clone().map(ClientSecret::new),
        )
        .set_redirect_uri(redirect)
        .set_auth_type(secret_goes(&described));
        let http = self.http(provider)?;
        let send = |request| fetch(http.clone(), provider.issuer.clone(), request);
        let exchange = client
            .exchange_code(AuthorizationCode::new(code))
            .map_err(|error| misconfigured(provider, &error))?
            .set_pkce_verifier(PkceCodeVerifier::new(flow.verifier.clone()));
        let answer = exchange.request_async(&send).await;
        let answer = answer.map_err(|error| failed(provider, "rejected the authorization code", &error))?;
        let token = answer.id_token().ok_or_else(|| {
            AccountError::Provider(format!("the provider `{}` returned no ID token", provider.name))
        })?;
        let nonce = Nonce::new(flow.nonce.clone());
        let found = match verified(provider, &described, token, &nonce) {
            // The provider may have rotated its keys after the server cached them.
            Err(ClaimsVerificationError::SignatureVerification(_)) => {
                verified(provider, self.described(provider, Age::New).await?.as_ref(), token, &nonce)
            }
            found => found,
        };
        found.map_err(|error| failed(provider, "returned an invalid ID token", &error))
    }

    /// Finds the account of a person, or creates one if the configuration allows it. Returns the account, the changes
    /// to write, and the audit note.
    async fn account_of(
        &self,
        provider: &Provider,
        person: &Person,
    ) -> Result<(Arc<User>, Vec<RecordChange>, Note), AccountError> {
        let login = |user: &User| {
            let note = Note::new(&user.workspace, "login").on(user.id.as_str());
            note.with("provider", provider.name.as_str())
        };
        let key = secret::hash(&format!("{}\n{}", provider.issuer, person.subject));
        if let Some(record) = self.records.get(SUBJECT, &key).await? {
            let known: Subject = read(record)?;
            let (user, stands) = self.standing(&known.user).await?.ok_or(Unknown::Deactivated)?;
            return Ok((user.clone(), vec![stands], login(&user)));
        }
        let named = |user: &User| {
            let (issuer, subject) = (provider.issuer.clone(), person.subject.clone());
            let known = Subject { user: user.id.clone(), issuer, subject };
            put(SUBJECT, &key, user.id.as_str(), &known, Expect::Absent)
        };
        if let Some(email) = &person.email
            && let Some(user) = self.by_email(email).await?
        {
            // An address can pass to another person, so the operator decides whether a verified address signs in to the
            // account. An address that the account's owner only entered never does, because it may belong to another
            // person.
            if provider.link_by_email && user.vouched && user.workspace == provider.workspace {
                let (user, stands) = self.standing(&user.id).await?.ok_or(Unknown::Deactivated)?;
                let changes = vec![named(&user), stands];
                return Ok((user.clone(), changes, login(&user)));
            }
            if !user.yields_address() {
                return Err(AccountError::Taken { email: email.clone() });
            }
        }
        let user = Arc::new(self.newcomer(provider, person)?);
        let (mut changes, note) = self.new_user(&user, login(&user)).await?;
        changes.push(named(&user));
        changes.extend(self.first_account().await?);
        Ok((user, changes, note))
    }

    fn newcomer(&self, provider: &Provider, person: &Person) -> Result<User, AccountError> {
        let Some(role) = provider.role else {
            let why = "you have no account on this server; ask an administrator for one";
            return Err(AccountError::Forbidden(why.into()));
        };
        let domain =
            person.email.as_deref().and_then(|email| email.split_once('@')).map(|(_, domain)| domain);
        let listed = |listed: &String| domain.is_some_and(|domain| listed.eq_ignore_ascii_case(domain));
        if !provider.domains.is_empty() && !provider.domains.iter().any(listed) {
            let why = "accounts on this server require a verified address of an allowed domain; yours is not";
            return Err(AccountError::Forbidden(why.into()));
        }
        Ok(User {
            id: Principal::from(format!("usr_{}", secret::draw::<9>()).as_str()),
            workspace: provider.workspace.clone(),
            role,
            name: person.name.clone(),
            email: person.email.clone(),
            vouched: false,
            verified: person.email.is_some(),
            typed: false,
            active: true,
            credit_micro_usd: None,
            created_at: self.clock.now(),
            settled_at: self.clock.now(),
        })
    }
}

/// Returns the error for a redirect that does not match a sign-in of this browser.
fn foreign() -> AccountError {
    let why = "this sign-in was started in another browser, or has expired; start it again";
    AccountError::Forbidden(why.into())
}

/// Decides where to send the client secret: in the header, unless the provider accepts it only in the body.
fn secret_goes(described: &CoreProviderMetadata) -> AuthType {
    let taken = described.token_endpoint_auth_methods_supported();
    let takes = |method: CoreClientAuthMethod| taken.is_none_or(|taken| taken.contains(&method));
    if !takes(CoreClientAuthMethod::ClientSecretBasic) && takes(CoreClientAuthMethod::ClientSecretPost) {
        return AuthType::RequestBody;
    }
    AuthType::BasicAuth
}

/// Verifies the ID token: its signature, audience, nonce and expiry.
fn verified(
    provider: &Provider,
    described: &CoreProviderMetadata,
    token: &CoreIdToken,
    nonce: &Nonce,
) -> Result<Person, ClaimsVerificationError> {
    let verifier = CoreIdTokenVerifier::new_public_client(
        ClientId::new(provider.client_id.clone()),
        described.issuer().clone(),
        described.jwks().clone(),
    )
    .set_allowed_algs(SIGNATURES);
    let claims = token.claims(&verifier, nonce)?;
    let email = claims.email().filter(|_| claims.email_verified() == Some(true));
    let email = email.and_then(|email| fold_email(email).ok());
    let name = claims.name().and_then(|names| names.get(None)).map(|name| first_line(name, 100));
    let subject = claims.subject().to_string();
    let name = name.or_else(|| email.clone()).unwrap_or_else(|| first_line(&subject, 100));
    Ok(Person { subject, email, name })
}

fn misconfigured(provider: &Provider, error: &dyn std::error::Error) -> AccountError {
    failed(provider, "is not configured correctly", error)
}

/// Logs a provider's failure and returns a generic message. The details may describe our internal network.
fn failed(provider: &Provider, what: &str, error: &dyn std::error::Error) -> AccountError {
    let mut causes = vec![error.to_string()];
    let mut inner = error.source();
    while let Some(cause) = inner {
        causes.push(cause.to_string());
        inner = cause.source();
    }
    tracing::warn!(provider = provider.name, why = causes.join(": "), "signing in with a provider failed");
    AccountError::Provider(format!("the provider `{}` {what}", provider.name))
}

#[cfg(test)]
mod tests {
    use super::super::login::Registrant;
    use super::*;
    use crate::account::login::trial::{PASSWORD, Trial};

    #[tokio::test]
    async fn a_registration_and_a_sign_in_at_once_make_one_first_account() {
        let provider = Provider {
            name: "corp".into(),
            issuer: "https://id.example".into(),
            client_id: "c".into(),
            client_secret: None,
            scopes: Vec::new(),
            domains: Vec::new(),
            role: Some(Role::Member),
            workspace: "default".into(),
            link_by_email: false,
        };
        let person = Person { subject: "s".into(), email: None, name: "Bo".into() };
        let trial = Trial::new();
        let (accounts, client) = (&trial.accounts, Client::default());
        // The sign-in has checked for existing accounts before the registration is written.
        let (user, changes, note) = accounts.account_of(&provider, &person).await.unwrap();
        let draft = Registrant {
            email: "ann@example.com".into(),
            password: PASSWORD.into(),
            name: String::new(),
            invite: None,
        };
        let ann = accounts.register_first(draft, &client).await.unwrap();
        assert_eq!(ann.user.role, Role::Admin);
        let late = accounts.open_session(&user, &client, FirstRefresh::Now, changes, note).await;
        let late = taken(late.map(drop).unwrap_err(), "");
        assert!(matches!(late, AccountError::NotFirst), "{late}");
        // The second attempt of the registration finds the first account.
        let (user, changes, note) = accounts.account_of(&provider, &person).await.unwrap();
        accounts.open_session(&user, &client, FirstRefresh::Now, changes, note).await.unwrap();
        assert_eq!(user.role, Role::Member);
    }
}
