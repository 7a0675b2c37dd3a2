//! Modes: the tools that a model sees, the verdicts on its calls, and the size of a new thread's prompt.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use serde_json::{Value, json};
use windlass::machine::{
    Annotations, Area, EffectClass, Fact, Mode, PartKind, RunOptions, Seq, ThreadId, ToolSpec, WhenBusy,
    estimate_tokens,
};
use windlass::port::tool::{CallContext, Conduct, Tool, ToolOutcome, ToolTraits};
use windlass::testing::scripted::{Line, ScriptedModels};
use windlass::tool::builtin::{builtin_toolsets, desk_tools, file_tools, request_human_approval};
use windlass::tool::{Adjustment, Registry};
use windlass::{AgentConfig, Engine, Task};

use super::{Counter, memory, registry, stored, task};
use crate::tools::reader;

/// The tools sent to a model, by request.
type Shown = Arc<Mutex<Vec<Arc<[ToolSpec]>>>>;

/// Makes the calls that the user's message lists, one per step.
fn script(shown: &Shown) -> ScriptedModels {
    let shown = shown.clone();
    ScriptedModels::new(move |call| {
        shown.lock().unwrap().push(call.tools.clone());
        let user = |message: &&Arc<windlass::machine::Message>| message.role == windlass::machine::Role::User;
        let asked = call.request.messages.iter().rev().find(user).unwrap().plain_text();
        let wanted: Vec<(String, Value)> = serde_json::from_str(&asked).unwrap();
        let since = call.request.messages.iter().rev().take_while(|message| !user(message));
        match wanted.get(since.count() / 2) {
            Some((tool, arguments)) => Line::tool(tool, &arguments.to_string()),
            None => Line::Say("done".into()),
        }
    })
}

fn in_mode(mode: Option<Mode>, calls: Value) -> Task {
    let options = RunOptions { mode, ..RunOptions::default() };
    Task { thread: Some("t".into()), options, ..task(&calls.to_string()) }
}

/// Reads with one argument, and writes with the other.
struct Both(ToolSpec, Area);

impl Both {
    fn tool(name: &str, area: Area) -> Arc<dyn Tool> {
        let input_schema = json!({"type": "object", "properties": {"writes": {"type": "boolean"}}});
        let (description, annotations, withheld) = ("both".into(), Annotations::default(), Vec::new());
        Arc::new(Self(ToolSpec { name: name.into(), description, input_schema, annotations, withheld }, area))
    }
}

#[async_trait]
impl Tool for Both {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }
    fn traits(&self) -> ToolTraits<'_> {
        ToolTraits { area: self.1, reads_too: true, ..ToolTraits::default() }
    }
    fn conduct(&self, arguments: &Value) -> Conduct {
        let reads = arguments["writes"] != true;
        let class = if reads { EffectClass::Pure } else { EffectClass::Idempotent };
        let annotations = Annotations { read_only_hint: reads, ..Annotations::default() };
        Conduct { annotations, class, added: Vec::new() }
    }
    async fn call(&self, _: CallContext, _: Value) -> ToolOutcome {
        ToolOutcome::text("ran")
    }
}

/// The tools of a program with all features.
fn usual() -> Registry {
    let registry =
        windlass::registry().add_all(file_tools(&reader())).unwrap().add_all(desk_tools()).unwrap();
    let ask = Arc::new(request_human_approval(None));
    let registry = registry.add(ask).unwrap().add(Both::tool("Api", Area::Work)).unwrap();
    registry.add(Both::tool("Recall", Area::Memory)).unwrap().add(Both::tool("Look", Area::Machine)).unwrap()
}

/// The started calls of a thread, and the results of those that were not started.
async fn told(engine: &Engine) -> Vec<String> {
    let mut told = Vec::new();
    for recorded in engine.thread(&"t".into()).events(Seq(0), 1_000).await.unwrap() {
        match recorded.event.fact {
            Fact::ToolStarted { call, .. } => told.push(format!("{} started", call.step)),
            Fact::ToolFinished { call, error: true, content, .. } => {
                told.push(format!("{} {}", call.step, serde_json::to_string(&content).unwrap()));
            }
            _ => {}
        }
    }
    told
}

