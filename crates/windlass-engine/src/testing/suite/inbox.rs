//! Cases of the inbox: inputs from outside the owner's process.
//!
//! Each input is consumed once, and its outcome is kept.

use windlass_machine::{
    Agent, Input, InputId, Limits, Message, ModelSettings, NewMessage, Principal, Reject, Role, RunId,
    RunOptions, Seq, ThreadId, WhenBusy,
};

use super::sample::{batch, claimed, head};
use super::subject::JournalSubject;
use crate::port::journal::{Accepted, AppendError, INBOX_MAX, InboxOutcome, Posted, StoreError};

fn thread() -> ThreadId {
    ThreadId::from("thread-1")
}

fn titled(title: &str) -> Input {
    Input::Title { title: title.to_owned(), by: Principal::from("suite") }
}

pub(super) async fn inputs_come_in_order(subject: JournalSubject) {
    claimed(&*subject.first, &thread()).await;
    for id in ["c", "a", "b"] {
        let posted = subject.second.post(&thread(), &id.into(), &titled(id)).await.unwrap();
        assert_eq!(posted, Posted::Waiting);
    }
    let all = subject.first.inbox(&thread(), 10).await.unwrap();
    let wanted: Vec<_> = ["c", "a", "b"].iter().map(|id| (InputId::from(*id), Ok(titled(id)))).collect();
    assert_eq!(all, wanted);
    assert_eq!(subject.first.inbox(&thread(), 2).await.unwrap(), wanted[..2]);
    assert_eq!(subject.first.inbox(&"another".into(), 2).await.unwrap(), vec![]);
}

pub(super) async fn the_same_id_is_taken_once(subject: JournalSubject) {
    claimed(&*subject.first, &thread()).await;
    for title in ["first", "second"] {
        let posted = subject.first.post(&thread(), &"a".into(), &titled(title)).await.unwrap();
        assert_eq!(posted, Posted::Waiting);
    }
    let waiting = subject.first.inbox(&thread(), 10).await.unwrap();
    assert_eq!(waiting, [(InputId::from("a"), Ok(titled("first")))]);
    // The same id in another thread is another input.
    claimed(&*subject.first, &"thread-2".into()).await;
    subject.first.post(&"thread-2".into(), &"a".into(), &titled("third")).await.unwrap();
    assert_eq!(subject.first.inbox(&"thread-2".into(), 10).await.unwrap().len(), 1);
}

pub(super) async fn consumption_gives_the_outcome(subject: JournalSubject) {
    let journal = subject.first;
    let start = claimed(&*journal, &thread()).await;
    for id in ["a", "b", "c"] {
        journal.post(&thread(), &id.into(), &titled(id)).await.unwrap();
    }
    let accepted = InboxOutcome::Accepted(Box::new(Accepted { seq: Seq(1), ..Accepted::default() }));
    let rejected = InboxOutcome::Rejected(Reject::Busy);
    let mut consuming = batch(&thread(), start, &["a"]);
    consuming.consumed = vec![("a".into(), accepted.clone()), ("b".into(), rejected.clone())];
    journal.append(consuming).await.unwrap();
    for (id, outcome) in [("a", accepted), ("b", rejected)] {
        let consumed = Posted::Consumed(outcome);
        assert_eq!(journal.posted(&thread(), &id.into()).await.unwrap(), Some(consumed.clone()));
        assert_eq!(journal.post(&thread(), &id.into(), &titled("again")).await.unwrap(), consumed);
    }
    assert_eq!(journal.posted(&thread(), &"c".into()).await.unwrap(), Some(Posted::Waiting));
    assert_eq!(journal.posted(&thread(), &"d".into()).await.unwrap(), None);
    assert_eq!(journal.inbox(&thread(), 10).await.unwrap(), [(InputId::from("c"), Ok(titled("c")))]);
}

