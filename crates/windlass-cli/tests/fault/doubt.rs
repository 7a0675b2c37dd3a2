//! A changing call whose process was killed: a person sees the evidence, and decides.

use std::process::Command;

use serde_json::Value;
use windlass_bench::server::ModelServer;

use super::{is, said, until};
use crate::cli::terminal::Terminal;
use crate::cli::{User, count};

/// Writes a file, edits it, and ends.
const MODEL: &str = "openai-chat/files-3";

/// Maximum kills until one falls between the recorded start of the call and its result.
const TRIES: usize = 200;

/// A run whose edit is in doubt.
struct Doubt {
    user: User,
    server: ModelServer,
    _runtime: tokio::runtime::Runtime,
}

const CHOICE: &str = "[d]one, [r]etry, [f]ailed, [v]iew all, [s]top the run: ";

impl Doubt {
    fn new() -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let server = runtime.block_on(ModelServer::start(0)).unwrap();
        for _ in 0..TRIES {
            let doubt = User::new();
            let command = command(&doubt, &server, &["run", "--yes", "--stream-json", "-m", MODEL, "go"]);
            let mut child = { command }.spawn().unwrap();
            until(&mut child, is("tool.started", 2));
            child.kill().unwrap();
            child.wait().unwrap();
            if count(&doubt.events(), "tool.finished") == 1 {
                return Self { user: doubt, server, _runtime: runtime };
            }
        }
        panic!("no process died inside of the call");
    }

    /// Resumes the run on a terminal, up to the question.
    fn question(&self) -> Terminal {
        let mut terminal = Terminal::open(command(&self.user, &self.server, &["resume", "--yes"]));
        terminal.until("? in doubt").until("Edit log.txt").until(CHOICE);
        terminal
    }

    /// The file as the killed process left it, and whether it equals the result of the edit.
    fn file(&self) -> (String, bool) {
        let text = self.user.read("log.txt");
        assert!(text == "END\n" || text == "line 1\nEND\n", "{text}");
        let done = text != "END\n";
        (text, done)
    }

    fn result(&self) -> Value {
        let events = self.user.events();
        assert_eq!(count(&events, "tool.in_doubt"), 1);
        assert_eq!(count(&events, "run.finished"), 1);
        let mut results = events.into_iter().filter(|event| event["type"] == "tool.finished");
        results.nth(1).expect("the edit's result")
    }
}

fn command(user: &User, server: &ModelServer, arguments: &[&str]) -> Command {
    let mut command = user.command(arguments);
    command.env("OPENAI_API_KEY", "none");
    command.env("WINDLASS_MODEL", MODEL).env("WINDLASS_BASE_URL", server.base_url());
    command
}

#[test]
fn the_evidence_is_shown_and_done_tells_the_result() {
    let doubt = Doubt::new();
    let mut terminal = doubt.question();
    let (file, was_done) = doubt.file();
    terminal.enter("yes\n").until(CHOICE).enter("\n").until(CHOICE);
    terminal.enter("d\n").until("its result (").enter("line 1 is there\n");
    terminal.until("done: line 1 is there").until("result entered by a person").until("done tok");
    let (code, seen) = terminal.end();
    assert_eq!(code, Some(0), "{seen}");
    assert!(seen.contains("the process that ran it is gone"), "{seen}");
    assert!(seen.contains("  effect ") && seen.contains(", started "), "{seen}");
    let evidence = match was_done {
        true => "now: `log.txt` has the new text",
        false => "now: `log.txt` still has the old text and not the new one",
    };
    assert!(seen.contains(evidence), "{seen}");
    assert_eq!(doubt.user.read("log.txt"), file, "the engine itself does nothing more");
    let result = doubt.result();
    assert_eq!(
        (&result["outcome"], &result["content"][0]["text"]),
        (&"told".into(), &"line 1 is there".into())
    );
}

#[test]
fn another_process_tells_the_result() {
    let doubt = Doubt::new();
    let waits = said(command(&doubt.user, &doubt.server, &["resume", "--yes"])).exits(3);
    let id = doubt.user.run(&["approvals", "list", "--json"]).exits(0).json();
    let id = id["interrupt"].as_str().unwrap();
    let hint = format!("`windlass approvals answer {id} --done RESULT` (or ");
    let waits = waits.tells(&["  in doubt Edit log.txt", "now: `log.txt` ", "effect ", ", started ", &hint]);
    assert!(waits.err.contains("(or `--retry`, `--fail REASON`)"), "{waits:#?}");
    let wrong = said(command(&doubt.user, &doubt.server, &["approvals", "approve", id])).exits(2);
    assert!(wrong.err.contains("accepts `answer` with `--done`, `--retry` or `--fail`"), "{wrong:#?}");
    let answer = ["approvals", "answer", id, "--done", "seen to be done"];
    said(command(&doubt.user, &doubt.server, &answer)).exits(0);
    assert_eq!(doubt.result()["content"][0]["text"], "seen to be done");
}

#[test]
fn retry_does_it_again() {
    let doubt = Doubt::new();
    let mut terminal = doubt.question();
    let (_, was_done) = doubt.file();
    terminal.enter("r\n").until("retrying").until("• Edit log.txt  ").until("done tok");
    assert_eq!(terminal.end().0, Some(0));
    // The person asked for a retry: if the edit was already done, it is done twice.
    let lines = if was_done { "line 1\nline 1\nEND\n" } else { "line 1\nEND\n" };
    assert_eq!(doubt.user.read("log.txt"), lines);
    assert_eq!(count(&doubt.user.events(), "tool.started"), 3);
    assert_eq!(doubt.result().get("outcome"), None);
}

#[test]
fn fail_tells_the_model_why() {
    let doubt = Doubt::new();
    let mut terminal = doubt.question();
    let (file, _) = doubt.file();
    terminal.enter("f\n").until("what happened?").enter("the power went\n");
    terminal.until("failed: the power went").until("done tok");
    assert_eq!(terminal.end().0, Some(0));
    assert_eq!(doubt.user.read("log.txt"), file);
    let result = doubt.result();
    assert_eq!(result["error"], true);
    assert!(result["content"][0]["text"].as_str().unwrap().contains("the power went"), "{result}");
}

#[test]
fn stop_cancels_the_run_and_says_that_it_is_unknown() {
    let doubt = Doubt::new();
    let mut terminal = doubt.question();
    terminal.enter("s\n").until("cancelled");
    assert_eq!(terminal.end().0, Some(4));
    assert_eq!(doubt.result()["outcome"], "in_doubt");
}
