//! Complete sessions of `run` and `chat`, and their output.

use std::io::Write;
use std::process::Stdio;

use serde_json::json;

use super::{INSIGHTS, TASK, User, count, lines, said};

#[test]
fn the_demo_writes_a_file_and_says_that_it_is_a_script() {
    let user = User::new();
    let said = user.run(&["run", "--yes", TASK]).exits(0);
    assert_eq!(user.read("insights.md"), INSIGHTS);
    assert!(said.err.contains("which is a script and not an AI"), "{said:#?}");
    assert!(said.err.contains("• Write insights.md  ✓"), "{said:#?}");
    // In a pipe, standard output is exactly the recorded answer.
    let events = user.events();
    let last = events.iter().rfind(|event| event["type"] == "step.replied").unwrap();
    let text = last["message"]["blocks"][0]["text"].as_str().unwrap();
    assert_eq!(said.out, format!("{}\n", text.trim_end_matches('\n')));
    assert!(!said.out.contains('\x1b') && !said.err.contains('\x1b'));
}

// rows: LM-R3, LM-G9
#[test]
fn json_is_one_flat_outcome() {
    let user = User::new();
    let said = user.run(&["run", "--yes", "--json", TASK]).exits(0);
    let outcome = said.json();
    let keys: Vec<_> = outcome.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["runId", "status", "data", "meta", "errors", "timestamp"]);
    assert_eq!((&outcome["status"], &outcome["errors"]), (&json!("done"), &json!([])));
    assert_eq!((&outcome["meta"]["turns"], &outcome["meta"]["toolCalls"]), (&json!(4), &json!(3)));
}

#[test]
fn stream_json_is_events_and_fragments_that_make_up_the_replies() {
    let user = User::new();
    let said = user.run(&["run", "--yes", "--stream-json", TASK]).exits(0);
    let all = lines(&said.out);
    let recorded: Vec<_> = all.iter().filter(|line| line.get("at").is_some()).cloned().collect();
    assert_eq!(recorded, user.events(), "the events are the journal's");
    let seqs: Vec<u64> = recorded.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>());
    for reply in recorded.iter().filter(|event| event["type"] == "step.replied") {
        let started = recorded
            .iter()
            .rfind(|event| event["type"] == "step.started" && event["step"] == reply["step"])
            .unwrap();
        let text: String = all
            .iter()
            .filter(|line| line["type"] == "message.delta" && line["seq"] == started["seq"])
            .map(|line| line["text"].as_str().unwrap())
            .collect();
        assert_eq!(text, reply["message"]["blocks"][0]["text"].as_str().unwrap());
    }
    assert_eq!(all.last().unwrap()["type"], "outcome");
    assert_eq!(count(&all, "outcome"), 1);
}

#[test]
fn a_task_comes_from_a_file_or_from_standard_input() {
    let user = User::new();
    std::fs::write(user.folder().join("task.txt"), TASK).unwrap();
    user.run(&["run", "--yes", "--file", "task.txt"]).exits(0);
    assert_eq!(user.read("insights.md"), INSIGHTS);
    std::fs::remove_file(user.folder().join("insights.md")).unwrap();
    let mut child = user.command(&["run", "--yes", "-"]).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(TASK.as_bytes()).unwrap();
    said(child.wait_with_output().unwrap()).exits(0);
    assert_eq!(user.read("insights.md"), INSIGHTS);
    let nothing = user.run(&["run", ""]).exits(2);
    assert!(nothing.err.starts_with("error: no task given\nhint: "), "{nothing:#?}");
}

// rows: LM-G14
#[test]
fn chat_is_a_conversation_with_commands() {
    let user = User::new();
    let mut child = user.command(&[]).stdin(Stdio::piped()).spawn().unwrap();
    let typed = "hello\n/turns\nand again\n/clear\n/turns\n/model demo/script\n/nonsense\n/quit\nnever\n";
    child.stdin.take().unwrap().write_all(typed.as_bytes()).unwrap();
    let said = said(child.wait_with_output().unwrap()).exits(0);
    assert!(said.err.contains("  1  hello\n     done: 1 step, 0 calls"), "{said:#?}");
    assert!(said.err.contains("no messages yet"), "{said:#?}");
    assert!(said.err.contains("switched to `demo/script`"), "{said:#?}");
    assert!(said.err.contains("unknown command `/nonsense`"), "{said:#?}");
    let events = user.events();
    assert_eq!((count(&events, "thread.created"), count(&events, "run.started")), (1, 2), "one conversation");
}

#[test]
fn flags_without_a_command_are_those_of_chat() {
    let user = User::new();
    let mut child = user.command(&["--yes", "-m", "demo/script"]).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(format!("{TASK}\n").as_bytes()).unwrap();
    said(child.wait_with_output().unwrap()).exits(0);
    assert_eq!(user.read("insights.md"), INSIGHTS);
    let thread = user.events()[0]["thread"].as_str().unwrap().to_owned();
    let mut child = user.command(&["--thread", &thread]).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"hello\n").unwrap();
    said(child.wait_with_output().unwrap()).exits(0);
    assert_eq!(count(&user.events(), "run.started"), 2, "one conversation");
    let unknown = user.run(&["--colour"]).exits(2);
    assert!(unknown.err.contains("unexpected argument '--colour'"), "{unknown:#?}");
}

#[test]
fn a_task_continues_the_newest_conversation_or_one_that_is_named() {
    let user = User::new();
    let none = user.run(&["run", "--continue", "hello"]).exits(2);
    assert!(none.err.contains("no conversation in the folder"), "{none:#?}");
    user.run(&["run", "hello"]).exits(0);
    user.run(&["run", "--continue", "and again"]).exits(0);
    let events = user.events();
    assert_eq!((count(&events, "thread.created"), count(&events, "run.started")), (1, 2));
    let thread = events[0]["thread"].as_str().unwrap().to_owned();
    user.run(&["run", "another one"]).exits(0);
    user.run(&["run", "--thread", &thread, "back"]).exits(0);
    assert_eq!(count(&user.events(), "run.started"), 3);
}

#[test]
fn a_reader_that_is_gone_is_no_panic() {
    let user = User::new();
    let mut child = user.command(&["run", "--yes", "--stream-json", TASK]).spawn().unwrap();
    drop(child.stdout.take());
    let said = said(child.wait_with_output().unwrap()).exits(0);
    assert!(!said.err.contains("panic"), "{said:#?}");
    assert_eq!(user.read("insights.md"), INSIGHTS);
}

#[test]
fn the_help_is_short() {
    let user = User::new();
    insta::assert_snapshot!(user.run(&["--help"]).exits(0).out);
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(user.run(&["completions", shell]).exits(0).out.contains("resume"), "{shell}");
    }
}
