//! Resources of servers: listed and read by programs, and by models with two tools. (LM-T16)
//!
//! The module has no subscriptions; a resource is read on request.

use std::sync::{Arc, Weak};

use async_trait::async_trait;
use rmcp::model::{ClientRequest, ReadResourceRequest, ReadResourceRequestParams, ServerResult};
use rmcp::service::ServiceError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use windlass_engine::port::tool::{CallContext, OutputPart, Tool, ToolOutcome, ToolOutput, ToolTraits};
use windlass_engine::tool::crashing_masked;
use windlass_machine::{Annotations, EffectClass, ToolSpec};
use windlass_schema::schema_for;

use crate::call::exchange::{Exchange, away};
use crate::core::connect::told_service;
use crate::core::connection::Connection;
use crate::core::{Core, Link};
use crate::error::McpError;
use crate::hub::{McpHub, Shared};
use crate::list::Pages;
use crate::result;

/// A resource of a server, or a template for resources.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct McpResource {
    /// The server's name.
    pub server: String,
    /// The URI. It is a template if it contains `{…}`.
    pub uri: String,
    /// The resource's name at the server.
    pub name: String,
    /// The content of the resource, as described by the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The media type, for example `text/markdown`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    /// Size in bytes, if the server reports it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
}

/// Maximum number of resources listed per server. Neither models nor users read more.
const MAX_RESOURCES: usize = 1_000;

impl McpHub {
    /// Lists the resources of a server, templates last.
    pub async fn resources(&self, server: &str) -> Result<Vec<McpResource>, McpError> {
        let core = self.shared().core(server)?;
        resources(&core).await
    }

    /// Reads a resource as parts of a tool result.
    pub async fn read_resource(&self, server: &str, uri: &str) -> Result<Vec<OutputPart>, McpError> {
        let core = self.shared().core(server)?;
        let connection = connected(&core).await?;
        let params = ReadResourceRequestParams::new(uri);
        let read = within(&core, connection.peer.read_resource(params)).await?;
        Ok(core.masks.parts(parts(&serde_json::to_value(read.contents).unwrap_or_default())))
    }
}

/// Returns the connection, or an error for the caller.
pub(crate) async fn connected(core: &Core) -> Result<Arc<Connection>, McpError> {
    let server = core.config.name.clone();
    core.connection().await.map_err(|link| match link {
        Link::SignIn { .. } => McpError::SignIn { server },
        Link::Down { why, .. } => McpError::Unavailable { server, why },
        Link::Starting | Link::Disabled | Link::Up { .. } => {
            McpError::Unavailable { server, why: away(core, &link) }
        }
    })
}

/// Waits for a response within the request timeout.
pub(crate) async fn within<T>(
    core: &Core,
    answer: impl Future<Output = Result<T, ServiceError>>,
) -> Result<T, McpError> {
    let server = core.config.name.clone();
    let limit_ms = core.config.timeouts.request_ms;
    tokio::select! {
        biased;
        answer = answer => answer.map_err(|error| match error {
            ServiceError::McpError(error) => {
                let message = core.masks.reasons().text(&error.message);
                McpError::Refused { server, code: error.code.0, message }
            }
            error => {
                core.signals.kick.notify_one();
                McpError::Unavailable { server, why: core.masks.reasons().text(&told_service(&error)) }
            }
        }),
        () = core.clock.sleep_ms(limit_ms) => {
            Err(McpError::Unavailable { server, why: format!("no response within {limit_ms} ms") })
        }
    }
}

async fn resources(core: &Core) -> Result<Vec<McpResource>, McpError> {
    if !core.has_resources() {
        connected(core).await?;
        if !core.has_resources() {
            return Ok(Vec::new());
        }
    }
    let connection = connected(core).await?;
    let (peer, server) = (&connection.peer, &core.config.name);
    let mut found = Vec::new();
    let mut pages = Pages::first();
    while let Some(params) = pages.wanted().filter(|_| found.len() < MAX_RESOURCES) {
        let page = within(core, peer.list_resources(params)).await?;
        // Resources that cannot be redacted are omitted.
        let listed = page.resources.into_iter().filter_map(|it| core.masks.said(it).ok());
        found.extend(listed.map(|it| McpResource {
            server: server.clone(),
            uri: it.uri,
            name: it.title.unwrap_or(it.name),
            description: it.description,
            media_type: it.mime_type,
            size_bytes: it.size,
        }));
        pages.came(page.next_cursor);
    }
    let mut pages = Pages::first();
    while let Some(params) = pages.wanted().filter(|_| found.len() < MAX_RESOURCES) {
        // Servers without templates often reject this request.
        let Ok(page) = within(core, peer.list_resource_templates(params)).await else { break };
        let listed = page.resource_templates.into_iter().filter_map(|it| core.masks.said(it).ok());
        found.extend(listed.map(|it| McpResource {
            server: server.clone(),
            uri: it.uri_template,
            name: it.title.unwrap_or(it.name),
            description: it.description,
            media_type: it.mime_type,
            size_bytes: None,
        }));
        pages.came(page.next_cursor);
    }
    found.truncate(MAX_RESOURCES);
    Ok(found)
}

fn parts(contents: &Value) -> Vec<OutputPart> {
    contents.as_array().into_iter().flatten().map(result::resource).collect()
}

