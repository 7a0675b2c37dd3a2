//! The policy changes in the middle of a round: each call is recorded with the policy that judged it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use windlass::clock::ManualClock;
use windlass::machine::{
    Annotations, Answer, AtLimit, AutoRun, Condition, EffectClass, Fact, Glob, HookVerdict, InterruptKind,
    Limits, Policy, Predicate, Rule, RunOptions, Timestamp, Verdict,
};
use windlass::memory::MemoryStore;
use windlass::port::hook::{Hook, HookCall};
use windlass::port::tool::CallContext;
use windlass::tool::{Adjustment, FunctionTool, Reconcile, Source};
use windlass::{AgentConfig, Engine, Status, Task};

use super::{Held, asking, facts, given, open, plan, put_down, runtime, store, task_in};
use crate::drive::{Counter, Text, party, registry};

fn rule(verdict: Verdict, tool: &str) -> Rule {
    Rule { name: Some(format!("{verdict:?} {tool}")), tools: vec![Glob::new(tool)], ..Rule::new(verdict) }
}

fn policy(pay: Verdict) -> Policy {
    Policy { rules: vec![rule(Verdict::Ask, "erase"), rule(pay, "pay")], ..Policy::default() }
}

/// A rule source that denies `pay` from the second judgement on.
#[derive(Default)]
struct Forbids {
    engine: OnceLock<Engine>,
}

#[async_trait]
impl Hook for Forbids {
    async fn before_tool(&self, call: HookCall<'_>) -> HookVerdict {
        if let (Some(engine), "erase") = (self.engine.get(), call.tool.as_str()) {
            engine.policy().replace(policy(Verdict::Deny));
        }
        HookVerdict::Allow
    }
}

/// Two answers are handled in one round, and the policy changes between them.
#[tokio::test]
async fn a_rule_that_comes_in_the_middle_of_a_round_counts_for_the_calls_that_the_round_left_alone() {
    let (paid, hook) = (Counter::default(), Arc::new(Forbids::default()));
    let other = Counter::default();
    let tools = registry([
        other.tool("erase", EffectClass::Once),
        other.tool("mail", EffectClass::Once),
        paid.tool("pay", EffectClass::Once),
    ]);
    let models = plan(&[&[("erase", "a"), ("mail", "b"), ("pay", "c")]]);
    let engine = asking(&store(), &models, tools).hook(hook.clone()).build().await.unwrap();
    engine.policy().replace(policy(Verdict::Allow));
    let limits = Limits { max_calls: [("mail".into(), 0)].into(), ..Limits::default() };
    let agent = AgentConfig { limits, ..AgentConfig::from("test/scripted") };
    let options = RunOptions { at_limit: Some(AtLimit::Ask), ..RunOptions::default() };
    let waits = engine.run_task(Task { agent, options, ..task_in("t", "go") }).await.unwrap();
    let [erase, mail] = &*open(&waits) else { panic!("{waits:?}") };
    put_down(&engine, &"t".into()).await;
    assert!(hook.engine.set(engine.clone()).is_ok());
    for (interrupt, answer) in [(erase, Answer::Approve), (mail, Answer::Raise { to: 1 })] {
        engine.thread(&"t".into()).leave_answers(vec![given(interrupt, answer)], party("ann")).await.unwrap();
    }
    engine.run(&waits.run).resume().await.unwrap();
    // Whether or not mailing requires approval, nothing is paid.
    let mut outcome = engine.run(&waits.run).wait().await.unwrap();
    while !outcome.interrupts.is_empty() {
        let asked = outcome.interrupts[0].interrupt.clone();
        engine.thread(&"t".into()).answer(&asked, Answer::Approve, party("ann")).await.unwrap();
        outcome = engine.run(&waits.run).wait().await.unwrap();
    }
    assert_eq!(paid.count(), 0, "{:#?}", facts(&engine, &"t".into()).await);
    assert!(outcome.text.as_ref().unwrap().contains("denied by policy (`Deny pay`)"), "{outcome:?}");
}

