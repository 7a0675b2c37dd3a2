//! Sessions: a short access token that names one, and refresh tokens that are each good once.
//!
//! A refresh token that comes a second time was copied: the session ends, for the thief and for its owner. Only within
//! some seconds is it taken for two tabs of one browser, which race: then the second one gets an access token and
//! nothing that outlives it, since the browser has the next refresh token already.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use windlass::machine::{Principal, Timestamp};
use windlass::port::journal::StoreError;
use windlass::port::records::{Expect, Record, RecordChange, RecordError};

use super::audit::Note;
use super::error::AccountError;
use super::record::{put, read};
use super::token::{Purpose, Read};
use super::user::User;
use super::{Accounts, Credential, Identity, Unknown, secret};

/// The kind of sessions, by id; their owner is the user.
pub(super) const SESSION: &str = "session";
/// The kind of refresh tokens, by digest; their owner is the session.
const REFRESH: &str = "refresh";

/// How long an access token counts, in seconds. (SK-P8)
pub const ACCESS_S: u64 = 15 * 60;
/// How long a refresh token counts, in seconds. (SK-P8)
pub const REFRESH_S: u64 = 7 * 24 * 3_600;
/// How long a session may be refreshed at most, in seconds.
const SESSION_MAX_S: u64 = 90 * 24 * 3_600;
/// How long after it was used a refresh token is taken for that of another tab.
const RACE_MS: u64 = 10_000;
/// Sessions of a user: every browser and program, with room. The one not used for longest ends for a new one.
const SESSIONS_MAX: usize = 50;
/// Used refresh tokens that a session remembers: two days of them, and no end where a program refreshes in a loop.
const REMEMBERED: usize = 200;
/// Sessions in memory.
const CACHED: usize = 10_000;

/// A session as it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// Its id.
    pub id: String,
    /// Whose it is.
    pub user: Principal,
    /// When somebody signed in.
    pub created_at: Timestamp,
    /// When it was last refreshed.
    pub seen_at: Timestamp,
    /// The moment from which it no longer counts.
    pub expires_at: Timestamp,
    /// The program that signed in, as it names itself.
    pub agent: Option<String>,
    /// The address that it signed in from.
    pub from: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Refresh {
    session: String,
    expires_at: Timestamp,
    /// When the next one was given for it.
    used_at: Option<Timestamp>,
}

#[derive(Serialize, Deserialize)]
struct Access {
    sub: Principal,
    sid: String,
}

/// Where a request comes from.
#[derive(Clone, Debug, Default)]
pub struct Client {
    /// The address of the connection.
    pub from: Option<IpAddr>,
    /// The program, as it names itself.
    pub agent: Option<String>,
}

/// What whoever signed in is given. Shown to nobody else, and never logged.
pub struct Tokens {
    /// The access token.
    pub access: String,
    /// The refresh token; none where the browser has it already.
    pub refresh: Option<String>,
    /// The account.
    pub user: Arc<User>,
}

/// Sessions as they were last read, for one state of the records.
#[derive(Debug, Default)]
pub struct Cache(Mutex<(u64, HashMap<String, Option<Arc<Session>>>)>);

impl Cache {
    fn find(&self, changes: u64, id: &str) -> Option<Option<Arc<Session>>> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.0 == changes { known.1.get(id).cloned() } else { None }
    }

    fn keep(&self, changes: u64, id: &str, session: Option<Arc<Session>>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.0 < changes {
            *known = (changes, HashMap::new());
        }
        // Read at an older state: somebody else knows better.
        if known.0 == changes && known.1.len() < CACHED {
            known.1.insert(id.to_owned(), session);
        }
    }
}

impl Accounts {
    /// Begins a session of a user, with other changes that belong to it.
    pub(super) async fn open_session(
        &self,
        user: &Arc<User>,
        client: &Client,
        mut changes: Vec<RecordChange>,
        note: Note,
    ) -> Result<Tokens, RecordError> {
        let now = self.clock.now();
        let session = Session {
            id: format!("ses_{}", secret::draw::<9>()),
            user: user.id.clone(),
            created_at: now,
            seen_at: now,
            expires_at: later(now, REFRESH_S),
            agent: client.agent.clone(),
            from: client.from.map(|address| address.to_string()),
        };
        let refresh = secret::draw::<48>();
        changes.push(put(SESSION, &session.id, user.id.as_str(), &session, Expect::Absent));
        changes.push(self.refresh_record(&refresh, &session, now));
        let surplus = self.surplus(&user.id, now).await?;
        changes.extend(surplus.iter().map(|id| RecordChange::delete(SESSION, id, Expect::Any)));
        let note = note.actor(&user.id).from(client.from).with("session", session.id.as_str());
        self.commit(changes, note).await?;
        for id in surplus {
            self.forget_refreshes(&id).await?;
        }
        self.refresh().await?;
        let access = self.access(&session).await?;
        Ok(Tokens { access, refresh: Some(refresh), user: user.clone() })
    }

