//! How the driver of a thread ends.
//!
//! Whether the thread is then opened again is decided by the register.

use crate::port::journal::StoreError;

/// Why a thread is not driven here.
pub(super) const LEAVING: &str = "this process is about to end; another one continues the thread";

/// Why an actor ended.
pub(super) enum Ended {
    /// Nothing is left to do; the mailbox is closed, and mail that came meanwhile is handed on.
    Idle,
    /// The process is to drive nothing any more; no tool was at work.
    Left,
    /// Another process drives the thread.
    Fenced,
    /// The store gave up.
    Store(StoreError),
    /// The driver itself panicked.
    Crashed(String),
}

impl Ended {
    pub(super) fn why(&self) -> String {
        match self {
            Self::Idle => "nothing was left to do".to_owned(),
            Self::Left => LEAVING.to_owned(),
            Self::Fenced => "another process drives it now".to_owned(),
            Self::Store(error) => error.to_string(),
            Self::Crashed(why) => format!("the driver crashed ({why}); this is a defect"),
        }
    }
}
