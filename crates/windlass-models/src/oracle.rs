//! The model library as the oracle of a wire's decoder: both decode recorded and damaged replies.
//!
//! A wire supplies both decoders, its recorded exchanges, and the intended differences.

pub(crate) mod history;
pub(crate) mod request;

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt;
use http::{Request, Response};
use rig_core::completion::CompletionRequest;
use rig_core::http_client::{
    BoxedStream, HttpClientExt, LazyBody, MultipartForm, Result as HttpResult, StreamingResponse,
};
use rig_core::message::Message;
use rig_core::streaming::CompletionStream;
use windlass_engine::port::model::{Delta, ModelError, ModelEvent, Reply};
use windlass_machine::{CacheMarks, FailureClass, Origin};

use crate::config::WireKind;
use crate::library::stream::ReplyStream;
use crate::library::wire::LibraryWire;
use crate::provider::endpoint::Endpoint;
use crate::testing;

/// A wire under test.
pub(crate) struct Oracle {
    /// Decodes, with Windlass's decoder, a body that arrives in these chunks.
    pub ours: fn(&mut dyn Iterator<Item = &[u8]>) -> Reading,
    /// Decodes a body with the library's decoder.
    pub theirs: fn(&[u8]) -> Reading,
    /// The recorded exchanges.
    pub scenarios: &'static [&'static str],
    /// Whether a difference in completion or failure class is intended.
    pub explained: fn(&Reading) -> bool,
    /// Whether a frame completes the reply. A reply that is cut before this frame is incomplete.
    pub end: fn(&str) -> bool,
}

/// The result of decoding a body.
#[derive(Debug, PartialEq)]
pub(crate) struct Reading {
    /// The fragments of each part, concatenated.
    pub parts: BTreeMap<u32, String>,
    pub outcome: Result<Reply, ModelError>,
}

impl Reading {
    pub(crate) fn add(&mut self, delta: Delta) {
        let (part, text) = match delta {
            Delta::Text { part, text } | Delta::Reasoning { part, text } => (part, text.to_string()),
            Delta::Call { part, name, arguments } => {
                (part, format!("{}{arguments}", name.map(|name| format!("{name} ")).unwrap_or_default()))
            }
        };
        self.parts.entry(part).or_default().push_str(&text);
    }

    /// Returns the failure class; `None` for a complete reply.
    fn class(&self) -> Option<FailureClass> {
        self.outcome.as_ref().err().map(|error| error.class)
    }
}

/// Builds the result from a decoder's deltas and outcome.
pub(crate) fn reading((deltas, outcome): (Vec<Delta>, Result<Reply, ModelError>)) -> Reading {
    let mut reading = Reading { parts: BTreeMap::new(), outcome };
    deltas.into_iter().for_each(|delta| reading.add(delta));
    reading
}

/// Decodes a body with the library, on a wire that it implements.
pub(crate) fn library_reading(kind: WireKind, provider: &str, body: &[u8]) -> Reading {
    let wire = LibraryWire::new(kind, &Endpoint::sample(provider, kind), "model-x");
    let origin = Arc::new(Origin { api: kind.api().to_owned(), model: "p/m".into() });
    let recorded = Recorded(Bytes::copy_from_slice(body));
    let stream = wire.stream(any_request(), CacheMarks::Off, recorded).unwrap();
    read_library(kind, origin, stream)
}

/// Returns a request that accepts unknown finish reasons.
pub(crate) fn any_request() -> CompletionRequest {
    let mut request = CompletionRequest::from(vec![Message::user("-")]);
    request.accept_unknown_finish_reasons = true;
    request
}

/// Reads a stream of the library to its end.
pub(crate) fn read_library(kind: WireKind, origin: Arc<Origin>, stream: CompletionStream) -> Reading {
    let mut stream = ReplyStream::new(stream, kind, origin);
    let mut reading = Reading { parts: BTreeMap::new(), outcome: Err(crate::failure::truncated()) };
    futures::executor::block_on(async {
        while let Some(event) = stream.next().await {
            match event {
                Ok(ModelEvent::Delta(delta)) => reading.add(delta),
                Ok(ModelEvent::Finished(reply)) => reading.outcome = Ok(*reply),
                Err(error) => reading.outcome = Err(error),
            }
        }
    });
    reading
}

/// A transport that responds with recorded bytes.
#[derive(Clone)]
pub(crate) struct Recorded(pub Bytes);

impl HttpClientExt for Recorded {
    fn send<T, U>(
        &self,
        _: Request<T>,
    ) -> impl Future<Output = HttpResult<Response<LazyBody<U>>>> + Send + 'static
    where
        T: Into<Bytes> + Send,
        U: From<Bytes> + Send + 'static,
    {
        std::future::pending()
    }

    fn send_multipart<U>(
        &self,
        _: Request<MultipartForm>,
    ) -> impl Future<Output = HttpResult<Response<LazyBody<U>>>> + Send + 'static
    where
        U: From<Bytes> + Send + 'static,
    {
        std::future::pending()
    }