// rows: ZE-H12, ZE-E15, ZE-H11, OV-12
#[tokio::test]
async fn the_tools_of_each_mode() {
    let always =
        "CurrentTime Glob Grep Read Sleep TaskCreate TaskGet TaskList TaskUpdate read_todos write_todos Api";
    let table = [
        (Mode::Agent, "Edit NotebookEdit Write request_human_approval Recall Look"),
        (Mode::Ask, ""),
        (Mode::Plan, "request_human_approval Recall"),
    ];
    let mut names = Vec::new();
    for (mode, more) in table {
        let shown = Shown::default();
        let engine = memory(&script(&shown), usual()).build().await.unwrap();
        engine.run_task(in_mode(Some(mode), json!([]))).await.unwrap();
        let tools = shown.lock().unwrap()[0].clone();
        let placeholder = format!("Withheld in mode {}.", mode.word());
        let whole = tools.iter().filter(|spec| spec.description != placeholder);
        let mut whole: Vec<&str> = whole.map(|spec| spec.name.as_str()).collect();
        let mut wanted: Vec<&str> = always.split(' ').chain(more.split_whitespace()).collect();
        whole.sort_unstable();
        wanted.sort_unstable();
        assert_eq!(whole, wanted, "{mode:?}");
        names.push(tools.iter().map(|spec| spec.name.to_string()).collect::<Vec<_>>());
    }
    // The names of all tools are listed in every mode.
    assert!(names.iter().all(|of| *of == names[0]));
}

// rows: ZE-E15
#[tokio::test]
async fn a_withheld_write_names_the_mode_that_allows_it() {
    let (shown, counter) = (Shown::default(), Counter::default());
    let tools =
        registry([counter.tool("Pay", EffectClass::Once)]).add(Both::tool("Api", Area::Work)).unwrap();
    let engine = memory(&script(&shown), tools).build().await.unwrap();
    let calls = json!([["Pay", {"text": "all"}], ["Api", {"writes": true}], ["Api", {}]]);
    engine.run_task(in_mode(Some(Mode::Ask), calls.clone())).await.unwrap();
    let seen = told(&engine).await;
    assert_eq!((counter.count(), seen.len()), (0, 3), "{seen:?}");
    assert!(seen[0].contains("`Pay` is there for this in the mode `agent`"), "{seen:?}");
    assert!(seen[1].contains("`Api` is there for this in the mode `agent`"), "{seen:?}");
    assert_eq!(seen[2], "3 started");
    // The thread stays in that mode until another one is chosen.
    engine.run_task(in_mode(None, calls.clone())).await.unwrap();
    assert_eq!(counter.count(), 0);
    engine.run_task(in_mode(Some(Mode::Agent), calls)).await.unwrap();
    assert_eq!(counter.count(), 1);
}

#[tokio::test]
async fn whether_a_tool_only_reads_is_believed_of_those_who_are_trusted() {
    for (trusted, calls) in [(true, 1), (false, 0)] {
        let (shown, counter) = (Shown::default(), Counter::default());
        let adjustment = Adjustment { trusted: Some(trusted), ..Adjustment::default() };
        let tools = registry([counter.tool("Look", EffectClass::Pure)]).adjust("Look", adjustment);
        let engine = memory(&script(&shown), tools).build().await.unwrap();
        engine.run_task(in_mode(Some(Mode::Plan), json!([["Look", {"text": "there"}]]))).await.unwrap();
        assert_eq!(counter.count(), calls, "trusted: {trusted}");
        let withheld = shown.lock().unwrap()[0][0].description == "Withheld in mode plan.";
        assert_eq!(withheld, !trusted);
    }
}

