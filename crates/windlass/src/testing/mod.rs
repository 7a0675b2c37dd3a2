//! For tests of programs that embed Windlass, and of adapters that others write.
//!
//! Doubles that behave like the real thing, and the suites that every store and bus must pass.

pub mod mcp;
pub mod provider;
pub mod scripted;
pub mod suite;

use windlass_machine::Machine;

use crate::port::journal::ThreadView;

/// The columns that lists show of a thread, computed from the fold of its journal.
pub fn thread_view(machine: &Machine) -> ThreadView {
    crate::drive::row::thread_view(machine)
}
