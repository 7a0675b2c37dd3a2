//! Cases of list views and their filters.
//!
//! The views must agree with the append that wrote them.

use windlass_machine::{ForkPoint, ModelName, Principal, RunId, RunStatus, Seq, ThreadId, Timestamp, Totals};

use super::sample::{batch, claimed, view};
use super::subject::JournalSubject;
use crate::port::journal::{
    Head, Journal, RunQuery, RunView, ThreadCounts, ThreadQuery, ThreadStatus, ThreadView, UsageQuery,
};

/// Appends to a thread with this row, and releases the thread.
pub(super) async fn put(journal: &dyn Journal, id: &str, view: ThreadView) {
    let thread = ThreadId::from(id);
    let start = claimed(journal, &thread).await;
    let mut batch = batch(&thread, start, &["a"]);
    batch.thread_view = view;
    journal.append(batch).await.unwrap();
    journal.release(&thread, start.epoch).await.unwrap();
}

fn titled(title: &str, workspace: &str, updated_at: u64) -> ThreadView {
    ThreadView {
        workspace: workspace.to_owned(),
        owner: Principal::from("alice"),
        title: Some(title.to_owned()),
        updated_at: Timestamp(updated_at),
        folder: Some("/srv/project".to_owned()),
        interrupts: 2,
        forked_from: Some(ForkPoint { thread: "origin".into(), until: Seq(7) }),
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

/// Returns all threads of a query, read in pages of two.
async fn pages(journal: &dyn Journal, mut query: ThreadQuery) -> Vec<String> {
    let mut seen = Vec::new();
    query.limit = 2;
    loop {
        let page = journal.threads(&query).await.unwrap();
        let Some(last) = page.last() else { return seen };
        query.before = Some((last.view.updated_at, last.thread.clone()));
        seen.extend(page.into_iter().map(|row| row.thread.to_string()));
    }
}

pub(super) async fn threads_are_found_by_owner_and_by_what_they_do(subject: JournalSubject) {
    use ThreadStatus::{Idle, Running, Waiting};
    let journal = &*subject.first;
    // Id, owner, workspace, status, interrupts, and minute of the last change of each thread.
    let threads = [
        ("a", "alice", "one", Idle, 0, 1),
        ("b", "alice", "one", Waiting, 1, 2),
        ("c", "alice", "two", Waiting, 2, 2),
        ("d", "alice", "one", Running, 1, 3),
        ("e", "bob", "one", Waiting, 1, 4),
        ("f", "bob", "two", Running, 0, 4),
        ("g", "alice", "one", Waiting, 1, 5),
    ];
    for (id, owner, workspace, status, interrupts, minute) in threads {
        let updated_at = Timestamp(minute * 60_000 + 7);
        let (owner, workspace) = (Principal::from(owner), workspace.to_owned());
        let view = ThreadView { owner, workspace, status, interrupts, updated_at, ..ThreadView::default() };
        put(journal, id, view).await;
    }
    let all = ThreadQuery::default;
    let of = |owner: &str| ThreadQuery { owner: Some(Principal::from(owner)), ..all() };
    let one = |query| ThreadQuery { workspace: Some("one".to_owned()), ..query };
    let doing = |status, query| ThreadQuery { status: Some(status), ..query };
    let asking = |query| ThreadQuery { asking: true, ..query };
    let cases = [
        (of("alice"), "gdcba"),
        (one(of("alice")), "gdba"),
        (one(all()), "gedba"),
        (of("bob"), "fe"),
        (of("carol"), ""),
        (of(""), ""),
        (doing(Idle, all()), "a"),
        (doing(Running, all()), "fd"),
        (doing(Waiting, all()), "gecb"),
        (doing(Waiting, one(of("alice"))), "gb"),
        (asking(all()), "gedcb"),
        (asking(of("alice")), "gdcb"),
        (asking(doing(Running, all())), "d"),
    ];
    for (query, wanted) in cases {
        assert_eq!(pages(journal, query.clone()).await.concat(), wanted, "{query:?}");
    }
    let row = journal.thread(&"b".into()).await.unwrap().expect("thread `b`");
    assert_eq!(row.view.owner, Principal::from("alice"));
    let counts = ThreadCounts { running: 2, waiting: 4, sleeping: 0, interrupts: 6 };
    assert_eq!((journal.thread_counts().await.unwrap(), counts.active_runs()), (counts, 6));
}

pub(super) async fn titles_are_found_by_any_part(subject: JournalSubject) {
    let journal = &*subject.first;
    let titles =
        ["a", "ab", "Abc \"ab\"", "bÄb", "bäb", "xyz ßss", "日本語の題", "ab abab", "c  c", "*", "a OR b"];
    for (nth, title) in titles.iter().enumerate() {
        put(journal, &format!("t{nth}"), titled(title, "one", nth as u64)).await;
    }
    // A new title replaces the previous title, and a deleted thread has no title.
    put(journal, "t0", titled("Neu", "one", 0)).await;
    put(journal, "t1", ThreadView { interrupts: 0, ..titled("ab", "one", 1) }).await;
    journal.delete(&"t1".into()).await.unwrap();
    let now: Vec<_> =
        ["neu".to_owned()].into_iter().chain(titles.map(str::to_lowercase).into_iter().skip(2)).collect();
    let all = now.join(" ");
    let chars: Vec<char> = all.chars().collect();
    for length in 1..=6 {
        for part in chars.windows(length) {
            let part: String = part.iter().collect();
            let found = |(nth, title): (usize, &String)| {
                title.contains(&part).then(|| format!("t{}", if nth == 0 { 0 } else { nth + 1 }))
            };
            let mut wanted: Vec<_> = now.iter().enumerate().filter_map(found).collect();
            wanted.reverse();
            let query = ThreadQuery { title_contains: Some(part.clone()), ..ThreadQuery::default() };
            assert_eq!(ids(journal, query).await, wanted, "{part}");
        }
    }
    for nowhere in ["q", "qq", "ab*", "xyzz", "\u{1}"] {
        let query = ThreadQuery { title_contains: Some(nowhere.to_owned()), ..ThreadQuery::default() };
        assert_eq!(ids(journal, query).await, [""; 0], "{nowhere}");
    }
}

pub(super) async fn a_thread_moves_in_lists_as_it_changes(subject: JournalSubject) {
    let journal = &*subject.first;
    let thread = ThreadId::from("t");
    let mut at = claimed(journal, &thread).await;
    let mine = ThreadQuery { owner: Some(Principal::from("alice")), ..ThreadQuery::default() };
    let waiting = ThreadQuery { status: Some(ThreadStatus::Waiting), ..ThreadQuery::default() };
    let asking = ThreadQuery { asking: true, ..ThreadQuery::default() };
    for (status, interrupts, wanted) in [
        (ThreadStatus::Running, 0, [1, 0, 0]),
        (ThreadStatus::Running, 1, [1, 0, 1]),
        (ThreadStatus::Waiting, 1, [1, 1, 1]),
        (ThreadStatus::Waiting, 2, [1, 1, 1]),
        (ThreadStatus::Running, 0, [1, 0, 0]),
        (ThreadStatus::Idle, 0, [1, 0, 0]),
    ] {
        let mut batch = batch(&thread, at, &["a"]);
        let owner = Principal::from("alice");
        batch.thread_view = ThreadView { owner, interrupts, ..view(status) };
        at.seq = journal.append(batch).await.unwrap();
        let found = [&mine, &waiting, &asking].map(|query| ids(journal, query.clone()));
        let found = futures_util::future::join_all(found).await;
        assert_eq!(found.iter().map(Vec::len).collect::<Vec<_>>(), wanted, "{status:?} {interrupts}");
        let counts = ThreadCounts {
            running: u64::from(status == ThreadStatus::Running),
            waiting: u64::from(status == ThreadStatus::Waiting),
            sleeping: 0,
            interrupts: interrupts.into(),
        };
        assert_eq!(journal.thread_counts().await.unwrap(), counts);
    }
    journal.delete(&thread).await.unwrap();
    assert_eq!(ids(journal, mine).await, [""; 0]);
}

fn run(id: &str, from: u64, started_at: u64) -> RunView {
    RunView {
        run: RunId::from(id),
        agent: "default".to_owned(),
        model: ModelName::from("demo/script"),
        queued: None,
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
    assert_eq!(names(journal.runs(&RunQuery::of(&thread, 10)).await.unwrap()), ["r2", "r1"]);
    assert_eq!(names(journal.runs(&RunQuery::newest(10)).await.unwrap()), ["r2", "r3", "r1"]);
    assert_eq!(names(journal.runs(&RunQuery::newest(1)).await.unwrap()), ["r2"]);
}

pub(super) async fn queued_runs_are_found_by_id_alone(subject: JournalSubject) {
    let journal = &*subject.first;
    let thread = ThreadId::from("thread-1");
    let start = claimed(journal, &thread).await;
    let queued = |id: &str| RunView { queued: Some("m".into()), ..run(id, 1, 10) };
    let asking = ThreadView { interrupts: 1, ..view(ThreadStatus::Waiting) };
    let mut queues = batch(&thread, start, &["a"]);
    (queues.runs, queues.thread_view) = (vec![queued("begins"), queued("goes")], asking.clone());
    journal.append(queues).await.unwrap();
    for id in ["begins", "goes"] {
        let row = journal.run(&id.into()).await.unwrap().expect("a queued run");
        assert_eq!((row.view, row.asking), (queued(id), false));
    }
    assert_eq!(journal.runs(&RunQuery::of(&thread, 10)).await.unwrap(), []);
    assert_eq!(journal.runs(&RunQuery { active: Some(true), ..RunQuery::newest(10) }).await.unwrap(), []);
    assert_eq!(journal.active_runs(&asking.owner, 10).await.unwrap(), 0);
    let usage = UsageQuery { until: Timestamp(1_000), ..UsageQuery::default() };
    assert_eq!(journal.usage(&usage).await.unwrap().threads, 0);
    let mut begins = batch(&thread, Head { seq: Seq(1), ..start }, &["a"]);
    begins.unqueued = vec!["begins".into(), "goes".into()];
    (begins.runs, begins.thread_view) = (vec![run("begins", 2, 20)], asking);
    journal.append(begins).await.unwrap();
    let row = journal.run(&"begins".into()).await.unwrap().expect("a run that has begun");
    assert_eq!((row.view, row.asking), (run("begins", 2, 20), true));
    assert_eq!(journal.run(&"goes".into()).await.unwrap(), None);
    // A run that has started is no longer queued, even if a later batch unqueues it.
    let mut again = batch(&thread, Head { seq: Seq(2), ..start }, &["a"]);
    again.unqueued = vec!["begins".into()];
    journal.append(again).await.unwrap();
    assert!(journal.run(&"begins".into()).await.unwrap().is_some());
}

pub(super) async fn runs_are_filtered_and_paged(subject: JournalSubject) {
    let journal = &*subject.first;
    for (thread, owner, workspace, runs) in [
        // Of the two runs that start at the same time, the second has the smaller id.
        ("t1", "alice", "one", vec![("r1", 10, true), ("r9", 20, true), ("r2", 20, false)]),
        ("t2", "alice", "two", vec![("r3", 20, true), ("r4", 40, true)]),
        ("t3", "bob", "one", vec![("r5", 15, true), ("r6", 30, false)]),
    ] {
        let thread = ThreadId::from(thread);
        let mut at = claimed(journal, &thread).await;
        for (id, started_at, ended) in runs {
            let mut batch = batch(&thread, at, &["a"]);
            let from = at.seq.next().0;
            let (status, finished_at) =
                if ended { (Some(RunStatus::Done), Some(Timestamp(50))) } else { (None, None) };
            batch.runs = vec![RunView { status, finished_at, ..run(id, from, started_at) }];
            let interrupts = u32::from(owner == "bob");
            let (owner, workspace) = (Principal::from(owner), workspace.to_owned());
            batch.thread_view = ThreadView { owner, workspace, interrupts, ..view(ThreadStatus::Idle) };
            at.seq = journal.append(batch).await.unwrap();
        }
    }
    let all = RunQuery::default;
    let of = |owner: &str| RunQuery { owner: Some(Principal::from(owner)), ..all() };
    let one = |query| RunQuery { workspace: Some("one".to_owned()), ..query };
    let active = |active, query| RunQuery { active: Some(active), ..query };
    let between =
        |from, until, query| RunQuery { from: Some(Timestamp(from)), until: Some(Timestamp(until)), ..query };
    let t1 = || RunQuery::of(&"t1".into(), 0);
    active_runs_are_counted(journal).await;
    let cases = [
        (all(), "r4 r6 r9 r3 r2 r5 r1"),
        (of("alice"), "r4 r9 r3 r2 r1"),
        (one(of("alice")), "r9 r2 r1"),
        (one(all()), "r6 r9 r2 r5 r1"),
        (t1(), "r2 r9 r1"),
        (RunQuery { owner: Some(Principal::from("bob")), ..t1() }, ""),
        (RunQuery::of(&"nowhere".into(), 0), ""),
        (active(true, all()), "r6 r2"),
        (active(true, of("alice")), "r2"),
        (active(true, one(of("bob"))), "r6"),
        (active(false, t1()), "r9 r1"),
        (active(false, of("bob")), "r5"),
        (RunQuery { ended: Some(RunStatus::Done), ..all() }, "r4 r9 r3 r5 r1"),
        (RunQuery { ended: Some(RunStatus::Failed), ..all() }, ""),
        (RunQuery { asking: true, ..all() }, "r6"),
        (RunQuery { asking: true, ..active(true, of("alice")) }, ""),
        (RunQuery { asking: true, ..RunQuery::of(&"t3".into(), 0) }, "r6"),
        (between(15, 30, all()), "r9 r3 r2 r5"),
        (between(20, 41, of("alice")), "r4 r9 r3 r2"),
        (between(11, 21, t1()), "r2 r9"),
    ];
    for (query, wanted) in cases {
        for limit in [1, 2, 0] {
            let mut page = RunQuery { limit, ..query.clone() };
            let mut seen = Vec::new();
            loop {
                let rows = journal.runs(&page).await.unwrap();
                let Some(last) = rows.last() else { break };
                page.before = Some((last.view.started_at, last.view.run.clone()));
                seen.extend(rows.iter().map(|row| row.view.run.to_string()));
            }
            assert_eq!(seen.join(" "), wanted, "{query:?} by {limit}");
        }
    }
    let row = journal.run(&"r6".into()).await.unwrap().expect("run `r6`");
    assert_eq!((&*row.workspace, row.owner.as_str(), row.asking), ("one", "bob", true));
    let row = journal.run(&"r5".into()).await.unwrap().expect("run `r5`");
    assert!(!row.asking, "what has ended asks nothing");
}

async fn active_runs_are_counted(journal: &dyn Journal) {
    for (owner, limit, count) in [("alice", 9, 1), ("bob", 9, 1), ("carol", 9, 0), ("alice", 0, 0)] {
        assert_eq!(journal.active_runs(&owner.into(), limit).await.unwrap(), count, "{owner} {limit}");
    }
}
