//! Encodes updates as bytes, once for all readers of a thread.
//!
//! A thousand readers of one run receive the same frames. The first reader that needs a frame encodes it. If a thread
//! has only one reader, no frames are cached.

use std::collections::{HashMap, VecDeque};
use std::io::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::OnceCell;
use windlass::machine::ThreadId;
use windlass::{Engine, EngineError, Position, Update};

use crate::http::problem::Problem;
use crate::http::stream::json::{self, Fragment};

/// Number of recent frames that a thread's readers share. Readers that keep up are only a few frames apart. A reader
/// that is further behind encodes its own frames.
const SHARED: usize = 32;
/// Maximum size of a shared frame, in bytes. Larger frames, such as a snapshot of a very long reply, are not shared.
/// The limit bounds the size of the cache.
const SHARED_MAX_BYTES: usize = 128 * 1024;
/// Time that a client should wait before it reconnects to a server that stops, in milliseconds.
const RETRY_MS: u64 = 1_000;

/// Wire format of updates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Server-sent events: the position as `id`, the wire name as `event`, one line of JSON as `data`.
    Sse,
    /// One JSON object per line, with the position as `position`, because events already have an `id` member.
    Ndjson,
}

/// The shared frames of all threads that have readers.
#[derive(Debug, Default)]
pub struct Frames(Mutex<HashMap<ThreadId, Weak<Thread>>>);

/// The most recent frames of one thread.
#[derive(Debug, Default)]
pub struct Thread(Mutex<VecDeque<(Key, Shared)>>);

/// A frame that is encoded or being encoded.
type Shared = Arc<OnceCell<Bytes>>;

/// Identifies a frame within its thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Key {
    position: Position,
    is_snapshot: bool,
    format: Format,
}

impl Frames {
    /// Returns the frames of a thread. They are dropped with the last reader.
    pub fn of(&self, thread: &ThreadId) -> Arc<Thread> {
        let mut threads = locked(&self.0);
        if let Some(frames) = threads.get(thread).and_then(Weak::upgrade) {
            return frames;
        }
        // The first new reader of a thread also removes entries of threads without readers.
        threads.retain(|_, frames| frames.strong_count() > 0);
        let frames = Arc::<Thread>::default();
        threads.insert(thread.clone(), Arc::downgrade(&frames));
        frames
    }
}

impl Thread {
    /// Encodes an update.
    pub async fn encode(
        self: &Arc<Self>,
        engine: &Engine,
        format: Format,
        position: Position,
        update: &Update,
    ) -> Result<Bytes, EngineError> {
        let is_placed = is_placed(update);
        let write = async || {
            // Serialize the text of a delta directly, without a tree of JSON values, because nearly all updates are
            // deltas.
            if let Update::Delta { seq, number, delta } = update {
                return Ok(format.delta(position, &Fragment::of(*seq, *number, delta)));
            }
            let value = Box::pin(json::update(engine, update)).await?;
            Ok(format.frame(is_placed.then_some(position), &value))
        };
        // Do not share updates without a position: they are short. Do not share frames of a thread with one reader:
        // they are used only once.
        if !is_placed || Arc::strong_count(self) == 1 {
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
        // Search backwards, because most readers need the newest frame.
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

/// Returns whether a client can resume after this update. Other updates only describe the current state.
pub fn is_placed(update: &Update) -> bool {
    match update {
        Update::Event(_) | Update::Delta { .. } | Update::Snapshot { .. } => true,
        Update::Progress { .. } | Update::Status(_) | Update::Stopped { .. } => false,
    }
}

impl Format {
    /// Encodes an object as a frame, with its `type` as the event name.
    pub fn frame(self, position: Option<Position>, value: &Value) -> Bytes {
        self.write(position, value["type"].as_str().unwrap_or("message"), &value.to_string())
    }

    /// Encodes a delta of a reply as a frame.
    fn delta(self, position: Position, delta: &Fragment<'_>) -> Bytes {
        /// Size of a frame without the delta's text, in bytes. Sufficient unless the text needs escapes.
        const ROOM_BYTES: usize = 192;
        let mut frame = Vec::with_capacity(ROOM_BYTES + delta.text_bytes());
        // Writing to memory does not fail. Our own types contain only strings and numbers, so they always serialize.
        let _ = match self {
            Self::Sse => write!(frame, "id: {position}\nevent: {}\ndata: ", delta.name()),
            Self::Ndjson => write!(frame, "{{\"position\":\"{position}\","),
        };
        let json_at = frame.len();
        let _ = serde_json::to_writer(&mut frame, delta);
        match self {
            Self::Sse => frame.extend_from_slice(b"\n\n"),
            Self::Ndjson => {
                // The position is a member of the same object.
                frame.remove(json_at);
                frame.push(b'\n');
            }
        }
        frame.into()
    }

    /// Encodes the text of a non-empty JSON object as a frame.
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

    /// Encodes a heartbeat.
    pub fn heartbeat(self) -> Bytes {
        self.frame(None, &json!({"type": "heartbeat"}))
    }

    /// Encodes the notice that the server stops, with the delay before a reconnect.
    pub fn stopping(self) -> Bytes {
        let said = self.frame(None, &json!({"type": "server.stopping", "retry_ms": RETRY_MS}));
        match self {
            Self::Sse => [format!("retry: {RETRY_MS}\n").as_bytes(), &said].concat().into(),
            Self::Ndjson => said,
        }
    }

    /// Encodes the problem that ends the stream.
    pub fn refused(self, problem: &Problem) -> Bytes {
        self.frame(None, &json!({"type": "error", "problem": problem}))
    }

    pub fn media_type(self) -> &'static str {
        match self {
            Self::Sse => "text/event-stream",
            Self::Ndjson => "application/x-ndjson",
        }
    }
}

/// Invariant: no code leaves the guarded value inconsistent, so poisoning is ignored.
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
    async fn readers_of_one_thread_share_frames() {
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
        assert_eq!(locked(&one.0).len(), 2, "one frame in each format");
        drop(two);
        let later = Position { seq: Seq(7), delta: 3 };
        one.encode(&engine, Format::Sse, later, &update).await.unwrap();
        assert_eq!(locked(&one.0).len(), 2, "the only reader caches no frame");
        drop(one);
        frames.of(&"u".into());
        assert_eq!(locked(&frames.0).len(), 1, "a thread without readers is forgotten");
    }
}
