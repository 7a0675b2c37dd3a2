//! Approvals: who may give them, how many are needed, what they cover, and when they expire.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::future::join_all;
use windlass::clock::ManualClock;
use windlass::machine::{
    Answer, Approver, EffectClass, Expiry, Fact, Glob, Party, Quorum, Rule, Seq, Terms, ThreadId, Timestamp,
    Verdict,
};
use windlass::memory::MemoryStore;
use windlass::{Attend, Engine, Status};

use super::{asking, facts, given, open, plan, put_down, store, task_in};
use crate::drive::{Counter, party, registry, stored, task};

/// A party without a role.
fn plain(name: &str) -> Party {
    Party { roles: Vec::new(), ..party(name) }
}

/// A rule that requires approval of a tool's calls on these terms.
fn asks(tool: &str, terms: Terms) -> Rule {
    Rule { name: Some("r".into()), tools: vec![Glob::new(tool)], terms, ..Rule::new(Verdict::Ask) }
}

fn of(count: u32, users: &[&str]) -> Quorum {
    Quorum { count, of: users.iter().map(|user| Approver::User((*user).into())).collect() }
}

async fn seq(engine: &Engine, thread: &ThreadId) -> Seq {
    engine.thread(thread).events(Seq(0), 10_000).await.unwrap().last().unwrap().seq
}

