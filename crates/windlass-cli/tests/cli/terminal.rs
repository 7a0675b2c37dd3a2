//! A command on a pseudo-terminal, with a person's input and output.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde_json::json;

use super::approvals::audited;
use super::model::{Model, Turn};
use super::{INSIGHTS, TASK, User, count, mode};

/// Time-out for a text to appear. It is long, because a busy machine is slow.
const PATIENCE_MS: i32 = 60_000;

/// A command on a pseudo-terminal.
pub struct Terminal {
    screen: File,
    child: Child,
    seen: String,
    read_to: usize,
}

impl Terminal {
    pub fn start(user: &User, arguments: &[&str]) -> Self {
        Self::open(user.command(arguments))
    }

    /// Starts a chat in line mode.
    pub fn plain(mut command: Command) -> Self {
        command.arg("--lines").env("NO_COLOR", "1");
        Self::open(command)
    }

    /// Starts a command on a terminal without a known width.
    pub fn open(command: Command) -> Self {
        Self::sized(command, 0, 0)
    }

    /// Starts a command on a terminal of a given size.
    pub fn sized(mut command: Command, columns: u16, rows: u16) -> Self {
        let (mut outer, mut inner) = (0, 0);
        let none = std::ptr::null_mut();
        let mut size = size(columns, rows);
        // SAFETY: the call fills the two numbers; the size is valid, and the other pointers may be null.
        let made = unsafe { libc::openpty(&mut outer, &mut inner, none, none.cast(), &raw mut size) };
        assert_eq!(made, 0);
        // SAFETY: both descriptors were just opened and have no other owner.
        let (outer, inner) = unsafe { (OwnedFd::from_raw_fd(outer), OwnedFd::from_raw_fd(inner)) };
        // A process that inherits the outer end would never see the terminal close.
        // SAFETY: plain system calls about open descriptors.
        unsafe {
            libc::fcntl(outer.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC);
            libc::fcntl(inner.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC);
        }
        let stream = || Stdio::from(inner.try_clone().unwrap());
        command.stdin(stream()).stdout(stream()).stderr(stream());
        if command.get_envs().all(|(name, _)| name != "TERM") {
            command.env("TERM", "xterm");
        }
        // SAFETY: only system calls that are allowed between fork and exec. The terminal becomes the controlling
        // terminal, so that Ctrl-C arrives as a signal.
        unsafe {
            command.pre_exec(|| {
                libc::setsid();
                libc::ioctl(0, libc::TIOCSCTTY, 0);
                Ok(())
            });
        }
        let child = command.spawn().unwrap();
        Self { screen: File::from(outer), child, seen: String::new(), read_to: 0 }
    }

    /// Waits until a text appears after the previously awaited one.
    pub fn until(&mut self, text: &str) -> &mut Self {
        loop {
            if let Some(at) = self.seen[self.read_to..].find(text) {
                self.read_to += at + text.len();
                return self;
            }
            self.more(text);
        }
    }

    /// Waits for more output. `expected` is for the failure message.
    pub fn more(&mut self, expected: &str) -> Vec<u8> {
        let mut bytes = vec![0; 4096];
        assert!(self.has_more(), "`{expected}` has not come yet: {}", self.seen);
        // Reading fails after the process has closed the terminal.
        let count = self.screen.read(&mut bytes).unwrap_or(0);
        assert!(count > 0, "`{expected}` never came: {}", self.seen);
        bytes.truncate(count);
        self.seen.push_str(&String::from_utf8_lossy(&bytes));
        bytes
    }

    /// Changes the terminal's size, which sends a signal to the process.
    pub fn resize(&self, columns: u16, rows: u16) {
        let size = size(columns, rows);
        // SAFETY: a plain system call with a valid pointer.
        let done = unsafe { libc::ioctl(self.screen.as_raw_fd(), libc::TIOCSWINSZ, &size) };
        assert_eq!(done, 0);
    }

    /// Kills the process.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Closes the terminal. Returns the exit code.
    pub fn hang_up(&mut self) -> Option<i32> {
        self.screen = File::open("/dev/null").unwrap();
        self.wait()
    }

    /// Waits for the process to end. Returns its exit code.
    pub fn wait(&mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }

