//! Sessions: a short-lived access token identifies the session, and refresh tokens (`refresh.rs`) extend it.
//!
//! A token only names its session. The session and its user are looked up for each request, so that ending a session
//! takes effect immediately.

mod refresh;
pub mod session;
pub mod signing;
pub mod token;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use windlass::machine::{Principal, Timestamp};
use windlass::port::journal::StoreError;
use windlass::port::records::{Expect, Record, RecordChange, RecordError};

use super::audit::Note;
use super::error::AccountError;
use crate::account::sessions::session::{
    ACCESS_S, Client, FirstRefresh, GUEST_S, LASTING_S, PREFIX, REFRESH_S, SESSION, SESSIONS_MAX, Session,
    Tokens, ends_in, later,
};

use super::record::{put, read};
use super::{Accounts, Credential, Identity, Unknown, secret};
use crate::account::people::user::{PEOPLE, User};
use crate::account::sessions::token::{Purpose, Read, SIGNING_KEY};

#[derive(Serialize, Deserialize)]
struct Access {
    sub: Principal,
    sid: String,
}

impl Accounts {
    /// Opens a session of a user, in one transaction with the given changes.
    pub(super) async fn open_session(
        &self,
        user: &Arc<User>,
        client: &Client,
        first: FirstRefresh,
        mut changes: Vec<RecordChange>,
        note: Note,
    ) -> Result<Tokens, RecordError> {
        let now = self.clock.now();
        let (lasts_s, access_s) = match first {
            FirstRefresh::Now => (REFRESH_S, ACCESS_S),
            // A session ends with its access token if the client never requests the refresh token.
            FirstRefresh::OnRequest => (ACCESS_S, ACCESS_S),
            FirstRefresh::Never => (LASTING_S, LASTING_S),
            FirstRefresh::Guest => (GUEST_S, GUEST_S),
        };
        let session = Session {
            id: format!("{PREFIX}{}", secret::draw::<9>()),
            user: user.id.clone(),
            created_at: now,
            seen_at: now,
            expires_at: later(now, lasts_s),
            agent: client.agent.clone(),
            from: client.from.map(|address| address.to_string()),
            awaits_refresh: first == FirstRefresh::OnRequest,
            guest: first == FirstRefresh::Guest,
        };
        changes.push(put(SESSION, &session.id, user.id.as_str(), &session, Expect::Absent));
        let refresh = match first {
            FirstRefresh::Now => {
                let (refresh, kept) = self.next_refresh(&session).await?;
                changes.push(kept);
                Some(refresh)
            }
            FirstRefresh::OnRequest | FirstRefresh::Never | FirstRefresh::Guest => None,
        };
        let surplus = self.surplus(&user.id, now).await?;
        changes.extend(surplus.iter().map(|id| RecordChange::delete(SESSION, id, Expect::Any)));
        let ended = ends_in(&changes);
        let note = note.actor(&user.id).from(client.from).with("session", session.id.as_str());
        self.commit(changes, note).await?;
        self.forget_sessions(&ended).await?;
        self.refresh().await?;
        let access = self.access(&session, access_s).await?;
        Ok(Tokens { access, refresh, session: session.id, user: user.clone() })
    }

    /// Creates an access token for a session, with its lifetime in seconds.
    pub(super) async fn access(&self, session: &Session, seconds: u64) -> Result<String, StoreError> {
        let about = Access { sub: session.user.clone(), sid: session.id.clone() };
        self.signer().await?.sign(Purpose::Access, about, self.clock.now(), seconds)
    }

    /// Authenticates an access token.
    pub async fn by_token(&self, token: &str) -> Result<Result<Identity, Unknown>, StoreError> {
        let [keys, sessions, people] = self.changes([SIGNING_KEY, SESSION, PEOPLE]).await?;
        let signer = self.signer_at(keys).await?;
        let access = match signer.read::<Access>(Purpose::Access, token, self.clock.now()) {
            Some(Read::Valid(access)) => access,
            Some(Read::Expired) => return Ok(Err(Unknown::Expired)),
            None => return Ok(Err(Unknown::Invalid)),
        };
        let Some(session) = self.session(sessions, &access.sid).await? else {
            return Ok(Err(Unknown::Invalid));
        };
        if session.expires_at <= self.clock.now() {
            return Ok(Err(Unknown::Expired));
        }
        let user = self.refresh_to(people).await?.find(&session.user);
        Ok(match user.filter(|_| session.user == access.sub) {
            None => Err(Unknown::Invalid),
            Some(user) if !user.active => Err(Unknown::Deactivated),
            Some(user) => Ok(Identity {
                user: user.id.clone(),
                workspace: user.workspace.clone(),
                role: user.role,
                credential: match session.guest {
                    true => Credential::Guest(session.id.clone()),
                    false => Credential::Session(session.id.clone()),
                },
                settled_at: user.settled_at,
                from: None,
            }),
        })
    }

    async fn session(&self, changes: u64, id: &str) -> Result<Option<Arc<Session>>, StoreError> {
        if let Some(found) = self.memory.sessions.find(changes, id) {
            return Ok(found);
        }
        let session = self.records.get(SESSION, id).await?.map(read::<Session>).transpose()?.map(Arc::new);
        self.memory.sessions.keep(changes, id, session.clone());
        Ok(session)
    }

    /// Returns the active sessions of a user, most recently used first.
    pub async fn sessions(&self, user: &Principal) -> Result<Vec<Session>, StoreError> {
        let now = self.clock.now();
        let mut sessions = self.sessions_of(user).await?;
        sessions.retain(|session| session.expires_at > now);
        sessions.sort_by(|a, b| b.seen_at.cmp(&a.seen_at).then_with(|| a.id.cmp(&b.id)));
        Ok(sessions)
    }

