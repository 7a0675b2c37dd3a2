//! Administration of tool servers: status, sign-in, adding, and persistence across a restart.

pub mod far;
pub mod prompts;
mod restart;

use std::io::{BufRead, BufReader};
use std::process::Child;
use std::time::Duration;

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use self::far::{Far, value};
use super::auth::administrator;
use super::{Answer, Server, answer};
use crate::cli::User;
use crate::cli::model::{Model, Turn};

const PATH: &str = "/api/v1/mcp/servers";
const CALLBACK: &str = "/api/v1/mcp/callback";
const FORM: &str = "application/x-www-form-urlencoded";

/// A model that calls the server's tool and then replies.
fn model() -> Model {
    Model::start(vec![Turn::Call(vec![("once", json!({"text": "x"}))]), Turn::Say("It is done.")])
}

/// A server over a user's store at a fixed address, to which browsers are redirected.
fn serve(model: &Model, user: User, port: u16) -> Server {
    let command = model.command(&user, &["serve", "--listen", &format!("127.0.0.1:{port}")]);
    Server::spawn(user, command)
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Waits until a server is in a state.
pub async fn state(server: &Server, key: &str, name: &str, wanted: &str) -> Value {
    for _ in 0..600 {
        let found = server.get(&format!("{PATH}/{name}"), key).await.is(StatusCode::OK).body;
        if found["state"] == wanted {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(50)).await; // tidy: sleep another process has to get there
    }
    panic!("`{name}` never is {wanted}: {:#?}", server.get(&format!("{PATH}/{name}"), key).await);
}

async fn begin(server: &Server, key: &str) -> String {
    let begun =
        server.post(&format!("{PATH}/guarded/sign-in"), key, &json!({})).await.is(StatusCode::OK).body;
    begun["url"].as_str().unwrap().to_owned()
}

async fn come_back(server: &Server, key: &str, brought: &str) -> Answer {
    server.get(&format!("{CALLBACK}?{brought}"), key).await
}

/// Confirms the sign-in on the page that a browser was redirected to.
pub async fn confirm(server: &Server, key: &str, brought: &str) -> Answer {
    let request = server.request(Method::POST, CALLBACK).bearer_auth(key);
    answer(request.header("content-type", FORM).body(brought.to_owned())).await
}

async fn wait(server: &Server, key: &str, run: &str) -> Value {
    server.get(&format!("/api/v1/runs/{run}/wait"), key).await.is(StatusCode::OK).body
}

/// Signs in so that the tool becomes known, and then revokes the sign-in.
async fn known_by_now(server: &Server, key: &str, far: &Far) {
    state(server, key, "guarded", "needs_sign_in").await;
    let page = begin(server, key).await;
    confirm(server, key, &far.back(&page)).await.is(StatusCode::OK);
    state(server, key, "guarded", "connected").await;
    far.takes_back();
}

/// The sign-in address that a terminal prints, preceded by its redirect address.
fn offered(login: &mut Child) -> (String, String) {
    let mut lines = BufReader::new(login.stdout.take().unwrap()).lines();
    let page = lines.find_map(|line| line.ok().filter(|line| line.contains("/authorize?"))).unwrap();
    (value(&page, "redirect_uri").replace("%3A", ":").replace("%2F", "/"), page)
}

/// Asserts that no file of a store contains a secret.
fn nothing_readable(user: &User) {
    for file in std::fs::read_dir(user.store()).unwrap().map(|file| file.unwrap().path()) {
        let bytes = if file.is_file() { std::fs::read(&file).unwrap() } else { Vec::new() };
        let found = bytes.windows(8).any(|window| window == b"SENTINEL");
        assert!(!found, "{}", file.display());
    }
}

/// A user with a configured server that requires a sign-in.
pub fn guarded(far: &Far) -> User {
    let user = User::new();
    user.configure(&format!("[mcp.guarded]\nurl = '{}/mcp'\ntrusted = true\n", far.base));
    user
}

// The test blocks on commands while the far server handles their requests.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_waits_for_a_sign_in_resumes_after_the_sign_in() {
    let (far, model, port) = (Far::guarded().await, model(), free_port());
    let server = serve(&model, guarded(&far), port);
    let boss = server.key(&[]);
    let bob = server.key(&["--user", &server.add_user("bob@example.com", &["--role", "admin"])]);
    state(&server, &boss, "guarded", "needs_sign_in").await;
    let page = begin(&server, &boss).await;
    // Only the user who began a sign-in can complete it, and only once.
    come_back(&server, &bob, &far.back(&page)).await.is_problem(403, "forbidden");
    confirm(&server, &bob, &far.back(&page)).await.is_problem(403, "forbidden");
    come_back(&server, &boss, "error=access_denied").await.is_problem(422, "invalid");
    let asked = come_back(&server, &boss, &far.back(&page)).await.is(StatusCode::OK);
    assert!(asked.body.as_str().unwrap().contains("You started this sign-in"), "{asked:#?}");
    let done = confirm(&server, &boss, &far.back(&page)).await.is(StatusCode::OK);
    assert!(done.headers["content-type"].to_str().unwrap().starts_with("text/html"));
    come_back(&server, &boss, &far.back(&page)).await.is_problem(409, "closed");
    confirm(&server, &boss, &far.back(&page)).await.is_problem(409, "closed");
    let connected = state(&server, &boss, "guarded", "connected").await;
    assert_eq!(
        (&connected["tools"][0]["name"], &connected["revision"]),
        (&json!("once"), &json!("2026-07-28"))
    );

    // All tokens are revoked: the next call finds no valid sign-in.
    far.takes_back();
    let sent =
        server.post("/api/v1/runs", &boss, &json!({"message": "do it"})).await.is(StatusCode::CREATED).body;
    let run = sent["run"].as_str().unwrap().to_owned();
    let paused = wait(&server, &boss, &run).await;
    let asked = &paused["meta"]["interrupts"][0]["kind"]["sign_in"];
    assert_eq!(asked["server"], "guarded", "{paused:#}");
    let page = asked["url"].as_str().unwrap().to_owned();

    // The process is killed. Another one knows the tool, the run and the pending sign-in.
    let server = serve(&model, server.kill(), port);
    let ann = server.key(&["--user", &server.add_user("ann@example.com", &[])]);
    let known = state(&server, &boss, "guarded", "needs_sign_in").await;
    assert_eq!(known["tools"][0]["title"], "Just once", "{known:#}");
    confirm(&server, &ann, &far.back(&page)).await.is_problem(403, "forbidden");
    confirm(&server, &boss, &far.back(&page)).await.is(StatusCode::OK);
    let done = wait(&server, &boss, &run).await;
    assert_eq!((&done["status"], &done["data"]), (&json!("done"), &json!("It is done.")), "{done:#}");
    assert_eq!(far.calls(), ["Bearer SENTINEL-token-2"]);

    let entries = server.get("/api/v1/audit", &boss).await.is(StatusCode::OK).body["data"].clone();
    let actions: Vec<&str> =
        entries.as_array().unwrap().iter().filter_map(|entry| entry["action"].as_str()).collect();
    assert_eq!(actions.iter().filter(|action| **action == "mcp.signed_in").count(), 2, "{actions:?}");
    let log = server.get(&format!("{PATH}/guarded/log"), &boss).await.is(StatusCode::OK).body;
    let lines = log["lines"].to_string();
    assert!(lines.contains("a sign-in is required") && lines.contains("connected"), "{lines}");
    let out = server.request(Method::DELETE, &format!("{PATH}/guarded/sign-in")).bearer_auth(&boss);
    answer(out).await.is(StatusCode::NO_CONTENT);
    state(&server, &boss, "guarded", "needs_sign_in").await;
    nothing_readable(&server.user);
}