    fn send_streaming<T>(&self, _: Request<T>) -> impl Future<Output = HttpResult<StreamingResponse>> + Send
    where
        T: Into<Bytes> + Send,
    {
        let body: BoxedStream = Box::pin(futures::stream::iter([Ok(self.0.clone())]));
        let response = Response::builder().header("content-type", "text/event-stream").body(body);
        std::future::ready(Ok(response.unwrap()))
    }
}

pub(crate) fn recorded(scenario: &str) -> Vec<String> {
    testing::scenario(scenario).unwrap_or_else(|| panic!("no scenario {scenario}"))
}

/// A fixed sequence of pseudo-random numbers. (SplitMix64)
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % limit as u64) as usize
    }
}

/// Values used as replacements.
const VALUES: [&str; 10] =
    ["null", "\"\"", "0", "-1", "{}", "[]", "\"null\"", "\"tool_calls\"", "\"\\u00fc\"", "[{\"index\":0}]"];

/// Returns a damaged body: frames dropped, repeated or swapped, values
/// replaced, bytes changed, or the end cut off.
fn damaged(scenarios: &[&str], numbers: &mut Numbers) -> Vec<u8> {
    let mut frames = recorded(scenarios[numbers.below(scenarios.len())]);
    for _ in 0..=numbers.below(2) {
        let at = numbers.below(frames.len());
        match numbers.below(5) {
            0 if frames.len() > 1 => drop(frames.remove(at)),
            1 => frames.insert(at, frames[at].clone()),
            2 => {
                let other = numbers.below(frames.len());
                frames.swap(at, other);
            }
            _ => frames[at] = replaced(&frames[at], numbers),
        }
    }
    let mut body = frames.concat().into_bytes();
    match numbers.below(4) {
        0 => body.truncate(numbers.below(body.len() + 1)),
        1 => {
            let at = numbers.below(body.len());
            body[at] = b" \"{}[]:,\nx\xff"[numbers.below(11)];
        }
        _ => {}
    }
    body
}

/// Returns a frame with one of its values replaced.
fn replaced(frame: &str, numbers: &mut Numbers) -> String {
    let colons: Vec<usize> = frame.match_indices("\":").map(|(at, _)| at + 2).collect();
    if colons.is_empty() {
        return frame.to_owned();
    }
    let start = colons[numbers.below(colons.len())];
    let mut values = serde_json::Deserializer::from_str(&frame[start..]).into_iter::<serde_json::Value>();
    match values.next() {
        Some(Ok(_)) => {
            let end = start + values.byte_offset();
            format!("{}{}{}", &frame[..start], VALUES[numbers.below(VALUES.len())], &frame[end..])
        }
        Some(Err(_)) | None => frame.to_owned(),
    }
}

/// Whether Windlass's decoder failed with this text.
pub(crate) fn failed_with(reading: &Reading, words: &str) -> bool {
    reading.outcome.as_ref().is_err_and(|error| error.message.contains(words))
}

impl Oracle {
    fn ours<'a>(&self, pieces: impl IntoIterator<Item = &'a [u8]>) -> Reading {
        (self.ours)(&mut pieces.into_iter())
    }

    /// Asserts that both decode each recorded reply alike.
    pub(crate) fn check_recorded(&self) {
        for scenario in self.scenarios {
            let body = recorded(scenario).concat();
            assert_eq!(self.ours([body.as_bytes()]), (self.theirs)(body.as_bytes()), "{scenario}");
        }
    }

    /// Asserts that both decode 10,000 damaged replies alike, for any chunks in which they arrive.
    pub(crate) fn check_damaged(&self) {
        let mut numbers = Numbers(1);
        let mut differing = Vec::new();
        for _ in 0..10_000 {
            let body = damaged(self.scenarios, &mut numbers);
            let whole = self.ours([body.as_slice()]);
            let cut = numbers.below(body.len() + 1);
            let shown = String::from_utf8_lossy(&body);
            assert_eq!(self.ours([&body[..cut], &body[cut..]]), whole, "{shown}");
            assert_eq!(self.ours(body.chunks(1)), whole, "{shown}");
            let theirs = (self.theirs)(&body);
            if whole.class() != theirs.class() && !(self.explained)(&whole) {
                differing.push(format!("{:?}\n{:?}\n{shown}", whole.outcome, theirs.outcome));
            }
        }
        assert_eq!(differing.len(), 0, "{}", differing[..differing.len().min(5)].join("\n---\n"));
    }

    /// Asserts that a reply that is cut before its end is never complete.
    pub(crate) fn check_cut(&self) {
        for scenario in self.scenarios {
            let frames = recorded(scenario);
            let body = frames.concat();
            let end = frames.iter().position(|frame| (self.end)(frame)).unwrap_or(frames.len());
            for cut in 0..frames[..end].concat().len() {
                let reading = self.ours([&body.as_bytes()[..cut]]);
                assert!(reading.outcome.is_err(), "{scenario} cut at {cut}: {reading:?}");
            }
        }
    }
}
