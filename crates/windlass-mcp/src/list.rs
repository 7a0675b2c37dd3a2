//! Reads a server's tools page by page. Returns the usable tools, and the unusable ones with a reason.
//!
//! An invalid tool is omitted; the rest of the list is used.

use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::{ClientRequest, ListToolsRequest, PaginatedRequestParams, ServerResult};
use rmcp::service::{Peer, ServiceError};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use windlass_engine::tool::check_schema;
use windlass_machine::Annotations;
use windlass_outbound::secret::Mask;
use windlass_schema::JsonSchemas;

use super::health::LeftOut;
use super::mask::{Masks, masked_json};

/// A tool as its server describes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct RemoteTool {
    /// The server's own name of the tool.
    pub name: String,
    pub title: Option<String>,
    pub description: String,
    pub input_schema: Value,
    pub output_schema: Option<Value>,
    pub annotations: Annotations,
    pub tag: Option<String>,
}

impl RemoteTool {
    /// Redacts the description. Fails if a name contains a secret: names cannot be
    /// redacted, because calls send them to the server.
    pub fn masked(self, mask: &Mask) -> Result<Self, String> {
        if mask.text(&self.name) != self.name {
            return Err("its name contains a secret".into());
        }
        let schema = masked_json(mask, self.input_schema);
        Ok(Self {
            title: self.title.map(|title| mask.text(&title)),
            description: mask.text(&self.description),
            input_schema: schema.map_err(|why| format!("invalid input schema: {why}"))?,
            // The schema is only used to validate results, so it can be dropped.
            output_schema: self.output_schema.and_then(|schema| masked_json(mask, schema).ok()),
            tag: self.tag.map(|tag| mask.text(&tag)),
            ..self
        })
    }
}

/// The tools that a server lists.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Listed {
    pub tools: Vec<RemoteTool>,
    pub left_out: Vec<LeftOut>,
    /// How long the list is valid, if the server reports it. (SEP-2549)
    pub ttl: Option<Duration>,
}

/// Maximum number of pages read. The limit stops a server whose list never ends.
const MAX_PAGES: usize = 200;

/// Progress through a paged list. The list ends at the last page, at
/// [`MAX_PAGES`], or when the server repeats a cursor.
pub(super) struct Pages {
    next: Next,
    read: usize,
}

#[derive(PartialEq)]
enum Next {
    First,
    At(String),
    Nothing,
}

impl Pages {
    pub fn first() -> Self {
        Self { next: Next::First, read: 0 }
    }

    /// Returns the parameters of the next request; `None` at the end of the list.
    pub fn wanted(&self) -> Option<Option<PaginatedRequestParams>> {
        match &self.next {
            Next::First => Some(None),
            Next::At(cursor) => {
                Some(Some(PaginatedRequestParams::default().with_cursor(Some(cursor.clone()))))
            }
            Next::Nothing => None,
        }
    }

    /// Records a page and the cursor of the next page.
    pub fn came(&mut self, next: Option<String>) {
        self.read += 1;
        self.next = match next.map(Next::At) {
            Some(next) if next != self.next && self.read < MAX_PAGES => next,
            Some(_) | None => Next::Nothing,
        };
    }
}

/// Maximum number of tools read. Far fewer fit into a request.
const MAX_TOOLS: usize = 5_000;

/// Reads and redacts the whole list.
pub(super) async fn tools(peer: &Peer<RoleClient>, masks: &Masks) -> Result<Listed, ServiceError> {
    let mut listed = Listed::default();
    let mut pages = Pages::first();
    while let Some(params) = pages.wanted() {
        let page = page(peer, params).await?;
        // The mask is created after the request, because it also redacts the values sent with the request.
        let mask = masks.results();
        let ttl = page.get("ttlMs").and_then(Value::as_u64).map(Duration::from_millis);
        listed.ttl = [listed.ttl, ttl].into_iter().flatten().min();
        for tool in page.get("tools").and_then(Value::as_array).into_iter().flatten() {
            if listed.tools.len() + listed.left_out.len() >= MAX_TOOLS {
                let why = format!("the server has more than {MAX_TOOLS} tools");
                listed.left_out.push(LeftOut { tool: "…".into(), why });
                return Ok(listed);
            }
            match read(tool, &mask) {
                Ok(tool) if listed.tools.iter().any(|other| other.name == tool.name) => {
                    listed
                        .left_out
                        .push(LeftOut { tool: tool.name, why: "another tool has the same name".into() });
                }
                Ok(tool) => listed.tools.push(tool),
                Err(left_out) => listed.left_out.push(left_out),
            }
        }
        pages.came(page.get("nextCursor").and_then(Value::as_str).map(str::to_owned));
    }
    Ok(listed)
}

