//! The port of what tools keep at work beside their calls: commands in the background.
//!
//! Each belongs to a thread and to the run that began it, and lives in one process, with which it ends. Which of them
//! nobody wants any more is the driver's to say.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use windlass_machine::{RunId, ThreadId, Timestamp};

/// Commands of this process that go on beside the runs that began them.
#[async_trait]
pub trait Background: Send + Sync {
    /// Those that run now, in the order in which they began. Cheap: it is asked each second.
    fn at_work(&self) -> Vec<BackgroundCommand>;

    /// Ends one with all that it has started, and waits until it has ended. One that has ended, or never was, is no error.
    async fn end(&self, thread: &ThreadId, id: &str);
}

/// A command at work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackgroundCommand {
    /// The thread that it belongs to.
    pub thread: ThreadId,
    /// The run that began it.
    pub run: RunId,
    /// Its name in the thread, which the model knows. That of another process's is followed by `@` and its node.
    pub id: String,
    /// The command's first 500 characters.
    pub command: String,
    /// When it was begun.
    pub begun_at: Timestamp,
}
