//! A server's lists: each user's threads and their interrupts, and the statistics of answers.

use windlass::machine::{Answer, EffectClass, Principal, Seq, Timestamp};
use windlass::port::journal::{RunQuery, ThreadQuery, UsageQuery};
use windlass::{Engine, Status, Task, Waiting};

use super::{asking, given, open, plan, store, task_in};
use crate::drive::{Counter, party, registry};

/// A task of an owner in one of the owner's threads.
fn of(owner: &str, thread: &str) -> Task {
    Task { by: Principal::from(owner), ..task_in(thread, "go") }
}

fn of_owner(owner: &str) -> ThreadQuery {
    ThreadQuery { owner: Some(Principal::from(owner)), ..ThreadQuery::default() }
}

/// The waiting threads: the thread, the number of interrupts, and whether its run is known.
async fn waiting(engine: &Engine, query: &ThreadQuery) -> Vec<(String, Option<usize>, bool)> {
    let told = |waiting: Waiting| {
        let open = waiting.open.ok().map(|open| open.len());
        (waiting.thread.thread.to_string(), open, waiting.run.is_some())
    };
    engine.waiting(query).await.unwrap().into_iter().map(told).collect()
}

#[tokio::test]
async fn each_person_finds_what_their_threads_ask() {
    let store = store();
    let models = plan(&[&[("write", "a"), ("write", "b")]]);
    let tools = registry([Counter::default().tool("write", EffectClass::Once)]);
    let engine = asking(&store, &models, tools).build().await.unwrap();
    let mut runs = Vec::new();
    for (owner, thread) in [("ann", "t1"), ("ann", "t2"), ("bob", "t3")] {
        runs.push(engine.run_task(of(owner, thread)).await.unwrap());
    }
    let mut all = waiting(&engine, &ThreadQuery::default()).await;
    all.sort();
    assert_eq!(all, ["t1", "t2", "t3"].map(|thread| (thread.to_owned(), Some(2), true)));
    assert_eq!(waiting(&engine, &of_owner("bob")).await, [("t3".to_owned(), Some(2), true)]);
    assert_eq!(waiting(&engine, &of_owner("eve")).await, []);

    // Page by page.
    let mut page = ThreadQuery { limit: 1, ..of_owner("ann") };
    let first = engine.waiting(&page).await.unwrap().remove(0).thread;
    page.before = Some((first.view.updated_at, first.thread.clone()));
    let second = engine.waiting(&page).await.unwrap().remove(0).thread;
    assert_ne!(first.thread, second.thread);

    // The rows agree with the journals.
    let asking = ThreadQuery { asking: true, ..ThreadQuery::default() };
    let rows = engine.threads(&asking).await.unwrap();
    assert_eq!(rows.iter().filter(|row| row.view.asks.is_some()).count(), 3);
    for row in &rows {
        let folded = engine.thread(&row.thread).folded().await.unwrap();
        let run = folded.state().run.as_ref().unwrap();
        let by_journal = (engine.open_interrupts(&folded).await.unwrap(), run.started_at);
        assert_eq!(engine.asked_by(row).await.unwrap(), by_journal);
        let mut alone = engine.thread(&row.thread).row().await.unwrap();
        assert_eq!(alone.view.asks, row.view.asks);
        // As another build may have written it.
        alone.view.asks = None;
        assert_eq!(engine.asked_by(&alone).await.unwrap(), by_journal);
    }

    // A list reads rows and no journal. It folds the journal only if a row lacks the interrupts, and then reports the
    // damage.
    store.overwrite_event(&"t1".into(), Seq(1), "{").unwrap();
    let mut of_ann = waiting(&engine, &of_owner("ann")).await;
    of_ann.sort();
    assert_eq!(of_ann, [("t1".to_owned(), Some(2), true), ("t2".to_owned(), Some(2), true)]);
    let mut damaged = engine.thread(&"t1".into()).row().await.unwrap();
    assert_eq!(engine.asked_by(&damaged).await.unwrap().0.len(), 2);
    damaged.view.asks = None;
    assert!(engine.asked_by(&damaged).await.is_err());

    // An answered run is no longer waiting.
    let [a, b] = &*open(&runs[1]) else { panic!("two questions") };
    let batch = vec![given(a, Answer::Approve), given(b, Answer::Deny { reason: None })];
    engine.thread(&"t2".into()).answer_all(batch, party("ann")).await.unwrap();
    engine.run(&runs[1].run).wait().await.unwrap();
    assert_eq!(waiting(&engine, &of_owner("ann")).await, [("t1".to_owned(), Some(2), true)]);
}

