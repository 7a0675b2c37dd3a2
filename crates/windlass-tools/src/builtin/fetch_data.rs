//! `FetchData`: reads parts of an offloaded result. (LM-O4)
//!
//! The tool can read only results of its own thread, and its answers are never offloaded.

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use windlass_engine::port::tool::{CallContext, Tool, ToolOutcome, ToolTraits};
use windlass_machine::{EffectClass, ToolSpec};
use windlass_schema::schema_for;

use super::{Refusal, read_only};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FetchArguments {
    /// The `ref` in the summary of the result.
    #[serde(rename = "ref")]
    reference: String,
    /// JSON pointer to part of a JSON result: `/items/3/title`.
    #[serde(default)]
    pointer: Option<String>,
    /// The first item of an array, or the first line of other results, counted from 0.
    #[serde(default)]
    offset: usize,
    /// Number of items or lines to return.
    #[serde(default)]
    limit: Option<usize>,
    /// The character to start at in the first item or line, if it is too long for one answer.
    #[serde(default)]
    from: usize,
}

/// The tool `FetchData`.
pub struct FetchData {
    spec: ToolSpec,
}

/// Creates the tool `FetchData`.
pub fn fetch_data() -> FetchData {
    FetchData {
        spec: ToolSpec {
            name: "FetchData".into(),
            description: DESCRIPTION.into(),
            input_schema: schema_for::<FetchArguments>(),
            annotations: read_only(),
            withheld: Vec::new(),
        },
    }
}

const DESCRIPTION: &str = "Read a result that was replaced by a summary, by the `ref` in the summary. Select \
part of a JSON result with `pointer`, and items of an array or lines of text with `offset` and `limit`. An \
item or line that is too long is returned in pieces: continue with `from`.";

/// Maximum size of one answer, in bytes. It is smaller than the limit of any result, so that
/// no part of an answer is dropped silently.
const SHOWN_BYTES: usize = 32 * 1024;

#[async_trait]
impl Tool for FetchData {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn traits(&self) -> ToolTraits<'_> {
        ToolTraits {
            class: Some(EffectClass::Pure),
            fetches: true,
            reads_locally: true,
            ..ToolTraits::default()
        }
    }

    async fn call(&self, context: CallContext, arguments: Value) -> ToolOutcome {
        let asked = match serde_json::from_value::<FetchArguments>(arguments) {
            Ok(asked) => asked,
            Err(problem) => return ToolOutcome::error(format!("Invalid arguments: {problem}")),
        };
        let text = match context.results.text(&asked.reference).await {
            Ok(text) => text,
            Err(why) => return ToolOutcome::error(why),
        };
        match part(&text, &asked) {
            Ok(part) => ToolOutcome::text(part),
            Err(Refusal(why)) => ToolOutcome::error(why),
        }
    }
}

fn part(text: &str, asked: &FetchArguments) -> Result<String, Refusal> {
    let value =
        serde_json::from_str::<Value>(text).ok().filter(|value| value.is_array() || value.is_object());
    let value = match (&asked.pointer, value) {
        (None, value) => value,
        (Some(_), None) => return Err(Refusal::new("the result is not JSON: omit `pointer`")),
        (Some(pointer), Some(value)) => Some(value.pointer(pointer).cloned().ok_or_else(|| {
            let pointer: String = pointer.chars().take(64).collect();
            Refusal(format!("the result has nothing at `{pointer}`; {}", shape(&value)))
        })?),
    };
    match value {
        Some(Value::Array(items)) => {
            let items: Vec<String> = items.iter().map(Value::to_string).collect();
            paged(&items, asked, &ITEMS)
        }
        Some(Value::String(text)) => lines(&text, asked),
        // The JSON is formatted in lines, so that the model can read it in parts.
        Some(value) => lines(&serde_json::to_string_pretty(&value).unwrap_or_default(), asked),
        None => lines(text, asked),
    }
}

fn shape(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("it is an array of {} items", items.len()),
        Value::Object(members) => {
            let keys: Vec<&str> = members.keys().take(20).map(String::as_str).collect();
            format!("its keys are {}", keys.join(", "))
        }
        _ => "it is neither an array nor an object".into(), // tidy: not our enum
    }
}

fn lines(text: &str, asked: &FetchArguments) -> Result<String, Refusal> {
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    paged(&lines, asked, &LINES)
}

/// The unit of a page and its notation.
struct Kind {
    one: &'static str,
    begin: &'static str,
    between: &'static str,
    end: &'static str,
}

const ITEMS: Kind = Kind { one: "item", begin: "[", between: ",\n", end: "]" };
const LINES: Kind = Kind { one: "line", begin: "", between: "\n", end: "" };

/// Returns as many of the requested items as fit, with a hint how to continue.
fn paged(all: &[String], asked: &FetchArguments, kind: &Kind) -> Result<String, Refusal> {
    let (total, one) = (all.len(), kind.one);
    let first = asked.offset.min(total);
    let last = asked.limit.map_or(total, |limit| first.saturating_add(limit).min(total));
    let begun = match all.get(first) {
        Some(whole) => rest_of(whole, asked.from).map_err(|count| {
            Refusal(format!(
                "character {} is beyond the end: {one} {first} has {count} characters",
                asked.from
            ))
        })?,
        None => "",
    };
    let begin = if asked.from == 0 { kind.begin } else { "" };
    if first < last && begun.len() > SHOWN_BYTES {
        let piece = &begun[..begun.floor_char_boundary(SHOWN_BYTES)];
        let next = asked.from + piece.chars().count();
        let count = asked.from + begun.chars().count();
        return Ok(format!(
            "{piece}\n[characters {} to {next} of {count} in {one} {first} of {total}; continue with \
             offset={first} and from={next}]",
            asked.from
        ));
    }
    let mut shown = begin.to_owned();
    let mut next = first;
    let rest = all[first..last].iter().skip(1).map(String::as_str);
    for part in [begun].into_iter().filter(|_| first < last).chain(rest) {
        if next > first {
            // An item that is too large for any answer starts a new answer.
            if shown.len() + kind.between.len() + part.len() > SHOWN_BYTES {
                break;
            }
            shown.push_str(kind.between);
        }
        shown.push_str(part);
        next += 1;
    }
    shown.push_str(kind.end);
    if next < total {
        shown.push_str(&format!("\n[{first} to {next} of {total} {one}s; continue with offset={next}]"));
    } else if first > 0 {
        shown.push_str(&format!("\n[{first} to {next} of {total} {one}s]"));
    }
    Ok(shown)
}

/// Returns the text from a character on. The error is the number of characters in the text.
fn rest_of(text: &str, from: usize) -> Result<&str, usize> {
    let mut places = text.char_indices().map(|(place, _)| place).chain([text.len()]);
    places.nth(from).map(|place| &text[place..]).ok_or_else(|| text.chars().count())
}
