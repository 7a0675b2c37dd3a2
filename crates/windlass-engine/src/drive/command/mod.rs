//! Carries out commands: model calls, tool calls and trial calls.
//!
//! This module does not decide the consequences of an outcome.

pub(super) mod background;
pub(super) mod change;
mod contain;
pub(super) mod context;
mod dispatch;
pub(super) mod folder;
pub(super) mod inspect;
pub(super) mod let_go;
pub(super) mod model;
pub(super) mod offload;
mod paths;
pub(super) mod tool;
pub(super) mod trial;
