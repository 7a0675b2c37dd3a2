//! The driver with a scripted model over real stores: the guarantees for a program that embeds the library.
//!
//! Every test that says "crash" drops the first engine's runtime in the middle and opens the store again.

pub mod attend;
mod contain;
mod control;
mod crash;
mod folders;
mod fork;
mod fork_folder;
mod fork_history;
mod hidden;
mod hold;
mod kept;
mod lease;
mod leave;
mod limits;
mod live;
mod log;
mod messages;
mod modes;
mod nulls;
mod observe;
mod offload;
mod prompt;
mod queue;
mod restore;
mod schedule;
mod store;
mod stream;
mod toolsets;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use windlass::machine::{Annotations, AutoRun, EffectClass, Party};
use windlass::port::tool::{CallContext, ToolOutput};
use windlass::sqlite::SqliteFolder;
use windlass::testing::scripted::ScriptedModels;
use windlass::tool::{FunctionTool, Registry};
use windlass::{AgentConfig, Builder, Task};

/// Arguments of the test tools.
#[derive(serde::Deserialize, schemars::JsonSchema)]
pub struct Text {
    /// Anything.
    pub text: String,
}

/// A tool that counts how often it ran.
#[derive(Clone, Default)]
pub struct Counter(pub Arc<AtomicU32>);

impl Counter {
    pub fn count(&self) -> u32 {
        self.0.load(Ordering::SeqCst)
    }

    pub fn tool(&self, name: &str, class: EffectClass) -> FunctionTool {
        let count = self.clone();
        let pure = class == EffectClass::Pure;
        FunctionTool::new(name, "counts its calls", move |_: CallContext, text: Text| {
            let count = count.clone();
            async move {
                count.0.fetch_add(1, Ordering::SeqCst);
                ToolOutput::text(format!("said {}", text.text))
            }
        })
        .annotations(Annotations { read_only_hint: pure, ..Annotations::default() })
        .effect_class(class)
    }
}

/// A party that may answer every interrupt.
pub fn party(name: &str) -> Party {
    Party { principal: name.into(), workspace: "default".into(), roles: vec!["admin".into()] }
}

/// A registry of tools.
pub fn registry(tools: impl IntoIterator<Item = FunctionTool>) -> Registry {
    tools.into_iter().fold(windlass::registry(), |registry, tool| registry.add(Arc::new(tool)).unwrap())
}

/// An engine in memory.
pub fn memory(models: &ScriptedModels, registry: Registry) -> Builder {
    windlass::builder().models(Arc::new(models.clone())).tools(registry).auto_run(AutoRun::Everything)
}

/// An engine over a store in a folder.
pub fn stored(folder: &Path, models: &ScriptedModels, registry: Registry) -> Builder {
    memory(models, registry).store(SqliteFolder::new(folder))
}

/// A task for the scripted model.
pub fn task(text: &str) -> Task {
    Task::new(AgentConfig::from("test/scripted"), text)
}
