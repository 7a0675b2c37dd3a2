//! What is known of a model before it is called: the library's catalogue, and the configuration over it.
//!
//! What neither knows stays unknown; nothing is guessed.

use rig_core::catalog::{Catalog, ModelSpec};
use windlass_engine::port::model::{ModelInfo, Price};

use super::config::KnownModel;

/// Finds a model in the built-in catalogue, also by the name of a dated snapshot of it, or of its default version.
pub(super) fn find(vendor: Option<&str>, model: &str) -> Option<&'static ModelSpec> {
    let vendor = vendor?;
    let catalog = Catalog::builtin();
    let exact = |model: &str| catalog.resolve(&format!("{vendor}/{model}"));
    exact(model)
        .or_else(|| exact(&format!("{model}@default")))
        .or_else(|| model.match_indices("-20").filter_map(|(at, _)| exact(&model[..at])).last())
}

/// Puts together what is known. Unknown stays `None`. (SK-L13)
pub(super) fn describe(
    name: &str,
    api: &str,
    spec: Option<&ModelSpec>,
    known: Option<&KnownModel>,
) -> ModelInfo {
    let listed = ModelInfo {
        name: name.to_owned(),
        api: api.to_owned(),
        context_tokens: spec.and_then(|spec| spec.context_window).map(u64::from),
        max_output_tokens: spec.and_then(|spec| spec.max_output_tokens).map(u64::from),
        tool_calls: spec.map(|spec| spec.tools),
        // The list leaves the field out where nobody looked, and the library reads that as no.
        structured_output: spec.and_then(|spec| spec.structured_output.then_some(true)),
        reasoning: spec.map(|spec| spec.reasoning.supported),
        price: spec.and_then(|spec| spec.pricing.as_ref()).map(|pricing| Price {
            input: pricing.input,
            output: pricing.output,
            cached: pricing.cache_read,
            cache_written: pricing.cache_write,
        }),
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
