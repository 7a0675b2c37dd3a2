//! Input that is piped into `run` beside a task is attached as a file.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::{Said, User, said};

/// Runs a task with bytes on a pipe.
fn piped(user: &User, bytes: &[u8]) -> Said {
    piped_into(user, &["run", "what is in this?"], bytes)
}

/// Runs a command with bytes on a pipe.
fn piped_into(user: &User, arguments: &[&str], bytes: &[u8]) -> Said {
    let mut child = user.command(arguments).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(bytes).unwrap();
    said(child.wait_with_output().unwrap())
}

/// The blocks of the last received message.
fn blocks(user: &User) -> Vec<Value> {
    let events = user.events();
    let message = events.iter().rfind(|event| event["type"] == "message.received").unwrap();
    message["message"]["blocks"].as_array().unwrap().clone()
}

#[test]
fn a_pipe_beside_a_task_is_attached() {
    let user = User::new();
    let said = piped(&user, b"a,b\n1,2\n").exits(0);
    assert!(said.err.contains("attached standard input: text/plain, 8 bytes"), "{said:#?}");
    let sent = blocks(&user);
    assert_eq!((&sent[0]["text"], &sent[1]["name"]), (&"what is in this?".into(), &"stdin".into()));
    assert_eq!(sent[1]["blob"]["size_bytes"], 8);
    let said = piped(&user, b"\x89PNG\r\n\x1a\nrest").exits(0);
    assert!(said.err.contains("attached standard input: image/png, 12 bytes"), "{said:#?}");
    assert_eq!(blocks(&user)[1]["kind"], "image");
    let said = piped(&user, b"\x00\x01\x02").exits(0);
    assert!(said.err.contains("attached standard input: application/octet-stream, 3 bytes"), "{said:#?}");
}

#[test]
fn a_file_on_standard_input_is_attached_and_nothing_else_is_read() {
    let user = User::new();
    let from = |input: Stdio| {
        let mut command = user.command(&["run", "what is in this?"]);
        super::said(command.stdin(input).output().unwrap()).exits(0)
    };
    let said = from(File::open(user.folder().join("data.csv")).unwrap().into());
    assert!(said.err.contains("attached standard input: text/plain, 26 bytes"), "{said:#?}");
    let silent = [from(Stdio::null()), piped(&user, b"").exits(0)];
    for said in silent {
        assert!(!said.err.contains("standard input"), "{said:#?}");
        assert_eq!(blocks(&user).len(), 1);
    }
    // A service manager or a program may start the command with a closed standard input.
    let mut closed = Command::new("/bin/sh");
    let run = user.command(&["run", "what is in this?"]);
    closed.args(["-c", "exec \"$0\" \"$@\" <&-"]).arg(run.get_program()).args(run.get_args());
    closed
        .current_dir(user.folder())
        .env_clear()
        .envs(run.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let closed = super::said(closed.output().unwrap()).exits(0);
    assert!(!closed.err.contains("standard input"), "{closed:#?}");
}

#[test]
fn input_that_is_too_large_is_refused_before_anything_runs() {
    let user = User::new();
    user.configure("[files]\nmax_bytes = 10\n");
    let said = piped(&user, b"01234567890").exits(2);
    let wanted = "error: standard input is larger than 10 bytes and cannot be attached\n\
        hint: put it into a file in the working folder, and name the file in the task\n";
    assert!(said.err.contains(wanted), "{said:#?}");
    piped(&user, b"0123456789").exits(0);
}

#[test]
fn a_pipe_that_stays_silent_is_named() {
    let user = User::new();
    let mut child = user.command(&["run", "what is in this?"]).stdin(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line == "reading standard input to attach it to the task"));
    assert_eq!(lines.next().unwrap(), "hint: `< /dev/null` runs the task without it");
    child.stdin.take().unwrap().write_all(b"late").unwrap();
    assert!(lines.any(|line| line == "attached standard input: text/plain, 4 bytes"));
    assert!(lines.count() > 0);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_message_on_a_pipe_that_begins_as_a_command_is_a_message() {
    let user = User::new();
    let said = piped_into(&user, &["chat"], b"![a picture](x.png)\n").exits(0);
    assert!(!said.err.contains("commands are disabled"), "{said:#?}");
    assert_eq!(blocks(&user)[0]["text"], "![a picture](x.png)");
}

#[test]
fn a_message_on_a_pipe_that_is_no_utf_8_is_refused() {
    let user = User::new();
    let said = piped_into(&user, &["chat"], b"caf\xe9\n").exits(2);
    assert!(said.err.contains("a message on standard input is not valid UTF-8"), "{said:#?}");
}
