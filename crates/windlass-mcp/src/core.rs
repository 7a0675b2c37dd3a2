//! One server: its state, its listed tools, and the subscribers to its changes.
//!
//! The submodules keep the server connected; this file opens no connection.

pub(super) mod calls;
pub(super) mod changes;
pub(super) mod connect;
pub(super) mod connection;
// Current servers still use parts of the protocol that are deprecated.
#[expect(deprecated)]
pub(super) mod handler;
pub(super) mod held;
pub(super) mod pause;
#[expect(deprecated)]
pub(super) mod sampling;
mod stay;
mod supervise;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::model::ServerPeerInfo;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use windlass_engine::port::clock::Clock;
use windlass_machine::Timestamp;
use windlass_outbound::Outbound;

pub(super) use self::supervise::{REQUIRED_ATTEMPTS, supervise};
use super::config::{McpServer, Transport, Wanted};
use super::health::{Health, Log};
use super::list::Listed;
use super::mask::Masks;
use super::oauth::SignIn;
use crate::core::connection::Connection;
use crate::core::held::Held;
use crate::core::sampling::Sampling;
use crate::wire::child::End;

/// A server with its state and dependencies.
pub(super) struct Core {
    pub config: McpServer,
    pub wanted: Wanted,
    pub clock: Arc<dyn Clock>,
    /// The outbound client, for a server over HTTP.
    pub way: Option<Arc<Outbound>>,
    pub sign_in: Option<Arc<SignIn>>,
    pub sampling: Option<Sampling>,
    pub log: Arc<Log>,
    pub masks: Arc<Masks>,
    pub held: Held,
    pub signals: Signals,
    state: ServerState,
    numbers: AtomicU64,
}

/// Signals to the task that keeps a server connected.
pub(super) struct Signals {
    pub stop: CancellationToken,
    /// Requests an immediate attempt: the server is needed, or a call has failed.
    pub kick: Notify,
    wants_restart: AtomicBool,
    is_out: AtomicBool,
}

/// The state of a server.
struct ServerState {
    link: watch::Sender<Link>,
    known: Mutex<Known>,
    /// Counts successful checks of the connection.
    checked: watch::Sender<u64>,
}

/// State of a server's connection.
#[derive(Clone)]
pub(super) enum Link {
    /// The first connection is being established.
    Starting,
    /// Connected.
    Up { connection: Arc<Connection>, since: Timestamp },
    /// Not connected; the next attempt is at `retry_at`.
    Down { why: String, since: Timestamp, retry_at: Timestamp, attempts: u32 },
    /// A sign-in is required.
    SignIn { since: Timestamp },
    /// Disabled in the configuration, or stopped.
    Disabled,
}

/// The tools and properties that a server has listed. They are kept while the server is unreachable.
#[derive(Default)]
pub(super) struct Known {
    pub listed: Listed,
    /// The properties that the server last reported about itself.
    pub info: Option<ServerPeerInfo>,
}

/// The clients for a server over HTTP. Both are `None` for a process.
#[derive(Default)]
pub(super) struct Way {
    pub outbound: Option<Arc<Outbound>>,
    pub sign_in: Option<Arc<SignIn>>,
}

/// Called when a server's tools have changed.
pub(super) type Relist = Arc<dyn Fn(&Arc<Core>) + Send + Sync>;

impl Core {
    pub fn new(
        config: McpServer,
        wanted: Wanted,
        clock: Arc<dyn Clock>,
        way: Way,
        sampling: Option<Sampling>,
        masks: Arc<Masks>,
        stop: CancellationToken,
    ) -> Self {
        let link = if config.enabled { Link::Starting } else { Link::Disabled };
        Self {
            held: Held::new(clock.clone(), config.timeouts.question_ms),
            config,
            wanted,
            clock,
            way: way.outbound,
            sign_in: way.sign_in,
            sampling,
            log: Arc::new(Log::masking(masks.clone())),
            masks,
            signals: Signals {
                stop,
                kick: Notify::new(),
                wants_restart: AtomicBool::new(false),
                is_out: AtomicBool::new(false),
            },
            state: ServerState {
                link: watch::Sender::new(link),
                known: Mutex::default(),
                checked: watch::Sender::new(0),
            },
            numbers: AtomicU64::new(0),
        }
    }

    pub fn link(&self) -> watch::Receiver<Link> {
        self.state.link.subscribe()
    }

    pub fn known(&self) -> MutexGuard<'_, Known> {
        // Each change is a single assignment, so the data is valid even if the lock is poisoned.
        self.state.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn info(&self) -> Option<ServerPeerInfo> {
        self.known().info.clone()
    }

    /// Whether the server offers resources.
    pub fn has_resources(&self) -> bool {
        self.known().info.as_ref().is_some_and(has_resources)
    }

    pub fn next_number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    pub fn health(&self) -> Health {
        match &*self.state.link.borrow() {
            Link::Starting => Health::Starting,
            Link::Up { since, .. } => Health::Ready { since: *since },
            Link::Down { why, since, retry_at, .. } => {
                Health::Unavailable { why: why.clone(), since: *since, retry_at: *retry_at }
            }
            Link::SignIn { since } => Health::NeedsSignIn { since: *since },
            Link::Disabled => Health::Disabled,
        }
    }

    /// Returns the connection. Waits while the first one is being
    /// established. The error is the state of the server.
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

    /// Returns a connection after a call over connection `failed` has failed: the same connection if a check
    /// succeeds, otherwise the next one.
    pub async fn connection_after(&self, failed: u64) -> Option<Arc<Connection>> {
        let (mut link, mut checked) = (self.link(), self.state.checked.subscribe());
        self.signals.kick.notify_one();
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

    /// Returns why a server is unreachable. For a process, the text
    /// includes its exit status and its last log line.
    pub async fn with_last_words(&self, why: String, end: &End) -> String {
        if let Transport::Stdio(_) = self.config.transport {
            tokio::select! {
                () = end.silence() => {}
                () = self.clock.sleep_ms(LAST_WORDS_MS) => {}
            }
        }
        let told = end.told().into_iter().chain(self.log.last().map(|line| format!("last log line: {line}")));
        self.masks.reasons().text(&std::iter::once(why).chain(told).collect::<Vec<_>>().join("; "))
    }

    /// Reports that the server may be reachable again, so that new calls wait for the connection.
    pub fn comes_back(&self) {
        self.state.link.send_if_modified(|link| {
            let is_away = matches!(link, Link::SignIn { .. } | Link::Down { .. });
            if is_away {
                *link = Link::Starting;
            }
            is_away
        });
    }

    /// Marks the server as switched off or removed.
    pub fn take_out(&self) {
        self.signals.is_out.store(true, Ordering::Relaxed);
    }

    /// Whether the server was switched off or removed, so that its calls cannot be resumed. A server that stops with
    /// this process or was replaced may still resume them.
    pub fn is_out(&self) -> bool {
        self.signals.is_out.load(Ordering::Relaxed)
    }

    /// Reconnects at once. New calls wait for the connection.
    pub fn restart(&self) {
        self.state.link.send_if_modified(|link| {
            let is_on = !matches!(link, Link::Disabled);
            if is_on {
                *link = Link::Starting;
            }
            is_on
        });
        self.signals.wants_restart.store(true, Ordering::Relaxed);
        self.signals.kick.notify_one();
    }
}

/// Maximum wait for the last log lines of a process that has ended, in milliseconds.
const LAST_WORDS_MS: u64 = 500;

fn has_resources(info: &ServerPeerInfo) -> bool {
    info.capabilities.resources.is_some()
}
