//! Servers as processes: a clean environment, an end that takes all descendants along, and last log lines.

use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

use serde_json::json;
use windlass::mcp::{Health, HubConfig, McpHub, McpServer, Stdio, Timeouts, Transport};

use super::{call, find, hub, shown};

/// A server of the older revision in a few lines of shell, with these tools; `cases` handle the calls.
pub fn sh_server(tools: &str, cases: &str) -> String {
    const SERVER: &str = r#"
answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
text() { answer "{\"content\":[{\"type\":\"text\",\"text\":\"$1\"}]}"; }
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"server/discover"'*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}\n' "$id" ;;
    *'"initialize"'*) answer '{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"sh","version":"1"}}' ;;
    *'"tools/list"'*) answer '{"tools":[TOOLS]}' ;;
    CASES
  esac
done
"#;
    SERVER.replace("TOOLS", tools).replace("CASES", cases)
}

/// A server that reports its call, and dies on request.
static SERVER: LazyLock<String> = LazyLock::new(|| {
    let tools = r#"{"name":"say","inputSchema":{"type":"object"}},{"name":"look","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}"#;
    let cases = r#"
    *'"env"'*) text "$(env | cut -d= -f1 | sort | tr '\n' ' ')" ;;
    *'"die"'*) echo "out of paper" >&2; exit 3 ;;
    *'"tools/call"'*) text "said by $$" ;;"#;
    let begins = r#"echo "hello from $$" >&2; sleep 1000 & echo $! > "$PIDS""#;
    format!("{begins}\n{}", sh_server(tools, cases))
});

fn server(script: &str, pids: &Path) -> McpServer {
    let stdio = Stdio {
        env: vec![("PIDS".into(), pids.display().to_string()), ("GIVEN".into(), "SENTINEL".into())],
        ..Stdio::new("sh", ["-c", script])
    };
    McpServer { trusted: true, ..McpServer::new("sh", Transport::Stdio(stdio)) }
}

fn is_alive(pid: i32) -> bool {
    // A zombie has ended: it waits for its parent to reap it.
    let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    state.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
}

async fn ends(pid: i32) {
    let gone = async {
        while is_alive(pid) {
            tokio::time::sleep(Duration::from_millis(5)).await; // tidy: sleep the end of a foreign process sends no notification
        }
    };
    tokio::time::timeout(Duration::from_secs(20), gone).await.unwrap_or_else(|_| panic!("{pid} lives on"));
}

fn pid_in(file: &Path) -> i32 {
    std::fs::read_to_string(file).unwrap().trim().parse().unwrap()
}

fn pid_said(said: &str) -> i32 {
    said.strip_prefix("ok: said by ").unwrap_or_else(|| panic!("{said}")).parse().unwrap()
}

#[tokio::test]
async fn a_server_gets_a_clean_environment_and_takes_its_children_along() {
    let folder = tempfile::tempdir().unwrap();
    let pids = folder.path().join("pids");
    let hub = hub(server(&SERVER, &pids)).await;
    let say = find(&hub, "say");
    let names = shown(&call(&say, json!({ "what": "env" })).await);
    for wanted in ["PATH", "HOME", "GIVEN", "PIDS"] {
        assert!(names.contains(wanted), "{names}");
    }
    assert!(!names.contains("CARGO"), "the tests' own environment stays here: {names}");
    let (leader, child) = (pid_said(&shown(&call(&say, json!({})).await)), pid_in(&pids));
    assert!(is_alive(leader) && is_alive(child));
    assert!(hub.logs("sh").unwrap().iter().any(|line| line == &format!("hello from {leader}")));
    hub.stop().await;
    ends(leader).await;
    ends(child).await;
}

#[tokio::test]
async fn a_server_that_dies_in_a_call_is_started_again_and_the_call_is_judged() {
    let folder = tempfile::tempdir().unwrap();
    let pids = folder.path().join("pids");
    let hub = hub(server(&SERVER, &pids)).await;
    let (say, child) = (find(&hub, "say"), pid_in(&pids));
    let died = call(&say, json!({ "what": "die" })).await;
    assert!(shown(&died).starts_with("lost: the server `sh`: "), "{}", shown(&died));
    ends(child).await;
    // A call that only reads is repeated on the next process, which dies as well. It is repeated once only.
    hub.ready("sh").await.ok();
    let look = find(&hub, "look");
    let reads = call(&look, json!({ "what": "die" })).await;
    assert!(
        shown(&reads).starts_with("lost: ") || shown(&reads).contains("`sh` has been unavailable"),
        "{}",
        shown(&reads)
    );
    let back = async {
        loop {
            let said = shown(&call(&say, json!({})).await);
            if said.starts_with("ok: ") {
                return pid_said(&said);
            }
            assert!(
                said.contains("has been unavailable") || said.contains("has not responded yet"),
                "{said}"
            );
            tokio::time::sleep(Duration::from_millis(20)).await; // tidy: sleep the pause before the next try is the server's
        }
    };
    let again = tokio::time::timeout(Duration::from_secs(30), back).await.expect("it never came back");
    assert!(is_alive(again));
}

