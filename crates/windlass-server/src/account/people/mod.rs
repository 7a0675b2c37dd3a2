//! Accounts of people: users, members of a workspace, guests, and their email addresses.
//!
//! The module `login` handles their sign-in.

pub(super) mod address;
pub mod guest;
pub mod hands;
pub mod member;
pub mod user;
pub(super) mod users;
pub(super) mod workspace;
