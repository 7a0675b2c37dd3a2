//! Configured tool servers: listed, tested, required, and used by a run.

use serde_json::Value;

use super::{TASK, User, lines};

/// A minimal tool server as a shell script.
const SERVER: &str = r#"while read -r line; do id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p'); case "$line" in
*'"server/discover"'*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}\n' "$id" ;;
*'"initialize"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"sh","version":"1"}}}\n' "$id" ;;
*'"tools/list"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"Read","inputSchema":{"type":"object"}},{"name":"odd","inputSchema":{"type":"array"}}]}}\n' "$id" ;;
esac; done"#;

fn configured(more: &str) -> User {
    let user = User::new();
    user.configure(&format!("[mcp.sh]\ncommand = 'sh'\nargs = ['-c', '''{SERVER}''']\n{more}"));
    user
}

#[test]
fn servers_are_listed_and_tested() {
    let user = configured("trusted = true\n[mcp.off]\nurl = 'https://docs.example.com/mcp'\nenabled = false");
    let listed = user.run(&["mcp", "list"]).exits(0).out;
    assert_eq!(listed, "off  https://docs.example.com/mcp, disabled\nsh  sh, trusted\n");
    let tested = user.run(&["mcp", "test"]).exits(0).out;
    assert!(tested.contains("sh  1 tools\n    sh__Read\n    odd is not loaded: "), "{tested}");
    let line: Vec<Value> = lines(&user.run(&["mcp", "test", "sh", "--json"]).exits(0).out);
    assert_eq!(
        (line[0]["health"].as_str(), line[0]["protocol"].as_str()),
        (Some("ready"), Some("2025-11-25"))
    );
    let unknown = user.run(&["mcp", "test", "git"]).exits(2);
    assert!(unknown.err.contains("no server named `git` is configured"), "{unknown:?}");
}

#[test]
fn listing_servers_creates_no_store_and_reports_an_empty_list() {
    let user = User::new();
    let hint = "`windlass mcp add --help` explains how to add one";
    let listed = user.run(&["mcp", "list"]).exits(0);
    assert!(listed.out.is_empty() && listed.err.contains("no servers are configured"), "{listed:?}");
    assert!(listed.err.contains(hint), "{listed:?}");
    assert!(!user.home().join("data").exists(), "nothing is made for it");
    let prompts = user.run(&["mcp", "prompts"]).exits(0);
    assert!(prompts.out.is_empty() && prompts.err.contains("no servers are configured"), "{prompts:?}");
    assert!(prompts.err.contains(hint), "{prompts:?}");
    // An existing store is read, but not written.
    let user = configured("");
    user.run(&["threads", "list"]).exits(0);
    let listed = user.run(&["mcp", "list"]).exits(0).out;
    assert_eq!(listed, "sh  sh\n");
    assert!(!user.store().join("vault.key").exists());
}

#[test]
fn doctor_reaches_the_servers_unless_it_is_offline() {
    let user = configured(
        "[mcp.gone]\ncommand = 'windlass-test-no-such-program'\n[mcp.off]\ncommand = 'x'\nenabled = false\n",
    );
    let doctor = user.run(&["doctor"]).exits(1).out;
    for line in [
        "✓ ok       tool server    `sh`: 1 tool\n",
        "✗ broken   tool server    `gone` is unavailable: ",
        "hint: `windlass mcp test gone` shows its log\n",
        "✓ ok       tool server    `off` is disabled\n",
    ] {
        assert!(doctor.contains(line), "{line}: {doctor}");
    }
    let offline = user.run(&["doctor", "--offline"]).exits(0).out;
    assert!(!offline.contains("tool server"), "{offline}");
    let none = User::new().run(&["doctor"]).exits(0).out;
    assert!(!none.contains("tool server"), "{none}");
}

