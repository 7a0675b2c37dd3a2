//! Tool servers that a client adds for one run. (ZE-E13)
//!
//! The servers exist for this run in this process only: their keys are never recorded, and they are removed when the
//! run ends. A client chooses their addresses, so only those that the settings allow for every caller are reachable.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};
use windlass::RunTools;
use windlass::mcp::{Http, HubConfig, McpHub, McpServer, Secrets, Transport};
use windlass::secret::Secret;
use windlass::tool::api::API_CALL;
use windlass_server::http::Shared;
use windlass_server::http::caller::Caller;
use windlass_server::http::problem::Problem;

use super::body::{refuse, taken};

/// Maximum number of servers of one run.
const SERVERS_MAX: usize = 10;
/// Maximum number of headers of a server, and maximum size of a header in bytes.
const HEADERS_MAX: usize = 32;
const HEADER_MAX_BYTES: usize = 4_096;
/// Maximum wait in milliseconds for the servers to connect. The client's stream begins after this wait.
const WITHIN_MS: u64 = 10_000;

/// The transport.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Wire {
    #[default]
    #[serde(alias = "streamable-http", alias = "http")]
    StreamableHttp,
    /// HTTP+SSE of 2024.
    Sse,
}

/// Parses `tools`.
pub fn read(tools: Vec<Map<String, Value>>) -> Result<Vec<McpServer>, Problem> {
    if tools.len() > SERVERS_MAX {
        let detail = format!("`tools` has {} entries; at most {SERVERS_MAX} are allowed", tools.len());
        return Err(Problem::invalid(detail));
    }
    tools.into_iter().enumerate().map(|(index, tool)| one(&format!("tools[{index}]."), tool)).collect()
}

fn one(of: &str, mut tool: Map<String, Value>) -> Result<McpServer, Problem> {
    let named = |name: &str| format!("{of}{name}");
    let mut text = |name: &str| -> Result<Option<String>, Problem> {
        let found: Option<String> = taken(&mut tool, name)?;
        Ok(found.filter(|text| !text.is_empty()))
    };
    let kind = match text("type")? {
        Some(kind) => kind,
        None => text("kind")?.unwrap_or_else(|| "mcp".to_owned()),
    };
    match kind.as_str() {
        "mcp" => {}
        "oauth" => {
            let detail = format!("`{}` is `oauth`: tokens of clients are not accepted", named("type"));
            return Err(Problem::invalid(detail).hint(
                "add the system's MCP server as `[mcp.NAME]` and sign in with `windlass mcp login NAME`, or \
                 send a tool of type `mcp` with its token as `api_key`",
            ));
        }
        other => {
            let shown = windlass_server::text::first_line(other, 32);
            return Err(Problem::invalid(format!(
                "`{}` is `{shown}`; only `mcp` is supported",
                named("type")
            )));
        }
    }
    let required = |name: &str, found: Option<String>| {
        found.ok_or_else(|| Problem::invalid(format!("`{}` is required", named(name))))
    };
    let name = text("name")?;
    let name = required("name", name)?;
    let base_url = text("base_url")?;
    let url = required("base_url", base_url)?;
    let key = text("api_key")?;
    let wire: Wire = taken(&mut tool, "transport_type")?.unwrap_or_default();
    let headers: BTreeMap<String, String> = taken(&mut tool, "headers")?.unwrap_or_default();
    // Adding a server implies that it may be called.
    let _: Option<bool> = taken(&mut tool, "enabled")?;
    refuse(of, &tool)?;
    let has_key = headers.keys().any(|name| name.eq_ignore_ascii_case("authorization"));
    let key = key.filter(|_| !has_key).map(|key| ("Authorization".to_owned(), format!("Bearer {key}")));
    let headers: Vec<(String, String)> = headers.into_iter().chain(key).collect();
    let too_long = headers.iter().any(|(name, value)| name.len() + value.len() > HEADER_MAX_BYTES);
    if headers.len() > HEADERS_MAX || too_long {
        let detail = format!(
            "`{}` has more than {HEADERS_MAX} headers, or one longer than {HEADER_MAX_BYTES} bytes",
            named("headers")
        );
        return Err(Problem::invalid(detail));
    }
    // All headers are secret, even with common names, because they belong to the client.
    let secrets = Secrets(headers.iter().map(|(_, value)| Secret::new(value.as_str())).collect());
    let http = Http { headers, named: false, ..Http::new(url) };
    let transport = match wire {
        Wire::StreamableHttp => Transport::Http(http),
        Wire::Sse => Transport::Sse(http),
    };
    let server = McpServer { secrets, ..McpServer::new(&name, transport) };
    server.check().map_err(|error| {
        // The error contains no header value.
        Problem::invalid(format!("`{}` is not a valid server: {error}", of.trim_end_matches('.')))
    })?;
    Ok(server)
}

