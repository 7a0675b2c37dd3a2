//! Terminal modes, size, and raw input.
//!
//! A static stores the original modes, so that the panic hook can restore them.

use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

use super::layout::Size;

/// Maximum wait of a read in milliseconds. The caller checks for a stop between reads.
const NOTICE_MS: i32 = 50;

/// Time for a stop signal to reach the process, in milliseconds.
const STOP_MS: i32 = 100;

/// Maximum number of bytes per read.
const CHUNK_BYTES: usize = 4096;

/// Escape sequences that enable and disable bracketed paste. Disabling also shows the cursor.
const PASTES_ON: &str = "\x1b[?2004h";
const PASTES_OFF: &str = "\x1b[?2004l\x1b[?25h";

/// The original modes, while the chat has changed them.
static FOUND: Mutex<Option<Modes>> = Mutex::new(None);

#[cfg(unix)]
type Modes = libc::termios;
#[cfg(not(unix))]
type Modes = ();

/// The result of a read.
pub enum Read {
    Bytes(Vec<u8>),
    /// No input arrived within the wait.
    Nothing,
    /// The terminal was closed.
    Gone,
}

/// Sets the terminal to raw mode: no echo, no line buffering, no signals from keys. Returns whether it succeeded.
#[cfg(unix)]
pub fn enter() -> bool {
    let mut found = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
    let mut modes = std::mem::MaybeUninit::<libc::termios>::uninit();
    // SAFETY: the pointer is valid for the call, and `modes` is read only if the call has filled it.
    let modes = unsafe {
        if libc::tcgetattr(libc::STDIN_FILENO, modes.as_mut_ptr()) != 0 {
            return false;
        }
        modes.assume_init()
    };
    let mut raw = modes;
    raw.c_lflag &= !(libc::ICANON | libc::ECHO | libc::ISIG | libc::IEXTEN);
    raw.c_iflag &= !(libc::ICRNL | libc::INLCR | libc::IGNCR | libc::ISTRIP | libc::IXON);
    (raw.c_cc[libc::VMIN], raw.c_cc[libc::VTIME]) = (1, 0);
    // SAFETY: a plain system call with a valid pointer to the modes.
    if unsafe { libc::tcsetattr(libc::STDIN_FILENO, libc::TCSANOW, &raw) } != 0 {
        return false;
    }
    // A second call keeps the original modes that the first one saved.
    found.get_or_insert(modes);
    write(PASTES_ON);
    true
}

/// Returns `false`: raw mode is not supported on this system.
#[cfg(not(unix))]
pub fn enter() -> bool {
    false
}

/// Restores the original modes, if the chat has changed them.
pub fn leave() {
    // The panic hook may run while this thread holds the lock, so it must not block.
    let Ok(mut found) = FOUND.try_lock() else { return };
    let Some(modes) = found.take() else { return };
    write(PASTES_OFF);
    #[cfg(unix)]
    // SAFETY: a plain system call with a valid pointer. Its failure cannot be handled.
    unsafe {
        libc::tcsetattr(libc::STDIN_FILENO, libc::TCSANOW, &modes);
    }
    #[cfg(not(unix))]
    let () = modes;
}

/// Stops the process as Ctrl-Z does, until it is continued.
pub fn stop() {
    #[cfg(unix)]
    // SAFETY: plain system calls. 0 is the process's group, and the poll has no descriptors.
    unsafe {
        libc::kill(0, libc::SIGTSTP);
        // The kernel may deliver the signal to another thread. This thread must not set raw mode again before the
        // process has stopped.
        libc::poll(std::ptr::null_mut(), 0, STOP_MS);
    }
}

/// Writes to the terminal. Ignores errors: if the terminal was closed, the next read returns `Read::Gone`.
pub fn write(text: &str) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Returns the terminal's size, or 80×24 if it is unknown.
pub fn size() -> Size {
    #[cfg(unix)]
    {
        let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
        // SAFETY: the call fills the structure behind the pointer.
        let known = unsafe { libc::ioctl(libc::STDOUT_FILENO, libc::TIOCGWINSZ, &mut size) } == 0;
        if known && size.ws_col > 0 && size.ws_row > 0 {
            return Size { columns: size.ws_col.into(), rows: size.ws_row.into() };
        }
    }
    Size { columns: 80, rows: 24 }
}

/// Reads available input, or waits up to `NOTICE_MS` for it.
#[cfg(unix)]
pub fn read() -> Read {
    let mut wanted = libc::pollfd { fd: libc::STDIN_FILENO, events: libc::POLLIN, revents: 0 };
    // SAFETY: the pointer refers to one valid `pollfd`, and the count is 1.
    if unsafe { libc::poll(&mut wanted, 1, NOTICE_MS) } <= 0 {
        return Read::Nothing;
    }
    if wanted.revents & libc::POLLIN == 0 {
        return Read::Gone;
    }
    let mut bytes = vec![0; CHUNK_BYTES];
    // SAFETY: the buffer is valid for its length.
    let count = unsafe { libc::read(libc::STDIN_FILENO, bytes.as_mut_ptr().cast(), bytes.len()) };
    match usize::try_from(count) {
        Ok(0) => Read::Gone,
        Ok(count) => {
            bytes.truncate(count);
            Read::Bytes(bytes)
        }
        Err(_) => match io::Error::last_os_error().kind() {
            io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock => Read::Nothing,
            _ => Read::Gone, // tidy: whatever else it is, the terminal can no longer be read
        },
    }
}

/// Returns `Read::Gone`: raw input is not supported on this system.
#[cfg(not(unix))]
pub fn read() -> Read {
    Read::Gone
}
