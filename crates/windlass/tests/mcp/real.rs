//! The protocol's own servers and its conformance suite, which `cargo xtask test` installs into `target/mcp`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::StreamExt;
use serde_json::json;
use windlass::Update;
use windlass::machine::{Answer, InterruptKind, Party, Rule, Verdict};
use windlass::mcp::{Health, McpHub, McpServer, Stdio, Transport};
use windlass::port::tool::{OutputPart, ProgressSender, ToolSource};
use windlass::testing::scripted::{Line, ScriptedModels, results};

use super::{answer_of, call, called, context, find, hub, names, resumed, shown, values};
use crate::drive::{memory, task};

fn installed() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/mcp")
}

/// How a server of the packages is started.
fn started(name: &str, arguments: &[&str]) -> (String, Vec<String>) {
    let script = installed().join(format!("node_modules/@modelcontextprotocol/{name}/dist/index.js"));
    assert!(script.exists(), "{} is not there: `cargo xtask test` installs it", script.display());
    let arguments = arguments.iter().map(|it| (*it).to_owned());
    (node().display().to_string(), std::iter::once(script.display().to_string()).chain(arguments).collect())
}

/// A server of the packages, with its arguments.
async fn package(name: &str, arguments: &[&str]) -> McpHub {
    let (command, arguments) = started(name, arguments);
    hub(served("real", command, arguments)).await
}

fn node() -> PathBuf {
    installed().join("node/bin/node")
}

fn served(name: &str, command: String, arguments: impl IntoIterator<Item = String>) -> McpServer {
    McpServer { trusted: true, ..McpServer::new(name, Transport::Stdio(Stdio::new(command, arguments))) }
}

#[tokio::test]
async fn everything_is_called_read_asked_and_answered() {
    let hub = package("server-everything", &["stdio"]).await;
    let status = hub.server("real").unwrap();
    assert!(matches!(status.health, Health::Ready { .. }));
    assert_eq!(status.left_out, []);
    assert_eq!(shown(&call(&find(&hub, "echo"), json!({ "message": "hi" })).await), "ok: Echo: hi");
    let sum = shown(&call(&find(&hub, "get-sum"), json!({ "a": 2, "b": 3 })).await);
    assert!(sum.contains('5'), "{sum}");
    let picture = call(&find(&hub, "get-tiny-image"), json!({})).await;
    assert!(answer_of(&picture).parts.iter().any(|part| matches!(part, OutputPart::Image { media_type, bytes } if media_type == "image/png" && bytes.starts_with(b"\x89PNG"))));
    let structured =
        shown(&call(&find(&hub, "get-structured-content"), json!({ "location": "Chicago" })).await);
    assert!(structured.contains("temperature") && !structured.contains("does not match"), "{structured}");
    let (told, mut heard) = tokio::sync::mpsc::unbounded_channel();
    let progress = ProgressSender::new(move |text| drop(told.send(text)));
    let context = windlass::port::tool::CallContext { progress, ..context() };
    let long = find(&hub, "trigger-long-running-operation");
    let done = called(&long, context, json!({ "duration": 1, "steps": 4 })).await;
    assert!(shown(&done).starts_with("ok: "), "{}", shown(&done));
    assert_eq!(heard.try_recv().unwrap(), "25 %");
    let resources = hub.resources("real").await.unwrap();
    assert!(resources.len() > 3, "{resources:?}");
    let read =
        call(&find(&hub, "ReadMcpResource"), json!({ "server": "real", "uri": resources[0].uri })).await;
    assert!(shown(&read).starts_with("ok: "), "{}", shown(&read));
    assert!(!hub.prompts("real").await.unwrap().is_empty());
    let messages = hub.prompt("real", "simple-prompt", serde_json::Map::new()).await.unwrap();
    assert!(!messages[0].parts.is_empty());
}

/// Kills our process whose arguments end with this word, as a machine out of memory does.
fn kill(word: &str) {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path());
    // A thread that has ended meanwhile has no children.
    let children = tasks.map(|task| std::fs::read_to_string(task.join("children")).unwrap_or_default());
    let children = children.collect::<Vec<_>>().join(" ");
    let is_meant = |pid: &&str| {
        let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.trim_end_matches('\0').ends_with(word)
    };
    let pid = children.split_whitespace().find(is_meant).expect("a process of the server");
    let killed = std::process::Command::new("kill").args(["-KILL", pid]).status().unwrap();
    assert!(killed.success());
}