pub(super) async fn an_inbox_has_room_for_so_many(subject: JournalSubject) {
    let journal = subject.first;
    let start = claimed(&*journal, &thread()).await;
    for nth in 0..INBOX_MAX {
        journal.post(&thread(), &format!("m{nth}").as_str().into(), &titled("a")).await.unwrap();
    }
    let one_more = async || journal.post(&thread(), &"more".into(), &titled("b")).await;
    let refused = one_more().await.unwrap_err();
    assert!(
        matches!(&refused, StoreError::Unavailable { why } if why.contains("1000 inputs wait")),
        "{refused:?}"
    );
    assert_eq!(journal.posted(&thread(), &"more".into()).await.unwrap(), None);
    // A pending input with this id does not count again towards the limit, and other threads have their own limit.
    let known = journal.post(&thread(), &"m7".into(), &titled("again")).await.unwrap();
    assert_eq!(known, Posted::Waiting);
    claimed(&*journal, &"thread-2".into()).await;
    journal.post(&"thread-2".into(), &"more".into(), &titled("b")).await.unwrap();
    let mut consuming = batch(&thread(), start, &["a"]);
    consuming.consumed = vec![("m0".into(), InboxOutcome::Rejected(Reject::Busy))];
    journal.append(consuming).await.unwrap();
    assert_eq!(one_more().await.unwrap(), Posted::Waiting);
}

pub(super) async fn a_row_is_consumed_once(subject: JournalSubject) {
    let journal = subject.first;
    let start = claimed(&*journal, &thread()).await;
    journal.post(&thread(), &"a".into(), &titled("a")).await.unwrap();
    let outcome = InboxOutcome::Accepted(Box::new(Accepted { seq: Seq(1), ..Accepted::default() }));
    let mut consuming = batch(&thread(), start, &["a"]);
    consuming.consumed = vec![("a".into(), outcome.clone())];
    journal.append(consuming).await.unwrap();
    let mut again = batch(&thread(), head(1, 1), &["x"]);
    again.consumed = vec![("a".into(), outcome)];
    let refused = journal.append(again).await.unwrap_err();
    assert!(matches!(refused, AppendError::Failed(StoreError::NotFound { .. })), "{refused:?}");
    assert_eq!(journal.head(&thread()).await.unwrap(), Some(head(1, 1)));
}

pub(super) async fn an_outcome_is_kept_for_a_day(subject: JournalSubject) {
    const DAY_MS: u64 = 24 * 60 * 60 * 1000;
    let journal = subject.first;
    let start = claimed(&*journal, &thread()).await;
    for id in ["consumed", "waiting"] {
        journal.post(&thread(), &id.into(), &titled(id)).await.unwrap();
    }
    let mut consuming = batch(&thread(), start, &["a"]);
    consuming.consumed = vec![(
        "consumed".into(),
        InboxOutcome::Accepted(Box::new(Accepted { seq: Seq(1), ..Accepted::default() })),
    )];
    journal.append(consuming).await.unwrap();
    subject.clock.advance_ms(DAY_MS);
    assert!(journal.posted(&thread(), &"consumed".into()).await.unwrap().is_some());
    subject.clock.advance_ms(1);
    assert_eq!(journal.posted(&thread(), &"consumed".into()).await.unwrap(), None);
    assert_eq!(journal.posted(&thread(), &"waiting".into()).await.unwrap(), Some(Posted::Waiting));
    let again = journal.post(&thread(), &"consumed".into(), &titled("again")).await.unwrap();
    assert_eq!(again, Posted::Waiting);
}

pub(super) async fn only_a_message_makes_a_thread(subject: JournalSubject) {
    let journal = subject.first;
    let refused = journal.post(&thread(), &"a".into(), &titled("a")).await.unwrap_err();
    assert!(matches!(refused, StoreError::NotFound { .. }), "{refused:?}");
    assert_eq!(journal.head(&thread()).await.unwrap(), None);
    assert_eq!(journal.post(&thread(), &"b".into(), &message("b")).await.unwrap(), Posted::Waiting);
    assert_eq!(journal.head(&thread()).await.unwrap().map(|head| head.seq), Some(Seq(0)));
    assert_eq!(journal.inbox(&thread(), 10).await.unwrap(), [(InputId::from("b"), Ok(message("b")))]);
    let due = journal.claim_due(&[], 10).await.unwrap();
    assert!(matches!(&due[..], [due] if due.thread == thread() && due.inbox), "{due:?}");
}

pub(super) fn message(id: &str) -> Input {
    let agent = Agent {
        name: "default".to_owned(),
        models: vec!["demo/script".into()],
        instructions: Vec::new(),
        tools: None,
        settings: ModelSettings::default(),
        limits: Limits::default(),
        mode: None,
    };
    Input::Message(Box::new(NewMessage {
        id: id.into(),
        message: Message::text(Role::User, "hello").into(),
        by: Principal::from("suite"),
        workspace: "default".to_owned(),
        folder: None,
        run: RunId::from("run-1"),
        agent: agent.into(),
        options: RunOptions::default(),
        when_busy: WhenBusy::Queue,
        note: None,
    }))
}
