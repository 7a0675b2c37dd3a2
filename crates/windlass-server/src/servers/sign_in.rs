//! Signing in to an MCP server: only the user who starts a sign-in can finish it, once; waiting calls then resume.
//!
//! The library implements the protocol (state, PKCE, issuer). This module decides who may finish a sign-in.

use windlass::machine::{Answer, InterruptId, InterruptKind, Party, Principal, ThreadId};
use windlass::mcp::{McpError, SignInPage, SignInReturn};
use windlass::outbound::Url;
use windlass::port::journal::ThreadQuery;
use windlass::port::records::RecordError;
use windlass::{Engine, EngineError};

use super::Servers;

/// Number of threads read per query.
const PAGE: usize = 100;

/// The reason why a sign-in cannot be started or finished.
#[derive(Debug, thiserror::Error)]
pub enum SignInError {
    /// The MCP client or the server failed.
    #[error(transparent)]
    Mcp(#[from] McpError),
    /// The sign-in was never started, has expired, or is already finished.
    #[error("the sign-in is unknown or has expired; start it again")]
    Unknown,
    /// Another user has started the sign-in.
    #[error("another user started this sign-in; start your own")]
    Another,
    /// The authorization server rejected the sign-in.
    #[error("the authorization server rejected the sign-in: {0}")]
    Refused(String),
    #[error(transparent)]
    Record(#[from] RecordError),
}

/// An unfinished sign-in, as seen by a user who may finish it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenSignIn {
    /// Name of the server.
    pub server: String,
    pub begun: BegunBy,
}

/// The user or call that started a sign-in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BegunBy {
    /// The user who finishes it.
    Oneself,
    /// A call in a thread of this user, which showed the sign-in URL. `None` if the call no longer waits.
    Call(Option<Principal>),
}

/// A call that waits for a sign-in.
pub struct SignInCall {
    pub thread: ThreadId,
    pub workspace: String,
    owner: Principal,
    pub interrupt: InterruptId,
    url: String,
}

impl Servers {
    /// Starts a sign-in that only the same user can finish. It also requests the scopes that waiting calls need.
    pub async fn begin_sign_in(&self, name: &str, by: &Principal) -> Result<SignInPage, SignInError> {
        let wanted = match self.engine.get() {
            // If the scopes cannot be read, do not request them. The call then requires another sign-in.
            Some(engine) => wanted_scopes(engine, name).await.unwrap_or_default(),
            None => Vec::new(),
        };
        self.begin_sign_in_for(name, by, &wanted).await
    }

    /// Starts a sign-in with additional scopes.
    pub async fn begin_sign_in_for(
        &self,
        name: &str,
        by: &Principal,
        scopes: &[String],
    ) -> Result<SignInPage, SignInError> {
        let page = self.hub.begin_sign_in_for(name, scopes).await?;
        // Return the page only after the store has its owner, so that no browser can use the page earlier.
        self.tokens.begin(name, &page.state, by.as_str()).await?;
        Ok(page)
    }

    /// Finds a sign-in by its state parameter. If a call of a run started it, any operator may finish it. If a user
    /// started it, only that user may.
    pub async fn open_sign_in(&self, state: &str, by: &Principal) -> Result<OpenSignIn, SignInError> {
        let server = self.of_state(state).await.ok_or(SignInError::Unknown)?;
        let begun = match self.tokens.begun_by(&server, state).await.map_err(RecordError::from)? {
            Some(person) if person == by.as_str() => BegunBy::Oneself,
            Some(_) => return Err(SignInError::Another),
            None => BegunBy::Call(self.caller(&server, state).await),
        };
        Ok(OpenSignIn { server, begun })
    }

    /// Returns the server of an unfinished sign-in.
    async fn of_state(&self, state: &str) -> Option<String> {
        for status in self.hub.status() {
            if self.tokens.has_begun(&status.name, state).await {
                return Some(status.name);
            }
        }
        None
    }

