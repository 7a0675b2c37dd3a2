//! Tools, called as the driver calls them.

pub mod api;
#[cfg(target_os = "linux")]
pub mod bash;
mod copies;
pub mod document;
mod edit;
mod fetch_data;
mod function;
pub mod hostile;
mod lists;
mod notebook;
mod preview;
mod read;
mod registry;
mod search;
mod time;
mod web;
mod write;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use windlass::port::tool::{CallContext, OutputPart, ProgressSender, Tool, ToolOutcome, ToolOutput};
use windlass::reader::Reader;
use windlass::tool::{Registry, WorkingFolder, builtin};
use windlass_machine::{CallKey, EffectId, Timestamp};

/// A working folder beside a folder that no tool may access.
pub struct Desk {
    _root: TempDir,
    inside: PathBuf,
    outside: PathBuf,
    folder: Arc<WorkingFolder>,
    registry: Registry,
}

impl Desk {
    fn new() -> Self {
        Self::with(|folder| folder)
    }

    fn with(configure: impl FnOnce(WorkingFolder) -> WorkingFolder) -> Self {
        let root = tempfile::tempdir().unwrap();
        let top = fs::canonicalize(root.path()).unwrap();
        let (inside, outside) = (top.join("inside"), top.join("outside"));
        fs::create_dir(&inside).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("secret.txt"), "SECRET").unwrap();
        let folder = Arc::new(configure(WorkingFolder::open(&inside).unwrap()));
        let registry = windlass::registry().add_all(builtin::file_tools(&reader())).unwrap();
        Self { _root: root, inside, outside, folder, registry }
    }

    fn put(&self, path: impl AsRef<Path>, content: impl AsRef<[u8]>) {
        let path = self.inside.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn text(&self, path: &str) -> String {
        fs::read_to_string(self.inside.join(path)).unwrap()
    }

    fn call(&self, tool: &str, arguments: Value) -> ToolOutput {
        if let Err(problem) = self.registry.check_arguments(tool, &arguments) {
            return ToolOutput::error(problem);
        }
        let context = context(Some(self.folder.clone()), CancellationToken::new());
        run(&*self.registry.get(tool).unwrap(), context, arguments)
    }

    /// Previews a call of a tool.
    fn preview(&self, tool: &str, arguments: Value) -> Result<String, String> {
        let context = context(Some(self.folder.clone()), CancellationToken::new());
        let tool = self.registry.get(tool).unwrap();
        assert!(tool.traits().previews);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(tool.preview(context, arguments))
    }

    /// Calls a tool and formats its answer: `ok: …` or `error: …`, with stable paths.
    fn show(&self, tool: &str, arguments: Value) -> String {
        let answer = show(&self.call(tool, arguments));
        answer
            .replace(self.inside.to_str().unwrap(), "<inside>")
            .replace(self.outside.to_str().unwrap(), "<outside>")
    }
}

/// The reader process of the tests.
pub fn reader() -> Reader {
    Reader::program(env!("CARGO_BIN_EXE_windlass-reader"))
}

fn context(folder: Option<Arc<WorkingFolder>>, cancel: CancellationToken) -> CallContext {
    let call = CallKey { step: 1, index: 0 };
    let (thread, run) = ("thread".into(), "run".into());
    let effect_id = EffectId::derive(&thread, &run, call);
    CallContext {
        workspace: "default".into(),
        thread,
        run,
        call,
        effect_id,
        class: None,
        cancel,
        folder,
        now: Timestamp(1_795_236_180_000),
        utc_offset_minutes: None,
        kept: None,
        results: windlass::port::offload::OffloadedResults::default(),
        reply: None,
        resumed: None,
        progress: ProgressSender::default(),
    }
}

/// The answer of a call.
fn run(tool: &dyn Tool, context: CallContext, arguments: Value) -> ToolOutput {
    match outcome(tool, context, arguments) {
        ToolOutcome::Done(output) => output,
        other => panic!("it has no answer: {other:?}"),
    }
}

/// Makes a call. A call that hangs fails the test instead of blocking it.
fn outcome(tool: &dyn Tool, context: CallContext, arguments: Value) -> ToolOutcome {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let output = runtime.block_on(async {
        tokio::time::timeout(Duration::from_secs(60), tool.call(context, arguments)).await
    });
    runtime.shutdown_background();
    output.expect("the call hangs")
}

/// Formats the outcome of a finished call.
fn shown(outcome: &ToolOutcome) -> String {
    let ToolOutcome::Done(output) = outcome else { panic!("it has no answer: {outcome:?}") };
    show(output)
}

fn show(output: &ToolOutput) -> String {
    let parts: Vec<String> = output
        .parts
        .iter()
        .map(|part| match part {
            OutputPart::Text(text) => text.trim_end().to_owned(),
            OutputPart::Image { media_type, bytes } => format!("<{media_type}, {} bytes>", bytes.len()),
            OutputPart::File { name, media_type, bytes } => {
                format!("<{name}, {media_type}, {} bytes>", bytes.len())
            }
        })
        .collect();
    format!("{}: {}", if output.error { "error" } else { "ok" }, parts.join("\n"))
}
