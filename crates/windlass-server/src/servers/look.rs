//! The background task of a process with MCP servers. The task applies changes by other processes, stores tool lists,
//! and resumes calls after a sign-in.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use windlass::mcp::Health;
use windlass::port::tool::ToolSource;

use super::added::SERVER;
use super::{Servers, known};
use crate::account::people::user::local;

/// Interval between checks for changes by other processes and for reconnected servers, in milliseconds.
const LOOK_EVERY_MS: u64 = 1_000;

/// The state at the last check.
#[derive(Default)]
struct Seen {
    /// The newest change of an added server.
    changes: Vec<u64>,
    version: Option<u64>,
    sign_ins: SignIns,
}

/// For each server, whether it required a sign-in at the last check.
#[derive(Debug, Default)]
struct SignIns(BTreeMap<String, bool>);

impl SignIns {
    /// Returns whether calls that wait for a sign-in at a server can resume. Only a connected server proves a sign-in;
    /// an unavailable server may still require one. If a server is connected at the first check, a user may have signed
    /// in earlier. A long-running process then resumes calls; a short-lived process does not.
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

    /// Records that the task has resumed all waiting calls of a server.
    fn mark_resumed(&mut self, server: &str) {
        self.0.insert(server.to_owned(), false);
    }
}

impl Servers {
    /// Starts the background task. The task ends when the servers are dropped.
    pub(super) fn look_after(self: &Arc<Self>) {
        let (servers, clock, mut changed) = (Arc::downgrade(self), self.clock.clone(), self.hub.changed());
        tokio::spawn(async move {
            let mut seen = Seen::default();
            while let Some(servers) = Weak::upgrade(&servers) {
                servers.look(&mut seen).await;
                drop(servers);
                tokio::select! {
                    // Store tool lists immediately. An error means that the hub was dropped; the loop then ends.
                    _ = changed.changed() => {}
                    () = clock.sleep_ms(LOOK_EVERY_MS) => {}
                }
            }
        });
    }

    async fn look(&self, seen: &mut Seen) {
        if let Err(error) = self.look_at_changes(seen).await {
            tracing::debug!(%error, "changes to tool servers by other processes could not be read");
        }
        let version = self.hub.version();
        if seen.version.replace(version) != Some(version) {
            known::keep(&*self.records, &self.hub).await;
        }
        let all = self.hub.status();
        // A new server with the name of a removed server starts without state.
        seen.sign_ins.0.retain(|name, _| all.iter().any(|status| status.name == *name));
        for status in all {
            if seen.sign_ins.has_come(&status.name, &status.health, self.role.stays)
                && self.answer_waiting_calls(&status.name, &local()).await
            {
                seen.sign_ins.mark_resumed(&status.name);
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
                seen.mark_resumed("a");
            }
            has_come
        };
        assert!(!look(Health::Starting) && !look(away()));
        // A user signed in before this process started.
        assert!(look(Health::Ready { since: AT }));
        assert!(!look(away()) && !look(Health::Ready { since: AT }), "nothing has waited for it since");
        assert!(!look(Health::NeedsSignIn { since: AT }));
        // The server reconnects, and no user has signed in.
        assert!(!look(Health::Starting) && !look(away()) && !look(Health::NeedsSignIn { since: AT }));
        assert!(!look(away()));
        assert!(look(Health::Ready { since: AT }));
        assert!(!look(Health::Ready { since: AT }));
    }

    #[test]
    fn resumed_calls_are_recorded_only_after_they_resume() {
        let mut seen = SignIns::default();
        let ready = Health::Ready { since: AT };
        assert!(seen.has_come("a", &ready, true) && seen.has_come("a", &ready, true));
        seen.mark_resumed("a");
        assert!(!seen.has_come("a", &ready, true));
        // A short-lived command does not resume calls at its first check. It resumes calls after a sign-in that it has
        // observed.
        assert!(!seen.has_come("b", &ready, false));
        assert!(!seen.has_come("b", &Health::NeedsSignIn { since: AT }, false));
        assert!(seen.has_come("b", &ready, false));
    }
}
