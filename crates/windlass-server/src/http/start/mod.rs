//! A message on its way to a run: who sends it, when it was sent, and the title of its conversation.

pub mod agent;
pub mod attach;
pub mod begin;
pub mod credit;
pub mod send;
pub mod timezone;
pub mod titles;
