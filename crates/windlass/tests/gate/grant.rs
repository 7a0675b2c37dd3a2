//! Grants given with an answer, unlimited grants, and deletion of expired records.

use std::sync::Arc;

use windlass::clock::ManualClock;
use windlass::limits::{Budget, Per, Unit, Window};
use windlass::machine::{
    Answer, AutoRun, Condition, EffectClass, Fact, Party, Policy, Predicate, Reject, Timestamp,
};
use windlass::memory::MemoryStore;
use windlass::port::journal::Journal;
use windlass::port::records::{Expect, Records};
use windlass::{Attend, Builder, Engine, EngineError, GrantDraft, Status, Whose};

use super::{Held, asking, facts, given, open, plan, put_down, store, task_in};
use crate::drive::{Counter, party, registry};

fn draft(count: Option<u32>) -> GrantDraft {
    let (user, by) = ("local".into(), "ann".into());
    GrantDraft { user, tool: "write".into(), arguments: Vec::new(), count, expires_at: None, by }
}

async fn engine(store: &MemoryStore, written: &Counter, steps: &[&[(&str, &str)]]) -> Engine {
    let tools = registry([written.tool("write", EffectClass::Once)]);
    asking(store, &plan(steps), tools).build().await.unwrap()
}

fn uses(facts: &[Fact]) -> usize {
    facts.iter().filter(|fact| matches!(fact, Fact::GrantUsed { .. })).count()
}

#[tokio::test]
async fn a_grant_whose_values_nest_too_deeply_is_rejected() {
    let engine = engine(&store(), &Counter::default(), &[]).await;
    let deep = |levels| (0..levels).fold(serde_json::Value::Null, |inner, _| serde_json::json!([inner]));
    let granted = async |levels| {
        let is = Predicate::Equals(deep(levels));
        let arguments = vec![Condition { argument: "/text".into(), is }];
        engine.policy().grant(GrantDraft { arguments, ..draft(None) }).await
    };
    assert!(granted(50).await.is_ok());
    let why = granted(100).await.unwrap_err().to_string();
    assert_eq!(why, "the grant is nested more than 64 levels deep");
    assert_eq!(engine.policy().grants(None).await.unwrap().len(), 1);
}

// rows: ZE-H5
#[tokio::test]
async fn a_grant_that_comes_with_an_approval_lets_the_next_call_through() {
    let written = Counter::default();
    let steps: &[&[(&str, &str)]] = &[&[("write", "a")], &[("write", "b")], &[("write", "c")]];
    let engine = engine(&store(), &written, steps).await;
    let waits = engine.run_task(task_in("t", "go")).await.unwrap();
    let answers = vec![given(&open(&waits)[0], Answer::Approve)];
    let folded = engine.thread(&"t".into()).folded().await.unwrap();
    let (_, grants) =
        engine.answer_and_grant(&folded, answers, vec![draft(Some(1))], None, party("ann")).await.unwrap();
    // The second call is allowed, and the third requires approval.
    let waits = engine.run(&waits.run).wait().await.unwrap();
    assert_eq!((open(&waits).len(), written.count(), uses(&facts(&engine, &"t".into()).await)), (1, 2, 1));
    let left = engine.policy().grants(None).await.unwrap();
    assert_eq!((left[0].0.as_str(), &left[0].1.id, left[0].1.remaining), ("local", &grants[0].id, Some(0)));
}

/// The grant also allows the other calls of the step, like a separately created grant.
#[tokio::test]
async fn a_grant_that_comes_with_an_approval_counts_for_the_calls_beside_it() {
    let written = Counter::default();
    let engine = engine(&store(), &written, &[&[("write", "a"), ("write", "b"), ("write", "c")]]).await;
    let waits = engine.run_task(task_in("t", "go")).await.unwrap();
    let answers = vec![given(&open(&waits)[0], Answer::Approve)];
    let folded = engine.thread(&"t".into()).folded().await.unwrap();
    engine.answer_and_grant(&folded, answers, vec![draft(None)], None, party("ann")).await.unwrap();
    let ended = engine.run(&waits.run).wait().await.unwrap();
    assert_eq!(
        (ended.status, written.count(), uses(&facts(&engine, &"t".into()).await)),
        (Status::Done, 3, 2)
    );
}

