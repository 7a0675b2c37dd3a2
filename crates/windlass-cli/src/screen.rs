//! A chat's terminal: the conversation scrolls by as in any command, and the last lines hold the input and a status line.
//!
//! The lines at the bottom are erased and drawn again around each text that is printed above them. There is no
//! alternate screen: the terminal's own scrollback keeps the conversation. A terminal that shrinks may wrap some of the
//! lines that stood above the cursor; they stay in the scrollback, because erasing more could erase the conversation.

mod complete;
mod editor;
mod history;
mod key;
mod layout;
pub mod markdown;
mod output;
mod status;
mod terminal;
mod wrap;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use tokio::sync::mpsc;

use self::complete::complete;
use self::editor::{Action, Editor};
use self::key::{Decoder, KeyPress};
use self::layout::{Bottom, lay_out};
use self::output::Outputs;
use self::status::ChatStatus;
use self::terminal::Read;
use crate::keyboard::Typed;
use crate::paint::Paint;

pub use self::history::MessageFile;
pub use self::terminal::leave as restore_terminal;
pub use self::wrap::wrap_notes;

/// After how many reads without a key the keys that answer count: each waits 50 ms.
const QUIET_READS: u8 = 10;

/// Inputs kept until the chat takes them: more than a person sends while one of them is handled.
const INPUTS: usize = 16;

/// A chat's terminal. Dropped, it leaves the terminal as it was found.
#[derive(Debug)]
pub struct ChatScreen {
    state: Arc<Mutex<State>>,
    file: MessageFile,
    inputs: tokio::sync::Mutex<mpsc::Receiver<Typed>>,
    reader: Mutex<Option<KeyReader>>,
}

/// What is on the terminal's last lines.
#[derive(Debug)]
struct State {
    paint: Paint,
    editor: Editor,
    live: String,
    partial: String,
    activity: String,
    status: ChatStatus,
    /// What tools returned, for `/output`.
    outputs: Outputs,
    completion: Completion,
    /// Keys that answer at once while the input is empty.
    answers: String,
    /// For how many reads of the terminal nothing was typed since they were set, up to [`QUIET_READS`].
    quiet_reads: u8,
    inputs: mpsc::Sender<Typed>,
    terminal: Ownership,
}

/// What can be completed.
#[derive(Debug)]
struct Completion {
    /// The completions that are shown.
    menu: Vec<String>,
    commands: &'static [&'static str],
    folder: PathBuf,
}

/// Whether the terminal is this program's, and what is drawn on it.
#[derive(Debug, Default)]
struct Ownership {
    /// The cursor's row in what is drawn; `None` if nothing is.
    drawn: Option<usize>,
    /// Whether the terminal belongs to another program.
    is_paused: bool,
    /// Whether the signal of a continued process belongs to a stop by Ctrl-Z, after which the terminal was taken again.
    was_stopped: bool,
}

