//! Commands at work: started in a namespace of their own where the kernel has one, heard, timed, and ended as a whole.
//!
//! What they may do is `sandbox`'s matter, and what the model is told of them the tools'.

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
