//! The golden journal of version 1: every later build decodes and encodes it unchanged.
//!
//! `journal_v1/*.jsonl` never change. `UPDATE=1` writes a missing file, and no other.

mod samples;

use std::path::PathBuf;

use windlass_machine::*;

use self::samples::{options, samples};
use crate::world::{Tale, tell};

/// Names every kind of fact, in a match that a new kind breaks and in a list that the golden file must cover.
macro_rules! kinds {
    ($($kind:ident),+ $(,)?) => {
        pub const KINDS: &[&str] = &[$(stringify!($kind)),+];

        pub fn kind(fact: &Fact) -> &'static str {
            match fact {
                $(Fact::$kind { .. } => stringify!($kind),)+
            }
        }
    };
}

kinds! {
    ThreadCreated, ThreadForked, ThreadTitled, MessageReceived, MessageQueued, MessageTaken, MessageWithdrawn, MessageEdited, MessagePromoted, RunStarted,
    RunFinished, RunWithdrawn, StepStarted, StepReplied, StepFailed, CallJudged, GrantUsed, CallEdited,
    CallPreviewing, CallPreviewed, InterruptOpened, InterruptVoted, InterruptReminded, InterruptEscalated,
    InterruptClosed, ToolStarted, ToolUndispatched, ToolFinished, ToolParked, ToolDeferred, ToolKept, FileChanging, ResultOffloaded, ToolReconciling, ToolUnresolved, ToolInDoubt, WindowMoved, ModelSwitched, CancelRequested, LimitReached, Note,
}

/// Returns the lines of a golden file. Writes the file first if it is missing and `UPDATE=1`.
pub fn golden(name: &str, events: impl FnOnce() -> Vec<Event>) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/journal_v1").join(name);
    if !path.exists() && std::env::var_os("UPDATE").is_some() {
        let lines: String = events().iter().map(|event| event.encode() + "\n").collect();
        std::fs::write(&path, lines).unwrap();
    }
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn every_kind_is_read_and_written_the_same_for_ever() {
    let samples = samples();
    let text = golden("kinds.jsonl", || samples.clone());
    let read: Vec<Event> = text.lines().map(|line| Event::decode(line).unwrap()).collect();
    assert_eq!(read, samples);
    for (event, line) in read.iter().zip(text.lines()) {
        assert_eq!(event.encode(), line);
    }
    for name in KINDS {
        assert!(read.iter().any(|event| kind(&event.fact) == *name), "no `{name}` in the golden journal");
    }
}

#[test]
fn a_page_of_a_server_keeps_what_it_says_and_a_sign_in_says_nothing() {
    let kind = |message: Option<&str>| InterruptKind::SignIn {
        server: "mail".into(),
        url: "https://mail/in".into(),
        message: message.map(str::to_owned),
    };
    for (message, wanted) in [
        (None, r#"{"sign_in":{"server":"mail","url":"https://mail/in"}}"#),
        (Some("Pay"), r#"{"sign_in":{"server":"mail","url":"https://mail/in","message":"Pay"}}"#),
    ] {
        let line = serde_json::to_string(&kind(message)).unwrap();
        assert_eq!(line, wanted);
        assert_eq!(serde_json::from_str::<InterruptKind>(&line).unwrap(), kind(message));
    }
}

/// Later fields are only encoded if they differ from the default, so that older lines stay unchanged.
#[test]
fn tools_of_a_single_run_are_kept_by_name() {
    let line = serde_json::to_string(&RunOptions { own_tools: vec!["ApiCall".into()], ..options() }).unwrap();
    assert!(line.ends_with(r#""own_tools":["ApiCall"]}"#), "{line}");
    assert_eq!(serde_json::from_str::<RunOptions>(&line).unwrap().own_tools, ["ApiCall".into()]);
    assert!(!serde_json::to_string(&options()).unwrap().contains("own_tools"));
    // Runs from before modes existed could do everything.
    let line = serde_json::to_string(&RunOptions { mode: Some(Mode::Plan), ..options() }).unwrap();
    assert!(line.contains(r#""mode":"plan""#), "{line}");
    assert_eq!(serde_json::from_str::<RunOptions>(&line).unwrap().mode(), Mode::Plan);
    assert!(!serde_json::to_string(&options()).unwrap().contains("mode"));
    assert_eq!(options().mode(), Mode::Agent);
}

#[test]
fn model_access_is_kept_as_references() {
    let access = ModelAccess {
        provider: "openai".into(),
        base_url: Some("https://gw/v1".into()),
        base_url_withheld: false,
        api_key_env: Some("GW_KEY".into()),
    };
    let kept = RunOptions { access: Some(Box::new(access)), ..options() };
    let line = serde_json::to_string(&kept).unwrap();
    let wanted = r#""access":{"provider":"openai","base_url":"https://gw/v1","api_key_env":"GW_KEY"}}"#;
    assert!(line.ends_with(wanted), "{line}");
    assert_eq!(serde_json::from_str::<RunOptions>(&line).unwrap(), kept);
    assert!(!serde_json::to_string(&options()).unwrap().contains("access"));
}

#[test]
fn a_whole_journal_is_read_and_written_the_same_for_ever() {
    let text = golden("story.jsonl", || tell(7, Tale::Crashing).journal);
    let read: Vec<Event> = text.lines().map(|line| Event::decode(line).unwrap()).collect();
    for (event, line) in read.iter().zip(text.lines()) {
        assert_eq!(event.encode(), line);
    }
    let machine = Machine::restore("t".into(), None, read).unwrap();
    assert!(machine.state().run.is_none() && machine.state().last.is_some());
}

#[test]
fn what_cannot_be_read_is_refused() {
    let newer = r#"{"v":2,"at":1,"type":"thread.titled","title":"x","by":"ann"}"#;
    assert!(matches!(Event::decode(newer), Err(UnreadableEvent::Newer { found: 2 })));
    let far = r#"{"v":99999999999,"at":1,"type":"from.the.future"}"#;
    assert!(matches!(Event::decode(far), Err(UnreadableEvent::Newer { found: u32::MAX })));
    for damaged in ["", "{", "[]", r#"{"v":1,"at":1,"type":"thread.exploded"}"#, r#"{"v":1,"type":"note"}"#] {
        assert!(matches!(Event::decode(damaged), Err(UnreadableEvent::Damaged(_))), "{damaged}");
    }
}