/// Waits until a killed server is ready again, and calls it.
async fn back(hub: &McpHub) {
    let ready = async {
        while hub.ready("real").await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await; // tidy: sleep the pause before the next try is the server's
        }
    };
    tokio::time::timeout(Duration::from_secs(30), ready).await.expect("it never came back");
    assert_eq!(shown(&call(&find(hub, "echo"), json!({ "message": "hi" })).await), "ok: Echo: hi");
}

#[tokio::test]
async fn a_call_whose_server_is_killed_in_the_middle_is_made_again_only_where_that_changes_nothing() {
    for trusted in [true, false] {
        let word = format!("killed-{trusted}");
        let (command, arguments) = started("server-everything", &["stdio", &word]);
        let hub = hub(McpServer { trusted, ..served("real", command, arguments) }).await;
        let (told, mut heard) = tokio::sync::mpsc::unbounded_channel();
        let progress = ProgressSender::new(move |text| drop(told.send(text)));
        let context = windlass::port::tool::CallContext { progress, ..context() };
        let long = find(&hub, "trigger-long-running-operation");
        let call =
            tokio::spawn(async move { called(&long, context, json!({ "duration": 2, "steps": 4 })).await });
        assert_eq!(heard.recv().await.as_deref(), Some("25 %"));
        kill(&word);
        let said = shown(&call.await.unwrap());
        let mut begun = 1;
        while let Some(text) = heard.recv().await {
            begun += u32::from(text == "25 %");
        }
        // Its read-only hint counts if the server is trusted.
        if trusted {
            assert!(said.starts_with("ok: Long running operation completed"), "{said}");
        } else {
            assert!(said.starts_with("lost: the server `real`: "), "{said}");
        }
        assert_eq!(begun, if trusted { 2 } else { 1 });
        back(&hub).await;
    }
}

