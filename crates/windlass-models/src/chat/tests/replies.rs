//! Recorded and damaged replies: both decoders read the same from them, and no cut makes a reply complete.
//!
//! The bytes of a reply can arrive in any pieces.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt;
use http::{Request, Response};
use rig_core::completion::CompletionRequest;
use rig_core::driver::Model;
use rig_core::http_client::{
    BoxedStream, HttpClientExt, LazyBody, MultipartForm, Result as HttpResult, StreamingResponse,
};
use rig_core::message::Message;
use windlass_engine::port::model::{Delta, ModelError, ModelEvent, Reply};
use windlass_machine::FailureClass;

use super::{endpoint, library, origin, wire};
use crate::config::WireKind;
use crate::stream::ReplyStream;
use crate::testing;
use crate::transport::{Endings, LinkOptions, Remainder};

/// The recorded exchanges.
const SCENARIOS: [&str; 26] = [
    "oai-ok",
    "oai-nodone",
    "oai-cut",
    "oai-noindex",
    "oai-index0",
    "oai-noid",
    "oai-sameid",
    "oai-longid",
    "oai-spaces",
    "oai-badargs",
    "oai-title",
    "oai-rdetails",
    "oai-maxtok",
    "oai-newstop",
    "oai-filter",
    "oai-refusal",
    "oai-garbage",
    "oai-hugeusage",
    "oai-errmid",
    "oai-noreason",
    "oai-noreason-call",
    "oai-noreason-cut",
    "oai-flood-3",
    "oai-calls3",
    "oai-parts",
    "oai-odd",
];

/// What a decoder made of a body.
#[derive(Debug, PartialEq)]
struct Reading {
    /// The fragments of each part, joined.
    parts: BTreeMap<u32, String>,
    outcome: Result<Reply, ModelError>,
}

impl Reading {
    fn add(&mut self, delta: Delta) {
        let (part, text) = match delta {
            Delta::Text { part, text } | Delta::Reasoning { part, text } => (part, text.to_string()),
            Delta::Call { part, name, arguments } => {
                (part, format!("{}{arguments}", name.map(|name| format!("{name} ")).unwrap_or_default()))
            }
        };
        self.parts.entry(part).or_default().push_str(&text);
    }

    /// Complete, or how it failed.
    fn class(&self) -> Option<FailureClass> {
        self.outcome.as_ref().err().map(|error| error.class)
    }
}

/// Our reading of a body that arrives in these chunks.
fn ours<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Reading {
    let (deltas, outcome) = testing::read_chat_reply(chunks);
    let mut reading = Reading { parts: BTreeMap::new(), outcome };
    deltas.into_iter().for_each(|delta| reading.add(delta));
    reading
}

/// The model library's reading of a body.
fn theirs(body: &[u8]) -> Reading {
    let endpoint = endpoint("openai-compatible");
    let library = library(&wire(&endpoint, "model-x"));
    let options = LinkOptions {
        stall_timeout: std::time::Duration::MAX,
        headers: http::HeaderMap::new(),
        removed: Vec::new(),
        endings: Endings::default(),
        #[cfg(feature = "vertex")]
        route: None,
    };
    let mut request = CompletionRequest::from(vec![Message::user("-")]);
    request.accept_unknown_finish_reasons = true;
    let opened = Model::new(library, Recorded(Bytes::copy_from_slice(body))).stream(request).unwrap();
    let remainder = Remainder::default();
    let mut stream = ReplyStream::new(opened, WireKind::OpenaiChat, origin(), remainder, Arc::new(options));
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

/// A transport that answers with recorded bytes.
#[derive(Clone)]
struct Recorded(Bytes);

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

fn recorded(scenario: &str) -> Vec<String> {
    testing::scenario(scenario).unwrap_or_else(|| panic!("no scenario {scenario}"))
}

#[test]
fn recorded_replies_are_read_alike() {
    for scenario in SCENARIOS {
        let body = recorded(scenario).concat();
        assert_eq!(ours([body.as_bytes()]), theirs(body.as_bytes()), "{scenario}");
    }
    // The input of a custom call has a JSON form only once it is whole, so it is not shown while it streams.
    let body = recorded("oai-custom").concat();
    assert_eq!(ours([body.as_bytes()]).outcome, theirs(body.as_bytes()).outcome);
}

/// A stream of numbers, the same for each run. (SplitMix64)
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

/// Values that take the place of others.
const VALUES: [&str; 10] =
    ["null", "\"\"", "0", "-1", "{}", "[]", "\"null\"", "\"tool_calls\"", "\"\\u00fc\"", "[{\"index\":0}]"];

/// A damaged body: frames dropped, repeated or exchanged, values replaced, bytes changed, or the end cut off.
fn damaged(numbers: &mut Numbers) -> Vec<u8> {
    let mut frames = recorded(SCENARIOS[numbers.below(SCENARIOS.len())]);
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

/// A frame with one of its values replaced.
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

/// A difference in completion or in the class of a failure that is on purpose.
struct Divergence {
    /// Whether it explains two readings.
    applies: fn(&Reading) -> bool,
}

const DIVERGENCES: [Divergence; 2] = [
    // A call that cannot be answered makes the reply incomplete. The library leaves it out.
    Divergence { applies: |ours| failed_with(ours, "a tool call without a name") },
    // An empty reason is no reason: `[DONE]` alone does not show that the arguments are whole.
    Divergence { applies: |ours| failed_with(ours, "a tool call that was not finished") },
];

fn failed_with(reading: &Reading, words: &str) -> bool {
    reading.outcome.as_ref().is_err_and(|error| error.message.contains(words))
}

#[test]
fn damaged_replies_are_judged_alike() {
    let mut numbers = Numbers(1);
    let mut differing = Vec::new();
    for _ in 0..10_000 {
        let body = damaged(&mut numbers);
        let whole = ours([body.as_slice()]);
        let cut = numbers.below(body.len() + 1);
        assert_eq!(ours([&body[..cut], &body[cut..]]), whole, "{}", String::from_utf8_lossy(&body));
        assert_eq!(ours(body.chunks(1)), whole, "{}", String::from_utf8_lossy(&body));
        let theirs = theirs(&body);
        if whole.class() != theirs.class()
            && !DIVERGENCES.iter().any(|divergence| (divergence.applies)(&whole))
        {
            differing.push(format!(
                "{:?}\n{:?}\n{}",
                whole.outcome,
                theirs.outcome,
                String::from_utf8_lossy(&body)
            ));
        }
    }
    assert_eq!(differing.len(), 0, "{}", differing[..differing.len().min(5)].join("\n---\n"));
}

#[test]
fn a_cut_reply_is_never_complete() {
    // Where the reason has arrived, only the usage and the end of the stream are missing.
    for scenario in SCENARIOS {
        let frames = recorded(scenario);
        let body = frames.concat();
        let reason = frames
            .iter()
            .position(|frame| frame.contains("[DONE]") || frame.contains("\"finish_reason\":\""));
        let before = frames[..reason.unwrap_or(frames.len())].concat().len();
        for cut in 0..before {
            let reading = ours([&body.as_bytes()[..cut]]);
            assert!(reading.outcome.is_err(), "{scenario} cut at {cut}: {reading:?}");
        }
    }
}
