//! The table equals the model library's catalogue in another form.
//!
//! With `WINDLASS_RENEW` set, the first test writes the table.

use rig_core::catalog::{Catalog, ModelSpec as LibrarySpec, Sampling as LibrarySampling};
use windlass_engine::port::model::Price;

use super::*;

/// Returns the line of a model of the library, in the format that `parse` reads.
fn line_of(spec: &LibrarySpec) -> String {
    let compat = &spec.compat;
    assert!(matches!(compat.thinking_off.as_deref(), None | Some("between_tools")));
    assert!(matches!(compat.reasoning_field.as_deref(), None | Some("reasoning_content")));
    let flags = [
        ('t', spec.tools),
        ('s', spec.structured_output),
        ('i', spec.input.image),
        ('r', spec.reasoning.supported),
        ('o', spec.reasoning.can_disable),
        ('d', spec.reasoning.default.is_some()),
        ('N', spec.sampling == Some(LibrarySampling::Never)),
        ('O', spec.sampling == Some(LibrarySampling::ReasoningOff)),
        ('A', spec.sampling == Some(LibrarySampling::Any)),
        ('a', compat.adaptive_thinking),
        ('w', compat.thinking_off.is_some()),
        ('m', compat.mid_conversation_system),
        ('b', compat.binds_context),
        ('f', compat.reasoning_field.is_some()),
    ];
    let number = |number: Option<u32>| number.map_or(String::new(), |number| number.to_string());
    let flags: String = flags.into_iter().filter(|(_, set)| *set).map(|(flag, _)| flag).collect();
    let words = Level::ALL.map(Level::as_str);
    let mut levels: Vec<usize> = spec
        .reasoning
        .levels
        .iter()
        .map(|level| words.iter().position(|word| *word == level.as_str()).unwrap())
        .collect();
    levels.sort_unstable();
    let levels: String = levels.iter().map(usize::to_string).collect();
    let budget = spec.reasoning.budget.as_ref();
    let budget = budget.map_or(String::new(), |range| format!("{}-{}", range.start(), range.end()));
    let price = |price: Option<f64>| price.map_or("-".to_owned(), |price| price.to_string());
    let prices = spec.pricing.map_or(String::new(), |known| {
        [Some(known.input), Some(known.output), known.cache_read, known.cache_write].map(price).join(" ")
    });
    let name = format!("{}/{}", spec.provider.vendor(), spec.id);
    let facts =
        [name, number(spec.context_window), number(spec.max_output_tokens), flags, levels, budget, prices];
    facts.join("\t")
}

#[test]
fn the_table_is_the_library_s_catalogue() {
    let mut lines: Vec<String> = Catalog::builtin().iter().map(line_of).collect();
    lines.sort_unstable_by(|one, other| one.split('\t').next().cmp(&other.split('\t').next()));
    let expected = lines.join("\n") + "\n";
    if std::env::var_os("WINDLASS_RENEW").is_some() {
        std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/src/table/models.txt"), &expected).unwrap();
    }
    let first = expected.lines().zip(TABLE.lines()).find(|(expected, line)| expected != line);
    assert_eq!(first, None);
    assert_eq!(expected.len(), TABLE.len());
}

#[test]
fn each_model_is_found_and_read() {
    for spec in Catalog::builtin().iter() {
        let (vendor, id) = (spec.provider.vendor(), spec.id.as_str());
        let found = exact(vendor, id).unwrap_or_else(|| panic!("{vendor}/{id}"));
        assert_eq!(found.context_tokens, spec.context_window.map(u64::from), "{vendor}/{id}");
        assert_eq!(found.max_output_tokens, spec.max_output_tokens.map(u64::from));
        assert_eq!(found.tools, spec.tools);
        assert_eq!(found.images, spec.input.image);
        assert_eq!(found.structured_output, spec.structured_output);
        assert_eq!(found.reasoning.supported, spec.reasoning.supported);
        assert_eq!(
            found.reasoning.budget,
            spec.reasoning.budget.as_ref().map(|range| (*range.start(), *range.end()))
        );
        assert_eq!(found.reasoning.levels.iter().count(), spec.reasoning.levels.len());
        assert_eq!(found.reasoning.can_disable, spec.reasoning.can_disable);
        let price = spec.pricing.map(|price| Price {
            input: price.input,
            output: price.output,
            cached: price.cache_read,
            cache_written: price.cache_write,
        });
        assert_eq!(found.price, price, "{vendor}/{id}");
    }
    for name in ["", "a/b", "anthropic/claude", "zzz/z", "openai/gpt-5.2-nothing"] {
        assert_eq!(line(name), None, "{name}");
    }
}

#[test]
fn snapshots_are_found_by_their_model() {
    let output = |spec: Option<ModelSpec>| spec.and_then(|spec| spec.max_output_tokens);
    let opus = output(exact("anthropic", "claude-opus-4-6"));
    assert!(opus.is_some());
    assert_eq!(output(find("anthropic", "claude-opus-4-6-20991231")), opus);
    assert_eq!(output(find("anthropic", "claude-opus-4-6-2099-12-31")), opus);
    assert_eq!(output(find("anthropic", "claude-opus-4-6-latest")), None);
    assert_eq!(output(find_snapshot("anthropic", "claude-opus-4-6-2099x")), opus);
    assert_eq!(output(find_claude("eu.anthropic.claude-opus-4-6-v1:0")), opus);
    assert_eq!(output(find_claude("anthropic/claude-opus-4.6")), opus);
    assert_eq!(output(find_claude("claude")), None);
}
