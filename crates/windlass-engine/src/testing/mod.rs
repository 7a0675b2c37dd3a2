//! Test support for programs that embed the engine, and for implementations of its ports.
//!
//! The module has a scripted model, and suites that every store and bus must pass.

pub mod scripted;
pub mod suite;

use std::sync::Arc;

use serde_json::Value;
use windlass_machine::Machine;

use crate::port::journal::ThreadView;
use crate::port::schema::{CompiledSchema, SchemaCompiler};

/// A schema compiler for engines without tools: it rejects every schema.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSchemas;

impl SchemaCompiler for NoSchemas {
    fn compile(&self, _schema: &Value) -> Result<Arc<dyn CompiledSchema>, String> {
        Err("this engine compiles no schemas".into())
    }
}

/// Computes the columns of a thread's row from the fold of its journal.
pub fn thread_view(machine: &Machine) -> ThreadView {
    crate::drive::journal::row::thread_view(machine)
}
