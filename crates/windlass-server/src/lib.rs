//! The Windlass server: accounts, HTTP API, streams and web UI. The crate also defines the settings and policy files
//! that the server shares with the command line.
//!
//! This crate is part of the product and not a stable API: its items change with the command line and the dialects. The
//! crate knows no command and no dialect. The command line registers each dialect as [`http::state::dialect::Dialect`].

#![allow(missing_docs, reason = "not an API: only crates of this repository use it")]

pub mod account;
pub mod catalog;
pub mod clock;
pub mod config;
pub mod endpoints;
pub mod home;
pub mod http;
pub mod integration;
pub mod outside;
pub mod page;
pub mod policy;
pub mod servers;
pub mod shell_quote;
pub mod text;
pub mod toolbox;
pub mod trouble;
pub mod vault;
