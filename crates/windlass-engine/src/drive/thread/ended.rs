//! The reasons why a thread's driver ends.
//!
//! The registry decides whether the thread is opened again.

use crate::port::journal::StoreError;

/// Error text for input that arrives while the process is ending.
pub(super) const LEAVING: &str = "this process is about to end; another one continues the thread";

pub(super) enum Ended {
    /// No work is left. The mailbox is closed, and mail that arrived before the closing is forwarded.
    Idle,
    /// The process is ending, and no tool was running.
    Left,
    /// Another process drives the thread.
    Fenced,
    /// The store failed repeatedly.
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
