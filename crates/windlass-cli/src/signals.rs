//! Signals to the process: Ctrl-C and termination. Also restores the terminal after the line editor was interrupted.

use std::io;

use crate::console::Console;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Ctrl-C.
    Interrupt,
    /// The process must end with this exit code.
    End(u8),
}

pub struct Signals {
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    #[cfg(unix)]
    hang_up: tokio::signal::unix::Signal,
}

impl Signals {
    /// Installs the handlers. Afterwards, these signals do not end the process.
    #[cfg(unix)]
    pub fn listen() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// Creates a listener. `next` waits for Ctrl-C.
    #[cfg(not(unix))]
    pub fn listen() -> io::Result<Self> {
        Ok(Self {})
    }

    #[cfg(unix)]
    pub async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.interrupt.recv() => Signal::Interrupt,
            _ = self.terminate.recv() => Signal::End(143),
            _ = self.hang_up.recv() => Signal::End(129),
        }
    }

    #[cfg(not(unix))]
    pub async fn next(&mut self) -> Signal {
        match tokio::signal::ctrl_c().await {
            Ok(()) => Signal::Interrupt,
            Err(_) => std::future::pending().await,
        }
    }
}

/// The terminal modes from before the line editor changed them. A signal may interrupt the editor before it restores
/// them.
pub struct Screen {
    #[cfg(unix)]
    modes: Option<libc::termios>,
}

impl Screen {
    /// Saves the current modes.
    #[cfg(unix)]
    pub fn now() -> Self {
        let mut modes = std::mem::MaybeUninit::<libc::termios>::uninit();
        // SAFETY: the pointer is valid for the call, and `modes` is read only if the call has filled it.
        let modes = unsafe {
            let known = libc::tcgetattr(libc::STDIN_FILENO, modes.as_mut_ptr()) == 0;
            known.then(|| modes.assume_init())
        };
        Self { modes }
    }

    /// Saves no modes: only Unix has terminal modes.
    #[cfg(not(unix))]
    pub fn now() -> Self {
        Self {}
    }

    /// Restores the modes and disables bracketed paste, which the editor enables.
    pub fn restore(&self, console: &Console) {
        #[cfg(unix)]
        if let Some(modes) = &self.modes {
            // SAFETY: a plain system call with a valid pointer. Its failure cannot be handled.
            unsafe { libc::tcsetattr(libc::STDIN_FILENO, libc::TCSANOW, modes) };
        }
        console.err("\x1b[?2004l\r\n");
    }
}