    /// Returns the owner of the call that waits for this sign-in.
    async fn caller(&self, server: &str, state: &str) -> Option<Principal> {
        // If the lookup fails, show no owner.
        let waiting = waiting(self.engine.get()?, server).await.ok()?;
        let is_it = |url: &str| {
            let url = Url::parse(url).ok();
            url.is_some_and(|url| url.query_pairs().any(|(name, value)| name == "state" && value == state))
        };
        waiting.into_iter().find(|it| is_it(&it.url)).map(|it| it.owner)
    }

    /// Finishes a sign-in with the parameters of the redirect, and returns the server's name. The caller must have
    /// confirmed the user's intent: another person could have sent a link with an authorization code for that person's
    /// account.
    pub async fn finish_sign_in(&self, back: &SignInReturn, by: &Party) -> Result<String, SignInError> {
        let open = self.open_sign_in(&back.state, &by.principal).await?;
        let finished = self.hub.finish_sign_in(&open.server, back).await;
        // An authorization response is valid only once, even if the exchange of its code fails.
        self.tokens.end(&open.server, &back.state).await?;
        finished?;
        self.answer_waiting_calls(&open.server, by).await;
        Ok(open.server)
    }

    /// Answers all calls that wait for this sign-in, in the name of the user who signed in. Returns whether the calls
    /// could be listed.
    pub(super) async fn answer_waiting_calls(&self, server: &str, by: &Party) -> bool {
        let Some(engine) = self.engine.get() else { return false };
        let waiting = match waiting(engine, server).await {
            Ok(waiting) => waiting,
            Err(error) => {
                tracing::warn!(%error, server, "calls that wait for a sign-in could not be listed");
                return false;
            }
        };
        for SignInCall { thread, workspace, interrupt, .. } in waiting {
            let party = Party { workspace, ..by.clone() };
            let answer = Answer::Reply(Box::default());
            let answered = engine.thread(&thread).answer(&interrupt, answer, party).await;
            told(answered.err(), server, &interrupt.to_string());
        }
        true
    }
}

/// Returns the scopes that calls waiting for a sign-in need, from the URLs of their interrupts.
pub async fn wanted_scopes(engine: &Engine, server: &str) -> Result<Vec<String>, EngineError> {
    let mut scopes = Vec::new();
    for SignInCall { url, .. } in waiting(engine, server).await? {
        let Ok(url) = Url::parse(&url) else { continue };
        let asked = url.query_pairs().find(|(name, _)| name == "scope");
        for scope in asked.iter().flat_map(|(_, value)| value.split(' ')).filter(|scope| !scope.is_empty()) {
            if !scopes.iter().any(|known| known == scope) {
                scopes.push(scope.to_owned());
            }
        }
    }
    Ok(scopes)
}

/// Returns the calls that wait for a sign-in to the server. Excludes calls that wait for a page that the server asked
/// the user to open.
pub async fn waiting(engine: &Engine, wanted: &str) -> Result<Vec<SignInCall>, EngineError> {
    let mut query = ThreadQuery { limit: PAGE, ..ThreadQuery::default() };
    let mut found = Vec::new();
    loop {
        let page = engine.waiting(&query).await?;
        let Some(last) = page.last().map(|waiting| &waiting.thread) else { return Ok(found) };
        query.before = Some((last.view.updated_at, last.thread.clone()));
        let is_last = page.len() < PAGE;
        for waiting in page {
            let row = waiting.thread;
            for open in waiting.open.into_iter().flatten() {
                let InterruptKind::SignIn { server, url, message: None } = open.kind else { continue };
                if server == wanted {
                    let (thread, workspace) = (row.thread.clone(), row.view.workspace.clone());
                    let (owner, interrupt) = (row.view.owner.clone(), open.interrupt);
                    found.push(SignInCall { thread, workspace, owner, interrupt, url });
                }
            }
        }
        if is_last {
            return Ok(found);
        }
    }
}

fn told(error: Option<EngineError>, server: &str, interrupt: &str) {
    match error {
        None => tracing::info!(server, interrupt, "a call resumes after a sign-in"),
        // Another process has answered the call first.
        Some(EngineError::Rejected(reject)) => tracing::debug!(server, interrupt, %reject, "not answered"),
        Some(error) => {
            tracing::warn!(server, interrupt, %error, "a call that waits for a sign-in could not be answered")
        }
    }
}
