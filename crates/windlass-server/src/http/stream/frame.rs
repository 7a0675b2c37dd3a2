//! Updates as bytes on the wire, made once for all who read a thread.
//!
//! A thousand readers of one run get the same few frames: each is encoded by whoever needs it first.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::OnceCell;
use windlass::machine::ThreadId;
use windlass::{Engine, EngineError, Position, Update};

use crate::http::problem::Problem;
use crate::http::stream::json::{self, Fragment};

/// Frames that a thread's readers share: those who keep up are within a few of each other. Whoever is further behind
/// encodes for itself.
const SHARED: usize = 32;
/// A larger one, a snapshot of a very long reply for example, is made for each reader, so that what is kept is bounded.
const SHARED_MAX_BYTES: usize = 128 * 1024;
/// What a client should wait before it comes back to a server that stops.
const RETRY_MS: u64 = 1_000;

/// How updates are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Server-sent events: the position as `id`, the wire name as `event`, one line of JSON as `data`.
    Sse,
    /// One JSON object a line, with its position as `position`: events have an `id` of their own.
    Ndjson,
}

/// The frames of all threads that somebody reads.
#[derive(Debug, Default)]
pub struct Frames(Mutex<HashMap<ThreadId, Weak<Thread>>>);

/// The newest frames of one thread.
#[derive(Debug, Default)]
pub struct Thread(Mutex<VecDeque<(Key, Shared)>>);

/// A frame that somebody makes, or has made.
type Shared = Arc<OnceCell<Bytes>>;

/// What tells a frame from every other of its thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Key {
    position: Position,
    is_snapshot: bool,
    format: Format,
}

impl Frames {
    /// The frames of a thread, for as long as somebody holds them.
    pub fn of(&self, thread: &ThreadId) -> Arc<Thread> {
        let mut threads = locked(&self.0);
        if let Some(frames) = threads.get(thread).and_then(Weak::upgrade) {
            return frames;
        }
        // Whoever comes first after the others have left also clears up.
        threads.retain(|_, frames| frames.strong_count() > 0);
        let frames = Arc::<Thread>::default();
        threads.insert(thread.clone(), Arc::downgrade(&frames));
        frames
    }
}

impl Thread {
    /// An update as bytes.
    pub async fn encode(
        &self,
        engine: &Engine,
        format: Format,
        position: Position,
        update: &Update,
    ) -> Result<Bytes, EngineError> {
        let is_placed = is_placed(update);
        let write = async || {
            // Most updates are fragments: their text is written without a tree of values in between.
            if let Update::Delta { seq, number, delta } = update {
                let fragment = Fragment::of(*seq, *number, delta);
                // Our own types: strings and numbers, which are always JSON.
                let json = serde_json::to_string(&fragment).unwrap_or_default();
                return Ok(format.write(Some(position), fragment.name(), &json));
            }
            let value = Box::pin(json::update(engine, update)).await?;
            Ok(format.frame(is_placed.then_some(position), &value))
        };
        // What has no position of its own is short.
        if !is_placed {
            return write().await;
        }
        let is_snapshot = matches!(update, Update::Snapshot { .. });
        let shared = self.shared(Key { position, is_snapshot, format });
        let frame = shared.get_or_try_init(write).await?.clone();
        if frame.len() > SHARED_MAX_BYTES {
            locked(&self.0).retain(|(_, other)| !Arc::ptr_eq(other, &shared));
        }
        Ok(frame)
    }

    fn shared(&self, key: Key) -> Shared {
        let mut frames = locked(&self.0);
        // The newest one, most likely.
        if let Some((_, shared)) = frames.iter().rev().find(|(known, _)| *known == key) {
            return shared.clone();
        }
        if frames.len() >= SHARED {
            frames.pop_front();
        }
        let shared = Shared::default();
        frames.push_back((key, shared.clone()));
        shared
    }
}

/// Whether a client goes on from an update. The others say how things are at the moment.
pub fn is_placed(update: &Update) -> bool {
    match update {
        Update::Event(_) | Update::Delta { .. } | Update::Snapshot { .. } => true,
        Update::Progress { .. } | Update::Status(_) | Update::Stopped { .. } => false,
    }
}

impl Format {
    /// An object as a frame; its `type` is the event's name.
    pub fn frame(self, position: Option<Position>, value: &Value) -> Bytes {
        self.write(position, value["type"].as_str().unwrap_or("message"), &value.to_string())
    }

