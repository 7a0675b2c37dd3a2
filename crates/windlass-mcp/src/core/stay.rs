//! Keeps a connection and reads the list of tools again when the list has changed or expired.
//!
//! The module returns why the connection ended; the supervisor decides whether to reconnect.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::FutureExt;
use rmcp::service::ServiceError;
use tokio::sync::Notify;
use windlass_machine::Timestamp;

use super::{Core, Link, Relist, has_resources};
use crate::core::changes::Changes;
use crate::core::connect::{
    Failed, Opened, failed_over_http, failed_service, is_answered, is_too_often, is_unasked, is_unserved,
};
use crate::core::connection::Connection;
use crate::core::pause::pause_ms;
use crate::list::{self, Listed};

/// Why a connection ended.
pub(super) enum Ended {
    Broken(String),
    SignIn,
    Restart,
    Stopped,
}

/// Keeps the connection until it ends, and reads the tools again when they have changed or expired.
pub(super) async fn stay(core: &Arc<Core>, opened: Opened, relist: &Relist) -> Ended {
    let Opened { connection, service, listed, lists_changed, end } = opened;
    let ttl_ms = learn(core, &connection, listed, relist);
    let since = core.clock.now();
    core.state.link.send_replace(Link::Up { connection: connection.clone(), since });
    relist(core);
    tracing::info!(server = core.config.name, "a tool server is ready");
    core.log.push(&format!("[windlass] connected, protocol version {}", connection.info.protocol_version));
    let stopper = service.cancellation_token();
    let mut running = Box::pin(service.waiting());
    let mut changes = Changes::of(&connection, core.clock.clone());
    let mut list = List { ttl_ms, lasts_ms: ttl_ms, refusals: 0, read_at_ms: core.clock.monotonic_ms() };
    let mut is_over = false;
    let ended = loop {
        tokio::select! {
            biased;
            () = core.signals.stop.cancelled() => break Ended::Stopped,
            _ = &mut running => {
                is_over = true;
                let why = core.with_last_words("the connection is closed".into(), &end).await;
                break Ended::Broken(why);
            }
            () = told(core, &lists_changed, &mut changes, list.read_at_ms) => {}
            () = core.signals.kick.notified() => {}
            () = core.clock.sleep_ms(list.lasts_ms) => {}
        }
        if core.signals.wants_restart.swap(false, Ordering::Relaxed) {
            break Ended::Restart;
        }
        if let Some(ended) = list.read_again(core, &connection, relist).await {
            break ended;
        }
    };
    // The server is marked as unreachable for new calls before the connection is closed.
    let now = core.clock.now();
    core.state.link.send_if_modified(|link| {
        if matches!(link, Link::Up { .. }) {
            let why = match &ended {
                Ended::Broken(why) => why.clone(),
                Ended::SignIn | Ended::Restart | Ended::Stopped => "the connection is closed".into(),
            };
            *link = Link::Down { why, since: now, retry_at: now, attempts: 0 };
        }
        true
    });
    // Calls held on this connection cannot be resumed.
    core.held.clear();
    stopper.cancel();
    tokio::select! {
        _ = &mut running, if !is_over => {}
        () = std::future::ready(()), if is_over => {}
        () = core.clock.sleep_ms(CLOSE_MS) => {}
    }
    ended
}

/// Completes when the server reports a changed list. Several reports soon after a read are handled as one.
async fn told(core: &Core, lists_changed: &Notify, changes: &mut Changes, read_at_ms: u64) {
    tokio::select! {
        () = lists_changed.notified() => {}
        () = changes.next() => {}
    }
    let since_ms = core.clock.monotonic_ms().saturating_sub(read_at_ms);
    core.clock.sleep_ms(SHORTEST_READING_MS.saturating_sub(since_ms)).await;
    // One read serves all reports received so far.
    while changes.next().now_or_never().is_some() {}
}

/// Minimum time between two reads of the list, in milliseconds.
const SHORTEST_READING_MS: u64 = 1_000;

/// Maximum time for an orderly end, in milliseconds. A process receives end of
/// input, SIGTERM and SIGKILL within this time.
const CLOSE_MS: u64 = 6_000;

/// Stores a new list, and notifies the hub if it differs. Returns how long the list is valid, in milliseconds.
fn learn(core: &Arc<Core>, connection: &Connection, listed: Listed, relist: &Relist) -> u64 {
    let ttl = listed.ttl.map_or(USUAL_TTL, |ttl| ttl.clamp(SHORTEST_TTL, LONGEST_TTL));
    let mut listed = Listed { ttl: None, ..listed };
    listed.tools.retain(|tool| core.wanted.takes(&tool.name));
    let is_new = {
        let mut known = core.known();
        let had_resources = known.info.as_ref().is_some_and(has_resources);
        let is_new = known.listed != listed || had_resources != has_resources(&connection.info);
        known.listed = listed;
        known.info = Some(connection.info.clone());
        is_new
    };
    if is_new {
        relist(core);
    }
    ttl.as_millis() as u64
}

/// The list of tools as last read.
struct List {
    /// Duration in milliseconds for which a list of this server is valid.
    ttl_ms: u64,
    /// Time until the next read, in milliseconds. It grows after refusals.
    lasts_ms: u64,
    /// Consecutive refusals to list the tools.
    refusals: u32,
    /// When the list was last requested.
    read_at_ms: u64,
}

/// Minimum of the validity that a server may request. The constants below are the maximum and the default.
const SHORTEST_TTL: Duration = Duration::from_secs(10);
const LONGEST_TTL: Duration = Duration::from_secs(3_600);
const USUAL_TTL: Duration = Duration::from_secs(300);
/// Consecutive refusals after which an idle connection is replaced, because the server may have lost it.
const MAX_REFUSALS: u32 = 3;

