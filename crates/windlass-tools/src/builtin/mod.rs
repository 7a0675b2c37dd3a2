//! Built-in tools for files, time and lists.
//!
//! A file tool works only in the call's working folder. A read blocks a thread of the blocking
//! pool and checks the cancel signal regularly. A write always completes, because the outcome
//! of an interrupted write would be unknown.

mod ask;
#[cfg(target_os = "linux")]
mod bash;
mod difference;
mod edit;
mod fetch_data;
mod glob;
mod grep;
mod notebook;
mod read;
mod tasks;
mod time;
mod todos;
mod walk;
mod write;

use std::fmt::Display;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use windlass_engine::port::tool::{CallContext, OutputPart, Tool, ToolOutput};
use windlass_engine::tool::{FolderError, Toolset, WorkingFolder};
use windlass_machine::{Annotations, Glob};

pub use ask::{RequestHumanApproval, request_human_approval};
#[cfg(target_os = "linux")]
pub use bash::{BashSettings, bash_tools};
pub use edit::edit;
pub use fetch_data::{FetchData, fetch_data};
pub use glob::glob;
pub use grep::grep;
pub use notebook::notebook_edit;
pub use read::read;
pub use tasks::task_tools;
pub use time::{current_time, sleep};
pub use todos::{read_todos, write_todos};
pub use write::write;

use crate::reader::Reader;

/// Creates the file tools: `Read`, `Write`, `Edit`, `NotebookEdit`, `Glob` and `Grep`.
/// `Read` parses documents with the reader.
pub fn file_tools(reader: &Reader) -> Vec<Arc<dyn Tool>> {
    let changing: [Arc<dyn Tool>; 3] = [Arc::new(write()), Arc::new(edit()), Arc::new(notebook_edit())];
    let looking: [Arc<dyn Tool>; 3] = [Arc::new(read(reader.clone())), Arc::new(glob()), Arc::new(grep())];
    [changing, looking].concat()
}

/// Creates the tools for time and lists: `Sleep`, `CurrentTime`, tasks and todos.
pub fn desk_tools() -> Vec<Arc<dyn Tool>> {
    let mut tools: Vec<Arc<dyn Tool>> = vec![Arc::new(sleep()), Arc::new(current_time())];
    tools.extend(task_tools().into_iter().map(|tool| Arc::new(tool) as Arc<dyn Tool>));
    tools.extend([Arc::new(write_todos()) as Arc<dyn Tool>, Arc::new(read_todos())]);
    tools
}

/// Returns the toolsets of the built-in tools that few runs need. A model loads them on demand, which halves
/// the cost of tools in a request. (SK-C1, SK-C17)
pub fn builtin_toolsets() -> Vec<Toolset> {
    let set = |name: &str, description: &str, tools: &[&str]| Toolset {
        name: name.into(),
        description: description.into(),
        tools: tools.iter().map(|tool| Glob::new(*tool)).collect(),
        ..Toolset::default()
    };
    vec![
        set("planning", "a to-do list, or tasks with dependencies", &["Task*", "*_todos"]),
        set("time", "current time, waiting", &["CurrentTime", "Sleep"]),
        set("notebooks", "editing Jupyter notebooks", &["NotebookEdit"]),
        set("web", "reading web pages, searching the web", &["WebFetch", "WebSearch"]),
    ]
}

/// Why a built-in tool failed, as a message for the model.
#[derive(Debug, PartialEq)]
pub(super) struct Refusal(pub(super) String);

impl Refusal {
    fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }

    fn cancelled() -> Self {
        Self::new("the call was cancelled")
    }

    fn io(action: &str, path: impl Display, error: impl Display) -> Self {
        Self(format!("cannot {action} `{path}`: {error}"))
    }
}

impl From<FolderError> for Refusal {
    fn from(error: FolderError) -> Self {
        Self(error.to_string())
    }
}

pub(super) type Answer = Result<ToolOutput, Refusal>;

/// Runs read-only work. Cancellation ends the wait; the work detects the cancellation and ends soon after.
async fn look<W>(context: CallContext, work: W) -> ToolOutput
where
    W: FnOnce(&WorkingFolder, &CancellationToken) -> Answer + Send + 'static,
{
    let cancel = context.cancel.clone();
    let working = blocking(context, work);
    tokio::select! {
        biased;
        () = cancel.cancelled() => ToolOutput::error(Refusal::cancelled().0),
        output = working => output,
    }
}

/// Runs work that changes files, one call at a time per folder. Once started, the work is awaited.
async fn change<W>(context: CallContext, work: W) -> ToolOutput
where
    W: FnOnce(&WorkingFolder) -> Answer + Send + 'static,
{
    blocking(context, |folder, cancel| {
        let _turn = folder.take_turn();
        if cancel.is_cancelled() {
            return Err(Refusal::cancelled());
        }
        work(folder)
    })
    .await
}

/// Runs work that previews a call.
async fn foresee<W>(context: CallContext, work: W) -> Result<String, String>
where
    W: FnOnce(&WorkingFolder) -> Result<String, Refusal> + Send + 'static,
{
    let told = look(context, move |folder, _| work(folder).map(ToolOutput::text)).await;
    let texts = told.parts.into_iter().filter_map(|part| match part {
        OutputPart::Text(text) => Some(text),
        OutputPart::Image { .. } | OutputPart::File { .. } => None,
    });
    let text = texts.collect();
    if told.error { Err(text) } else { Ok(text) }
}

async fn blocking<W>(context: CallContext, work: W) -> ToolOutput
where
    W: FnOnce(&WorkingFolder, &CancellationToken) -> Answer + Send + 'static,
{
    let Some(folder) = context.folder else {
        return ToolOutput::error("this thread has no working folder");
    };
    let cancel = context.cancel;
    let joined = tokio::task::spawn_blocking(move || work(&folder, &cancel)).await;
    match joined {
        Ok(Ok(output)) => output,
        Ok(Err(Refusal(reason))) => ToolOutput::error(reason),
        // The driver handles panics, so a panic of a blocking thread is resumed in this task.
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        // The runtime is shutting down, and it is unknown whether the work completed. This call never
        // returns, so that the next process finds the call as started and recovers it.
        Err(_) => std::future::pending().await,
    }
}

fn read_only() -> Annotations {
    Annotations { read_only_hint: true, ..Annotations::default() }
}
