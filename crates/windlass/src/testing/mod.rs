//! For tests of programs that embed Windlass: doubles that behave like the real thing, over real sockets.

pub mod provider;
pub mod scripted;
