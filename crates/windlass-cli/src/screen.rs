//! A chat's terminal: the conversation scrolls as in any command, and the last lines show the input and a status line.
//!
//! The lines at the bottom are erased and redrawn around each text that is printed above them. There is no alternate
//! screen, so that the terminal's scrollback keeps the conversation. A terminal that shrinks may wrap lines that were
//! above the cursor. These lines stay in the scrollback, because erasing more could erase the conversation.

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

/// Number of reads without a key, 50 ms each, before single-key answers are accepted.
const QUIET_READS: u8 = 10;

/// Capacity of the input queue: more than a person sends while the chat handles one input.
const INPUTS: usize = 16;

/// A chat's terminal. Dropping it restores the terminal's modes.
#[derive(Debug)]
pub struct ChatScreen {
    state: Arc<Mutex<State>>,
    file: MessageFile,
    inputs: tokio::sync::Mutex<mpsc::Receiver<Typed>>,
    reader: Mutex<Option<KeyReader>>,
}

/// The content and state of the terminal's last lines.
#[derive(Debug)]
struct State {
    paint: Paint,
    editor: Editor,
    live: String,
    partial: String,
    activity: String,
    status: ChatStatus,
    /// Outputs of tools, for `/output`.
    outputs: Outputs,
    completion: Completion,
    /// Keys that answer without Enter while the input is empty.
    answers: String,
    /// Reads without a key since `answers` was set, up to [`QUIET_READS`].
    quiet_reads: u8,
    inputs: mpsc::Sender<Typed>,
    terminal: Ownership,
}

/// The state of completion by Tab.
#[derive(Debug)]
struct Completion {
    /// The completions that are displayed.
    menu: Vec<String>,
    commands: &'static [&'static str],
    folder: PathBuf,
}

/// Whether the chat owns the terminal, and which lines it has drawn.
#[derive(Debug, Default)]
struct Ownership {
    /// The cursor's row within the drawn lines; `None` if nothing is drawn.
    drawn: Option<usize>,
    /// Whether another program uses the terminal.
    is_paused: bool,
    /// Whether Ctrl-Z stopped the process and the chat has already set the modes again. The next `SIGCONT` is then
    /// ignored.
    was_stopped: bool,
}

#[derive(Debug)]
struct KeyReader {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl ChatScreen {
    /// Prepares the terminal. Returns `None` if that fails; the caller then uses the line-based chat.
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

    /// Waits for the next input.
    pub async fn next(&self) -> Typed {
        // `state` holds a sender, so the channel never closes.
        self.inputs.lock().await.recv().await.unwrap_or(Typed::Gone)
    }

    /// Prints above the input. An incomplete last line stays in the drawn area until it is complete.
    pub fn print(&self, text: &str) {
        self.state().print(text);
    }

    /// Prints complete blocks, and replaces the displayed incomplete block.
    pub fn print_blocks(&self, complete: &str, live: &str) {
        let mut state = self.state();
        if !complete.is_empty() || state.live != live {
            live.clone_into(&mut state.live);
            state.print(complete);
        }
    }

    /// Displays the run's current activity.
    pub fn show_activity(&self, text: &str) {
        let mut state = self.state();
        if state.activity != text {
            text.clone_into(&mut state.activity);
            state.draw("");
        }
    }

    /// Updates and redraws the status line.
    pub fn update_status(&self, update: impl FnOnce(&mut ChatStatus)) {
        let mut state = self.state();
        update(&mut state.status);
        state.draw("");
    }

    /// Stores the output of a tool and returns its number for `/output`.
    pub fn keep_output(&self, label: &str, text: &str) -> usize {
        self.state().outputs.keep(label, text)
    }

    /// Returns the label and text of a stored output by its number, or the newest one for `None`. Returns
    /// `None` if the output is not stored.
    pub fn output(&self, number: Option<usize>) -> Option<(String, String)> {
        self.state().outputs.get(number)
    }

    /// Accepts these characters as answers without Enter while the input is empty. The chat accepts them
    /// only after half a second without a key. Otherwise, the first key of a message could answer a
    /// question that opens at that moment.
    pub fn take_answers(&self, keys: &str) {
        let mut state = self.state();
        keys.clone_into(&mut state.answers);
        state.quiet_reads = 0;
    }

    /// Returns an unsent text to the input.
    pub fn put_back(&self, text: &str) {
        let mut state = self.state();
        state.editor.put_back(text);
        state.draw("");
    }

    /// Adds a text to the history of this chat and of later chats.
    pub fn remember(&self, text: &str) {
        self.state().editor.remember(text);
        self.file.append(text);
    }

    /// Returns the number of columns available for text.
    pub fn columns(&self) -> usize {
        terminal::size().columns.saturating_sub(1).max(8)
    }

    /// Releases the terminal to another program until [`resume`](Self::resume).
    pub fn pause(&self) {
        // The thread must end before the other program reads.
        drop(self.reader.lock().unwrap_or_else(PoisonError::into_inner).take());
        let mut state = self.state();
        state.erase();
        state.terminal.is_paused = true;
        terminal::leave();
    }

    /// Takes the terminal back from the other program and redraws.
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
    // A panic may have left the state inconsistent; the next redraw replaces it.
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Spawns a task that redraws when the terminal's size has changed, or when the process continues after a stop.
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
                    // The shell has changed the terminal modes meanwhile.
                    terminal::enter();
                }
                if was_stopped && !is_handled && !state.terminal.is_paused {
                    // The shell has printed below the drawn lines, so their position is unknown.
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
            // The thread polls the flag several times a second.
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
                // If the queue is full, the chat detects the closed terminal without this message.
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
    /// Counts a read without a key.
    fn rest(&mut self) {
        if self.answers.is_empty() || self.quiet_reads >= QUIET_READS {
            return;
        }
        self.quiet_reads += 1;
        if self.takes_answers() {
            self.draw("");
        }
    }

    /// Whether single-key answers are accepted now.
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
            // A repeated key answers only once, because answers stay off until the chat offers them again.
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

    /// Sends an input to the chat. If the queue is full, the text stays in the input.
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

    /// Returns the sequence that erases the drawn lines and moves the cursor to their start.
    fn erasing(&mut self) -> String {
        match self.terminal.drawn.take() {
            None => String::new(),
            Some(0) => "\r\x1b[J".to_owned(),
            Some(rows) => format!("\x1b[{rows}A\r\x1b[J"),
        }
    }

    /// Erases the last lines. An incomplete line is printed, because no more text will complete it.
    fn erase(&mut self) {
        let mut text = self.erasing();
        if !self.partial.is_empty() {
            text.push_str(&std::mem::take(&mut self.partial));
            text.push('\n');
        }
        terminal::write(&text);
    }

    /// Prints complete lines and redraws the last lines below them, in one write.
    fn draw(&mut self, above: &str) {
        if self.terminal.is_paused {
            return;
        }
        let status = self.status.text();
        let status = if self.takes_answers() { format!("press a key to answer · {status}") } else { status };
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
        // A truncated line may lack its colour reset.
        let above = match self.paint {
            Paint::Colored if !above.is_empty() => format!("{above}\x1b[0m"),
            Paint::Colored | Paint::Plain => above.to_owned(),
        };
        let lines = drawing.lines.join("\n");
        // A synchronized update: a terminal that supports it displays no intermediate state.
        terminal::write(&format!(
            "\x1b[?2026h\x1b[?25l{erasing}{above}{lines}{up}\r{right}\x1b[?25h\x1b[?2026l"
        ));
        self.terminal.drawn = Some(drawing.row);
    }
}