/// The thread that reads the terminal.
#[derive(Debug)]
struct KeyReader {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl ChatScreen {
    /// Takes the terminal. `None` if it cannot be set up, so that a plain chat is left.
    pub fn open(
        paint: Paint,
        file: MessageFile,
        commands: &'static [&'static str],
        folder: PathBuf,
    ) -> Option<Arc<Self>> {
        if !terminal::enter() {
            return None;
        }
        let (sender, inputs) = mpsc::channel(INPUTS);
        let state = State {
            paint,
            editor: Editor::new(file.messages()),
            live: String::new(),
            partial: String::new(),
            activity: String::new(),
            status: ChatStatus::default(),
            outputs: Outputs::default(),
            completion: Completion { menu: Vec::new(), commands, folder },
            answers: String::new(),
            quiet_reads: 0,
            inputs: sender,
            terminal: Ownership::default(),
        };
        let state = Arc::new(Mutex::new(state));
        attend(&state);
        let reader = Mutex::new(Some(KeyReader::start(&state)));
        let screen = Arc::new(Self { state, file, inputs: tokio::sync::Mutex::new(inputs), reader });
        screen.state().draw("");
        Some(screen)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// The next input.
    pub async fn next(&self) -> Typed {
        // The state holds a sender, so that the channel never closes.
        self.inputs.lock().await.recv().await.unwrap_or(Typed::Gone)
    }

    /// Prints above the input; a line without its end stays there until it is complete.
    pub fn print(&self, text: &str) {
        self.state().print(text);
    }

    /// Prints blocks that are complete, and shows the one that is not in place of the one before.
    pub fn print_blocks(&self, complete: &str, live: &str) {
        let mut state = self.state();
        if !complete.is_empty() || state.live != live {
            live.clone_into(&mut state.live);
            state.print(complete);
        }
    }

    /// Shows what the run is doing.
    pub fn show_activity(&self, text: &str) {
        let mut state = self.state();
        if state.activity != text {
            text.clone_into(&mut state.activity);
            state.draw("");
        }
    }

    /// Changes what the status line shows.
    pub fn update_status(&self, update: impl FnOnce(&mut ChatStatus)) {
        let mut state = self.state();
        update(&mut state.status);
        state.draw("");
    }

    /// Keeps what a tool returned; its number for `/output`.
    pub fn keep_output(&self, label: &str, text: &str) -> usize {
        self.state().outputs.keep(label, text)
    }

    /// What a tool returned, by its number; without one, the newest. `None` if it is not kept.
    pub fn output(&self, number: Option<usize>) -> Option<(String, String)> {
        self.state().outputs.get(number)
    }

    /// Takes these characters as answers, without Enter, while the input is empty; after half a second without a key, so
    /// that the first key of a message does not answer a question that opens at that moment.
    pub fn take_answers(&self, keys: &str) {
        let mut state = self.state();
        keys.clone_into(&mut state.answers);
        state.quiet_reads = 0;
    }

    /// Puts a text back into the input that was not sent.
    pub fn put_back(&self, text: &str) {
        let mut state = self.state();
        state.editor.put_back(text);
        state.draw("");
    }

    /// Keeps a text for Up, in this chat and in later ones.
    pub fn remember(&self, text: &str) {
        self.state().editor.remember(text);
        self.file.append(text);
    }

    /// Columns that text may take.
    pub fn columns(&self) -> usize {
        terminal::size().columns.saturating_sub(1).max(8)
    }

    /// Leaves the terminal to another program until [`resume`](Self::resume).
    pub fn pause(&self) {
        // The thread ends before the other program reads.
        drop(self.reader.lock().unwrap_or_else(PoisonError::into_inner).take());
        let mut state = self.state();
        state.erase();
        state.terminal.is_paused = true;
        terminal::leave();
    }

    /// Takes the terminal again.
    pub fn resume(&self) {
        let mut state = self.state();
        state.terminal.is_paused = false;
        terminal::enter();
        state.draw("");
        drop(state);
        let reader = KeyReader::start(&self.state);
        *self.reader.lock().unwrap_or_else(PoisonError::into_inner) = Some(reader);
    }
}

impl Drop for ChatScreen {
    fn drop(&mut self) {
        self.pause();
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    // Whatever a panic left, the next drawing replaces it.
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Draws again when the terminal's size has changed, or the process was stopped and continues.
fn attend(state: &Arc<Mutex<State>>) {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let signals = (signal(SignalKind::window_change()), signal(SignalKind::from_raw(libc::SIGCONT)));
        let (Ok(mut resized), Ok(mut continued)) = signals else { return };
        let state = Arc::downgrade(state);
        tokio::spawn(async move {
            loop {
                let was_stopped = tokio::select! {
                    _ = resized.recv() => false,
                    _ = continued.recv() => true,
                };
                let Some(state) = state.upgrade() else { return };
                let mut state = lock(&state);
                let is_handled = was_stopped && std::mem::take(&mut state.terminal.was_stopped);
                if was_stopped && !state.terminal.is_paused {
                    // The shell has set the modes meanwhile.
                    terminal::enter();
                }
                if was_stopped && !is_handled && !state.terminal.is_paused {
                    // What was drawn has moved on.
                    state.terminal.drawn = None;
                }
                state.draw("");
            }
        });
    }
    #[cfg(not(unix))]
    let _ = state;
}

impl KeyReader {
    fn start(state: &Arc<Mutex<State>>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (told, state) = (stop.clone(), state.clone());
        Self { stop, thread: Some(std::thread::spawn(move || read(&told, &state))) }
    }
}

impl Drop for KeyReader {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It notices within a fraction of a second.
            let _ = thread.join();
        }
    }
}

fn read(stop: &AtomicBool, state: &Mutex<State>) {
    let mut decoder = Decoder::default();
    while !stop.load(Ordering::Relaxed) {
        let keys = match terminal::read() {
            Read::Bytes(bytes) => decoder.feed(&bytes),
            Read::Nothing => {
                lock(state).rest();
                decoder.flush().into_iter().collect()
            }
            Read::Gone => {
                // A full queue has enough to end the chat by: its reader looks at the terminal itself.
                let _ = lock(state).inputs.try_send(Typed::Gone);
                return;
            }
        };
        for key in keys {
            lock(state).key(key);
        }
    }
}

