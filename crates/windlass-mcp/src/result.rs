//! Converts a server's results to tool results: text, images, files and errors. (SK-A8)
//!
//! The module fetches nothing: a link to a resource is not followed.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::Value;
use windlass_engine::port::tool::{OutputPart, ToolOutput};
use windlass_engine::tool::ValueCheck;
use windlass_schema::JsonSchemas;

/// Converts the result of a call. `schema` describes the structured part of the result.
pub(super) fn output(result: &Value, schema: Option<&Value>) -> ToolOutput {
    let failed = result.get("isError").and_then(Value::as_bool) == Some(true);
    let mut output = ToolOutput { error: failed, ..ToolOutput::default() };
    let blocks = result.get("content").and_then(Value::as_array);
    for block in blocks.into_iter().flatten() {
        output.parts.extend(part(block));
    }
    if let Some(structured) = result.get("structuredContent") {
        // Servers repeat structured content as text for older clients. An image alone does not repeat it.
        if !output.parts.iter().any(|part| matches!(part, OutputPart::Text(_))) {
            output.parts.push(OutputPart::Text(pretty(structured)));
        }
        if !failed
            && let Some(schema) = schema
            && let Err(why) = ValueCheck::new(&JsonSchemas, schema).and_then(|check| check.check(structured))
        {
            let note = format!("(The structured result does not match the tool's output schema: {why})");
            output.parts.push(OutputPart::Text(note));
        }
    }
    unwrap(&mut output);
    if output.error {
        say_error(&mut output);
    }
    output
}

/// Unwraps a text that is exactly `{"output": …, "error": …}`. (SK-A8)
fn unwrap(output: &mut ToolOutput) {
    let [OutputPart::Text(text)] = output.parts.as_mut_slice() else { return };
    let Ok(Value::Object(members)) = serde_json::from_str(text) else { return };
    let known = |name: &String| name == "output" || name == "error";
    if !members.contains_key("output") || !members.keys().all(known) {
        return;
    }
    let said = |name: &str| match members.get(name) {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) if text.is_empty() => None,
        Some(Value::String(text)) => Some(text.clone()),
        Some(other) => Some(pretty(other)),
    };
    match (said("error"), said("output")) {
        (Some(error), None) => {
            *text = error;
            output.error = true;
        }
        (Some(error), Some(said)) => {
            *text = format!("{error}\n\n{said}");
            output.error = true;
        }
        (None, said) => *text = said.unwrap_or_default(),
    }
}

fn say_error(output: &mut ToolOutput) {
    const SAID: &str = "Tool error: ";
    match output
        .parts
        .iter_mut()
        .find_map(|part| if let OutputPart::Text(text) = part { Some(text) } else { None })
    {
        Some(text) if text.starts_with(SAID) => {}
        Some(text) => text.insert_str(0, SAID),
        None => output.parts.insert(0, OutputPart::Text(format!("{SAID}the server gave no reason"))),
    }
}

/// Converts one block of a result or a prompt.
pub(super) fn part(block: &Value) -> Option<OutputPart> {
    let text = |name: &str| block.get(name).and_then(Value::as_str);
    match text("type")? {
        "text" => Some(OutputPart::Text(text("text")?.to_owned())),
        "image" => Some(picture_or_file(text("data")?, text("mimeType"), "image")),
        "audio" => Some(file(text("data")?, text("mimeType").unwrap_or("audio/wav"), "audio")),
        "resource" => Some(resource(block.get("resource")?)),
        "resource_link" => {
            let name = text("title").or_else(|| text("name")).unwrap_or_default();
            let about = text("description").map(|about| format!(": {about}")).unwrap_or_default();
            Some(OutputPart::Text(format!("[resource {} ({name}){about}]", text("uri")?)))
        }
        other => Some(OutputPart::Text(format!("[content of unknown type `{other}`]"))),
    }
}

/// Converts the contents of a resource.
pub(super) fn resource(contents: &Value) -> OutputPart {
    let text = |name: &str| contents.get(name).and_then(Value::as_str);
    let uri = text("uri").unwrap_or_default();
    match (text("text"), text("blob")) {
        (Some(text), _) => OutputPart::Text(text.to_owned()),
        (None, Some(blob)) => picture_or_file(blob, text("mimeType"), file_name(uri)),
        (None, None) => OutputPart::Text(format!("[the resource {uri} has no contents]")),
    }
}

/// Returns the last non-empty segment of a URI's path.
fn file_name(uri: &str) -> &str {
    let path = uri.split(['?', '#']).next().unwrap_or_default();
    path.rsplit('/').find(|part| !part.is_empty()).unwrap_or("resource")
}

fn picture_or_file(data: &str, media_type: Option<&str>, name: &str) -> OutputPart {
    let media_type = media_type.unwrap_or("application/octet-stream");
    if !media_type.starts_with("image/") {
        return file(data, media_type, name);
    }
    match decoded(data) {
        Ok(bytes) => OutputPart::Image { media_type: media_type.to_owned(), bytes },
        Err(unreadable) => unreadable,
    }
}