#[tokio::test]
async fn a_grant_is_not_written_where_its_answer_is_refused() {
    let written = Counter::default();
    let engine = engine(&store(), &written, &[&[("write", "a")]]).await;
    let waits = engine.run_task(task_in("t", "go")).await.unwrap();
    let check = async |answer: Answer, draft: GrantDraft, by: Party, words: &str| {
        let answers = vec![given(&open(&waits)[0], answer)];
        let folded = engine.thread(&"t".into()).folded().await.unwrap();
        let refused =
            engine.answer_and_grant(&folded, answers, vec![draft], None, by).await.unwrap_err().to_string();
        assert!(refused.contains(words), "{refused}");
        assert_eq!((engine.policy().grants(None).await.unwrap().len(), written.count()), (0, 0));
    };
    let deny = Answer::Deny { reason: None };
    check(deny, draft(None), party("ann"), "a grant goes with an approval").await;
    check(Answer::Approve, draft(None), party("bob"), "cannot grant in the name of `ann`").await;
    let other = GrantDraft { user: "eve".into(), ..draft(None) };
    check(Answer::Approve, other, party("ann"), "the run works for `local`").await;
    let member = Party { roles: vec!["member".into()], ..party("ann") };
    check(Answer::Approve, draft(None), member, "`ann` may not answer interrupt").await;
    let elsewhere = Party { workspace: "elsewhere".into(), ..party("ann") };
    check(Answer::Approve, draft(None), elsewhere, "does not exist").await;
}

#[tokio::test]
async fn a_grant_that_is_not_counted_is_not_written_at_each_use() {
    let (store, written) = (store(), Counter::default());
    let steps: &[&[(&str, &str)]] = &[&[("write", "a"), ("write", "b")], &[("write", "c")]];
    let engine = engine(&store, &written, steps).await;
    let known = engine.policy().grant(draft(None)).await.unwrap();
    let before = (store.get("grant", &known.id).await.unwrap(), store.changes(&["grant"]).await.unwrap());
    assert_eq!(engine.run_task(task_in("t", "go")).await.unwrap().status, Status::Done);
    assert_eq!((written.count(), uses(&facts(&engine, &"t".into()).await)), (3, 3));
    assert_eq!(
        (store.get("grant", &known.id).await.unwrap(), store.changes(&["grant"]).await.unwrap()),
        before
    );
}

/// The policy changes and the call is judged again; it keeps the use that it has consumed.
#[tokio::test]
async fn a_grant_of_one_holds_for_the_call_that_used_it_up() {
    let (store, held, written) = (store(), Held::default(), Counter::default());
    let tools =
        registry([held.tool("slow", EffectClass::Idempotent), written.tool("write", EffectClass::Once)]);
    let engine = asking(&store, &plan(&[&[("slow", ""), ("write", "a")]]), tools).build().await.unwrap();
    engine.policy().grant(draft(Some(1))).await.unwrap();
    let started = engine.start(task_in("t", "go")).await.unwrap();
    held.begun.notified().await;
    engine.policy().replace(Policy { allowlist: ["erase".into()].into(), ..Policy::default() });
    held.go.notify_one();
    let ended = engine.run(&started.run).wait().await.unwrap();
    assert_eq!(
        (ended.status, written.count(), uses(&facts(&engine, &"t".into()).await)),
        (Status::Done, 1, 1)
    );
}

#[tokio::test]
async fn more_grants_than_a_page_are_all_read() {
    let (store, written) = (store(), Counter::default());
    let engine = engine(&store, &written, &[&[("write", "a")]]).await;
    for nth in 0..1_000 {
        let other = serde_json::json!({ "id": format!("a{nth}"), "tool": "erase", "by": "ann" });
        store.put("grant", &format!("a{nth}"), "local", other, Expect::Absent).await.unwrap();
    }
    let last = serde_json::json!({ "id": "z", "tool": "write", "by": "ann" });
    store.put("grant", "z", "local", last, Expect::Absent).await.unwrap();
    assert_eq!(engine.run_task(task_in("t", "go")).await.unwrap().status, Status::Done);
    assert_eq!(engine.policy().grants(None).await.unwrap().len(), 1_001);
}

const DAY_MS: u64 = 86_400_000;

/// A server over a store, on a manual clock.
fn server(store: &MemoryStore, clock: &Arc<ManualClock>) -> Builder {
    let tools = registry([Counter::default().tool("write", EffectClass::Once)]);
    asking(store, &plan(&[]), tools).clock(clock.clone()).attend(Attend::All)
}

/// Advances the clock by an hour and a second, so that the sweep has run.
async fn hour(clock: &ManualClock) {
    // The sweep must be asleep to be woken.
    rest().await;
    clock.advance_ms(3_601_000);
    rest().await;
}

