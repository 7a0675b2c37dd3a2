//! Waiting runs: without a terminal the command prints how to answer, and any terminal can answer.

use std::io::Write;

use serde_json::{Value, json};

use super::{INSIGHTS, TASK, User, count};

/// Starts the task without a terminal; it waits for the approval of its write.
fn waiting(user: &User) -> (String, String) {
    let said = user.run(&["run", "--json", TASK]).exits(3);
    let outcome = said.json();
    assert_eq!(outcome["status"], "paused");
    assert_eq!(user.read("insights.md"), "", "nothing is written before an approval");
    let open: &Value = &outcome["meta"]["interrupts"][0];
    assert_eq!(open["tool"], "Write");
    assert!(
        open["arguments"].as_str().unwrap().contains("Insights from data.csv"),
        "the arguments are whole"
    );
    (outcome["runId"].as_str().unwrap().into(), open["interrupt"].as_str().unwrap().into())
}

#[test]
fn without_a_terminal_a_run_waits_and_an_answer_finishes_it() {
    let user = User::new();
    let (run, interrupt) = waiting(&user);
    let said = user.run(&["resume"]).exits(3);
    let hint = format!("`windlass approvals approve {interrupt}` (or `edit`, `deny`)");
    assert!(said.err.contains(&hint), "{said:#?}");
    let said = user.run(&["approvals", "approve", &interrupt]).exits(0);
    assert!(said.out.contains("Done. `insights.md` now holds"), "{said:#?}");
    assert_eq!(user.read("insights.md"), INSIGHTS);
    let late = user.run(&["approvals", "approve", &interrupt]).exits(2);
    let words = format!("too late: `{interrupt}` was approved by local, and the run has ended (done)");
    assert!(late.err.contains(&words), "{late:#?}");
    let again = user.run(&["resume", &run, "--json"]).exits(0);
    assert_eq!(again.json()["status"], "done");
    assert_eq!(count(&user.events(), "run.started"), 1);
}

#[test]
fn an_answer_that_is_only_left_counts_at_the_next_resume() {
    let user = User::new();
    let (run, interrupt) = waiting(&user);
    user.run(&["approvals", "deny", &interrupt, "--reason", "not today", "--no-drive"]).exits(0);
    assert_eq!(count(&user.events(), "interrupt.closed"), 0, "no process drove it");
    let said = user.run(&["resume", &run[run.len() - 6..]]).exits(0);
    assert!(said.out.contains("not today"), "{said:#?}");
    assert_eq!(user.read("insights.md"), "");
    let events = user.events();
    let closed = events.iter().find(|event| event["type"] == "interrupt.closed").unwrap();
    assert_eq!(closed["answer"], json!({"answer": "deny", "reason": "not today"}));
}

#[test]
fn resume_with_yes_approves_what_waits() {
    let user = User::new();
    waiting(&user);
    user.run(&["resume", "--yes"]).exits(0);
    assert_eq!(user.read("insights.md"), INSIGHTS);
}

#[test]
fn a_wrong_answer_is_refused_with_the_right_words() {
    let user = User::new();
    let (_, interrupt) = waiting(&user);
    let said = user.run(&["approvals", "answer", &interrupt, "--retry"]).exits(2);
    assert!(said.err.contains("accepts `approve`, `edit` or `deny`"), "{said:#?}");
    let said = user.run(&["approvals", "approve", "run_nonsense.1.0"]).exits(2);
    assert!(said.err.contains("no open request `run_nonsense.1.0`\nhint: "), "{said:#?}");
}

// rows: LM-X14
#[test]
fn a_waiting_run_can_be_cancelled() {
    let user = User::new();
    let (run, _) = waiting(&user);
    let said = user.run(&["cancel"]).exits(0);
    assert!(said.err.contains(&format!("run {run}: cancelled")), "{said:#?}");
    let said = user.run(&["resume", &run, "--json"]).exits(4);
    let outcome = said.json();
    assert_eq!((&outcome["status"], &outcome["meta"]["cancelled"]), (&json!("cancelled"), &json!(true)));
    assert_eq!(outcome["errors"][0]["code"], "CANCELLED");
    let none = user.run(&["resume"]).exits(2);
    assert!(none.err.contains("no unfinished run"), "{none:#?}");
}

#[test]
fn in_a_pipe_chat_ends_where_a_run_waits() {
    let user = User::new();
    let mut child = user.command(&["chat"]).stdin(std::process::Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(format!("{TASK}\n").as_bytes()).unwrap();
    let said = super::said(child.wait_with_output().unwrap()).exits(3);
    assert!(said.err.contains("waiting: the run waits for an answer"), "{said:#?}");
}

#[test]
fn in_a_pipe_chat_says_what_its_thread_waits_for() {
    let user = User::new();
    let (_, interrupt) = waiting(&user);
    let thread = user.events()[0]["thread"].as_str().unwrap().to_owned();
    let chat = ["chat", "--thread", &thread];
    let mut child = user.command(&chat).stdin(std::process::Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"hello\n").unwrap();
    let said = super::said(child.wait_with_output().unwrap()).exits(3);
    let hint = format!("`windlass approvals approve {interrupt}` (or `edit`, `deny`)");
    assert!(said.err.contains(&hint), "{said:#?}");
    // The message stays queued, and is sent after that run.
    user.run(&["approvals", "approve", &interrupt]).exits(0);
    assert_eq!(count(&user.events(), "message.taken"), 1);
}

#[cfg(unix)]
#[test]
fn in_a_pipe_chat_heeds_signals_while_it_reads() {
    for (signal, code) in [(libc::SIGINT, 130), (libc::SIGTERM, 143)] {
        let user = User::new();
        let mut child = user.command(&["chat"]).stdin(std::process::Stdio::piped()).spawn().unwrap();
        // After the first answer, the chat reads the next line.
        let mut lines = child.stdin.take().unwrap();
        lines.write_all(b"hello\n").unwrap();
        let mut answer = String::new();
        let mut out = std::io::BufReader::new(child.stdout.take().unwrap());
        std::io::BufRead::read_line(&mut out, &mut answer).unwrap();
        // SAFETY: a plain system call about a child that has not been waited for.
        unsafe { libc::kill(i32::try_from(child.id()).unwrap(), signal) };
        let ended = child.wait().unwrap().code();
        assert!(answer.contains("demo model") && ended == Some(code), "{answer} {ended:?}");
    }
}