/// The arguments of the newer tool.
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Both {
    #[allow(dead_code, reason = "only the schema matters")]
    text: String,
    #[allow(dead_code, reason = "only the schema matters")]
    path: String,
}

/// A call is allowed and waits for its turn; the process dies, and the next one has another tool of that name.
#[test]
fn what_a_newer_tool_does_not_take_is_not_sent() {
    let (store, held, sent) = (store(), Held::default(), Counter::default());
    let models = plan(&[&[("slow", ""), ("pay", "a")]]);
    let slow = || held.tool("slow", EffectClass::Idempotent);
    let run = runtime().block_on(async {
        let tools = registry([slow(), sent.tool("pay", EffectClass::Once)]);
        let engine = asking(&store, &models, tools).auto_run(AutoRun::Everything).build().await.unwrap();
        let started = engine.start(task_in("t", "go")).await.unwrap();
        held.begun.notified().await;
        started.run
    });
    runtime().block_on(async {
        let count = sent.clone();
        let newer = FunctionTool::new("pay", "pays", move |_: CallContext, _: Both| {
            count.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            async { "paid" }
        });
        let tools = registry([slow(), newer.effect_class(EffectClass::Once)]);
        let engine = asking(&store.restarted(), &models, tools).auto_run(AutoRun::Everything);
        let engine = engine.build().await.unwrap();
        held.go.notify_one();
        engine.recover().await.unwrap();
        let ended = engine.run(&run).wait().await.unwrap();
        let said = ended.text.as_ref().unwrap();
        assert!(said.contains("Invalid arguments") && said.contains("path"), "{said}");
        assert_eq!(sent.count(), 0);
    });
}

/// Rules take effect and expire while a call waits for its turn.
#[tokio::test]
async fn a_rule_counts_from_its_time_on_and_until_its_time() {
    for (from, until, paid_then) in [(Some(5_000), None, 0), (None, Some(5_000), 1)] {
        let (held, paid) = (Held::default(), Counter::default());
        let clock = Arc::new(ManualClock::new(Timestamp(1_000), 1));
        let tools =
            registry([held.tool("slow", EffectClass::Idempotent), paid.tool("pay", EffectClass::Once)]);
        let models = plan(&[&[("slow", ""), ("pay", "a")]]);
        let store = MemoryStore::new(clock.clone());
        let engine = asking(&store, &models, tools).clock(clock.clone()).build().await.unwrap();
        // Until the rule expires, the call requires approval.
        let verdict = if until.is_some() { Verdict::Ask } else { Verdict::Deny };
        let timed = Rule { from: from.map(Timestamp), until: until.map(Timestamp), ..rule(verdict, "pay") };
        engine
            .policy()
            .replace(Policy { rules: vec![rule(Verdict::Allow, "pay"), timed], ..Policy::default() });
        let started = engine.start(task_in("t", "go")).await.unwrap();
        held.begun.notified().await;
        clock.advance_ms(10_000);
        held.go.notify_one();
        let ended = engine.run(&started.run).wait().await.unwrap();
        assert_eq!((ended.status, paid.count()), (Status::Done, paid_then), "{ended:?}");
    }
}

/// Another process lacks the tool: the interrupt stays open and cannot be answered there.
#[tokio::test]
async fn a_tool_that_is_gone_leaves_its_call_asked() {
    let (store, paid) = (store(), Counter::default());
    let models = plan(&[&[("pay", "a")]]);
    let tools = registry([paid.tool("pay", EffectClass::Once)]);
    let engine = asking(&store, &models, tools).build().await.unwrap();
    let waits = engine.run_task(task_in("t", "go")).await.unwrap();
    let asked = open(&waits).remove(0);
    put_down(&engine, &"t".into()).await;
    let other = asking(&store.another_node(), &models, registry([])).build().await.unwrap();
    let refused = other.thread(&"t".into()).answer(&asked, Answer::Approve, party("ann")).await.unwrap_err();
    assert!(refused.to_string().contains("the tool is not available by now"), "{refused}");
    assert_eq!(open(&other.run(&waits.run).status().await.unwrap()), std::slice::from_ref(&asked));
    put_down(&other, &"t".into()).await;
    engine.thread(&"t".into()).answer(&asked, Answer::Approve, party("ann")).await.unwrap();
    assert_eq!(engine.run(&waits.run).wait().await.unwrap().status, Status::Done);
    assert_eq!(paid.count(), 1);
}

