//! The host program's hook, administrators' overrides of tools, and keys that models never see.

use std::sync::Arc;

use async_trait::async_trait;
use windlass::machine::{
    Annotations, Answer, AutoRun, EffectClass, Glob, HookVerdict, InterruptKind, Reply, Rule, Verdict,
};
use windlass::port::hook::{Hook, HookCall};
use windlass::testing::scripted::{Line, ScriptedModels, results};
use windlass::tool::{Adjustment, FunctionTool};
use windlass::{Builder, Outcome, Status};

use super::bank::{Bank, Pays, Wire, tools};
use super::{asking, open, plan, store, told};
use crate::drive::{Counter, Text, party, registry, task};

/// A hook that follows the instructions in the call's text.
struct AsTold;

#[async_trait]
impl Hook for AsTold {
    async fn before_tool(&self, call: HookCall<'_>) -> HookVerdict {
        assert_eq!((call.tool.as_str(), call.spec.name.as_str()), ("write", "write"));
        let reason = || "look at it".to_owned();
        match call.arguments["text"].as_str().unwrap() {
            "allow" => HookVerdict::Allow,
            "ask" => HookVerdict::Ask { reason: reason() },
            "deny" => HookVerdict::Deny { reason: reason() },
            "panic" => panic!("boom"),
            "hang" => std::future::pending().await,
            other => panic!("{other}"),
        }
    }
}

fn hooked(text: &str, written: &Counter) -> Builder {
    let tools = registry([written.tool("write", EffectClass::Once)]);
    asking(&store(), &plan(&[&[("write", text)]]), tools).auto_run(AutoRun::Everything).hook(Arc::new(AsTold))
}

async fn run(text: &str, written: &Counter) -> (windlass::Engine, Outcome) {
    let engine = hooked(text, written).build().await.unwrap();
    let outcome = engine.run_task(task("go")).await.unwrap();
    (engine, outcome)
}

// rows: LM-H6, LM-R17
#[tokio::test(start_paused = true)]
async fn a_hook_lets_calls_pass_stops_them_or_has_people_look() {
    let written = Counter::default();
    let (_, passed) = run("allow", &written).await;
    assert_eq!((passed.text.as_deref(), written.count()), (Some("said allow"), 1));
    let (_, stopped) = run("deny", &written).await;
    let said = stopped.text.unwrap();
    assert!(said.contains("denied by policy (`hook`)") && said.contains("look at it"), "{said}");
    for (text, why) in
        [("ask", "look at it"), ("panic", "the hook crashed"), ("hang", "the hook took longer than 10000 ms")]
    {
        let written = Counter::default();
        let (engine, waits) = run(text, &written).await;
        let asked = open(&waits).remove(0);
        let InterruptKind::Hook { reason, .. } = &waits.interrupts[0].kind else { panic!("{waits:?}") };
        assert_eq!((reason.as_str(), written.count()), (why, 0));
        engine.thread(&waits.thread).answer(&asked, Answer::Approve, party("ann")).await.unwrap();
        let ended = engine.run(&waits.run).wait().await.unwrap();
        assert_eq!((ended.status, written.count()), (Status::Done, 1));
    }
    assert_eq!(written.count(), 1);
}

// rows: LM-R15
#[tokio::test]
async fn people_may_reply_in_place_of_a_call_that_a_hook_stopped() {
    let written = Counter::default();
    let (engine, waits) = run("ask", &written).await;
    let asked = open(&waits).remove(0);
    let text = Some("use the other one".to_owned());
    let reply = Answer::Reply(Box::new(Reply { text, ..Reply::default() }));
    engine.thread(&waits.thread).answer(&asked, reply, party("ann")).await.unwrap();
    let ended = engine.run(&waits.run).wait().await.unwrap();
    assert_eq!((ended.text.as_deref(), written.count()), (Some("use the other one"), 0));
}

#[tokio::test]
async fn a_hook_lets_nothing_through_that_the_policy_stops() {
    for (verdict, status) in [(Verdict::Deny, Status::Done), (Verdict::Ask, Status::Paused)] {
        let written = Counter::default();
        let rule = Rule { tools: vec![Glob::new("write")], ..Rule::new(verdict) };
        let engine = hooked("allow", &written).rules(vec![rule]).build().await.unwrap();
        let outcome = engine.run_task(task("go")).await.unwrap();
        assert_eq!((outcome.status, written.count()), (status, 0), "{outcome:?}");
    }
}

