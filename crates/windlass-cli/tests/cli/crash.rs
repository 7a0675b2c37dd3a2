//! Processes that are killed, and the runs that `resume` continues.

use std::io::{BufRead, BufReader};
use std::process::Child;

use serde_json::Value;

use super::{INSIGHTS, Said, TASK, User, count};

/// Reads a process's lines until one satisfies a condition.
fn until(child: &mut Child, wanted: impl Fn(&Value) -> bool) {
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let found = lines.any(|line| wanted(&serde_json::from_str(&line.unwrap()).unwrap()));
    assert!(found, "the process ended before");
}

fn is(kind: &'static str, step: u64) -> impl Fn(&Value) -> bool {
    move |line| line["type"] == kind && line["step"] == step
}

#[cfg(unix)]
fn signal(child: &Child, signal: i32) {
    // SAFETY: a plain system call about a child that has not been waited for.
    let sent = unsafe { libc::kill(i32::try_from(child.id()).unwrap(), signal) };
    assert_eq!(sent, 0);
}

fn end(child: Child) -> Said {
    super::said(child.wait_with_output().unwrap())
}

/// Kills a run at a given moment, and resumes it.
fn check(moment: impl Fn(&Value) -> bool) {
    let user = User::new();
    let mut child = user.start(&["run", "--yes", "--stream-json", TASK]);
    until(&mut child, moment);
    child.kill().unwrap();
    child.wait().unwrap();
    let said = user.run(&["resume", "--yes"]).exits(0);
    assert!(said.err.contains("resuming run "), "{said:#?}");
    assert!(said.out.starts_with("Done. `insights.md`"), "{said:#?}");
    assert_eq!(user.read("insights.md"), INSIGHTS);
    let events = user.events();
    assert_eq!(count(&events, "run.started"), 1);
    assert_eq!(count(&events, "run.finished"), 1);
    assert_eq!(count(&events, "step.replied"), 4, "no recorded reply is asked for again");
    assert_eq!(count(&events, "tool.finished"), 3, "every call has one result");
}

#[test]
fn killed_while_the_model_speaks() {
    check(|line| line["type"] == "message.delta" && line["seq"].as_u64() > Some(8));
}

#[test]
fn killed_when_a_reply_was_recorded() {
    check(is("step.replied", 2));
}

#[test]
fn killed_when_a_write_was_started() {
    check(is("tool.started", 3));
}

#[test]
#[cfg(unix)]
fn a_terminated_process_prints_how_to_resume() {
    let user = User::new();
    let mut child = user.start(&["run", "--yes", "--stream-json", TASK]);
    until(&mut child, is("step.replied", 1));
    signal(&child, libc::SIGTERM);
    let said = end(child).exits(143);
    assert!(said.err.contains("the run is saved\nhint: `windlass resume run_"), "{said:#?}");
    user.run(&["resume", "--yes"]).exits(0);
    assert_eq!(user.read("insights.md"), INSIGHTS);
}

#[test]
#[cfg(unix)]
fn the_first_ctrl_c_cancels_the_run() {
    let user = User::new();
    let mut child = user.start(&["run", "--yes", "--stream-json", TASK]);
    until(&mut child, is("step.replied", 1));
    signal(&child, libc::SIGINT);
    end(child).exits(4);
    assert_eq!(user.read("insights.md"), "");
    let events = user.events();
    assert_eq!((count(&events, "cancel.requested"), count(&events, "run.finished")), (1, 1));
}

#[test]
fn a_second_process_follows_what_a_first_one_drives() {
    let user = User::new();
    let mut first = user.start(&["run", "--yes", "--stream-json", TASK]);
    let mut lines = BufReader::new(first.stdout.take().unwrap()).lines();
    let started = lines.any(|line| line.unwrap().contains("step.started"));
    assert!(started);
    let second = user.run(&["resume", "--json"]).exits(0);
    assert!(second.err.contains("another process drives it; following run"), "{second:#?}");
    assert_eq!(second.json()["status"], "done");
    lines.for_each(drop);
    end(first).exits(0);
    assert_eq!(count(&user.events(), "step.started"), 4, "one of them drove it");
}

#[test]
fn a_follower_takes_over_from_a_process_that_dies() {
    let user = User::new();
    let mut first = user.start(&["run", "--yes", "--stream-json", TASK]);
    until(&mut first, is("step.replied", 1));
    let mut second = user.start(&["resume", "--yes", "--stream-json"]);
    until(&mut second, is("step.replied", 1));
    first.kill().unwrap();
    first.wait().unwrap();
    end(second).exits(0);
    assert_eq!(user.read("insights.md"), INSIGHTS);
    assert_eq!(count(&user.events(), "run.finished"), 1);
}
