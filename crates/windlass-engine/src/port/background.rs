//! The port for background commands, which tools keep running after a call has returned.
//!
//! Each command belongs to a thread and to the run that started it. A command belongs to one process and ends with
//! that process. The driver decides which commands are still needed.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use windlass_machine::{RunId, ThreadId, Timestamp};

/// Background commands of this process.
#[async_trait]
pub trait Background: Send + Sync {
    /// Lists the running commands, oldest first. Must be cheap: the driver calls it every second.
    fn at_work(&self) -> Vec<BackgroundCommand>;

    /// Ends a command with all processes that it started, and waits until it has ended. An unknown or finished
    /// command is not an error.
    async fn end(&self, thread: &ThreadId, id: &str);
}

/// A running background command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackgroundCommand {
    /// Thread that owns the command.
    pub thread: ThreadId,
    /// Run that started the command.
    pub run: RunId,
    /// Name of the command in its thread, as shown to the model. For another process's command, `@` and the node
    /// follow.
    pub id: String,
    /// The first 500 characters of the command line.
    pub command: String,
    /// Start time.
    pub begun_at: Timestamp,
}
