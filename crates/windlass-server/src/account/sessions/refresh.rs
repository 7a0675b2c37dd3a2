//! Refresh tokens. Each token is valid once, and contains its session's id with a keyed digest.
//!
//! A token that is used twice has been copied, so the session ends for both holders. This rule applies even if the
//! store has already deleted the used token. Within some seconds, a second use counts as a race of two browser tabs.
//! Then the second tab gets only an access token, because the browser already has the next refresh token.

use serde::{Deserialize, Serialize};
use windlass::machine::Timestamp;
use windlass::port::journal::StoreError;
use windlass::port::records::{Expect, RecordChange, RecordError};

use super::super::audit::Note;
use super::super::error::AccountError;
use super::super::record::{put, read};
use super::super::{Accounts, Identity, Unknown, secret};
use crate::account::people::user::User;
use crate::account::sessions::session::{
    ACCESS_S, Client, PREFIX, REFRESH, REFRESH_S, SESSION, SESSION_MAX_S, Session, Tokens, later,
};
use crate::account::sessions::token::Signer;

/// Lengths of a token's parts: session id, random part, and digest over both. 48 bytes in all. (SK-P8)
const LETTERS: [usize; 3] = [12, 32, 20];
/// Time after the first use of a refresh token during which a second use counts as a race of two tabs, in milliseconds.
const RACE_MS: u64 = 10_000;
/// Maximum number of used refresh tokens that a session remembers. The server recognizes a forgotten token by its
/// digest, and always treats its second use as a copy, even if two tabs race.
const REMEMBERED: usize = 200;
/// Maximum number of refreshes of a session per minute. The limit allows several refreshes for each tab of a browser
/// that wakes up, and is far below the number of remembered tokens.
const PER_MINUTE: usize = 20;
/// Time after a sign-in during which the client can request the first refresh token, in milliseconds.
const ISSUE_MS: u64 = 60_000;

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Refresh {
    session: String,
    expires_at: Timestamp,
    /// When the token was exchanged for the next token.
    used_at: Option<Timestamp>,
}

/// Generates a token for a session.
fn draw(signer: &Signer, session: &Session) -> String {
    let name = session.id.strip_prefix(PREFIX).unwrap_or(&session.id);
    let begins = format!("{name}{}", secret::draw::<24>());
    format!("{begins}{}", signer.mark(&begins))
}

/// Returns the session of a token that this store issued, whether or not the token is still valid.
fn session_in(signer: &Signer, token: &str) -> Option<String> {
    let [name, drawn, mark] = LETTERS;
    let (begins, marked) = token.split_at_checked(name + drawn)?;
    let ours = marked.len() == mark && signer.is_mark(begins, marked);
    ours.then(|| format!("{PREFIX}{}", &begins[..name]))
}

impl Accounts {
    /// Generates a session's next refresh token, and the change that stores it.
    pub(super) async fn next_refresh(&self, session: &Session) -> Result<(String, RecordChange), StoreError> {
        let token = draw(&*self.signer().await?, session);
        let expires_at = later(self.clock.now(), REFRESH_S).min(later(session.created_at, SESSION_MAX_S));
        let refresh = Refresh { session: session.id.clone(), expires_at, used_at: None };
        let change = put(REFRESH, &secret::hash(&token), &session.id, &refresh, Expect::Absent);
        Ok((token, change))
    }

