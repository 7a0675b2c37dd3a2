//! Runs commands: starts them in a namespace if the kernel has one, reads their output, and ends them with their
//! descendants.
//!
//! `sandbox` restricts the commands, and the tools format their results.

mod job;
mod launch;
mod mounts;
mod output;
mod process_limit;
mod scratch;
mod watch;

pub(super) use self::job::{Ended, Job, Leash, Order, Room, Stop};
pub(super) use self::launch::{Launch, Limits, can_have_a_namespace, can_have_mounts};
pub(super) use self::mounts::Places;
pub(super) use self::process_limit::ProcessLimit;
pub(super) use self::scratch::{Scratch, sweep};