#[tokio::test]
async fn a_server_that_never_answers_or_cannot_be_started_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let pids = folder.path().join("pids");
    let timeouts = Timeouts { connect_ms: 300, ..Timeouts::default() };
    for (script, wanted) in [
        (
            "echo 'need a licence' >&2; sleep 1000",
            "it did not respond within 300 ms; last log line: need a licence",
        ),
        ("echo 'bad flag' >&2; exit 2", "last log line: bad flag"),
        ("echo \"no entry for $GIVEN\" >&2; exit 2", "last log line: no entry for [masked]"),
        ("echo 'not json'; sleep 1000", "it did not respond within 300 ms"),
        ("yes | head -c 30000000; sleep 1000", "it did not respond within 300 ms"),
    ] {
        let hub = McpHub::new(HubConfig::default());
        hub.start(vec![McpServer { timeouts, ..server(script, &pids) }]).await.unwrap();
        hub.settled(20_000).await;
        let Health::Unavailable { why, .. } = hub.server("sh").unwrap().health else { panic!("{script}") };
        assert!(why.contains(wanted), "{script}: {why}");
        let logs = hub.logs("sh").unwrap().join("\n");
        assert!(!why.contains("SENTINEL") && !logs.contains("SENTINEL"), "{why}\n{logs}");
    }
    let stdio = Stdio::new("no-such-program-here", [""; 0]);
    let hub = McpHub::new(HubConfig::default());
    hub.start(vec![McpServer::new("sh", Transport::Stdio(stdio))]).await.unwrap();
    let error = hub.ready("sh").await.unwrap_err().to_string();
    assert!(error.contains("cannot start `no-such-program-here`: No such file"), "{error}");
}

#[tokio::test]
async fn a_server_that_was_replaced_has_ended_when_all_have() {
    for is_taken_out in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        // It continues for a while after its input ends.
        let slow = server(&format!("{}\nexec sleep 1000", *SERVER), &folder.path().join("pids"));
        let hub = hub(slow.clone()).await;
        let leader = pid_said(&shown(&call(&find(&hub, "say"), json!({})).await));
        if is_taken_out {
            hub.remove("sh").unwrap();
        } else {
            hub.put(McpServer { enabled: false, ..slow }).unwrap();
        }
        hub.stop().await;
        assert!(!is_alive(leader), "taken out: {is_taken_out}");
    }
}

#[tokio::test]
async fn words_without_end_are_kept_in_bounds() {
    let folder = tempfile::tempdir().unwrap();
    let script = format!("yes chatter | head -c 3000000 >&2; printf '%01000000d' 7 >&2; {}", *SERVER);
    let hub = hub(server(&script, &folder.path().join("pids"))).await;
    assert!(shown(&call(&find(&hub, "say"), json!({})).await).starts_with("ok: "));
    let lines = hub.logs("sh").unwrap();
    assert!(lines.len() <= 500 && lines.iter().all(|line| line.len() <= 2_000), "{}", lines.len());
}

/// If the process that started a server is killed, the server ends with it.
#[cfg(target_os = "linux")]
#[test]
fn a_server_does_not_outlive_a_process_that_is_killed() {
    if std::env::var_os("MCP_PARENT").is_some() {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(async {
            let pids = std::path::PathBuf::from(std::env::var_os("MCP_PARENT").unwrap());
            // It ignores the end of its input, as some servers do.
            let hub = hub(server(&format!("{}\nexec sleep 1000", *SERVER), &pids)).await;
            let leader = pid_said(&shown(&call(&find(&hub, "say"), json!({})).await));
            std::fs::write(pids.with_extension("leader"), leader.to_string()).unwrap();
            std::future::pending::<()>().await;
        });
    }
    let folder = tempfile::tempdir().unwrap();
    let (pids, leader) = (folder.path().join("pids"), folder.path().join("pids.leader"));
    let mut parent = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "mcp::process::a_server_does_not_outlive_a_process_that_is_killed"])
        .env("MCP_PARENT", &pids)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let begun = async {
            while std::fs::read_to_string(&leader).unwrap_or_default().is_empty() {
                tokio::time::sleep(Duration::from_millis(5)).await; // tidy: sleep another process writes the file
            }
        };
        tokio::time::timeout(Duration::from_secs(30), begun).await.expect("the server was never started");
        let leader = pid_in(&leader);
        assert!(is_alive(leader));
        parent.kill().unwrap();
        parent.wait().unwrap();
        ends(leader).await;
        // The server must end its own children itself.
        let _ = std::process::Command::new("kill").arg(pid_in(&pids).to_string()).status();
    });
}