// The test blocks on commands while the far server handles their requests.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn following_a_sign_in_link_without_confirmation_signs_no_user_in() {
    let (far, model) = (Far::guarded().await, model());
    let server = serve(&model, guarded(&far), free_port());
    let boss = server.key(&[]);
    let ann = server.key(&["--user", &server.add_user("ann@example.com", &[])]);
    known_by_now(&server, &boss, &far).await;
    let sent =
        server.post("/api/v1/runs", &ann, &json!({"message": "do it"})).await.is(StatusCode::CREATED).body;
    let run = sent["run"].as_str().unwrap().to_owned();
    let paused = wait(&server, &ann, &run).await;
    let asked = &paused["meta"]["interrupts"][0]["kind"]["sign_in"];
    // An attacker has signed in with her own account, and lures an administrator to the redirect address.
    let brought = far.back(asked["url"].as_str().unwrap());
    let admin = administrator(&server).await;
    let page = answer(admin.bare(Method::GET, &format!("{CALLBACK}?{brought}"))).await.is(StatusCode::OK);
    let html = page.body.as_str().unwrap();
    assert!(html.contains("<b>ann@example.com</b>") && html.contains("guarded"), "{html}");
    let policy = page.headers["content-security-policy"].to_str().unwrap();
    assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"), "{policy}");
    let post = || admin.bare(Method::POST, CALLBACK).header("content-type", FORM).body(brought.clone());
    answer(post()).await.is_problem(403, "cross_site");
    answer(post().header("origin", "https://evil.example.com")).await.is_problem(403, "forbidden");
    assert_eq!(far.given(), 1);
    state(&server, &boss, "guarded", "needs_sign_in").await;
    // A confirmation from the server's own page is accepted.
    answer(post().header("origin", &server.address)).await.is(StatusCode::OK);
    assert_eq!(wait(&server, &ann, &run).await["status"], "done");
}

