//! A chat's screen: a terminal emulator interprets the program's output, and each test waits for the text that a person
//! would wait for.

use std::process::Command;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde_json::json;

use super::model::{Model, Turn};
use super::terminal::Terminal;
use super::{INSIGHTS, TASK, User, count};

/// High enough that no counted row scrolls out.
const ROWS: u16 = 70;

/// A terminal with an emulated screen.
struct Screen {
    terminal: Terminal,
    emulator: vt100::Parser,
}

impl Screen {
    fn start(command: Command, columns: u16) -> Self {
        let emulator = vt100::Parser::new(ROWS, columns, 0);
        Self { terminal: Terminal::sized(command, columns, ROWS), emulator }
    }

    /// The non-empty rows, without trailing spaces.
    fn rows(&self) -> Vec<String> {
        let (_, columns) = self.emulator.screen().size();
        let rows = self.emulator.screen().rows(0, columns);
        rows.map(|row| row.trim_end().to_owned()).filter(|row| !row.is_empty()).collect()
    }

    /// Waits until the rows satisfy a condition.
    fn until(&mut self, what: &str, is_so: impl Fn(&[String]) -> bool) -> &mut Self {
        loop {
            let rows = self.rows();
            if is_so(&rows) {
                return self;
            }
            let bytes = self.terminal.more(&format!("{what}: {rows:#?}"));
            self.emulator.process(&bytes);
        }
    }

    /// Waits until a text is on the screen, regardless of line breaks.
    fn shows(&mut self, text: &str) -> &mut Self {
        self.until(text, |rows| words(rows).contains(text))
    }

    /// Waits until the input contains a text.
    fn input(&mut self, text: &str) -> &mut Self {
        let wanted = format!("› {text}").trim_end().to_owned();
        self.until(&wanted, |rows| {
            // The status line is the last one, and the input is above it.
            rows.len() > 1 && rows[rows.len() - 2] == wanted
        })
    }

    /// Waits until this many runs have ended.
    fn ended(&mut self, runs: usize) -> &mut Self {
        self.until("the runs' figures", |rows| {
            rows.iter().filter(|row| row.contains(" step · ") || row.contains(" steps · ")).count() >= runs
        })
    }

    fn keys(&mut self, keys: &str) -> &mut Self {
        self.terminal.enter(keys);
        self
    }

    fn resize(&mut self, columns: u16) -> &mut Self {
        self.emulator.screen_mut().set_size(ROWS, columns);
        self.terminal.resize(columns, ROWS);
        self
    }

    /// Leaves the chat and returns its exit code.
    fn quit(&mut self) -> Option<i32> {
        self.keys("/quit\r");
        self.terminal.end().0
    }
}

/// The text of some rows, with whitespace normalized.
fn words(rows: &[String]) -> String {
    let words: Vec<&str> = rows.iter().flat_map(|row| row.split_whitespace()).collect();
    words.join(" ")
}

fn chat(user: &User, columns: u16) -> Screen {
    Screen::start(user.command(&["chat"]), columns)
}

/// A model that sends the beginning of a reply, and its end once it is released.
fn held(begin: &str, end: &str) -> (Arc<OnceLock<()>>, Model) {
    let held = Arc::new(OnceLock::new());
    let said = vec![json!({ "content": begin }), json!({ "content": end })];
    (held.clone(), Model::start(vec![Turn::Held(held, said)]))
}

#[test]
fn a_reply_is_rendered_and_wrapped_at_words_in_60_80_and_120_columns() {
    const REPLY: &str = "# Sales\n\nThe sales of the last quarter grew **in every region**, and most of all in the \
        northern one, where two new shops were opened.\n\n1. North: *good*\n2. South: `weak`\n\n| Region | Sales |\n\
        |---|---:|\n| North | 12 |\n\n```\ntotal = 12\n```\n";
    let paragraph = |columns| match columns {
        60 => vec![
            "The sales of the last quarter grew in every region, and",
            "most of all in the northern one, where two new shops were",
            "opened.",
        ],
        80 => vec![
            "The sales of the last quarter grew in every region, and most of all in the",
            "northern one, where two new shops were opened.",
        ],
        _ => vec![
            "The sales of the last quarter grew in every region, and most of all in the northern one, where two new shops were",
            "opened.",
        ],
    };
    for columns in [60, 80, 120] {
        let user = User::new();
        let model = Model::start(vec![Turn::spoken(Duration::ZERO, REPLY, 7)]);
        let mut screen = Screen::start(model.command(&user, &["chat"]), columns);
        screen.input("").keys("how are the sales?\r").ended(1).input("");
        let rows = screen.rows();
        let begin = rows.iter().position(|row| row == "Sales").unwrap_or_else(|| panic!("{rows:#?}"));
        let mut wanted = vec!["Sales"];
        wanted.extend(paragraph(columns));
        wanted.extend([
            "1. North: good",
            "2. South: weak",
            "Region │ Sales",
            "───────┼──────",
            "North  │    12",
        ]);
        wanted.push("  total = 12");
        assert_eq!(rows[begin..begin + wanted.len()], wanted, "{columns}: {rows:#?}");
        assert_eq!(rows.iter().filter(|row| *row == "Sales").count(), 1, "{rows:#?}");
        assert!(rows.last().unwrap().starts_with("openai-compatible/scripted · agent"), "{rows:#?}");
        assert_eq!(screen.quit(), Some(0));
    }
}

