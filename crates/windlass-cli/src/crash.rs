//! Prints the panic report on standard error: the thread, the source location and, if
//! it is a literal, the panic message.
//!
//! A formatted message may contain the processed data, including a secret, so the report omits it. The location is
//! enough to find the cause; `RUST_BACKTRACE=1` adds a backtrace.

use std::any::Any;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::panic::{PanicHookInfo, set_hook};

/// Installs the panic hook for all threads of the process.
pub fn speak_carefully() {
    set_hook(Box::new(|panic| {
        crate::screen::restore_terminal();
        let backtrace = Backtrace::capture();
        eprintln!("{}", told(panic));
        if backtrace.status() == BacktraceStatus::Captured {
            eprintln!("{backtrace}");
        }
    }));
}

fn told(panic: &PanicHookInfo<'_>) -> String {
    let thread = std::thread::current();
    let thread = thread.name().unwrap_or("unnamed").to_owned();
    let place = panic.location().map_or_else(|| "an unknown location".to_owned(), ToString::to_string);
    format!("windlass panicked at {place}, in the thread `{thread}`: {}", words(panic.payload()))
}

fn words(payload: &(dyn Any + Send)) -> &'static str {
    payload
        .downcast_ref::<&'static str>()
        .copied()
        .unwrap_or("the message is omitted, because it may contain a secret")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "SENTINEL-crash";

    /// The process that crashes in the test below. Does nothing without the environment variable.
    #[test]
    fn crashes() {
        let Some(secret) = std::env::var_os("WINDLASS_TEST_CRASH") else { return };
        speak_carefully();
        let secret = secret.into_string().unwrap();
        let crash = |work: Box<dyn FnOnce() + Send>| assert!(std::thread::spawn(work).join().is_err());
        let (one, other) = (secret.clone(), secret.clone());
        crash(Box::new(move || panic!("told {one}")));
        crash(Box::new(move || refused(&other).unwrap()));
        crash(Box::new(|| panic!("a defect")));
        // Slices inside a character: the standard library's panic message would contain the text.
        let cut = format!("{secret}\u{e4}");
        crash(Box::new(move || drop(cut[..cut.len() - 1].to_owned())));
        std::process::exit(7);
    }

    fn refused(token: &str) -> Result<(), String> {
        Err(format!("the token {token} was refused"))
    }

    #[test]
    fn a_crash_tells_its_place_and_no_secret() {
        let mut process = std::process::Command::new(std::env::current_exe().unwrap());
        process.args(["--exact", "crash::tests::crashes", "--nocapture"]);
        let ended = process.env("WINDLASS_TEST_CRASH", SECRET).env("RUST_BACKTRACE", "1").output().unwrap();
        let said = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(7), "{said}");
        assert!(!said.contains(SECRET) && !String::from_utf8_lossy(&ended.stdout).contains(SECRET), "{said}");
        assert_eq!(
            said.matches("windlass panicked at crates/windlass-cli/src/crash.rs:").count(),
            4,
            "{said}"
        );
        assert_eq!(
            said.matches("the message is omitted, because it may contain a secret").count(),
            3,
            "{said}"
        );
        assert!(said.contains("`: a defect\n"), "{said}");
    }
}
