//! The web, as far as this machine can simulate it.

mod fetch;
mod search;
