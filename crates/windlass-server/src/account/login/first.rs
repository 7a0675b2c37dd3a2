//! Registration of the first account without the link that the server prints, for clients that do not know the link.
//!
//! The settings of a dialect decide whether this is allowed. If several clients register at the same time, this module
//! lets only one registration succeed.

use windlass::port::records::{Expect, RecordChange};

use crate::account::Accounts;
use crate::account::Role;
use crate::account::error::AccountError;
use crate::account::login::{Admission, Registrant, checked};
use crate::account::people::user::DEFAULT_WORKSPACE;
use crate::account::record::FIRST;
use crate::account::record::put;
use crate::account::sessions::session::FirstRefresh;
use crate::account::sessions::session::{Client, Tokens};

impl Accounts {
    /// Registers the first account as administrator. Only one of several concurrent requests succeeds. (SK-P10)
    pub async fn register_first(&self, draft: Registrant, client: &Client) -> Result<Tokens, AccountError> {
        let draft = checked(draft)?;
        if self.is_registered().await? {
            return Err(AccountError::NotFirst);
        }
        let workspace = DEFAULT_WORKSPACE.to_owned();
        let used = Some(self.first(&workspace));
        let admission = Admission { workspace, role: Role::Admin, vouched: true, used };
        self.enrol(draft, admission, client, FirstRefresh::Now).await
    }

    /// Returns the change that marks the first account as registered, for a caller that creates the account by other
    /// means than `register_first`. Returns `None` if an account exists. The mark prevents a later registration without
    /// a link.
    pub(in crate::account) async fn first_account(&self) -> Result<Option<RecordChange>, AccountError> {
        let is_first = !self.is_registered().await?;
        Ok(is_first.then(|| self.first(DEFAULT_WORKSPACE)))
    }

    fn first(&self, workspace: &str) -> RecordChange {
        put(FIRST, FIRST, workspace, &self.clock.now(), Expect::Absent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::login::trial::{PASSWORD, Trial};

    fn draft(email: &str) -> Registrant {
        Registrant { email: email.into(), password: PASSWORD.into(), name: String::new(), invite: None }
    }

    // rows: SK-P10
    #[tokio::test]
    async fn one_of_several_first_accounts_counts() {
        let trial = Trial::new();
        let (accounts, client) = (&trial.accounts, Client::default());
        let both = tokio::join!(
            accounts.register_first(draft("a@example.com"), &client),
            accounts.register_first(draft("b@example.com"), &client),
        );
        let (made, refused): (Vec<_>, Vec<_>) = [both.0, both.1].into_iter().partition(Result::is_ok);
        let made: Vec<_> = made.into_iter().flatten().map(|tokens| tokens.user.role).collect();
        assert_eq!((made, refused.len()), (vec![Role::Admin], 1));
        assert!(matches!(refused[0], Err(AccountError::NotFirst)));
        let kept = accounts.first_account().await.unwrap();
        assert!(kept.is_none(), "an account by another way takes no place of the first");
        let late = accounts.register_first(draft("c@example.com"), &client).await;
        assert!(matches!(late, Err(AccountError::NotFirst)));
    }
}
