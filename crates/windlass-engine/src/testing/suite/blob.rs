//! Cases of the blob port: small and large bytes, alone and with an append.
//!
//! The suite does not test how a store places blobs internally.

use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::json;
use windlass_machine::{
    Answer, BlobRef, Block, CallKey, Content, Digest, Event, Fact, Input, InterruptKind, Message, Question,
    Reply, Role, Terms, ThreadId, Timestamp,
};

use super::inbox::message;
use super::sample::{batch, claimed};
use crate::port::blob::{APPEND_MAX_BYTES, Blobs};
use crate::port::journal::{AppendError, Journal, StoreError};

/// Runs every case of the blob port on fresh stores. The journal belongs to the same store.
pub async fn blob_suite<F: Future<Output = (Arc<dyn Blobs>, Arc<dyn Journal>)>>(make: impl Fn() -> F) {
    let (blobs, journal) = make().await;
    for size in [0, 1, 4096, APPEND_MAX_BYTES - 1, APPEND_MAX_BYTES, 3 * APPEND_MAX_BYTES] {
        stored_bytes_come_back(&*blobs, size).await;
    }
    other_bytes_are_refused(&*blobs).await;
    an_append_brings_its_blobs(&*blobs, &*journal).await;
    a_refused_append_brings_none(&*blobs, &*journal).await;
    a_thread_names_the_blobs_of_its_own_events_and_inputs(&*journal).await;
}

fn sample(size_bytes: usize, seed: u8) -> (BlobRef, Bytes) {
    let bytes: Bytes = (0..size_bytes).map(|index| (index % 251) as u8 ^ seed).collect();
    let blob = BlobRef {
        digest: Digest::of(&bytes),
        media_type: "application/octet-stream".to_owned(),
        size_bytes: size_bytes as u64,
        tokens: 0,
    };
    (blob, bytes)
}

async fn stored_bytes_come_back(blobs: &dyn Blobs, size_bytes: usize) {
    let (blob, bytes) = sample(size_bytes, 0);
    assert_eq!(blobs.get(&blob.digest).await.unwrap(), None);
    for _ in 0..2 {
        blobs.put(&blob, bytes.clone()).await.unwrap();
        assert_eq!(blobs.get(&blob.digest).await.unwrap().as_ref(), Some(&bytes), "{size_bytes} bytes");
    }
}

async fn other_bytes_are_refused(blobs: &dyn Blobs) {
    let (blob, _) = sample(10, 7);
    let refused = blobs.put(&blob, Bytes::from_static(b"others")).await.unwrap_err();
    assert!(matches!(refused, StoreError::Refused { .. }), "{refused:?}");
    assert_eq!(blobs.get(&blob.digest).await.unwrap(), None);
}

async fn an_append_brings_its_blobs(blobs: &dyn Blobs, journal: &dyn Journal) {
    let thread = ThreadId::from("with blobs");
    let mut at = claimed(journal, &thread).await;
    let (blob, bytes) = sample(20_000, 9);
    for _ in 0..2 {
        let mut batch = batch(&thread, at, &["a"]);
        batch.blobs = vec![(blob.clone(), bytes.clone())];
        at.seq = journal.append(batch).await.unwrap();
        assert_eq!(blobs.get(&blob.digest).await.unwrap(), Some(bytes.clone()));
    }
}

async fn a_refused_append_brings_none(blobs: &dyn Blobs, journal: &dyn Journal) {
    let thread = ThreadId::from("refused");
    let mut at = claimed(journal, &thread).await;
    at.epoch.0 += 1;
    let (blob, bytes) = sample(20_000, 11);
    let mut refused = batch(&thread, at, &["a"]);
    refused.blobs = vec![(blob.clone(), bytes)];
    let error = journal.append(refused).await.unwrap_err();
    assert!(matches!(error, AppendError::Fenced { .. }), "{error:?}");
    assert_eq!(blobs.get(&blob.digest).await.unwrap(), None);
}

async fn a_thread_names_the_blobs_of_its_own_events_and_inputs(journal: &dyn Journal) {
    let [names, quotes, left, none] = ["names", "quotes", "left", "never made"].map(ThreadId::from);
    let (blob, bytes) = sample(20_000, 13);
    let recorded = |fact: Fact| Event { at: Timestamp(1_000), wall: None, run: None, fact };
    let said = |data: serde_json::Value| recorded(Fact::Note { name: "suite".to_owned(), data });
    let mut batch = batch(&names, claimed(journal, &names).await, &[]);
    let call = CallKey { step: 1, index: 0 };
    let value = Content::Blob(blob.clone());
    batch.events = vec![recorded(Fact::ToolKept { call, name: "tasks".to_owned(), value })].into();
    batch.blobs = vec![(blob.clone(), bytes)];
    journal.append(batch).await.unwrap();
    // A text or value that looks like a reference does not reference a blob.
    let quoted = serde_json::to_string(&blob).unwrap();
    let question = Question { params: Some(json!({ "blob": blob })), ..Question::default() };
    let reply = Reply { values: Some(json!({ "blob": blob })), ..Reply::default() };
    let mut batch = super::sample::batch(&quotes, claimed(journal, &quotes).await, &[]);
    batch.events = vec![
        said(json!({ "text": quoted, "digest": blob.digest, "blob": blob })),
        recorded(Fact::InterruptOpened {
            interrupt: "i".into(),
            kind: InterruptKind::Question(Box::new(question)),
            call: None,
            terms: Terms::default(),
        }),
        recorded(Fact::InterruptClosed {
            interrupt: "i".into(),
            answer: Answer::Reply(Box::new(reply)),
            by: "ann".into(),
            roles: Vec::new(),
        }),
    ]
    .into();
    journal.append(batch).await.unwrap();
    let input = Input::Note { name: "suite".to_owned(), data: json!({ "blob": blob }) };
    journal.post(&quotes, &"note".into(), &input).await.unwrap();
    // An unconsumed input.
    let mut input = message("picture");
    if let Input::Message(new) = &mut input {
        new.message = Message { role: Role::User, blocks: vec![Block::Image { blob: blob.clone() }] }.into();
    }
    journal.post(&left, &"picture".into(), &input).await.unwrap();
    let other = Digest::of(b"something else");
    for (thread, digest, expected) in [
        (&names, &blob.digest, true),
        (&names, &other, false),
        (&quotes, &blob.digest, false),
        (&left, &blob.digest, true),
        (&left, &other, false),
        (&none, &blob.digest, false),
    ] {
        assert_eq!(journal.names_blob(thread, digest).await.unwrap(), expected, "{thread} {digest}");
    }
    journal.delete(&names).await.unwrap();
    assert!(!journal.names_blob(&names, &blob.digest).await.unwrap(), "a thread that is gone names nothing");
}
