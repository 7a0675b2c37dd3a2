//! Cases of records: compare and swap, several changes at once, and changes with an append.
//!
//! A change whose expectation fails has no effect.

use std::future::Future;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use windlass_machine::{Seq, ThreadId, Timestamp};

use super::sample::{batch, claimed, draws, head, texts};
use crate::clock::ManualClock;
use crate::port::journal::{AppendError, Batch, Journal, StoreError};
use crate::port::records::{
    CHANGES_MAX, Expect, KEY_MAX_BYTES, KIND_MAX_BYTES, Record, RecordChange, RecordError, Records,
    VALUE_MAX_BYTES,
};

/// A new, empty store with the views of two nodes.
pub struct RecordsSubject {
    /// View of the first node.
    pub first: Arc<dyn Records>,
    /// View of the second node.
    pub second: Arc<dyn Records>,
    /// Journal of the first node.
    pub journal: Arc<dyn Journal>,
    /// Clock of both nodes.
    pub clock: Arc<ManualClock>,
}

type Case = fn(RecordsSubject) -> BoxFuture<'static, ()>;

macro_rules! cases {
    ($($case:ident),+ $(,)?) => {
        [$((stringify!($case), (|subject| Box::pin($case(subject))) as Case)),+]
    };
}

/// Runs every case of the records port, each on a fresh subject.
pub async fn records_suite<F: Future<Output = RecordsSubject>>(make: impl Fn() -> F) {
    let cases = cases![
        a_record_comes_back,
        a_change_is_made_where_its_expectation_is_met,
        a_record_made_again_is_another,
        one_of_many_at_once_wins,
        changes_are_made_all_or_none,
        records_are_listed_by_key_and_owner,
        every_change_is_counted,
        changes_are_seen_by_kind,
        changes_are_seen_by_owner,
        what_does_not_fit_is_refused,
        an_append_brings_its_records,
        an_append_holds_on_to_a_record,
        an_append_with_another_record_writes_nothing,
    ];
    for (name, case) in cases {
        eprintln!("records suite: {name}");
        case(make().await).await;
    }
}

/// Returns kind, key and found version of a conflict.
fn conflict(error: RecordError) -> (String, String, Option<u64>) {
    match error {
        RecordError::Conflict { kind, key, found } => (kind, key, found),
        RecordError::Store(other) => panic!("not a conflict: {other:?}"),
    }
}

fn refused(error: RecordError) -> String {
    match error {
        RecordError::Store(StoreError::Refused { why }) => why,
        other => panic!("not refused: {other:?}"),
    }
}

async fn value(records: &dyn Records, key: &str) -> Option<Value> {
    records.get("grant", key).await.unwrap().map(|record| record.value)
}

async fn a_record_comes_back(subject: RecordsSubject) {
    let records = subject.first;
    assert_eq!(records.get("grant", "a").await.unwrap(), None);
    let said = json!({"z": 1, "a": [1.5, null, "\u{0}ü"], "count": u64::MAX});
    let version = records.put("grant", "a", "alice", said.clone(), Expect::Absent).await.unwrap();
    let wanted = Record {
        kind: "grant".to_owned(),
        key: "a".to_owned(),
        owner: "alice".to_owned(),
        value: said.clone(),
        version,
        updated_at: Timestamp(1_700_000_000_000),
    };
    let found = subject.second.get("grant", "a").await.unwrap().expect("the record");
    assert_eq!(found, wanted);
    assert_eq!(found.value.to_string(), said.to_string(), "in the same order");
    // The same key with another kind, or in another letter case, is another record.
    assert_eq!(records.get("mode", "a").await.unwrap(), None);
    assert_eq!(records.get("grant", "A").await.unwrap(), None);
    subject.clock.advance_ms(5);
    let next = records.put("grant", "a", "bob", Value::Null, Expect::Any).await.unwrap();
    let found = subject.second.get("grant", "a").await.unwrap().expect("the record");
    let (owner, updated_at) = ("bob".to_owned(), wanted.updated_at.plus_ms(5));
    assert_eq!(found, Record { owner, value: Value::Null, version: next, updated_at, ..wanted });
}

