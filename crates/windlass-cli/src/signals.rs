//! What the outside tells the process: Ctrl-C, and the signals that end it; and leaving the terminal as it was found.

use std::io;

use crate::console::Console;

/// What came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Ctrl-C.
    Interrupt,
    /// The process is to end; its exit code.
    End(u8),
}

/// The process's signals.
pub struct Signals {
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    #[cfg(unix)]
    hang_up: tokio::signal::unix::Signal,
}

impl Signals {
    /// Listens from now on; the signals no longer end the process by themselves.
    #[cfg(unix)]
    pub fn listen() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// Listens from now on.
    #[cfg(not(unix))]
    pub fn listen() -> io::Result<Self> {
        Ok(Self {})
    }

    /// The next signal.
    #[cfg(unix)]
    pub async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.interrupt.recv() => Signal::Interrupt,
            _ = self.terminate.recv() => Signal::End(143),
            _ = self.hang_up.recv() => Signal::End(129),
        }
    }

    /// The next signal.
    #[cfg(not(unix))]
    pub async fn next(&mut self) -> Signal {
        match tokio::signal::ctrl_c().await {
            Ok(()) => Signal::Interrupt,
            Err(_) => std::future::pending().await,
        }
    }
}

/// How a terminal is set up before the line editor takes it, which a signal ends in the middle.
pub struct Screen {
    #[cfg(unix)]
    modes: Option<libc::termios>,
}

impl Screen {
    /// Notes how it is set up now.
    #[cfg(unix)]
    pub fn now() -> Self {
        let mut modes = std::mem::MaybeUninit::<libc::termios>::uninit();
        // SAFETY: the pointer is valid for the call, and `modes` is read only where the call has filled it.
        let modes = unsafe {
            let known = libc::tcgetattr(libc::STDIN_FILENO, modes.as_mut_ptr()) == 0;
            known.then(|| modes.assume_init())
        };
        Self { modes }
    }

    /// Notes how it is set up now.
    #[cfg(not(unix))]
    pub fn now() -> Self {
        Self {}
    }

    /// Sets it up as it was, and ends marked pastes, which the editor asks for.
    pub fn restore(&self, console: &Console) {
        #[cfg(unix)]
        if let Some(modes) = &self.modes {
            // SAFETY: a plain system call with a valid pointer; where it fails, nothing can be done.
            unsafe { libc::tcsetattr(libc::STDIN_FILENO, libc::TCSANOW, modes) };
        }
        console.err("\x1b[?2004l\r\n");
    }
}