// rows: SK-P5, SK-P15
#[tokio::test]
async fn what_people_say_is_counted_in_the_figures() {
    // The last call of the second run is denied in the decision that ends the run, at its step limit.
    let models = plan(&[&[("write", "a"), ("write", "b"), ("write", "c")]]);
    let tools = registry([Counter::default().tool("write", EffectClass::Once)]);
    let engine = asking(&store(), &models, tools).build().await.unwrap();
    let mut tasks = [of("ann", "t1"), of("ann", "t2"), of("bob", "t3")];
    tasks[1].agent.limits.max_steps = 1;
    let mut ended = Vec::new();
    for (task, answers) in tasks.into_iter().zip(["add", "ddd", "aaa"]) {
        let thread = task.thread.clone().unwrap();
        let waits = engine.run_task(task).await.unwrap();
        let row = engine.runs(&RunQuery::of(&thread, 1)).await.unwrap().remove(0);
        assert_eq!((row.view.totals.steps, row.view.totals.usage.input), (1, Some(10)), "while it waits");
        let answer = |(interrupt, answer)| match answer {
            'a' => given(interrupt, Answer::Approve),
            _ => given(interrupt, Answer::Deny { reason: None }),
        };
        let batch = open(&waits).iter().zip(answers.chars()).map(answer).collect();
        engine.thread(&thread).answer_all(batch, party("ann")).await.unwrap();
        let outcome = engine.run(&waits.run).wait().await.unwrap();
        let row = engine.runs(&RunQuery::of(&thread, 1)).await.unwrap().remove(0);
        ended.push((outcome.status, row.view.totals.approved, row.view.totals.denied));
        // The first reply consists of calls only, for which the scripted model emits no fragment.
        assert_eq!(row.view.totals.ttft_ms.is_some(), outcome.status == Status::Done);
    }
    assert_eq!(ended, [(Status::Done, 1, 2), (Status::Failed, 0, 3), (Status::Done, 3, 0)]);
    let all = UsageQuery { until: Timestamp(u64::MAX), ..UsageQuery::default() };
    let usage = engine.usage(&all).await.unwrap();
    // One row per person.
    let [ann, bob] = &*usage.rows else { panic!("{usage:?}") };
    assert_eq!((ann.owner.as_str(), ann.runs, ann.ended, ann.threads), ("ann", 2, 2, 2));
    assert_eq!((bob.owner.as_str(), bob.runs, usage.threads), ("bob", 1, 3));
    assert_eq!((ann.approved, ann.denied, ann.ttft_runs), (1, 5, 1));
    assert_eq!((ann.input + bob.input, ann.output + bob.output), (5 * 10, 5 * 5));
    let of_bob = UsageQuery { owner: Some(Principal::from("bob")), ..all };
    let usage = engine.usage(&of_bob).await.unwrap();
    assert_eq!((usage.rows[0].approved, usage.rows[0].denied), (3, 0));
}

#[tokio::test]
async fn a_journal_is_read_from_its_end() {
    let engine = asking(&store(), &plan(&[]), registry([])).build().await.unwrap();
    let outcome = engine.run_task(of("ann", "t1")).await.unwrap();
    let thread = outcome.thread;
    let all = engine.thread(&thread).events(Seq(0), 100).await.unwrap();
    let mut pages = Vec::new();
    let mut before = Seq(u64::MAX);
    loop {
        let page = engine.thread(&thread).events_before(before, 2).await.unwrap();
        let Some(first) = page.first() else { break };
        before = first.seq;
        pages.push(page);
    }
    pages.reverse();
    assert!(pages.len() > 1);
    assert_eq!(pages.concat(), all);
}
