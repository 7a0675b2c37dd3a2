//! The driver: one loop per active thread, the only place where things happen.
//!
//! It decides nothing (the machine does) and knows no database, provider or tool (the ports do). It
//! appends, then acts.

mod actor;
mod append;
mod attend;
mod background;
pub(crate) mod backoff;
mod cache;
mod call;
mod change;
mod contain;
mod dispatch;
mod execute;
mod expiry;
mod fill;
mod flight;
pub(crate) mod folded;
mod folder;
mod fork;
pub mod genai;
mod judge;
mod let_go;
mod measure;
mod offload;
pub(crate) mod own;
mod owner;
mod paths;
pub(crate) mod policy;
mod prune;
mod round;
pub(crate) mod row;
mod spend;
pub(crate) mod tools;
mod trace;
mod trial;
mod view;
pub(crate) mod watch;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use windlass_machine::{BlobRef, Input, InputId, ModelAccess, Principal, Reject, ThreadId};

use crate::error::EngineError;
use crate::limits::Budget;
use crate::port::background::Background;
use crate::port::blob::Blobs;
use crate::port::bus::Bus;
use crate::port::clock::Clock;
use crate::port::hook::Hook;
use crate::port::journal::{Accepted, Epoch, Journal, StoreError};
use crate::port::model::Models;
use crate::port::observe::Observer;
use crate::port::records::Records;

pub(crate) use cache::BlobCache;
pub(crate) use expiry::Expiries;
pub(crate) use fill::{IMAGE_TOKENS, NewBlobs};
pub(crate) use folded::FoldedThread;
pub(crate) use folder::{FolderOf, Folders};
pub(crate) use fork::PreparedFork;
pub(crate) use owner::{Opening, SetAside};
use policy::PolicySource;
pub(crate) use spend::is_free;
pub(crate) use tools::Tools;

/// Mails that an actor takes before it appends, and that its mailbox holds: a burst of answers and results of one
/// step (at most 16 beside each other), with room for people. (design: "The machine and the loop")
pub(crate) const MAILBOX: usize = 64;

/// Whether this process can call a model with the access that a run has recorded.
pub(crate) type Reaches = dyn Fn(&ModelAccess) -> bool + Send + Sync;

/// Tells how much a user of a workspace may spend altogether, in millionths of a dollar.
pub(crate) type CreditOf = dyn Fn(&str, &Principal) -> Option<u64> + Send + Sync;

/// Tells the roles of a principal as they are now.
pub(crate) type RolesOf =
    dyn Fn(Principal) -> BoxFuture<'static, Result<Vec<String>, StoreError>> + Send + Sync;

/// What every actor of an engine shares.
pub(crate) struct Deps {
    pub journal: Arc<dyn Journal>,
    pub blobs: Arc<dyn Blobs>,
    pub records: Arc<dyn Records>,
    pub bus: Arc<dyn Bus>,
    pub clock: Arc<dyn Clock>,
    pub models: Arc<dyn Models>,
    pub tools: Tools,
    pub own_tools: own::OwnTools,
    pub expiries: Expiries,
    /// What tools keep at work beside their calls.
    pub background: Vec<Arc<dyn Background>>,
    pub folders: Folders,
    pub policy: PolicySource,
    pub budgets: Vec<Budget>,
    pub hook: Option<Arc<dyn Hook>>,
    pub observer: Option<Arc<dyn Observer>>,
    pub roles_of: Option<Arc<RolesOf>>,
    /// Whether long results are summed up, where a run does not say.
    pub offload: Option<windlass_machine::Offload>,
    /// How the program sums them up.
    pub summarizer: Option<Arc<crate::port::offload::Summarizer>>,
    pub credit_of: Option<Arc<CreditOf>>,
    /// Whether threads that nobody drives are this engine's business.
    pub attends: bool,
    /// See [`Builder::reaches`](crate::Builder::reaches).
    pub reaches: Option<Arc<Reaches>>,
    pub cache: BlobCache,
    pub catalogues: cache::Catalogues,
    pub actors: Mutex<Actors>,
    /// Threads that this node still holds only because the store failed when they were given back.
    pub kept: Mutex<Vec<(ThreadId, Epoch)>>,
    pub opening: Opening,
    /// Bounds the threads that are opened at once because they need a driver.
    pub openings: backoff::Openings,
    /// Threads that could not be opened or driven here, until their next try.
    pub backoffs: backoff::Backoffs,
    /// Cancelled when this process is to drive nothing any more.
    pub leaving: CancellationToken,
}

impl Deps {
    pub(crate) fn actors(&self) -> std::sync::MutexGuard<'_, Actors> {
        // Nothing panics while the lock is held.
        self.actors.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, Vec<(ThreadId, Epoch)>> {
        // Nothing panics while the lock is held.
        self.kept.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// The register of the actors of an engine.
pub(crate) type Actors = HashMap<ThreadId, mpsc::Sender<Mail>>;

/// What reaches an actor.
pub(crate) enum Mail {
    /// An input, with whoever waits for its outcome.
    Input(Box<Letter>),
    /// What became of a command that was in flight.
    Landed(Box<Letter>),
    /// The inbox has rows.
    Inbox,
}

/// An input on its way to a machine.
pub(crate) struct Letter {
    pub input: Input,
    /// Blobs that it names and that are not stored yet, each below the size that travels in an append.
    pub blobs: Vec<(BlobRef, bytes::Bytes)>,
    /// The inbox row that it came from.
    pub row: Option<InputId>,
    /// Who waits for its outcome.
    pub reply: Option<oneshot::Sender<Result<Decided, EngineError>>>,
    /// What a log shows of whoever sent it.
    pub asked: tracing::Span,
    /// The thread as the sender has folded it. A driver that opens the thread begins with it, if nothing was appended
    /// since.
    pub folded: Option<FoldedThread>,
}

/// What an input led to, once it is durable.
pub(crate) type Decided = Result<Accepted, Reject>;

impl Letter {
    pub(crate) fn plain(input: Input) -> Self {
        Self {
            input,
            blobs: Vec::new(),
            row: None,
            reply: None,
            asked: tracing::Span::current(),
            folded: None,
        }
    }
}
