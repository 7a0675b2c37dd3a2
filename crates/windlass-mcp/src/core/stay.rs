//! The time that a connection lasts: the list of tools is read again when it changes or may have.
//!
//! Why it ended is said, and what follows from that is decided elsewhere.

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

/// Stays connected: reads the tools again when they change or may have.
pub(super) async fn stay(core: &Arc<Core>, opened: Opened, relist: &Relist) -> Ended {
    let Opened { connection, service, listed, lists_changed, end } = opened;
    let ttl_ms = learn(core, &connection, listed, relist);
    let since = core.clock.now();
    core.state.link.send_replace(Link::Up { connection: connection.clone(), since });
    relist(core);
    tracing::info!(server = core.config.name, "a tool server is ready");
    core.log.push(&format!("[windlass] connected, revision {}", connection.info.protocol_version));
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
    // Calls find the server away before its connection is.
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
    // What waits over this connection waits for nobody.
    core.held.clear();
    stopper.cancel();
    tokio::select! {
        _ = &mut running, if !is_over => {}
        () = std::future::ready(()), if is_over => {}
        () = core.clock.sleep_ms(CLOSE_MS) => {}
    }
    ended
}

/// Completes when the server says that its list has changed, however often it says so soon after the last reading.
async fn told(core: &Core, lists_changed: &Notify, changes: &mut Changes, read_at_ms: u64) {
    tokio::select! {
        () = lists_changed.notified() => {}
        () = changes.next() => {}
    }
    let since_ms = core.clock.monotonic_ms().saturating_sub(read_at_ms);
    core.clock.sleep_ms(SHORTEST_READING_MS.saturating_sub(since_ms)).await;
    // One reading serves all that was said until now.
    while changes.next().now_or_never().is_some() {}
}

/// How long a list is taken as it is, whatever the server says.
const SHORTEST_READING_MS: u64 = 1_000;

/// How long a connection may take to end in order: a process gets its input's end, SIGTERM and SIGKILL within it.
const CLOSE_MS: u64 = 6_000;

/// Keeps what a server has, and says so where it is something else than before. For how long it may be taken as it is.
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

/// The list of tools as it was last read.
struct List {
    /// How long it may be taken as it is.
    ttl_ms: u64,
    /// How long it is; after a refusal longer and longer.
    lasts_ms: u64,
    /// How often in a row the server has refused to say it again.
    refusals: u32,
    /// When it was last asked for.
    read_at_ms: u64,
}

/// How long a list of tools is taken as it is: what the server says within these, or the usual time.
const SHORTEST_TTL: Duration = Duration::from_secs(10);
const LONGEST_TTL: Duration = Duration::from_secs(3_600);
const USUAL_TTL: Duration = Duration::from_secs(300);
/// Refusals in a row after which a connection that nobody uses is opened anew: the server may know it no more.
const MAX_REFUSALS: u32 = 3;

impl List {
    /// Reads it again, and says where the connection has ended thereby. One over which calls are at work is kept as
    /// long as the server is there, whatever is said in its place.
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
            Read::SignIn if is_used => self.refused(core, "somebody has to sign in"),
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
        tracing::debug!(server = core.config.name, why, "a tool server does not say its tools again");
        core.log.push(&format!("[windlass] its tools stay as they were: {why}"));
    }

    /// Takes note that nothing came from a server with calls at work: it may be too busy. One that was found away is not
    /// back by that.
    fn is_silent(&mut self, core: &Core) {
        if is_up(core) {
            (self.lasts_ms, self.refusals) = (self.ttl_ms, 0);
        } else {
            self.refused(core, SILENT);
            self.is_away(core, SILENT);
        }
    }

    /// Has new calls find the server away, while those that are at work go on. One that somebody has said is back was
    /// waited for, unless it is about to be connected anew.
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

/// Says that a connection leads to a server that answers.
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

/// How it went to read the tools again.
enum Read {
    Listed(Listed),
    /// The server has none, and is not asked.
    Nothing,
    /// No answer came in time.
    Silent,
    /// It was refused: a call finds that out by itself, and nothing is done.
    Refused(String, By),
    /// What stands before the server says that it does not serve now.
    Unserved(String),
    /// What was answered is no list, whoever has answered.
    Odd(String),
    SignIn,
    Gone(String),
}

/// Who refuses to have the list read.
enum By {
    TheServer,
    /// What the server has to be shown could not be had, and it was not asked.
    Ourselves,
}

/// Why a server is away that was asked and does not answer.
const SILENT: &str = "it does not answer";

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
