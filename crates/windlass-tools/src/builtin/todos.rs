//! `write_todos` and `read_todos`: a model's list of intended steps. (ZE-H13)
//!
//! The list belongs to the thread: it survives a restart, is copied by a fork, and is rolled
//! back with a run. The model always writes the whole list, so that no entry is lost. The
//! module `tasks` has tasks with dependencies.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_engine::port::tool::{CallContext, ToolOutput};
use windlass_machine::EffectClass;
use windlass_schema::FunctionTool;

use super::{Answer, Refusal, read_only};

/// The status of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Status {
    Pending,
    InProgress,
    Completed,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Todo {
    /// What to do.
    #[schemars(length(min = 1, max = 500))]
    content: String,
    /// The status.
    status: Status,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WriteArguments {
    /// The whole list, in order; it replaces the previous one.
    #[schemars(length(max = 100))]
    todos: Vec<Todo>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ReadArguments {}

/// The key of the list in the thread's tool state.
const LIST: &str = "todos";

/// Creates the tool `write_todos`.
pub fn write_todos() -> FunctionTool {
    FunctionTool::new("write_todos", WRITE, |_: CallContext, arguments: WriteArguments| async move {
        written(&arguments.todos).unwrap_or_else(|Refusal(reason)| ToolOutput::error(reason))
    })
    .keeps(LIST)
    .annotations(read_only())
    // The tool is not pure: parallel calls would overwrite each other.
    .effect_class(EffectClass::Idempotent)
}

/// Creates the tool `read_todos`.
pub fn read_todos() -> FunctionTool {
    FunctionTool::new("read_todos", READ, |context: CallContext, _: ReadArguments| async move {
        ToolOutput::text(context.kept.unwrap_or_else(|| "[]".into()))
    })
    .keeps(LIST)
    .annotations(read_only())
    .effect_class(EffectClass::Pure)
    .reads_locally()
}

const WRITE: &str = "Write your to-do list for work of several steps in this conversation. Pass the whole \
list each time. Keep exactly one entry `in_progress` while you work, and set an entry to `completed` as soon \
as it is done.";

const READ: &str = "Read the list that `write_todos` saved, as JSON.";

fn written(todos: &[Todo]) -> Answer {
    // Cannot fail: lists and texts are valid JSON.
    let kept = serde_json::to_string(todos).map_err(|error| Refusal(error.to_string()))?;
    let count = |status| todos.iter().filter(|todo| todo.status == status).count();
    let (done, doing) = (count(Status::Completed), count(Status::InProgress));
    let open = count(Status::Pending);
    let text = match todos.is_empty() {
        true => "The list is now empty".to_owned(),
        false => {
            format!("Saved {} entries: {done} completed, {doing} in progress, {open} pending", todos.len())
        }
    };
    Ok(ToolOutput::text(text).keeping(kept))
}
