//! Signing in at a server: begun for somebody, ended once by the same, and what waited for it goes on.
//!
//! The protocol (state, PKCE, issuer) is the library's. Here stands who may end what was begun.

use windlass::machine::{Answer, InterruptId, InterruptKind, Party, Principal, ThreadId};
use windlass::mcp::{McpError, SignInPage, SignInReturn};
use windlass::outbound::Url;
use windlass::port::journal::ThreadQuery;
use windlass::port::records::RecordError;
use windlass::{Engine, EngineError};

use super::Servers;

/// Threads that are looked through at a time.
const PAGE: usize = 100;

/// Why a sign-in does not begin or end.
#[derive(Debug, thiserror::Error)]
pub enum SignInError {
    /// The library, or the far side.
    #[error(transparent)]
    Mcp(#[from] McpError),
    /// Nobody has begun it, or its time is over, or it has ended.
    #[error("no sign-in goes by this state, or no longer: begin it again")]
    Unknown,
    /// Somebody else has begun it.
    #[error("somebody else has begun this sign-in; begin one of your own")]
    Another,
    /// The far side did not let anybody in.
    #[error("the server's sign-in says: {0}")]
    Refused(String),
    /// The records.
    #[error(transparent)]
    Record(#[from] RecordError),
}

/// A sign-in that has begun and not ended, as it is for whoever may end it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenSignIn {
    /// The server.
    pub server: String,
    /// Who has begun it.
    pub begun: BegunBy,
}

/// Who has begun a sign-in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BegunBy {
    /// The same who may end it.
    Oneself,
    /// A call in a conversation of somebody's, who was shown where to sign in; `None`: it waits no more.
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
    /// Begins a sign-in, which only the same person ends. It asks for the scopes that waiting calls want.
    pub async fn begin_sign_in(&self, name: &str, by: &Principal) -> Result<SignInPage, SignInError> {
        let wanted = match self.engine.get() {
            // What is not found is not asked for: the call then asks again.
            Some(engine) => wanted_scopes(engine, name).await.unwrap_or_default(),
            None => Vec::new(),
        };
        self.begin_sign_in_for(name, by, &wanted).await
    }

    /// Begins a sign-in that asks for these scopes as well.
    pub async fn begin_sign_in_for(
        &self,
        name: &str,
        by: &Principal,
        scopes: &[String],
    ) -> Result<SignInPage, SignInError> {
        let page = self.hub.begin_sign_in_for(name, scopes).await?;
        // Until this is known nobody has seen the page.
        self.tokens.begin(name, &page.state, by.as_str()).await?;
        Ok(page)
    }

    /// A sign-in by its state. One that a run's call has begun is there for whoever may sign in at all; one that a
    /// person has begun, for that person alone.
    pub async fn open_sign_in(&self, state: &str, by: &Principal) -> Result<OpenSignIn, SignInError> {
        let server = self.of_state(state).await.ok_or(SignInError::Unknown)?;
        let begun = match self.tokens.begun_by(&server, state).await.map_err(RecordError::from)? {
            Some(person) if person == by.as_str() => BegunBy::Oneself,
            Some(_) => return Err(SignInError::Another),
            None => BegunBy::Call(self.caller(&server, state).await),
        };
        Ok(OpenSignIn { server, begun })
    }

    /// The server whose sign-in goes by a state.
    async fn of_state(&self, state: &str) -> Option<String> {
        for status in self.hub.status() {
            if self.tokens.has_begun(&status.name, state).await {
                return Some(status.name);
            }
        }
        None
    }

    /// Whose call waits for a sign-in by this state.
    async fn caller(&self, server: &str, state: &str) -> Option<Principal> {
        // What is not found is not named.
        let waiting = waiting(self.engine.get()?, server).await.ok()?;
        let is_it = |url: &str| {
            let url = Url::parse(url).ok();
            url.is_some_and(|url| url.query_pairs().any(|(name, value)| name == "state" && value == state))
        };
        waiting.into_iter().find(|it| is_it(&it.url)).map(|it| it.owner)
    }

    /// Ends a sign-in with what a browser brought back; returns the server's name. That whoever ends it means to, the
    /// caller knows: anybody can have a browser bring back what they were given for an account of theirs.
    pub async fn finish_sign_in(&self, back: &SignInReturn, by: &Party) -> Result<String, SignInError> {
        let open = self.open_sign_in(&back.state, &by.principal).await?;
        let finished = self.hub.finish_sign_in(&open.server, back).await;
        // What was brought back counts once, whatever comes of it.
        self.tokens.end(&open.server, &back.state).await?;
        finished?;
        self.go_on(&open.server, by).await;
        Ok(open.server)
    }

    /// Answers every call that waits for this sign-in, in the name of whoever has signed in. Says whether all
    /// were found.
    pub(super) async fn go_on(&self, server: &str, by: &Party) -> bool {
        let Some(engine) = self.engine.get() else { return false };
        let waiting = match waiting(engine, server).await {
            Ok(waiting) => waiting,
            Err(error) => {
                tracing::warn!(%error, server, "what waits for a sign-in is not found");
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

/// The scopes that calls which wait for a sign-in at a server want, by the addresses that they show.
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

/// The calls that wait for our sign-in at a server, and not for a page that the server itself wants opened.
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
        None => tracing::info!(server, interrupt, "a call goes on after a sign-in"),
        // Somebody was faster.
        Some(EngineError::Rejected(reject)) => tracing::debug!(server, interrupt, %reject, "not answered"),
        Some(error) => {
            tracing::warn!(server, interrupt, %error, "a call that waits for a sign-in is not answered")
        }
    }
}
