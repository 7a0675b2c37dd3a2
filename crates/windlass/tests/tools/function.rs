//! Function tools: schema, answers, classes.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use windlass::port::tool::{Tool, ToolOutput};
use windlass::tool::{FunctionTool, IntoToolOutcome, Json};
use windlass_machine::{Annotations, EffectClass};

use super::{context, run, show};

/// Not for the model.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Order {
    /// What is ordered.
    item: Item,
    /// How many.
    count: u32,
    note: Option<String>,
    title: String,
    labels: BTreeMap<String, String>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Item {
    Tea,
    Coffee,
}

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

#[derive(Deserialize, JsonSchema)]
struct Echo {
    text: String,
}

#[test]
fn the_schema_is_clean_and_has_no_references() {
    let tool = FunctionTool::new("order", "Orders", |_, _: Order| async { "done" });
    let expected = json!({
        "type": "object",
        "properties": {
            "item": {"description": "What is ordered.", "type": "string", "enum": ["tea", "coffee"]},
            "count": {"description": "How many.", "type": "integer", "minimum": 0},
            "note": {"type": ["string", "null"]},
            "title": {"type": "string"},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        },
        "required": ["item", "count", "title", "labels"],
    });
    assert_eq!(tool.spec().input_schema, expected);
    let nothing = FunctionTool::new("nothing", "Nothing", |_, _: Nothing| async { "done" });
    assert_eq!(nothing.spec().input_schema, json!({"type": "object", "properties": {}}));
}

#[track_caller]
fn check<O: IntoToolOutcome + Send + 'static>(
    answer: impl Fn(String) -> O + Send + Sync + 'static,
    expected: &str,
) {
    let tool = FunctionTool::new("echo", "Echoes", move |_, echo: Echo| {
        let answer = answer(echo.text);
        async move { answer }
    });
    let output = run(&tool, context(None, CancellationToken::new()), json!({"text": "hi"}));
    assert_eq!(show(&output), expected);
}

#[test]
fn functions_answer_in_many_types() {
    check(|text| text, "ok: hi");
    check(|_| "fixed", "ok: fixed");
    check(|text| json!({"said": text}), r#"ok: {"said":"hi"}"#);
    check(|text| Json(vec![text]), r#"ok: ["hi"]"#);
    check(Ok::<String, String>, "ok: hi");
    check(|text| Err::<Value, String>(format!("no {text}")), "error: no hi");
    check(|_| "x".parse::<u8>().map(|_| String::new()), "error: invalid digit found in string");
    check(ToolOutput::error, "error: hi");
}

// rows: WT-L7
#[test]
fn arguments_of_another_shape_are_an_error_for_the_model() {
    let tool = FunctionTool::new("echo", "Echoes", |_, echo: Echo| async move { echo.text });
    let output = run(&tool, context(None, CancellationToken::new()), json!({"text": 3}));
    assert_eq!(show(&output), "error: Invalid arguments: invalid type: integer `3`, expected a string");
}

#[test]
fn the_effect_class_follows_the_hints_unless_set() {
    let tool = || FunctionTool::new("echo", "Echoes", |_, echo: Echo| async move { echo.text });
    let reads = Annotations { read_only_hint: true, ..Annotations::default() };
    let class = |tool: &FunctionTool| tool.traits().effect_class(tool.spec());
    assert_eq!(class(&tool()), EffectClass::Once);
    assert_eq!(class(&tool().annotations(reads)), EffectClass::Pure);
    let keyed = tool().annotations(reads).effect_class(EffectClass::Keyed);
    assert_eq!(class(&keyed), EffectClass::Keyed);
}
