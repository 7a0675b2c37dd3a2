//! `TaskCreate`, `TaskGet`, `TaskList` and `TaskUpdate`: a list of tasks that may depend on each other. (LM-T14)
//!
//! The list belongs to the thread, as with `todos`. The tools start no
//! task and do not enforce the dependencies.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use windlass_engine::port::tool::{CallContext, ToolOutput};
use windlass_machine::EffectClass;
use windlass_schema::FunctionTool;

use super::{Refusal, read_only};

/// The status of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Status {
    #[default]
    Pending,
    InProgress,
    Completed,
}

/// What a task may become.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum NewStatus {
    Pending,
    InProgress,
    Completed,
    Deleted,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Task {
    id: u32,
    subject: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    description: String,
    status: Status,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    blocked_by: Vec<u32>,
}

/// The state that is stored with the thread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Tasks {
    /// The last assigned id. Ids are never reused.
    last_id: u32,
    tasks: Vec<Task>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CreateArguments {
    /// What to do, in one line.
    #[schemars(length(min = 1, max = 200))]
    subject: String,
    /// The details that are needed to do it.
    #[serde(default)]
    #[schemars(length(max = 1_000))]
    description: String,
    /// Ids of the tasks that must be completed first.
    #[serde(default)]
    blocked_by: Vec<u32>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct GetArguments {
    /// The task's id.
    id: u32,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListArguments {
    /// Return only tasks with this status.
    #[serde(default)]
    status: Option<Status>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct UpdateArguments {
    /// The task's id.
    id: u32,
    /// The new status; `deleted` removes the task from the list.
    #[serde(default)]
    status: Option<NewStatus>,
    /// The new subject.
    #[serde(default)]
    #[schemars(length(min = 1, max = 200))]
    subject: Option<String>,
    /// The new description.
    #[serde(default)]
    #[schemars(length(max = 1_000))]
    description: Option<String>,
    /// Ids of the tasks that must be completed first; replaces the previous ids.
    #[serde(default)]
    blocked_by: Option<Vec<u32>>,
}

/// The key of the list in the thread's tool state.
const TASKS: &str = "tasks";

/// Maximum number of tasks of a thread. A model does not keep track of more.
const MAX_TASKS: usize = 200;

/// Maximum size of the list, in bytes. It is below the limit of tool state.
/// Tasks of a few lines take a fifth of it.
const MAX_BYTES: usize = 224 * 1024;

/// Creates the task tools. A tool that changes the list runs alone. It may be repeated, because the journal
/// records the list together with the result.
pub fn task_tools() -> [FunctionTool; 4] {
    let changing =
        |tool: FunctionTool| tool.keeps(TASKS).annotations(read_only()).effect_class(EffectClass::Idempotent);
    let looking = |tool: FunctionTool| {
        tool.keeps(TASKS).annotations(read_only()).effect_class(EffectClass::Pure).reads_locally()
    };
    [
        changing(FunctionTool::new("TaskCreate", CREATE, |context, arguments: CreateArguments| async move {
            changed(&context, |tasks| create(tasks, arguments))
        })),
        looking(FunctionTool::new("TaskGet", GET, |context, arguments: GetArguments| async move {
            looked(&context, |tasks| Ok(json!(tasks.find(arguments.id)?).to_string()))
        })),
        looking(FunctionTool::new("TaskList", LIST, |context, arguments: ListArguments| async move {
            looked(&context, |tasks| Ok(list(tasks, arguments.status)))
        })),
        changing(FunctionTool::new("TaskUpdate", UPDATE, |context, arguments: UpdateArguments| async move {
            changed(&context, |tasks| update(tasks, arguments))
        })),
    ]
}

const CREATE: &str = "Add a task to this conversation's task list. List the tasks that must be completed \
                      first in `blocked_by`.";
const GET: &str = "Read one task with its description, as JSON.";
const LIST: &str = "List the tasks of this conversation, one per line: id, status, subject, blocking tasks.";
const UPDATE: &str = "Update a task's status, texts or dependencies. Set it to `in_progress` when you start, \
to `completed` only when it is done. A blocked task cannot start before the tasks that block it are \
completed.";

impl Tasks {
    fn of(context: &CallContext) -> Result<Self, Refusal> {
        let Some(kept) = &context.kept else { return Ok(Self::default()) };
        serde_json::from_str(kept).map_err(|error| Refusal(format!("cannot read the task list: {error}")))
    }

    fn find(&self, id: u32) -> Result<&Task, Refusal> {
        self.tasks.iter().find(|task| task.id == id).ok_or_else(|| {
            let ids: Vec<String> = self.tasks.iter().map(|task| task.id.to_string()).collect();
            let ids = if ids.is_empty() { "none".to_owned() } else { ids.join(", ") };
            Refusal(format!("task {id} does not exist; existing tasks: {ids}"))
        })
    }

    /// Returns the uncompleted tasks that a task depends on.
    fn open_before(&self, task: &Task) -> Vec<String> {
        let is_open =
            |id: &&u32| self.tasks.iter().any(|other| other.id == **id && other.status != Status::Completed);
        task.blocked_by.iter().filter(is_open).map(u32::to_string).collect()
    }

    /// Whether a task depends on itself, directly or through other tasks.
    fn is_circular(&self, id: u32) -> bool {
        let (mut seen, mut next) = (Vec::new(), vec![id]);
        while let Some(at) = next.pop() {
            let before =
                self.tasks.iter().find(|task| task.id == at).map_or(&[][..], |task| &task.blocked_by);
            for other in before {
                if *other == id {
                    return true;
                }
                if !seen.contains(other) {
                    seen.push(*other);
                    next.push(*other);
                }
            }
        }
        false
    }
}

fn looked(context: &CallContext, look: impl FnOnce(&Tasks) -> Result<String, Refusal>) -> ToolOutput {
    match Tasks::of(context).and_then(|tasks| look(&tasks)) {
        Ok(text) => ToolOutput::text(text),
        Err(Refusal(reason)) => ToolOutput::error(reason),
    }
}

fn changed(context: &CallContext, change: impl FnOnce(&mut Tasks) -> Result<String, Refusal>) -> ToolOutput {
    let changed = Tasks::of(context).and_then(|mut tasks| {
        let text = change(&mut tasks)?;
        let kept = serde_json::to_string(&tasks).map_err(|error| Refusal(error.to_string()))?;
        if kept.len() > MAX_BYTES && kept.len() > context.kept.as_ref().map_or(0, String::len) {
            let size = kept.len();
            return Err(Refusal(format!(
                "nothing was changed: the task list would have {size} bytes, and the limit is {MAX_BYTES}; \
                 delete completed tasks, or shorten the texts"
            )));
        }
        Ok(ToolOutput::text(text).keeping(kept))
    });
    changed.unwrap_or_else(|Refusal(reason)| ToolOutput::error(reason))
}

fn create(tasks: &mut Tasks, arguments: CreateArguments) -> Result<String, Refusal> {
    let CreateArguments { subject, description, blocked_by } = arguments;
    if tasks.tasks.len() >= MAX_TASKS {
        return Err(Refusal(format!("the task list is full ({MAX_TASKS} tasks); delete completed tasks")));
    }
    for id in &blocked_by {
        tasks.find(*id)?;
    }
    tasks.last_id += 1;
    let id = tasks.last_id;
    let text = format!("Task {id}: {subject}");
    let blocked_by = each_once(blocked_by);
    tasks.tasks.push(Task { id, subject, description, status: Status::Pending, blocked_by });
    Ok(text)
}

/// Removes duplicate ids and preserves the order.
fn each_once(mut ids: Vec<u32>) -> Vec<u32> {
    let mut said = BTreeSet::new();
    ids.retain(|id| said.insert(*id));
    ids
}

fn list(tasks: &Tasks, status: Option<Status>) -> String {
    let wanted = tasks.tasks.iter().filter(|task| status.is_none_or(|status| task.status == status));
    let lines: Vec<String> = wanted
        .map(|task| {
            let before = tasks.open_before(task);
            let waits = if before.is_empty() {
                String::new()
            } else {
                format!(" (blocked by {})", before.join(", "))
            };
            format!("{} {}: {}{waits}", task.id, word(task.status), task.subject)
        })
        .collect();
    if lines.is_empty() { "No tasks found".into() } else { lines.join("\n") }
}

fn update(tasks: &mut Tasks, arguments: UpdateArguments) -> Result<String, Refusal> {
    let UpdateArguments { id, status, subject, description, blocked_by } = arguments;
    tasks.find(id)?;
    for other in blocked_by.iter().flatten() {
        tasks.find(*other)?;
    }
    if status == Some(NewStatus::Deleted) {
        tasks.tasks.retain(|task| task.id != id);
        tasks.tasks.iter_mut().for_each(|task| task.blocked_by.retain(|before| *before != id));
        return Ok(format!("Deleted task {id}"));
    }
    // Cannot fail: the task was found above.
    let Some(task) = tasks.tasks.iter_mut().find(|task| task.id == id) else { return Ok(String::new()) };
    task.subject = subject.unwrap_or_else(|| std::mem::take(&mut task.subject));
    task.description = description.unwrap_or_else(|| std::mem::take(&mut task.description));
    task.blocked_by = blocked_by.map_or_else(|| std::mem::take(&mut task.blocked_by), each_once);
    task.status = match status {
        Some(NewStatus::Pending) => Status::Pending,
        Some(NewStatus::InProgress) => Status::InProgress,
        Some(NewStatus::Completed) => Status::Completed,
        Some(NewStatus::Deleted) | None => task.status,
    };
    let task = task.clone();
    if tasks.is_circular(id) {
        return Err(Refusal(format!("nothing was changed: task {id} would block itself")));
    }
    let before = tasks.open_before(&task);
    if task.status != Status::Pending && !before.is_empty() {
        let before = before.join(", ");
        return Err(Refusal(format!(
            "nothing was changed: task {id} is blocked by {before}; complete that first"
        )));
    }
    Ok(format!("Task {id} is {}: {}", word(task.status), task.subject))
}

fn word(status: Status) -> &'static str {
    match status {
        Status::Pending => "pending",
        Status::InProgress => "in progress",
        Status::Completed => "completed",
    }
}