    /// Waits until there is more to read or the process has ended, up to a time-out.
    fn has_more(&self) -> bool {
        let mut wanted = libc::pollfd { fd: self.screen.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: the pointer is to one valid `pollfd`, and the count is 1.
        unsafe { libc::poll(&mut wanted, 1, PATIENCE_MS) > 0 }
    }

    pub fn enter(&mut self, text: &str) -> &mut Self {
        self.screen.write_all(text.as_bytes()).unwrap();
        self
    }

    pub fn signal(&mut self, signal: i32) -> &mut Self {
        // SAFETY: a plain system call about a child that has not been waited for.
        let sent = unsafe { libc::kill(i32::try_from(self.child.id()).unwrap(), signal) };
        assert_eq!(sent, 0);
        self
    }

    /// The terminal's local, input and output flags.
    pub fn modes(&self) -> (libc::tcflag_t, libc::tcflag_t, libc::tcflag_t) {
        let mut modes = std::mem::MaybeUninit::<libc::termios>::uninit();
        // SAFETY: the pointer is valid for the call, which fills the structure.
        let modes = unsafe {
            assert_eq!(libc::tcgetattr(self.screen.as_raw_fd(), modes.as_mut_ptr()), 0);
            modes.assume_init()
        };
        (modes.c_lflag, modes.c_iflag, modes.c_oflag)
    }

    /// Reads to the end. Returns the exit code and all output.
    pub fn end(&mut self) -> (Option<i32>, String) {
        let mut bytes = [0; 4096];
        while let Ok(count) = self.screen.read(&mut bytes)
            && count > 0
        {
            self.seen.push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
        (self.child.wait().unwrap().code(), self.seen.clone())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Needed if the test failed; killing an ended process has no effect.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn size(columns: u16, rows: u16) -> libc::winsize {
    libc::winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}

pub const APPROVE: &str = "[a]pprove once, [e]dit, [d]eny, [g]rant, [v]iew all, [s]top the run: ";

#[test]
fn a_person_sees_the_whole_call_and_approves_it() {
    let user = User::new();
    let mut terminal = Terminal::start(&user, &["run", TASK]);
    terminal.until("Write insights.md (new file, 5 lines, 168 bytes)");
    terminal.until("+- the largest `people` is in the row `Rome`").until(APPROVE);
    // Only the listed choices approve.
    terminal.enter("yes\n").until(APPROVE).enter("\n").until(APPROVE);
    assert_eq!(user.read("insights.md"), "");
    terminal.enter("a\n").until("approved once").until("Done. `insights.md`");
    let (code, seen) = terminal.end();
    assert_eq!(code, Some(0), "{seen}");
    assert!(seen.contains("\x1b["), "colours on a terminal");
    assert_eq!(user.read("insights.md"), INSIGHTS);
    assert_eq!(audited(&user), json!([["local", "terminal", "approve", "Write"]]));
}

#[test]
fn a_denial_carries_its_reason_to_the_model() {
    let user = User::new();
    let mut terminal = Terminal::start(&user, &["run", TASK]);
    terminal.until(APPROVE).enter("d\n").until("reason (optional").enter("wrong file\n");
    terminal.until("denied: wrong file").until("was not written");
    let (code, seen) = terminal.end();
    assert_eq!(code, Some(0));
    assert_eq!(seen.matches("was not written").count(), 1, "the answer is printed once: {seen}");
    assert_eq!(user.read("insights.md"), "");
}

#[test]
fn an_answer_from_another_terminal_ends_the_question() {
    let user = User::new();
    let mut terminal = Terminal::start(&user, &["run", TASK]);
    terminal.until(APPROVE);
    let opened = user.events().into_iter().find(|event| event["type"] == "interrupt.opened").unwrap();
    let interrupt = opened["interrupt"].as_str().unwrap();
    user.run(&["approvals", "approve", interrupt, "--json"]).exits(0);
    terminal.until("answered elsewhere").until("Done.");
    assert_eq!(terminal.end().0, Some(0));
    assert_eq!(user.read("insights.md"), INSIGHTS);
}

#[test]
fn ctrl_c_at_a_question_leaves_the_run_waiting() {
    let user = User::new();
    let mut terminal = Terminal::start(&user, &["run", TASK]);
    terminal.until(APPROVE).enter("\x03").until("the run is saved").until("windlass resume run_");
    assert_eq!(terminal.end().0, Some(3));
    assert_eq!(count(&user.events(), "cancel.requested"), 0);
    let mut terminal = Terminal::start(&user, &["resume"]);
    terminal.until(APPROVE).enter("a\n").until("Done.");
    assert_eq!(terminal.end().0, Some(0));
    assert_eq!(user.read("insights.md"), INSIGHTS);
}

#[test]
fn ctrl_c_at_a_question_of_a_chat_returns_to_the_prompt_and_the_next_message_asks_again() {
    let user = User::new();
    let mut terminal = Terminal::plain(user.command(&["chat"]));
    terminal.until("› ").enter(&format!("{TASK}\r")).until(APPROVE).enter("\x03");
    terminal.until("the run is saved").until("/continue or your next message asks again").until("› ");
    terminal.enter("/continue\r").until(APPROVE).enter("\x03").until("the run is saved").until("› ");
    terminal.enter("and then?\r").until(APPROVE).enter("a\n").until("approved once").until("Done.");
    terminal.until("› and then?").until("I am the demo model").until("› ").enter("/quit\r");
    assert_eq!(terminal.end().0, Some(0));
    assert_eq!(user.read("insights.md"), INSIGHTS);
    assert_eq!(count(&user.events(), "cancel.requested"), 0);
}

#[test]
fn a_second_ctrl_c_leaves_the_chat_and_its_run_still_waits() {
    let user = User::new();
    let mut terminal = Terminal::plain(user.command(&["chat"]));
    terminal.until("› ").enter(&format!("{TASK}\r")).until(APPROVE).enter("\x03");
    terminal.until("the run is saved").until("› ").enter("\x03").until("Ctrl-C again").until("› ");
    terminal.enter("\x03");
    assert_eq!(terminal.end().0, Some(0));
    let mut terminal = Terminal::plain(user.command(&["chat", "--continue"]));
    terminal.until(APPROVE).enter("a\n").until("Done.").until("› ").enter("/quit\r");
    assert_eq!(terminal.end().0, Some(0));
    assert_eq!(user.read("insights.md"), INSIGHTS);
}

#[test]
fn a_message_queued_behind_a_run_that_is_interrupted_returns_to_the_input() {
    let user = User::new();
    let held = Arc::new(OnceLock::new());
    let begun = vec![json!({ "content": "Wait for it" }), json!({ "content": " ended" })];
    let model = Model::start(vec![Turn::Held(held.clone(), begun)]);
    let mut terminal = Terminal::plain(model.command(&user, &["chat"]));
    terminal.until("› ").enter("go\r").until("Wait for it").enter("what about East?\n");
    terminal.until("queued: sent when this run finishes").enter("\x03").until("not sent: what about East?");
    held.set(()).unwrap();
    terminal.until("› what about East?").enter("\r").until("1 step · ").until("› ").enter("/quit\r");
    assert_eq!(terminal.end().0, Some(0));
    let events = user.events();
    assert_eq!((count(&events, "message.withdrawn"), count(&events, "message.received")), (1, 2));
}

#[test]
fn a_conversation_is_picked_from_a_list() {
    let user = User::new();
    user.run(&["run", "the first"]).exits(0);
    user.run(&["run", "the second"]).exits(0);
    let mut terminal = Terminal::plain(user.command(&["chat"]));
    terminal.until("› ").enter("/resume\r").until("  1  the second").until("  2  the first");
    terminal.until("`/resume N` continues conversation N").until("› ").enter("/resume 3\r");
    terminal.until("no conversation 3").until("› ").enter("/resume 2\r");
    terminal.until("I am the demo model").until("› ").enter("and then\r").until("I am the demo model");
    terminal.until("› ").enter("/quit\r");
    assert_eq!(terminal.end().0, Some(0));
    let said = user.run(&["threads", "show"]).exits(0).out;
    assert!(said.contains("the first") && said.contains("and then"), "{said}");
}

#[test]
fn a_person_trusts_a_folders_file_until_it_changes() {
    let user = User::new();
    let file = user.folder().join("windlass.toml");
    std::fs::write(&file, "[agent]\nname = 'mine'\n[agent.limits]\nmax_steps = 2\n").unwrap();
    let mut terminal = Terminal::start(&user, &["trust"]);
    terminal.until("max_steps = 2").until("[y/N] ").enter("y\n").until("is trusted until it changes");
    assert_eq!(terminal.end().0, Some(0));
    let list = user.home().join("data/windlass/trusted.json");
    assert_eq!(mode(&list), 0o600);
    let said = user.run(&["run", "--yes", TASK]).exits(1);
    assert!(said.err.contains("`ERR_MAX_TURNS`"), "the folder's limit counts: {said:#?}");
    std::fs::write(&file, "[agent.limits]\nmax_steps = 3\n").unwrap();
    let said = user.run(&["run", "--yes", TASK]).exits(0);
    assert!(said.err.contains("has changed since it was trusted and is ignored"), "{said:#?}");
    user.run(&["trust", "--revoke"]).exits(0);
    assert!(user.run(&["trust", "--list"]).err.contains("no folder is trusted"));
}

#[test]
fn what_is_typed_during_a_run_is_sent_after_it() {
    let user = User::new();
    let mut terminal = Terminal::plain(user.command(&["chat"]));
    terminal.until("› ").enter("hello\r").until("I am the demo model");
    terminal.enter("and again\n").until("queued: sent when this run finishes");
    terminal.until("› and again").until("I am the demo model").until("1 step · ");
    terminal.until("› ").enter("/quit\r");
    let (code, seen) = terminal.end();
    assert_eq!(code, Some(0), "{seen}");
    let events = user.events();
    assert_eq!((count(&events, "message.queued"), count(&events, "run.finished")), (1, 2));
}

#[test]
fn an_export_to_the_screen_steers_nothing_and_one_to_a_file_is_whole() {
    let user = User::new();
    let task = "odd \u{1b}[2J\u{9b}2J text";
    user.run(&["run", task]).exits(0);
    for arguments in [&["threads", "export", "--markdown"][..], &["threads", "export"], &["threads", "list"]]
    {
        let (code, seen) = Terminal::start(&user, arguments).end();
        assert_eq!(code, Some(0), "{seen}");
        assert!(!seen.contains("\u{1b}[2J") && !seen.contains('\u{9b}') && seen.contains("odd"), "{seen}");
    }
    user.run(&["threads", "export", "--markdown", "-o", "out.md"]).exits(0);
    assert!(user.read("out.md").contains(task));
    let json = user.run(&["threads", "export"]).exits(0).out;
    assert!(!json.contains('\u{9b}') && json.contains("odd \\u001b[2J\\u009b2J text"), "{json}");
}

#[test]
fn a_chat_continues_a_thread_with_a_waiting_run() {
    let user = User::new();
    user.run(&["run", TASK]).exits(3);
    let thread = user.events()[0]["thread"].as_str().unwrap().to_owned();
    let mut terminal = Terminal::plain(user.command(&["chat", "--thread", &thread]));
    terminal.until(APPROVE).enter("a\n").until("approved once").until("› ");
    terminal.enter("hello\r").until("I am the demo model").until("› ").enter("/quit\r");
    assert_eq!(terminal.end().0, Some(0));
    assert_eq!(user.read("insights.md"), INSIGHTS);
}

#[test]
fn a_message_behind_a_run_that_is_stopped_is_not_sent() {
    let user = User::new();
    user.run(&["run", TASK]).exits(3);
    let thread = user.events()[0]["thread"].as_str().unwrap().to_owned();
    let mut terminal = Terminal::plain(user.command(&["chat", "--thread", &thread]));
    terminal.until(APPROVE).enter("\x03").until("› ");
    terminal.enter("hello\r").until(APPROVE).enter("s\n").until("not sent: hello");
    terminal.until("› hello").enter("\x15/quit\r");
    assert_eq!(terminal.end().0, Some(0));
    assert_eq!(count(&user.events(), "message.withdrawn"), 1);
}

#[test]
fn ctrl_d_at_a_question_leaves_the_run_as_it_is() {
    let user = User::new();
    let mut terminal = Terminal::start(&user, &["run", TASK]);
    terminal.until(APPROVE).enter("\x04").until("the run is saved");
    assert_eq!(terminal.end().0, Some(3));
    let mut terminal = Terminal::plain(user.command(&["chat"]));
    terminal.until("› ").enter(&format!("{TASK}\r")).until(APPROVE).enter("\x04");
    terminal.until("the run is saved");
    assert_eq!(terminal.end().0, Some(3));
}

#[test]
fn a_signal_ends_a_chat_at_its_prompt_and_leaves_the_terminal_as_it_was() {
    let user = User::new();
    let mut terminal = Terminal::plain(user.command(&["chat"]));
    let before = terminal.modes();
    terminal.until("› ");
    while terminal.modes() == before {
        std::thread::yield_now();
    }
    terminal.signal(libc::SIGTERM).until("\x1b[?2004l");
    assert_eq!(terminal.child.wait().unwrap().code(), Some(143));
    assert_eq!(terminal.modes(), before);
}

#[test]
fn ctrl_c_twice_leaves_a_chat() {
    let user = User::new();
    let mut terminal = Terminal::plain(user.command(&["chat"]));
    terminal
        .until("› ")
        .enter("\x03")
        .until("press Ctrl-C again or type /quit to leave")
        .until("› ")
        .enter("\x03");
    assert_eq!(terminal.end().0, Some(0));
}

#[test]
fn a_chat_on_a_terminal_that_cannot_move_its_cursor_reads_lines() {
    let user = User::new();
    let mut command = user.command(&["chat"]);
    command.env("TERM", "dumb");
    let mut terminal = Terminal::open(command);
    terminal.until("› ").enter("hello\n").until(" step · ").until("› ").enter("/quit\n");
    let (code, seen) = terminal.end();
    assert!(!seen.contains('\x1b'), "{seen:?}");
    assert_eq!(code, Some(0));
}

#[test]
fn a_terminal_that_cannot_move_its_cursor_is_sent_text_alone() {
    let user = User::new();
    // Long enough for a status line before the first chunk.
    let slow = Turn::spoken(Duration::from_millis(600), "Done.", 5);
    let mut command = Model::start(vec![slow]).command(&user, &["run", "go"]);
    command.env("TERM", "dumb");
    let mut terminal = Terminal::open(command);
    terminal.until("Done.");
    let (code, seen) = terminal.end();
    assert!(!seen.contains('\x1b'), "{seen:?}");
    assert_eq!(code, Some(0));
}
