//! Accounts with an email address and a password: registration, sign-in, and password changes.

pub(super) mod attempts;
pub(super) mod failed;
pub(super) mod first;
pub(super) mod network;
pub(super) mod password;
#[cfg(test)]
pub(super) mod trial;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use windlass::machine::{Principal, Timestamp};
use windlass::port::journal::StoreError;
use windlass::port::records::{Expect, RecordChange, RecordError};

use super::audit::Note;
use super::error::{AccountError, conflict};
use super::key::ApiKeys;
use super::record::FIRST;
use crate::account::login::attempts::{Attempt, Target};
use crate::account::login::failed::Whose;
use crate::account::sessions::session::FirstRefresh;

use super::Accounts;
use super::Credential;
use super::Identity;
use super::Registration;
use super::Role;
use super::link::{Link, LinkUse, used_up};
use super::record::{put, read};
use super::secret;
use crate::account::people::user::{DEFAULT_WORKSPACE, EMAIL, USER, User, check_name, fold_email};
use crate::account::sessions::session::{Client, SESSION, Session, Tokens, ends_in};

/// Record kind of passwords. The key is the user, the owner is the workspace.
const PASSWORD: &str = "password";
/// Record kind of links from an OpenID Connect subject to an account. The key is the digest of issuer and subject. The
/// constant is in this module because builds without the feature `openid` must also detect that users have registered.
pub(super) const SUBJECT: &str = "oidc_subject";

#[derive(Serialize, Deserialize)]
struct Password {
    hash: String,
    changed_at: Timestamp,
}

/// Time after a sign-in during which an account without a password may set a password, create an API key or change its
/// address, in milliseconds.
const FRESH_MS: u64 = 5 * 60 * 1_000;

/// An account to register.
pub struct Registrant {
    /// Email address.
    pub email: String,
    pub password: String,
    /// Display name.
    pub name: String,
    /// Token of the invitation.
    pub invite: Option<String>,
}

/// The workspace and role of an admitted registration.
pub(super) struct Admission {
    pub workspace: String,
    pub role: Role,
    /// Whether an administrator vouches for the address: the invitation names the address, or the new account is an
    /// administrator.
    pub vouched: bool,
    /// The change that uses up the invitation.
    pub used: Option<RecordChange>,
}

impl Accounts {
    pub async fn login(
        &self,
        email: &str,
        password: String,
        client: &Client,
        first: FirstRefresh,
    ) -> Result<Tokens, AccountError> {
        // An invalid address matches no account. Check the password all the same, so that the response time does not
        // reveal whether an account exists.
        let email = fold_email(email).unwrap_or_else(|_| email.trim().to_lowercase());
        if password.len() > *password::LENGTH.end() {
            // No account can have a password of this length, so the request does not count as an attempt.
            let why = format!("a password must have at most {} bytes", password::LENGTH.end());
            return Err(AccountError::Invalid(why));
        }
        let user = self.by_email(email.get(..254).unwrap_or(&email)).await?;
        let (target, noted) = match &user {
            Some(user) => self.target(&user.id, client).await?,
            None => (self.stranger(&email).await?, None),
        };
        let attempt = self.begin_attempt(Some(target), client)?;
        // Read both preconditions before the password check: the session is opened only if neither record has changed
        // since.
        let (user, stands) = match &user {
            Some(user) => (self.standing(&user.id).await?, Some(self.password_stands(&user.id).await?)),
            None => (None, None),
        };
        let (user, account_stands) = user.unzip();
        let right = match self.is_password(user.as_ref().map(|user| &user.id), password).await {
            Err(AccountError::Busy) => {
                self.memory.attempts.take_back(attempt);
                return Err(AccountError::Busy);
            }
            right => right?,
        };
        match user.as_ref().filter(|_| right) {
            Some(user) => {
                self.memory.attempts.forgive(attempt);
                let note = Note::new(&user.workspace, "login").on(user.id.as_str());
                let stand = account_stands.into_iter().chain(stands).chain(noted).collect();
                match self.open_session(user, client, first, stand, note).await {
                    // The account or its password was changed concurrently.
                    Err(error) if conflict(&error).is_some() => Err(AccountError::WrongLogin),
                    opened => Ok(opened?),
                }
            }
            None => {
                let workspace = user.as_ref().map_or(DEFAULT_WORKSPACE, |user| &user.workspace);
                let note = Note::new(workspace, "login.failed").on(&email).from(client.from);
                let whose = if user.is_some() { Whose::Account } else { Whose::Stranger };
                self.record_failure(whose, note).await?;
                Err(AccountError::WrongLogin)
            }
        }
    }

