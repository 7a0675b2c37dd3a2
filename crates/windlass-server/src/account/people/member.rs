//! The members of a workspace, for its administrators.
//!
//! Accounts are never deleted, because audit entries and threads refer to them. A deactivated account loses its
//! sessions and keys permanently; reactivation does not restore them.

use std::sync::Arc;

use windlass::machine::Principal;
use windlass::port::journal::StoreError;
use windlass::port::records::{Expect, Record, RecordChange};

use crate::account::Accounts;
use crate::account::Identity;
use crate::account::Role;
use crate::account::audit::Note;
use crate::account::error::{AccountError, conflict};
use crate::account::login::taken;
use crate::account::people::user::{EMAIL, LOCAL, USER, User, check_name, fold_email, mark};
use crate::account::record::{put, read};
use crate::account::secret;
use crate::account::sessions::session::{Client, ends_in};

/// Maximum number of attempts to apply a change while other changes are concurrent.
const TRIES: usize = 20;

/// An account and the version of its record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    pub user: User,
    /// The version, which every change increments.
    pub version: u64,
}

/// An account that an administrator adds.
pub struct NewMember {
    pub email: String,
    pub password: String,
    pub role: Role,
    /// Display name.
    pub name: String,
}

/// A change of an account. Absent fields stay unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemberChange {
    pub role: Option<Role>,
    /// Whether the account may sign in.
    pub active: Option<bool>,
    /// Display name.
    pub name: Option<String>,
    pub email: Option<String>,
    /// Total credit for its runs, in millionths of a US dollar; `Some(None)` removes the limit.
    pub credit_micro_usd: Option<Option<u64>>,
}

/// The capacity in which a user changes an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::account) enum By {
    /// An administrator, who may vouch for an address.
    Administrator,
    /// The account's own user.
    Owner,
}

impl MemberChange {
    fn apply(&self, user: &User, by: By) -> Result<User, AccountError> {
        let mut after = user.clone();
        after.role = self.role.unwrap_or(after.role);
        after.active = self.active.unwrap_or(after.active);
        after.credit_micro_usd = self.credit_micro_usd.unwrap_or(after.credit_micro_usd);
        if let Some(name) = &self.name {
            after.name = check_name(name)?;
        }
        if let Some(email) = &self.email {
            after.email = Some(fold_email(email)?);
            let stays = after.email == user.email;
            after.vouched = by == By::Administrator || (user.vouched && stays);
            after.verified = user.verified && stays;
            after.typed = by == By::Owner && (user.typed || !stays);
        }
        Ok(after)
    }
}