async fn rest() {
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn grants_and_modes_that_count_for_nothing_are_deleted() {
    let clock = Arc::new(ManualClock::new(Timestamp(10 * DAY_MS), 1));
    let store = MemoryStore::new(clock.clone());
    let engine = server(&store, &clock).build().await.unwrap();
    let ids = async || {
        let mut ids: Vec<_> =
            engine.policy().grants(None).await.unwrap().into_iter().map(|(_, it)| it.id).collect();
        ids.sort();
        ids
    };
    let lasts = engine.policy().grant(draft(None)).await.unwrap().id;
    let left = engine.policy().grant(draft(Some(1))).await.unwrap().id;
    let used_up = engine.policy().grant(draft(Some(0))).await.unwrap().id;
    let expires_at = Some(Timestamp(10 * DAY_MS + 60_000));
    let expires = engine.policy().grant(GrantDraft { expires_at, ..draft(None) }).await.unwrap().id;
    let (gone, user) = (Whose::Thread("gone".into()), Whose::User("ann".into()));
    for whose in [&gone, &user] {
        engine.policy().set_auto_run(whose, Some(AutoRun::Everything)).await.unwrap();
    }
    let sorted = |mut all: Vec<String>| {
        all.sort();
        all
    };
    assert_eq!(ids().await, sorted(vec![lasts.clone(), left.clone(), used_up.clone(), expires]));
    hour(&clock).await;
    assert_eq!(ids().await, sorted(vec![lasts.clone(), left.clone(), used_up]));
    assert_eq!(
        engine.policy().auto_run(&gone).await.unwrap(),
        Some(AutoRun::Everything),
        "its thread may begin"
    );
    clock.advance_ms(DAY_MS);
    hour(&clock).await;
    assert_eq!(ids().await, sorted(vec![lasts, left]));
    assert_eq!(engine.policy().auto_run(&gone).await.unwrap(), None);
    assert_eq!(engine.policy().auto_run(&user).await.unwrap(), Some(AutoRun::Everything));
}

#[tokio::test]
async fn budgets_and_modes_go_with_their_run_and_thread() {
    let (store, written) = (store(), Counter::default());
    let budget = |per| {
        let approvers = Default::default();
        Budget { per, unit: Unit::Steps, window: Window::Total, cap: 100, approvers }
    };
    let budgets = [Per::Run, Per::Thread, Per::User].map(budget).to_vec();
    let tools = registry([written.tool("write", EffectClass::Once)]);
    let engine = asking(&store, &plan(&[&[("write", "a")]]), tools).budgets(budgets).build().await.unwrap();
    let names = async || -> Vec<(String, u64)> {
        let rows = store.budgets("").await.unwrap();
        rows.into_iter().map(|row| (row.budget, row.used + row.reserved)).collect()
    };
    engine.policy().set_auto_run(&Whose::Thread("t".into()), Some(AutoRun::Ask)).await.unwrap();
    let waits = engine.run_task(task_in("t", "go")).await.unwrap();
    let run = waits.run.as_str();
    let all = |used| {
        let own = [("run", run), ("thread", "t"), ("user", "local")];
        own.map(|(per, whose)| (format!("default/{per}/{whose}/steps"), used)).to_vec()
    };
    assert_eq!(names().await, all(1));
    let asked = open(&waits).remove(0);
    engine.thread(&"t".into()).answer(&asked, Answer::Approve, party("ann")).await.unwrap();
    assert_eq!(engine.run(&waits.run).wait().await.unwrap().status, Status::Done);
    assert_eq!(names().await, all(2)[1..]);
    put_down(&engine, &"t".into()).await;
    engine.thread(&"t".into()).delete().await.unwrap();
    assert_eq!(names().await, all(2)[2..]);
    assert_eq!(engine.policy().auto_run(&Whose::Thread("t".into())).await.unwrap(), None);
}

#[tokio::test]
async fn a_concurrently_changed_setting_is_not_overwritten() {
    let engine = windlass::builder().build().await.unwrap();
    let whose = Whose::User("ann".into());
    let (none, absent) = engine.policy().read_auto_run(&whose).await.unwrap();
    assert_eq!((none, absent), (None, Expect::Absent));
    engine.policy().change_auto_run(&whose, Some(AutoRun::Allowlist), absent).await.unwrap();
    let (_, first) = engine.policy().read_auto_run(&whose).await.unwrap();
    engine.policy().set_auto_run(&whose, Some(AutoRun::Ask)).await.unwrap();
    for (expected, wanted) in
        [(absent, Some(AutoRun::Everything)), (first, Some(AutoRun::Everything)), (first, None)]
    {
        let refused = engine.policy().change_auto_run(&whose, wanted, expected).await.unwrap_err();
        assert!(matches!(refused, EngineError::Rejected(Reject::Stale { .. })), "{refused}");
    }
    assert_eq!(engine.policy().auto_run(&whose).await.unwrap(), Some(AutoRun::Ask));
    let (_, now) = engine.policy().read_auto_run(&whose).await.unwrap();
    engine.policy().change_auto_run(&whose, None, now).await.unwrap();
    assert_eq!(engine.policy().auto_run(&whose).await.unwrap(), None);
}