#[test]
fn what_is_typed_while_text_streams_stays_in_the_input_and_is_sent_after_it() {
    let user = User::new();
    let (held, model) = held("The sales grew by", " 12 %");
    let mut screen = Screen::start(model.command(&user, &["chat"]), 80);
    screen.input("").keys("go\r").shows("The sales grew by").keys("what about East?");
    screen
        .input("what about East?")
        .until("the reply stands by itself", |rows| rows.iter().any(|row| row == "The sales grew by"));
    screen.keys("\r").shows("queued: sent when this run finishes").input("");
    held.set(()).unwrap();
    screen.shows("The sales grew by 12 %").shows("› what about East?").shows("Done.");
    screen.ended(2).input("");
    assert_eq!(screen.quit(), Some(0));
    let events = user.events();
    assert_eq!((count(&events, "message.queued"), count(&events, "run.finished")), (1, 2));
    // Later chats share the history.
    let mut later = Screen::start(model.command(&user, &["chat"]), 80);
    later
        .input("")
        .keys("\x1b[A")
        .input("/quit")
        .keys("\x1b[A")
        .input("what about East?")
        .keys("\x15")
        .input("");
    assert_eq!(later.quit(), Some(0));
}

#[test]
fn the_terminal_is_resized_while_text_streams() {
    let user = User::new();
    let (held, model) = held("The first words of a reply that goes on", " to its end.");
    let mut screen = Screen::start(model.command(&user, &["chat"]), 80);
    screen.input("").keys("go\r").shows("a reply that goes on").keys("a draft").input("a draft");
    for columns in [60, 120, 80] {
        screen.resize(columns).keys("x").input("a draftx").keys("\x7f").input("a draft");
    }
    held.set(()).unwrap();
    screen.shows("The first words of a reply that goes on to its end.").ended(1).input("a draft");
    let shown = words(&screen.rows());
    assert_eq!(shown.matches("to its end.").count(), 1, "{shown}");
    assert_eq!(shown.matches("a draft").count(), 1, "{shown}");
    assert_eq!(screen.keys("\x03").quit(), Some(0));
}

#[test]
fn a_killed_chat_continues_its_run() {
    let user = User::new();
    let (held, model) = held("The sales grew by", " 12 %");
    let mut screen = Screen::start(model.command(&user, &["chat"]), 80);
    screen.input("").keys("how are the sales?\r").shows("The sales grew by");
    screen.terminal.kill();
    held.set(()).unwrap();
    let mut screen = Screen::start(model.command(&user, &["chat", "--continue"]), 80);
    screen
        .shows("how are the sales?")
        .shows("continuing run run_")
        .shows("The sales grew by 12 %")
        .ended(1)
        .input("");
    assert_eq!(screen.quit(), Some(0));
    assert_eq!(count(&user.events(), "run.finished"), 1);
}

#[test]
fn ctrl_c_keeps_what_was_typed_and_interrupts_only_a_run_that_works() {
    let user = User::new();
    let (_held, model) = held("The sales grew by", " 12 %");
    let mut screen = Screen::start(model.command(&user, &["chat"]), 80);
    screen.input("").keys("half a thought").input("half a thought").keys("\x03").input("");
    screen.keys("\x1b[A").input("half a thought").keys("\x15go\r").shows("The sales grew by");
    screen.keys("and East?\r").shows("queued: sent when this run finishes").input("");
    screen.keys("\x03").shows("cancelling the run").shows("cancelled").ended(1).shows("not sent: and East?");
    screen
        .input("and East?")
        .keys("\x03")
        .input("")
        .keys("\x03")
        .shows("press Ctrl-C again or type /quit to leave");
    screen.keys("\x03");
    assert_eq!(screen.terminal.end().0, Some(0));
    assert_eq!(count(&user.events(), "cancel.requested"), 1);
}