/// Signs in at the terminal. Returns the requested scopes.
async fn log_in(user: &User, far: &Far) -> String {
    let mut login = user.start(&["mcp", "login", "guarded", "--timeout", "60"]);
    let (back, page) = offered(&mut login);
    assert!(reqwest::get(format!("{back}?{}", far.back(&page))).await.unwrap().status().is_success());
    assert_eq!(login.wait().unwrap().code(), Some(0));
    value(&page, "scope").to_owned()
}

// The test blocks on commands while the far server handles their requests.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sign_in_at_the_terminal_asks_for_the_scope_that_a_waiting_call_needs() {
    let (far, model) = (Far::guarded().await, model());
    let user = guarded(&far);
    assert_eq!(log_in(&user, &far).await, "read");
    far.requires_for_calls("write");
    let waiting = model.run(&user, &["run", "do it"]).exits(3);
    assert!(waiting.err.contains("hint: `windlass mcp login guarded` signs in"), "{waiting:?}");
    assert!(log_in(&user, &far).await.contains("write"));
    assert_eq!(model.run(&user, &["resume"]).exits(0).out, "It is done.\n");
    assert_eq!(far.calls(), ["Bearer SENTINEL-token-2"]);
    let again = user.run(&["mcp", "login", "guarded"]).exits(0);
    assert!(again.err.contains("no sign-in is required"), "{again:?}");
}

// The test blocks on commands while the far server handles their requests.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_resumes_after_a_sign_in_that_the_server_did_not_observe() {
    let (far, model, port) = (Far::guarded().await, model(), free_port());
    let server = serve(&model, guarded(&far), port);
    let boss = server.key(&[]);
    known_by_now(&server, &boss, &far).await;
    let sent =
        server.post("/api/v1/runs", &boss, &json!({"message": "do it"})).await.is(StatusCode::CREATED).body;
    let run = sent["run"].as_str().unwrap().to_owned();
    let paused = wait(&server, &boss, &run).await;
    assert_eq!(paused["meta"]["interrupts"][0]["kind"]["sign_in"]["server"], "guarded", "{paused:#}");
    let user = server.kill();
    let mut login = user.start(&["mcp", "login", "guarded", "--timeout", "60"]);
    let (back, page) = offered(&mut login);
    // Forged redirects do not end the sign-in.
    for brought in ["error=access_denied", "error=access_denied&state=x", "code=bad&state=x"] {
        let said = reqwest::get(format!("{back}?{brought}")).await.unwrap();
        assert_eq!(said.status(), StatusCode::CONFLICT);
    }
    assert!(reqwest::get(format!("{back}?{}", far.back(&page))).await.unwrap().status().is_success());
    assert_eq!(login.wait().unwrap().code(), Some(0));
    let server = serve(&model, user, port);
    // The run waits until the server has detected the sign-in.
    state(&server, &boss, "guarded", "connected").await;
    let mut done = wait(&server, &boss, &run).await;
    for _ in 0..600 {
        if done["status"] != "paused" {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await; // tidy: sleep the server has to look
        done = wait(&server, &boss, &run).await;
    }
    assert_eq!((&done["status"], &done["data"]), (&json!("done"), &json!("It is done.")), "{done:#}");
}