    /// Exchanges a refresh token for the next tokens.
    pub async fn refresh_session(&self, token: &str, client: &Client) -> Result<Tokens, AccountError> {
        loop {
            let Some(record) = self.records.get(REFRESH, &secret::hash(token)).await? else {
                return self.end_forgotten(token, client).await;
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
                    return Ok(Tokens {
                        access: self.access(&session, ACCESS_S).await?,
                        refresh: None,
                        session: session.id,
                        user,
                    });
                }
                Some(_) => return self.end_copied(&session, &user, client).await,
                None => {}
            }
            let forgotten = self.forgotten(&session.id, now).await?;
            let used = Refresh { used_at: Some(now), ..refresh };
            session.seen_at = now;
            session.expires_at = later(now, REFRESH_S).min(later(session.created_at, SESSION_MAX_S));
            let (next, kept) = self.next_refresh(&session).await?;
            let mut changes = vec![
                put(REFRESH, &key, &session.id, &used, Expect::Version(version)),
                put(SESSION, &session.id, user.id.as_str(), &session, Expect::Version(session_version)),
                kept,
            ];
            changes.extend(forgotten);
            match self.records.apply(changes).await {
                // Another tab used the token first. Read the records again.
                Err(RecordError::Conflict { .. }) => {}
                Err(error) => return Err(error.into()),
                Ok(_) => {
                    return Ok(Tokens {
                        access: self.access(&session, ACCESS_S).await?,
                        refresh: Some(next),
                        session: session.id,
                        user,
                    });
                }
            }
        }
    }

    /// Ends the session of a token that was issued by this store but has been forgotten.
    async fn end_forgotten(&self, token: &str, client: &Client) -> Result<Tokens, AccountError> {
        let id = session_in(&*self.signer().await?, token).ok_or(Unknown::Invalid)?;
        let record = self.records.get(SESSION, &id).await?.ok_or(Unknown::Invalid)?;
        let session: Session = read(record)?;
        let user = self.refresh().await?.find(&session.user).ok_or(Unknown::Invalid)?;
        self.end_copied(&session, &user, client).await
    }

    async fn end_copied<T>(
        &self,
        session: &Session,
        user: &User,
        client: &Client,
    ) -> Result<T, AccountError> {
        let note = Note::new(&user.workspace, "session.reuse").on(&session.id);
        let gone = RecordChange::delete(SESSION, &session.id, Expect::Any);
        self.commit(vec![gone], note.actor(&user.id).from(client.from)).await?;
        self.forget_refreshes(&session.id).await?;
        Err(Unknown::Invalid.into())
    }

    /// Returns the changes that remove used tokens of a session that the store need not remember. Returns an error if
    /// the session was refreshed too often recently.
    async fn forgotten(&self, session: &str, now: Timestamp) -> Result<Vec<RecordChange>, AccountError> {
        let mut used = Vec::new();
        for record in self.every(REFRESH, Some(session)).await? {
            let key = record.key.clone();
            let refresh: Refresh = read(record)?;
            used.extend(refresh.used_at.map(|at| (at, key)));
        }
        used.sort();
        let recent = used.len().checked_sub(PER_MINUTE).and_then(|first| used.get(first));
        if let Some(left_ms) = recent.and_then(|(at, _)| later(*at, 60).0.checked_sub(now.0))
            && left_ms > 0
        {
            return Err(AccountError::TooMany { retry_after_s: left_ms.div_ceil(1_000) });
        }
        // One more token is about to be used.
        let surplus = (used.len() + 1).saturating_sub(REMEMBERED);
        let old = |index: usize, at: Timestamp| index < surplus || later(at, REFRESH_S) <= now;
        let gone = used.iter().enumerate().filter(|(index, (at, _))| old(*index, *at));
        Ok(gone.map(|(_, (_, key))| RecordChange::delete(REFRESH, key, Expect::Any)).collect())
    }

    /// Removes the refresh tokens of an ended session. They are invalid already.
    pub(in crate::account) async fn forget_refreshes(&self, session: &str) -> Result<(), StoreError> {
        let records = self.every(REFRESH, Some(session)).await?;
        let gone = records.iter().map(|record| RecordChange::delete(REFRESH, &record.key, Expect::Any));
        match self.records.apply(gone.collect()).await {
            Ok(_) | Err(RecordError::Conflict { .. }) => Ok(()),
            Err(RecordError::Store(error)) => Err(error),
        }
    }

    /// Issues the first refresh token of the caller's session, once and shortly after the sign-in. Intended for clients
    /// that receive only an access token at sign-in. An access token that is stolen later cannot obtain a refresh
    /// token.
    pub async fn issue_refresh(&self, identity: &Identity, id: &str) -> Result<String, AccountError> {
        let refused = || {
            let why = "a refresh token is issued once, within a minute of signing in; sign in again";
            AccountError::Forbidden(why.into())
        };
        let missing = || AccountError::Missing(format!("session `{id}`"));
        let record = self.records.get(SESSION, id).await?.ok_or_else(missing)?;
        let version = record.version;
        let mut session: Session = read(record)?;
        let now = self.clock.now();
        if session.user != identity.user {
            return Err(missing());
        }
        if !session.awaits_refresh || now.0.saturating_sub(session.created_at.0) > ISSUE_MS {
            return Err(refused());
        }
        session.awaits_refresh = false;
        session.expires_at = later(now, REFRESH_S);
        let (token, kept) = self.next_refresh(&session).await?;
        let changes =
            vec![put(SESSION, id, identity.user.as_str(), &session, Expect::Version(version)), kept];
        match self.commit(changes, Note::by(identity, "session.issue").on(id)).await {
            Ok(_) => Ok(token),
            // Another request obtained the token first, or the session has ended.
            Err(RecordError::Conflict { .. }) => Err(refused()),
            Err(error) => Err(error.into()),
        }
    }

    /// Ends the session of a refresh token. Its access token may have expired.
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
}

#[cfg(test)]
mod tests {

    use crate::account::login::trial::{PASSWORD, Trial};

    use super::*;
    use crate::account::sessions::session::FirstRefresh;

    const ELSEWHERE: Client = Client { from: None, agent: None };

