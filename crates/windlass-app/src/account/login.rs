//! Accounts with an address and a password: registered, signed in to, their password changed or chosen anew.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use windlass::machine::{Principal, Timestamp};
use windlass::port::journal::StoreError;
use windlass::port::records::{Expect, RecordChange, RecordError};

use super::attempts::Attempt;
use super::audit::Note;
use super::error::{AccountError, conflict};
use super::link::{Link, LinkUse, used_up};
use super::record::{put, read};
use super::session::{Client, Tokens};
use super::user::{DEFAULT_WORKSPACE, EMAIL, User, check_name, fold_email};
use super::{Accounts, Credential, Identity, Registration, Role, password, secret};

/// The kind of passwords, by user; their owner is the workspace.
const PASSWORD: &str = "password";

#[derive(Serialize, Deserialize)]
struct Password {
    hash: String,
    changed_at: Timestamp,
}

/// When whoever signs in is given the first refresh token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstRefresh {
    /// At once.
    Now,
    /// When they ask for it, which they must do soon.
    OnRequest,
}

/// An account that is to be registered.
pub struct Registrant {
    /// Its address.
    pub email: String,
    /// Its password.
    pub password: String,
    /// How people call it.
    pub name: String,
    /// The token of its invitation.
    pub invite: Option<String>,
}

/// Where and as what somebody may register.
struct Admission {
    workspace: String,
    role: Role,
    /// Whether the invitation was for their address.
    vouched: bool,
    /// What uses the invitation up.
    used: Option<RecordChange>,
}

impl Accounts {
    /// Signs in with an address and a password.
    pub async fn login(
        &self,
        email: &str,
        password: String,
        client: &Client,
        first: FirstRefresh,
    ) -> Result<Tokens, AccountError> {
        // What is no address is nobody's, after the same work.
        let email = fold_email(email).unwrap_or_else(|_| email.trim().to_lowercase());
        let attempt = self.begin_attempt(Some(&email), client)?;
        let user = self.by_email(email.get(..254).unwrap_or(&email)).await?;
        let right = match self.is_password(user.as_ref().map(|user| &user.id), password).await {
            Err(AccountError::Busy) => {
                self.memory.attempts.forgive(attempt);
                return Err(AccountError::Busy);
            }
            right => right?,
        };
        match user.as_ref().filter(|user| right && user.active) {
            Some(user) => {
                self.memory.attempts.forgive(attempt);
                let note = Note::new(&user.workspace, "login").on(user.id.as_str());
                Ok(self.open_session(user, client, first, Vec::new(), note).await?)
            }
            None => {
                let workspace = user.as_ref().map_or(DEFAULT_WORKSPACE, |user| &user.workspace);
                let note = Note::new(workspace, "login.failed").on(&email).from(client.from);
                self.record(note).await?;
                Err(AccountError::WrongLogin)
            }
        }
    }

    fn begin_attempt(&self, account: Option<&str>, client: &Client) -> Result<Attempt, AccountError> {
        let attempt = self.memory.attempts.begin(account, client.from, self.clock.monotonic_ms());
        attempt.map_err(|retry_after_s| AccountError::TooMany { retry_after_s })
    }

    /// Whether it is the user's password. The same work for nobody, and for a password that nobody can have.
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

    /// Whether a user can sign in with a password.
    pub async fn has_password(&self, user: &Principal) -> Result<bool, StoreError> {
        Ok(self.password_of(user).await?.is_some())
    }