#[tokio::test]
async fn a_prompt_is_built_again_with_its_mode_by_another_process() {
    let (folder, shown) = (tempfile::tempdir().unwrap(), Shown::default());
    let open = async |mode| {
        let agent = AgentConfig { mode, ..AgentConfig::from("test/scripted") };
        (stored(folder.path(), &script(&shown), usual()).build().await.unwrap(), agent)
    };
    let (engine, agent) = open(Some(Mode::Plan)).await;
    let calls = json!([["Write", {"file_path": "a", "content": "b"}], ["CurrentTime", {}]]);
    engine.run_task(Task { agent, ..in_mode(None, calls) }).await.unwrap();
    drop(engine);
    let (engine, agent) = open(None).await;
    let thread = ThreadId::from("t");
    let mut steps = 0;
    for recorded in engine.thread(&thread).events(Seq(0), 1_000).await.unwrap() {
        if let Fact::StepStarted { .. } = recorded.event.fact {
            let prompt = engine.thread(&thread).prompt(recorded.seq).await.unwrap();
            assert_eq!((prompt.request.mode, Some(prompt.digest)), (Mode::Plan, prompt.replied));
            let mut said = prompt.parts.iter().filter(|part| part.kind == PartKind::Instructions);
            let last = serde_json::to_string(&said.next_back().unwrap().blocks).unwrap();
            assert!(last.contains("Mode: plan."), "{last}");
            steps += 1;
        }
    }
    assert_eq!(steps, 3);
    // Within a run, each prompt has the tools of the previous one.
    let all = shown.lock().unwrap().clone();
    assert!(all.len() == 3 && all.iter().all(|tools| *tools == all[0]));
    // A message queued behind a run in another mode gets the mode that is current when its run begins.
    engine.run_task(Task { agent, when_busy: WhenBusy::Queue, ..in_mode(None, json!([])) }).await.unwrap();
    assert_eq!(*shown.lock().unwrap().last().unwrap(), all[0]);
}

// rows: SK-C1, SK-C17
#[tokio::test]
async fn the_tools_of_a_new_thread_take_less_than_1500_tokens() {
    let shown = Shown::default();
    let ask = Arc::new(request_human_approval(None));
    let all = windlass::registry()
        .add_all(file_tools(&reader()))
        .unwrap()
        .add_all(desk_tools())
        .unwrap()
        .add(ask)
        .unwrap();
    let tokens = |specs: &[ToolSpec]| -> u64 {
        let bytes = |spec: &ToolSpec| {
            spec.name.as_str().len() + spec.description.len() + spec.input_schema.to_string().len()
        };
        specs.iter().map(|spec| estimate_tokens(bytes(spec) as u64)).sum()
    };
    let before = tokens(&all.catalogue());
    let builder = memory(&script(&shown), all).toolsets(builtin_toolsets());
    let engine = builder.build().await.unwrap();
    let load = |name: &str| json!([["load_toolset", {"toolset": name, "include_write_tools": true}]]);
    engine.run_task(in_mode(None, load("planning"))).await.unwrap();
    let all = shown.lock().unwrap().clone();
    let (first, loaded) = (&all[0], &all[1]);
    let names: Vec<&str> = first.iter().map(|spec| spec.name.as_str()).collect();
    let direct = ["Edit", "Glob", "Grep", "Read", "Write", "load_toolset", "request_human_approval"];
    assert_eq!(names, direct);
    let after = tokens(first);
    assert!(before > 2_000 && after < 1_500, "{before} before, {after} now");
    assert_eq!(loaded.len(), direct.len() + 6);
    // The recorded catalogue equals the tools sent to a model.
    let mut events = engine.thread(&"t".into()).events(Seq(0), 100).await.unwrap().into_iter();
    let step = events.find(|one| matches!(one.event.fact, Fact::StepStarted { .. })).unwrap();
    let prompt = engine.thread(&"t".into()).prompt(step.seq).await.unwrap();
    let part = prompt.parts.iter().find(|part| part.kind == PartKind::Tools).unwrap();
    assert_eq!(part.tokens, after);
}