    pub(super) fn begin_attempt(
        &self,
        target: Option<Target>,
        client: &Client,
    ) -> Result<Attempt, AccountError> {
        let attempt = self.memory.attempts.begin(target, client.from, self.clock.monotonic_ms());
        attempt.map_err(|retry_after_s| AccountError::TooMany { retry_after_s })
    }

    /// Checks a user's password. Without a user, or with a password that no account can have, the check takes the same
    /// time. So the response time does not reveal whether an account exists.
    async fn is_password(&self, user: Option<&Principal>, password: String) -> Result<bool, AccountError> {
        let kept = match user {
            Some(user) => self.password_of(user).await?,
            None => None,
        };
        if password.len() > *password::LENGTH.end() {
            return Ok(false);
        }
        self.memory.hashing.verify(password, kept).await
    }

    async fn password_of(&self, user: &Principal) -> Result<Option<String>, StoreError> {
        let record = self.records.get(PASSWORD, user.as_str()).await?;
        Ok(record.map(read::<Password>).transpose()?.map(|password| password.hash))
    }

    /// Loads an active account, and the precondition that its record is unchanged.
    pub(super) async fn standing(
        &self,
        user: &Principal,
    ) -> Result<Option<(Arc<User>, RecordChange)>, StoreError> {
        let Some(record) = self.records.get(USER, user.as_str()).await? else { return Ok(None) };
        let stands = RecordChange::keep(USER, user.as_str(), Expect::Version(record.version));
        let user: User = read(record)?;
        Ok(user.active.then(|| (Arc::new(user), stands)))
    }

    /// Returns the precondition that a user's password is unchanged.
    async fn password_stands(&self, user: &Principal) -> Result<RecordChange, StoreError> {
        let found = self.records.get(PASSWORD, user.as_str()).await?;
        let found = found.map_or(Expect::Absent, |record| Expect::Version(record.version));
        Ok(RecordChange::keep(PASSWORD, user.as_str(), found))
    }

    pub async fn has_password(&self, user: &Principal) -> Result<bool, StoreError> {
        Ok(self.password_of(user).await?.is_some())
    }

