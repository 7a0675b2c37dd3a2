//! The authenticated caller of a request, and the permission checks that handlers use.
//!
//! Every route that requires authentication takes a [`Caller`]. All visibility checks are methods of `Caller`.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use http::{header, request};
use windlass::EngineError;
use windlass::machine::{Party, Principal, RunId, ThreadId};
use windlass::port::journal::{RunRow, ThreadRow};

use super::Shared;
use super::cookie;
use super::cookie::Base;
use super::problem::Problem;
use crate::account::Scope;
use crate::account::key::PREFIX;
use crate::account::sessions::session::Client;
use crate::account::{Credential, Identity, Role, Unknown};

/// Request extension that a dialect sets if it admits guests. Other routes reject a guest's credential.
#[derive(Clone, Copy, Debug)]
pub struct GuestsWelcome;

/// The identity of an authenticated, active account.
#[derive(Clone, Debug)]
pub struct Caller(pub Identity);

impl FromRequestParts<Shared> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut request::Parts, app: &Shared) -> Result<Self, Problem> {
        // An earlier extractor or layer has already authenticated and counted this request.
        if let Some(known) = parts.extensions.get::<Self>() {
            return Ok(known.clone());
        }
        // Keep the credential in the request: a stream authenticates its client again later.
        let identity = identify(parts, app).await?;
        let mut identity = identity.map_err(|unknown| Problem::unauthenticated(unknown.to_string()))?;
        let is_guest = matches!(identity.credential, Credential::Guest(_));
        if is_guest && parts.extensions.get::<GuestsWelcome>().is_none() {
            let problem = Problem::forbidden("guests may use only the dialect that admitted them");
            return Err(problem.hint("register an account and sign in"));
        }
        identity.from =
            parts.extensions.get::<super::middleware::peer::Client>().map(|client| client.address);
        app.limits.limiter.admit(&identity, parts)?;
        Ok(Self(identity))
    }
}

/// Authenticates a request by its `Authorization` header. The session cookie is read only if that header is absent.
pub async fn identify(parts: &request::Parts, app: &Shared) -> Result<Result<Identity, Unknown>, Problem> {
    if let Some(value) = parts.headers.get(header::AUTHORIZATION) {
        let bearer = value.to_str().ok().and_then(|value| {
            let (scheme, rest) = value.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then_some(rest.trim())
        });
        return Ok(match bearer {
            Some(secret) if secret.starts_with(PREFIX) => app.accounts.by_key(secret).await?,
            Some(token) => app.accounts.by_token(token).await?,
            None => Err(Unknown::Invalid),
        });
    }
    let Some(token) = Base::of(parts, app).read(&parts.headers, cookie::ACCESS).map(str::to_owned) else {
        return Ok(Err(Unknown::Nothing));
    };
    own_page(parts, app)?;
    Ok(app.accounts.by_token(&token).await?)
}

/// Rejects an unsafe method if a browser sends it with our cookie from a page of another origin. `SameSite=Lax` on the
/// cookie is not sufficient, because other hosts of the same site pass it.
pub fn own_page(parts: &request::Parts, app: &Shared) -> Result<(), Problem> {
    if parts.method.is_safe() {
        return Ok(());
    }
    let named = |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok());
    let ours = match (named("origin"), named("sec-fetch-site")) {
        (Some(origin), _) => app.origins.is_own(origin) || app.origins.is_listed(origin),
        (None, Some(site)) => site == "same-origin",
        (None, None) => false,
    };
    if ours {
        return Ok(());
    }
    Err(Problem::new(
        http::StatusCode::FORBIDDEN,
        "cross_site",
        "a session cookie is accepted only from this server's own pages",
    )
    .hint("send `Origin` with the server's URL, or authenticate with `Authorization: Bearer …`"))
}

/// The network address and user agent of a request.
#[derive(Clone, Debug)]
pub struct Peer(pub Client);

/// Maximum length of a recorded user agent, in characters.
const AGENT_MAX_CHARS: usize = 200;

impl<S: Send + Sync> FromRequestParts<S> for Peer {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut request::Parts, _: &S) -> Result<Self, Infallible> {
        let from = parts.extensions.get::<super::middleware::peer::Client>().map(|client| client.address);
        let agent = parts.headers.get(header::USER_AGENT).and_then(|value| value.to_str().ok());
        let agent = agent.map(|agent| crate::text::first_line(agent, AGENT_MAX_CHARS));
        Ok(Self(Client { from, agent }))
    }
}

impl Caller {
    /// Returns the account, as the principal that the engine records for its actions.
    pub fn user(&self) -> &Principal {
        &self.0.user
    }

    pub fn workspace(&self) -> &str {
        &self.0.workspace
    }

    /// Returns the identity to record with an answer to an interrupt.
    pub fn party(&self) -> Party {
        self.0.party()
    }

    pub fn is_admin(&self) -> bool {
        self.0.role == Role::Admin
    }