    async fn refreshed(trial: &Trial, token: &Option<String>) -> Result<Tokens, String> {
        let token = token.as_deref().unwrap();
        trial.accounts.refresh_session(token, &ELSEWHERE).await.map_err(|error| error.to_string())
    }

    const INVALID: &str = "the credential is invalid";

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
        // Both the copy and the owner's token are invalid, so the owner notices.
        assert_eq!(trial.who(&third).await.unwrap_err(), INVALID);
        assert_eq!(refreshed(&trial, &third.refresh).await.err().as_deref(), Some(INVALID));
        let log = trial.accounts.audit_before("default", None, 1).await.unwrap();
        assert_eq!(log[0].action, "session.reuse");
        // No record of the session remains.
        assert_eq!(trial.accounts.every(REFRESH, None).await.unwrap(), []);
    }

    #[tokio::test]
    async fn a_second_tab_is_no_thief() {
        let trial = Trial::new();
        let (_, first) = trial.member().await;
        let (one, other) = tokio::join!(refreshed(&trial, &first.refresh), refreshed(&trial, &first.refresh));
        let (one, other) = (one.unwrap(), other.unwrap());
        // One tab gets the next refresh token; both get an access token.
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
        // Tokens that were used long ago are forgotten.
        assert!(trial.accounts.every(REFRESH, None).await.unwrap().len() <= 4);
        trial.clock.advance_ms(day_ms);
        assert!(refreshed(&trial, &tokens.refresh).await.is_err());
        assert_eq!(trial.accounts.sessions(&user.id).await.unwrap(), []);
    }

    #[tokio::test]
    async fn a_token_that_is_long_forgotten_ends_the_session_too() {
        let trial = Trial::new();
        let (_, first) = trial.member().await;
        let mut last = refreshed(&trial, &first.refresh).await.unwrap();
        for _ in 0..=REMEMBERED {
            trial.clock.advance_ms(60_000 / PER_MINUTE as u64);
            last = refreshed(&trial, &last.refresh).await.unwrap();
        }
        let first_key = secret::hash(first.refresh.as_deref().unwrap());
        assert_eq!(trial.accounts.records.get(REFRESH, &first_key).await.unwrap(), None);
        // A forged token does not end the session.
        let mut forged = first.refresh.clone().unwrap();
        let other = if forged.ends_with('A') { "B" } else { "A" };
        forged.replace_range(63.., other);
        assert_eq!(refreshed(&trial, &Some(forged)).await.err().as_deref(), Some(INVALID));
        assert!(trial.who(&last).await.is_ok());
        assert_eq!(refreshed(&trial, &first.refresh).await.err().as_deref(), Some(INVALID));
        assert_eq!(trial.who(&last).await.unwrap_err(), INVALID);
    }

    #[tokio::test]
    async fn a_session_is_given_so_many_tokens_in_a_minute() {
        let trial = Trial::new();
        let (_, mut tokens) = trial.member().await;
        for _ in 0..PER_MINUTE {
            tokens = refreshed(&trial, &tokens.refresh).await.unwrap();
        }
        trial.clock.advance_ms(1_000);
        let refused = refreshed(&trial, &tokens.refresh).await.err().unwrap();
        assert_eq!(refused, "too many attempts; try again in 59 s");
        trial.clock.advance_ms(59_000);
        assert!(refreshed(&trial, &tokens.refresh).await.is_ok());
    }

    #[tokio::test]
    async fn an_access_token_is_good_for_a_refresh_token_once_and_soon() {
        let trial = Trial::new();
        let (user, usual) = trial.member().await;
        let issue = async |tokens: &Tokens| {
            let who = trial.who(tokens).await.unwrap();
            let id = who.credential.to_string();
            trial.accounts.issue_refresh(&who, &id).await.map_err(|error| error.to_string())
        };
        let refused =
            Err("a refresh token is issued once, within a minute of signing in; sign in again".to_owned());
        let login = || {
            let email = user.email.as_deref().unwrap();
            trial.accounts.login(email, PASSWORD.into(), &ELSEWHERE, FirstRefresh::OnRequest)
        };
        assert_eq!(issue(&usual).await, refused, "it has been given one");
        let (late, soon) = (login().await.unwrap(), login().await.unwrap());
        assert_eq!((late.refresh.is_some(), soon.refresh.is_some()), (false, false));
        let token = issue(&soon).await.unwrap();
        assert_eq!(issue(&soon).await, refused);
        let log = trial.accounts.audit_before("default", None, 1).await.unwrap();
        assert_eq!(log[0].action, "session.issue");
        trial.clock.advance_ms(ISSUE_MS + 1);
        assert_eq!(issue(&late).await, refused);
        // The session's tokens remain valid.
        assert!(refreshed(&trial, &Some(token)).await.is_ok());
    }
}
