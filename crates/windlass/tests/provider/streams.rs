//! Long streams, and abandoned streams.

use std::time::Duration;

use futures::StreamExt;
use windlass::port::model::{Delta, ModelEvent};
use windlass::testing::provider::ProviderServer;

use super::{ask, call, model, name_of, read};
use windlass::models::WireKind;

#[tokio::test]
async fn a_long_stream_comes_whole() {
    let server = ProviderServer::start().await.unwrap();
    let name = name_of(WireKind::OpenaiChat);
    let model = model(&server, "oai-flood-2000", name, |_| {});
    let (parts, outcome) = read(&*model, call(name, ask())).await;
    assert_eq!(parts, [format!("text: {}", "word ".repeat(2_000))]);
    assert_eq!(outcome.unwrap().blocks, [windlass_machine::Block::text("word ".repeat(2_000))]);
}

#[tokio::test]
async fn dropping_the_stream_closes_the_connection() {
    let server = ProviderServer::start().await.unwrap();
    let name = name_of(WireKind::Anthropic);
    // A far longer timeout than the test has, so that only the drop can end the connection.
    let model =
        model(&server, "anth-ok-stall", name, |config| config.stall_timeout = Duration::from_secs(600));
    let mut stream = model.stream(call(name, ask()));
    let first = stream.next().await.unwrap().unwrap();
    assert_eq!(first, ModelEvent::Delta(Delta::Reasoning { part: 0, text: "Let me ".into() }));
    drop(stream);
    server.disconnected(1).await;
}

#[tokio::test]
async fn dropping_before_an_answer_closes_the_connection() {
    let server = ProviderServer::start().await.unwrap();
    let name = name_of(WireKind::Anthropic);
    let model =
        model(&server, "anth-ok-noheaders", name, |config| config.stall_timeout = Duration::from_secs(600));
    let mut stream = model.stream(call(name, ask()));
    while server.requests().is_empty() {
        assert!(futures::poll!(stream.next()).is_pending());
        tokio::task::yield_now().await;
    }
    drop(stream);
    server.disconnected(1).await;
}

#[tokio::test]
async fn one_connection_serves_call_after_call() {
    let server = ProviderServer::start().await.unwrap();
    for (scenario, kind) in
        [("anth-ok", WireKind::Anthropic), ("oai-ok", WireKind::OpenaiChat), ("gem-ok", WireKind::Gemini)]
    {
        let before = server.connections();
        let model = model(&server, scenario, name_of(kind), |_| {});
        for _ in 0..3 {
            read(&*model, call(name_of(kind), ask())).await.1.unwrap();
        }
        assert_eq!(server.connections() - before, 1, "{scenario}");
    }
}
