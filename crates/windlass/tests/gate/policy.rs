//! Rules, modes and grants that change while calls wait, and counted grants.

use std::sync::{Arc, Mutex};

use serde_json::json;
use windlass::clock::ManualClock;
use windlass::limits::{Budget, Per, Unit, Window};
use windlass::machine::{
    Answer, AutoRun, Condition, EffectClass, Fact, Glob, Policy, Predicate, Principal, Rule, ThreadId,
    Timestamp, Verdict,
};
use windlass::memory::{AppendFault, MemoryStore};
use windlass::port::journal::RunQuery;
use windlass::port::records::{Expect, Records};
use windlass::testing::scripted::ScriptedModels;
use windlass::{Attend, Engine, GrantDraft, Outcome, Status, Task, Whose};

use super::{Held, asking, facts, given, open, plan, runtime, store, task_in};
use crate::drive::attend::settle;
use crate::drive::{Counter, memory, party, registry, stored, task};

fn rule(verdict: Verdict, tool: &str) -> Rule {
    Rule { name: Some("r".into()), tools: vec![Glob::new(tool)], ..Rule::new(verdict) }
}

fn rules(rules: Vec<Rule>, auto_run: AutoRun) -> Policy {
    Policy { rules, auto_run, ..Policy::default() }
}

/// A grant for the tool `write`, for the owner of the tests' runs.
fn grant(count: Option<u32>) -> GrantDraft {
    GrantDraft {
        user: "local".into(),
        tool: "write".into(),
        arguments: Vec::new(),
        count,
        expires_at: None,
        by: "ann".into(),
    }
}

/// A run whose call of `write` may start, but waits behind another call that runs.
struct Behind {
    engine: Engine,
    store: MemoryStore,
    held: Held,
    written: Counter,
    started: windlass::Started,
}

impl Behind {
    /// `prepare` sets up what allows the call; if that is a person, they approve.
    async fn new(prepare: impl AsyncFnOnce(&Engine)) -> Self {
        Self::with(Vec::new(), prepare).await
    }

    async fn with(budgets: Vec<Budget>, prepare: impl AsyncFnOnce(&Engine)) -> Self {
        let (store, held, written) = (store(), Held::default(), Counter::default());
        let models = plan(&[&[("slow", ""), ("write", "a")]]);
        let tools = || {
            registry([held.tool("slow", EffectClass::Idempotent), written.tool("write", EffectClass::Once)])
        };
        let engine = asking(&store, &models, tools()).budgets(budgets).build().await.unwrap();
        prepare(&engine).await;
        let started = engine.start(task_in("t", "go")).await.unwrap();
        held.begun.notified().await;
        let status = engine.run(&started.run).status().await.unwrap();
        for asked in &status.interrupts {
            let by = party("ann");
            engine.thread(&started.thread).answer(&asked.interrupt, Answer::Approve, by).await.unwrap();
        }
        Self { engine, store, held, written, started }
    }

    /// Releases the earlier call.
    async fn let_go(&self) -> Outcome {
        self.held.go.notify_one();
        self.engine.run(&self.started.run).wait().await.unwrap()
    }

    /// The permission was withdrawn: the call requires approval, and runs when approved.
    async fn asks(&self) {
        let waits = self.let_go().await;
        let asked = open(&waits).remove(0);
        assert_eq!(self.written.count(), 0);
        self.engine.thread(&self.started.thread).answer(&asked, Answer::Approve, party("ann")).await.unwrap();
        let ended = self.engine.run(&self.started.run).wait().await.unwrap();
        assert_eq!((ended.status, self.written.count()), (Status::Done, 1));
    }
}

async fn nothing(_: &Engine) {}

// rows: SK-A3
#[tokio::test]
async fn a_rule_that_was_tightened_counts_for_a_call_that_was_approved_and_has_not_started() {
    let behind = Behind::new(nothing).await;
    behind.engine.policy().replace(rules(vec![rule(Verdict::Deny, "write")], AutoRun::Ask));
    let ended = behind.let_go().await;
    assert!(ended.text.as_ref().unwrap().contains("denied by policy (`r`)"), "{ended:?}");
    assert_eq!(behind.written.count(), 0);
    // Without a change, it runs.
    let behind = Behind::new(nothing).await;
    assert_eq!(behind.let_go().await.text.as_deref(), Some("let go | said a"));
}