// The test blocks on commands while the far server handles their requests.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_are_added_and_taken_out_by_those_who_run_the_store() {
    let far = Far::open().await;
    let user = User::new();
    let outbound = format!("[outbound]\ninternal_hosts = ['127.0.0.1']\nports = [443, {}]\n", far.port);
    user.configure(&format!("{outbound}[mcp.kept]\nurl = 'https://docs.example.com/mcp'\nenabled = false\n"));
    let server = Server::start_for(user, &[]);
    let boss = server.key(&[]);
    let elsewhere = server.add_user("e@example.com", &["--role", "admin", "--workspace", "b"]);
    let elsewhere = server.key(&["--user", &elsewhere]);
    let draft = json!({"name": "far", "url": format!("{}/mcp", far.base), "headers": {"Authorization": "Bearer SENTINEL"}});
    server.post(PATH, &elsewhere, &draft).await.is_problem(403, "forbidden");
    let made = server.post(PATH, &boss, &draft).await.is(StatusCode::CREATED).body;
    assert_eq!((&made["source"], &made["trusted"]), (&json!("added"), &json!(false)));
    let found = state(&server, &boss, "far", "connected").await;
    assert!(!found.to_string().contains("SENTINEL"), "{found:#}");
    let listed = server.user.run(&["mcp", "list"]).exits(0).out;
    let added = format!("far  {}/mcp, added over HTTP\n", far.base);
    assert!(listed.starts_with("kept  https://docs.example.com/mcp, disabled\n"), "{listed}");
    assert!(listed.ends_with(&added) && !listed.contains("SENTINEL"), "{listed}");
    server.post(PATH, &boss, &draft).await.is_problem(409, "duplicate");
    for (wrong, code) in [
        (json!({"name": "a__b", "url": "https://a.example.com"}), (422, "invalid")),
        (json!({"name": "a", "url": "http://10.0.0.1/mcp"}), (422, "invalid")),
        (json!({"name": "a", "url": "https://10.0.0.1/mcp"}), (422, "invalid")),
        (json!({"name": "a", "url": "https://a.example.com:8443/mcp"}), (422, "invalid")),
        (
            json!({"name": "a", "url": "https://a.example.com", "headers": {"x": "y".repeat(5_000)}}),
            (422, "invalid"),
        ),
        (json!({"name": "a"}), (422, "invalid")),
        (json!({"name": "kept", "url": "https://a.example.com"}), (409, "duplicate")),
        // A command would execute a program on this machine.
        (json!({"name": "a", "command": "sh"}), (403, "forbidden")),
    ] {
        server.post(PATH, &boss, &wrong).await.is_problem(code.0, code.1);
    }
    server.post(&format!("{PATH}/far/reconnect"), &boss, &json!({})).await.is(StatusCode::ACCEPTED);
    let delete = |server: &Server, name: &str| {
        answer(server.request(Method::DELETE, &format!("{PATH}/{name}")).bearer_auth(&boss))
    };
    delete(&server, "kept").await.is_problem(409, "in_settings");
    let server = Server::start_for(server.kill(), &[]);
    state(&server, &boss, "far", "connected").await;
    nothing_readable(&server.user);
    delete(&server, "far").await.is(StatusCode::NO_CONTENT);
    server.get(&format!("{PATH}/far"), &boss).await.is_problem(404, "not_found");
    delete(&server, "far").await.is_problem(404, "not_found");
    let entries = server.get("/api/v1/audit", &boss).await.is(StatusCode::OK).body["data"].clone();
    let told: Vec<_> = entries.as_array().unwrap().iter().filter(|entry| entry["subject"] == "far").collect();
    let actions: Vec<_> = told.iter().map(|entry| entry["action"].as_str().unwrap()).collect();
    assert_eq!(actions, ["mcp.removed", "mcp.reconnected", "mcp.added"], "one for each that was done");
    assert_eq!(told[2]["details"]["trusted"], false, "{told:#?}");
    let tools = server.get("/api/v1/tools/once", &boss).await;
    tools.is_problem(404, "not_found");
}