async fn a_change_is_made_where_its_expectation_is_met(subject: RecordsSubject) {
    let records = subject.first;
    let put = async |value: u64, expected| records.put("grant", "a", "alice", json!(value), expected).await;
    let conflict_with = |found| ("grant".to_owned(), "a".to_owned(), found);
    assert_eq!(conflict(put(0, Expect::Version(1)).await.unwrap_err()), conflict_with(None));
    let first = put(1, Expect::Absent).await.unwrap();
    assert_eq!(conflict(put(0, Expect::Absent).await.unwrap_err()), conflict_with(Some(first)));
    let second = put(2, Expect::Version(first)).await.unwrap();
    assert_eq!(conflict(put(0, Expect::Version(first)).await.unwrap_err()), conflict_with(Some(second)));
    let third = put(3, Expect::Any).await.unwrap();
    assert_eq!(value(&*records, "a").await, Some(json!(3)));
    for wrong in [Expect::Absent, Expect::Version(second)] {
        let error = records.delete("grant", "a", wrong).await.unwrap_err();
        assert_eq!(conflict(error), conflict_with(Some(third)));
    }
    records.delete("grant", "a", Expect::Version(third)).await.unwrap();
    assert_eq!(value(&*subject.second, "a").await, None);
    let gone = records.delete("grant", "a", Expect::Version(third)).await.unwrap_err();
    assert_eq!(conflict(gone), conflict_with(None));
    for fine in [Expect::Absent, Expect::Any] {
        records.delete("grant", "a", fine).await.unwrap();
    }
}

async fn a_record_made_again_is_another(subject: RecordsSubject) {
    let records = subject.first;
    let old = records.put("grant", "a", "alice", json!(1), Expect::Absent).await.unwrap();
    records.delete("grant", "a", Expect::Any).await.unwrap();
    let new = records.put("grant", "a", "alice", json!(2), Expect::Absent).await.unwrap();
    let late = records.put("grant", "a", "alice", json!(3), Expect::Version(old)).await.unwrap_err();
    assert_eq!(conflict(late).2, Some(new));
}

async fn one_of_many_at_once_wins(subject: RecordsSubject) {
    const TASKS: usize = 16;
    const ROUNDS: u64 = 10;
    let records = Arc::clone(&subject.first);
    records.put("grant", "a", "alice", json!(0), Expect::Absent).await.unwrap();
    let raise = |records: Arc<dyn Records>| async move {
        for _ in 0..ROUNDS {
            loop {
                let found = records.get("grant", "a").await.unwrap().expect("the record");
                let next = json!(found.value.as_u64().expect("a number") + 1);
                match records.put("grant", "a", "alice", next, Expect::Version(found.version)).await {
                    Ok(_) => break,
                    Err(error) => drop(conflict(error)),
                }
                tokio::task::yield_now().await;
            }
        }
    };
    let nodes = [&subject.first, &subject.second].into_iter().cycle().take(TASKS);
    let tasks: Vec<_> = nodes.map(|node| tokio::spawn(raise(Arc::clone(node)))).collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(value(&*records, "a").await, Some(json!(TASKS as u64 * ROUNDS)));
    assert_eq!(newest(&*records).await, 1 + TASKS as u64 * ROUNDS);
}

async fn changes_are_made_all_or_none(subject: RecordsSubject) {
    let records = subject.first;
    let put = |key, value: u64, expected| RecordChange::put("grant", key, "alice", json!(value), expected);
    let delete = |key, expected| RecordChange::delete("grant", key, expected);
    let versions =
        records.apply(vec![put("a", 1, Expect::Absent), put("b", 1, Expect::Absent)]).await.unwrap();
    let (a, b) = (versions[0].unwrap(), versions[1].unwrap());
    assert_ne!(a, b);
    let counted = newest(&*records).await;
    for wrong in
        [put("b", 2, Expect::Absent), delete("b", Expect::Version(a)), delete("c", Expect::Version(a))]
    {
        let changes = vec![
            put("a", 2, Expect::Version(a)),
            put("c", 2, Expect::Absent),
            delete("c", Expect::Any),
            wrong,
        ];
        let wanted = changes[3].key.clone();
        assert_eq!(conflict(records.apply(changes).await.unwrap_err()).1, wanted);
        assert_eq!(value(&*subject.second, "a").await, Some(json!(1)));
        assert_eq!(value(&*subject.second, "b").await, Some(json!(1)));
        assert_eq!(value(&*subject.second, "c").await, None);
        assert_eq!(newest(&*records).await, counted);
    }
    // The changes apply in order: each change sees the results of the previous changes.
    let twice = vec![
        delete("a", Expect::Version(a)),
        put("a", 3, Expect::Absent),
        put("b", 3, Expect::Version(b)),
        delete("b", Expect::Any),
    ];
    let versions = records.apply(twice).await.unwrap();
    let kept = records.get("grant", "a").await.unwrap().expect("the record");
    assert_eq!(versions, [None, Some(kept.version), versions[2], None]);
    assert_eq!((kept.value, value(&*records, "b").await), (json!(3), None));
    assert_eq!(records.apply(vec![]).await.unwrap(), []);
}

