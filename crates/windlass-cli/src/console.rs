//! The terminal, or the pipe: where text goes, whether it may be coloured, and what must never reach a screen.
//!
//! A failed write does not end the command: a run continues without a reader. The process exits with an error at the end,
//! unless the pipe was closed.

use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, OnceLock};

use clap::ValueEnum;
use terminal_size::{Width, terminal_size_of};
use windlass_server::text::{shown, shown_line, tame_json};

use crate::paint::Paint;
use crate::screen::{ChatScreen, wrap_notes};
use crate::wrap::hanging;

/// When to colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ColorChoice {
    // No doc comments here: they would make the help texts long.
    #[default]
    Auto,
    Always,
    Never,
}

/// Standard input, output and error.
#[derive(Clone, Debug)]
pub struct Console {
    /// Whether a person may type.
    pub in_terminal: bool,
    /// Whether a person reads the output.
    pub out_terminal: bool,
    /// Whether a person reads the progress.
    pub err_terminal: bool,
    /// Colours of standard output.
    pub out_paint: Paint,
    /// Colours of standard error.
    pub paint: Paint,
    muted: bool,
    /// Why something could not be written to standard output, first.
    lost: Arc<OnceLock<String>>,
    /// The screen of a chat, above whose input everything is printed.
    screen: Option<Arc<ChatScreen>>,
}

impl Console {
    /// Looks at the process's own streams.
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

    /// The same console on a chat's screen.
    pub fn on_screen(&self, screen: Arc<ChatScreen>) -> Self {
        Self { screen: Some(screen), ..self.clone() }
    }

    /// The screen of a chat.
    pub fn screen(&self) -> Option<&Arc<ChatScreen>> {
        self.screen.as_ref()
    }

    /// Whether a chat can have an input of its own: a terminal that moves its cursor, with or without colours.
    pub fn has_screen(&self) -> bool {
        cfg!(unix) && self.in_terminal && self.out_terminal && self.err_terminal && moves_cursor()
    }

    /// Whether questions can be asked: a person reads them and may type.
    pub fn can_ask(&self) -> bool {
        self.in_terminal && self.err_terminal
    }

    /// Writes to standard output. A closed pipe is no error: its reader has seen enough.
    pub fn out(&self, text: &str) {
        if let Some(screen) = &self.screen {
            screen.print(text);
            return;
        }
        if let Err(error) = self.try_out(text)
            && error.kind() != io::ErrorKind::BrokenPipe
        {
            // Only the first error is reported.
            let _ = self.lost.set(error.to_string());
        }
    }

    /// Writes to standard output what must not be lost. The error is the caller's to tell.
    pub fn try_out(&self, text: &str) -> io::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes()).and_then(|()| out.flush())
    }

    /// Why something could not be written to standard output; `None` if all of it was.
    pub fn lost(&self) -> Option<&str> {
        self.lost.get().map(String::as_str)
    }

    /// Writes a line to standard output.
    pub fn out_line(&self, text: &str) {
        self.out(&format!("{text}\n"));
    }

    /// Writes a line to standard output: a head that takes `indent` columns, and a text that breaks between words.
    pub fn out_hanging(&self, head: &str, indent: usize, text: &str) {
        self.out_line(&format!("{head}{}", hanging(text, indent, self.out_width())));
    }

    /// Columns of the terminal of standard output; `None` without one.
    pub fn out_width(&self) -> Option<usize> {
        terminal_size_of(io::stdout()).map(|(Width(columns), _)| columns.into())
    }

    /// Columns of the terminal of standard error; `None` without one.
    fn err_width(&self) -> Option<usize> {
        terminal_size_of(io::stderr()).map(|(Width(columns), _)| columns.into())
    }

    /// Writes a line of JSON to standard output.
    pub fn out_json(&self, json: &str) {
        self.out(&format!("{}\n", tame_json(json)));
    }

    /// The same console without standard error.
    pub fn muted(mut self) -> Self {
        self.muted = true;
        self
    }

    /// Writes to standard error.
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

    /// Writes a line to standard error.
    pub fn note(&self, text: &str) {
        self.err(&format!("{text}\n"));
    }

    /// Writes a warning, and what to do about it on lines of their own.
    pub fn warn(&self, text: &str, hints: &[&str]) {
        self.labelled(&self.paint.yellow("warning:"), "warning: ".len(), &shown_line(text));
        for hint in hints {
            self.hint(hint);
        }
    }

    /// Writes what went wrong.
    pub fn error(&self, text: &str) {
        self.labelled(&self.paint.red("error:"), "error: ".len(), &shown(text));
    }

    /// Writes what to do next.
    pub fn hint(&self, text: &str) {
        self.labelled(&self.paint.cyan("hint:"), "hint: ".len(), &shown_line(text));
    }

    fn labelled(&self, label: &str, indent: usize, text: &str) {
        self.note(&format!("{label} {}", hanging(text, indent, self.err_width())));
    }
}

/// Whether the terminal can move its cursor, by its name.
pub fn moves_cursor() -> bool {
    std::env::var_os("TERM").is_some_and(|term| !term.is_empty() && term != "dumb")
}

/// <https://no-color.org>: set and not empty.
fn is_plain() -> bool {
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    set("NO_COLOR") || std::env::var_os("TERM").is_some_and(|term| term == "dumb")
}