/// Connects to the servers, and adds their tools to the usual ones.
pub async fn reached(app: &Shared, caller: &Caller, servers: Vec<McpServer>) -> Result<RunTools, Problem> {
    if servers.is_empty() {
        return Ok(RunTools::Usual);
    }
    let Some(_place) = app.limits.limiter.reaching.try_take(caller.user().as_str()) else {
        let detail = "you already have two requests that are connecting to servers of `tools`";
        return Err(Problem::new(http::StatusCode::TOO_MANY_REQUESTS, "busy", detail).retry_after(5));
    };
    let own = app.engine.tools().list().into_iter().map(|tool| tool.spec.name.to_string());
    let reserved = own.chain([API_CALL.to_owned()]).collect();
    let reach = app.config.settings.outbound.reach();
    let hub = McpHub::new(HubConfig { reach, reserved, ..HubConfig::default() });
    let names: Vec<String> = servers.iter().map(|server| server.name.clone()).collect();
    hub.start(servers).await.map_err(|error| Problem::invalid(format!("`tools`: {error}")))?;
    hub.settled(WITHIN_MS).await;
    for name in names {
        let is_ready = hub.server(&name).is_ok_and(|status| status.health.is_ready());
        if !is_ready {
            // The exact reason would reveal the internal network to the client.
            let what = format!(
                "the server `{name}` of `tools` did not respond within {WITHIN_MS} ms, or rejected the \
                 credential"
            );
            return Err(Problem::new(http::StatusCode::BAD_GATEWAY, "tool_server", what).hint(
                "check `base_url`, `api_key` and `headers`; `[outbound]` defines which hosts may be called",
            ));
        }
    }
    Ok(RunTools::beside(hub.into_tools()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn said(tool: Value) -> String {
        let Value::Object(tool) = tool else { panic!("no object") };
        match read(vec![tool]) {
            Ok(servers) => format!("{:?}", servers[0].transport),
            Err(problem) => format!("{} {:?}", problem.detail, problem.hint),
        }
    }

    #[test]
    fn what_a_client_gives_a_server_is_not_said_back() {
        let tool =
            json!({"name": "crm", "base_url": "https://a/", "api_key": "x", "headers": {"X-Tenant": "7"}});
        let Value::Object(tool) = tool else { panic!("no object") };
        let servers = read(vec![tool]).unwrap();
        let mut secrets: Vec<_> = servers[0].secrets.0.iter().map(Secret::expose).collect();
        secrets.sort_unstable();
        assert_eq!(secrets, ["7", "Bearer x"]);
    }

    // rows: ZE-E13
    #[test]
    fn a_client_brings_servers_of_one_kind_and_others_are_refused_by_name() {
        let good = said(json!({
            "type": "mcp", "name": "crm", "base_url": "https://crm.example.com/mcp", "api_key": "SENTINEL",
            "transport_type": "streamable_http", "headers": {"X-Tenant": "7"},
        }));
        assert!(good.starts_with("Http(") && good.contains("Authorization"), "{good}");
        assert!(!good.contains("SENTINEL"));
        let own = said(json!({"name": "crm", "base_url": "https://a/", "transport_type": "sse",
            "api_key": "x", "headers": {"authorization": "Basic y"}}));
        assert!(own.starts_with("Sse(") && !own.contains("Authorization"), "{own}");
        for (tool, named) in [
            (json!({"type": "oauth", "name": "github", "access_token": "SENTINEL"}), "windlass mcp login"),
            (json!({"type": "connector", "name": "x"}), "`tools[0].type` is `connector`"),
            (json!({"type": "mcp", "base_url": "https://a/"}), "`tools[0].name` is required"),
            (json!({"type": "mcp", "name": "x"}), "`tools[0].base_url` is required"),
            (json!({"name": "x", "base_url": "ftp://a/"}), "must use http or https"),
            (json!({"name": "x y", "base_url": "https://a/"}), "1 to 32"),
            (json!({"name": "x", "base_url": "https://a/", "transport_type": "stdio"}), "`transport_type`"),
            (json!({"name": "x", "base_url": "https://a/", "command": "sh"}), "`tools[0].command`"),
            (
                json!({"name": "x", "base_url": "https://a/", "headers": {"a b": "SENTINEL"}}),
                "not a valid header name",
            ),
        ] {
            let found = said(tool);
            assert!(found.contains(named) && !found.contains("SENTINEL"), "{found}");
        }
    }
}
