//! Implements the engine's schema port with the `jsonschema` crate.
//!
//! The compiled size and the backtracking of patterns are limited, because a server may send a schema with
//! patterns that are slow on purpose.

use std::sync::Arc;

use jsonschema::error::ValidationErrorKind;
use jsonschema::{PatternOptions, ValidationError, Validator};
use serde_json::Value;
use windlass_engine::port::schema::{CompiledSchema, SchemaCompiler, SchemaFault};

/// Maximum number of backtracking steps of a pattern. Above this limit, the pattern does not match.
const BACKTRACK_MAX: usize = 100_000;

/// Maximum size of a compiled pattern, in bytes.
const PATTERN_MAX_BYTES: usize = 1024 * 1024;

/// Compiles JSON schemas of every draft. The default is 2020-12 unless a schema names another draft.
#[derive(Clone, Copy, Debug, Default)]
pub struct JsonSchemas;

impl SchemaCompiler for JsonSchemas {
    fn compile(&self, schema: &Value) -> Result<Arc<dyn CompiledSchema>, String> {
        let patterns =
            PatternOptions::fancy_regex().backtrack_limit(BACKTRACK_MAX).size_limit(PATTERN_MAX_BYTES);
        let compiled = jsonschema::options().offline().with_pattern_options(patterns).build(schema);
        compiled.map(|validator| Arc::new(Compiled(validator)) as _).map_err(|error| error.to_string())
    }
}

struct Compiled(Validator);

impl CompiledSchema for Compiled {
    fn faults(&self, value: &Value, max: usize) -> Vec<SchemaFault> {
        self.0.iter_errors(value).take(max).map(|error| fault(&error)).collect()
    }
}

fn fault(error: &ValidationError<'_>) -> SchemaFault {
    let missing = match error.kind() {
        ValidationErrorKind::Required { property } => property.as_str().map(str::to_owned),
        _ => None, // tidy: the kinds belong to the validator
    };
    SchemaFault { path: error.instance_path().as_str().to_owned(), problem: error.to_string(), missing }
}
