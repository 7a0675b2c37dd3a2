//! The time that a connection lasts: the list of tools is read again when it changes or may have.
//!
//! Why it ended is said, and what follows from that is decided elsewhere.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{Core, Link, Relist, has_resources};
use crate::adapter::mcp::changes::Changes;
use crate::adapter::mcp::connect::{Connection, Failed, Opened, failed_service};
use crate::adapter::mcp::list::{self, Listed};

/// Why a connection ended.
pub(super) enum Ended {
    Broken(String),
    SignIn,
    Restart,
    Stopped,
}

/// How long a list of tools is taken as it is: what the server says within these, or the usual time.
const SHORTEST_TTL: Duration = Duration::from_secs(10);
const LONGEST_TTL: Duration = Duration::from_secs(3_600);
const USUAL_TTL: Duration = Duration::from_secs(300);

/// Stays connected: reads the tools again when they change or may have.
pub(super) async fn stay(core: &Arc<Core>, opened: Opened, relist: &Relist) -> Ended {
    let Opened { connection, service, listed, lists_changed, end } = opened;
    let mut ttl = learn(core, &connection, listed, relist);
    let since = core.clock.now();
    core.link.send_replace(Link::Up { connection: connection.clone(), since });
    relist(core);
    tracing::info!(server = core.config.name, "a tool server is ready");
    core.log.push(&format!("[windlass] connected, revision {}", connection.info.protocol_version));
    let stopper = service.cancellation_token();
    let mut running = Box::pin(service.waiting());
    let mut changes = Changes::of(&connection);
    let mut is_over = false;
    let ended = loop {
        tokio::select! {
            biased;
            () = core.stop.cancelled() => break Ended::Stopped,
            _ = &mut running => {
                is_over = true;
                let why = core.with_last_words("the connection is closed".into(), &end).await;
                break Ended::Broken(why);
            }
            () = lists_changed.notified() => {}
            () = changes.next() => {}
            () = core.kick.notified() => {}
            () = core.clock.sleep_ms(ttl.as_millis() as u64) => {}
        }
        if core.wants_restart.swap(false, Ordering::Relaxed) {
            break Ended::Restart;
        }
        match refreshed(core, &connection).await {
            Ok(Some(listed)) => ttl = learn(core, &connection, listed, relist),
            Ok(None) => {}
            Err(Failed::SignIn) => break Ended::SignIn,
            Err(Failed::Unavailable(why) | Failed::OtherLifecycle(why)) => {
                break Ended::Broken(core.masks.reasons().text(&why));
            }
        }
        core.checked.send_modify(|count| *count += 1);
    };
    // Calls find the server away before its connection is.
    let now = core.clock.now();
    core.link.send_if_modified(|link| {
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

/// How long a connection may take to end in order: a process gets its input's end, SIGTERM and SIGKILL within it.
const CLOSE_MS: u64 = 6_000;

/// Keeps what a server has, and says so where it is something else than before.
fn learn(core: &Arc<Core>, connection: &Connection, listed: Listed, relist: &Relist) -> Duration {
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
    ttl
}

/// Reads the tools again; `None` where the server is too busy to say, but at work.
async fn refreshed(core: &Core, connection: &Connection) -> Result<Option<Listed>, Failed> {
    if connection.info.capabilities.tools.is_none() {
        return Ok(None);
    }
    let read = tokio::select! {
        read = list::tools(&connection.peer, &core.masks) => read,
        () = core.clock.sleep_ms(core.config.timeouts.request_ms) => {
            if connection.calls.count() > 0 {
                return Ok(None);
            }
            return Err(Failed::Unavailable("it does not answer".into()));
        }
    };
    match read {
        Ok(listed) => Ok(Some(listed)),
        Err(error) => Err(failed_service(&error)),
    }
}