// rows: SK-A5, SK-A6, SK-A7, SK-A10, ZE-H4, ZE-H6, OV-1, OV-2, OV-4, LM-R6, LM-Z5
#[tokio::test]
async fn calls_are_approved_edited_and_denied_in_one_batch() {
    let written = Counter::default();
    let models = plan(&[&[("write", "a"), ("write", "b"), ("write", "c")]]);
    let tools = registry([written.tool("write", EffectClass::Once)]);
    let engine = asking(&store(), &models, tools).build().await.unwrap();
    let waits = engine.run_task(task("go")).await.unwrap();
    let [a, b, c] = &*open(&waits) else { panic!("three questions at once") };
    let edit = |text: &str| Answer::Edit { arguments: format!(r#"{{"text":{text}}}"#).into() };
    let thread = &waits.thread;
    let before = seq(&engine, thread).await;
    // If one answer is invalid, none is applied.
    let batch = vec![given(a, Answer::Approve), given(b, edit("7"))];
    let refused = engine.thread(thread).answer_all(batch, party("ann")).await.unwrap_err().to_string();
    assert!(refused.contains("do not fit") && refused.contains("/text"), "{refused}");
    assert_eq!((seq(&engine, thread).await, written.count()), (before, 0));
    let reason = Some("not today".to_owned());
    let batch = vec![given(c, Answer::Approve), given(a, Answer::Deny { reason }), given(b, edit(r#""B""#))];
    engine.thread(thread).answer_all(batch, party("ann")).await.unwrap();
    let said = engine.run(&waits.run).wait().await.unwrap().text.unwrap();
    let [denied, edited, approved] = &*said.split(" | ").collect::<Vec<_>>() else { panic!("{said}") };
    assert!(
        denied.contains("denied by the user. Do not retry it") && denied.ends_with("not today"),
        "{denied}"
    );
    assert!(edited.starts_with("said B") && edited.contains(r#"A person changed the arguments"#), "{edited}");
    assert_eq!((*approved, written.count()), ("said c", 2));
}

// rows: WT-X2, SK-A3
#[tokio::test]
async fn strangers_and_other_workspaces_may_not_answer() {
    let written = Counter::default();
    let tools = registry([written.tool("write", EffectClass::Once)]);
    let engine = asking(&store(), &plan(&[&[("write", "a")]]), tools).build().await.unwrap();
    let waits = engine.run_task(task("go")).await.unwrap();
    let (thread, asked) = (&waits.thread, &open(&waits)[0]);
    let before = seq(&engine, thread).await;
    let elsewhere = Party { workspace: "other".into(), ..party("ann") };
    for (by, wanted) in [(elsewhere, "does not exist in this thread"), (plain("eve"), "`eve` may not answer")]
    {
        for answer in [Answer::Approve, Answer::Deny { reason: None }] {
            let refused =
                engine.thread(thread).answer(asked, answer, by.clone()).await.unwrap_err().to_string();
            assert!(refused.contains(wanted), "{refused}");
        }
    }
    assert_eq!((seq(&engine, thread).await, written.count()), (before, 0));
    // The owner of the run may answer.
    engine.thread(thread).answer(asked, Answer::Approve, plain("local")).await.unwrap();
    assert_eq!(engine.run(&waits.run).wait().await.unwrap().text.as_deref(), Some("said a"));
}

#[tokio::test]
async fn two_different_people_have_to_approve() {
    let written = Counter::default();
    let tools = registry([written.tool("write", EffectClass::Once)]);
    let terms = Terms { quorums: [of(2, &["ann", "bob", "cid"])].into(), ..Terms::default() };
    let engine = asking(&store(), &plan(&[&[("write", "a")]]), tools).rules(vec![asks("write", terms)]);
    let engine = engine.build().await.unwrap();
    let waits = engine.run_task(task("go")).await.unwrap();
    let (thread, asked) = (&waits.thread, &open(&waits)[0]);
    let approve = |by: Party| engine.thread(thread).answer(asked, Answer::Approve, by);
    let vote = approve(plain("ann")).await.unwrap();
    assert_eq!(vote.closed, []);
    let half = engine.run(&waits.run).status().await.unwrap();
    assert_eq!((half.status, written.count()), (Status::Paused, 0));
    assert_eq!(half.interrupts[0].approved_by, ["ann".into()]);
    let again = approve(plain("ann")).await.unwrap_err().to_string();
    assert!(again.starts_with("too late") && again.contains("needs another's"), "{again}");
    // Neither a party that the rule does not name nor the run's owner may answer.
    for stranger in [plain("eve"), plain("local"), party("root")] {
        let refused = approve(stranger).await.unwrap_err().to_string();
        assert!(refused.contains("may not"), "{refused}");
    }
    assert_eq!(written.count(), 0);
    let closing = approve(plain("bob")).await.unwrap();
    assert_eq!(closing.closed, std::slice::from_ref(asked));
    assert_eq!(engine.run(&waits.run).wait().await.unwrap().text.as_deref(), Some("said a"));
    assert_eq!(written.count(), 1);
}

#[tokio::test]
async fn an_answer_with_a_folded_thread_does_not_fold_it_again() {
    let store = store();
    let tools = registry([Counter::default().tool("write", EffectClass::Once)]);
    let terms = Terms { quorums: [of(3, &["ann", "bob", "cid"])].into(), ..Terms::default() };
    let engine = asking(&store, &plan(&[&[("write", "a")]]), tools).rules(vec![asks("write", terms)]);
    let engine = engine.clock(Arc::new(ManualClock::new(Timestamp(1_000), 1))).build().await.unwrap();
    let mut reads = Vec::new();
    for thread in ["folds", "folded", "stale"] {
        let waits = engine.run_task(task_in(thread, "go")).await.unwrap();
        let (thread, asked) = (&waits.thread, &open(&waits)[0]);
        let approve = || vec![given(asked, Answer::Approve)];
        put_down(&engine, thread).await;
        let folded = engine.thread(thread).folded().await.unwrap();
        if thread.as_str() == "stale" {
            // Another vote is recorded after the fold.
            engine.thread(thread).answer_all(approve(), plain("bob")).await.unwrap();
            put_down(&engine, thread).await;
        }
        let before = store.count_reads();
        if thread.as_str() == "folds" {
            engine.thread(thread).answer_all(approve(), plain("ann")).await.unwrap();
        } else {
            let given = engine.answer_and_grant(&folded, approve(), vec![], None, plain("ann"));
            assert_eq!(given.await.unwrap().0.closed, []);
        }
        reads.push(store.count_reads() - before);
        let votes = engine.thread(thread).interrupts().await.unwrap()[0].approved_by.len();
        assert_eq!(votes, if thread.as_str() == "stale" { 2 } else { 1 }, "{thread}");
    }
    let [folds, folded, stale] = reads[..] else { panic!("{reads:?}") };
    // A fold reads the snapshot and the later events.
    assert_eq!((folded + 2, stale), (folds, folds), "{reads:?}");
}

#[tokio::test]
async fn one_of_several_approvers_can_stop_a_call() {
    let written = Counter::default();
    let tools = registry([written.tool("write", EffectClass::Once)]);
    let terms = Terms { quorums: [of(2, &["ann", "bob"])].into(), ..Terms::default() };
    let engine = asking(&store(), &plan(&[&[("write", "a")]]), tools).rules(vec![asks("write", terms)]);
    let engine = engine.build().await.unwrap();
    let waits = engine.run_task(task("go")).await.unwrap();
    let (thread, asked) = (&waits.thread, &open(&waits)[0]);
    engine.thread(thread).answer(asked, Answer::Approve, plain("ann")).await.unwrap();
    engine.thread(thread).answer(asked, Answer::Deny { reason: None }, plain("bob")).await.unwrap();
    let ended = engine.run(&waits.run).wait().await.unwrap();
    assert!(ended.text.unwrap().contains("denied by the user"));
    assert_eq!(written.count(), 0);
}

// rows: SK-A9, WT-X3
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_racing_approvers_in_two_processes_one_starts_the_call() {
    for _ in 0..5 {
        let folder = tempfile::tempdir().unwrap();
        let written = Counter::default();
        let built = || {
            let tools = registry([written.tool("write", EffectClass::Once)]);
            stored(folder.path(), &plan(&[&[("write", "a")]]), tools).auto_run(Default::default())
        };
        let (one, other) = (built().build().await.unwrap(), built().build().await.unwrap());
        let waits = one.run_task(task("go")).await.unwrap();
        let (thread, asked) = (&waits.thread, &open(&waits)[0]);
        let race = (0..8).map(|nth| {
            let (engine, by) = (if nth % 2 == 0 { &one } else { &other }, party(&format!("p{nth}")));
            engine.thread(thread).answer(asked, Answer::Approve, by)
        });
        let answered = join_all(race).await;
        let late: Vec<String> =
            answered.iter().filter_map(|answered| answered.as_ref().err().map(ToString::to_string)).collect();
        assert_eq!(late.len(), 7, "{answered:?}");
        assert!(late.iter().all(|late| late.starts_with("too late: interrupt")), "{late:?}");
        assert_eq!(other.run(&waits.run).wait().await.unwrap().text.as_deref(), Some("said a"));
        assert_eq!(written.count(), 1);
        let starts = facts(&one, thread).await;
        assert_eq!(starts.iter().filter(|fact| matches!(fact, Fact::ToolStarted { .. })).count(), 1);
    }
}

// rows: SK-A9, WT-H10
#[tokio::test]
async fn answers_that_come_late_twice_or_to_nothing_say_so_and_change_nothing() {
    let written = Counter::default();
    let tools = registry([written.tool("write", EffectClass::Once)]);
    let models = plan(&[&[("write", "a")], &[("write", "b")]]);
    let engine = asking(&store(), &models, tools).build().await.unwrap();
    let waits = engine.run_task(task_in("t", "go")).await.unwrap();
    let thread = &waits.thread;
    let first = open(&waits).remove(0);
    let refused = async |interrupt: &str, answer: Answer| {
        let before = seq(&engine, thread).await;
        let refused =
            engine.thread(thread).answer(&interrupt.into(), answer, party("ann")).await.unwrap_err();
        assert_eq!(seq(&engine, thread).await, before, "{refused}");
        refused.to_string()
    };
    // To an unknown interrupt.
    assert!(refused("nope", Answer::Approve).await.ends_with("does not exist in this thread"));
    let never = format!("{}.9.9.9", waits.run);
    assert!(refused(&never, Answer::Approve).await.starts_with("too late"));
    // Of a kind that an approval does not accept.
    let reply = Answer::Reply(Box::default());
    let done = Answer::Done { result: "x".into() };
    for answer in [reply, done, Answer::Retry, Answer::Raise { to: 9 }, Answer::Stop] {
        assert_eq!(refused(first.as_str(), answer).await, "an approval takes `approve`, `edit` or `deny`");
    }
    assert_eq!(refused(first.as_str(), Answer::Withdrawn).await, "only the engine takes a question back");
    let invalid = Answer::Edit { arguments: "{text: 'a'}".into() };
    assert!(refused(first.as_str(), invalid).await.contains("not valid JSON"));
    assert_eq!(written.count(), 0);
    // Twice.
    engine.thread(thread).answer(&first, Answer::Approve, party("ann")).await.unwrap();
    assert!(refused(first.as_str(), Answer::Approve).await.starts_with("too late: interrupt"));
    // An answer to an earlier interrupt does not apply to a later one of the same run.
    let waits = engine.run(&waits.run).wait().await.unwrap();
    assert!(refused(first.as_str(), Answer::Deny { reason: None }).await.starts_with("too late"));
    // In another thread.
    let second = open(&waits).remove(0);
    engine.run_task(task_in("u", "go")).await.unwrap();
    let other = engine.thread(&"u".into()).answer(&second, Answer::Approve, party("ann")).await.unwrap_err();
    assert!(other.to_string().ends_with("does not exist in this thread"), "{other}");
    assert_eq!(written.count(), 1);
    // After the run has ended.
    engine.run(&waits.run).cancel("ann".into()).await.unwrap();
    assert_eq!(engine.run(&waits.run).wait().await.unwrap().status, Status::Cancelled);
    assert!(refused(second.as_str(), Answer::Approve).await.starts_with("too late"));
    assert_eq!(written.count(), 1);
}

/// A store with a server that sweeps all threads, on a manual clock.
async fn attended(written: &Counter, terms: Terms) -> (Arc<ManualClock>, Engine) {
    let clock = Arc::new(ManualClock::new(Timestamp(1_000), 1));
    let store = MemoryStore::new(clock.clone());
    let tools = registry([written.tool("write", EffectClass::Once)]);
    let engine = asking(&store, &plan(&[&[("write", "a")]]), tools).rules(vec![asks("write", terms)]);
    (clock.clone(), engine.clock(clock).attend(Attend::All).build().await.unwrap())
}

/// Advances the clock until a run has ended, at most by `ms`.
async fn move_on(clock: &ManualClock, engine: &Engine, thread: &ThreadId, ms: u64) {
    for _ in 0..ms / 1_000 {
        clock.advance_ms(1_000);
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
        put_down(engine, thread).await;
    }
}

// rows: ZE-H7, OV-3
#[tokio::test]
async fn an_approval_expires_by_its_rule_without_a_driver() {
    for (on_expiry, count) in [(Expiry::Deny, 0), (Expiry::Approve, 1)] {
        let written = Counter::default();
        let terms = Terms { expires_in_ms: Some(60_000), on_expiry, ..Terms::default() };
        let (clock, engine) = attended(&written, terms).await;
        let waits = engine.run_task(task("go")).await.unwrap();
        let (thread, asked) = (&waits.thread, &open(&waits)[0]);
        assert_eq!(waits.interrupts[0].expires_at, Some(Timestamp(61_000)));
        put_down(&engine, thread).await;
        move_on(&clock, &engine, thread, 59_000).await;
        assert_eq!(engine.run(&waits.run).status().await.unwrap().status, Status::Paused);
        move_on(&clock, &engine, thread, 3_000).await;
        let ended = engine.run(&waits.run).status().await.unwrap();
        assert_eq!((ended.status, written.count()), (Status::Done, count));
        let wanted = ["was not approved: nobody answered in time. Do not retry it", "said a"][count as usize];
        assert!(ended.text.as_ref().unwrap().contains(wanted), "{ended:?}");
        let late =
            engine.thread(thread).answer(asked, Answer::Approve, party("ann")).await.unwrap_err().to_string();
        assert!(late.starts_with("too late"), "{late}");
    }
}

/// An automatic approval after a minute without an answer.
fn given_in_time() -> Terms {
    Terms { expires_in_ms: Some(60_000), on_expiry: Expiry::Approve, ..Terms::default() }
}

#[tokio::test]
async fn a_wall_clock_that_jumps_ahead_approves_nothing() {
    let written = Counter::default();
    let (clock, engine) = attended(&written, given_in_time()).await;
    let waits = engine.run_task(task("go")).await.unwrap();
    let thread = &waits.thread;
    put_down(&engine, thread).await;
    clock.set(Timestamp(86_400_000));
    move_on(&clock, &engine, thread, 3_000).await;
    let again = engine.run(&waits.run).status().await.unwrap();
    assert_eq!((again.status, written.count()), (Status::Paused, 0));
    assert_ne!(open(&again), open(&waits), "it is asked about again");
    move_on(&clock, &engine, thread, 50_000).await;
    assert_eq!(written.count(), 0, "the whole time has to pass");
    move_on(&clock, &engine, thread, 20_000).await;
    let ended = engine.run(&waits.run).status().await.unwrap();
    assert_eq!((ended.status, written.count()), (Status::Done, 1), "{ended:?}");
}

#[tokio::test]
async fn a_process_that_has_not_seen_the_whole_time_asks_again_before_time_approves() {
    let (clock, written) = (Arc::new(ManualClock::new(Timestamp(1_000), 1)), Counter::default());
    let mut store = MemoryStore::new(clock.clone());
    let built = async |store: &MemoryStore| {
        let tools = registry([written.tool("write", EffectClass::Once)]);
        let engine = asking(store, &plan(&[&[("write", "a")]]), tools);
        let engine = engine.rules(vec![asks("write", given_in_time())]).clock(clock.clone());
        engine.attend(Attend::All).build().await.unwrap()
    };
    let first = built(&store).await;
    let waits = first.run_task(task("go")).await.unwrap();
    let thread = &waits.thread;
    put_down(&first, thread).await;
    move_on(&clock, &first, thread, 30_000).await;
    drop(first);
    store = store.restarted();
    let second = built(&store).await;
    move_on(&clock, &second, thread, 40_000).await;
    let again = second.run(&waits.run).status().await.unwrap();
    assert_eq!((again.status, written.count()), (Status::Paused, 0));
    assert_ne!(open(&again), open(&waits));
    move_on(&clock, &second, thread, 70_000).await;
    assert_eq!((second.run(&waits.run).status().await.unwrap().status, written.count()), (Status::Done, 1));
}

#[tokio::test]
async fn reminders_and_escalations_work_without_a_driver() {
    let (remind_in_ms, escalate_in_ms) = (Some(10_000), Some(20_000));
    let escalate_to: BTreeSet<_> = [Approver::Role("boss".into())].into();
    let terms = Terms { remind_in_ms, escalate_in_ms, escalate_to, ..Terms::default() };
    let (clock, engine) = attended(&Counter::default(), terms).await;
    let waits = engine.run_task(task("go")).await.unwrap();
    let thread = &waits.thread;
    let said = async || {
        let told = |fact: &Fact| match fact {
            Fact::InterruptReminded { .. } => Some("reminded"),
            Fact::InterruptEscalated { .. } => Some("escalated"),
            _ => None,
        };
        facts(&engine, thread).await.iter().filter_map(told).collect::<Vec<_>>()
    };
    move_on(&clock, &engine, thread, 9_000).await;
    assert_eq!(said().await, Vec::<&str>::new());
    move_on(&clock, &engine, thread, 3_000).await;
    assert_eq!(said().await, ["reminded"]);
    move_on(&clock, &engine, thread, 60_000).await;
    assert_eq!(said().await, ["reminded", "escalated"]);
    assert_eq!(engine.run(&waits.run).status().await.unwrap().status, Status::Paused, "it does not expire");
}

// rows: ZE-H3, LM-R13, OV-3
#[tokio::test]
async fn a_run_is_answered_by_another_process_after_ninety_days() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new(Timestamp(1_795_219_200_000), 1));
    let written = Counter::default();
    let built = || {
        let tools = registry([written.tool("write", EffectClass::Once)]);
        let engine = stored(folder.path(), &plan(&[&[("write", "a")]]), tools);
        engine.auto_run(Default::default()).clock(clock.clone())
    };
    let first = built().build().await.unwrap();
    let waits = first.run_task(task("go")).await.unwrap();
    put_down(&first, &waits.thread).await;
    drop(first);
    clock.advance_ms(90 * 86_400_000);
    let second = built().build().await.unwrap();
    second.recover().await.unwrap();
    let waits = second.run(&waits.run).status().await.unwrap();
    let asked = open(&waits).remove(0);
    second.thread(&waits.thread).answer(&asked, Answer::Approve, party("ann")).await.unwrap();
    let ended = second.run(&waits.run).wait().await.unwrap();
    assert_eq!((ended.text.as_deref(), written.count()), (Some("said a"), 1));
}