    fn refresh_record(&self, token: &str, session: &Session, now: Timestamp) -> RecordChange {
        let expires_at = later(now, REFRESH_S).min(later(session.created_at, SESSION_MAX_S));
        let refresh = Refresh { session: session.id.clone(), expires_at, used_at: None };
        put(REFRESH, &secret::hash(token), &session.id, &refresh, Expect::Absent)
    }

    async fn access(&self, session: &Session) -> Result<String, StoreError> {
        let about = Access { sub: session.user.clone(), sid: session.id.clone() };
        self.signer().await?.sign(Purpose::Access, about, self.clock.now(), ACCESS_S)
    }

    /// Gives the next tokens for a refresh token, once.
    pub async fn refresh_session(&self, token: &str, client: &Client) -> Result<Tokens, AccountError> {
        loop {
            let Some(record) = self.records.get(REFRESH, &secret::hash(token)).await? else {
                return Err(Unknown::Invalid.into());
            };
            let (key, version) = (record.key.clone(), record.version);
            let refresh: Refresh = read(record)?;
            let now = self.clock.now();
            let Some(record) = self.records.get(SESSION, &refresh.session).await? else {
                return Err(Unknown::Invalid.into());
            };
            let session_version = record.version;
            let mut session: Session = read(record)?;
            let user = self.refresh().await?.find(&session.user).ok_or(Unknown::Invalid)?;
            if !user.active {
                return Err(Unknown::Deactivated.into());
            }
            if refresh.expires_at <= now || session.expires_at <= now {
                return Err(Unknown::Expired.into());
            }
            match refresh.used_at {
                Some(used_at) if now.0.saturating_sub(used_at.0) <= RACE_MS => {
                    return Ok(Tokens { access: self.access(&session).await?, refresh: None, user });
                }
                Some(_) => {
                    let note = Note::new(&user.workspace, "session.reuse").on(&session.id);
                    let note = note.actor(&user.id).from(client.from);
                    let gone = RecordChange::delete(SESSION, &session.id, Expect::Any);
                    self.commit(vec![gone], note).await?;
                    self.forget_refreshes(&session.id).await?;
                    return Err(Unknown::Invalid.into());
                }
                None => {}
            }
            let next = secret::draw::<48>();
            let used = Refresh { used_at: Some(now), ..refresh };
            session.seen_at = now;
            session.expires_at = later(now, REFRESH_S).min(later(session.created_at, SESSION_MAX_S));
            let mut changes = vec![
                put(REFRESH, &key, &session.id, &used, Expect::Version(version)),
                put(SESSION, &session.id, user.id.as_str(), &session, Expect::Version(session_version)),
                self.refresh_record(&next, &session, now),
            ];
            changes.extend(self.old_refreshes(&session.id, &key, now).await?);
            match self.records.apply(changes).await {
                // Another tab was first: what it left is looked at again.
                Err(RecordError::Conflict { .. }) => {}
                Err(error) => return Err(error.into()),
                Ok(_) => {
                    return Ok(Tokens { access: self.access(&session).await?, refresh: Some(next), user });
                }
            }
        }
    }

    /// Used refresh tokens of a session that need not be remembered any longer.
    async fn old_refreshes(
        &self,
        session: &str,
        but: &str,
        now: Timestamp,
    ) -> Result<Vec<RecordChange>, StoreError> {
        let mut used = Vec::new();
        for record in self.every(REFRESH, Some(session)).await? {
            let key = record.key.clone();
            let refresh: Refresh = read(record)?;
            if let Some(at) = refresh.used_at.filter(|_| key != but) {
                used.push((at, key));
            }
        }
        used.sort();
        let surplus = used.len().saturating_sub(REMEMBERED);
        let old = |index: usize, at: Timestamp| index < surplus || later(at, REFRESH_S) <= now;
        let gone = used.iter().enumerate().filter(|(index, (at, _))| old(*index, *at));
        Ok(gone.map(|(_, (_, key))| RecordChange::delete(REFRESH, key, Expect::Any)).collect())
    }

    /// Removes what is left of sessions that have ended. They count for nothing already.
    pub(super) async fn forget_refreshes(&self, session: &str) -> Result<(), StoreError> {
        let records = self.every(REFRESH, Some(session)).await?;
        let gone = records.iter().map(|record| RecordChange::delete(REFRESH, &record.key, Expect::Any));
        match self.records.apply(gone.collect()).await {
            Ok(_) | Err(RecordError::Conflict { .. }) => Ok(()),
            Err(RecordError::Store(error)) => Err(error),
        }
    }

