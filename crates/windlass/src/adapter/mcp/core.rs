//! One server: what is known of it, how it is, and the task that keeps it reachable.
//!
//! The task connects, keeps the list of tools fresh, and tries again after a failure, later and later. It never calls a
//! tool: a call that finds the server away says so.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rmcp::model::ServerPeerInfo;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use windlass_machine::{Digest, Timestamp};

use super::changes::Changes;
use super::child::End;
use super::config::{McpServer, Transport, Wanted};
use super::connect::{Connection, Failed, Lifecycle, Opened, failed_service, open};
use super::health::{Health, Log};
use super::held::Held;
use super::list::{self, Listed};
use super::mask::Masks;
use super::oauth::SignIn;
use super::sampling::Sampling;
use crate::outbound::Outbound;
use crate::port::clock::Clock;

/// A server with everything that belongs to it.
pub(super) struct Core {
    pub config: McpServer,
    pub wanted: Wanted,
    pub clock: Arc<dyn Clock>,
    /// The way to it, where it is reached over HTTP.
    pub way: Option<Arc<Outbound>>,
    pub sign_in: Option<Arc<SignIn>>,
    pub sampling: Option<Sampling>,
    pub log: Arc<Log>,
    pub masks: Arc<Masks>,
    pub held: Held,
    pub stop: CancellationToken,
    /// Told to try at once: somebody wants it, or has seen a call fail.
    pub kick: Notify,
    link: watch::Sender<Link>,
    known: Mutex<Known>,
    numbers: AtomicU64,
    wants_restart: AtomicBool,
    /// Counts how often the server was found to answer.
    checked: watch::Sender<u64>,
}

/// How a server is reached now.
#[derive(Clone)]
pub(super) enum Link {
    /// It is being reached for the first time.
    Starting,
    /// It answers.
    Up { connection: Arc<Connection>, since: Timestamp },
    /// It does not.
    Down { why: String, since: Timestamp, retry_at: Timestamp, attempts: u32 },
    /// Somebody has to sign in.
    SignIn { since: Timestamp },
    /// It is switched off.
    Disabled,
}

/// What is known of a server, also while it is away.
#[derive(Default)]
pub(super) struct Known {
    pub listed: Listed,
    /// What it last said of itself.
    pub info: Option<ServerPeerInfo>,
}

/// What is handed to the hub whenever a server's tools are others.
pub(super) type Relist = Arc<dyn Fn(&Arc<Core>) + Send + Sync>;

impl Core {
    pub fn new(
        config: McpServer,
        wanted: Wanted,
        clock: Arc<dyn Clock>,
        way: Option<Arc<Outbound>>,
        (sign_in, sampling): (Option<Arc<SignIn>>, Option<Sampling>),
        masks: Arc<Masks>,
        stop: CancellationToken,
    ) -> Self {
        let link = if config.enabled { Link::Starting } else { Link::Disabled };
        Self {
            held: Held::new(clock.clone(), config.timeouts.question_ms),
            config,
            wanted,
            clock,
            way,
            sign_in,
            sampling,
            log: Arc::new(Log::masking(masks.clone())),
            masks,
            stop,
            kick: Notify::new(),
            link: watch::Sender::new(link),
            known: Mutex::default(),
            numbers: AtomicU64::new(0),
            wants_restart: AtomicBool::new(false),
            checked: watch::Sender::new(0),
        }
    }

    pub fn link(&self) -> watch::Receiver<Link> {
        self.link.subscribe()
    }

    pub fn known(&self) -> MutexGuard<'_, Known> {
        // Each change is one assignment.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the server last said of itself.
    pub fn info(&self) -> Option<ServerPeerInfo> {
        self.known().info.clone()
    }

    /// Whether the server has resources to read.
    pub fn has_resources(&self) -> bool {
        self.known().info.as_ref().is_some_and(has_resources)
    }

