//! Tasks and todos: what is stored, rejected and reported.

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use windlass::machine::EffectClass;
use windlass::port::tool::CallContext;
use windlass::tool::{Registry, builtin};

use super::{context, run, show};

/// The tools, with their current state.
struct List {
    registry: Registry,
    kept: Option<String>,
}

impl List {
    fn new() -> Self {
        Self { registry: windlass::registry().add_all(builtin::desk_tools()).unwrap(), kept: None }
    }

    #[track_caller]
    fn says(&mut self, tool: &str, arguments: Value, wanted: &str) {
        let before = self.kept.clone();
        let shown = match self.registry.check_arguments(tool, &arguments) {
            Err(problem) => format!("invalid: {problem}"),
            Ok(()) => {
                let context = CallContext { kept: before.clone(), ..context(None, CancellationToken::new()) };
                let output = run(&*self.registry.get(tool).unwrap(), context, arguments);
                self.kept = output.keep.clone().or(before.clone());
                show(&output)
            }
        };
        assert_eq!(shown, wanted);
        if shown.starts_with("error") {
            assert_eq!(self.kept, before, "an error keeps nothing");
        }
    }
}

// rows: LM-T14
#[test]
fn tasks_wait_for_each_other() {
    let mut list = List::new();
    list.says("TaskList", json!({}), "ok: No tasks found");
    list.says("TaskCreate", json!({"subject": "Dig"}), "ok: Task 1: Dig");
    let roof = json!({"subject": "Roof", "description": "Red tiles", "blocked_by": [1]});
    list.says("TaskCreate", roof, "ok: Task 2: Roof");
    list.says("TaskList", json!({}), "ok: 1 pending: Dig\n2 pending: Roof (blocked by 1)");
    let roof = r#"{"id":2,"subject":"Roof","description":"Red tiles","status":"pending","blocked_by":[1]}"#;
    list.says("TaskGet", json!({"id": 2}), &format!("ok: {roof}"));
    let early = "error: nothing was changed: task 2 is blocked by 1; complete that first";
    list.says("TaskUpdate", json!({"id": 2, "status": "in_progress"}), early);
    list.says("TaskUpdate", json!({"id": 1, "status": "completed"}), "ok: Task 1 is completed: Dig");
    let begun = "ok: Task 2 is in progress: Roofs";
    list.says("TaskUpdate", json!({"id": 2, "status": "in_progress", "subject": "Roofs"}), begun);
    list.says("TaskList", json!({"status": "in_progress"}), "ok: 2 in progress: Roofs");
    list.says("TaskUpdate", json!({"id": 1, "status": "deleted"}), "ok: Deleted task 1");
    list.says("TaskCreate", json!({"subject": "Paint"}), "ok: Task 3: Paint");
    list.says("TaskGet", json!({"id": 1}), "error: task 1 does not exist; existing tasks: 2, 3");
}

#[test]
fn a_task_never_comes_before_itself() {
    let mut list = List::new();
    for (nth, before) in [(1, json!([])), (2, json!([1])), (3, json!([2]))] {
        let task = json!({"subject": "x", "blocked_by": before});
        list.says("TaskCreate", task, &format!("ok: Task {nth}: x"));
    }
    for before in [json!([3]), json!([1]), json!([2, 3])] {
        let wanted = "error: nothing was changed: task 1 would block itself";
        list.says("TaskUpdate", json!({"id": 1, "blocked_by": before}), wanted);
    }
    let missing = "error: task 9 does not exist; existing tasks: 1, 2, 3";
    list.says("TaskUpdate", json!({"id": 1, "blocked_by": [9]}), missing);
    list.says("TaskCreate", json!({"subject": "x", "blocked_by": [9]}), missing);
    list.says("TaskUpdate", json!({"id": 3, "blocked_by": [1]}), "ok: Task 3 is pending: x");
}

#[test]
fn a_list_has_an_end() {
    let mut list = List::new();
    for nth in 1..=200 {
        list.says("TaskCreate", json!({"subject": "x"}), &format!("ok: Task {nth}: x"));
    }
    let full = "error: the task list is full (200 tasks); delete completed tasks";
    list.says("TaskCreate", json!({"subject": "x"}), full);
    list.says("TaskUpdate", json!({"id": 7, "status": "deleted"}), "ok: Deleted task 7");
    // Ids are never reused.
    list.says("TaskCreate", json!({"subject": "x"}), "ok: Task 201: x");
    let long = "x".repeat(201);
    assert!(list.registry.check_arguments("TaskCreate", &json!({"subject": long})).is_err());
    assert!(list.registry.check_arguments("TaskCreate", &json!({"subject": ""})).is_err());
    let todos = vec![json!({"content": "x", "status": "pending"}); 101];
    assert!(list.registry.check_arguments("write_todos", &json!({"todos": todos})).is_err());
}

