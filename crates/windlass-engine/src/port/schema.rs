//! The schema port: compiles JSON schemas and reports where a value does not match.
//!
//! The engine bounds a schema before it compiles it ([`ValueCheck`](crate::tool::ValueCheck)); an implementation bounds
//! the time that a pattern may take, because a schema may come from a server.

use std::sync::Arc;

use serde_json::Value;

/// Compiles JSON schemas.
pub trait SchemaCompiler: Send + Sync {
    /// Compiles a schema (draft 2020-12 unless it names another). It fetches nothing: a reference that leaves the schema is
    /// an error. The error says why the schema cannot be used.
    fn compile(&self, schema: &Value) -> Result<Arc<dyn CompiledSchema>, String>;
}

/// A compiled schema.
pub trait CompiledSchema: Send + Sync {
    /// Returns the first `max` places at which a value does not match; none if it matches.
    fn faults(&self, value: &Value, max: usize) -> Vec<SchemaFault>;
}

/// A place at which a value does not match its schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaFault {
    /// The place in the value, as a JSON Pointer (RFC 6901); empty for the whole value.
    pub path: String,
    /// What does not match there, with the value.
    pub problem: String,
    /// The name of the required member that is missing there.
    pub missing: Option<String>,
}
