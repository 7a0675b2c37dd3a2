//! The clients of the dialects' originals: their published requests, from the first sign-in to a finished, approved run.
//! Each server has no other configuration than its dialect's table.

mod agui;
mod skillchat;
