//! List views and what needs a driver.
//!
//! They agree with the append that wrote them.

use windlass_machine::{ModelName, RunId, RunStatus, Seq, ThreadId, Timestamp, Totals};

use super::JournalSubject;
use super::sample::{batch, claimed, view};
use crate::port::clock::Clock;
use crate::port::journal::{Journal, RunView, ThreadQuery, ThreadStatus, ThreadView};

async fn put(journal: &dyn Journal, id: &str, view: ThreadView) {
    let thread = ThreadId::from(id);
    let start = claimed(journal, &thread).await;
    let mut batch = batch(&thread, start, &["a"]);
    batch.thread_view = view;
    journal.append(batch).await.unwrap();
}

fn titled(title: &str, workspace: &str, updated_at: u64) -> ThreadView {
    ThreadView {
        workspace: workspace.to_owned(),
        title: Some(title.to_owned()),
        updated_at: Timestamp(updated_at),
        folder: Some("/srv/project".to_owned()),
        interrupts: 2,
        ..ThreadView::default()
    }
}

async fn ids(journal: &dyn Journal, query: ThreadQuery) -> Vec<String> {
    let rows = journal.threads(&query).await.unwrap();
    rows.iter().map(|row| row.thread.to_string()).collect()
}

pub(super) async fn threads_are_paged_newest_first(subject: JournalSubject) {
    let journal = &*subject.first;
    for (id, at) in [("a", 10), ("b", 30), ("c", 20), ("d", 20), ("e", 5)] {
        put(journal, id, titled(id, "default", at)).await;
    }
    claimed(journal, &"holds nothing".into()).await;
    let mut seen = Vec::new();
    let mut query = ThreadQuery { limit: 2, ..ThreadQuery::default() };
    loop {
        let page = journal.threads(&query).await.unwrap();
        let Some(last) = page.last() else { break };
        query.before = Some((last.view.updated_at, last.thread.clone()));
        seen.extend(page.into_iter().map(|row| row.thread.to_string()));
    }
    assert_eq!(seen, ["b", "d", "c", "a", "e"]);
    let row = journal.thread(&"b".into()).await.unwrap().expect("thread `b`");
    assert_eq!(row.view, titled("b", "default", 30));
    assert_eq!(row.head, Seq(1));
    assert_eq!(row.created_at, crate::port::clock::Clock::now(&*subject.clock));
    assert_eq!(ids(journal, ThreadQuery::default()).await.len(), 5);
}

pub(super) async fn threads_are_filtered(subject: JournalSubject) {
    let journal = &*subject.first;
    put(journal, "a", titled("Straße nach Köln", "one", 1)).await;
    put(journal, "b", titled("100% done_", "two", 2)).await;
    put(journal, "c", view(ThreadStatus::Idle)).await;
    let containing = |text: &str| ThreadQuery { title_contains: Some(text.to_owned()), ..Default::default() };
    assert_eq!(ids(journal, containing("KÖLN")).await, ["a"]);
    assert_eq!(ids(journal, containing("0% D")).await, ["b"]);
    assert_eq!(ids(journal, containing("%")).await, ["b"]);
    assert_eq!(ids(journal, containing("nowhere")).await, [""; 0]);
    let of_one = ThreadQuery { workspace: Some("one".to_owned()), ..Default::default() };
    assert_eq!(ids(journal, of_one).await, ["a"]);
}

fn run(id: &str, from: u64, started_at: u64) -> RunView {
    RunView {
        run: RunId::from(id),
        agent: "default".to_owned(),
        model: ModelName::from("demo/script"),
        status: None,
        from: Seq(from),
        started_at: Timestamp(started_at),
        finished_at: None,
        totals: Totals::default(),
    }
}

pub(super) async fn runs_are_found(subject: JournalSubject) {
    let journal = &*subject.first;
    let thread = ThreadId::from("thread-1");
    let mut at = claimed(journal, &thread).await;
    for runs in [vec![run("r1", 1, 10)], vec![run("r2", 2, 30)]] {
        let mut batch = batch(&thread, at, &["a"]);
        batch.runs = runs;
        at.seq = journal.append(batch).await.unwrap();
    }
    let ended = RunView {
        status: Some(RunStatus::Cancelled),
        finished_at: Some(Timestamp(20)),
        model: ModelName::from("demo/other"),
        totals: Totals { steps: 3, duration_ms: 10, ..Totals::default() },
        ..run("r1", 1, 10)
    };
    let mut ending = batch(&thread, at, &["a"]);
    ending.runs = vec![ended.clone()];
    journal.append(ending).await.unwrap();
    let other = ThreadId::from("thread-2");
    let mut elsewhere = batch(&other, claimed(journal, &other).await, &["a"]);
    elsewhere.runs = vec![run("r3", 1, 20)];
    journal.append(elsewhere).await.unwrap();

    let found = journal.run(&"r1".into()).await.unwrap().expect("run `r1`");
    assert_eq!((&found.thread, &found.view), (&thread, &ended));
    assert_eq!(journal.run(&"r9".into()).await.unwrap(), None);
    let names = |rows: Vec<crate::port::journal::RunRow>| {
        rows.iter().map(|row| row.view.run.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(names(journal.runs(Some(&thread), 10).await.unwrap()), ["r2", "r1"]);
    assert_eq!(names(journal.runs(None, 10).await.unwrap()), ["r2", "r3", "r1"]);
    assert_eq!(names(journal.runs(None, 1).await.unwrap()), ["r2"]);
}

pub(super) async fn unattended_threads_are_found(subject: JournalSubject) {
    let journal = &*subject.first;
    put(journal, "idle", view(ThreadStatus::Idle)).await;
    put(journal, "running", view(ThreadStatus::Running)).await;
    put(journal, "waiting", view(ThreadStatus::Waiting)).await;
    let timed = |ms| {
        let deadline = Some(subject.clock.now().plus_ms(ms));
        ThreadView { deadline, ..view(ThreadStatus::Waiting) }
    };
    put(journal, "timed", timed(1_000)).await;
    put(journal, "later", timed(1_001)).await;
    put(journal, "posted", view(ThreadStatus::Waiting)).await;
    let title = windlass_machine::Input::Title {
        title: "t".to_owned(),
        by: windlass_machine::Principal::from("suite"),
    };
    journal.post(&"posted".into(), &"i".into(), &title).await.unwrap();
    let found = async || {
        let mut found: Vec<String> =
            journal.unattended().await.unwrap().iter().map(ThreadId::to_string).collect();
        found.sort();
        found
    };
    assert_eq!(found().await, ["posted", "running"]);
    subject.clock.advance_ms(1_000);
    assert_eq!(found().await, ["posted", "running", "timed"]);
}

pub(super) async fn unattended_leaves_out_what_is_held(subject: JournalSubject) {
    put(&*subject.first, "running", view(ThreadStatus::Running)).await;
    assert_eq!(subject.second.unattended().await.unwrap(), []);
    drop(subject.first);
    (subject.end_first)();
    assert_eq!(subject.second.unattended().await.unwrap(), [ThreadId::from("running")]);
}