    pub fn next_number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    pub fn health(&self) -> Health {
        match &*self.link.borrow() {
            Link::Starting => Health::Starting,
            Link::Up { since, .. } => Health::Ready { since: *since },
            Link::Down { why, since, retry_at, .. } => {
                Health::Unavailable { why: why.clone(), since: *since, retry_at: *retry_at }
            }
            Link::SignIn { since } => Health::NeedsSignIn { since: *since },
            Link::Disabled => Health::Disabled,
        }
    }

    /// A connection, waited for while the server is being reached for the first time. Else, how the server is.
    pub async fn connection(&self) -> Result<Arc<Connection>, Link> {
        let mut link = self.link();
        let settled = async {
            match link.wait_for(|link| !matches!(link, Link::Starting)).await {
                Ok(link) => link.clone(),
                Err(_) => Link::Disabled,
            }
        };
        let link = tokio::select! {
            biased;
            link = settled => link,
            () = self.clock.sleep_ms(self.config.timeouts.connect_ms) => Link::Starting,
        };
        match link {
            Link::Up { connection, .. } => Ok(connection),
            other => Err(other),
        }
    }

    /// A connection after a call over one has failed: the same one where the server turns out to answer, or its next.
    pub async fn connection_after(&self, failed: u64) -> Option<Arc<Connection>> {
        let (mut link, mut checked) = (self.link(), self.checked.subscribe());
        self.kick.notify_one();
        let found = async {
            loop {
                let was_checked = checked.has_changed().unwrap_or(false);
                match &*link.borrow_and_update() {
                    Link::Up { connection, .. } if connection.number != failed || was_checked => {
                        return Some(connection.clone());
                    }
                    Link::Disabled => return None,
                    Link::Up { .. } | Link::Starting | Link::Down { .. } | Link::SignIn { .. } => {}
                }
                tokio::select! {
                    changed = link.changed() => changed.ok()?,
                    changed = checked.changed() => {
                        changed.ok()?;
                        checked.mark_changed();
                    }
                }
            }
        };
        tokio::select! {
            biased;
            connection = found => connection,
            () = self.clock.sleep_ms(self.config.timeouts.connect_ms) => None,
        }
    }

    /// Why a server is away; one that runs as a process in its own words.
    pub async fn with_last_words(&self, why: String, end: &End) -> String {
        if let Transport::Stdio(_) = self.config.transport {
            tokio::select! {
                () = end.silence() => {}
                () = self.clock.sleep_ms(LAST_WORDS_MS) => {}
            }
        }
        let told =
            end.told().into_iter().chain(self.log.last().map(|line| format!("its last words: {line}")));
        self.masks.reasons().text(&std::iter::once(why).chain(told).collect::<Vec<_>>().join("; "))
    }

    /// Says that what kept the server away is over: whoever asks now waits for it.
    pub fn comes_back(&self) {
        self.link.send_if_modified(|link| {
            let is_away = matches!(link, Link::SignIn { .. } | Link::Down { .. });
            if is_away {
                *link = Link::Starting;
            }
            is_away
        });
    }

    /// Connects anew, at once; whoever asks now waits for that.
    pub fn restart(&self) {
        self.link.send_if_modified(|link| {
            let is_on = !matches!(link, Link::Disabled);
            if is_on {
                *link = Link::Starting;
            }
            is_on
        });
        self.wants_restart.store(true, Ordering::Relaxed);
        self.kick.notify_one();
    }
}

/// How long the last words of a server are waited for that is away.
const LAST_WORDS_MS: u64 = 500;
/// How often a required server is tried at a start, and how long after each try. (SK-A12)
pub(super) const REQUIRED_ATTEMPTS: u32 = 5;
const REQUIRED_PAUSE_MS: u64 = 3_000;
/// The first pause after a failure, and the longest.
const FIRST_PAUSE_MS: u64 = 1_000;
const LONGEST_PAUSE_MS: u64 = 60_000;
/// A connection that has lasted so long was a good one: the next failure is a new one.
const GOOD_MS: u64 = 60_000;

