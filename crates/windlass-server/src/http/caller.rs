//! Who makes a request, as handlers see it, and what they may do.
//!
//! Every route that is not open to all takes a [`Caller`]; what it may see is asked here and nowhere else.

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

/// Marks a request to a dialect that admits guests. Elsewhere a guest's credential is rejected.
#[derive(Clone, Copy, Debug)]
pub struct GuestsWelcome;

/// An account that is known and active.
#[derive(Clone, Debug)]
pub struct Caller(pub Identity);

impl FromRequestParts<Shared> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut request::Parts, app: &Shared) -> Result<Self, Problem> {
        // Whoever looked first has counted the request.
        if let Some(known) = parts.extensions.get::<Self>() {
            return Ok(known.clone());
        }
        // A stream looks again who it is for; the credential stays with the request until then.
        let identity = identify(parts, app).await?;
        let mut identity = identity.map_err(|unknown| Problem::unauthenticated(unknown.to_string()))?;
        let is_guest = matches!(identity.credential, Credential::Guest(_));
        if is_guest && parts.extensions.get::<GuestsWelcome>().is_none() {
            let problem = Problem::forbidden("a guest may use only the dialect that admitted them");
            return Err(problem.hint("register an account, and sign in"));
        }
        identity.from =
            parts.extensions.get::<super::middleware::peer::Client>().map(|client| client.address);
        app.limits.limiter.admit(&identity, parts)?;
        Ok(Self(identity))
    }
}

/// Who makes a request: what it says in `Authorization`, and only without that what its cookie says.
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

/// Refuses a change that a browser makes with its cookie for a page that is not ours. The cookie alone, which is
/// `SameSite=Lax`, would let neighbours on the same site in.
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
    Err(Problem::new(http::StatusCode::FORBIDDEN, "cross_site", "a cookie counts only for our own pages")
        .hint("send `Origin` with the server's address, or sign in with `Authorization: Bearer …`"))
}

/// Where a request comes from.
#[derive(Clone, Debug)]
pub struct Peer(pub Client);

/// Longest name of a program that is kept, in characters.
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
    /// The account, as the principal of what it does.
    pub fn user(&self) -> &Principal {
        &self.0.user
    }

    /// Its workspace.
    pub fn workspace(&self) -> &str {
        &self.0.workspace
    }

    /// Whoever answers what runs ask.
    pub fn party(&self) -> Party {
        self.0.party()
    }

    /// Whether it is an administrator.
    pub fn is_admin(&self) -> bool {
        self.0.role == Role::Admin
    }

    /// Refuses where the role is below `role` or the credential does not cover `scope`.
    pub fn may(&self, role: Role, scope: Scope) -> Result<(), Problem> {
        if self.0.role < role {
            let what = format!("this needs the role `{}`; yours is `{}`", role.word(), self.0.role.word());
            return Err(Problem::forbidden(what));
        }
        if !self.0.has(scope) {
            let scope = serde_json::to_value(scope).unwrap_or_default();
            return Err(Problem::forbidden(format!("the API key does not cover the scope {scope}")));
        }
        Ok(())
    }

    /// May change its own account: whoever signed in, or a key that covers it.
    pub fn manages_itself(&self) -> Result<(), Problem> {
        self.may(Role::Viewer, Scope::Admin)
    }

    /// The session that it comes by; refuses keys.
    pub fn session(&self) -> Result<&str, Problem> {
        match &self.0.credential {
            Credential::Session(id) => Ok(id),
            Credential::Guest(_) => {
                Err(Problem::forbidden("a guest cannot do this").hint("register an account, and sign in"))
            }
            Credential::Key { .. } => {
                Err(Problem::forbidden("an API key cannot do this").hint("sign in with your password"))
            }
        }
    }

    /// May look.
    pub fn reads(&self) -> Result<(), Problem> {
        self.may(Role::Viewer, Scope::Read)
    }

    /// May start runs and change what is its own.
    pub fn runs(&self) -> Result<(), Problem> {
        self.may(Role::Member, Scope::Run)
    }

    /// May answer what runs ask.
    pub fn approves(&self) -> Result<(), Problem> {
        self.may(Role::Member, Scope::Approve)
    }

    /// Refuses, in these words, whoever is no administrator.
    pub fn administers_or(&self, words: impl FnOnce() -> &'static str) -> Result<(), Problem> {
        if self.is_admin() { Ok(()) } else { Err(Problem::forbidden(words())) }
    }

    /// May manage the workspace.
    pub fn administers(&self) -> Result<(), Problem> {
        self.may(Role::Admin, Scope::Admin)
    }

    /// Whether the caller may see what an owner has in a workspace: its own, or everything in its workspace for an
    /// administrator.
    pub fn sees(&self, workspace: &str, owner: &Principal) -> bool {
        workspace == self.workspace() && (self.is_admin() || owner == self.user())
    }

    /// A thread that the caller may see. Another one does not exist for it.
    pub async fn thread(&self, app: &Shared, thread: &ThreadId) -> Result<ThreadRow, Problem> {
        let missing = || Problem::not_found(format!("thread `{thread}`"));
        match app.engine.thread(thread).row().await {
            Err(EngineError::NoThread(_)) => Err(missing()),
            Ok(row) if !self.sees(&row.view.workspace, &row.view.owner) => Err(missing()),
            row => Ok(row?),
        }
    }

    /// A thread that the caller may read: one that it may see, or one that is shared with its workspace.
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

    /// Whether the caller may read a thread that an owner has in a workspace: it may see it, or it is shared with its
    /// workspace.
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

    /// A run of a thread that the caller may see.
    pub async fn run(&self, app: &Shared, run: &RunId) -> Result<RunRow, Problem> {
        let missing = || Problem::not_found(format!("run `{run}`"));
        match app.engine.run(run).row().await {
            Err(EngineError::NoRun(_)) => Err(missing()),
            Ok(row) if !self.sees(&row.workspace, &row.owner) => Err(missing()),
            row => Ok(row?),
        }
    }

    /// A user whose own things the caller may manage: itself, or anybody of its workspace for an administrator.
    pub async fn user_or_self(&self, app: &Shared, user: Option<&str>) -> Result<Principal, Problem> {
        let Some(user) = user.map(Principal::from).filter(|user| user != self.user()) else {
            return Ok(self.user().clone());
        };
        let found = match self.is_admin() {
            true => {
                // A key for one's own affairs is none for other people's.
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