/// The first decision is not written, because the budget has no room for the next step.
#[tokio::test]
async fn a_rule_that_was_tightened_counts_also_where_a_budget_refuses() {
    let (per, unit, window, cap) = (Per::Thread, Unit::Steps, Window::Total, 1);
    let budget = Budget { per, unit, window, cap, approvers: Default::default() };
    let behind = Behind::with(vec![budget], nothing).await;
    behind.engine.policy().replace(rules(vec![rule(Verdict::Deny, "write")], AutoRun::Ask));
    let ended = behind.let_go().await;
    assert_eq!((ended.errors[0].code.as_str(), behind.written.count()), ("ERR_LIMIT", 0));
}

#[tokio::test]
async fn a_mode_that_was_changed_counts_for_a_call_that_has_not_started() {
    for whose in [Whose::User("local".into()), Whose::Thread("t".into())] {
        let mode = |engine: &Engine, mode| {
            let (engine, whose) = (engine.clone(), whose.clone());
            async move { engine.policy().set_auto_run(&whose, mode).await.unwrap() }
        };
        let everything = async |engine: &Engine| mode(engine, Some(AutoRun::Everything)).await;
        let behind = Behind::new(everything).await;
        mode(&behind.engine, Some(AutoRun::Ask)).await;
        behind.asks().await;
        let behind = Behind::new(everything).await;
        mode(&behind.engine, None).await;
        behind.asks().await;
    }
}

// rows: ZE-H1, ZE-H9
#[tokio::test]
async fn a_tool_that_was_taken_off_the_allow_list_asks() {
    let listed = async |engine: &Engine| {
        engine.policy().set_auto_run(&Whose::User("local".into()), Some(AutoRun::Allowlist)).await.unwrap();
        engine.policy().allow(&"local".into(), &"write".into()).await.unwrap();
        engine.policy().allow(&"local".into(), &"write".into()).await.unwrap();
        assert_eq!(engine.policy().allowed(&"local".into()).await.unwrap(), ["write".into()]);
    };
    let behind = Behind::new(listed).await;
    behind.engine.policy().disallow(&"local".into(), &"write".into()).await.unwrap();
    behind.asks().await;
    // Another user's list has no effect.
    let behind = Behind::new(listed).await;
    behind.engine.policy().disallow(&"ann".into(), &"write".into()).await.unwrap();
    assert_eq!(behind.let_go().await.status, Status::Done);
}

#[tokio::test]
async fn a_record_that_cannot_be_read_hides_no_other() {
    let (store, ann) = (store(), Principal::from("ann"));
    let tools = registry([Counter::default().tool("write", EffectClass::Once)]);
    let engine = asking(&store, &plan(&[]), tools).build().await.unwrap();
    engine.policy().allow(&ann, &"write".into()).await.unwrap();
    for kind in ["allow", "grant"] {
        store.put(kind, "0", ann.as_str(), json!("unknown"), Expect::Absent).await.unwrap();
    }
    assert_eq!(engine.policy().allowed(&ann).await.unwrap(), ["write".into()]);
    assert_eq!(engine.policy().grants(Some(&ann)).await.unwrap(), []);
}

#[tokio::test]
async fn a_grant_that_was_revoked_counts_for_a_call_that_has_not_started() {
    let granted = async |engine: &Engine| drop(engine.policy().grant(grant(None)).await.unwrap());
    let behind = Behind::new(granted).await;
    let (_, known) = behind.engine.policy().grants(None).await.unwrap().remove(0);
    let stranger = behind.engine.policy().revoke(&known.id, Some(&"eve".into())).await.unwrap_err();
    assert!(stranger.to_string().contains("grant"), "{stranger}");
    behind.engine.policy().revoke(&known.id, Some(&"local".into())).await.unwrap();
    behind.asks().await;
}

/// Another process withdraws it, and the call's turn comes at once.
#[tokio::test]
async fn what_another_process_takes_back_counts_at_once() {
    let granted = async |engine: &Engine| drop(engine.policy().grant(grant(None)).await.unwrap());
    let other = async |behind: &Behind| {
        asking(&behind.store.another_node(), &plan(&[]), registry([])).build().await.unwrap()
    };
    let behind = Behind::new(granted).await;
    let another = other(&behind).await;
    let (_, known) = another.policy().grants(None).await.unwrap().remove(0);
    another.policy().revoke(&known.id, None).await.unwrap();
    behind.asks().await;
    let everything = async |engine: &Engine| {
        engine.policy().set_auto_run(&Whose::User("local".into()), Some(AutoRun::Everything)).await.unwrap();
    };
    let behind = Behind::new(everything).await;
    other(&behind).await.policy().set_auto_run(&Whose::User("local".into()), None).await.unwrap();
    behind.asks().await;
}

