//! `FetchData`: what stands behind a summary of a long result, in parts. (LM-O4)
//!
//! It knows the results of its own conversation and no others, and what it answers is never summed up itself.

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use windlass_machine::{EffectClass, ToolSpec};

use super::{Refusal, read_only};
use crate::port::tool::{CallContext, Tool, ToolOutput};
use crate::tool::schema_for;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FetchArguments {
    /// The result, as its summary names it.
    #[serde(rename = "ref")]
    reference: String,
    /// A part of a JSON result, as a JSON pointer: `/items/3/title`.
    #[serde(default)]
    pointer: Option<String>,
    /// The first item of an array, or the first line of anything else; 0 is the first.
    #[serde(default)]
    offset: usize,
    /// How many items or lines.
    #[serde(default)]
    limit: Option<usize>,
}

/// The tool `FetchData`.
pub struct FetchData {
    spec: ToolSpec,
}

/// Makes the tool `FetchData`.
pub fn fetch_data() -> FetchData {
    FetchData {
        spec: ToolSpec {
            name: "FetchData".into(),
            description: DESCRIPTION.into(),
            input_schema: schema_for::<FetchArguments>(),
            annotations: read_only(),
        },
    }
}

const DESCRIPTION: &str = "Reads the whole of a result that was summed up, by the `ref` that its summary names: a part \
of a JSON result by `pointer`, items of an array or lines of a text by `offset` and `limit`.";

/// Bytes that one answer shows: less than any result may have, so that nothing of it is left out silently.
const SHOWN_BYTES: usize = 32 * 1024;

#[async_trait]
impl Tool for FetchData {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn effect_class(&self) -> EffectClass {
        EffectClass::Pure
    }

    fn fetches(&self) -> bool {
        true
    }

    async fn call(&self, context: CallContext, arguments: Value) -> ToolOutput {
        let asked = match serde_json::from_value::<FetchArguments>(arguments) {
            Ok(asked) => asked,
            Err(problem) => return ToolOutput::error(format!("Invalid arguments: {problem}")),
        };
        let text = match context.results.text(&asked.reference).await {
            Ok(text) => text,
            Err(why) => return ToolOutput::error(why),
        };
        match part(&text, &asked) {
            Ok(part) => ToolOutput::text(part),
            Err(Refusal(why)) => ToolOutput::error(why),
        }
    }
}

fn part(text: &str, asked: &FetchArguments) -> Result<String, Refusal> {
    let value =
        serde_json::from_str::<Value>(text).ok().filter(|value| value.is_array() || value.is_object());
    let value = match (&asked.pointer, value) {
        (None, value) => value,
        (Some(_), None) => return Err(Refusal::new("the result is no JSON: leave `pointer` out")),
        (Some(pointer), Some(value)) => Some(value.pointer(pointer).cloned().ok_or_else(|| {
            let pointer: String = pointer.chars().take(64).collect();
            Refusal(format!("there is nothing at `{pointer}`; {}", shape(&value)))
        })?),
    };
    match value {
        Some(Value::Array(items)) => {
            let items: Vec<String> = items.iter().map(Value::to_string).collect();
            Ok(format!("[{}", paged(&items, asked, "items", (",\n", "]"))))
        }
        Some(Value::String(text)) => Ok(lines(&text, asked)),
        // In lines, so that it can be read in parts.
        Some(value) => Ok(lines(&serde_json::to_string_pretty(&value).unwrap_or_default(), asked)),
        None => Ok(lines(text, asked)),
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

fn lines(text: &str, asked: &FetchArguments) -> String {
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    paged(&lines, asked, "lines", ("\n", ""))
}

/// As many as are asked for and fit, and how to go on.
fn paged(all: &[String], asked: &FetchArguments, what: &str, (between, end): (&str, &str)) -> String {
    let total = all.len();
    let first = asked.offset.min(total);
    let last = asked.limit.map_or(total, |limit| first.saturating_add(limit).min(total));
    let mut shown = String::new();
    let mut next = first;
    for one in &all[first..last] {
        let room = SHOWN_BYTES.saturating_sub(shown.len());
        if one.len() + between.len() > room && next > first {
            break;
        }
        if next > first {
            shown.push_str(between);
        }
        if one.len() > room {
            shown.push_str(&one[..one.floor_char_boundary(room)]);
            shown.push_str(&format!(
                "[… {} bytes of this one left out …]",
                one.len() - one.floor_char_boundary(room)
            ));
        } else {
            shown.push_str(one);
        }
        next += 1;
    }
    shown.push_str(end);
    if next < total {
        shown.push_str(&format!("\n[{first} to {next} of {total} {what}; go on with offset={next}]"));
    } else if first > 0 {
        shown.push_str(&format!("\n[{first} to {next} of {total} {what}]"));
    }
    shown
}