    /// The text of a JSON object with members as a frame.
    fn write(self, position: Option<Position>, name: &str, json: &str) -> Bytes {
        let frame = match (self, position) {
            (Self::Sse, Some(position)) => format!("id: {position}\nevent: {name}\ndata: {json}\n\n"),
            (Self::Sse, None) => format!("event: {name}\ndata: {json}\n\n"),
            (Self::Ndjson, Some(position)) => {
                format!("{{\"position\":\"{position}\",{}\n", json.strip_prefix('{').unwrap_or(json))
            }
            (Self::Ndjson, None) => format!("{json}\n"),
        };
        frame.into()
    }

    /// Says that the stream lives.
    pub fn heartbeat(self) -> Bytes {
        self.frame(None, &json!({"type": "heartbeat"}))
    }

    /// Says that the server stops, and when to come back.
    pub fn stopping(self) -> Bytes {
        let said = self.frame(None, &json!({"type": "server.stopping", "retry_ms": RETRY_MS}));
        match self {
            Self::Sse => [format!("retry: {RETRY_MS}\n").as_bytes(), &said].concat().into(),
            Self::Ndjson => said,
        }
    }

    /// Says why the stream ends.
    pub fn refused(self, problem: &Problem) -> Bytes {
        self.frame(None, &json!({"type": "error", "problem": problem}))
    }

    /// The media type.
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Sse => "text/event-stream",
            Self::Ndjson => "application/x-ndjson",
        }
    }
}

/// Nothing leaves what it guards halfway.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass::machine::Seq;

    #[test]
    fn a_frame_is_one_event_or_one_line() {
        let value = json!({"seq": 7, "delta": 2, "type": "message.delta", "part": 0, "text": "a\nb"});
        let position = Some(Position { seq: Seq(7), delta: 2 });
        let frame =
            |format: Format, position| String::from_utf8(format.frame(position, &value).to_vec()).unwrap();
        let json = r#"{"seq":7,"delta":2,"type":"message.delta","part":0,"text":"a\nb"}"#;
        assert_eq!(frame(Format::Sse, position), format!("id: 7.2\nevent: message.delta\ndata: {json}\n\n"));
        assert_eq!(frame(Format::Sse, None), format!("event: message.delta\ndata: {json}\n\n"));
        assert_eq!(frame(Format::Ndjson, position), format!("{{\"position\":\"7.2\",{}\n", &json[1..]));
        let stopping =
            "retry: 1000\nevent: server.stopping\ndata: {\"type\":\"server.stopping\",\"retry_ms\":1000}\n\n";
        assert_eq!(Format::Sse.stopping(), stopping);
    }

    #[tokio::test]
    async fn a_fragment_is_written_as_its_value() {
        use windlass::port::model::Delta;

        let engine = windlass::builder().build().await.unwrap();
        let frames = Frames::default().of(&"t".into());
        let text = "a\n\"é\u{2028}".into();
        for (number, delta) in (1..).zip([
            Delta::Text { part: 0, text },
            Delta::Reasoning { part: 1, text: "b".into() },
            Delta::Call { part: 2, name: Some("Read".into()), arguments: "{".into() },
            Delta::Call { part: 2, name: None, arguments: "}".into() },
        ]) {
            let update = Update::Delta { seq: Seq(7), number, delta };
            let value = json::update(&engine, &update).await.unwrap();
            let position = Position { seq: Seq(7), delta: number };
            for format in [Format::Sse, Format::Ndjson] {
                let frame = frames.encode(&engine, format, position, &update).await.unwrap();
                assert_eq!(frame, format.frame(Some(position), &value));
            }
        }
    }

    #[tokio::test]
    async fn what_many_read_is_written_once() {
        let engine = windlass::builder().build().await.unwrap();
        let frames = Frames::default();
        let (one, two) = (frames.of(&"t".into()), frames.of(&"t".into()));
        let delta = windlass::port::model::Delta::Text { part: 0, text: "hi".into() };
        let update = Update::Delta { seq: Seq(7), number: 2, delta };
        let position = Position { seq: Seq(7), delta: 2 };
        let first = one.encode(&engine, Format::Sse, position, &update).await.unwrap();
        let second = two.encode(&engine, Format::Sse, position, &update).await.unwrap();
        assert!(std::ptr::eq(first.as_ptr(), second.as_ptr()), "the same bytes");
        let other = two.encode(&engine, Format::Ndjson, position, &update).await.unwrap();
        assert_ne!(first, other);
        drop((one, two));
        frames.of(&"u".into());
        assert_eq!(locked(&frames.0).len(), 1, "a thread that nobody reads is forgotten");
    }
}