// rows: SK-R3, SK-R11
// The test blocks on commands while the far server handles their requests.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_down_at_a_start_shows_its_tools_as_they_were() {
    let far = Far::open().await;
    let user = User::new();
    user.configure(&format!("[mcp.far]\nurl = '{}/mcp'\n", far.base));
    let server = Server::start_for(user, &[]);
    let boss = server.key(&[]);
    state(&server, &boss, "far", "connected").await;
    let skyflo = "/skyflo/api/v1";
    let health = server.get(&format!("{skyflo}/health/mcp"), &boss).await.is(StatusCode::OK);
    assert_eq!(health.body, json!({"status": "ok", "mcp": "connected"}));
    let tools = server.get(&format!("{skyflo}/agent/tools"), &boss).await.is(StatusCode::OK).body;
    let once = tools.as_array().unwrap().iter().find(|tool| tool["name"] == "once").unwrap().clone();
    assert_eq!((&once["title"], &once["tags"][0]), (&json!("Just once"), &json!("far")), "{once:#}");
    assert_eq!(once["annotations"]["readOnlyHint"], true);

    let user = server.kill();
    drop(far);
    let server = Server::start_for(user, &[]);
    let down = state(&server, &boss, "far", "down").await;
    assert!(down["last_error"].is_string() && down["retry_at"].is_u64(), "{down:#}");
    // Network details of an error are only for the operator.
    let (ann, _) = server.member("ann");
    let seen = state(&server, &ann.key, "far", "down").await;
    assert_eq!(seen["last_error"], "the server cannot be reached");
    assert_ne!(down["last_error"], seen["last_error"]);
    assert_eq!(down["tools"][0]["name"], "once");
    server.get("/api/v1/tools/once", &boss).await.is(StatusCode::OK);
    let ready = server.get("/api/v1/health/ready", &boss).await.is(StatusCode::OK).body;
    assert_eq!(ready["mcp"], json!({"used": 1, "ready": 0}));
    let health = server.get(&format!("{skyflo}/health/mcp"), &boss).await.is(StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!((&health.body["status"], &health.body["mcp"]), (&json!("degraded"), &json!("disconnected")));
    server.get(&format!("{skyflo}/agent/tools"), &boss).await.is(StatusCode::BAD_GATEWAY);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_reaches_so_many_servers_of_its_own_at_a_time() {
    // These servers accept connections and never respond.
    let mut silent = Vec::new();
    for _ in 0..3 {
        silent.push(tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap());
    }
    let ports: Vec<u16> = silent.iter().map(|it| it.local_addr().unwrap().port()).collect();
    let user = User::new();
    user.configure(&format!("[outbound]\ninternal_hosts = ['127.0.0.1']\nports = {ports:?}\n"));
    let server = serve(&model(), user, 0);
    let (ann, bob) = (server.member("ann").0.key, server.member("bob").0.key);
    let invoke = |key: &str, port: u16| {
        let tool = json!({"type": "mcp", "name": "crm", "base_url": format!("http://127.0.0.1:{port}/mcp")});
        let body =
            json!({"message": "do it", "session_id": format!("s{port}"), "tools": [tool], "llm_config": {}});
        server.request(Method::POST, "/zeus/api/agent/invoke").bearer_auth(key).json(&body)
    };
    let mut waiting = Vec::new();
    for at in [0, 1] {
        let sent = tokio::spawn(invoke(&ann, ports[at]).send());
        waiting.push((silent[at].accept().await.unwrap(), sent));
    }
    answer(invoke(&ann, ports[2])).await.is_problem(429, "busy");
    // Another user's request reaches its server.
    let sent = tokio::spawn(invoke(&bob, ports[2]).send());
    waiting.push((silent[2].accept().await.unwrap(), sent));
    waiting.iter().for_each(|(_, sent)| sent.abort());
}

// rows: ZE-E13
// The test blocks on commands while the far server handles their requests.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_brings_a_server_along_for_one_run() {
    let far = Far::open().await;
    let user = User::new();
    user.configure(&format!(
        "[outbound]\ninternal_hosts = ['127.0.0.1']\nports = [{}]\n[server.limits]\nruns_per_user = 1\n",
        far.port
    ));
    let server = serve(&model(), user, 0);
    let boss = server.key(&[]);
    let invoke_in = |session: &str, port: u16, key: &str| {
        let tool = json!({"type": "mcp", "name": "crm", "base_url": format!("http://127.0.0.1:{port}/mcp"), "api_key": key});
        let body = json!({"message": "do it", "session_id": session, "tools": [tool], "llm_config": {}});
        server.request(Method::POST, "/zeus/api/agent/invoke").bearer_auth(&boss).json(&body)
    };
    let invoke = |port: u16, key: &str| invoke_in("own", port, key);
    // An address that the settings do not permit is not called for a client either.
    answer(invoke(1, "x")).await.is_problem(422, "invalid");
    // A client's key is not sent to a foreign host without TLS.
    let clear = format!("http://crm.example.com:{}/mcp", far.port);
    let tool = json!({"name": "crm", "base_url": clear, "headers": {"X-Key": "SENTINEL"}});
    let body = json!({"message": "do it", "session_id": "clear", "tools": [tool], "llm_config": {}});
    let request = server.request(Method::POST, "/zeus/api/agent/invoke").bearer_auth(&boss).json(&body);
    let refused = answer(request).await;
    refused.is_problem(422, "invalid");
    assert!(
        refused.body["detail"].as_str().unwrap().contains("`crm.example.com` unencrypted"),
        "{:#}",
        refused.body
    );
    let stream = answer(invoke(far.port, "SENTINEL")).await.is(StatusCode::OK);
    let run = stream.headers["x-run-id"].to_str().unwrap().to_owned();
    let paused = wait(&server, &boss, &run).await;
    let asked = &paused["meta"]["interrupts"][0];
    assert_eq!(asked["tool"], "once", "{paused:#}");
    // If the user has too many runs, the client's server is not called.
    let before = far.asked();
    answer(invoke_in("another", far.port, "x")).await.is_problem(429, "too_many_runs");
    assert_eq!(far.asked(), before);
    let path = format!("/api/v1/interrupts/{}/answer", asked["interrupt"].as_str().unwrap());
    server.post(&path, &boss, &json!({"answer": {"kind": "approve"}})).await.is(StatusCode::OK);
    let done = wait(&server, &boss, &run).await;
    assert_eq!(done["status"], "done", "{done:#}");
    assert_eq!(far.calls(), ["Bearer SENTINEL"]);
    // The server was available to that run only.
    server.get("/api/v1/tools/once", &boss).await.is_problem(404, "not_found");
    nothing_readable(&server.user);
}

