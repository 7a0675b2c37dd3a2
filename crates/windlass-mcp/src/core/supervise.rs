//! The task that keeps a server connected. It reconnects after a failure, with growing pauses.
//!
//! The task never calls a tool. A call that finds the server unreachable fails without the task.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::watch;
use windlass_machine::{Digest, Timestamp};

use super::stay::{Ended, stay};
use super::{Core, Link, Relist};
use crate::core::connect::{Failed, Lifecycle, Opened, open};
use crate::core::pause::{LONGEST_PAUSE_MS, pause_ms};

/// Maximum number of attempts to connect to a required server at
/// startup. A pause follows each attempt. (SK-A12)
pub(crate) const REQUIRED_ATTEMPTS: u32 = 5;
const REQUIRED_PAUSE_MS: u64 = 3_000;
/// Duration in milliseconds after which a connection resets the number of attempts, and with it the pause.
const GOOD_MS: u64 = 60_000;

/// Keeps a server connected until it is stopped, then closes the connection in order.
pub(crate) async fn supervise(core: Arc<Core>, relist: Relist) {
    kept(&core, &relist).await;
    core.state.link.send_replace(Link::Disabled);
}

async fn kept(core: &Arc<Core>, relist: &Relist) {
    let (mut attempts, mut has_been_up) = (0_u32, false);
    let mut lifecycle = Lifecycle::Auto;
    let mut down_since: Option<Timestamp> = None;
    loop {
        // This connection satisfies pending requests for a restart.
        core.signals.wants_restart.store(false, Ordering::Relaxed);
        // The task subscribes before the attempt, because a user may sign in while the server still refuses.
        let signed_in = core.sign_in.as_ref().map(|sign_in| sign_in.finished());
        let mut up_since_ms = None;
        let reached = tokio::select! {
            biased;
            () = core.signals.stop.cancelled() => return,
            reached = reached(core, &mut lifecycle) => reached,
        };
        let ended = match reached {
            Ok(opened) => {
                (has_been_up, down_since) = (true, None);
                up_since_ms = Some(core.clock.monotonic_ms());
                stay(core, opened, relist).await
            }
            Err(Failed::SignIn) => Ended::SignIn,
            Err(Failed::Unavailable(why) | Failed::OtherLifecycle(why)) => Ended::Broken(why),
        };
        let lasted_ms = up_since_ms.map(|since_ms| core.clock.monotonic_ms().saturating_sub(since_ms));
        if lasted_ms.is_some_and(|lasted_ms| lasted_ms >= GOOD_MS) {
            attempts = 0;
        }
        let why = match ended {
            Ended::Stopped => return,
            Ended::Broken(why) => why,
            Ended::SignIn => {
                wait_for_sign_in(core, signed_in, relist).await;
                continue;
            }
            Ended::Restart => {
                attempts = 0;
                continue;
            }
        };
        attempts = attempts.saturating_add(1);
        let starts = core.config.required && !has_been_up && attempts < REQUIRED_ATTEMPTS;
        let pause_ms = if starts { REQUIRED_PAUSE_MS } else { pause_ms(attempts, core.clock.random()) };
        let now = core.clock.now();
        let since = *down_since.get_or_insert(now);
        tracing::warn!(server = core.config.name, why, attempts, pause_ms, "a tool server is not available");
        core.log.push(&format!("[windlass] not available, retrying in {pause_ms} ms: {why}"));
        let retry_at = Timestamp(now.0 + pause_ms);
        core.state.link.send_replace(Link::Down { why, since, retry_at, attempts });
        // Servers configured after this one may be waiting until this server has chosen its names.
        relist(core);
        tokio::select! {
            () = core.signals.stop.cancelled() => return,
            () = core.clock.sleep_ms(pause_ms) => {}
            () = core.signals.kick.notified() => {}
        }
    }
}

/// Connects with the handshake that worked last, or with the other handshake.
async fn reached(core: &Core, lifecycle: &mut Lifecycle) -> Result<Opened, Failed> {
    let mut opened = open(core, *lifecycle).await;
    if let Err(Failed::OtherLifecycle(why)) = &opened {
        tracing::debug!(server = core.config.name, why, "the server needs the initialize handshake");
        opened = open(core, Lifecycle::Initialize).await;
    }
    // The newer revision is not tried again at each connection to an older server. After a failure both are
    // tried, because the server may have been replaced.
    let initializes = opened.as_ref().is_ok_and(|it| it.connection.info.protocol_version.has_initialize());
    *lifecycle = if initializes { Lifecycle::Initialize } else { Lifecycle::Auto };
    opened
}

/// Waits for a sign-in or a requested retry. The caller subscribed `finished` before the server refused.
async fn wait_for_sign_in(core: &Arc<Core>, finished: Option<watch::Receiver<u64>>, relist: &Relist) {
    if finished.as_ref().is_some_and(|finished| finished.has_changed().unwrap_or(false)) {
        return;
    }
    core.state.link.send_replace(Link::SignIn { since: core.clock.now() });
    relist(core);
    core.log.push("[windlass] a sign-in is required");
    tracing::info!(server = core.config.name, "a tool server requires a sign-in");
    let Some(mut finished) = finished else {
        // Without a sign-in, another set of headers may become available later.
        tokio::select! {
            () = core.signals.stop.cancelled() => {}
            () = core.clock.sleep_ms(LONGEST_PAUSE_MS) => {}
            () = core.signals.kick.notified() => {}
        }
        return;
    };
    let before = sign_in_kept(core).await;
    let elsewhere = async {
        while sign_in_kept(core).await == before {
            core.clock.sleep_ms(LOOK_EVERY_MS).await;
        }
    };
    tokio::select! {
        () = core.signals.stop.cancelled() => {}
        _ = finished.changed() => {}
        () = core.signals.kick.notified() => {}
        () = elsewhere => {}
    }
}

/// Interval between two checks whether another process has completed a sign-in, in milliseconds.
const LOOK_EVERY_MS: u64 = 2_000;

async fn sign_in_kept(core: &Core) -> Option<Digest> {
    core.sign_in.as_ref()?.kept().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_minute_and_differ() {
        let bounds: Vec<(u64, u64)> =
            [1, 2, 6, 7, 40].map(|attempts| (pause_ms(attempts, 0), pause_ms(attempts, 500))).to_vec();
        assert_eq!(
            bounds,
            [(500, 1_000), (1_000, 1_500), (16_000, 16_500), (30_000, 30_500), (30_000, 30_500)]
        );
    }
}