/// Reads one page as JSON, because the library rejects the whole page if one tool is invalid.
async fn page(
    peer: &Peer<RoleClient>,
    params: Option<PaginatedRequestParams>,
) -> Result<Value, ServiceError> {
    let request = ListToolsRequest { params, ..ListToolsRequest::default() };
    match peer.send_request(ClientRequest::ListToolsRequest(request)).await? {
        ServerResult::ListToolsResult(page) => {
            serde_json::to_value(page).map_err(|_| ServiceError::UnexpectedResponse)
        }
        ServerResult::CustomResult(page) if page.0.get("tools").is_some_and(Value::is_array) => Ok(page.0),
        _ => Err(ServiceError::UnexpectedResponse),
    }
}

/// Reads one tool. Redacts the tool first, because the reason for its omission quotes it.
/// Absent hints get the most cautious value.
fn read(tool: &Value, mask: &Mask) -> Result<RemoteTool, LeftOut> {
    let read = described(tool).ok_or_else(|| LeftOut { tool: "?".into(), why: "it has no name".into() })?;
    let name = mask.text(&read.name);
    let left_out = |why: String| LeftOut { tool: name.clone(), why };
    let read = read.masked(mask).map_err(left_out)?;
    if let Err(why) = check_schema(&JsonSchemas, &read.input_schema) {
        return Err(left_out(format!("invalid input schema: {why}")));
    }
    let size = read.description.len();
    if size > DESCRIPTION_MAX_BYTES {
        let why =
            format!("its description is {size} bytes long; at most {DESCRIPTION_MAX_BYTES} are allowed");
        return Err(left_out(why));
    }
    Ok(read)
}

/// Parses a tool; `None` if it has no name.
fn described(tool: &Value) -> Option<RemoteTool> {
    let text = |name: &str| tool.get(name).and_then(Value::as_str).map(str::to_owned);
    let name = text("name").filter(|name| !name.is_empty())?;
    let hints = tool.get("annotations");
    let hint = |name: &str| hints.and_then(|hints| hints.get(name)).and_then(Value::as_bool);
    let read_only = hint("readOnlyHint").unwrap_or(false);
    let annotations = Annotations {
        read_only_hint: read_only,
        destructive_hint: hint("destructiveHint").unwrap_or(!read_only),
        idempotent_hint: hint("idempotentHint").unwrap_or(false),
        open_world_hint: hint("openWorldHint").unwrap_or(true),
    };
    let title =
        text("title").or_else(|| hints.and_then(|hints| hints.get("title")?.as_str().map(str::to_owned)));
    Some(RemoteTool {
        tag: tag(tool, &name),
        title,
        description: text("description").unwrap_or_default(),
        input_schema: input_schema(tool),
        output_schema: tool.get("outputSchema").filter(|schema| schema.is_object()).cloned(),
        annotations,
        name,
    })
}

/// Maximum size of a description, in bytes. A longer one would exceed the rest of a request.
const DESCRIPTION_MAX_BYTES: usize = 64 * 1024;

/// Returns the schema of a tool's arguments. Older servers list the tool's parameters
/// instead, and some tools have neither. (SK-C19)
fn input_schema(tool: &Value) -> Value {
    let given = ["inputSchema", "input_schema", "parameters"].iter().find_map(|name| tool.get(*name));
    match given {
        Some(Value::Object(schema)) => {
            let mut schema = schema.clone();
            schema.entry("type").or_insert_with(|| json!("object"));
            Value::Object(schema)
        }
        Some(Value::Array(parameters)) => {
            let (mut properties, mut required) = (Map::new(), Vec::new());
            for parameter in parameters {
                let Some(name) = parameter.get("name").and_then(Value::as_str) else { continue };
                let mut schema = Map::new();
                let kind = parameter.get("type").and_then(Value::as_str).unwrap_or("string");
                schema.insert("type".into(), json!(kind));
                if let Some(description) = parameter.get("description").filter(|text| text.is_string()) {
                    schema.insert("description".into(), description.clone());
                }
                if parameter.get("required").and_then(Value::as_bool) == Some(true) {
                    required.push(json!(name));
                }
                properties.insert(name.to_owned(), Value::Object(schema));
            }
            json!({ "type": "object", "properties": properties, "required": required })
        }
        Some(other) => other.clone(),
        None => json!({ "type": "object", "properties": {} }),
    }
}