impl Accounts {
    /// Returns up to `limit` accounts of a workspace after the given id, in the order of their ids.
    pub async fn members(
        &self,
        workspace: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Member>, StoreError> {
        let records = self.records.list(USER, Some(workspace), after, limit).await?;
        records.into_iter().map(member).collect()
    }

    pub async fn member(&self, workspace: &str, id: &Principal) -> Result<Member, AccountError> {
        let record = self.records.get(USER, id.as_str()).await?.filter(|record| record.owner == workspace);
        let record = record.ok_or_else(|| AccountError::Missing(format!("member `{id}`")))?;
        Ok(member(record)?)
    }

    /// Adds an account with a password. If an inactive account has the same address, reactivates and updates that
    /// account instead.
    pub async fn add_member(&self, identity: &Identity, draft: NewMember) -> Result<Member, AccountError> {
        let email = fold_email(&draft.email)?;
        let name = check_name(&draft.name)?;
        let known = self.by_email(&email).await?;
        if let Some(known) = known.filter(|known| !known.yields_address()) {
            if known.workspace != identity.workspace || known.active {
                return Err(AccountError::Taken { email });
            }
            let name = Some(name).filter(|name| !name.is_empty());
            let change = MemberChange {
                role: Some(draft.role),
                active: Some(true),
                name,
                email: Some(email),
                ..MemberChange::default()
            };
            let password = self.new_password(&known.id, &known.workspace, draft.password).await?;
            return self.change(identity, &known.id, By::Administrator, &change, None, vec![password]).await;
        }
        let user = User {
            id: Principal::from(format!("usr_{}", secret::draw::<9>()).as_str()),
            workspace: identity.workspace.clone(),
            role: draft.role,
            name: if name.is_empty() { email.clone() } else { name },
            email: Some(email.clone()),
            vouched: true,
            verified: false,
            typed: false,
            active: true,
            credit_micro_usd: None,
            created_at: self.clock.now(),
            settled_at: self.clock.now(),
        };
        let note = Note::by(identity, "member.add").on(user.id.as_str()).with("email", email.as_str());
        let (mut changes, note) = self.new_user(&user, note.with("role", draft.role.word())).await?;
        changes.push(self.new_password(&user.id, &user.workspace, draft.password).await?);
        let versions = self.commit(changes, note).await;
        let versions = versions.map_err(|error| taken(error, &email))?;
        self.refresh().await?;
        // The first change is the user's record.
        Ok(Member { user, version: versions.first().copied().flatten().unwrap_or_default() })
    }

    /// Changes an account of the caller's workspace. Returns an error if `seen` is not its current version.
    pub async fn change_member(
        &self,
        identity: &Identity,
        id: &Principal,
        change: &MemberChange,
        seen: Option<u64>,
    ) -> Result<Member, AccountError> {
        self.change(identity, id, By::Administrator, change, seen, Vec::new()).await
    }

    /// Changes the caller's name or address. A new address requires the password, or a recent sign-in if the account
    /// has none.
    pub async fn change_self(
        &self,
        identity: &Identity,
        change: MemberChange,
        current: Option<String>,
        client: &Client,
    ) -> Result<Member, AccountError> {
        let probe = match &change.email {
            Some(_) => Some(self.begin_move(identity, current, client).await?),
            None => None,
        };
        let own = MemberChange { role: None, active: None, ..change };
        let changed = self.change(identity, &identity.user, By::Owner, &own, None, Vec::new()).await;
        self.end_move(probe, &changed);
        changed
    }

    async fn change(
        &self,
        identity: &Identity,
        id: &Principal,
        by: By,
        change: &MemberChange,
        seen: Option<u64>,
        beside: Vec<RecordChange>,
    ) -> Result<Member, AccountError> {
        let stale = || AccountError::Changed { what: format!("the member `{id}`") };
        for _ in 0..TRIES {
            // Read this version first, so that all later reads are at least as recent.
            let people = self.people_mark().await?.map_or(Expect::Absent, Expect::Version);
            let Member { user: before, version } = self.member(&identity.workspace, id).await?;
            if seen.is_some_and(|seen| seen != version) {
                return Err(stale());
            }
            let after = change.apply(&before, by)?;
            let after = after.settled(&before, by, !beside.is_empty(), self.clock.now());
            if after == before && beside.is_empty() {
                return Ok(Member { user: before, version });
            }
            let team = self.refresh().await?.of(&before.workspace);
            check(identity, &before, &after, &team)?;
            let mut changes = vec![
                put(USER, id.as_str(), &after.workspace, &after, Expect::Version(version)),
                mark(people),
            ];
            let mut note = noted(identity, &before, &after);
            if before.email != after.email {
                let old = before.email.iter();
                changes.extend(old.map(|email| RecordChange::delete(EMAIL, email, Expect::Any)));
                note = self.take_address(&after, &mut changes, note).await?;
            }
            changes.extend(beside.iter().cloned());
            if before.active != after.active {
                // End sessions on reactivation, too: credentials created concurrently with the deactivation may still
                // exist.
                changes.extend(self.session_ends(id, None).await?);
                changes.extend(self.key_ends(id).await?);
            }
            if before.active != after.active || before.email != after.email || !beside.is_empty() {
                changes.extend(self.reset_ends(&before.workspace, id).await?);
            }
            let ended = ends_in(&changes);
            if is_admin(&before) && !is_admin(&after) {
                // A former administrator could use an own invitation to become an administrator again.
                changes.extend(self.link_ends(&before.workspace, id).await?);
            }
            match self.commit(changes, note).await {
                Ok(versions) => {
                    self.forget_sessions(&ended).await?;
                    self.refresh().await?;
                    let version = versions.first().copied().flatten().unwrap_or_default();
                    return Ok(Member { user: after, version });
                }
                Err(error) if conflict(&error) == Some(EMAIL) => {
                    return Err(AccountError::Taken { email: after.email.unwrap_or_default() });
                }
                // This account, or another administrator's account, was changed concurrently.
                Err(error) if conflict(&error).is_some() => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(stale())
    }
}

/// Returns the error for a change of the local account. Another user who knows its address or password could act as the
/// terminal's user.
pub(in crate::account) fn foreign_local() -> String {
    format!(
        "`{LOCAL}` is the user of this machine's terminal; only that user can change its address and password"
    )
}

fn is_admin(user: &User) -> bool {
    user.active && user.role == Role::Admin
}

fn member(record: Record) -> Result<Member, StoreError> {
    let version = record.version;
    Ok(Member { user: read(record)?, version })
}

/// Rejects changes that lock out the caller, or that leave a workspace without an administrator.
fn check(identity: &Identity, before: &User, after: &User, team: &[Arc<User>]) -> Result<(), AccountError> {
    let refused = |code, detail: String| Err(AccountError::Refused { code, detail });
    if before.email != after.email && before.id.as_str() == LOCAL && identity.user != before.id {
        return refused("local_account", foreign_local());
    }
    if before.role == after.role && before.active == after.active {
        return Ok(());
    }
    if before.id == identity.user {
        let detail = "you cannot change your own role or deactivate yourself; ask another administrator";
        return refused("own_account", detail.into());
    }
    if before.id.as_str() == LOCAL {
        let detail =
            format!("`{LOCAL}` is the user of this machine's terminal, and is always an administrator");
        return refused("local_account", detail);
    }
    let another = team.iter().any(|user| user.id != before.id && is_admin(user));
    if is_admin(before) && !is_admin(after) && !another {
        return refused("last_admin", format!("`{}` is the last administrator", before.id));
    }
    Ok(())
}

fn noted(identity: &Identity, before: &User, after: &User) -> Note {
    let action = match (before.active, after.active) {
        (true, false) => "member.deactivate",
        (false, true) => "member.reactivate",
        (true, true) | (false, false) if before.role != after.role => "member.role",
        (true, true) | (false, false) => "member.change",
    };
    let mut note = Note::by(identity, action).on(before.id.as_str());
    if before.role != after.role {
        note = note.with("role_before", before.role.word()).with("role", after.role.word());
    }
    if before.email != after.email {
        note = note.with("email_before", before.email.clone()).with("email", after.email.clone());
    }
    note
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::key::ApiKeys;
    use crate::account::link::{DAY_S, LinkUse, Maker};
    use crate::account::login::trial::{PASSWORD, Trial};
    use crate::account::sessions::session::FirstRefresh;

    fn role(role: Role) -> MemberChange {
        MemberChange { role: Some(role), ..MemberChange::default() }
    }

    #[tokio::test]
    async fn two_administrators_cannot_demote_each_other() {
        let trial = Trial::new();
        let (a, b) = (
            trial.join("a@example.com", Role::Admin, "w").await,
            trial.join("b@example.com", Role::Admin, "w").await,
        );
        let (who_a, who_b) = (trial.who(&a).await.unwrap(), trial.who(&b).await.unwrap());
        for _ in 0..20 {
            let change = role(Role::Member);
            let (one, other) = tokio::join!(
                trial.accounts.change_member(&who_a, &b.user.id, &change, None),
                trial.accounts.change_member(&who_b, &a.user.id, &change, None),
            );
            let refused = [one, other].into_iter().filter_map(Result::err).map(|error| error.to_string());
            let refused: Vec<String> = refused.collect();
            assert_eq!(refused.len(), 1, "{refused:?}");
            assert!(refused[0].ends_with("is the last administrator"), "{refused:?}");
            let team = trial.accounts.refresh().await.unwrap().of("w");
            for user in team.iter().filter(|user| user.role == Role::Member) {
                let other = if user.id == a.user.id { &who_b } else { &who_a };
                trial.accounts.change_member(other, &user.id, &role(Role::Admin), None).await.unwrap();
            }
        }
    }

    #[tokio::test]
    async fn a_demoted_administrator_has_no_invitation_left() {
        let trial = Trial::new();
        let (a, b) = (
            trial.join("a@example.com", Role::Admin, "default").await,
            trial.join("b@example.com", Role::Admin, "default").await,
        );
        let (who_a, who_b) = (trial.who(&a).await.unwrap(), trial.who(&b).await.unwrap());
        let mut made = Vec::new();
        for who in [&who_a, &who_b] {
            let invite = LinkUse::Invite { role: Role::Admin, email: None };
            made.push(
                trial.accounts.make_link(Maker::Caller(who), "default", invite, DAY_S).await.unwrap().1,
            );
        }
        trial.accounts.change_member(&who_a, &b.user.id, &role(Role::Member), None).await.unwrap();
        assert!(trial.accounts.look_at_link(&made[0]).await.is_ok());
        assert!(matches!(trial.accounts.look_at_link(&made[1]).await, Err(AccountError::Link)));
    }

    #[tokio::test]
    async fn the_own_and_the_local_account_cannot_be_locked_out() {
        let trial = Trial::new();
        let local = trial.accounts.local().await.unwrap();
        let tokens = trial.join("a@example.com", Role::Admin, "default").await;
        let who = trial.who(&tokens).await.unwrap();
        let off = MemberChange { active: Some(false), ..MemberChange::default() };
        for (id, change, code) in [
            (&who.user, &off, "own_account"),
            (&who.user, &role(Role::Member), "own_account"),
            (&local.id, &off, "local_account"),
            (&local.id, &role(Role::Viewer), "local_account"),
        ] {
            let refused = trial.accounts.change_member(&who, id, change, None).await.unwrap_err();
            assert!(
                matches!(refused, AccountError::Refused { code: found, .. } if found == code),
                "{refused:?}"
            );
        }
    }

    #[tokio::test]
    async fn other_users_cannot_take_over_the_local_account() {
        let trial = Trial::new();
        let local = trial.accounts.local().await.unwrap();
        let tokens = trial.join("a@example.com", Role::Admin, "default").await;
        let who = trial.who(&tokens).await.unwrap();
        let code = |error: AccountError| match error {
            AccountError::Refused { code, .. } => code,
            error => panic!("{error}"), // tidy: not our enum this test knows one kind
        };
        let email = MemberChange { email: Some("mine@example.com".into()), ..MemberChange::default() };
        let refused = trial.accounts.change_member(&who, &local.id, &email, None).await.unwrap_err();
        assert_eq!(code(refused), "local_account");
        let own = Identity { user: local.id.clone(), ..who.clone() };
        trial.accounts.change_self(&own, email, None, &Client::default()).await.unwrap();
        let link = trial.accounts.reset_link(Maker::Caller(&who), "default", &local.id).await;
        assert_eq!(code(link.unwrap_err()), "local_account");
        trial.accounts.reset_link(Maker::Terminal, "default", &local.id).await.unwrap();
    }

    #[tokio::test]
    async fn a_link_for_a_password_ends_with_what_it_was_made_for() {
        let trial = Trial::new();
        let admin = trial.join("admin@example.com", Role::Admin, "default").await;
        let who = trial.who(&admin).await.unwrap();
        let (user, tokens) = trial.member().await;
        let (accounts, client) = (&trial.accounts, Client::default());
        let link = async || accounts.reset_link(Maker::Caller(&who), "default", &user.id).await.unwrap().1;
        let ended = async |token: &str| matches!(accounts.look_at_link(token).await, Err(AccountError::Link));
        let other = accounts.reset_link(Maker::Caller(&who), "default", &who.user).await.unwrap().1;
        let own = trial.who(&tokens).await.unwrap();

        let kept = link().await;
        let (current, new) = (Some(PASSWORD.into()), "second horse".into());
        accounts.change_password(&own, current, new, ApiKeys::Keep, &client).await.unwrap();
        assert!(ended(&kept).await, "the password was changed");
        let (kept, used) = (link().await, link().await);
        accounts.reset_password(&used, "third horse".into(), ApiKeys::Keep, &client).await.unwrap();
        assert!(ended(&kept).await, "another link was used");
        let kept = link().await;
        let email = MemberChange { email: Some("new@example.com".into()), ..MemberChange::default() };
        accounts.change_member(&who, &user.id, &email, None).await.unwrap();
        assert!(ended(&kept).await, "the address was changed");
        let kept = link().await;
        for active in [false, true] {
            let change = MemberChange { active: Some(active), ..MemberChange::default() };
            accounts.change_member(&who, &user.id, &change, None).await.unwrap();
        }
        assert!(ended(&kept).await, "the account was deactivated");
        assert!(!ended(&other).await, "another user's session stays");
        assert_eq!(accounts.every("refresh", None).await.unwrap().len(), 1, "the administrator's own");
    }

    #[tokio::test]
    async fn a_reactivated_member_has_no_old_sessions_or_keys() {
        let trial = Trial::new();
        let admin = trial.join("admin@example.com", Role::Admin, "default").await;
        let who = trial.who(&admin).await.unwrap();
        let (user, tokens) = trial.member().await;
        let draft = crate::account::key::KeyDraft {
            user: user.id.clone(),
            name: "k".into(),
            scopes: Vec::new(),
            expires_at: None,
        };
        let (_, key) = trial.accounts.add_key(draft).await.unwrap();
        let active = |active| MemberChange { active: Some(active), ..MemberChange::default() };
        let off = trial.accounts.change_member(&who, &user.id, &active(false), None).await.unwrap();
        assert!(!off.user.active);
        assert!(trial.who(&tokens).await.is_err());
        // The same address reactivates the same account, with the new password and role.
        let draft = NewMember {
            email: "A@example.com ".into(),
            password: "another horse".into(),
            role: Role::Viewer,
            name: String::new(),
        };
        let back = trial.accounts.add_member(&who, draft).await.unwrap();
        assert_eq!((&back.user.id, back.user.active, back.user.role), (&user.id, true, Role::Viewer));
        assert!(trial.who(&tokens).await.is_err());
        assert!(trial.accounts.by_key(&key).await.unwrap().is_err());
        let client = Client::default();
        assert!(
            trial.accounts.login("a@example.com", PASSWORD.into(), &client, FirstRefresh::Now).await.is_err()
        );
        assert!(
            trial
                .accounts
                .login("a@example.com", "another horse".into(), &client, FirstRefresh::Now)
                .await
                .is_ok()
        );
    }
}
