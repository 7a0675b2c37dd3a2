//! The driver: one loop per active thread, the only place where things happen.
//!
//! It decides nothing (the machine does) and knows no database, provider or tool (the ports do). It
//! appends, then acts.

mod cache;
pub(crate) mod catalog;
mod command;
mod contents;
pub mod genai;
pub(crate) mod journal;
pub(crate) mod policy;
mod services;
mod thread;
mod trace;
pub(crate) mod watch;

use futures_util::future::BoxFuture;
use windlass_machine::{ModelAccess, Principal};

use crate::port::journal::StoreError;

pub(crate) use catalog::tools::Tools;
pub(crate) use command::folder::{FolderOf, FolderSource};
pub(crate) use contents::{IMAGE_TOKENS, NewBlobs};
pub use journal::store::FoldedThread;
pub(crate) use policy::spend::is_free;
pub(crate) use services::{Parts, Services};
pub(crate) use thread::backoff::DRIVEN_MAX;
pub(crate) use thread::claim::SetAside;
pub(crate) use thread::fork::PreparedFork;
pub(crate) use thread::mail::Letter;

/// Whether this process can call a model with the access that a run has recorded.
pub(crate) type Reaches = dyn Fn(&ModelAccess) -> bool + Send + Sync;

/// Returns how much a user of a workspace may spend altogether, in millionths of a dollar.
pub(crate) type CreditOf = dyn Fn(&str, &Principal) -> Option<u64> + Send + Sync;

/// Returns the roles of a principal as they are now.
pub(crate) type RolesOf =
    dyn Fn(Principal) -> BoxFuture<'static, Result<Vec<String>, StoreError>> + Send + Sync;
