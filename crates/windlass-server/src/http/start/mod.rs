//! Turns an incoming message into a run: agent, attachments, credit, time zone and the thread's title.

pub mod agent;
pub mod attach;
pub mod begin;
pub mod credit;
pub mod send;
pub mod timezone;
pub mod titles;
