//! Driven threads: the registry of drivers, the right to drive, the loop of a thread and its rounds.
//!
//! Commands are carried out in `command/`.

mod actor;
pub(super) mod actors;
pub(super) mod backoff;
pub(super) mod claim;
mod driven;
mod ended;
pub(super) mod expiry;
mod flight;
pub(super) mod fork;
pub(super) mod mail;
mod mailbox;
mod recover;
pub(super) mod registry;
mod round;
pub(super) mod sweep;