#[tokio::test]
async fn the_idempotency_key_is_hidden_from_the_model_and_the_approver() {
    let bank = Bank::default();
    // If a model invents a key, the tool still receives the engine's.
    let models = ScriptedModels::new(|call| {
        let pay = call.tools.iter().find(|tool| tool.name.as_str() == "pay").unwrap();
        let schema = pay.input_schema.to_string();
        assert!(!schema.contains("idempotency_key") && schema.contains("order"), "{schema}");
        match results(call) {
            0 => Line::Call(
                String::new(),
                vec![
                    ("pay".into(), r#"{"order":"a"}"#.into()),
                    ("pay".into(), r#"{"order":"b","idempotency_key":"mine"}"#.into()),
                ],
            ),
            _ => Line::Say(told(call)),
        }
    });
    let engine = asking(&store(), &models, tools(&bank, Wire::Function, Pays::Keyed)).build().await.unwrap();
    let waits = engine.run_task(task("go")).await.unwrap();
    let shown: Vec<_> = waits.interrupts.iter().map(|open| open.arguments.clone().unwrap()).collect();
    assert_eq!(shown[0], r#"{"order":"a"}"#);
    for asked in open(&waits) {
        engine.thread(&waits.thread).answer(&asked, Answer::Approve, party("ann")).await.unwrap();
    }
    assert_eq!(engine.run(&waits.run).wait().await.unwrap().text.as_deref(), Some("paid a | paid b"));
    let keys = bank.keys();
    assert!(keys.iter().all(|key| key.starts_with("wl-") && key.len() == 35), "{keys:?}");
    assert_ne!(keys[0], keys[1]);
}

#[tokio::test]
async fn what_an_administrator_says_of_a_tool_wins() {
    let reads = || {
        let hints = Annotations { read_only_hint: true, ..Annotations::default() };
        let tool = FunctionTool::new("write", "says that it reads", |_, _: Text| async { "read" });
        registry([tool.annotations(hints)])
    };
    let run = async |adjustment: Adjustment| {
        let tools = reads().adjust("write", adjustment);
        let engine = asking(&store(), &plan(&[&[("write", "a")]]), tools).build().await.unwrap();
        engine.run_task(task("go")).await.unwrap().status
    };
    assert_eq!(run(Adjustment::default()).await, Status::Done);
    assert_eq!(run(Adjustment { trusted: Some(true), ..Adjustment::default() }).await, Status::Done);
    assert_eq!(run(Adjustment { trusted: Some(false), ..Adjustment::default() }).await, Status::Paused);
}

/// A tool that stops in the middle: the next action reveals its effect class.
#[tokio::test]
async fn the_class_that_an_administrator_gives_a_tool_decides_what_follows_a_lost_outcome() {
    let run = async |effect_class: Option<EffectClass>| {
        let panics = FunctionTool::new("write", "crashes", |_, _: Text| async {
            if true {
                panic!("boom");
            }
            "never"
        });
        let tools = registry([panics.effect_class(EffectClass::Idempotent)]);
        let tools = tools.adjust("write", Adjustment { effect_class, ..Adjustment::default() });
        let engine = asking(&store(), &plan(&[&[("write", "a")]]), tools).auto_run(AutoRun::Everything);
        engine.build().await.unwrap().run_task(task("go")).await.unwrap()
    };
    let told = run(None).await;
    assert!(told.text.unwrap().contains("repeating it is safe"));
    let doubt = run(Some(EffectClass::Once)).await;
    assert!(matches!(doubt.interrupts[0].kind, InterruptKind::InDoubt { .. }), "{doubt:?}");
}

/// A tool that panics when asked about a call.
struct Broken(windlass::tool::FunctionTool);

#[async_trait::async_trait]
impl windlass::port::tool::Tool for Broken {
    fn spec(&self) -> &windlass::machine::ToolSpec {
        self.0.spec()
    }

    fn asks(&self, _: &serde_json::Value) -> Option<windlass::port::tool::Ask> {
        panic!("no idea")
    }

    async fn call(
        &self,
        context: windlass::port::tool::CallContext,
        arguments: serde_json::Value,
    ) -> windlass::port::tool::ToolOutcome {
        self.0.call(context, arguments).await
    }
}

#[tokio::test]
async fn a_panic_before_a_tool_call_skips_the_call_and_the_run_continues() {
    let (store, counter) = (super::store(), crate::drive::Counter::default());
    let models = super::plan(&[&[("write", "a")]]);
    let broken = Broken(counter.tool("write", windlass::machine::EffectClass::Once));
    let tools = windlass::registry().add(std::sync::Arc::new(broken)).unwrap();
    let engine = super::asking(&store, &models, tools).build().await.unwrap();
    let outcome = engine.run_task(super::task_in("t", "go")).await.unwrap();
    assert_eq!((outcome.status, counter.count()), (windlass::Status::Done, 0), "{outcome:?}");
}