impl List {
    /// Reads the list again. Returns a reason if the connection has ended. A connection with calls in flight
    /// is kept while the server exists, even if the server answers with errors.
    async fn read_again(
        &mut self,
        core: &Arc<Core>,
        connection: &Arc<Connection>,
        relist: &Relist,
    ) -> Option<Ended> {
        self.read_at_ms = core.clock.monotonic_ms();
        let read = read(core, connection).await;
        let is_used = connection.calls.count() > core.held.ended();
        match read {
            Read::Listed(listed) => {
                self.ttl_ms = learn(core, connection, listed, relist);
                (self.lasts_ms, self.refusals) = (self.ttl_ms, 0);
                answers(core, connection);
            }
            Read::Nothing => answers(core, connection),
            Read::Silent if is_used => self.is_silent(core),
            Read::Silent => return Some(Ended::Broken(SILENT.into())),
            Read::Refused(why, by) => {
                self.refused(core, &why);
                if self.refusals >= MAX_REFUSALS && !is_used {
                    return Some(Ended::Broken(core.masks.reasons().text(&why)));
                }
                match by {
                    By::TheServer => answers(core, connection),
                    By::Ourselves if is_up(core) => {}
                    By::Ourselves => self.is_away(core, &why),
                }
            }
            Read::Odd(why) if is_used => {
                self.refused(core, &why);
                answers(core, connection);
            }
            Read::Unserved(why) if is_used => {
                self.refused(core, &why);
                self.is_away(core, &why);
            }
            Read::SignIn if is_used => self.refused(core, "a sign-in is required"),
            Read::SignIn => return Some(Ended::SignIn),
            Read::Odd(why) | Read::Unserved(why) | Read::Gone(why) => {
                return Some(Ended::Broken(core.masks.reasons().text(&why)));
            }
        }
        None
    }

    fn refused(&mut self, core: &Core, why: &str) {
        let why = core.masks.reasons().text(why);
        self.refusals = self.refusals.saturating_add(1);
        self.lasts_ms = pause_ms(self.refusals, core.clock.random());
        tracing::debug!(server = core.config.name, why, "refreshing the tools of a server failed");
        core.log.push(&format!("[windlass] kept the previous list of tools: {why}"));
    }

    /// Handles a timeout while calls are in flight. The server may be busy, so a connected server stays up.
    /// If it was already down, it stays down.
    fn is_silent(&mut self, core: &Core) {
        if is_up(core) {
            (self.lasts_ms, self.refusals) = (self.ttl_ms, 0);
        } else {
            self.refused(core, SILENT);
            self.is_away(core, SILENT);
        }
    }

    /// Marks the server as down for new calls, while calls in flight continue. Has no effect while a first connection
    /// is being made, unless a restart was requested.
    fn is_away(&self, core: &Core, why: &str) {
        let (now, why) = (core.clock.now(), core.masks.reasons().text(why));
        let (retry_at, attempts) = (Timestamp(now.0 + self.lasts_ms), self.refusals);
        core.state.link.send_if_modified(|link| {
            let since = match link {
                Link::Starting if !core.signals.wants_restart.load(Ordering::Relaxed) => now,
                Link::Up { .. } => now,
                Link::Down { since, .. } => *since,
                Link::Starting | Link::SignIn { .. } | Link::Disabled => return false,
            };
            *link = Link::Down { why, since, retry_at, attempts };
            true
        });
    }
}

fn is_up(core: &Core) -> bool {
    matches!(*core.state.link.borrow(), Link::Up { .. })
}

/// Marks the server as up.
fn answers(core: &Core, connection: &Arc<Connection>) {
    let since = core.clock.now();
    core.state.link.send_if_modified(|link| {
        let is_back = !matches!(link, Link::Up { .. }) && !core.signals.wants_restart.load(Ordering::Relaxed);
        if is_back {
            *link = Link::Up { connection: connection.clone(), since };
        }
        is_back
    });
    core.state.checked.send_modify(|count| *count += 1);
}

/// Outcome of reading the tools again.
enum Read {
    Listed(Listed),
    /// The server offers no tools.
    Nothing,
    /// No response arrived in time.
    Silent,
    /// The request was refused. The connection is kept: a later call will detect its end.
    Refused(String, By),
    /// A gateway in front of the server reports that the server is unavailable.
    Unserved(String),
    /// The response is not a list of tools.
    Odd(String),
    SignIn,
    Gone(String),
}

/// The party that refused to read the list.
enum By {
    TheServer,
    /// A token or header was unavailable, and the request was not sent.
    Ourselves,
}

/// The reason displayed for a server that does not respond.
const SILENT: &str = "it does not respond";

async fn read(core: &Core, connection: &Connection) -> Read {
    if connection.info.capabilities.tools.is_none() {
        return Read::Nothing;
    }
    let read = tokio::select! {
        read = list::tools(&connection.peer, &core.masks) => read,
        () = core.clock.sleep_ms(core.config.timeouts.request_ms) => return Read::Silent,
    };
    let error = match read {
        Ok(listed) => return Read::Listed(listed),
        Err(error) => error,
    };
    let why = match failed_service(&error) {
        Failed::SignIn => return Read::SignIn,
        Failed::Unavailable(why) | Failed::OtherLifecycle(why) => why,
    };
    if matches!(error, ServiceError::McpError(_)) || failed_over_http(&error, is_too_often) {
        Read::Refused(why, By::TheServer)
    } else if failed_over_http(&error, is_unasked) {
        Read::Refused(why, By::Ourselves)
    } else if failed_over_http(&error, is_unserved) {
        Read::Unserved(why)
    } else if is_answered(&error) {
        Read::Odd(why)
    } else {
        Read::Gone(why)
    }
}