#[tokio::test]
async fn a_rule_that_was_tightened_counts_for_a_call_that_waits() {
    let written = Counter::default();
    let tools = registry([written.tool("write", EffectClass::Once)]);
    let engine = asking(&store(), &plan(&[&[("write", "a")]]), tools).build().await.unwrap();
    let waits = engine.run_task(task("go")).await.unwrap();
    let (thread, asked) = (&waits.thread, &open(&waits)[0]);
    engine.policy().replace(rules(vec![rule(Verdict::Deny, "write")], AutoRun::Ask));
    let late =
        engine.thread(thread).answer(asked, Answer::Approve, party("ann")).await.unwrap_err().to_string();
    assert!(late.starts_with("too late"), "{late}");
    let ended = engine.run(&waits.run).wait().await.unwrap();
    assert!(ended.text.unwrap().contains("denied by policy (`r`)"));
    assert_eq!(written.count(), 0);
}

#[tokio::test]
async fn a_rule_that_was_loosened_lets_a_call_go_that_waits() {
    let written = Counter::default();
    let store = store();
    let tools = || registry([written.tool("write", EffectClass::Once)]);
    let engine = asking(&store, &plan(&[&[("write", "a")]]), tools()).build().await.unwrap();
    let waits = engine.run_task(task("go")).await.unwrap();
    engine.policy().replace(rules(vec![rule(Verdict::Allow, "write")], AutoRun::Ask));
    // The next process that drives the thread sees it.
    engine.run(&waits.run).resume().await.unwrap();
    while engine.run(&waits.run).status().await.unwrap().status == Status::Paused {
        tokio::task::yield_now().await;
    }
    assert_eq!(engine.run(&waits.run).wait().await.unwrap().text.as_deref(), Some("said a"));
}

#[tokio::test]
async fn a_grant_is_for_its_user_its_tool_and_its_arguments() {
    let check = async |draft: GrantDraft, allowed: bool| {
        let tools = registry([
            Counter::default().tool("write", EffectClass::Once),
            Counter::default().tool("erase", EffectClass::Once),
        ]);
        let engine = asking(&store(), &plan(&[&[("write", "a")]]), tools).build().await.unwrap();
        engine.policy().grant(draft.clone()).await.unwrap();
        let outcome = engine.run_task(task("go")).await.unwrap();
        assert_eq!(outcome.status == Status::Done, allowed, "{draft:?}");
    };
    let when = |text: &str| Condition { argument: "/text".into(), is: Predicate::Equals(text.into()) };
    check(grant(None), true).await;
    check(GrantDraft { user: "ann".into(), ..grant(None) }, false).await;
    check(GrantDraft { tool: "erase".into(), ..grant(None) }, false).await;
    check(GrantDraft { arguments: vec![when("a")], ..grant(None) }, true).await;
    check(GrantDraft { arguments: vec![when("b")], ..grant(None) }, false).await;
    check(GrantDraft { expires_at: Some(windlass::machine::Timestamp(1)), ..grant(None) }, false).await;
    check(grant(Some(0)), false).await;
}

/// The number of calls in a thread that a grant allowed.
fn uses(facts: &[Fact]) -> usize {
    facts.iter().filter(|fact| matches!(fact, Fact::GrantUsed { .. })).count()
}

async fn remaining(engine: &Engine) -> Option<u32> {
    engine.policy().grants(None).await.unwrap()[0].1.remaining
}