/// The list itself rejects an oversized change, and says what helps.
#[test]
fn a_list_is_no_larger_than_may_be_kept() {
    let mut list = List::new();
    // Each character takes six bytes in storage.
    let page = "\u{1}".repeat(1_000);
    let task = || json!({"subject": "x", "description": page});
    for nth in 1..=37 {
        list.says("TaskCreate", task(), &format!("ok: Task {nth}: x"));
    }
    let full = "error: nothing was changed: the task list would have 230295 bytes, and the limit is 229376; \
                delete completed tasks, or shorten the texts";
    list.says("TaskCreate", task(), full);
    list.says("TaskCreate", json!({"subject": "y"}), "ok: Task 38: y");
    let longer = json!({"id": 38, "description": page});
    let shown = "error: nothing was changed: the task list would have 230295 bytes, and the limit is 229376; \
                 delete completed tasks, or shorten the texts";
    list.says("TaskUpdate", longer, shown);
    list.says("TaskUpdate", json!({"id": 1, "status": "deleted"}), "ok: Deleted task 1");
}

#[test]
fn what_a_task_waits_for_is_kept_once() {
    let mut list = List::new();
    list.says("TaskCreate", json!({"subject": "a"}), "ok: Task 1: a");
    list.says("TaskCreate", json!({"subject": "b"}), "ok: Task 2: b");
    list.says("TaskCreate", json!({"subject": "c", "blocked_by": [2, 1, 2, 1]}), "ok: Task 3: c");
    let kept =
        |before: &str| format!(r#"ok: {{"id":3,"subject":"c","status":"pending","blocked_by":[{before}]}}"#);
    list.says("TaskGet", json!({"id": 3}), &kept("2,1"));
    list.says("TaskUpdate", json!({"id": 3, "blocked_by": [1, 1]}), "ok: Task 3 is pending: c");
    list.says("TaskGet", json!({"id": 3}), &kept("1"));
}

// rows: ZE-H13
#[test]
fn todos_are_written_whole_and_read() {
    let mut list = List::new();
    list.says("read_todos", json!({}), "ok: []");
    let todos = json!([
        {"content": "Dig", "status": "completed"},
        {"content": "Roof", "status": "in_progress"},
        {"content": "Paint", "status": "pending"},
    ]);
    let wanted = "ok: Saved 3 entries: 1 completed, 1 in progress, 1 pending";
    list.says("write_todos", json!({"todos": todos}), wanted);
    list.says("read_todos", json!({}), &format!("ok: {todos}"));
    list.says("write_todos", json!({"todos": []}), "ok: The list is now empty");
    list.says("read_todos", json!({}), "ok: []");
}

#[test]
fn a_damaged_list_is_said_to_be_one() {
    let mut list = List { kept: Some("[".into()), ..List::new() };
    let wanted = "error: cannot read the task list: EOF while parsing a list at line 1 column 1";
    list.says("TaskList", json!({}), wanted);
    list.says("TaskCreate", json!({"subject": "x"}), wanted);
}

/// A tool that changes a list runs alone; one that only reads it runs in parallel. Neither requires approval.
#[test]
fn lists_are_changed_by_one_call_at_a_time() {
    for tool in builtin::desk_tools() {
        let name = tool.spec().name.as_str();
        let changes = ["TaskCreate", "TaskUpdate", "write_todos"].contains(&name);
        let class = if changes { EffectClass::Idempotent } else { EffectClass::Pure };
        assert_eq!(
            (tool.traits().effect_class(tool.spec()), tool.spec().annotations.read_only_hint),
            (class, true),
            "{name}"
        );
        let keeps = match name {
            "write_todos" | "read_todos" => Some("todos"),
            name if name.starts_with("Task") => Some("tasks"),
            _ => None,
        };
        assert_eq!(tool.traits().keeps, keeps, "{name}");
    }
}
