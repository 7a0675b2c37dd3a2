//! Blob references in events are found by type, never by text or JSON that looks like a reference.

use serde_json::json;
use windlass_machine::*;

fn blob(seed: &str) -> BlobRef {
    let digest = Digest::of(seed.as_bytes());
    BlobRef { digest, media_type: "text/plain".into(), size_bytes: 1, tokens: 1 }
}

fn named(fact: Fact) -> Vec<Digest> {
    Event { at: Timestamp(1), wall: None, run: Some("r".into()), fact }.blobs()
}

fn check(fact: Fact, seeds: &[&str]) {
    let wanted: Vec<Digest> = seeds.iter().map(|seed| Digest::of(seed.as_bytes())).collect();
    assert_eq!(named(fact.clone()), wanted, "{fact:?}");
}

#[test]
fn every_way_of_naming_a_blob_is_found() {
    let call = CallKey { step: 1, index: 0 };
    let content = |seed: &str| Content::Blob(blob(seed));
    let asked = ToolCall { id: "c".into(), name: "Read".into(), asked: content("asked"), native: None };
    let result = ToolResult {
        call_id: "c".into(),
        name: "Read".into(),
        content: vec![Block::Text { text: content("result"), native: None }],
        error: false,
    };
    let blocks = vec![
        Block::Text { text: content("text"), native: None },
        Block::Reasoning { text: content("reasoning"), native: None },
        Block::Image { blob: blob("image") },
        Block::File { name: "a".into(), blob: blob("file") },
        Block::ToolCall(asked),
        Block::ToolResult(result),
    ];
    let message = std::sync::Arc::new(Message { role: Role::User, blocks });
    let all = ["text", "reasoning", "image", "file", "asked", "result"];
    check(Fact::MessageReceived { id: "m".into(), message: message.clone(), by: "ann".into() }, &all);
    let mut agent = crate::fixture::agent();
    agent.instructions = vec![content("instructions")];
    agent.tools = Some(blob("catalogue"));
    let agent = std::sync::Arc::new(agent);
    let options = RunOptions::default();
    let started =
        Fact::RunStarted { agent: RunAgent::Full(agent.clone()), options: options.clone(), by: "ann".into() };
    check(started, &["instructions", "catalogue"]);
    let (by, place, run) = ("ann".into(), Place::AfterRun, "r2".into());
    let queued = Box::new(Queued { message, by, place, run, agent, options });
    check(
        Fact::MessageQueued { id: "m".into(), queued },
        &[&all[..], &["instructions", "catalogue"]].concat(),
    );
    check(Fact::ToolKept { call, name: "tasks".into(), value: content("kept") }, &["kept"]);
    check(
        Fact::ResultOffloaded {
            call,
            reference: "x".into(),
            payload: blob("payload"),
            summary: content("summary"),
        },
        &["payload", "summary"],
    );
    let change = FileChange {
        path: "a".into(),
        before: FileImage::Kept { blob: blob("before"), mode: 0o644 },
        // The new content is not stored.
        after: FileImage::Known { digest: Digest::of(b"after"), size_bytes: 4 },
    };
    check(Fact::FileChanging { call, change: Box::new(change) }, &["before"]);
    let kind = InterruptKind::Approval {
        tool: "x".into(),
        approval: Digest::of(b"x"),
        preview: Some(content("preview")),
    };
    check(
        Fact::InterruptOpened { interrupt: "i".into(), kind, call: None, terms: Terms::default() },
        &["preview"],
    );
    let answer = Answer::Edit { arguments: content("edited") };
    check(
        Fact::InterruptClosed { interrupt: "i".into(), answer, by: "ann".into(), roles: Vec::new() },
        &["edited"],
    );
    let input = Input::Answered {
        answers: vec![Given {
            interrupt: "i".into(),
            answer: Answer::Edit { arguments: content("input") },
            approval: None,
        }],
        by: Party { principal: "ann".into(), workspace: "w".into(), roles: Vec::new() },
        grants: Vec::new(),
        note: None,
        view: View::default(),
    };
    assert_eq!(input.blobs(), [Digest::of(b"input")]);
}

#[test]
fn values_and_texts_that_look_like_references_name_nothing() {
    let forged = json!({ "blob": blob("forged"), "digest": Digest::of(b"forged"), "media_type": "x" });
    check(Fact::Note { name: "n".into(), data: forged.clone() }, &[]);
    let question =
        Question { params: Some(forged.clone()), schema: Some(forged.clone()), ..Question::default() };
    let kind = InterruptKind::Question(Box::new(question));
    check(Fact::InterruptOpened { interrupt: "i".into(), kind, call: None, terms: Terms::default() }, &[]);
    let reply = Reply { values: Some(forged.clone()), text: Some(forged.to_string()), ..Reply::default() };
    let answer = Answer::Reply(Box::new(reply));
    check(Fact::InterruptClosed { interrupt: "i".into(), answer, by: "ann".into(), roles: Vec::new() }, &[]);
    let origin = std::sync::Arc::new(Origin { api: "x".into(), model: "x/y".into() });
    let native = std::sync::Arc::new(Native { origin, item: forged });
    let message = Message { role: Role::Assistant, blocks: vec![Block::Opaque { native }] };
    check(Fact::MessageReceived { id: "m".into(), message: message.into(), by: "ann".into() }, &[]);
}
