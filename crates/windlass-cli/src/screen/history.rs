//! The message history that all chats of a user share.

use std::path::{Path, PathBuf};

use rustyline::Config;
use rustyline::history::{FileHistory, History as _};

use crate::paths::private_directory;

/// Maximum number of messages in the file.
const MESSAGES: usize = 1_000;

/// The file with the messages of earlier chats.
#[derive(Debug)]
pub struct MessageFile {
    path: PathBuf,
    config: Config,
}

impl MessageFile {
    /// Opens the file in a user's data directory, which is created if missing.
    pub fn open(data: &Path) -> anyhow::Result<Self> {
        private_directory(data)?;
        let config = Config::builder().max_history_size(MESSAGES)?.history_ignore_space(true).build();
        Ok(Self { path: data.join("chat-history"), config })
    }

    /// Returns the history configuration for the line editor.
    pub fn config(&self) -> Config {
        self.config.clone()
    }

    /// Returns all messages, oldest first.
    pub fn messages(&self) -> Vec<String> {
        let mut history = FileHistory::with_config(&self.config);
        // Loading fails before the first message, because the file does not exist.
        let _ = history.load(&self.path);
        history.iter().cloned().collect()
    }

    /// Appends a message. Ignores errors: the chat works without a history.
    pub fn append(&self, message: &str) {
        // `append` keeps entries that other chats have written meanwhile.
        let mut history = FileHistory::with_config(&self.config);
        if history.add(message).unwrap_or_default() {
            let _ = history.append(&self.path);
        }
    }
}