async fn records_are_listed_by_key_and_owner(subject: RecordsSubject) {
    let records = subject.first;
    for (key, owner) in [("b", "alice"), ("a", "bob"), ("d", "alice"), ("c", "alice"), ("B", "bob")] {
        records.put("grant", key, owner, json!(key), Expect::Absent).await.unwrap();
    }
    for kind in ["gran", "grants", "mode"] {
        records.put(kind, "x", "alice", json!(kind), Expect::Absent).await.unwrap();
    }
    let keys = async |owner: Option<&str>, after: Option<&str>, limit| {
        let found = subject.second.list("grant", owner, after, limit).await.unwrap();
        assert!(found.iter().all(|record| record.kind == "grant" && record.value == json!(record.key)));
        found.into_iter().map(|record| record.key).collect::<Vec<_>>()
    };
    assert_eq!(keys(None, None, 10).await, ["B", "a", "b", "c", "d"]);
    assert_eq!(keys(None, None, 2).await, ["B", "a"]);
    assert_eq!(keys(None, Some("a"), 2).await, ["b", "c"]);
    assert_eq!(keys(None, Some("d"), 2).await, [""; 0]);
    assert_eq!(keys(Some("alice"), None, 2).await, ["b", "c"]);
    assert_eq!(keys(Some("alice"), Some("c"), 2).await, ["d"]);
    assert_eq!(keys(Some("carol"), None, 2).await, [""; 0]);
    // The index by owner is updated when a record changes its owner.
    records.put("grant", "b", "bob", json!("b"), Expect::Any).await.unwrap();
    assert_eq!(keys(Some("bob"), None, 10).await, ["B", "a", "b"]);
    assert_eq!(keys(Some("alice"), None, 10).await, ["c", "d"]);
}

/// Returns the number of the newest change of a grant.
async fn newest(records: &dyn Records) -> u64 {
    records.changes(&["grant"]).await.unwrap()[0]
}

async fn changes_are_seen_by_kind(subject: RecordsSubject) {
    let seen = async || {
        let seen = subject.second.changes(&["grant", "mode", "none", "grant"]).await.unwrap();
        let [grant, mode, 0, again] = seen[..] else { panic!("{seen:?}") };
        assert_eq!(grant, again);
        (grant, mode)
    };
    assert_eq!(seen().await, (0, 0));
    subject.first.put("grant", "a", "alice", json!(1), Expect::Any).await.unwrap();
    let (grant, mode) = seen().await;
    assert!(grant > 0 && mode == 0, "{grant} {mode}");
    subject.first.put("mode", "a", "alice", json!(1), Expect::Any).await.unwrap();
    let (same, mode) = seen().await;
    assert!(same == grant && mode > grant, "{grant} {same} {mode}");
    subject.first.delete("grant", "a", Expect::Any).await.unwrap();
    let (deleted, same) = seen().await;
    assert!(deleted > mode && same == mode, "{deleted} {mode} {same}");
    assert!(subject.second.changes(&[]).await.unwrap().is_empty());
}

