//! The table of hostile inputs in `docs/security.md`. Each row is executed: its input, and its expected outcome.
//!
//! The program's own tests execute the rows of the sections about the program itself.

mod bytes;

use std::time::Duration;

use serde_json::{Value, json};
use windlass::mcp::{McpServer, Stdio, Timeouts, Transport};

use crate::mcp::process::sh_server;
use crate::mcp::{call, find, hub, hub_of, shown, stage};
use crate::outbound::answers;
#[cfg(target_os = "linux")]
use crate::tools::bash::links;
use crate::tools::{api, hostile};

const TABLE: &str = include_str!("../../../../docs/security.md");

/// A row may not hang: slow operations have their own limits.
const WITHIN: Duration = Duration::from_secs(60);

/// The rows of a section: input and expected outcome, in which `…` matches anything.
fn rows(section: &str) -> Vec<(String, String)> {
    let start = TABLE.find(&format!("### {section}\n")).unwrap_or_else(|| panic!("no section `{section}`"));
    let rest = &TABLE[start + 4..];
    let section = &rest[..rest.find("\n#").unwrap_or(rest.len())];
    let rows = section.lines().filter_map(|line| {
        let line = line.strip_prefix("| `")?.strip_suffix(" |")?;
        let (fed, expected) = line.split_once("` | ").unwrap_or_else(|| panic!("no row: {line}"));
        Some((fed.replace("\\|", "|"), expected.replace("\\|", "|")))
    });
    rows.collect()
}

/// Expands the table's abbreviation `⟨text×number⟩` to that many copies of the text.
fn expanded(text: &str) -> String {
    let mut whole = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('⟨') {
        let (repeated, after) = after.split_once('⟩').unwrap();
        let (part, times) = repeated.rsplit_once('×').unwrap();
        whole.push_str(before);
        whole.push_str(&part.repeat(times.parse().unwrap()));
        rest = after;
    }
    whole + rest
}

/// Whether a text matches the expected one.
fn fits(said: &str, expected: &str) -> bool {
    let mut rest = said;
    let pieces: Vec<&str> = expected.split('…').collect();
    for (at, piece) in pieces.iter().enumerate() {
        match rest.find(piece) {
            Some(0) => rest = &rest[piece.len()..],
            Some(found) if at > 0 => rest = &rest[found + piece.len()..],
            Some(_) | None => return false,
        }
    }
    rest.is_empty() || pieces.last() == Some(&"")
}

