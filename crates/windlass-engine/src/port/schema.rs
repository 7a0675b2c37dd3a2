//! The schema port: compiles JSON schemas and reports where a value does not match.
//!
//! The engine limits the size of a schema before it compiles it ([`ValueCheck`](crate::tool::ValueCheck)). An
//! implementation must limit the time that a pattern may take, because a schema may come from a server.

use std::sync::Arc;

use serde_json::Value;

/// Compiles JSON schemas.
pub trait SchemaCompiler: Send + Sync {
    /// Compiles a schema (draft 2020-12 unless the schema names another draft). The compiler fetches no documents: a
    /// reference outside the schema is an error. The error describes why the schema is unusable.
    fn compile(&self, schema: &Value) -> Result<Arc<dyn CompiledSchema>, String>;
}

/// A compiled schema.
pub trait CompiledSchema: Send + Sync {
    /// Returns the first `max` mismatches of a value; empty if the value matches.
    fn faults(&self, value: &Value, max: usize) -> Vec<SchemaFault>;
}

/// A mismatch between a value and its schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaFault {
    /// Location in the value, as a JSON Pointer (RFC 6901); empty for the whole value.
    pub path: String,
    /// Description of the mismatch, with the value.
    pub problem: String,
    /// Name of the missing required member at that location, if the mismatch is a missing member.
    pub missing: Option<String>,
}
