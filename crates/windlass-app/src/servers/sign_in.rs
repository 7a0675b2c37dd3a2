//! Signing in at a tool server: begun for somebody, ended once by the same, and what waited for it goes on.
//!
//! The protocol (state, PKCE, issuer) is the library's. Here stands who may end what was begun.

use windlass::EngineError;
use windlass::adapter::mcp::{McpError, SignInPage, SignInReturn};
use windlass::machine::{Answer, Digest, InterruptKind, Party, Principal};
use windlass::port::journal::ThreadQuery;
use windlass::port::records::{Expect, RecordError};

use super::Servers;
use super::tokens::SIGN_IN_MS;

/// The kind of the records that say who began a sign-in: the key is the digest of its state, the owner the person.
const FLOW: &str = "mcp_flow";
/// Begun sign-ins of one person that are remembered: beyond it the oldest counts no more.
const FLOWS_MAX: usize = 50;
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

impl Servers {
    /// Begins a sign-in, which only the same person ends.
    pub async fn begin_sign_in(&self, name: &str, by: &Principal) -> Result<SignInPage, SignInError> {
        let page = self.hub.begin_sign_in(name).await?;
        let owner = by.to_string();
        let mut open =
            self.records.list(FLOW, Some(&owner), None, FLOWS_MAX * 2).await.map_err(RecordError::from)?;
        open.sort_by_key(|record| record.updated_at);
        let surplus = (open.len() + 1).saturating_sub(FLOWS_MAX);
        for (index, record) in open.iter().enumerate() {
            let age_ms = self.clock.now().0.saturating_sub(record.updated_at.0);
            if index < surplus || age_ms > SIGN_IN_MS {
                self.records.delete(FLOW, &record.key, Expect::Any).await?;
            }
        }
        let value = serde_json::json!({ "server": name });
        self.records.put(FLOW, &key(&page.state), &owner, value, Expect::Any).await?;
        Ok(page)
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

    /// Ends a sign-in with what a browser brought back; returns the server's name. One that a run's call has begun may be
    /// ended by whoever may sign in at all; one that a person has begun, by that person alone.
    pub async fn finish_sign_in(&self, back: &SignInReturn, by: &Party) -> Result<String, SignInError> {
        let name = self.of_state(&back.state).await.ok_or(SignInError::Unknown)?;
        let key = key(&back.state);
        let begun = self.records.get(FLOW, &key).await.map_err(RecordError::from)?;
        if begun.as_ref().is_some_and(|begun| begun.owner != by.principal.to_string()) {
            return Err(SignInError::Another);
        }
        // Used up before it is tried: what was brought back counts once, whatever comes of it.
        if begun.is_some() {
            self.records.delete(FLOW, &key, Expect::Any).await?;
        }
        self.hub.finish_sign_in(&name, back).await?;
        self.go_on(&name, by).await;
        Ok(name)
    }

    /// Answers every call that waits for this sign-in, in the name of whoever has signed in.
    pub(super) async fn go_on(&self, server: &str, by: &Party) {
        let Some(engine) = self.engine.get() else { return };
        let mut query = ThreadQuery { limit: PAGE, ..ThreadQuery::default() };
        loop {
            let page = match engine.waiting(&query).await {
                Ok(page) => page,
                Err(error) => return tracing::warn!(%error, server, "what waits for a sign-in is not found"),
            };
            let Some(last) = page.last().map(|waiting| &waiting.thread) else { return };
            query.before = Some((last.view.updated_at, last.thread.clone()));
            let is_last = page.len() < PAGE;
            for waiting in page {
                let thread = waiting.thread;
                let party = Party { workspace: thread.view.workspace.clone(), ..by.clone() };
                for open in waiting.open.into_iter().flatten().filter(|open| waits_for(&open.kind, server)) {
                    let answer = Answer::Reply(Box::default());
                    let answered =
                        engine.answer(&thread.thread, &open.interrupt, answer, party.clone()).await;
                    told(answered.err(), server, &open.interrupt.to_string());
                }
            }
            if is_last {
                return;
            }
        }
    }
}

/// Whether an interrupt waits for our sign-in there, and not for a page that the server itself wants opened.
fn waits_for(kind: &InterruptKind, wanted: &str) -> bool {
    matches!(kind, InterruptKind::SignIn { server, message: None, .. } if server == wanted)
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

/// What a begun sign-in is remembered by: the state itself is what a browser shows to be let in.
fn key(state: &str) -> String {
    Digest::of(state.as_bytes()).to_string()
}
