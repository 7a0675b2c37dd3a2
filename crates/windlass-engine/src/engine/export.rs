//! A thread's journal as lines of JSON, for inspection and archiving.
//!
//! Texts stored as blobs are inlined. Images, documents and tool catalogues remain references by digest.

use std::collections::VecDeque;

use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use serde_json::{Map, Value, json};
use windlass_machine::{Content, Digest, Seq, ThreadId};

use crate::engine::Engine;
use crate::engine::handle::ThreadHandle;
use crate::error::EngineError;
use crate::port::journal::Recorded;

/// Maximum number of events read from a journal at a time; their texts are read one by one.
const PAGE: usize = 64;

/// Progress of an export.
struct Export {
    engine: Engine,
    thread: ThreadId,
    after: Seq,
    page: VecDeque<Recorded>,
}

impl Engine {
    /// Returns a recorded event as one JSON object: `seq`, then the event as the journal encodes it. Texts stored as
    /// blobs are inlined; images and documents remain references by digest.
    pub async fn event_json(&self, recorded: &Recorded) -> Result<Value, EngineError> {
        let mut line = Map::new();
        line.insert("seq".into(), json!(recorded.seq.0));
        if let Ok(Value::Object(event)) = serde_json::from_str(&recorded.event.encode()) {
            line.extend(event);
        }
        let mut value = Value::Object(line);
        let mut texts = Vec::new();
        find_texts(&value, &mut String::new(), &mut texts);
        for (place, content) in texts {
            let text = self.text(&content).await?;
            if let Some(slot) = value.pointer_mut(&place) {
                *slot = Value::String(text);
            }
        }
        Ok(value)
    }
}

impl ThreadHandle<'_> {
    /// Returns a thread's events from the first one, each as a line of JSON from [`Engine::event_json`]. Events
    /// recorded during the export are included. The stream ends after an error.
    pub fn export(self) -> BoxStream<'static, Result<String, EngineError>> {
        let Self { engine, id: thread } = self;
        let (engine, thread, after) = (engine.clone(), thread.clone(), Seq::default());
        let export = Export { engine, thread, after, page: VecDeque::new() };
        let lines = stream::unfold(Some(export), async |export| {
            let mut export = export?;
            match export.line().await {
                Ok(line) => line.map(|line| (Ok(line), Some(export))),
                Err(error) => Some((Err(error), None)),
            }
        });
        lines.boxed()
    }
}

impl Export {
    async fn line(&mut self) -> Result<Option<String>, EngineError> {
        if self.page.is_empty() {
            if self.after == Seq::default()
                && self.engine.services.store.journal.head(&self.thread).await?.is_none()
            {
                return Err(EngineError::NoThread(self.thread.clone()));
            }
            self.page = self.engine.thread(&self.thread).events(self.after, PAGE).await?.into();
        }
        let Some(recorded) = self.page.pop_front() else { return Ok(None) };
        self.after = recorded.seq;
        Ok(Some(format!("{}\n", self.engine.event_json(&recorded).await?)))
    }
}

/// Collects the JSON pointers of texts that are stored as blobs.
fn find_texts(value: &Value, place: &mut String, found: &mut Vec<(String, Content)>) {
    let mut visit = |key: &str, member: &Value| {
        let length = place.len();
        place.push('/');
        place.push_str(&key.replace('~', "~0").replace('/', "~1"));
        find_texts(member, place, found);
        place.truncate(length);
    };
    match value {
        Value::Object(members) => {
            let digest = members.get("digest").and_then(Value::as_str).and_then(Digest::from_hex);
            if digest.is_some() && members.contains_key("media_type") {
                if let Ok(content @ Content::Blob(_)) = serde_json::from_value(value.clone()) {
                    found.push((place.clone(), content));
                }
                return;
            }
            for (key, member) in members {
                // Bytes of images and documents, and the tool catalogue, are not texts of the conversation.
                if key != "blob" && key != "tools" {
                    visit(key, member);
                }
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                visit(&index.to_string(), item);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