async fn changes_are_seen_by_owner(subject: RecordsSubject) {
    let owned = [("grant", "alice"), ("grant", "bob"), ("mode", "alice"), ("grant", "alice")];
    let seen = async || {
        let seen = subject.second.changes_of(&owned).await.unwrap();
        let [alice, bob, mode, again] = seen[..] else { panic!("{seen:?}") };
        assert_eq!(alice, again);
        [alice, bob, mode]
    };
    assert_eq!(seen().await, [0, 0, 0]);
    let records = &subject.first;
    let mut before = seen().await;
    // The owner whose record changes, and which numbers must grow. A store that keeps a number per owner must not
    // change the others.
    for (owner, grows) in [
        (Some("alice"), [true, false, false]),
        (Some("alice"), [true, false, false]),
        (Some("bob"), [true, true, false]),
        (None, [false, true, false]),
    ] {
        match owner {
            Some(owner) => drop(records.put("grant", "a", owner, json!(1), Expect::Any).await.unwrap()),
            None => records.delete("grant", "a", Expect::Any).await.unwrap(),
        }
        let after = seen().await;
        let grown: Vec<_> = before.iter().zip(&after).map(|(before, after)| after > before).collect();
        assert_eq!(grown, grows, "{owner:?}");
        before = after;
    }
    assert!(subject.second.changes_of(&[]).await.unwrap().is_empty());
}

async fn every_change_is_counted(subject: RecordsSubject) {
    let records = subject.first;
    let counted = async || {
        let count = newest(&*records).await;
        assert_eq!(newest(&*subject.second).await, count);
        count
    };
    assert_eq!(counted().await, 0);
    let version = records.put("grant", "a", "alice", json!(1), Expect::Any).await.unwrap();
    assert_eq!((counted().await, version), (1, 1));
    conflict(records.put("grant", "a", "alice", json!(2), Expect::Absent).await.unwrap_err());
    assert_eq!(counted().await, 1);
    subject.second.put("grant", "a", "alice", json!(1), Expect::Any).await.unwrap();
    assert_eq!(counted().await, 2);
    records.delete("grant", "a", Expect::Any).await.unwrap();
    assert_eq!(counted().await, 3);
    // The record no longer existed, so this deletion is no change.
    records.delete("grant", "a", Expect::Any).await.unwrap();
    assert_eq!(counted().await, 3);
}

async fn what_does_not_fit_is_refused(subject: RecordsSubject) {
    let records = subject.first;
    // The JSON of a text includes two quotes.
    let text = |bytes: usize| json!("x".repeat(bytes - 2));
    let put = async |kind: &str, key: &str, owner: &str, value| {
        records.put(kind, key, owner, value, Expect::Any).await
    };
    let (kind, key) = ("k".repeat(KIND_MAX_BYTES), "k".repeat(KEY_MAX_BYTES));
    put(&kind, &key, &key, text(VALUE_MAX_BYTES)).await.unwrap();
    let deep = (0..200).fold(json!(1), |inner, _| json!([inner]));
    let said = [
        put("grant", "a", "", text(VALUE_MAX_BYTES + 1)).await,
        put("grant", "a", "", deep).await,
        put("grant", "", "", json!(1)).await,
        put("grant", &"k".repeat(KEY_MAX_BYTES + 1), "", json!(1)).await,
        put("grant", "a", &"k".repeat(KEY_MAX_BYTES + 1), json!(1)).await,
        put("", "a", "", json!(1)).await,
        put(&"k".repeat(KIND_MAX_BYTES + 1), "a", "", json!(1)).await,
    ]
    .map(|answer| refused(answer.unwrap_err()));
    assert!(said[0].contains("grant `a`") && said[0].contains("262145"), "{}", said[0]);
    assert!(said[1].contains("grant `a`"), "{}", said[1]);
    for (said, what) in said[2..].iter().zip(["key", "key", "owner", "kind", "kind"]) {
        assert!(said.contains(&format!("the {what} of a record")), "{said}");
    }
    let many = vec![RecordChange::delete("grant", "a", Expect::Any); CHANGES_MAX + 1];
    assert!(refused(records.apply(many).await.unwrap_err()).contains("1001"));
    let thread = ThreadId::from("thread-1");
    let start = claimed(&*subject.journal, &thread).await;
    let large = RecordChange::put("grant", "a", "", text(VALUE_MAX_BYTES + 1), Expect::Any);
    let append = Batch { records: vec![large], ..batch(&thread, start, &["x"]) };
    let error = subject.journal.append(append).await.unwrap_err();
    assert!(matches!(error, AppendError::Failed(StoreError::Refused { .. })), "{error:?}");
    assert_eq!(subject.journal.head(&thread).await.unwrap(), Some(start));
    assert_eq!(newest(&*records).await, 0);
}