#[tokio::test]
async fn a_call_whose_server_is_killed_is_in_doubt_and_the_run_continues() {
    let (command, arguments) = started("server-everything", &["stdio", "killed-run"]);
    let hub = hub(McpServer { trusted: false, ..served("real", command, arguments) }).await;
    let models = ScriptedModels::new(|call| match results(call) {
        0 => Line::tool("trigger-long-running-operation", r#"{"duration":2,"steps":4}"#),
        1 => Line::tool("echo", r#"{"message":"hi"}"#),
        _ => Line::Say(crate::gate::told(call)),
    });
    let tools = windlass::registry().add_all(hub.tools().iter().cloned()).unwrap();
    let engine = memory(&models, tools).rules(vec![Rule::new(Verdict::Allow)]).build().await.unwrap();
    let (started, mut watched) = engine.start_watched(task("go")).await.unwrap();
    let at_work = async {
        while let Some(update) = watched.next().await {
            if let Update::Progress { .. } = update.unwrap() {
                return;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(30), at_work).await.unwrap();
    kill("killed-run");
    let paused = engine.run(&started.run).wait().await.unwrap();
    let asked = &paused.interrupts[0];
    assert!(matches!(asked.kind, InterruptKind::InDoubt { .. }), "{paused:?}");
    back(&hub).await;
    let by = Party { principal: "local".into(), workspace: "default".into(), roles: vec!["admin".into()] };
    let failed = Answer::Fail { reason: Some("it was killed".into()) };
    engine.thread(&paused.thread).answer(&asked.interrupt, failed, by).await.unwrap();
    let done = engine.run(&started.run).wait().await.unwrap();
    assert_eq!(done.text.as_deref(), Some("Echo: hi"), "{done:?}");
}

#[tokio::test]
async fn a_question_in_the_middle_of_a_call_is_answered() {
    let hub = package("server-everything", &["stdio"]).await;
    let name = names(&hub).into_iter().find(|name| name.contains("elicitation-request"));
    let asking = find(&hub, &name.unwrap_or_else(|| panic!("{:?}", names(&hub))));
    let asks = call(&asking, json!({})).await;
    assert!(shown(&asks).starts_with("asks: The server `real` asks: "), "{}", shown(&asks));
    let declined = call(&asking, json!({})).await;
    let declined = resumed(&asking, &declined, Answer::Deny { reason: None }).await;
    assert!(shown(&declined).to_lowercase().contains("declined"), "{}", shown(&declined));
    let done = resumed(&asking, &asks, values(json!({ "name": "Ada" }))).await;
    assert!(shown(&done).contains("Ada"), "{}", shown(&done));
}

#[tokio::test]
async fn files_are_read_and_written_where_the_server_may() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    std::fs::write(root.join("a.txt"), "inside").unwrap();
    let hub = package("server-filesystem", &[root.to_str().unwrap()]).await;
    let path = root.join("a.txt").display().to_string();
    assert_eq!(shown(&call(&find(&hub, "read_text_file"), json!({ "path": path })).await), "ok: inside");
    let outside = shown(&call(&find(&hub, "read_text_file"), json!({ "path": "/etc/passwd" })).await);
    assert!(outside.starts_with("error: Tool error: Access denied"), "{outside}");
    let new = root.join("b.txt").display().to_string();
    let written = shown(&call(&find(&hub, "write_file"), json!({ "path": new, "content": "new" })).await);
    assert!(written.starts_with("ok: "), "{written}");
    assert_eq!(std::fs::read_to_string(root.join("b.txt")).unwrap(), "new");
    assert!(find(&hub, "read_text_file").spec().annotations.read_only_hint);
}

#[tokio::test]
async fn memory_git_and_time_serve() {
    let folder = tempfile::tempdir().unwrap();
    let mut memory = served(
        "memory",
        node().display().to_string(),
        [installed()
            .join("node_modules/@modelcontextprotocol/server-memory/dist/index.js")
            .display()
            .to_string()],
    );
    let Transport::Stdio(stdio) = &mut memory.transport else { unreachable!() };
    stdio.env = vec![("MEMORY_FILE_PATH".into(), folder.path().join("memory.json").display().to_string())];
    let memory = hub(memory).await;
    let entities =
        json!({ "entities": [{ "name": "Ada", "entityType": "person", "observations": ["counts"] }] });
    let made = shown(&call(&find(&memory, "create_entities"), entities).await);
    assert!(made.starts_with("ok: "), "{made}");
    assert!(shown(&call(&find(&memory, "search_nodes"), json!({ "query": "Ada" })).await).contains("counts"));

    let python = |program: &str| installed().join(format!("python/bin/{program}")).display().to_string();
    let time = hub(served("time", python("mcp-server-time"), [])).await;
    let now = shown(&call(&find(&time, "get_current_time"), json!({ "timezone": "Europe/Oslo" })).await);
    assert!(now.starts_with("ok: ") && now.contains("Europe/Oslo"), "{now}");

    let git = |arguments: &[&str]| {
        let done =
            std::process::Command::new("git").arg("-C").arg(folder.path()).args(arguments).output().unwrap();
        assert!(done.status.success(), "{done:?}");
    };
    git(&["init", "--quiet"]);
    let server = hub(served("git", python("mcp-server-git"), [])).await;
    let status = shown(&call(&find(&server, "git_status"), json!({ "repo_path": folder.path() })).await);
    assert!(status.starts_with("ok: ") && status.contains("branch"), "{status}");
}

/// Asserts that every scored scenario of a revision passes.
fn conforms(revision: &str) {
    let suite = installed().join("node_modules/@modelcontextprotocol/conformance/dist/index.js");
    assert!(suite.exists(), "{} is not there: `cargo xtask test` installs it", suite.display());
    let mut client = std::env::current_exe().unwrap();
    // Next to the test program's folder.
    client.pop();
    client.pop();
    let client = client.join("examples/mcp_conformance");
    assert!(client.exists(), "{} is not there: `cargo xtask test` builds it", client.display());
    let results = tempfile::tempdir().unwrap();
    let told = std::process::Command::new(node())
        .arg(suite)
        .args(["client", "--requirements", revision, "--command"])
        .arg(client)
        .arg("-o")
        .arg(results.path())
        .output()
        .unwrap();
    let out = String::from_utf8_lossy(&told.stdout);
    let summary = out.split("=== SUITE SUMMARY ===").nth(1).unwrap_or(&out);
    assert!(told.status.success(), "{summary}");
    assert!(summary.contains("✓ tools_call") && summary.matches('✓').count() >= 18, "{summary}");
}

#[test]
fn the_client_conforms_to_2026_07_28() {
    conforms("2026-07-28");
}

#[test]
fn the_client_conforms_to_2025_11_25() {
    conforms("2025-11-25");
}
