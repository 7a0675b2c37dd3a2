//! For tests of programs that embed Windlass, and of adapters that others write.
//!
//! Doubles that behave like the real thing, and the suites that every store and bus must pass.

pub mod fuzz;
pub mod mcp;
pub mod provider;
pub mod scripted;
pub mod suite;

use tokio_util::sync::CancellationToken;
use windlass_machine::Machine;

use crate::port::journal::ThreadView;
use crate::reader::{Format, Reader, Request};

/// The columns that lists show of a thread, computed from the fold of its journal.
pub fn thread_view(machine: &Machine) -> ThreadView {
    crate::drive::row::thread_view(machine)
}

/// Which of the rights that a reader process must not have are left.
pub fn rights_of(reader: &Reader) -> String {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let read = runtime.map(|runtime| {
        runtime.block_on(reader.read(&Request::whole(Format::Rights), b"", &CancellationToken::new()))
    });
    match read {
        Ok(Ok(document)) => document.text,
        Ok(Err(error)) => error.to_string(),
        Err(error) => error.to_string(),
    }
}