async fn an_append_brings_its_records(subject: RecordsSubject) {
    let thread = ThreadId::from("thread-1");
    let version = subject.first.put("grant", "a", "alice", json!(2), Expect::Absent).await.unwrap();
    let start = claimed(&*subject.journal, &thread).await;
    let changes = vec![
        RecordChange::put("grant", "a", "alice", json!(1), Expect::Version(version)),
        RecordChange::put("mode", "b", "alice", json!("ask"), Expect::Absent),
    ];
    let append = Batch { records: changes, ..batch(&thread, start, &["a"]) };
    assert_eq!(subject.journal.append(append).await.unwrap(), Seq(1));
    assert_eq!(value(&*subject.second, "a").await, Some(json!(1)));
    assert_eq!(subject.second.get("mode", "b").await.unwrap().expect("the record").value, json!("ask"));
    assert_eq!(subject.second.changes(&["mode", "grant"]).await.unwrap(), [3, 2]);
}

async fn an_append_holds_on_to_a_record(subject: RecordsSubject) {
    let thread = ThreadId::from("thread-1");
    let version = subject.first.put("grant", "a", "alice", json!(2), Expect::Absent).await.unwrap();
    let before = subject.first.get("grant", "a").await.unwrap();
    let start = claimed(&*subject.journal, &thread).await;
    let keep = |expected| vec![RecordChange::keep("grant", "a", expected)];
    let append = Batch { records: keep(Expect::Version(version)), ..batch(&thread, start, &["a"]) };
    assert_eq!(subject.journal.append(append).await.unwrap(), Seq(1));
    assert_eq!(subject.second.get("grant", "a").await.unwrap(), before);
    assert_eq!(subject.second.apply(keep(Expect::Any)).await.unwrap(), [Some(version)]);
    assert_eq!(newest(&*subject.second).await, 1, "nothing was written");
    subject.second.delete("grant", "a", Expect::Any).await.unwrap();
    let late = Batch { records: keep(Expect::Version(version)), ..batch(&thread, head(1, 1), &["b"]) };
    let error = subject.journal.append(late).await.unwrap_err();
    assert!(matches!(error, AppendError::Record { .. }), "{error:?}");
    assert_eq!(subject.second.apply(keep(Expect::Absent)).await.unwrap(), [None]);
}

async fn an_append_with_another_record_writes_nothing(subject: RecordsSubject) {
    let thread = ThreadId::from("thread-1");
    let journal = &*subject.journal;
    let version = subject.first.put("grant", "a", "alice", json!(2), Expect::Absent).await.unwrap();
    let taken = subject.second.put("grant", "a", "alice", json!(1), Expect::Version(version)).await.unwrap();
    let start = claimed(journal, &thread).await;
    let mut append = batch(&thread, start, &["x"]);
    append.reserve = vec![draws("one", &[("usd", 10, 1)])];
    append.records = vec![
        RecordChange::put("mode", "b", "alice", json!("ask"), Expect::Absent),
        RecordChange::put("grant", "a", "alice", json!(1), Expect::Version(version)),
    ];
    let error = journal.append(append.clone()).await.unwrap_err();
    let AppendError::Record { kind, key } = error else { panic!("{error:?}") };
    assert_eq!((kind.as_str(), key.as_str()), ("grant", "a"));
    assert_eq!(journal.head(&thread).await.unwrap(), Some(start));
    assert_eq!(journal.budgets("").await.unwrap(), []);
    assert_eq!(subject.first.get("mode", "b").await.unwrap(), None);
    assert_eq!(subject.first.changes(&["grant", "mode"]).await.unwrap(), [2, 0]);
    // If a limit rejects the append, its record changes are not made.
    append.records = vec![RecordChange::put("grant", "a", "alice", json!(0), Expect::Version(taken))];
    append.reserve = vec![draws("one", &[("usd", 0, 1)])];
    let error = journal.append(append.clone()).await.unwrap_err();
    assert!(matches!(error, AppendError::Limit { .. }), "{error:?}");
    assert_eq!(value(&*subject.first, "a").await, Some(json!(1)));
    append.reserve = vec![draws("one", &[("usd", 1, 1)])];
    journal.append(append).await.unwrap();
    assert_eq!(journal.head(&thread).await.unwrap(), Some(head(1, start.epoch.0)));
    assert_eq!(texts(journal, &thread, 0, 10).await, ["x"]);
    assert_eq!(value(&*subject.first, "a").await, Some(json!(0)));
}