#[tokio::test]
async fn a_grant_of_two_lets_two_calls_through_in_one_step_or_in_three() {
    let one_step = plan(&[&[("write", "a"), ("write", "b"), ("write", "c")]]);
    let three_steps = plan(&[&[("write", "a")], &[("write", "b")], &[("write", "c")]]);
    for models in [one_step, three_steps] {
        let written = Counter::default();
        let tools = registry([written.tool("write", EffectClass::Once)]);
        let engine = asking(&store(), &models, tools).build().await.unwrap();
        engine.policy().grant(grant(Some(2))).await.unwrap();
        let waits = engine.run_task(task("go")).await.unwrap();
        let asked = open(&waits);
        assert_eq!((asked.len(), written.count()), (1, 2), "{waits:?}");
        assert_eq!(waits.interrupts[0].arguments.as_deref(), Some(r#"{"text":"c"}"#));
        assert_eq!(remaining(&engine).await, Some(0));
        engine.thread(&waits.thread).answer(&asked[0], Answer::Approve, party("ann")).await.unwrap();
        assert_eq!(engine.run(&waits.run).wait().await.unwrap().status, Status::Done);
    }
}

/// Runs that compete for one grant, two calls each, from two processes.
async fn race(engines: [&Engine; 2], written: &Counter) {
    engines[0].policy().grant(grant(Some(2))).await.unwrap();
    let run = |nth: usize| engines[nth % 2].run_task(task_in(&format!("t{nth}"), "go"));
    let outcomes = futures::future::join_all((0..6).map(run)).await;
    let mut used = 0;
    for outcome in outcomes {
        let outcome = outcome.unwrap();
        assert_eq!(outcome.status, Status::Paused, "{outcome:?}");
        used += uses(&facts(engines[0], &outcome.thread).await);
    }
    assert_eq!((used, written.count(), remaining(engines[1]).await), (2, 2, Some(0)));
}

fn two_writes() -> ScriptedModels {
    plan(&[&[("write", "a")], &[("write", "b")], &[("write", "c")]])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn threads_that_race_for_a_grant_use_it_no_more_often_than_it_says() {
    for _ in 0..5 {
        let written = Counter::default();
        let tools = || registry([written.tool("write", EffectClass::Once)]);
        let store = store();
        let one = asking(&store, &two_writes(), tools()).build().await.unwrap();
        let other = asking(&store.another_node(), &two_writes(), tools()).build().await.unwrap();
        race([&one, &other], &written).await;
        let (folder, written) = (tempfile::tempdir().unwrap(), Counter::default());
        let tools = || registry([written.tool("write", EffectClass::Once)]);
        let built = || stored(folder.path(), &two_writes(), tools()).auto_run(AutoRun::Ask);
        let (one, other) = (built().build().await.unwrap(), built().build().await.unwrap());
        race([&one, &other], &written).await;
    }
}

#[test]
fn a_crash_loses_no_use_of_a_grant_and_adds_none() {
    for fault in [AppendFault::DiesWritten, AppendFault::DiesNotWritten] {
        for nth in 0..7 {
            let (store, written) = (store(), Counter::default());
            let built = |store: &MemoryStore| {
                let tools = registry([written.tool("write", EffectClass::Idempotent)]);
                asking(store, &two_writes(), tools)
            };
            let died = runtime().block_on(async {
                let engine = built(&store).build().await.unwrap();
                engine.policy().grant(grant(Some(2))).await.unwrap();
                (0..nth).for_each(|_| store.fail_append(AppendFault::Nothing));
                store.fail_append(fault);
                tokio::select! {
                    biased;
                    () = store.died() => true,
                    _ = engine.run_task(task_in("t", "go")) => false,
                }
            });
            let store = store.restarted();
            runtime().block_on(async {
                let engine = built(&store).build().await.unwrap();
                engine.recover().await.unwrap();
                let thread = ThreadId::from("t");
                let Some(row) = engine.runs(&RunQuery::of(&thread, 1)).await.unwrap().pop() else { return };
                let waits = engine.run(&row.view.run).wait().await.unwrap();
                assert_eq!(open(&waits).len(), 1, "{fault:?} {nth} {died}");
                let used = uses(&facts(&engine, &thread).await);
                assert_eq!((used, remaining(&engine).await), (2, Some(0)), "{fault:?} {nth} {died}");
            });
        }
    }
}

#[tokio::test]
async fn an_answer_that_was_left_is_judged_by_the_rules_of_when_it_is_taken() {
    let (store, written) = (store(), Counter::default());
    let tools = || registry([written.tool("write", EffectClass::Once)]);
    let engine = asking(&store, &plan(&[&[("write", "a")]]), tools()).build().await.unwrap();
    let waits = engine.run_task(task("go")).await.unwrap();
    let (thread, asked) = (&waits.thread, &open(&waits)[0]);
    engine.thread(thread).leave_answers(vec![given(asked, Answer::Approve)], party("ann")).await.unwrap();
    let server = asking(&store.another_node(), &plan(&[&[("write", "a")]]), tools())
        .rules(vec![rule(Verdict::Deny, "write")])
        .attend(Attend::All);
    let server = server.build().await.unwrap();
    server.run(&waits.run).resume().await.unwrap();
    let ended = server.run(&waits.run).wait().await.unwrap();
    assert!(ended.text.unwrap().contains("denied by policy"));
    assert_eq!(written.count(), 0);
}

#[tokio::test]
async fn no_mode_lets_a_destructive_call_through_but_a_grant_does() {
    let erase = || {
        let hints = windlass::machine::Annotations { destructive_hint: true, ..Default::default() };
        registry([Counter::default().tool("write", EffectClass::Once).annotations(hints)])
    };
    let task = || Task { thread: None, ..task("go") };
    let engine = memory(&plan(&[&[("write", "a")]]), erase()).build().await.unwrap();
    assert_eq!(engine.run_task(task()).await.unwrap().status, Status::Paused);
    engine.policy().grant(grant(Some(1))).await.unwrap();
    assert_eq!(engine.run_task(task()).await.unwrap().status, Status::Done);
    assert_eq!(engine.run_task(task()).await.unwrap().status, Status::Paused);
}

/// A rule that names a role applies to the runs of its members only.
#[tokio::test]
async fn a_rule_that_names_a_role_counts_for_those_who_have_it() {
    for (role, written) in [("ops", 0), ("dev", 1)] {
        let (store, counter) = (store(), Counter::default());
        let models = plan(&[&[("write", "a")]]);
        let tools = registry([counter.tool("write", EffectClass::Once)]);
        let deny = Rule { roles: vec!["ops".into()], ..rule(Verdict::Deny, "write") };
        let engine = asking(&store, &models, tools).rules(vec![deny]).auto_run(AutoRun::Everything);
        let engine =
            engine.roles_of(move |_| async move { Ok(vec![role.to_owned()]) }).build().await.unwrap();
        engine.run_task(task_in("t", "go")).await.unwrap();
        assert_eq!(counter.count(), written, "{role}");
    }
}

/// The program's records determine roles, and another process may change them.
#[tokio::test]
async fn a_role_that_was_taken_away_counts_for_a_call_that_waits_for_its_place() {
    let (store, counter) = (store(), Counter::default());
    let tools = registry([counter.tool("ask", EffectClass::Once), counter.tool("write", EffectClass::Once)]);
    let allow = Rule { roles: vec!["ops".into()], ..rule(Verdict::Allow, "write") };
    let roles = Arc::new(Mutex::new(vec!["ops".to_owned()]));
    let now = roles.clone();
    let engine = asking(&store, &plan(&[&[("ask", "a"), ("write", "b")]]), tools)
        .rules(vec![allow])
        .roles_of(move |_| std::future::ready(Ok(now.lock().unwrap().clone())));
    let engine = engine.build().await.unwrap();
    let waits = engine.run_task(task_in("t", "go")).await.unwrap();
    assert_eq!(open(&waits).len(), 1);
    roles.lock().unwrap().clear();
    engine.thread(&"t".into()).answer(&open(&waits)[0], Answer::Approve, party("ann")).await.unwrap();
    let waits = engine.run(&waits.run).wait().await.unwrap();
    assert_eq!((open(&waits).len(), counter.count()), (1, 1));
}

/// Another process changes the record that defines a role while a call waits for its turn.
#[tokio::test]
async fn a_role_that_another_process_takes_away_counts_for_a_call_that_has_not_started() {
    for (kind, asked, written) in [("role", 1, 0), ("note", 0, 1)] {
        let clock = Arc::new(ManualClock::new(Timestamp(1_000), 1));
        let store = MemoryStore::new(clock.clone());
        for kind in ["role", "note"] {
            store.put(kind, "local", "", json!("ops"), Expect::Any).await.unwrap();
        }
        let (held, counter) = (Held::default(), Counter::default());
        let tools = [held.tool("slow", EffectClass::Idempotent), counter.tool("write", EffectClass::Once)];
        let allow = Rule { roles: vec!["ops".into()], ..rule(Verdict::Allow, "write") };
        let records = store.clone();
        let roles = move |user: Principal| {
            let records = records.clone();
            async move {
                Ok(records.get("role", user.as_str()).await?.map(|_| "ops".to_owned()).into_iter().collect())
            }
        };
        let engine = asking(&store, &plan(&[&[("slow", ""), ("slow", ""), ("write", "a")]]), registry(tools));
        let engine =
            engine.clock(clock.clone()).rules(vec![allow]).roles_of(roles).roles_change_with(["role"]);
        let engine = engine.build().await.unwrap();
        let started = engine.start(task_in("t", "go")).await.unwrap();
        // The engine's first read of the records always counts as a change.
        held.begun.notified().await;
        clock.advance_ms(1_000);
        settle().await;
        held.go.notify_one();
        held.begun.notified().await;
        store.another_node().delete(kind, "local", Expect::Any).await.unwrap();
        clock.advance_ms(1_000);
        settle().await;
        held.go.notify_one();
        let ended = engine.run(&started.run).wait().await.unwrap();
        assert_eq!((ended.interrupts.len(), counter.count()), (asked, written), "{kind}: {ended:?}");
    }
}
