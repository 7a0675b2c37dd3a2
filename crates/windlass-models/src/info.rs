//! Facts about a model, known before it is called: its row in the table of
//! models, overridden by the configuration.
//!
//! Unknown facts stay unknown; this module guesses none.

use windlass_engine::port::model::ModelInfo;

use crate::config::KnownModel;
use crate::table::{self, ModelSpec};

/// Finds a model in the table, also by the name of a dated snapshot or of its default version.
pub(super) fn find(vendor: Option<&str>, model: &str) -> Option<ModelSpec> {
    let vendor = vendor?;
    table::exact(vendor, model)
        .or_else(|| table::exact(vendor, &format!("{model}@default")))
        .or_else(|| table::find_snapshot(vendor, model))
}

/// Combines the table's facts with the configuration. Unknown facts stay `None`. (SK-L13)
pub(super) fn describe(
    name: &str,
    api: &str,
    spec: Option<ModelSpec>,
    known: Option<&KnownModel>,
) -> ModelInfo {
    let listed = ModelInfo {
        name: name.to_owned(),
        api: api.to_owned(),
        context_tokens: spec.and_then(|spec| spec.context_tokens),
        max_output_tokens: spec.and_then(|spec| spec.max_output_tokens),
        tool_calls: spec.map(|spec| spec.tools),
        // An absent flag means unknown, not false.
        structured_output: spec.and_then(|spec| spec.structured_output.then_some(true)),
        reasoning: spec.map(|spec| spec.reasoning.supported),
        price: spec.and_then(|spec| spec.price),
    };
    let Some(known) = known else { return listed };
    ModelInfo {
        context_tokens: known.context_tokens.or(listed.context_tokens),
        max_output_tokens: known.max_output_tokens.or(listed.max_output_tokens),
        tool_calls: known.tool_calls.or(listed.tool_calls),
        structured_output: known.structured_output.or(listed.structured_output),
        reasoning: known.reasoning.or(listed.reasoning),
        price: known.price.or(listed.price),
        ..listed
    }
}