#[derive(Deserialize, JsonSchema)]
struct ListArguments {
    /// The server to list. If omitted, the names of the servers that have resources are returned.
    #[serde(default)]
    server: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
struct ReadArguments {
    /// The server that has the resource.
    server: String,
    /// The URI of the resource, as returned by `ListMcpResources`.
    uri: String,
}

/// The tools with which models read resources.
pub struct ResourceTools;

impl ResourceTools {
    /// Names of the tools; no server's tool can have them.
    pub const NAMES: [&'static str; 2] = ["ListMcpResources", "ReadMcpResource"];

    pub(crate) fn of(shared: Weak<Shared>) -> [(String, Arc<dyn Tool>); 2] {
        let spec = |name: &str, description: &str, input_schema: Value| ToolSpec {
            name: name.into(),
            description: description.to_owned(),
            input_schema,
            annotations: Annotations {
                read_only_hint: true,
                open_world_hint: true,
                ..Annotations::default()
            },
            withheld: Vec::new(),
        };
        let [list, read] = Self::NAMES;
        let about_list = "List the resources of the connected MCP servers: documents, records, files. A URI \
                          with {…} is a template: fill it in.";
        let about_read = "Read a resource of a connected MCP server.";
        let list_tool = ListResources {
            shared: shared.clone(),
            spec: spec(list, about_list, schema_for::<ListArguments>()),
        };
        let read_tool = ReadResource { shared, spec: spec(read, about_read, schema_for::<ReadArguments>()) };
        [(list.to_owned(), Arc::new(list_tool)), (read.to_owned(), Arc::new(read_tool))]
    }
}

struct ListResources {
    shared: Weak<Shared>,
    spec: ToolSpec,
}

#[async_trait]
impl Tool for ListResources {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn server_for(&self, arguments: &Value) -> Option<String> {
        named(arguments)
    }

    async fn call(&self, context: CallContext, arguments: Value) -> ToolOutcome {
        let Some(shared) = self.shared.upgrade() else { return gone() };
        let Ok(ListArguments { server }) = serde_json::from_value(arguments) else { return gone() };
        let Some(server) = server else {
            // Rules for a server apply to calls that name it. A call without a server therefore contacts no
            // server and returns the servers' names.
            let having = shared.cores().into_iter().filter(|core| core.has_resources());
            let servers: Vec<String> = having.map(|core| core.config.name.clone()).collect();
            let hint = "call again with one of these as `server`";
            return ToolOutcome::text(json!({ "servers": servers, "hint": hint }).to_string());
        };
        let core = match shared.core(&server) {
            Ok(core) => core,
            Err(error) => {
                return ToolOutcome::error(format!("Tool error: {error}. Available: {}", names(&shared)));
            }
        };
        let listed = crashing_masked(Box::pin(resources(&core)), || core.masks.reasons());
        let listed = tokio::select! {
            biased;
            () = context.cancel.cancelled() => return ToolOutcome::error("Tool error: the call was cancelled"),
            listed = listed => listed,
        };
        match listed {
            Ok(found) => ToolOutcome::text(json!({ "resources": found }).to_string()),
            Err(error) => ToolOutcome::error(format!("Tool error: {error}")),
        }
    }
}

struct ReadResource {
    shared: Weak<Shared>,
    spec: ToolSpec,
}

#[async_trait]
impl Tool for ReadResource {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn traits(&self) -> ToolTraits<'_> {
        ToolTraits { class: Some(EffectClass::Idempotent), ..ToolTraits::default() }
    }

    fn server_for(&self, arguments: &Value) -> Option<String> {
        named(arguments)
    }

    async fn call(&self, context: CallContext, arguments: Value) -> ToolOutcome {
        let Some(shared) = self.shared.upgrade() else { return gone() };
        let Ok(ReadArguments { server, uri }) = serde_json::from_value(arguments) else { return gone() };
        let core = match shared.core(&server) {
            Ok(core) => core,
            Err(error) => {
                return ToolOutcome::error(format!("Tool error: {error}. Available: {}", names(&shared)));
            }
        };
        crashing_masked(Box::pin(self.read(&core, &context, &uri)), || core.masks.reasons()).await
    }
}

impl ReadResource {
    async fn read(&self, core: &Arc<Core>, context: &CallContext, uri: &str) -> ToolOutcome {
        let request = |responses, state| {
            let mut params = ReadResourceRequestParams::new(uri);
            (params.input_responses, params.request_state) = (responses, state);
            ClientRequest::ReadResourceRequest(ReadResourceRequest::new(params))
        };
        let class = context.class.unwrap_or_else(|| self.traits().effect_class(&self.spec));
        let repeats = matches!(class, EffectClass::Pure | EffectClass::Idempotent);
        let exchange = Exchange { core, context, request: &request, repeats };
        match exchange.made().await {
            Ok(ServerResult::ReadResourceResult(read)) => {
                let output = match parts(&serde_json::to_value(read.contents).unwrap_or_default()) {
                    parts if parts.is_empty() => ToolOutput::text("(The resource is empty)"),
                    parts => ToolOutput { parts, ..ToolOutput::default() },
                };
                core.masks.output(output).into()
            }
            Ok(_) => ToolOutcome::error("Tool error: the server's response is not a resource"),
            Err(output) => exchange.masked(output).await,
        }
    }
}

/// Returns the server that the arguments name.
fn named(arguments: &Value) -> Option<String> {
    arguments.get("server").and_then(Value::as_str).map(str::to_owned)
}

fn names(shared: &Shared) -> String {
    let names: Vec<String> = shared.cores().iter().map(|core| format!("`{}`", core.config.name)).collect();
    names.join(", ")
}

fn gone() -> ToolOutcome {
    ToolOutcome::error("Tool error: the tool servers are shutting down")
}
