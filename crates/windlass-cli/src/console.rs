//! Standard input, output and error of a command. Decides on colours, and removes
//! control sequences from untrusted text.
//!
//! A failed write does not end the command: a run continues even if its output is not read. The process exits with an
//! error at the end, unless the pipe was closed.

use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, OnceLock};

use clap::ValueEnum;
use terminal_size::{Width, terminal_size_of};
use windlass_server::text::{shown, shown_line, tame_json};

use crate::paint::Paint;
use crate::screen::{ChatScreen, wrap_notes};
use crate::wrap::hanging;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ColorChoice {
    // No doc comments here: they would make the help texts long.
    #[default]
    Auto,
    Always,
    Never,
}

#[derive(Clone, Debug)]
pub struct Console {
    /// Whether standard input is a terminal.
    pub in_terminal: bool,
    /// Whether standard output is a terminal.
    pub out_terminal: bool,
    /// Whether standard error is a terminal.
    pub err_terminal: bool,
    pub out_paint: Paint,
    pub paint: Paint,
    muted: bool,
    /// The first write error on standard output, except a closed pipe.
    lost: Arc<OnceLock<String>>,
    /// The screen of a chat. If set, all output is printed above the screen's input.
    screen: Option<Arc<ChatScreen>>,
}

impl Console {
    /// Inspects the standard streams of the process.
    pub fn new(color: ColorChoice) -> Self {
        let (out_terminal, err_terminal) = (io::stdout().is_terminal(), io::stderr().is_terminal());
        let wanted = |terminal: bool| match color {
            ColorChoice::Always => Paint::Colored,
            ColorChoice::Never => Paint::Plain,
            ColorChoice::Auto if terminal && !is_plain() => Paint::Colored,
            ColorChoice::Auto => Paint::Plain,
        };
        Self {
            in_terminal: io::stdin().is_terminal(),
            out_terminal,
            err_terminal,
            out_paint: wanted(out_terminal),
            paint: wanted(err_terminal),
            muted: false,
            lost: Arc::default(),
            screen: None,
        }
    }

    /// Returns a console that prints on a chat's screen.
    pub fn on_screen(&self, screen: Arc<ChatScreen>) -> Self {
        Self { screen: Some(screen), ..self.clone() }
    }

    pub fn screen(&self) -> Option<&Arc<ChatScreen>> {
        self.screen.as_ref()
    }

    /// Whether a chat can draw its own input: the terminal must be able to move its cursor. Colours are not required.
    pub fn has_screen(&self) -> bool {
        cfg!(unix) && self.in_terminal && self.out_terminal && self.err_terminal && moves_cursor()
    }

    /// Whether the command can prompt a person: standard input and standard error are terminals.
    pub fn can_ask(&self) -> bool {
        self.in_terminal && self.err_terminal
    }

    /// Writes to standard output. A closed pipe is not an error: its reader needs no more output.
    pub fn out(&self, text: &str) {
        if let Some(screen) = &self.screen {
            screen.print(text);
            return;
        }
        if let Err(error) = self.try_out(text)
            && error.kind() != io::ErrorKind::BrokenPipe
        {
            // Keep only the first error.
            let _ = self.lost.set(error.to_string());
        }
    }

    /// Writes to standard output and returns the error, for output that must not be lost.
    pub fn try_out(&self, text: &str) -> io::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes()).and_then(|()| out.flush())
    }

    /// Returns the first error of a write to standard output; `None` if all writes succeeded.
    pub fn lost(&self) -> Option<&str> {
        self.lost.get().map(String::as_str)
    }

    pub fn out_line(&self, text: &str) {
        self.out(&format!("{text}\n"));
    }

    /// Writes a line to standard output: a head of `indent` columns, then a text that wraps between words.
    pub fn out_hanging(&self, head: &str, indent: usize, text: &str) {
        self.out_line(&format!("{head}{}", hanging(text, indent, self.out_width())));
    }

    /// Returns the width of the terminal of standard output in columns; `None` if it is not a terminal.
    pub fn out_width(&self) -> Option<usize> {
        terminal_size_of(io::stdout()).map(|(Width(columns), _)| columns.into())
    }

    /// Returns the width of the terminal of standard error in columns; `None` if it is not a terminal.
    fn err_width(&self) -> Option<usize> {
        terminal_size_of(io::stderr()).map(|(Width(columns), _)| columns.into())
    }

    /// Writes a line of JSON to standard output.
    pub fn out_json(&self, json: &str) {
        self.out(&format!("{}\n", tame_json(json)));
    }

    /// Returns the console with standard error discarded.
    pub fn muted(mut self) -> Self {
        self.muted = true;
        self
    }

    pub fn err(&self, text: &str) {
        if self.muted {
            return;
        }
        if let Some(screen) = &self.screen {
            screen.print(&wrap_notes(text, screen.columns()));
            return;
        }
        let mut err = io::stderr().lock();
        let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
    }

    pub fn note(&self, text: &str) {
        self.err(&format!("{text}\n"));
    }

    /// Writes a warning, followed by one line per hint.
    pub fn warn(&self, text: &str, hints: &[&str]) {
        self.labelled(&self.paint.yellow("warning:"), "warning: ".len(), &shown_line(text));
        for hint in hints {
            self.hint(hint);
        }
    }

    pub fn error(&self, text: &str) {
        self.labelled(&self.paint.red("error:"), "error: ".len(), &shown(text));
    }

    pub fn hint(&self, text: &str) {
        self.labelled(&self.paint.cyan("hint:"), "hint: ".len(), &shown_line(text));
    }

    fn labelled(&self, label: &str, indent: usize, text: &str) {
        self.note(&format!("{label} {}", hanging(text, indent, self.err_width())));
    }
}

/// Whether the terminal can move its cursor, according to `TERM`.
pub fn moves_cursor() -> bool {
    std::env::var_os("TERM").is_some_and(|term| !term.is_empty() && term != "dumb")
}

/// Whether colours are off by default: `NO_COLOR` is set and not empty (<https://no-color.org>), or `TERM` is `dumb`.
fn is_plain() -> bool {
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    set("NO_COLOR") || std::env::var_os("TERM").is_some_and(|term| term == "dumb")
}