/// Known prefixes of tool names, with the group of each. (SK-C7)
const PREFIXES: [(&str, &str); 6] = [
    ("k8s_", "k8s"),
    ("helm_", "helm"),
    ("argo_", "argo"),
    ("jenkins_", "jenkins"),
    ("memory_", "memory"),
    ("wait_for_x_seconds", "k8s"),
];

/// Returns a tool's group: its first tag, from either member that may contain
/// tags, or a known prefix of its name. (SK-C7)
fn tag(tool: &Value, name: &str) -> Option<String> {
    let first = |tags: Option<&Value>| tags?.as_array()?.first()?.as_str().map(str::to_owned);
    let meta = tool.get("_meta").or_else(|| tool.get("meta"));
    first(tool.get("tags"))
        .or_else(|| {
            first(meta.and_then(|meta| meta.get("_fastmcp").or_else(|| meta.get("fastmcp"))?.get("tags")))
        })
        .or_else(|| {
            let known = PREFIXES.iter().find(|(prefix, _)| name.starts_with(prefix));
            known.map(|(_, tag)| (*tag).to_owned())
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    // rows: SK-C7, SK-C19
    #[test]
    fn what_a_server_says_of_a_tool_is_read_leniently() {
        let tool = |tool: Value| read(&tool, &Mask::new(&[])).unwrap();
        let tags = |value: Value| tool(value).tag;
        assert_eq!(tags(json!({ "name": "a", "tags": ["x", "y"] })), Some("x".into()));
        assert_eq!(
            tags(json!({ "name": "k8s_get", "_meta": { "_fastmcp": { "tags": ["y"] } } })),
            Some("y".into())
        );
        assert_eq!(tags(json!({ "name": "k8s_get" })), Some("k8s".into()));
        assert_eq!(tags(json!({ "name": "wait_for_x_seconds" })), Some("k8s".into()));
        assert_eq!(tags(json!({ "name": "get" })), None);

        let empty = json!({ "type": "object", "properties": {} });
        assert_eq!(tool(json!({ "name": "a" })).input_schema, empty);
        let listed = json!([{ "name": "n", "type": "integer", "description": "how many", "required": true }, { "name": "s" }]);
        let schema = json!({
            "type": "object",
            "properties": { "n": { "type": "integer", "description": "how many" }, "s": { "type": "string" } },
            "required": ["n"],
        });
        assert_eq!(tool(json!({ "name": "a", "parameters": listed })).input_schema, schema);
    }

    #[test]
    fn a_missing_hint_counts_as_the_careful_answer() {
        let read = |tool: Value| read(&tool, &Mask::new(&[]));
        let hints = |value: Value| read(json!({ "name": "a", "annotations": value })).unwrap().annotations;
        let careful = Annotations { destructive_hint: true, open_world_hint: true, ..Annotations::default() };
        assert_eq!(hints(json!({})), careful);
        assert_eq!(hints(json!({ "readOnlyHint": "yes" })), careful);
        let reads = hints(json!({ "readOnlyHint": true, "openWorldHint": false }));
        assert_eq!(reads, Annotations { read_only_hint: true, ..Annotations::default() });
    }

    #[test]
    fn a_schema_that_leaves_the_document_costs_the_tool() {
        let schema =
            json!({ "type": "object", "properties": { "a": { "$ref": "https://elsewhere/schema" } } });
        let read = |tool: Value| read(&tool, &Mask::new(&[]));
        let left_out = read(json!({ "name": "a", "inputSchema": schema })).unwrap_err();
        assert_eq!(left_out.tool, "a");
        assert!(left_out.why.contains("https://elsewhere/schema"), "{left_out:?}");
        assert_eq!(read(json!({ "description": "?" })).unwrap_err().why, "it has no name");
    }
}
