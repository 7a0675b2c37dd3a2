//! The driver: one loop per active thread. Only the driver causes effects.
//!
//! The machine decides, and ports hide databases, providers and tools. The driver appends a batch before it acts on
//! it.

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

/// Whether this process can use the model access that a run recorded.
pub(crate) type Reaches = dyn Fn(&ModelAccess) -> bool + Send + Sync;

/// Returns a user's total credit in a workspace, in millionths of a dollar; `None` is unlimited.
pub(crate) type CreditOf = dyn Fn(&str, &Principal) -> Option<u64> + Send + Sync;

/// Returns the current roles of a principal.
pub(crate) type RolesOf =
    dyn Fn(Principal) -> BoxFuture<'static, Result<Vec<String>, StoreError>> + Send + Sync;