    /// Whether anybody has an account that people sign in to.
    pub async fn is_registered(&self) -> Result<bool, StoreError> {
        for kind in [PASSWORD, super::oidc::SUBJECT] {
            if !self.records.list(kind, None, None, 1).await?.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// What gives a user a password.
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

    /// Registers an account, and signs it in.
    pub async fn register(
        &self,
        draft: Registrant,
        registration: Registration,
        client: &Client,
    ) -> Result<Tokens, AccountError> {
        let email = fold_email(&draft.email)?;
        let name = check_name(&draft.name)?;
        password::check(&draft.password)?;
        let Admission { workspace, role, vouched, used } =
            self.admission(&draft, &email, registration).await?;
        // Never forgiven: a password costs work whoever sends it.
        self.begin_attempt(None, client)?;
        let user = Arc::new(User {
            id: Principal::from(format!("usr_{}", secret::draw::<9>()).as_str()),
            workspace,
            role,
            name: if name.is_empty() { email.clone() } else { name },
            email: Some(email.clone()),
            vouched,
            active: true,
            credit_micro_usd: None,
            created_at: self.clock.now(),
        });
        let mut changes = Self::new_user(&user);
        changes.push(self.new_password(&user.id, &user.workspace, draft.password).await?);
        changes.extend(used);
        let note = Note::new(&user.workspace, "register").on(user.id.as_str());
        let note = note.with("email", email.as_str()).with("role", role.word());
        self.open_session(&user, client, FirstRefresh::Now, changes, note)
            .await
            .map_err(|error| taken(error, &email))
    }

    /// Whether and as what somebody may register.
    async fn admission(
        &self,
        draft: &Registrant,
        email: &str,
        registration: Registration,
    ) -> Result<Admission, AccountError> {
        let Some(token) = &draft.invite else {
            if !self.is_registered().await? {
                let why = "the first account is registered with the link that the server printed";
                return Err(AccountError::Forbidden(why.into()));
            }
            return match registration {
                Registration::Open => {
                    let workspace = DEFAULT_WORKSPACE.to_owned();
                    Ok(Admission { workspace, role: Role::Member, vouched: false, used: None })
                }
                Registration::Invite => {
                    Err(AccountError::Forbidden("registering needs an invitation of an administrator".into()))
                }
                Registration::Closed => Err(closed()),
            };
        };
        let (link, used) = self.find_link(token).await?;
        let Link { used_for: LinkUse::Invite { role, email: meant }, workspace, made_by, .. } = link else {
            return Err(AccountError::Link);
        };
        // Whoever may use the machine decides before what the server is configured to.
        if registration == Registration::Closed && made_by.is_some() {
            return Err(closed());
        }
        if meant.as_ref().is_some_and(|meant| meant != email) {
            return Err(AccountError::Forbidden("the invitation is for another address".into()));
        }
        Ok(Admission { workspace, role, vouched: meant.is_some(), used: Some(used) })
    }

    /// Changes the password of whoever asks. Their other sessions end.
    pub async fn change_password(
        &self,
        identity: &Identity,
        current: Option<String>,
        new: String,
        client: &Client,
    ) -> Result<(), AccountError> {
        self.check_current(identity, current, client).await?;
        let mut changes = vec![self.new_password(&identity.user, &identity.workspace, new).await?];
        let own = match &identity.credential {
            Credential::Session(id) => Some(id.as_str()),
            Credential::Key { .. } => None,
        };
        changes.extend(self.session_ends(&identity.user, own).await?);
        self.commit(changes, Note::by(identity, "password.change").from(client.from)).await?;
        Ok(())
    }

    /// Refuses whoever does not know the present password of their account, where it has one.
    pub(super) async fn check_current(
        &self,
        identity: &Identity,
        current: Option<String>,
        client: &Client,
    ) -> Result<(), AccountError> {
        if !self.has_password(&identity.user).await? {
            return Ok(());
        }
        let attempt = self.begin_attempt(Some(identity.user.as_str()), client)?;
        if !self.is_password(Some(&identity.user), current.unwrap_or_default()).await? {
            self.record(Note::by(identity, "password.failed").from(client.from)).await?;
            return Err(AccountError::WrongPassword);
        }
        self.memory.attempts.forgive(attempt);
        Ok(())
    }

    /// Chooses a new password by an administrator's link, and signs in. All other sessions end.
    pub async fn reset_password(
        &self,
        token: &str,
        password: String,
        client: &Client,
    ) -> Result<Tokens, AccountError> {
        password::check(&password)?;
        let (link, used) = self.find_link(token).await?;
        let LinkUse::Reset { user } = &link.used_for else { return Err(AccountError::Link) };
        let user = self.refresh().await?.find(user).filter(|user| user.active).ok_or(AccountError::Link)?;
        let mut changes = vec![used, self.new_password(&user.id, &user.workspace, password).await?];
        changes.extend(self.session_ends(&user.id, None).await?);
        let note = Note::new(&user.workspace, "password.reset").on(user.id.as_str());
        let note = note.with("link", link.id.as_str());
        self.open_session(&user, client, FirstRefresh::Now, changes, note).await.map_err(used_up)
    }
}

fn closed() -> AccountError {
    AccountError::Forbidden("nobody can register here; an administrator adds accounts".into())
}

/// The address belongs to somebody, or the invitation was used, between looking and writing.
pub(super) fn taken(error: RecordError, email: &str) -> AccountError {
    if conflict(&error) == Some(EMAIL) {
        return AccountError::Taken { email: email.to_owned() };
    }
    used_up(error)
}
