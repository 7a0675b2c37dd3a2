//! Handles on an engine: one for a thread, one for a run, one for the policy and one for the tools.
//!
//! A handle borrows the engine and an id, and is free to make and to copy. It checks nothing by itself: a thread or run that
//! does not exist is an error of the method that is called.

use windlass_machine::{RunId, ThreadId};

use crate::engine::Engine;

/// One thread of an engine, see [`Engine::thread`].
#[derive(Clone, Copy)]
pub struct ThreadHandle<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) id: &'a ThreadId,
}

impl<'a> ThreadHandle<'a> {
    /// The messages that wait in the thread while a run is active.
    pub fn queue(self) -> QueueHandle<'a> {
        QueueHandle { engine: self.engine, id: self.id }
    }

    /// The files of the thread: those that its messages name, and those that its tools have changed.
    pub fn files(self) -> FilesHandle<'a> {
        FilesHandle { engine: self.engine, id: self.id }
    }
}

/// The messages that wait in a thread, see [`ThreadHandle::queue`].
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

/// One run of an engine, see [`Engine::run`].
#[derive(Clone, Copy)]
pub struct RunHandle<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) id: &'a RunId,
}

/// What people allow, see [`Engine::policy`].
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
    /// A thread: its journal, messages, answers and files.
    pub fn thread<'a>(&'a self, id: &'a ThreadId) -> ThreadHandle<'a> {
        ThreadHandle { engine: self, id }
    }

    /// A run: its outcome, and its end.
    pub fn run<'a>(&'a self, id: &'a RunId) -> RunHandle<'a> {
        RunHandle { engine: self, id }
    }

    /// Grants, allow lists, what runs without asking, and what the gate would say of a call.
    pub fn policy(&self) -> PolicyHandle<'_> {
        PolicyHandle { engine: self }
    }

    /// The tools that runs are given, and trial calls.
    pub fn tools(&self) -> ToolsHandle<'_> {
        ToolsHandle { engine: self }
    }
}
