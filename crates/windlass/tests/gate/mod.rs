//! The gate as a program that embeds the library sees it: approvals, questions, effects and budgets, over real stores
//! and across the death of the process at any place.

mod bank;
mod budget;
mod effect;

use std::sync::Arc;

use windlass::adapter::memory::MemoryStore;
use windlass::machine::AutoRun;
use windlass::testing::scripted::ScriptedModels;
use windlass::tool::Registry;
use windlass::{Builder, Task};

use crate::drive::{memory, task};

/// An engine over a store in memory, on which every call that changes something asks.
fn asking(store: &MemoryStore, models: &ScriptedModels, registry: Registry) -> Builder {
    let ports = Arc::new(store.clone());
    memory(models, registry).ports(ports.clone(), ports.clone(), ports).auto_run(AutoRun::Ask)
}

/// A task in a thread with a name.
fn task_in(thread: &str, text: &str) -> Task {
    Task { thread: Some(thread.into()), ..task(text) }
}

/// A runtime that can be dropped, and whatever runs on it with it: as when a process dies.
fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}
