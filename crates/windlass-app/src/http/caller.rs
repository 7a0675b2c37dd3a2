//! Who makes a request, as handlers see it, and what they may do.
//!
//! Every route that is not open to all takes a [`Caller`]; what it may see is asked here and nowhere else.

use axum::extract::FromRequestParts;
use http::{header, request};
use windlass::EngineError;
use windlass::machine::{Party, Principal, RunId, ThreadId};
use windlass::port::journal::{RunRow, ThreadRow};

use super::Shared;
use super::problem::Problem;
use crate::account::key::Scope;
use crate::account::{Identity, Role, Unknown};

/// An account that is known and active.
#[derive(Clone, Debug)]
pub struct Caller(pub Identity);

impl FromRequestParts<Shared> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut request::Parts, app: &Shared) -> Result<Self, Problem> {
        // A stream looks again who it is for; the credential stays with the request until then.
        let identity = identify(&parts.headers, app).await?;
        let identity = identity.map_err(|unknown| Problem::unauthenticated(unknown.to_string()))?;
        app.limiter.admit(&identity, parts)?;
        Ok(Self(identity))
    }
}

async fn identify(headers: &http::HeaderMap, app: &Shared) -> Result<Result<Identity, Unknown>, Problem> {
    let bearer = headers.get(header::AUTHORIZATION).map(|value| {
        let (scheme, rest) = value.to_str().ok()?.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then_some(rest.trim())
    });
    match bearer {
        Some(Some(secret)) => Ok(app.accounts.by_key(secret).await?),
        Some(None) => Ok(Err(Unknown::Invalid)),
        None => Ok(Err(Unknown::Nothing)),
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
        match app.engine.thread(thread).await {
            Err(EngineError::NoThread(_)) => Err(missing()),
            Ok(row) if !self.sees(&row.view.workspace, &row.view.owner) => Err(missing()),
            row => Ok(row?),
        }
    }

    /// A run of a thread that the caller may see.
    pub async fn run(&self, app: &Shared, run: &RunId) -> Result<RunRow, Problem> {
        let missing = || Problem::not_found(format!("run `{run}`"));
        match app.engine.run_row(run).await {
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
            true => app.accounts.refresh().await?.find(&user),
            false => None,
        };
        match found.filter(|found| found.workspace == self.workspace()) {
            Some(_) => Ok(user),
            None => Err(Problem::not_found(format!("user `{user}`"))),
        }
    }
}
