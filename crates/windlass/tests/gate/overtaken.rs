//! A start that was recorded and not dispatched, because a cancel in the same round overtook it.

use windlass::machine::{Answer, EffectClass, Fact, Input, Outcome, ThreadId};
use windlass::port::journal::Journal;

use super::{asking, facts, given, open, plan, put_down, store, task_in};
use crate::drive::{Counter, party, registry};

#[tokio::test]
async fn a_call_that_is_approved_and_cancelled_in_one_round_is_cancelled_and_not_in_doubt() {
    let (store, paid, thread) = (store(), Counter::default(), ThreadId::from("t"));
    let tools = registry([paid.tool("pay", EffectClass::Once)]);
    let engine = asking(&store, &plan(&[&[("pay", "a")]]), tools).build().await.unwrap();
    let waits = engine.run(task_in("t", "go")).await.unwrap();
    put_down(&engine, &thread).await;
    let approves = vec![given(&open(&waits)[0], Answer::Approve)];
    engine.leave_answers(&thread, approves, party("ann")).await.unwrap();
    let cancel = Input::Cancel { run: None, by: "ann".into() };
    store.post(&thread, &"cancel".into(), &cancel).await.unwrap();
    engine.resume(&waits.run_id).await.unwrap();
    let ended = engine.wait(&waits.run_id).await.unwrap();
    let facts = facts(&engine, &thread).await;
    let Some(Fact::RunFinished { totals, .. }) = facts.last() else { panic!("{ended:?}") };
    assert_eq!((paid.count(), totals.calls, totals.approved), (0, 0, 0));
    assert!(!facts.iter().any(|fact| matches!(fact, Fact::ToolInDoubt { .. })), "{facts:#?}");
    let closed = facts.iter().filter_map(|fact| match fact {
        Fact::ToolFinished { outcome, .. } => Some(*outcome),
        _ => None,
    });
    assert_eq!(closed.collect::<Vec<_>>(), [Outcome::Cancelled]);
}