    /// Who comes with an access token.
    pub async fn by_token(&self, token: &str) -> Result<Result<Identity, Unknown>, StoreError> {
        let access = match self.signer().await?.read::<Access>(Purpose::Access, token, self.clock.now()) {
            Some(Read::Valid(access)) => access,
            Some(Read::Expired) => return Ok(Err(Unknown::Expired)),
            None => return Ok(Err(Unknown::Invalid)),
        };
        let changes = self.records.changes().await?;
        let Some(session) = self.session(changes, &access.sid).await? else {
            return Ok(Err(Unknown::Invalid));
        };
        if session.expires_at <= self.clock.now() {
            return Ok(Err(Unknown::Expired));
        }
        let user = self.refresh_to(changes).await?.find(&session.user);
        Ok(match user.filter(|_| session.user == access.sub) {
            None => Err(Unknown::Invalid),
            Some(user) if !user.active => Err(Unknown::Deactivated),
            Some(user) => Ok(Identity {
                user: user.id.clone(),
                workspace: user.workspace.clone(),
                role: user.role,
                credential: Credential::Session(session.id.clone()),
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

    /// The sessions of a user that count, the newest first.
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

    /// Sessions that have expired, and the ones not used for longest where there are too many for one more.
    async fn surplus(&self, user: &Principal, now: Timestamp) -> Result<Vec<String>, StoreError> {
        let mut sessions = self.sessions_of(user).await?;
        sessions.sort_by_key(|session| (session.expires_at > now, session.seen_at));
        let over = (sessions.len() + 1).saturating_sub(SESSIONS_MAX);
        let gone = |(index, session): &(usize, Session)| *index < over || session.expires_at <= now;
        Ok(sessions.into_iter().enumerate().filter(gone).map(|(_, session)| session.id).collect())
    }

    /// What ends a user's sessions, but for one.
    pub(super) async fn session_ends(
        &self,
        user: &Principal,
        but: Option<&str>,
    ) -> Result<Vec<RecordChange>, StoreError> {
        let sessions = self.sessions_of(user).await?;
        let gone = sessions.iter().filter(|session| Some(session.id.as_str()) != but);
        Ok(gone.map(|session| RecordChange::delete(SESSION, &session.id, Expect::Any)).collect())
    }

    /// Ends one session of whoever asks.
    pub async fn end_session(&self, identity: &Identity, id: &str) -> Result<(), AccountError> {
        let own = self.sessions_of(&identity.user).await?.into_iter().any(|session| session.id == id);
        if !own {
            return Err(AccountError::Missing(format!("session `{id}`")));
        }
        let gone = RecordChange::delete(SESSION, id, Expect::Any);
        self.commit(vec![gone], Note::by(identity, "logout").on(id)).await?;
        Ok(self.forget_refreshes(id).await?)
    }

    /// Gives a session of whoever asks a refresh token in the place of all that it had: for a client that was given only
    /// an access token when it signed in.
    pub async fn issue_refresh(&self, identity: &Identity, id: &str) -> Result<String, AccountError> {
        let session = self.sessions_of(&identity.user).await?.into_iter().find(|session| session.id == id);
        let session = session.ok_or_else(|| AccountError::Missing(format!("session `{id}`")))?;
        self.forget_refreshes(id).await?;
        let token = secret::draw::<48>();
        self.records.apply(vec![self.refresh_record(&token, &session, self.clock.now())]).await?;
        Ok(token)
    }

    /// Ends the session that a refresh token belongs to, whose access token may have expired.
    pub async fn end_by_refresh(&self, token: &str) -> Result<(), AccountError> {
        let Some(record) = self.records.get(REFRESH, &secret::hash(token)).await? else { return Ok(()) };
        let refresh: Refresh = read(record)?;
        let Some(record) = self.records.get(SESSION, &refresh.session).await? else { return Ok(()) };
        let session: Session = read(record)?;
        let Some(user) = self.refresh().await?.find(&session.user) else { return Ok(()) };
        let note = Note::new(&user.workspace, "logout").actor(&user.id).on(&session.id);
        self.commit(vec![RecordChange::delete(SESSION, &session.id, Expect::Any)], note).await?;
        Ok(self.forget_refreshes(&session.id).await?)
    }

    /// Signs out everywhere: ends every session of whoever asks, or every one but theirs.
    pub async fn end_sessions(&self, identity: &Identity, but: Option<&str>) -> Result<(), AccountError> {
        let gone = self.session_ends(&identity.user, but).await?;
        let ids: Vec<String> = gone.iter().map(|change| change.key.clone()).collect();
        self.commit(gone, Note::by(identity, "logout.all").with("sessions", ids.len())).await?;
        for id in ids {
            self.forget_refreshes(&id).await?;
        }
        Ok(())
    }
}

fn later(at: Timestamp, seconds: u64) -> Timestamp {
    Timestamp(at.0.saturating_add(seconds * 1_000))
}

#[cfg(test)]
mod tests {
    use super::super::trial::Trial;
    use super::*;

    const ELSEWHERE: Client = Client { from: None, agent: None };

    async fn refreshed(trial: &Trial, token: &Option<String>) -> Result<Tokens, String> {
        let token = token.as_deref().unwrap();
        trial.accounts.refresh_session(token, &ELSEWHERE).await.map_err(|error| error.to_string())
    }

    const INVALID: &str = "the credential is not valid";

    // rows: SK-P8
    #[tokio::test]
    async fn a_refresh_token_is_good_once_and_a_second_use_ends_the_session() {
        let trial = Trial::new();
        let (_, first) = trial.member().await;
        assert_eq!(first.refresh.as_ref().map(String::len), Some(64), "48 bytes in base64");
        let second = refreshed(&trial, &first.refresh).await.unwrap();
        assert_ne!(second.refresh, first.refresh);
        let third = refreshed(&trial, &second.refresh).await.unwrap();
        trial.clock.advance_ms(RACE_MS + 1);
        assert!(trial.who(&third).await.is_ok());
        assert_eq!(refreshed(&trial, &first.refresh).await.err().as_deref(), Some(INVALID));
        // The thief has nothing, and neither has the owner, who notices.
        assert_eq!(trial.who(&third).await.unwrap_err(), INVALID);
        assert_eq!(refreshed(&trial, &third.refresh).await.err().as_deref(), Some(INVALID));
        let log = trial.accounts.audit_before("default", None, 1).await.unwrap();
        assert_eq!(log[0].action, "session.reuse");
        // Nothing is left of it.
        assert_eq!(trial.accounts.every(REFRESH, None).await.unwrap(), []);
    }

    #[tokio::test]
    async fn a_second_tab_is_no_thief() {
        let trial = Trial::new();
        let (_, first) = trial.member().await;
        let (one, other) = tokio::join!(refreshed(&trial, &first.refresh), refreshed(&trial, &first.refresh));
        let (one, other) = (one.unwrap(), other.unwrap());
        // One of them gets the next refresh token; both may go on.
        assert_eq!([&one, &other].iter().filter(|tokens| tokens.refresh.is_some()).count(), 1);
        assert!(trial.who(&one).await.is_ok() && trial.who(&other).await.is_ok());
        let next = one.refresh.or(other.refresh);
        assert!(refreshed(&trial, &next).await.is_ok());
    }

    #[tokio::test]
    async fn tokens_end() {
        let trial = Trial::new();
        let (_, first) = trial.member().await;
        trial.clock.advance_ms(ACCESS_S * 1_000);
        assert_eq!(trial.who(&first).await.unwrap_err(), "the credential has expired");
        let second = refreshed(&trial, &first.refresh).await.unwrap();
        assert!(trial.who(&second).await.is_ok());
        trial.clock.advance_ms(REFRESH_S * 1_000);
        assert_eq!(refreshed(&trial, &second.refresh).await.err().unwrap(), "the credential has expired");
    }

    #[tokio::test]
    async fn a_session_ends_however_often_it_is_refreshed() {
        let trial = Trial::new();
        let (user, mut tokens) = trial.member().await;
        let day_ms = 24 * 3_600 * 1_000;
        for _ in 0..SESSION_MAX_S * 1_000 / day_ms / 6 {
            trial.clock.advance_ms(6 * day_ms - 1);
            tokens = refreshed(&trial, &tokens.refresh).await.unwrap();
        }
        // What was used long ago is forgotten.
        assert!(trial.accounts.every(REFRESH, None).await.unwrap().len() <= 4);
        trial.clock.advance_ms(day_ms);
        assert!(refreshed(&trial, &tokens.refresh).await.is_err());
        assert_eq!(trial.accounts.sessions(&user.id).await.unwrap(), []);
    }

    #[tokio::test]
    async fn a_user_has_so_many_sessions_and_no_more() {
        let trial = Trial::new();
        let (user, first) = trial.member().await;
        for _ in 0..SESSIONS_MAX {
            trial.clock.advance_ms(1);
            let note = Note::new("default", "login");
            trial.accounts.open_session(&user, &ELSEWHERE, Vec::new(), note).await.unwrap();
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
        // Not through these accounts: whatever is cached must notice by itself.
        trial.accounts.records.apply(gone).await.unwrap();
        assert_eq!(trial.who(&tokens).await.unwrap_err(), INVALID);
    }
}