fn file(data: &str, media_type: &str, name: &str) -> OutputPart {
    match decoded(data) {
        Ok(bytes) => OutputPart::File { name: name.to_owned(), media_type: media_type.to_owned(), bytes },
        Err(unreadable) => unreadable,
    }
}

fn decoded(data: &str) -> Result<Bytes, OutputPart> {
    let unreadable = |_| OutputPart::Text("[data that is not valid base64]".to_owned());
    STANDARD.decode(data).map(Bytes::from).map_err(unreadable)
}

fn pretty(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => serde_json::to_string_pretty(other).unwrap_or_else(|_| other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns whether the result is an error, and its parts as text.
    fn shown(result: Value) -> (bool, Vec<String>) {
        let output = output(&result, None);
        let parts = output.parts.iter().map(|part| match part {
            OutputPart::Text(text) => text.clone(),
            OutputPart::Image { media_type, bytes } => format!("<{media_type} {}>", bytes.len()),
            OutputPart::File { name, media_type, bytes } => format!("<{name} {media_type} {}>", bytes.len()),
        });
        (output.error, parts.collect())
    }

    fn text(text: &str) -> Value {
        json!({ "content": [{ "type": "text", "text": text }] })
    }

    // rows: SK-A8
    #[test]
    fn every_kind_of_result_is_read() {
        let ok = |parts: &[&str]| (false, parts.iter().map(|part| (*part).to_owned()).collect::<Vec<_>>());
        let bad = |part: &str| (true, vec![part.to_owned()]);
        assert_eq!(shown(text("hello")), ok(&["hello"]));
        assert_eq!(shown(text(r#"{"output":"done","error":null}"#)), ok(&["done"]));
        assert_eq!(shown(text(r#"{"output":{"a":1},"error":""}"#)), ok(&["{\n  \"a\": 1\n}"]));
        assert_eq!(shown(text(r#"{"output":"","error":"no such pod"}"#)), bad("Tool error: no such pod"));
        assert_eq!(shown(text(r#"{"output":"x","more":1}"#)), ok(&[r#"{"output":"x","more":1}"#]));
        assert_eq!(
            shown(text(r#"{"error":"x"}"#)),
            ok(&[r#"{"error":"x"}"#]),
            "it may be what was asked for"
        );
        let failed = json!({ "isError": true, "content": [{ "type": "text", "text": "it broke" }] });
        assert_eq!(shown(failed), bad("Tool error: it broke"));
        assert_eq!(shown(json!({ "isError": true })), bad("Tool error: the server gave no reason"));
        assert_eq!(shown(json!({ "structuredContent": { "n": 1 } })), ok(&["{\n  \"n\": 1\n}"]));
        assert_eq!(
            shown(json!({ "structuredContent": 5, "content": [{ "type": "text", "text": "5" }] })),
            ok(&["5"])
        );
        let blocks = json!({ "content": [
            { "type": "image", "data": "AAAA", "mimeType": "image/png" },
            { "type": "audio", "data": "AAAA", "mimeType": "audio/mpeg" },
            { "type": "image", "data": "?", "mimeType": "image/png" },
            { "type": "resource", "resource": { "uri": "file:///a/b.txt", "text": "inside" } },
            { "type": "resource", "resource": { "uri": "x://a/b.pdf?c", "blob": "AAAA", "mimeType": "application/pdf" } },
            { "type": "resource", "resource": { "uri": "x://a/b.png", "blob": "AAAA", "mimeType": "image/png" } },
            { "type": "resource_link", "uri": "x://y", "name": "why", "description": "because" },
            { "type": "hologram" },
        ] });
        let parts = [
            "<image/png 3>",
            "<audio audio/mpeg 3>",
            "[data that is not valid base64]",
            "inside",
            "<b.pdf application/pdf 3>",
            "<image/png 3>",
            "[resource x://y (why): because]",
            "[content of unknown type `hologram`]",
        ];
        assert_eq!(shown(blocks), ok(&parts));
    }

    #[test]
    fn a_structured_result_that_breaks_its_schema_says_so() {
        let schema =
            json!({ "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"] });
        let told = |n: Value| {
            let result =
                json!({ "structuredContent": { "n": n }, "content": [{ "type": "text", "text": "n" }] });
            output(&result, Some(&schema)).parts.len()
        };
        assert_eq!(told(json!(1)), 1);
        assert_eq!(told(json!("one")), 2);
    }

    #[test]
    fn a_schema_of_results_may_be_of_anything() {
        let told = |schema: Value, structured: Value| {
            let result =
                json!({ "structuredContent": structured, "content": [{ "type": "text", "text": "n" }] });
            output(&result, Some(&schema)).parts.len()
        };
        let schemas = [
            (json!({ "type": "array", "items": { "type": "integer" } }), json!([1]), json!(["one"])),
            (json!({ "anyOf": [{ "type": "string" }, { "type": "null" }] }), json!("n"), json!(1)),
            (json!({ "$ref": "#/$defs/n", "$defs": { "n": { "type": "integer" } } }), json!(1), json!("one")),
        ];
        for (schema, fits, does_not) in schemas {
            assert_eq!((told(schema.clone(), fits), told(schema.clone(), does_not)), (1, 2), "{schema}");
        }
    }
}
