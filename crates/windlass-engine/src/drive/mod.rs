//! The driver: one loop per active thread, the only place where things happen.
//!
//! It decides nothing (the machine does) and knows no database, provider or tool (the ports do). It
//! appends, then acts.

mod actor;
mod actors;
mod append;
mod background;
pub(crate) mod backoff;
pub(crate) mod budgets;
mod cache;
mod call;
mod catalog;
mod change;
mod claim;
mod contain;
mod contents;
mod dispatch;
mod driven;
mod ended;
mod execute;
mod expiry;
mod flight;
mod folder;
mod fork;
pub mod genai;
mod judge;
mod let_go;
mod mail;
mod mailbox;
mod measure;
mod offload;
pub(crate) mod own;
mod paths;
pub(crate) mod policy;
mod prune;
mod recover;
mod registry;
pub(crate) mod row;
mod services;
mod spend;
pub(crate) mod store;
mod sweep;
pub(crate) mod tools;
mod trace;
mod trial;
mod view;
pub(crate) mod watch;

use futures_util::future::BoxFuture;
use windlass_machine::{ModelAccess, Principal};

use crate::port::journal::StoreError;

pub(crate) use claim::SetAside;
pub(crate) use contents::{IMAGE_TOKENS, NewBlobs};
pub(crate) use folder::{FolderOf, FolderSource};
pub(crate) use fork::PreparedFork;
pub(crate) use mail::Letter;
pub(crate) use services::{Parts, Services};
pub(crate) use spend::is_free;
pub use store::FoldedThread;
pub(crate) use tools::Tools;

/// Whether this process can call a model with the access that a run has recorded.
pub(crate) type Reaches = dyn Fn(&ModelAccess) -> bool + Send + Sync;

/// Returns how much a user of a workspace may spend altogether, in millionths of a dollar.
pub(crate) type CreditOf = dyn Fn(&str, &Principal) -> Option<u64> + Send + Sync;

/// Returns the roles of a principal as they are now.
pub(crate) type RolesOf =
    dyn Fn(Principal) -> BoxFuture<'static, Result<Vec<String>, StoreError>> + Send + Sync;