/// The lookup of an outcome hangs. It is abandoned after the time limit of a call, and the call is in doubt.
#[tokio::test(start_paused = true)]
async fn a_read_for_an_outcome_that_hangs_is_given_up() {
    let pay = FunctionTool::new("pay", "pays", |_: CallContext, _: Text| std::future::pending::<&str>());
    let reads = Annotations { read_only_hint: true, ..Annotations::default() };
    let find = FunctionTool::new("find", "looks", |_: CallContext, _: Text| std::future::pending::<&str>());
    let found = Condition { argument: "/found".into(), is: Predicate::Equals(true.into()) };
    let arguments = [("text".to_owned(), Source::Argument("/text".into()))].into();
    let reconcile = Reconcile { tool: "find".into(), arguments, found: vec![found], wait_ms: 100 };
    let tools = registry([pay, find.annotations(reads)]);
    let tools = tools.adjust("pay", Adjustment { reconcile: Some(reconcile), ..Adjustment::default() });
    let engine = asking(&store(), &plan(&[&[("pay", "a")]]), tools).auto_run(AutoRun::Everything);
    let engine = engine.build().await.unwrap();
    let limits = Limits { call_timeout_ms: 50, ..Limits::default() };
    let agent = AgentConfig { limits, ..AgentConfig::from("test/scripted") };
    let waits = engine.run_task(Task { agent, ..task_in("t", "go") }).await.unwrap();
    let InterruptKind::InDoubt { .. } = waits.interrupts[0].kind else { panic!("{waits:?}") };
    let told = facts(&engine, &"t".into()).await;
    let reason = told.iter().find_map(|fact| match fact {
        Fact::ToolInDoubt { reason, .. } => Some(reason.as_str()),
        _ => None,
    });
    let wanted = "nothing was found within the time to look for it; last: it took longer than 50 ms";
    assert_eq!(reason, Some(wanted), "{told:#?}");
}

/// A call with a key hangs and is then forbidden: it is not sent again.
#[tokio::test(start_paused = true)]
async fn a_call_that_hung_is_not_repeated_where_it_is_forbidden_by_now() {
    for (after, wanted) in [(Verdict::Deny, 1), (Verdict::Allow, Limits::default().max_call_starts as usize)]
    {
        let sent = Arc::new(AtomicUsize::new(0));
        let (counted, engine) = (sent.clone(), Arc::new(OnceLock::<Engine>::new()));
        let told = engine.clone();
        let pay = FunctionTool::new("pay", "pays", move |_: CallContext, _: Text| {
            counted.fetch_add(1, Ordering::SeqCst);
            if let Some(engine) = told.get() {
                engine.policy().replace(policy(after));
            }
            std::future::pending::<&str>()
        });
        let tools = registry([pay.effect_class(EffectClass::Keyed)]);
        let built = asking(&store(), &plan(&[&[("pay", "a")]]), tools).build().await.unwrap();
        built.policy().replace(policy(Verdict::Allow));
        assert!(engine.set(built.clone()).is_ok());
        let limits = Limits { call_timeout_ms: 50, ..Limits::default() };
        let agent = AgentConfig { limits, ..AgentConfig::from("test/scripted") };
        let waits = built.run_task(Task { agent, ..task_in("t", "go") }).await.unwrap();
        let InterruptKind::InDoubt { .. } = waits.interrupts[0].kind else { panic!("{waits:?}") };
        assert_eq!(sent.load(Ordering::SeqCst), wanted, "{after:?}");
    }
}