    async fn sessions_of(&self, user: &Principal) -> Result<Vec<Session>, StoreError> {
        let records: Vec<Record> = self.every(SESSION, Some(user.as_str())).await?;
        records.into_iter().map(read).collect()
    }

    /// Returns the expired sessions of a user and, if the user has the maximum number, also the least recently used
    /// sessions.
    async fn surplus(&self, user: &Principal, now: Timestamp) -> Result<Vec<String>, StoreError> {
        let mut sessions = self.sessions_of(user).await?;
        sessions.sort_by_key(|session| (session.expires_at > now, session.seen_at));
        let over = (sessions.len() + 1).saturating_sub(SESSIONS_MAX);
        let gone = |(index, session): &(usize, Session)| *index < over || session.expires_at <= now;
        Ok(sessions.into_iter().enumerate().filter(gone).map(|(_, session)| session.id).collect())
    }

    /// Returns the changes that end a user's sessions, except the session `but`.
    pub(super) async fn session_ends(
        &self,
        user: &Principal,
        but: Option<&str>,
    ) -> Result<Vec<RecordChange>, StoreError> {
        let sessions = self.sessions_of(user).await?;
        let gone = sessions.iter().filter(|session| Some(session.id.as_str()) != but);
        let mut changes: Vec<RecordChange> =
            gone.map(|session| RecordChange::delete(SESSION, &session.id, Expect::Any)).collect();
        // The end of a guest's session frees the guest's slot.
        if but.is_none() {
            changes.extend(self.places_of(user).await?);
        }
        Ok(changes)
    }

    /// Ends one session of the caller.
    pub async fn end_session(&self, identity: &Identity, id: &str) -> Result<(), AccountError> {
        let own = self.sessions_of(&identity.user).await?.into_iter().any(|session| session.id == id);
        if !own {
            return Err(AccountError::Missing(format!("session `{id}`")));
        }
        let gone = RecordChange::delete(SESSION, id, Expect::Any);
        self.commit(vec![gone], Note::by(identity, "logout").on(id)).await?;
        Ok(self.forget_refreshes(id).await?)
    }

    /// Ends one or all sessions of a member of the caller's workspace. Returns the number of ended sessions.
    pub async fn end_sessions_of(
        &self,
        identity: &Identity,
        user: &Principal,
        id: Option<&str>,
    ) -> Result<usize, AccountError> {
        self.member(&identity.workspace, user).await?;
        let gone: Vec<RecordChange> = match id {
            None => self.session_ends(user, None).await?,
            Some(id) => {
                let all = self.session_ends(user, None).await?;
                all.into_iter().filter(|change| change.key == id).collect()
            }
        };
        if let Some(id) = id.filter(|_| gone.is_empty()) {
            return Err(AccountError::Missing(format!("session `{id}`")));
        }
        let ended = ends_in(&gone);
        let note = Note::by(identity, "member.signed_out").on(user.as_str()).with("sessions", ended.len());
        self.commit(gone, note).await?;
        self.forget_sessions(&ended).await?;
        Ok(ended.len())
    }

    /// Ends all sessions of the caller, except the session `but` if given.
    pub async fn end_sessions(&self, identity: &Identity, but: Option<&str>) -> Result<(), AccountError> {
        let gone = self.session_ends(&identity.user, but).await?;
        let ended = ends_in(&gone);
        self.commit(gone, Note::by(identity, "logout.all").with("sessions", ended.len())).await?;
        Ok(self.forget_sessions(&ended).await?)
    }

    /// Ends sessions that were opened concurrently with a change that ended all sessions: their credential is no longer
    /// valid.
    pub(super) async fn end_latecomers(
        &self,
        user: &Principal,
        but: Option<&str>,
    ) -> Result<(), RecordError> {
        let gone = self.session_ends(user, but).await?;
        let ended = ends_in(&gone);
        self.records.apply(gone).await?;
        Ok(self.forget_sessions(&ended).await?)
    }

    /// Removes the refresh tokens of sessions that have ended.
    pub(super) async fn forget_sessions(&self, ended: &[String]) -> Result<(), StoreError> {
        for id in ended {
            self.forget_refreshes(id).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::login::trial::Trial;

    const ELSEWHERE: Client = Client { from: None, agent: None };
    const INVALID: &str = "the credential is invalid";

    #[tokio::test]
    async fn a_user_has_so_many_sessions_and_no_more() {
        let trial = Trial::new();
        let (user, first) = trial.member().await;
        for _ in 0..SESSIONS_MAX {
            trial.clock.advance_ms(1);
            let note = Note::new("default", "login");
            trial
                .accounts
                .open_session(&user, &ELSEWHERE, FirstRefresh::Now, Vec::new(), note)
                .await
                .unwrap();
        }
        assert_eq!(trial.accounts.sessions(&user.id).await.unwrap().len(), SESSIONS_MAX);
        assert_eq!(trial.who(&first).await.unwrap_err(), INVALID);
    }

    #[tokio::test]
    async fn what_another_process_ends_has_ended_here() {
        let trial = Trial::new();
        let (user, tokens) = trial.member().await;
        assert!(trial.who(&tokens).await.is_ok());
        let gone = trial.accounts.session_ends(&user.id, None).await.unwrap();
        // Bypasses these accounts, so that the cache must detect the change itself.
        trial.accounts.records.apply(gone).await.unwrap();
        assert_eq!(trial.who(&tokens).await.unwrap_err(), INVALID);
    }
}