impl State {
    /// Nothing was typed for a while.
    fn rest(&mut self) {
        if self.answers.is_empty() || self.quiet_reads >= QUIET_READS {
            return;
        }
        self.quiet_reads += 1;
        if self.takes_answers() {
            self.draw("");
        }
    }

    /// Whether a single key answers now.
    fn takes_answers(&self) -> bool {
        self.quiet_reads >= QUIET_READS && !self.answers.is_empty() && self.editor.text().is_empty()
    }

    fn key(&mut self, key: KeyPress) {
        self.completion.menu.clear();
        let takes_answers = self.takes_answers();
        if self.quiet_reads < QUIET_READS {
            self.quiet_reads = 0;
        }
        if let KeyPress::Char(c) = key
            && takes_answers
            && self.answers.contains(c)
        {
            self.send(Typed::Line(c.to_string()));
            // Until the chat offers answers again, a key that is struck twice answers once.
            self.answers.clear();
            self.draw("");
            return;
        }
        match self.editor.key(key) {
            Action::Edited => {}
            Action::Submit(text) => self.send(Typed::Line(text)),
            Action::Interrupt => self.send(Typed::Interrupt),
            Action::Leave => self.send(Typed::End),
            Action::Complete => self.complete(),
            Action::Suspend => {
                self.erase();
                terminal::leave();
                terminal::stop();
                self.terminal.was_stopped = true;
                terminal::enter();
            }
            Action::Redraw => {
                terminal::write("\x1b[H\x1b[2J");
                self.terminal.drawn = None;
            }
        }
        self.draw("");
    }

    /// Hands an input over. Where the chat does not keep up, the text stays in the input.
    fn send(&mut self, typed: Typed) {
        if let Err(error) = self.inputs.try_send(typed)
            && let Typed::Line(text) = error.into_inner()
        {
            self.editor.put_back(&text);
        }
    }

    fn complete(&mut self) {
        let (text, cursor) = (self.editor.text(), self.editor.cursor());
        let Some(completion) = complete(text, cursor, self.completion.commands, &self.completion.folder)
        else {
            return;
        };
        self.editor.replace(completion.from, &completion.common);
        self.completion.menu = completion.candidates;
    }

    fn print(&mut self, text: &str) {
        if self.terminal.is_paused {
            terminal::write(text);
            return;
        }
        self.partial.push_str(text);
        let Some(end) = self.partial.rfind('\n') else {
            self.draw("");
            return;
        };
        let complete: String = self.partial.drain(..=end).collect();
        self.draw(&complete);
    }

    /// The sequence that erases what is drawn; the cursor is then where it began.
    fn erasing(&mut self) -> String {
        match self.terminal.drawn.take() {
            None => String::new(),
            Some(0) => "\r\x1b[J".to_owned(),
            Some(rows) => format!("\x1b[{rows}A\r\x1b[J"),
        }
    }

    /// Erases the last lines. A line without its end is printed, because nothing will complete it.
    fn erase(&mut self) {
        let mut text = self.erasing();
        if !self.partial.is_empty() {
            text.push_str(&std::mem::take(&mut self.partial));
            text.push('\n');
        }
        terminal::write(&text);
    }

    /// Prints complete lines and draws the last lines below them, in one write.
    fn draw(&mut self, above: &str) {
        if self.terminal.is_paused {
            return;
        }
        let status = self.status.text();
        let status = if self.takes_answers() { format!("one key answers · {status}") } else { status };
        let bottom = Bottom {
            live: &self.live,
            partial: &self.partial,
            activity: &self.activity,
            text: self.editor.text(),
            cursor: self.editor.cursor(),
            menu: &self.completion.menu,
            status: &status,
        };
        let drawing = lay_out(bottom, terminal::size(), self.paint);
        let below = drawing.lines.len() - 1 - drawing.row;
        let up = if below > 0 { format!("\x1b[{below}A") } else { String::new() };
        let right = if drawing.column > 0 { format!("\x1b[{}C", drawing.column) } else { String::new() };
        let erasing = self.erasing();
        // A text that was cut at a line's end may have left its colour on.
        let above = match self.paint {
            Paint::Colored if !above.is_empty() => format!("{above}\x1b[0m"),
            Paint::Colored | Paint::Plain => above.to_owned(),
        };
        let lines = drawing.lines.join("\n");
        // Marked as one update, so that a terminal that knows the mark shows nothing in between.
        terminal::write(&format!(
            "\x1b[?2026h\x1b[?25l{erasing}{above}{lines}{up}\r{right}\x1b[?25h\x1b[?2026l"
        ));
        self.terminal.drawn = Some(drawing.row);
    }
}