#[cfg(unix)]
#[test]
fn a_call_of_a_servers_tool_asks_with_the_servers_name() {
    use super::model::{Model, Turn};
    use super::terminal::{APPROVE, Terminal};
    let user = User::new();
    let server = SERVER.replace(r#""name":"Read""#, r#""name":"echo""#);
    user.configure(&format!("[mcp.sh]\ncommand = 'sh'\nargs = ['-c', '''{server}''']"));
    let calls = vec![Turn::Call(vec![("echo", serde_json::json!({ "text": "hi" }))])];
    let mut terminal = Terminal::open(Model::start(calls).command(&user, &["run", "go"]));
    terminal
        .until("? approve")
        .until("sh: echo hi")
        .until(APPROVE)
        .enter("d\n")
        .until("reason (optional")
        .enter("\n");
    terminal.until("• sh: echo hi  ").until("Done.");
    assert_eq!(terminal.end().0, Some(0));
    // The server's name is also printed if no server is running.
    let calls = vec![Turn::Call(vec![("echo", serde_json::json!({ "text": "hi" }))])];
    Model::start(calls).run(&user, &["run", "go"]).exits(3);
    let listed = user.run(&["approvals", "list"]).exits(0).out;
    assert!(listed.contains("sh: echo hi"), "{listed}");
    let shown = user.run(&["approvals", "show"]).exits(0).out;
    assert!(shown.contains("sh: echo hi"), "{shown}");
}

/// A grant for the bare name would apply to any server that takes the name.
#[test]
fn a_grant_is_for_the_tool_of_its_server_and_for_one_that_is_there() {
    let user = configured("");
    user.run(&["grants", "add", "sh__Read"]).exits(0);
    let grant = user.run(&["grants", "list", "--json"]).exits(0).json()["grant"].take();
    assert_eq!((grant["server"].as_str(), grant["schema"].is_string()), (Some("sh"), true), "{grant}");
    user.run(&["allow", "sh__Read"]).exits(0);
    for command in [&["grants", "add"][..], &["allow"]] {
        for (name, hint) in [
            ("Wirte", "hint: did you mean `Write`?"),
            ("Bash", "hint: this tool requires Linux and"),
            ("qqqq", "hint: run `windlass tools list` to see the available tools"),
        ] {
            let refused = user.run(&[command, &[name]].concat()).exits(2).err;
            assert!(refused.contains(&format!("there is no tool `{name}`")), "{refused}");
            assert!(refused.contains(hint), "{refused}");
        }
    }
    assert_eq!(user.run(&["allow", "--list"]).exits(0).out, "sh__Read\n");
}

// rows: LM-G13, SK-A12
#[test]
fn a_run_starts_without_a_server_that_is_away_unless_it_is_required() {
    let user = User::new();
    user.configure("[mcp.gone]\ncommand = 'no-such-program-here'");
    user.run(&["run", "hello"]).exits(0);
    let tested = user.run(&["mcp", "test"]).exits(1).out;
    assert!(tested.contains("gone  unavailable: cannot start `no-such-program-here`: "), "{tested}");
    user.configure("[mcp.gone]\ncommand = 'no-such-program-here'\nrequired = true");
    let refused = user.run(&["run", "hello"]).exits(2).err;
    let wanted =
        "the required server `gone` did not connect in 5 attempts: cannot start `no-such-program-here`";
    assert!(refused.contains(wanted), "{refused}");
}

#[test]
fn what_needs_no_server_is_done_without_one_that_is_required() {
    let user = User::new();
    user.run(&["run", "hello"]).exits(0);
    let ended = user.events().iter().find_map(|event| event["run"].as_str().map(str::to_owned)).unwrap();
    user.run(&["run", TASK]).exits(3);
    let waiting = lines(&user.run(&["approvals", "list", "--json"]).exits(0).out);
    let waiting = waiting[0]["interrupt"].as_str().unwrap();
    user.configure("[mcp.gone]\ncommand = 'no-such-program-here'\nrequired = true");
    let said = user.run(&["resume", &ended]).exits(0);
    assert!(said.err.contains("has already ended"), "{said:?}");
    let unknown = user.run(&["approvals", "approve", "run_x.1"]).exits(2).err;
    assert!(unknown.contains("no open request `run_x.1`"), "{unknown}");
    let refused = user.run(&["approvals", "deny", waiting]).exits(2).err;
    assert!(refused.contains("the required server `gone`"), "{refused}");
    assert!(refused.contains("`--no-drive` only saves the answer"), "{refused}");
    user.run(&["approvals", "deny", waiting, "--no-drive"]).exits(0);
    user.run(&["tools", "call", "Glob", r#"{"pattern": "*"}"#]).exits(0);
    let refused = user.run(&["tools", "call", "gone__read", "{}"]).exits(2).err;
    assert!(refused.contains("the required server `gone`"), "{refused}");
}

/// Other servers may take seconds to start, or never answer.
#[test]
fn a_call_of_a_servers_tool_starts_this_server_alone() {
    let user = User::new();
    let answer = r#"{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"it is read"}]}}"#;
    let server =
        SERVER.replace("esac;", &format!("*'\"tools/call\"'*) printf '{answer}\\n' \"$id\" ;;\nesac;"));
    let started = user.home().join("started");
    let other = format!("touch {}; exec sh -c \"$0\"", started.display());
    let servers = |more: &str| {
        user.configure(&format!(
            "[mcp.sh]\ncommand = 'sh'\nargs = ['-c', '''{server}''']\n{more}\n\
             [mcp.other]\ncommand = 'sh'\nargs = ['-c', '{other}', '''{SERVER}''']\nrequired = true\n"
        ));
    };
    servers("");
    let call = ["tools", "call", "--yes", "sh__Read"];
    // Until a process has seen the tools of `sh`, all servers are started.
    assert_eq!(user.run(&call).exits(0).out, "it is read\n");
    std::fs::remove_file(&started).unwrap();
    assert_eq!(user.run(&call).exits(0).out, "it is read\n");
    assert!(!started.exists(), "another server was started");
    servers("enabled = false");
    let refused = user.run(&call).exits(2).err;
    assert!(refused.contains("tool `sh__Read`"), "{refused}");
}

#[test]
fn a_server_that_makes_no_sense_is_said_with_its_key() {
    let user = User::new();
    for (text, wanted) in [
        ("[mcp.a]", "`mcp.a` requires either `command` or `url`"),
        (
            "[mcp.a]\nurl = 'x'\nheaders = { Authorization = 'Bearer x' }",
            "`mcp.a.headers.Authorization` must not contain a literal secret",
        ),
        (
            "[mcp.a]\nurl = 'x'\nheaders = { Authorization = 'env:NOT_SET_HERE' }",
            "`mcp.a.headers.Authorization` refers to the variable NOT_SET_HERE",
        ),
        ("[mcp.a]\ncomand = 'x'", "unknown key `comand`"),
        ("[mcp.a]\nurl = 'ftp://x'", "must use http or https"),
    ] {
        user.configure(text);
        let said = user.run(&["mcp", "test"]).exits(2).err;
        assert!(said.contains(wanted), "{text}: {said}");
    }
}

#[test]
fn a_server_is_written_down_and_taken_out_and_the_rest_stays_as_it_is() {
    let user = User::new();
    let mine =
        "# my settings\nrelaxed = true # fast\n\n[mcp.old]\nurl = 'https://old.example.com/mcp'\n# the end\n";
    user.configure(mine);
    let said =
        user.run(&["mcp", "add", "github", "--url", "https://api.example.com/mcp", "--trusted"]).exits(0).err;
    assert!(said.contains("windlass.toml") && said.contains("windlass mcp login github"), "{said}");
    let added = "\n[mcp.github]\nurl = \"https://api.example.com/mcp\"\ntrusted = true\n";
    let file = user.home().join("config/windlass/windlass.toml");
    let expected = mine.replace("# the end\n", &format!("{added}# the end\n"));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), expected);
    user.run(&["mcp", "add", "files", "--env", "TOKEN=env:X", "--", "mcp-files", "--root", "a b"]).exits(0);
    // Only a server that is started needs its secrets.
    let listed = user.run(&["mcp", "list"]).exits(0).out;
    assert!(listed.contains("files  mcp-files\n"), "{listed}");
    let tested = user.run(&["mcp", "test", "old"]).exits(1).out;
    assert!(tested.starts_with("old  unavailable"), "{tested}");
    let tested = user.run(&["mcp", "test", "files"]).exits(2).err;
    assert!(tested.contains("variable X, which is not set"), "{tested}");
    for (arguments, wanted) in [
        (&["github", "--url", "https://x.example.com"][..], "server `github` already exists in"),
        (&["bad__name", "--url", "https://x.example.com"], "1 to 32"),
        (&["a b", "--url", "https://x.example.com"], "1 to 32"),
        (&["x", "--url", "ftp://x"], "must use http or https"),
        (
            &["x", "--url", "https://x", "--header", "Authorization=Bearer SENTINEL"],
            "must not contain a literal secret",
        ),
        (&["x"], "a server needs either an address or a program"),
    ] {
        let before = std::fs::read_to_string(&file).unwrap();
        let said = user.run(&[&["mcp", "add"], arguments].concat()).exits(2).err;
        assert!(said.contains(wanted), "{arguments:?}: {said}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), before);
    }
    user.run(&["mcp", "remove", "files"]).exits(0);
    user.run(&["mcp", "remove", "github"]).exits(0);
    let left = std::fs::read_to_string(&file).unwrap();
    assert_eq!(left.trim_end(), mine.trim_end());
    assert!(user.run(&["mcp", "remove", "github"]).exits(2).err.contains("no server `github`"));
    user.run(&["mcp", "add", "here", "--folder", "--url", "https://here.example.com/mcp"]).exits(0);
    assert!(user.read("windlass.toml").starts_with("[mcp.here]\n"));
}
