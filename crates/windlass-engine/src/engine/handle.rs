//! Handles on an engine: one each for a thread, a run, the policy and the tools.
//!
//! A handle borrows the engine and an id, and is free to create and copy. Creating a handle validates nothing: its
//! methods return an error if the thread or run does not exist.

use windlass_machine::{RunId, ThreadId};

use crate::engine::Engine;

/// A handle on a thread, see [`Engine::thread`].
#[derive(Clone, Copy)]
pub struct ThreadHandle<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) id: &'a ThreadId,
}

impl<'a> ThreadHandle<'a> {
    /// Returns a handle on the messages that are queued while a run is active.
    pub fn queue(self) -> QueueHandle<'a> {
        QueueHandle { engine: self.engine, id: self.id }
    }

    /// Returns a handle on the files that the thread's messages reference and its tools have changed.
    pub fn files(self) -> FilesHandle<'a> {
        FilesHandle { engine: self.engine, id: self.id }
    }
}

/// The queued messages of a thread, see [`ThreadHandle::queue`].
#[derive(Clone, Copy)]
pub struct QueueHandle<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) id: &'a ThreadId,
}

/// The files of a thread, see [`ThreadHandle::files`].
#[derive(Clone, Copy)]
pub struct FilesHandle<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) id: &'a ThreadId,
}

/// A handle on a run, see [`Engine::run`].
#[derive(Clone, Copy)]
pub struct RunHandle<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) id: &'a RunId,
}

/// The choices of people in addition to the rules, see [`Engine::policy`].
#[derive(Clone, Copy)]
pub struct PolicyHandle<'a> {
    pub(crate) engine: &'a Engine,
}

/// The tools of an engine, see [`Engine::tools`].
#[derive(Clone, Copy)]
pub struct ToolsHandle<'a> {
    pub(crate) engine: &'a Engine,
}

impl Engine {
    /// Returns a handle on a thread: its journal, messages, answers and files.
    pub fn thread<'a>(&'a self, id: &'a ThreadId) -> ThreadHandle<'a> {
        ThreadHandle { engine: self, id }
    }

    /// Returns a handle on a run: its status, its outcome and its cancellation.
    pub fn run<'a>(&'a self, id: &'a RunId) -> RunHandle<'a> {
        RunHandle { engine: self, id }
    }

    /// Returns a handle on grants, allow lists, auto-run choices and hypothetical verdicts.
    pub fn policy(&self) -> PolicyHandle<'_> {
        PolicyHandle { engine: self }
    }

    /// Returns a handle on the tools of runs, and on trial calls.
    pub fn tools(&self) -> ToolsHandle<'_> {
        ToolsHandle { engine: self }
    }
}