    /// Returns whether any account exists that can sign in.
    pub async fn is_registered(&self) -> Result<bool, StoreError> {
        for kind in [PASSWORD, SUBJECT] {
            if !self.records.list(kind, None, None, 1).await?.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the change that sets a user's password.
    pub(super) async fn new_password(
        &self,
        user: &Principal,
        workspace: &str,
        password: String,
    ) -> Result<RecordChange, AccountError> {
        password::check(&password)?;
        let hash = self.memory.hashing.hash(password).await?;
        let kept = Password { hash, changed_at: self.clock.now() };
        Ok(put(PASSWORD, user.as_str(), workspace, &kept, Expect::Any))
    }

    /// Registers an account and signs it in.
    pub async fn register(
        &self,
        draft: Registrant,
        registration: Registration,
        client: &Client,
    ) -> Result<Tokens, AccountError> {
        self.register_for(draft, registration, client, FirstRefresh::Now).await
    }

    /// Like [`Accounts::register`], but `first` decides when the client receives its first refresh token.
    pub async fn register_for(
        &self,
        draft: Registrant,
        registration: Registration,
        client: &Client,
        first: FirstRefresh,
    ) -> Result<Tokens, AccountError> {
        let draft = checked(draft)?;
        let admission = self.admission(&draft, registration).await?;
        self.enrol(draft, admission, client, first).await
    }

    /// Creates the account of an admitted registrant and signs it in.
    pub(super) async fn enrol(
        &self,
        draft: Registrant,
        admission: Admission,
        client: &Client,
        first: FirstRefresh,
    ) -> Result<Tokens, AccountError> {
        let Registrant { email, name, password, invite: _ } = draft;
        let Admission { workspace, role, vouched, used } = admission;
        // Do not forgive this attempt after a success: every request costs the server a password hash.
        self.begin_attempt(None, client)?;
        let user = Arc::new(User {
            id: Principal::from(format!("usr_{}", secret::draw::<9>()).as_str()),
            workspace,
            role,
            name: if name.is_empty() { email.clone() } else { name },
            email: Some(email.clone()),
            vouched,
            verified: false,
            typed: false,
            active: true,
            credit_micro_usd: None,
            created_at: self.clock.now(),
            settled_at: self.clock.now(),
        });
        let note = Note::new(&user.workspace, "register").on(user.id.as_str());
        let note = note.with("email", email.as_str()).with("role", role.word());
        let (mut changes, note) = self.new_user(&user, note).await?;
        changes.push(self.new_password(&user.id, &user.workspace, password).await?);
        let by_link = used.as_ref().is_none_or(|used| used.kind != FIRST);
        changes.extend(used);
        if by_link {
            changes.extend(self.first_account().await?);
        }
        self.open_session(&user, client, first, changes, note).await.map_err(|error| taken(error, &email))
    }

    /// Decides whether a registration is admitted. Returns the workspace and the role of the new account.
    async fn admission(
        &self,
        draft: &Registrant,
        registration: Registration,
    ) -> Result<Admission, AccountError> {
        let Some(token) = &draft.invite else {
            if !self.is_registered().await? {
                let why = "register the first account with the link that the server printed";
                return Err(AccountError::Forbidden(why.into()));
            }
            return match registration {
                Registration::Open => {
                    let workspace = DEFAULT_WORKSPACE.to_owned();
                    Ok(Admission { workspace, role: Role::Member, vouched: false, used: None })
                }
                Registration::Invite => Err(AccountError::Forbidden(
                    "registration requires an invitation from an administrator".into(),
                )),
                Registration::Closed => Err(closed()),
            };
        };
        let (link, used) = self.find_link(token).await?;
        let Link { used_for: LinkUse::Invite { role, email: meant }, workspace, made_by, .. } = link else {
            return Err(AccountError::Link);
        };
        // A link created at the terminal works even if registration is closed.
        if registration == Registration::Closed && made_by.is_some() {
            return Err(closed());
        }
        if meant.as_ref().is_some_and(|meant| *meant != draft.email) {
            return Err(AccountError::Forbidden("the invitation is for another address".into()));
        }
        // An administrator may vouch for any address.
        let vouched = meant.is_some() || role == Role::Admin;
        Ok(Admission { workspace, role, vouched, used: Some(used) })
    }

    /// Changes the caller's password. All other sessions of the account end.
    pub async fn change_password(
        &self,
        identity: &Identity,
        current: Option<String>,
        new: String,
        keys: ApiKeys,
        client: &Client,
    ) -> Result<(), AccountError> {
        let stands = self.password_stands(&identity.user).await?;
        self.check_current(identity, current, client).await?;
        let new = self.new_password(&identity.user, &identity.workspace, new).await?;
        let mut changes = vec![RecordChange { expected: stands.expected, ..new }];
        changes.extend(self.reset_ends(&identity.workspace, &identity.user).await?);
        let own = match &identity.credential {
            Credential::Session(id) | Credential::Guest(id) => Some(id.as_str()),
            Credential::Key { .. } => None,
        };
        changes.extend(self.session_ends(&identity.user, own).await?);
        let ended = ends_in(&changes);
        let revoked = self.revoked(&identity.user, keys).await?;
        let note = Note::by(identity, "password.change").from(client.from);
        let note = note.with("keys_revoked", revoked.len());
        changes.extend(revoked);
        self.commit(changes, note).await?;
        self.forget_sessions(&ended).await?;
        Ok(self.end_latecomers(&identity.user, own).await?)
    }

    /// Returns an error for an account without a password, unless its owner has just signed in. A stolen session must
    /// not give permanent access to the account.
    async fn require_fresh_sign_in(&self, identity: &Identity) -> Result<(), AccountError> {
        let session = match &identity.credential {
            Credential::Session(id) | Credential::Guest(id) => self.records.get(SESSION, id).await?,
            Credential::Key { .. } => None,
        };
        let session = session.map(read::<Session>).transpose()?;
        let now = self.clock.now();
        if session.is_some_and(|session| now.since(session.created_at) <= FRESH_MS) {
            return Ok(());
        }
        let detail = "an account without a password can get a password, an API key or another address only \
            within 5 minutes of signing in; sign in again";
        Err(AccountError::Refused { code: "sign_in_again", detail: detail.into() })
    }

    /// Verifies the current password of the caller's account. If the account has none, requires a recent sign-in.
    pub(super) async fn check_current(
        &self,
        identity: &Identity,
        current: Option<String>,
        client: &Client,
    ) -> Result<(), AccountError> {
        if !self.has_password(&identity.user).await? {
            return self.require_fresh_sign_in(identity).await;
        }
        let attempt = self.begin_attempt(Some(Target::Own(identity.user.clone())), client)?;
        if !self.is_password(Some(&identity.user), current.unwrap_or_default()).await? {
            self.record(Note::by(identity, "password.failed").from(client.from)).await?;
            return Err(AccountError::WrongPassword);
        }
        self.memory.attempts.forgive(attempt);
        Ok(())
    }
}

fn closed() -> AccountError {
    AccountError::Forbidden("registration is closed; ask an administrator for an account".into())
}

/// Maps conflicts at registration: after the check, a concurrent request took the address or used the invitation.
pub(super) fn taken(error: RecordError, email: &str) -> AccountError {
    match conflict(&error) {
        Some(EMAIL) => AccountError::Taken { email: email.to_owned() },
        Some(FIRST) => AccountError::NotFirst,
        Some(_) | None => used_up(error),
    }
}

/// Validates a draft and normalizes its address and name.
pub(super) fn checked(draft: Registrant) -> Result<Registrant, AccountError> {
    let (email, name) = (fold_email(&draft.email)?, check_name(&draft.name)?);
    password::check(&draft.password)?;
    Ok(Registrant { email, name, ..draft })
}

#[cfg(test)]
mod tests {
    use super::super::key::KeyDraft;
    use super::*;
    use crate::account::login::trial::{PASSWORD as WORD, Trial};
    use crate::account::people::member::MemberChange;

    #[tokio::test]
    async fn what_began_before_a_change_does_not_outlive_it() {
        let trial = Trial::new();
        let admin = trial.join("admin@example.com", Role::Admin, "default").await;
        let who = trial.who(&admin).await.unwrap();
        let (user, tokens) = trial.member().await;
        let (accounts, client) = (&trial.accounts, Client::default());
        let own = trial.who(&tokens).await.unwrap();
        let open = async |stands| {
            let note = Note::new("default", "login");
            let opened = accounts.open_session(&user, &client, FirstRefresh::Now, vec![stands], note).await;
            opened.err().and_then(|error| conflict(&error).map(str::to_owned))
        };
        let stands = accounts.password_stands(&user.id).await.unwrap();
        let (current, new) = (Some(WORD.into()), "second horse".into());
        accounts.change_password(&own, current, new, ApiKeys::Keep, &client).await.unwrap();
        assert_eq!(open(stands).await.as_deref(), Some(PASSWORD));
        let (_, stands) = accounts.standing(&user.id).await.unwrap().unwrap();
        for active in [false, true] {
            let change = MemberChange { active: Some(active), ..MemberChange::default() };
            accounts.change_member(&who, &user.id, &change, None).await.unwrap();
        }
        assert_eq!(open(stands).await.as_deref(), Some(USER));
        // A request that was authenticated before the password change cannot create a key after the change.
        let draft =
            KeyDraft { user: user.id.clone(), name: "k".into(), scopes: Vec::new(), expires_at: None };
        let made = accounts.make_key(&own, draft, Some("second horse".into()), &client).await;
        assert!(matches!(made, Err(AccountError::Unknown(_))), "{:?}", made.map(|(key, _)| key));
    }

    #[tokio::test]
    async fn an_account_without_a_password_gets_one_only_soon_after_signing_in() {
        let trial = Trial::new();
        let (accounts, client) = (&trial.accounts, Client::default());
        let local = accounts.local().await.unwrap();
        let used_for = LinkUse::SignIn { user: local.id.clone() };
        let link = accounts.start_link(used_for).await.unwrap();
        let tokens = accounts.sign_in_by_link(&link, &client).await.unwrap();
        let own = trial.who(&tokens).await.unwrap();
        let draft =
            KeyDraft { user: local.id.clone(), name: "k".into(), scopes: Vec::new(), expires_at: None };
        let key = accounts.make_key(&own, draft.clone(), None, &client).await.unwrap().1;
        let by_key = accounts.by_key(&key).await.unwrap().unwrap();
        let moved = || MemberChange { email: Some("me@example.com".into()), ..MemberChange::default() };
        let code = |error: AccountError| match error {
            AccountError::Refused { code, .. } => code,
            error => panic!("{error}"),
        };
        assert_eq!(
            code(accounts.change_self(&by_key, moved(), None, &client).await.unwrap_err()),
            "sign_in_again"
        );
        trial.clock.advance_ms(FRESH_MS + 1);
        let refused = accounts.make_key(&own, draft.clone(), None, &client).await;
        assert_eq!(code(refused.unwrap_err()), "sign_in_again");
        accounts.make_key(&by_key, draft, None, &client).await.unwrap();
        let new = || "second horse".to_owned();
        let refused = accounts.change_password(&own, None, new(), ApiKeys::Keep, &client).await;
        assert_eq!(code(refused.unwrap_err()), "sign_in_again");
        assert_eq!(
            code(accounts.change_self(&own, moved(), None, &client).await.unwrap_err()),
            "sign_in_again"
        );
        // Refreshing a session does not count as a sign-in.
        let next = accounts.refresh_session(&tokens.refresh.unwrap(), &client).await.unwrap();
        let own = trial.who(&next).await.unwrap();
        let refused = accounts.change_password(&own, None, new(), ApiKeys::Keep, &client).await;
        assert_eq!(code(refused.unwrap_err()), "sign_in_again");
        let used_for = LinkUse::SignIn { user: local.id.clone() };
        let link = accounts.start_link(used_for).await.unwrap();
        let own = trial.who(&accounts.sign_in_by_link(&link, &client).await.unwrap()).await.unwrap();
        accounts.change_password(&own, None, new(), ApiKeys::Keep, &client).await.unwrap();
        assert!(accounts.by_key(&key).await.unwrap().is_ok());
        let (current, new) = (Some("second horse".into()), "third horse".into());
        accounts.change_password(&own, current, new, ApiKeys::Revoke, &client).await.unwrap();
        assert!(accounts.by_key(&key).await.unwrap().is_err());
    }

    #[tokio::test]
    async fn the_start_link_expires_after_the_first_registration() {
        let trial = Trial::new();
        trial.accounts.local().await.unwrap();
        let used_for = LinkUse::SignIn { user: Principal::from(crate::account::people::user::LOCAL) };
        let link = trial.accounts.start_link(used_for).await.unwrap();
        assert!(trial.accounts.look_at_link(&link).await.is_ok());
        trial.member().await;
        assert!(matches!(trial.accounts.look_at_link(&link).await, Err(AccountError::Link)));
    }
}
