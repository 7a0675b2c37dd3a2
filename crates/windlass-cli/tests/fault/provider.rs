//! A provider that misbehaves, disconnects or is unreachable: the user sees the cause, and the run ends with a code.

use std::process::{Child, Command};

use serde_json::{Value, json};
use windlass::testing::provider::ProviderServer;

use super::end;
use crate::cli::{Said, User};

/// A provider, and several users that call it concurrently, because retries may take a quarter of a minute.
struct Provider {
    server: ProviderServer,
    _runtime: tokio::runtime::Runtime,
}

struct Asking {
    child: Child,
    user: User,
}

impl Provider {
    fn start() -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let server = runtime.block_on(ProviderServer::start()).unwrap();
        Self { server, _runtime: runtime }
    }

    fn ask(&self, scenario: &str, arguments: &[&str]) -> Asking {
        ask(&format!("{}/v1", self.server.url(scenario)), arguments)
    }
}

fn command(user: &User, url: &str, arguments: &[&str]) -> Command {
    let mut command =
        user.command(&["run", "--yes", "-m", "openai-compatible/model-x", "--base-url", url, "go"]);
    command.args(arguments);
    command
}

fn ask(url: &str, arguments: &[&str]) -> Asking {
    let user = User::new();
    user.configure(
        "[agent.limits]\nmax_same_calls = 0\n[providers.openai-compatible]\nstall_timeout_s = 1\n",
    );
    let child = command(&user, url, arguments).spawn().unwrap();
    Asking { child, user }
}

impl Asking {
    /// Waits for the run to end. It must fail with this text and code, in the output and in the journal.
    fn fails(self, code: &str, words: &[&str]) -> Said {
        let said = end(self.child).exits(1).tells(words).tells(&[&format!("(`{code}`)")]);
        let events = self.user.events();
        assert_eq!(events.last().unwrap()["type"], "run.finished", "{said:#?}");
        assert_eq!(events.last().unwrap()["error"]["code"], code);
        said
    }
}

#[test]
fn provider_failures_are_reported() {
    let provider = Provider::start();
    let cut = provider.ask("oai-cut", &[]);
    let reset = provider.ask("oai-cut@reset", &[]);
    let silent = provider.ask("oai-ok-noheaders", &[]);
    let headers = provider.ask("oai-ok-headers", &[]);
    let garbage = provider.ask("oai-garbage", &[]);
    let page = provider.ask("oai-ok-html200", &[]);
    let plain = provider.ask("oai-ok-plain", &[]);
    let key = provider.ask("oai-x-401", &[]);
    garbage.fails("ERR_STREAM_PARSE", &["failed: ", "the provider sent invalid JSON"]);
    let not_a_stream = "the response is not an event stream: ";
    let look = "hint: check the address (`--base-url`): the server there";
    page.fails("ERR_STREAM_PARSE", &[not_a_stream, "<html>login</html>", look]);
    plain.fails("ERR_STREAM_PARSE", &[not_a_stream, "… (`ERR_STREAM_PARSE`)", look]);
    key.fails("ERR_AUTH", &["HTTP 401", "hint: check the provider's key"]);
    let again = "retrying in 2 s";
    headers.fails(
        "ERR_API",
        &["no valid response from `http://127.0.0.1:", "too large", again, "hint: try again later"],
    );
    silent.fails("ERR_API", &["no data for 1000 ms", again, "hint: try again later"]);
    let ended = "the provider's stream ended before the reply was complete";
    cut.fails("ERR_STREAM_INCOMPLETE", &[ended, again, "hint: try again later"]);
    reset.fails("ERR_STREAM_INCOMPLETE", &["the connection was lost before the reply was complete; ", again]);
}

#[test]
fn an_unreachable_provider_is_named_with_the_way_out() {
    // A recently free port, at which no process listens.
    let free = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap();
    let said = ask(&format!("http://user:secret@{free}/v1"), &[]).fails(
        "ERR_API",
        &[
            &format!("cannot reach `http://{free}`: Connection refused"),
            "hint: check the address (`--base-url`), that a server listens there, and the network",
        ],
    );
    assert!(!said.err.contains("secret"), "{said:#?}");
}

#[test]
fn calls_of_tools_that_do_not_exist_end_at_the_limit() {
    let provider = Provider::start();
    let said = provider
        .ask("oai-ok", &["--max-steps", "3"])
        .fails("ERR_MAX_TURNS", &["✗ refused: Unknown tool: get_weather", "hint: raise `--max-steps`"]);
    assert_eq!(said.err.matches("Unknown tool: get_time").count(), 3, "{said:#?}");
}

#[test]
fn five_hundred_calls_at_once_are_bounded() {
    let provider = Provider::start();
    let asking = provider.ask("oai-calls500", &["--max-steps", "1"]);
    let user_said = end(asking.child).exits(1).tells(&["(`ERR_MAX_TURNS`)", "• Glob *.csv  ✓"]);
    let events = asking.user.events();
    assert_eq!(crate::cli::count(&events, "tool.started"), 128, "{user_said:#?}");
    assert_eq!(crate::cli::count(&events, "tool.finished"), 500, "each call has its result");
}

#[test]
fn figures_beyond_all_measure_do_not_break_the_sums() {
    let provider = Provider::start();
    let asking = provider.ask("oai-hugeusage", &["--json"]);
    let said = end(asking.child).exits(1).tells(&["(`ERR_MAX_TURNS`)"]);
    let outcome: Value = said.json();
    let tokens = &outcome["meta"]["tokensUsed"];
    assert_eq!((&tokens["input"], &tokens["output"]), (&json!(u64::MAX), &json!(u64::MAX)));
    assert_eq!(outcome["meta"]["turns"], 25);
}