    /// Returns an error if the role is below `role` or the credential lacks `scope`.
    pub fn may(&self, role: Role, scope: Scope) -> Result<(), Problem> {
        if self.0.role < role {
            let what = format!("this requires the role `{}`; yours is `{}`", role.word(), self.0.role.word());
            return Err(Problem::forbidden(what));
        }
        if !self.0.has(scope) {
            let scope = serde_json::to_value(scope).unwrap_or_default();
            return Err(Problem::forbidden(format!("the API key lacks the scope {scope}")));
        }
        Ok(())
    }

    /// Requires permission to change the caller's own account: a session, or a key that covers the `admin` scope.
    pub fn manages_itself(&self) -> Result<(), Problem> {
        self.may(Role::Viewer, Scope::Admin)
    }

    /// Returns the id of the caller's session. Rejects guests and API keys.
    pub fn session(&self) -> Result<&str, Problem> {
        match &self.0.credential {
            Credential::Session(id) => Ok(id),
            Credential::Guest(_) => {
                Err(Problem::forbidden("guests cannot do this").hint("register an account and sign in"))
            }
            Credential::Key { .. } => {
                Err(Problem::forbidden("API keys cannot do this").hint("sign in with your password"))
            }
        }
    }

    /// Requires permission to read.
    pub fn reads(&self) -> Result<(), Problem> {
        self.may(Role::Viewer, Scope::Read)
    }

    /// Requires permission to start runs and to change the caller's own resources.
    pub fn runs(&self) -> Result<(), Problem> {
        self.may(Role::Member, Scope::Run)
    }

    /// Requires permission to answer interrupts.
    pub fn approves(&self) -> Result<(), Problem> {
        self.may(Role::Member, Scope::Approve)
    }

    /// Requires the administrator role; otherwise returns a 403 with the given message.
    pub fn administers_or(&self, words: impl FnOnce() -> &'static str) -> Result<(), Problem> {
        if self.is_admin() { Ok(()) } else { Err(Problem::forbidden(words())) }
    }

    /// Requires permission to manage the workspace.
    pub fn administers(&self) -> Result<(), Problem> {
        self.may(Role::Admin, Scope::Admin)
    }

    /// Returns whether the caller may see a resource of `owner` in `workspace`. Users see their own resources;
    /// administrators see all resources of their workspace.
    pub fn sees(&self, workspace: &str, owner: &Principal) -> bool {
        workspace == self.workspace() && (self.is_admin() || owner == self.user())
    }

    /// Loads a thread that the caller may see. Returns 404 for any other thread.
    pub async fn thread(&self, app: &Shared, thread: &ThreadId) -> Result<ThreadRow, Problem> {
        let missing = || Problem::not_found(format!("thread `{thread}`"));
        match app.engine.thread(thread).row().await {
            Err(EngineError::NoThread(_)) => Err(missing()),
            Ok(row) if !self.sees(&row.view.workspace, &row.view.owner) => Err(missing()),
            row => Ok(row?),
        }
    }

    /// Loads a thread that the caller may read: the caller may see the thread, or the thread is shared with the
    /// caller's workspace.
    pub async fn reads_thread(&self, app: &Shared, thread: &ThreadId) -> Result<ThreadRow, Problem> {
        let missing = || Problem::not_found(format!("thread `{thread}`"));
        let row = match app.engine.thread(thread).row().await {
            Err(EngineError::NoThread(_)) => return Err(missing()),
            row => row?,
        };
        match self.may_read(app, thread, &row.view.workspace, &row.view.owner).await? {
            true => Ok(row),
            false => Err(missing()),
        }
    }

    /// Returns whether the caller may read this thread: the caller may see the owner's resources, or the thread is
    /// shared with the caller's workspace.
    pub async fn may_read(
        &self,
        app: &Shared,
        thread: &ThreadId,
        workspace: &str,
        owner: &Principal,
    ) -> Result<bool, Problem> {
        if self.sees(workspace, owner) {
            return Ok(true);
        }
        let shared = app.accounts.shared(thread).await?;
        let is_here = |other: &str| other == self.workspace() && other == workspace;
        Ok(shared.is_some_and(|share| is_here(&share.workspace)))
    }

    /// Loads a run that the caller may see. Returns 404 for any other run.
    pub async fn run(&self, app: &Shared, run: &RunId) -> Result<RunRow, Problem> {
        let missing = || Problem::not_found(format!("run `{run}`"));
        match app.engine.run(run).row().await {
            Err(EngineError::NoRun(_)) => Err(missing()),
            Ok(row) if !self.sees(&row.workspace, &row.owner) => Err(missing()),
            row => Ok(row?),
        }
    }

    /// Resolves whose resources to manage: the caller's own, or, for an administrator, those of any user of the
    /// workspace.
    pub async fn user_or_self(&self, app: &Shared, user: Option<&str>) -> Result<Principal, Problem> {
        let Some(user) = user.map(Principal::from).filter(|user| user != self.user()) else {
            return Ok(self.user().clone());
        };
        let found = match self.is_admin() {
            true => {
                // An API key that does not cover the `admin` scope may manage only its own user's resources.
                self.administers()?;
                app.accounts.refresh().await?.find(&user)
            }
            false => None,
        };
        match found.filter(|found| found.workspace == self.workspace()) {
            Some(_) => Ok(user),
            None => Err(Problem::not_found(format!("user `{user}`"))),
        }
    }
}
