//! Budgets shared by many concurrent runs, from two engines on one store.

use std::path::Path;
use std::sync::Arc;

use windlass::clock::{ManualClock, SystemClock};
use windlass::limits::{Budget, Per, Unit, Window};
use windlass::machine::{
    Answer, AtLimit, Block, EffectClass, FailureClass, InterruptKind, Limits, MicroUsd, RunOptions,
    StopReason, Surface, Timestamp, ToolCall, Usage,
};
use windlass::memory::MemoryStore;
use windlass::port::journal::{Journal, RunQuery};
use windlass::port::model::{ModelCall, ModelError, Price, Reply};
use windlass::sqlite::{Durability, SqliteFolder, SqliteStore, StoreOptions};
use windlass::testing::scripted::{Line, ScriptedModels, results};
use windlass::{AgentConfig, Builder, Engine, Outcome, Status, Task};

use super::{asking, runtime, task_in};
use crate::drive::{Counter, memory, party, registry, task};

/// One US dollar in its millionths.
const DOLLAR: u64 = 1_000_000;

/// Uses its whole output cap and calls a read in between, `steps` times.
fn talks(steps: usize) -> ScriptedModels {
    ScriptedModels::new(move |call| spoken(call, steps))
}

fn spoken(call: &ModelCall, steps: usize) -> Line {
    let nth = results(call);
    // A model without a cap produces more than any estimate.
    let output = call.request.settings.max_output_tokens.unwrap_or(60_000);
    let usage = Usage { input: Some(10), output: Some(output), ..Usage::default() };
    let (block, stop) = if nth + 1 < steps {
        let asked = format!(r#"{{"text":"{nth}"}}"#).into();
        let call = ToolCall { id: format!("c{nth}"), name: "look".into(), asked, native: None };
        (Block::ToolCall(call), StopReason::ToolCalls)
    } else {
        (Block::text("done"), StopReason::End)
    };
    Line::Reply(Reply { blocks: vec![block], stop, usage, model: None })
}

fn tools() -> windlass::tool::Registry {
    registry([Counter::default().tool("look", EffectClass::Pure)])
}

fn budget(per: Per, window: Window, cap: u64) -> Budget {
    Budget { per, unit: Unit::Usd, window, cap, approvers: Default::default() }
}

fn at(limit: AtLimit) -> RunOptions {
    RunOptions { at_limit: Some(limit), ..RunOptions::default() }
}

/// Runs sixteen runs concurrently on two engines. Asserts that the dollar was not overspent and that no reservation is
/// left.
async fn hammer(engines: [&Engine; 2], journal: &dyn Journal, options: &RunOptions) -> Vec<Outcome> {
    let run = |nth: usize| {
        let task = Task { options: options.clone(), ..task("go") };
        async move { engines[nth % 2].run_task(task).await.unwrap() }
    };
    let outcomes = futures::future::join_all((0..16).map(run)).await;
    let [row] = &*journal.budgets("").await.unwrap() else { panic!("one budget") };
    let one_call = 16_384 * 2 + 1_000;
    assert!(row.used <= DOLLAR + one_call, "{row:?}");
    assert!(row.used > DOLLAR / 2, "{row:?}");
    assert_eq!(row.reserved, 0, "{row:?}");
    let spent: u64 = outcomes.iter().map(|outcome| outcome.figures.cost.unwrap().0).sum();
    assert_eq!(spent, row.used, "what runs say they cost is what was booked");
    outcomes
}

fn is_limit(outcome: &Outcome) -> bool {
    let limit = |open: &windlass::OpenInterrupt| matches!(open.kind, InterruptKind::Limit(_));
    outcome.status == Status::Paused && outcome.interrupts.iter().all(limit)
}

fn failed_at_limit(outcome: &Outcome) -> bool {
    outcome.status == Status::Failed && outcome.errors[0].code == "ERR_LIMIT"
}

async fn in_memory(per: Per, window: Window, options: RunOptions) -> Vec<Outcome> {
    let store = MemoryStore::new(Arc::new(SystemClock::new()));
    let built =
        |store: &MemoryStore| asking(store, &talks(6), tools()).budgets(vec![budget(per, window, DOLLAR)]);
    let one = built(&store).build().await.unwrap();
    let other = built(&store.another_node()).build().await.unwrap();
    hammer([&one, &other], &store, &options).await
}

async fn on_disk(folder: &Path, per: Per, window: Window, options: RunOptions) -> Vec<Outcome> {
    let relaxed = StoreOptions { durability: Durability::Relaxed, ..StoreOptions::default() };
    let built = || {
        let store = SqliteFolder::new(folder).options(relaxed);
        memory(&talks(6), tools()).store(store).budgets(vec![budget(per, window, DOLLAR)])
    };
    let (one, other) = (built().build().await.unwrap(), built().build().await.unwrap());
    let journal = SqliteStore::open(folder, relaxed, Arc::new(SystemClock::new())).await.unwrap();
    hammer([&one, &other], &journal, &options).await
}

// rows: ZE-O1
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixteen_runs_do_not_overspend_a_dollar_and_fail_at_it() {
    for (per, window) in [(Per::User, Window::Total), (Per::Workspace, Window::Day)] {
        let folder = tempfile::tempdir().unwrap();
        for outcomes in [
            in_memory(per, window, at(AtLimit::Fail)).await,
            on_disk(folder.path(), per, window, at(AtLimit::Fail)).await,
        ] {
            assert!(outcomes.iter().any(failed_at_limit));
            assert!(outcomes.iter().all(|o| o.status == Status::Done || failed_at_limit(o)), "{outcomes:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixteen_runs_do_not_overspend_a_dollar_and_wait_at_it() {
    for (per, window) in [(Per::User, Window::Total), (Per::Workspace, Window::Day)] {
        let folder = tempfile::tempdir().unwrap();
        for outcomes in [
            in_memory(per, window, at(AtLimit::Ask)).await,
            on_disk(folder.path(), per, window, at(AtLimit::Ask)).await,
        ] {
            assert!(outcomes.iter().any(is_limit));
            assert!(outcomes.iter().all(|o| o.status == Status::Done || is_limit(o)), "{outcomes:?}");
        }
    }
}

/// Answers a run's interrupt, and waits for the run again.
async fn answer(engine: &Engine, outcome: &Outcome, answer: Answer) -> Outcome {
    let open = &outcome.interrupts[0].interrupt;
    engine.thread(&outcome.thread).answer(open, answer, party("ann")).await.unwrap();
    engine.run(&outcome.run).wait().await.unwrap()
}

#[tokio::test]
async fn a_budget_is_raised_for_one_run_or_for_all() {
    let store = MemoryStore::new(Arc::new(SystemClock::new()));
    // Room for one of six steps.
    let built = |cap| asking(&store, &talks(6), tools()).budgets(vec![budget(Per::User, Window::Total, cap)]);
    let engine = built(40_000).build().await.unwrap();
    let chat = RunOptions { surface: Surface::Chat, ..RunOptions::default() };
    let asked = |thread: &str| Task { options: chat.clone(), ..task_in(thread, "go") };
    let first = engine.run_task(asked("a")).await.unwrap();
    assert!(is_limit(&first) && first.figures.steps == 1, "{first:?}");
    let second = engine.run_task(asked("b")).await.unwrap();
    assert!(is_limit(&second) && second.figures.steps == 0, "no room for the very first step: {second:?}");
    // The limit was not raised, so there is still no room.
    let still = answer(&engine, &second, Answer::Retry).await;
    assert!(is_limit(&still) && still.interrupts != second.interrupts, "{still:?}");
    // An invalid raise is rejected and changes nothing.
    let open = &still.interrupts[0].interrupt;
    for to in [0, 1_000, 40_000] {
        let refused = engine.thread(&"b".into()).answer(open, Answer::Raise { to }, party("ann")).await;
        assert!(refused.unwrap_err().to_string().contains("is not more"));
    }
    // For this run only.
    let done = answer(&engine, &first, Answer::Raise { to: 300_000 }).await;
    assert_eq!((done.status, done.figures.steps), (Status::Done, 6));
    assert!(is_limit(&answer(&engine, &still, Answer::Retry).await));
    // For all runs: the program restarts with a larger budget.
    let engine = {
        drop(engine);
        built(DOLLAR).build().await.unwrap()
    };
    let waiting = engine.run(&second.run).status().await.unwrap();
    assert_eq!(answer(&engine, &waiting, Answer::Retry).await.status, Status::Done);
    let [row] = &*store.budgets("").await.unwrap() else { panic!("one budget") };
    assert_eq!((row.reserved, row.used), (0, 12 * (16_384 * 2 + 10)));
}

#[tokio::test]
async fn a_budget_of_a_day_has_room_again_the_next() {
    let clock = Arc::new(ManualClock::new(Timestamp(1_795_219_200_000), 1));
    let store = MemoryStore::new(clock.clone());
    let engine = asking(&store, &talks(2), tools()).clock(clock.clone()).budgets(vec![budget(
        Per::Workspace,
        Window::Day,
        40_000,
    )]);
    let engine = engine.build().await.unwrap();
    let options = at(AtLimit::Ask);
    let waiting = engine.run_task(Task { options, ..task("go") }).await.unwrap();
    assert!(is_limit(&waiting));
    clock.advance_ms(86_400_000);
    let done = answer(&engine, &waiting, Answer::Retry).await;
    assert_eq!((done.status, done.figures.steps), (Status::Done, 2));
    let days: Vec<String> = store.budgets("").await.unwrap().into_iter().map(|row| row.budget).collect();
    assert_eq!(days, ["default/workspace//usd/2026-11-21", "default/workspace//usd/2026-11-22"]);
}

#[tokio::test]
async fn a_limit_of_money_needs_a_price() {
    let models = talks(1).priced(None);
    let engine = memory(&models, tools()).budgets(vec![budget(Per::User, Window::Total, DOLLAR)]);
    let outcome = engine.build().await.unwrap().run_task(task("go")).await.unwrap();
    assert_eq!((outcome.status, outcome.errors[0].code.as_str()), (Status::Failed, "ERR_CONFIG"));
    let message = &outcome.errors[0].message;
    assert!(message.contains("`test/scripted`") && message.contains("price"), "{message}");
    assert_eq!(models.calls(), 0, "it is not called");
    // A run's own limit may be a cost limit too; without any, no price is needed.
    let own = Limits { max_cost: MicroUsd(DOLLAR), ..Limits::default() };
    for (limits, wanted) in [(own, Status::Failed), (Limits::default(), Status::Done)] {
        let agent = AgentConfig { limits, ..AgentConfig::from("test/scripted") };
        let engine = memory(&models, tools()).build().await.unwrap();
        assert_eq!(engine.run_task(Task { agent, ..task("go") }).await.unwrap().status, wanted);
    }
}

// rows: OV-6
#[tokio::test]
async fn a_run_has_limits_of_its_own() {
    let check = async |limits: Limits, extra: Vec<Budget>, turns: u32| {
        let engine = memory(&talks(6), tools()).budgets(extra).build().await.unwrap();
        let agent = AgentConfig { limits, ..AgentConfig::from("test/scripted") };
        let outcome = engine.run_task(Task { agent, ..task("go") }).await.unwrap();
        assert!(failed_at_limit(&outcome), "{outcome:?}");
        assert_eq!(outcome.figures.steps, turns);
    };
    let cost = |micro| Limits { max_cost: MicroUsd(micro), ..Limits::default() };
    check(cost(80_000), vec![], 2).await;
    check(Limits { max_tokens: 40_000, ..Limits::default() }, vec![], 2).await;
    let steps = Budget { unit: Unit::Steps, ..budget(Per::Thread, Window::Total, 3) };
    check(Limits::default(), vec![steps], 3).await;
    // The program's budget per run and the run's own limit are combined: the smaller one applies, and usage is booked
    // once.
    check(cost(200_000), vec![budget(Per::Run, Window::Total, 80_000)], 2).await;
    check(cost(80_000), vec![budget(Per::Run, Window::Total, 200_000)], 2).await;
}

#[tokio::test]
async fn what_a_prompt_costs_to_keep_in_a_cache_is_set_aside() {
    let price = Price { input: 1.0, output: 0.0, cached: None, cache_written: Some(1_000.0) };
    let limits = Limits { max_cost: MicroUsd(2_000), ..Limits::default() };
    let agent = AgentConfig { limits, ..AgentConfig::from("test/scripted") };
    let engine = memory(&talks(1).priced(Some(price)), tools()).build().await.unwrap();
    let outcome = engine.run_task(Task { agent, ..task("a prompt of more than two tokens") }).await.unwrap();
    assert!(failed_at_limit(&outcome), "{outcome:?}");
}

#[test]
fn what_a_dead_process_had_set_aside_is_booked_when_its_thread_is_opened() {
    let store = MemoryStore::new(Arc::new(SystemClock::new()));
    let built = |store: &MemoryStore, models: &ScriptedModels| -> Builder {
        asking(store, models, tools()).budgets(vec![budget(Per::User, Window::Total, DOLLAR)])
    };
    let reserved = || futures::executor::block_on(async { store.budgets("").await.unwrap()[0].reserved });
    runtime().block_on(async {
        let hangs = ScriptedModels::new(|_| Line::Hang("thinking".into()));
        let engine = built(&store, &hangs).build().await.unwrap();
        engine.start(task_in("t", "go")).await.unwrap();
        while hangs.calls() == 0 {
            tokio::task::yield_now().await;
        }
    });
    let set_aside = reserved();
    assert!(set_aside > 2 * 16_384, "{set_aside}");
    runtime().block_on(async {
        let engine = built(&store.restarted(), &talks(1)).build().await.unwrap();
        engine.recover().await.unwrap();
        let run = engine.runs(&RunQuery::newest(1)).await.unwrap().remove(0).view.run;
        assert_eq!(engine.run(&run).wait().await.unwrap().status, Status::Done);
    });
    let [row] = &*futures::executor::block_on(store.budgets("")).unwrap() else { panic!("one budget") };
    // It is unknown whether the provider charges for the lost attempt, so all of it counts.
    assert_eq!((row.reserved, row.used), (0, set_aside + 2 * 16_384 + 10));
}

// rows: SK-P7
#[tokio::test]
async fn a_title_is_booked_on_its_owners_budgets_and_not_asked_for_without_room() {
    let titler = |call: &ModelCall| {
        let usage = Usage { input: Some(100), output: Some(20), ..Usage::default() };
        let text = match call.tools.is_empty() {
            true => r#"{"title": "A made title"}"#,
            false => "done",
        };
        Line::Reply(Reply { blocks: vec![Block::text(text)], stop: StopReason::End, usage, model: None })
    };
    let models = ScriptedModels::new(titler);
    let tokens = |cap| Budget { unit: Unit::Tokens, ..budget(Per::User, Window::Total, cap) };
    let store = MemoryStore::new(Arc::new(SystemClock::new()));
    let engine = asking(&store, &models, tools()).budgets(vec![tokens(100_000)]).build().await.unwrap();
    let started = engine.start(task("look at the web shop")).await.unwrap();
    engine.run(&started.run).wait().await.unwrap();
    let model = "test/scripted".into();
    let title = engine.thread(&started.thread).make_title(&model).await.unwrap();
    assert_eq!(title.as_deref(), Some("A made title"));
    let [row] = &*store.budgets("").await.unwrap() else { panic!("one budget") };
    assert_eq!((row.used, row.reserved), (240, 0), "the run's reply and the title's");

    let poor = asking(&store, &models, tools()).budgets(vec![tokens(240)]).build().await.unwrap();
    let calls = models.calls();
    assert_eq!(poor.thread(&started.thread).make_title(&model).await.unwrap(), title);
    assert_eq!(models.calls(), calls, "nothing was asked");
}

#[tokio::test(start_paused = true)]
async fn a_title_that_does_not_come_is_booked_and_none_is_asked_for_twice() {
    let unauthenticated = ModelError::new(FailureClass::Auth, "who are you?");
    let cut = ModelError::new(FailureClass::Truncated, "it broke off");
    let said = "a long way".to_owned();
    for (line, booked) in [
        (Line::Say(r#"{"title": "Made"}"#.into()), Some(15)),
        (Line::Fail(said.clone(), cut), None),
        (Line::Hang(said), None),
        (Line::Fail(String::new(), unauthenticated), Some(0)),
    ] {
        let models = ScriptedModels::new(move |call| match call.tools.is_empty() {
            true => line.clone(),
            false => Line::Say("done".into()),
        });
        let budgets = vec![Budget { unit: Unit::Tokens, ..budget(Per::User, Window::Total, 100_000) }];
        let store = MemoryStore::new(Arc::new(SystemClock::new()));
        let engine = asking(&store, &models, tools()).budgets(budgets).build().await.unwrap();
        let started = engine.start(task("look at the web shop")).await.unwrap();
        engine.run(&started.run).wait().await.unwrap();
        let (thread, model) = (&started.thread, "test/scripted".into());
        let title = engine.thread(thread).make_title(&model).await.unwrap();
        let (calls, used) = (models.calls(), store.budgets("").await.unwrap()[0].used - 15);
        match booked {
            Some(booked) => assert_eq!(used, booked),
            // Prompt and answer at their largest possible size.
            None => assert!((1_024..2_000).contains(&used), "{used}"),
        }
        assert_eq!(engine.thread(thread).make_title(&model).await.unwrap(), title);
        let asked_again = u64::from(booked == Some(0));
        assert_eq!(models.calls() - calls, asked_again, "what cost nothing may be tried again");
    }
}