#[test]
fn ctrl_c_at_a_question_leaves_the_run_waiting_and_a_single_key_answers_it() {
    let user = User::new();
    let mut screen = chat(&user, 100);
    screen.input("").keys(&format!("{TASK}\r")).shows("[s]top the run:").input("").keys("\x03");
    screen
        .shows("the run is saved")
        .shows("/continue or your next message asks again")
        .input("")
        .keys("/con\t");
    screen
        .input("/continue")
        .keys("\r")
        .until("asked again", |rows| words(rows).matches("[s]top the run:").count() == 2);
    // A key that is not a choice is ordinary text.
    screen
        .input("")
        .keys("x")
        .input("x")
        .keys("\x7f")
        .input("")
        .shows("press a key to answer")
        .keys("a")
        .shows("approved once")
        .shows("Done.");
    screen.ended(1).input("");
    assert_eq!(screen.quit(), Some(0));
    assert_eq!(user.read("insights.md"), INSIGHTS);
    assert_eq!(count(&user.events(), "cancel.requested"), 0);
}

#[test]
fn a_message_of_several_lines_is_typed_and_pasted() {
    let user = User::new();
    let mut screen = chat(&user, 80);
    screen.input("").keys("one\\\rtwo\x1b\rthree\nfour").until("four rows", |rows| {
        let end = rows.len().saturating_sub(5);
        rows[end..].starts_with(&["› one", "  two", "  three", "  four"].map(str::to_owned))
    });
    screen.keys("\x1b[200~ five\r\nsix\x1b[201~\r").shows("I am the demo model").ended(1).input("");
    assert_eq!(screen.quit(), Some(0));
    let events = user.events();
    let message = events.iter().find(|event| event["type"] == "message.received").unwrap();
    let text = message["message"]["blocks"][0]["text"].as_str().unwrap();
    assert_eq!(text, "one\ntwo\nthree\nfour five\nsix");
}

#[test]
fn tab_completes_commands_and_files() {
    let user = User::new();
    std::fs::write(user.folder().join("date.txt"), "").unwrap();
    let mut screen = chat(&user, 80);
    screen.input("").keys("/tu\t").input("/turns").keys("\r").shows("no messages yet").input("");
    screen.keys("read @da\t").shows("@data.csv").shows("@date.txt").keys("a.\t").input("read @data.csv");
    assert_eq!(screen.keys("\x03").quit(), Some(0));
}

#[test]
fn the_terminal_is_left_as_it_was_found() {
    for leave in [None, Some(libc::SIGTERM)] {
        let user = User::new();
        let mut command = user.command(&["chat"]);
        command.env("WINDLASS_MODEL", "demo/script");
        let mut screen = Screen::start(command, 80);
        let before = screen.terminal.modes();
        screen.input("");
        assert_ne!(screen.terminal.modes(), before);
        assert!(screen.emulator.screen().bracketed_paste());
        match leave {
            None => screen.terminal.enter("/quit\r"),
            Some(signal) => screen.terminal.signal(signal),
        };
        while screen.emulator.screen().bracketed_paste() {
            let bytes = screen.terminal.more("marked pastes end");
            screen.emulator.process(&bytes);
        }
        assert_eq!(screen.terminal.wait(), Some(if leave.is_some() { 143 } else { 0 }));
        assert_eq!(screen.terminal.modes(), before);
    }
}

#[test]
fn a_terminal_that_is_gone_ends_the_chat_and_keeps_the_run() {
    let user = User::new();
    let (_held, model) = held("The sales grew by", " 12 %");
    let mut screen = Screen::start(model.command(&user, &["chat"]), 80);
    screen.input("").keys("go\r").shows("The sales grew by");
    assert_eq!(screen.terminal.hang_up(), Some(129));
    assert_eq!(count(&user.events(), "cancel.requested"), 0);
}

