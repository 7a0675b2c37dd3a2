//! Output for people and programs about runs: live progress, questions, transcripts, lines of JSON.

pub mod call;
pub mod card;
pub mod live;
pub mod preview;
pub mod question;
pub mod story;
pub mod transcript;
