//! The accounts of people: users, members of a workspace, guests, and the addresses that they sign in with.
//!
//! How they sign in is `login`'s.

pub(super) mod address;
pub mod guest;
pub mod hands;
pub mod member;
pub mod user;
pub(super) mod users;
pub(super) mod workspace;