/// A process that exits at once, without dropping anything, ends its servers' children too.
#[cfg(target_os = "linux")]
#[test]
fn a_process_that_exits_at_once_takes_the_children_of_its_servers_along() {
    if let Some(pids) = std::env::var_os("MCP_EXITS") {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(async {
            let hub = hub(server(&SERVER, Path::new(&pids))).await;
            pid_said(&shown(&call(&find(&hub, "say"), json!({})).await));
            windlass::mcp::kill_servers();
            std::process::exit(0);
        });
    }
    let folder = tempfile::tempdir().unwrap();
    let pids = folder.path().join("pids");
    let ended = std::process::Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "mcp::process::a_process_that_exits_at_once_takes_the_children_of_its_servers_along",
        ])
        .env("MCP_EXITS", &pids)
        .stdout(std::process::Stdio::null())
        .status()
        .unwrap();
    assert!(ended.success());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(ends(pid_in(&pids)));
}

/// A server with unreadable responses.
static MUMBLES: LazyLock<String> = LazyLock::new(|| {
    let tools = r#"{"name":"say","inputSchema":{"type":"object"}}"#;
    let cases = r#"
    *'"long"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"x":"' "$id"; head -c 17000000 /dev/zero | tr '\0' x; echo '"}}' ;;
    *'"bytes"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"x":"\377"}}\n' "$id" ;;
    *'"deep"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"x":' "$id"; head -c 5000 /dev/zero | tr '\0' '['; echo '}}' ;;
    *'"neither"'*) printf '{"jsonrpc":"2.0","id":%s}\n' "$id" ;;
    *'"textual"'*) printf '{"jsonrpc":"2.0","id":"%s","result":{"x":"\377"}}\n' "$id" ;;
    *'"hold"'*) ;;
    *'"dump"'*) head -c 17000000 /dev/zero | tr '\0' x; echo; text "dumped" ;;
    *'"nameless"'*) printf '{"jsonrpc":"2.0","result":{"x":"\377"}}\n' ;;
    *'"tools/call"'*) echo "Listening"; echo '{"level":"info"}'; text "said" ;;"#;
    sh_server(tools, cases)
});

#[tokio::test]
async fn a_call_whose_answer_cannot_be_read_fails_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let hub = hub(server(&MUMBLES, &folder.path().join("pids"))).await;
    let say = find(&hub, "say");
    let why = [
        ("long", "it is longer than 16777216 bytes"),
        ("bytes", "it is not UTF-8"),
        ("deep", "it is nested too deeply"),
        ("neither", "it is neither a result nor an error"),
        ("textual", "it is not UTF-8"),
    ];
    for (what, why) in why {
        let said = shown(&call(&say, json!({ "what": what })).await);
        let wanted = format!("the server responded, but the response cannot be parsed: {why}");
        assert!(said.starts_with("error: ") && said.contains(&wanted), "{what}: {said}");
        // Other output on stdout is ignored.
        assert_eq!(shown(&call(&say, json!({ "what": "hello" })).await), "ok: said");
    }
    let log = hub.logs("sh").unwrap();
    let count = |kind: &str| log.iter().filter(|line| line.contains(kind)).count();
    let counts = ["cannot parse a response of the server", "cannot parse a line of the server"].map(count);
    assert_eq!(counts, [5, 10], "{log:?}");
}

#[tokio::test]
async fn an_answer_without_an_id_leaves_every_open_call_in_doubt() {
    let folder = tempfile::tempdir().unwrap();
    let hub = hub(server(&MUMBLES, &folder.path().join("pids"))).await;
    let say = find(&hub, "say");
    let calls = ["hold", "nameless"].map(|what| call(&say, json!({ "what": what })));
    for output in futures::future::join_all(calls).await {
        let said = shown(&output);
        assert!(said.starts_with("lost: ") && said.contains("a response without a readable id"), "{said}");
    }
    // A long line that is no JSON object answers no call.
    assert_eq!(shown(&call(&say, json!({ "what": "dump" })).await), "ok: dumped");
}