/// Runs every row of a section, and reports all that differ.
async fn check(section: &str, at_least: usize, run: impl AsyncFn(String) -> String) {
    let rows = rows(section);
    assert!(rows.len() >= at_least, "`{section}` has {} rows", rows.len());
    let mut wrong = String::new();
    for (fed, expected) in rows {
        let said = tokio::time::timeout(WITHIN, run(expanded(&fed))).await;
        let said = said.unwrap_or_else(|_| format!("no end within {WITHIN:?}"));
        // A row must state its outcome.
        if expected == "…" || !fits(&said, &expected) {
            wrong.push_str(&format!("| `{fed}` | {expected} |\n  came out as: {said:.600}\n"));
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn the_table_is_read_as_it_is_written() {
    assert_eq!(expanded("a⟨b×3⟩c⟨[×2⟩"), "abbbc[[");
    for (said, expected, wanted) in [
        ("abc", "abc", true),
        ("abc", "ab", false),
        ("abc", "ab…", true),
        ("abc", "bc", false),
        ("abc", "…bc", true),
        ("abcd", "a…c…", true),
        ("abcd", "a…c", false),
    ] {
        assert_eq!(fits(said, expected), wanted, "{said} {expected}");
    }
    let all: Vec<_> = TABLE.lines().filter(|line| line.starts_with("| `")).collect();
    assert!(all.len() >= 120, "{} hostile inputs", all.len());
}

// rows: LM-T2, LM-T3, LM-T4, LM-T5, LM-T6
#[test]
fn calls_of_file_tools() {
    let desk = hostile::trap();
    let before = hostile::snapshot(&desk);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(check("Files", 60, async |fed: String| {
        let (desk, fed) = (&desk, fed.replace("\\0", "\0"));
        // The tool creates its own runtime.
        std::thread::scope(|scope| scope.spawn(|| hostile::called(desk, &fed)).join().unwrap())
            .replace('\t', "\\t")
            .replace('\0', "\\0")
    }));
    assert_eq!(hostile::snapshot(&desk), before, "something was changed");
}

#[cfg(target_os = "linux")]
#[test]
fn commands_that_swap_paths() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(check("Paths of commands", 12, async |fed: String| {
        // The tool creates its own runtime.
        std::thread::scope(|scope| scope.spawn(|| links::after(&fed)).join().unwrap())
    }));
}

#[tokio::test]
async fn addresses_that_are_called() {
    let way = crate::outbound::world();
    check("Addresses", 20, async |fed: String| match crate::outbound::get(&way, &fed).await {
        Ok(response) => format!("answered {}", response.status),
        Err(error) => error.to_string(),
    })
    .await;
}

#[tokio::test]
async fn answers_over_http() {
    check("Answers", 25, async |fed: String| answers::told_of(fed).await).await;
}

#[tokio::test]
async fn tools_of_a_server() {
    check("Tools of servers", 12, async |fed: String| {
        let Ok(tool) = serde_json::from_str::<Value>(&fed) else { return format!("no JSON: {fed:.80}") };
        let script = move |asked: &stage::Asked| {
            stage::modern(asked, &json!([tool, stage::tool("honest", json!({}))]))
                .unwrap_or(stage::Said::Status(404))
        };
        let stage = stage::Stage::start(script).await;
        let hub = hub_of(&stage).await;
        find(&hub, "honest");
        let status = hub.server("stage").unwrap();
        let taken =
            status.tools.iter().filter(|it| it.name != "honest").map(|it| format!("taken as `{}`", it.name));
        let left = status.left_out.iter().map(|it| format!("left out: {}", it.why));
        taken.chain(left).collect::<Vec<_>>().join("; ")
    })
    .await;
}

#[cfg(unix)]
#[tokio::test]
async fn words_of_a_server() {
    check("Words of servers", 8, async |fed: String| {
        let tool = r#"{"name":"say","inputSchema":{"type":"object"}}"#;
        let server = sh_server(tool, &format!(r#"*'"tools/call"'*) {fed} ;;"#));
        let stdio = Stdio::new("sh", ["-c".to_owned(), server]);
        let timeouts = Timeouts { call_ms: 3_000, ..Timeouts::default() };
        let hub = hub(McpServer { timeouts, ..McpServer::new("sh", Transport::Stdio(stdio)) }).await;
        shown(&call(&find(&hub, "say"), json!({})).await)
    })
    .await;
}

#[tokio::test]
async fn calls_of_services() {
    let far = api::mirror().await;
    let auth = json!({"type": "bearer", "token_ref": "t"});
    let service = json!({"name": "a", "base_url": far.url("/v1"), "auth": auth, "allowed_paths": ["^/ok"]});
    let tool = api::tool(vec![api::service(service)]);
    check("Calls of services", 8, async |fed: String| {
        let mut arguments = json!({"service": "a", "method": "GET", "path": "/ok"});
        let Ok(Value::Object(more)) = serde_json::from_str::<Value>(&fed) else {
            return format!("no JSON: {fed}");
        };
        arguments.as_object_mut().unwrap().extend(more);
        api::said(&tool, arguments).await
    })
    .await;
    assert!(far.asked().iter().all(|asked| asked.line().contains(" /v1/ok")), "{:?}", far.lines());
}

#[tokio::test]
async fn descriptions_of_services() {
    check("Descriptions of services", 5, async |fed: String| {
        let fed = fed.replace("\\n", "\n");
        api::described(json!({"name": "a", "base_url": "https://api.example.com/v1", "openapi": fed}))
    })
    .await;
}
