//! What a process does by itself as long as it has servers: what others change is taken in, what is known of tools is
//! kept, and calls that wait for a sign-in go on once the server answers.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use windlass::mcp::Health;
use windlass::port::tool::ToolSource;

use super::added::SERVER;
use super::{Servers, known};
use crate::account::people::user::local;

/// How often it is looked whether another process has changed anything, or a server has come back.
const LOOK_EVERY_MS: u64 = 1_000;

/// What was found when it was last looked.
#[derive(Default)]
struct Seen {
    /// The newest change of an added server.
    changes: Vec<u64>,
    version: Option<u64>,
    sign_ins: SignIns,
}

/// Whether somebody has to sign in, by server, as it was last seen.
#[derive(Debug, Default)]
struct SignIns(BTreeMap<String, bool>);

impl SignIns {
    /// Whether what waits for a sign-in at a server goes on now. Only a server that answers has been signed in at: one
    /// that is just away needs it as before. One that answers at the first look may have been signed in at while no
    /// process watched, or by one that has ended since; a process that does not stay begins nothing for that.
    fn has_come(&mut self, server: &str, health: &Health, stays: bool) -> bool {
        match health {
            Health::NeedsSignIn { .. } => {
                self.0.insert(server.to_owned(), true);
                false
            }
            Health::Ready { .. } => self.0.get(server).copied().unwrap_or(stays),
            Health::Starting | Health::Unavailable { .. } | Health::Disabled => false,
        }
    }

    /// That everything goes on which has waited.
    fn goes_on(&mut self, server: &str) {
        self.0.insert(server.to_owned(), false);
    }
}

impl Servers {
    /// Looks after the servers until nobody holds them any more.
    pub(super) fn look_after(self: &Arc<Self>) {
        let (servers, clock, mut changed) = (Arc::downgrade(self), self.clock.clone(), self.hub.changed());
        tokio::spawn(async move {
            let mut seen = Seen::default();
            while let Some(servers) = Weak::upgrade(&servers) {
                servers.look(&mut seen).await;
                drop(servers);
                tokio::select! {
                    // What is known of tools is kept at once. An error says that the servers are gone, as is then seen.
                    _ = changed.changed() => {}
                    () = clock.sleep_ms(LOOK_EVERY_MS) => {}
                }
            }
        });
    }

    async fn look(&self, seen: &mut Seen) {
        if let Err(error) = self.look_at_changes(seen).await {
            tracing::debug!(%error, "what others have changed of tool servers is not known");
        }
        let version = self.hub.version();
        if seen.version.replace(version) != Some(version) {
            known::keep(&*self.records, &self.hub).await;
        }
        let all = self.hub.status();
        // Another one of the same name is another one.
        seen.sign_ins.0.retain(|name, _| all.iter().any(|status| status.name == *name));
        for status in all {
            if seen.sign_ins.has_come(&status.name, &status.health, self.role.stays)
                && self.go_on(&status.name, &local()).await
            {
                seen.sign_ins.goes_on(&status.name);
            }
        }
    }

    async fn look_at_changes(&self, seen: &mut Seen) -> anyhow::Result<()> {
        let changes = self.records.changes(&[SERVER]).await?;
        if seen.changes != changes {
            self.take_in(&mut *self.added.lock().await).await?;
            seen.changes = changes;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use windlass::machine::Timestamp;

    use super::*;

    const AT: Timestamp = Timestamp(1);

    fn away() -> Health {
        Health::Unavailable { why: "x".into(), since: AT, retry_at: AT }
    }

    #[test]
    fn a_sign_in_has_come_where_the_server_answers_and_nowhere_else() {
        let mut seen = SignIns::default();
        let mut look = |health: Health| {
            let has_come = seen.has_come("a", &health, true);
            if has_come {
                seen.goes_on("a");
            }
            has_come
        };
        assert!(!look(Health::Starting) && !look(away()));
        // Somebody has signed in before this process was there.
        assert!(look(Health::Ready { since: AT }));
        assert!(!look(away()) && !look(Health::Ready { since: AT }), "nothing has waited for it since");
        assert!(!look(Health::NeedsSignIn { since: AT }));
        // It is connected to anew, and nobody has signed in.
        assert!(!look(Health::Starting) && !look(away()) && !look(Health::NeedsSignIn { since: AT }));
        assert!(!look(away()));
        assert!(look(Health::Ready { since: AT }));
        assert!(!look(Health::Ready { since: AT }));
    }

    #[test]
    fn what_goes_on_is_said_once_it_does_and_not_before() {
        let mut seen = SignIns::default();
        let ready = Health::Ready { since: AT };
        assert!(seen.has_come("a", &ready, true) && seen.has_come("a", &ready, true));
        seen.goes_on("a");
        assert!(!seen.has_come("a", &ready, true));
        // A command that ends soon begins nothing that it finds, and yet what it has seen come.
        assert!(!seen.has_come("b", &ready, false));
        assert!(!seen.has_come("b", &Health::NeedsSignIn { since: AT }, false));
        assert!(seen.has_come("b", &ready, false));
    }
}
