//! The web, as far as this machine plays it.

mod fetch;
mod search;
