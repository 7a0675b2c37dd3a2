//! Control of an account: password resets with an administrator's link, and the last time at which another user may
//! have taken over the account.

use std::sync::Arc;

use windlass::machine::{Principal, Timestamp};
use windlass::port::journal::StoreError;
use windlass::port::records::{Expect, RecordChange};

use crate::account::audit::Note;
use crate::account::error::AccountError;
use crate::account::key::ApiKeys;
use crate::account::link::{DAY_S, Link, LinkUse, Maker, used_up};
use crate::account::sessions::session::FirstRefresh;

use crate::account::Accounts;
use crate::account::login::password;
use crate::account::people::member::{By, foreign_local};
use crate::account::people::user::{LOCAL, USER, User, mark};
use crate::account::record::put;
use crate::account::sessions::session::{Client, Tokens};

impl User {
    /// Records the time of a change by which another user may have taken over the account, or which extends its
    /// permissions. The account then cannot approve calls of runs that started earlier. A change by the owner with the
    /// account's password does not count.
    pub(in crate::account) fn settled(self, before: &Self, by: By, is_reset: bool, now: Timestamp) -> Self {
        let is_promoted = self.role > before.role || (self.active && !before.active);
        let is_moved = by == By::Administrator && self.email != before.email;
        let changes_hands = is_promoted || is_reset || is_moved;
        Self { settled_at: if changes_hands { now } else { before.settled_at }, ..self }
    }
}

impl Accounts {
    /// Returns the changes to API keys that accompany a new password.
    pub(in crate::account) async fn revoked(
        &self,
        user: &Principal,
        keys: ApiKeys,
    ) -> Result<Vec<RecordChange>, StoreError> {
        match keys {
            ApiKeys::Keep => Ok(Vec::new()),
            ApiKeys::Revoke => self.key_ends(user).await,
        }
    }

    /// Creates a link with which a member sets a new password.
    pub async fn reset_link(
        &self,
        maker: Maker<'_>,
        workspace: &str,
        id: &Principal,
    ) -> Result<(Link, String), AccountError> {
        let member = self.member(workspace, id).await?;
        if let Maker::Caller(identity) = maker
            && id.as_str() == LOCAL
            && identity.user != *id
        {
            return Err(AccountError::Refused { code: "local_account", detail: foreign_local() });
        }
        if !member.user.active || member.user.email.is_none() {
            let detail = format!("`{id}` has no address or is deactivated, so its password cannot be reset");
            return Err(AccountError::Refused { code: "no_password", detail });
        }
        self.make_link(maker, workspace, LinkUse::Reset { user: id.clone() }, DAY_S).await
    }

    /// Sets a new password with an administrator's link and signs in. All other sessions end.
    pub async fn reset_password(
        &self,
        token: &str,
        password: String,
        keys: ApiKeys,
        client: &Client,
    ) -> Result<Tokens, AccountError> {
        password::check(&password)?;
        let (link, used) = self.find_link(token).await?;
        let LinkUse::Reset { user } = &link.used_for else { return Err(AccountError::Link) };
        let (user, stands) = self.standing(user).await?.ok_or(AccountError::Link)?;
        let user = Arc::new(User { settled_at: self.clock.now(), ..user.as_ref().clone() });
        let others = self.reset_ends(&user.workspace, &user.id).await?;
        let mut changes = vec![
            put(USER, user.id.as_str(), &user.workspace, user.as_ref(), stands.expected),
            mark(Expect::Any),
            self.new_password(&user.id, &user.workspace, password).await?,
        ];
        changes.extend(others.into_iter().filter(|other| other.key != used.key));
        changes.push(used);
        changes.extend(self.session_ends(&user.id, None).await?);
        let note = Note::new(&user.workspace, "password.reset").on(user.id.as_str());
        let revoked = self.revoked(&user.id, keys).await?;
        let note = note.with("link", link.id.as_str()).with("keys_revoked", revoked.len());
        changes.extend(revoked);
        let opened = self.open_session(&user, client, FirstRefresh::Now, changes, note).await;
        let tokens = opened.map_err(used_up)?;
        self.end_latecomers(&user.id, Some(&tokens.session)).await?;
        Ok(tokens)
    }
}

#[cfg(test)]
mod tests {
    use windlass::port::clock::Clock;

    use super::*;
    use crate::account::Role;
    use crate::account::login::trial::{PASSWORD, Trial};
    use crate::account::people::member::{MemberChange, NewMember};

    #[tokio::test]
    async fn changes_by_others_unsettle_an_account_and_its_owners_do_not() {
        let trial = Trial::new();
        let (accounts, client) = (&trial.accounts, Client::default());
        let admin = trial.who(&trial.join("admin@example.com", Role::Admin, "default").await).await.unwrap();
        let (user, tokens) = trial.member().await;
        let own = trial.who(&tokens).await.unwrap();
        let check = async |case: &str, wanted: bool| {
            let found = accounts.member("default", &user.id).await.unwrap().user.settled_at;
            assert_eq!(found == trial.clock.now(), wanted, "{case}");
            trial.clock.advance_ms(1_000);
        };
        check("made", true).await;
        let to = |email: &str| MemberChange { email: Some(email.into()), ..MemberChange::default() };
        accounts.change_self(&own, to("b@example.com"), Some(PASSWORD.into()), &client).await.unwrap();
        check("moved by its owner", false).await;
        let named = MemberChange { name: Some("Ann".into()), ..MemberChange::default() };
        accounts.change_member(&admin, &user.id, &named, None).await.unwrap();
        check("named", false).await;
        let (current, new) = (Some(PASSWORD.into()), "second horse".into());
        accounts.change_password(&own, current, new, ApiKeys::Keep, &client).await.unwrap();
        check("another password by its owner", false).await;
        accounts.change_member(&admin, &user.id, &to("c@example.com"), None).await.unwrap();
        check("moved by an administrator", true).await;
        for (role, wanted) in [(Role::Viewer, false), (Role::Member, true), (Role::Admin, true)] {
            let change = MemberChange { role: Some(role), ..MemberChange::default() };
            accounts.change_member(&admin, &user.id, &change, None).await.unwrap();
            check(role.word(), wanted).await;
        }
        let active = |active| MemberChange { active: Some(active), ..MemberChange::default() };
        accounts.change_member(&admin, &user.id, &active(false), None).await.unwrap();
        check("deactivated", false).await;
        accounts.change_member(&admin, &user.id, &active(true), None).await.unwrap();
        check("reactivated", true).await;
        accounts.change_member(&admin, &user.id, &active(false), None).await.unwrap();
        let draft = NewMember {
            email: "c@example.com".into(),
            password: "third horse".into(),
            role: Role::Viewer,
            name: String::new(),
        };
        accounts.add_member(&admin, draft).await.unwrap();
        check("back with a new password", true).await;
        let (_, link) = accounts.reset_link(Maker::Terminal, "default", &user.id).await.unwrap();
        check("a link", false).await;
        accounts.reset_password(&link, "fourth horse".into(), ApiKeys::Keep, &client).await.unwrap();
        check("reset", true).await;
    }
}
