//! One server: what is known of it, how it is, and who is told when that changes.
//!
//! What keeps it reachable stands in the modules below; nothing here opens a connection.

pub(super) mod calls;
pub(super) mod changes;
pub(super) mod connect;
pub(super) mod connection;
// What the protocol has deprecated is still what servers of today ask for.
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
    pub signals: Signals,
    state: ServerState,
    numbers: AtomicU64,
}

/// What the task that keeps a server connected is to do.
pub(super) struct Signals {
    pub stop: CancellationToken,
    /// To try at once: the server is wanted, or a call has failed.
    pub kick: Notify,
    wants_restart: AtomicBool,
    is_out: AtomicBool,
}

/// How a server stands.
struct ServerState {
    link: watch::Sender<Link>,
    known: Mutex<Known>,
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

/// How a server over HTTP is reached, and signed in at; neither for a process.
#[derive(Default)]
pub(super) struct Way {
    pub outbound: Option<Arc<Outbound>>,
    pub sign_in: Option<Arc<SignIn>>,
}

/// What is handed to the hub whenever a server's tools are others.
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
        // Each change is one assignment.
        self.state.known.lock().unwrap_or_else(PoisonError::into_inner)
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
        self.state.link.send_if_modified(|link| {
            let is_away = matches!(link, Link::SignIn { .. } | Link::Down { .. });
            if is_away {
                *link = Link::Starting;
            }
            is_away
        });
    }

    /// Says that the server was switched off or taken out.
    pub fn take_out(&self) {
        self.signals.is_out.store(true, Ordering::Relaxed);
    }

    /// Whether it was, and its calls have nobody to go on with them. One that only ends with this process, or has given
    /// way to another of its name, may be there for them later.
    pub fn is_out(&self) -> bool {
        self.signals.is_out.load(Ordering::Relaxed)
    }

    /// Connects anew, at once; whoever asks now waits for that.
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

/// How long the last words of a server are waited for that is away.
const LAST_WORDS_MS: u64 = 500;

fn has_resources(info: &ServerPeerInfo) -> bool {
    info.capabilities.resources.is_some()
}