/// Keeps a server reachable until it is stopped; it is then ended in order.
pub(super) async fn supervise(core: Arc<Core>, relist: Relist) {
    kept(&core, &relist).await;
    core.link.send_replace(Link::Disabled);
}

async fn kept(core: &Arc<Core>, relist: &Relist) {
    let (mut attempts, mut has_been_up) = (0_u32, false);
    let mut lifecycle = Lifecycle::Auto;
    let mut down_since: Option<Timestamp> = None;
    loop {
        // Before it is tried: somebody may sign in while the server still says no.
        let signed_in = core.sign_in.as_ref().map(|sign_in| sign_in.finished());
        let mut up_since_ms = None;
        let reached = tokio::select! {
            biased;
            () = core.stop.cancelled() => return,
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
                wait_for_sign_in(core, signed_in).await;
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
        core.log.push(&format!("[windlass] not available, tried again in {pause_ms} ms: {why}"));
        let retry_at = Timestamp(now.0 + pause_ms);
        core.link.send_replace(Link::Down { why, since, retry_at, attempts });
        tokio::select! {
            () = core.stop.cancelled() => return,
            () = core.clock.sleep_ms(pause_ms) => {}
            () = core.kick.notified() => {}
        }
        core.wants_restart.store(false, Ordering::Relaxed);
    }
}

/// Opens a connection in the way that worked last, or in the other one.
async fn reached(core: &Core, lifecycle: &mut Lifecycle) -> Result<Opened, Failed> {
    let mut opened = open(core, *lifecycle).await;
    if let Err(Failed::OtherLifecycle(why)) = &opened {
        tracing::debug!(server = core.config.name, why, "initialized instead of discovered");
        opened = open(core, Lifecycle::Initialize).await;
    }
    // An older server is not asked for the newer revision at each connection; one that fails may be another by now.
    let initializes = opened.as_ref().is_ok_and(|it| it.connection.info.protocol_version.has_initialize());
    *lifecycle = if initializes { Lifecycle::Initialize } else { Lifecycle::Auto };
    opened
}

/// Twice as long after each failure, and never exactly as long as other servers' pauses.
fn pause_ms(attempts: u32, dice: u64) -> u64 {
    let longest = FIRST_PAUSE_MS.saturating_mul(1 << (attempts - 1).min(16)).min(LONGEST_PAUSE_MS);
    longest / 2 + dice % (longest / 2 + 1)
}

/// Waits until somebody has signed in, or asks for another try. `finished` was taken before the server said no.
async fn wait_for_sign_in(core: &Core, finished: Option<watch::Receiver<u64>>) {
    if finished.as_ref().is_some_and(|finished| finished.has_changed().unwrap_or(false)) {
        return;
    }
    core.link.send_replace(Link::SignIn { since: core.clock.now() });
    core.log.push("[windlass] somebody has to sign in");
    tracing::info!(server = core.config.name, "somebody has to sign in at a tool server");
    let Some(mut finished) = finished else {
        // No sign-in is configured: other headers may come with the time.
        tokio::select! {
            () = core.stop.cancelled() => {}
            () = core.clock.sleep_ms(LONGEST_PAUSE_MS) => {}
            () = core.kick.notified() => {}
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
        () = core.stop.cancelled() => {}
        _ = finished.changed() => {}
        () = core.kick.notified() => {}
        () = elsewhere => {}
    }
}

/// How often it is looked whether somebody has signed in by another process.
const LOOK_EVERY_MS: u64 = 2_000;

async fn sign_in_kept(core: &Core) -> Option<Digest> {
    core.sign_in.as_ref()?.kept().await
}

/// Why a connection ended.
enum Ended {
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
async fn stay(core: &Arc<Core>, opened: Opened, relist: &Relist) -> Ended {
    let Opened { connection, service, listed, lists_changed, end } = opened;
    let mut ttl = learn(core, &connection, listed, relist);
    let since = core.clock.now();
    core.link.send_replace(Link::Up { connection: connection.clone(), since });
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

fn has_resources(info: &ServerPeerInfo) -> bool {
    info.capabilities.resources.is_some()
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