// The test blocks on commands while the far server handles their requests.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn people_sign_in_from_a_terminal() {
    let far = Far::guarded().await;
    let user = guarded(&far);
    let tested = user.run(&["mcp", "test"]).exits(1).out;
    assert!(tested.contains("windlass mcp login guarded"), "{tested}");
    // No command starts without a required server, except its sign-in.
    user.configure(&format!("[mcp.guarded]\nurl = '{}/mcp'\ntrusted = true\nrequired = true\n", far.base));
    let refused = user.run(&["run", "hello"]).exits(2).err;
    assert!(refused.contains("windlass mcp login guarded"), "{refused}");
    let mut login = user.start(&["mcp", "login", "guarded", "--timeout", "60"]);
    let (back, page) = offered(&mut login);
    assert!(back.starts_with("http://127.0.0.1:"), "{back}");
    let brought = reqwest::get(format!("{back}?{}", far.back(&page))).await.unwrap();
    assert!(brought.text().await.unwrap().contains("signed in"));
    assert_eq!(login.wait().unwrap().code(), Some(0));
    assert!(user.run(&["mcp", "test"]).exits(0).out.contains("guarded  1 tools"));
    nothing_readable(&user);
    user.run(&["mcp", "logout", "guarded"]).exits(0);
    user.run(&["mcp", "test"]).exits(1);
    let late = user.run(&["mcp", "login", "guarded", "--timeout", "1"]).exits(2).err;
    assert!(late.contains("no sign-in at `guarded` within 1 s"), "{late}");
}