#[test]
fn the_output_of_a_call_is_shown_in_short_and_whole_on_demand() {
    let user = User::new();
    std::fs::write(user.folder().join("long.txt"), "first\nsecond\nlast\n").unwrap();
    let todos = json!({ "todos": [{ "content": "look", "status": "completed" },
        { "content": "tell", "status": "in_progress" }] });
    // One call per step, so that the numbers of their outputs are known.
    let read = ("Read", json!({ "file_path": "long.txt" }));
    let load = ("load_toolset", json!({ "toolset": "planning", "include_write_tools": true }));
    let turns = [read, load, ("write_todos", todos)];
    let calls = turns.into_iter().map(|call| Turn::Call(vec![call])).collect();
    let mut screen = Screen::start(Model::start(calls).command(&user, &["chat"]), 80);
    screen.input("").keys("go\r").shows("• Read long.txt").shows("(/output 1)").shows("│ ☑ look │ ◐ tell");
    screen.shows("Done.").ended(1).input("").keys("/output 1\r").shows("first").shows("last").input("");
    screen.keys("/output 9\r").shows("no such output").input("");
    assert_eq!(screen.quit(), Some(0));
}

#[test]
fn a_command_of_ones_own_says_how_commands_are_turned_on() {
    let user = User::new();
    let mut screen = chat(&user, 100);
    screen
        .input("")
        .keys("!echo hi\r")
        .shows("commands are disabled")
        .shows("[tools.bash] enabled = true")
        .input("");
    assert_eq!(screen.quit(), Some(0));
}

#[cfg(target_os = "linux")]
#[test]
fn a_command_of_ones_own_asks_as_any_command_does() {
    let user = User::new();
    user.configure("[tools.bash]\nenabled = true");
    let mut command = user.command(&["chat"]);
    command.env("PATH", "/usr/bin:/bin");
    let mut screen = Screen::start(command, 100);
    screen
        .input("")
        .keys("!echo one; echo two\r")
        .shows("`Bash` requires approval")
        .shows("Run it? [y/N]")
        .shows("press a key to answer")
        .keys("n");
    screen.shows("not run").input("").keys("!echo one; echo two\r");
    screen.until("asked again", |rows| words(rows).matches("Run it? [y/N]").count() == 2);
    screen.shows("press a key to answer").keys("y");
    screen.until("its output", |rows| rows.iter().any(|row| row == "two")).input("");
    assert_eq!(screen.quit(), Some(0));
}

#[test]
fn a_line_that_answers_nothing_returns_to_the_input() {
    let user = User::new();
    let mut screen = chat(&user, 100);
    screen.input("").keys(&format!("{TASK}\r")).shows("[a]pprove once").shows("press a key to answer");
    screen.keys("hello there\r").shows("`hello there` is not one of the answers").input("hello there");
    // A single key must not cancel the run.
    screen.keys("\x15").input("").keys("s").input("s");
    screen
        .keys("\x15")
        .input("")
        .shows("press a key to answer")
        .keys("a")
        .shows("approved once")
        .ended(1)
        .input("");
    assert_eq!(screen.quit(), Some(0));
}

#[test]
fn chats_beside_each_other_keep_each_others_messages() {
    let user = User::new();
    let (mut first, mut second) = (chat(&user, 80), chat(&user, 80));
    first.input("");
    second.input("");
    first.keys("one\r").ended(1).input("");
    second.keys("two\r").ended(1).input("");
    assert_eq!((first.quit(), second.quit()), (Some(0), Some(0)));
    let mut third = chat(&user, 80);
    third.input("");
    for message in ["/quit", "two", "one"] {
        third.keys("\x1b[A").input(message);
    }
    third.keys("\x15").input("");
    assert_eq!(third.quit(), Some(0));
}

#[test]
fn without_colours_the_input_stays_where_it_is() {
    let user = User::new();
    let mut command = user.command(&["chat"]);
    command.env("NO_COLOR", "1");
    let mut screen = Screen::start(command, 80);
    screen.input("").keys("hello").input("hello").keys("\r").ended(1).input("").keys("\x1b[A").input("hello");
    screen.keys("\x15").input("");
    let is_plain =
        |cell: &vt100::Cell| cell.fgcolor() == vt100::Color::Default && !cell.bold() && !cell.dim();
    for (row, column) in (0..ROWS).flat_map(|row| (0..80).map(move |column| (row, column))) {
        let cell = screen.emulator.screen().cell(row, column).unwrap();
        assert!(is_plain(cell), "{row}:{column}: {:#?}", screen.rows());
    }
    assert_eq!(screen.quit(), Some(0));
}
