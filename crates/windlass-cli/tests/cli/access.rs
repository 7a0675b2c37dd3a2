//! Resuming a run with the recorded address and key variable, from any terminal; no key is recorded.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use reqwest::StatusCode;
use serde_json::{Value, json};

use super::model::{Model, Turn};
use super::{Said, User, said};
use crate::http::Server;

const NAME: &str = "openai-compatible/scripted";

/// A key that must not be written to disk.
const SENTINEL: &str = "sk-sentinel-4711";

fn model() -> Model {
    let write = json!({ "file_path": "a.txt", "content": "x" });
    Model::start(vec![Turn::Call(vec![("Write", write)])])
}

/// Starts a run that waits for an approval.
fn started(user: &User, model: &Model) -> Said {
    let arguments = ["run", "-m", NAME, "--base-url", model.url(), "--api-key-env", "GATEWAY_KEY", "go"];
    with_key(user, &arguments).exits(3)
}

fn with_key(user: &User, arguments: &[&str]) -> Said {
    done(user.command(arguments).env("GATEWAY_KEY", SENTINEL))
}

fn done(command: &mut Command) -> Said {
    said(command.output().unwrap())
}

fn access(user: &User) -> Value {
    let started = user.events().into_iter().find(|event| event["type"] == "run.started").unwrap();
    started["options"]["access"].clone()
}

/// The files below a directory that contain a text.
fn holding(directory: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            found.extend(holding(&entry.path(), text));
        } else if std::fs::read(entry.path()).unwrap().windows(text.len()).any(|it| it == text.as_bytes()) {
            found.push(entry.path().display().to_string());
        }
    }
    found
}

#[test]
fn a_resumed_run_needs_no_flags_and_no_secret_is_recorded() {
    let (user, model) = (User::new(), model());
    let waits = started(&user, &model);
    assert!(!waits.err.contains("--base-url") && !waits.err.contains(SENTINEL), "{waits:#?}");
    let recorded =
        json!({ "provider": "openai-compatible", "base_url": model.url(), "api_key_env": "GATEWAY_KEY" });
    assert_eq!(access(&user), recorded);
    // Another terminal, which is configured for another gateway.
    let elsewhere = Model::start(vec![]);
    let mut resume = user.command(&["resume", "--yes"]);
    resume.env("GATEWAY_KEY", SENTINEL).env("WINDLASS_BASE_URL", elsewhere.url()).env("WINDLASS_MODEL", NAME);
    let resumed = done(&mut resume).exits(0);
    let ignored =
        format!("warning: `WINDLASS_BASE_URL` is ignored: the run was started with `{}`", model.url());
    assert!(resumed.err.contains(&ignored), "{resumed:#?}");
    assert_eq!(user.read("a.txt"), "x");
    assert_eq!((model.keys(), elsewhere.keys()), (vec![SENTINEL.to_owned(); 2], vec![]));
    assert_eq!(holding(&user.home(), SENTINEL), Vec::<String>::new());
}

#[test]
fn variables_of_the_first_terminal_are_recorded_too() {
    let (user, model) = (User::new(), model());
    model.run(&user, &["run", "go"]).exits(3);
    assert_eq!(access(&user), json!({ "provider": "openai-compatible", "base_url": model.url() }));
    user.run(&["approvals", "approve"]).exits(0);
    assert_eq!(user.read("a.txt"), "x");
    // Nothing is recorded if only the settings determine how the model is reached.
    user.configure(&format!("[providers.openai-compatible]\nbase_url = '{}'\n", model.url()));
    user.run(&["run", "-m", NAME, "go"]);
    assert_eq!(access(&user), Value::Null);
}

#[test]
fn a_variable_that_is_missing_is_named_and_leaves_the_run_as_it_is() {
    let (user, model) = (User::new(), model());
    started(&user, &model);
    let missing = user.run(&["resume", "--yes"]).exits(2);
    let wanted = "error: the run was started with the key in the variable `GATEWAY_KEY`, which is not set here\n\
        hint: set GATEWAY_KEY to the key, or name another variable with `--api-key-env NAME`\n\
        hint: the run is unchanged\n";
    assert!(missing.err.contains(wanted), "{missing:#?}");
    // A variable named on this command line takes precedence, for the recorded address.
    let mut other = user.command(&["resume", "--yes", "--api-key-env", "OTHER_KEY"]);
    done(other.env("OTHER_KEY", "sk-other")).exits(0);
    assert_eq!(model.keys(), [SENTINEL, "sk-other"]);
}

#[test]
fn neither_settings_nor_an_address_send_a_recorded_key_elsewhere() {
    let (user, model, other) = (User::new(), model(), model());
    user.configure(&format!("[providers.openai-compatible]\nbase_url = '{}'\n", model.url()));
    with_key(&user, &["run", "-m", NAME, "--api-key-env", "GATEWAY_KEY", "go"]).exits(3);
    let refused = with_key(&user, &["resume", "--yes", "--base-url", other.url()]).exits(2);
    let wanted = format!(
        "error: the run recorded the key in the variable `GATEWAY_KEY` for another address than `{}`\nhint: `--api-key-env GATEWAY_KEY` sends it there",
        other.url()
    );
    assert!(refused.err.contains(&wanted), "{refused:#?}");
    user.configure(&format!("[providers.openai-compatible]\nbase_url = '{}'\n", other.url()));
    with_key(&user, &["resume", "--yes"]).exits(0);
    assert_eq!((model.keys(), other.keys()), (vec![SENTINEL.to_owned(); 2], vec![]));
}

#[test]
fn an_address_with_a_secret_is_recorded_without_it() {
    let (user, model) = (User::new(), model());
    let address = format!("{}?key={SENTINEL}", model.url());
    user.run(&["run", "-m", NAME, "--base-url", &address, "go"]).exits(3);
    let recorded =
        json!({ "provider": "openai-compatible", "base_url": model.url(), "base_url_withheld": true });
    assert_eq!(access(&user), recorded);
    assert_eq!(holding(&user.home(), SENTINEL), Vec::<String>::new());
    let refused = user.run(&["resume", "--yes"]).exits(2);
    let wanted = format!(
        "error: the run's address `{}` contained a secret, which was not recorded\n\
         hint: pass the full address again with `--base-url URL`\n",
        model.url()
    );
    assert!(refused.err.contains(&wanted), "{refused:#?}");
    user.run(&["resume", "--yes", "--base-url", &address]).exits(0);
}

#[test]
fn a_run_is_resumed_in_its_own_folder_from_any_other() {
    let (user, model) = (User::new(), model());
    started(&user, &model);
    let run = user.events().iter().find_map(|event| Some(event["run"].as_str()?.to_owned())).unwrap();
    let elsewhere = user.home().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    let from = |arguments: &[&str]| {
        done(user.command(arguments).current_dir(&elsewhere).env("GATEWAY_KEY", SENTINEL))
    };
    from(&["resume", "--yes"]).exits(2);
    let unknown = from(&["resume", "--yes", "run_0123456789"]).exits(2);
    assert!(unknown.err.contains("run_0123456789"), "{unknown:#?}");
    let resumed = from(&["resume", "--yes", &run]).exits(0);
    assert!(resumed.err.contains(&format!("run {run} works in ")), "{resumed:#?}");
    assert_eq!(user.read("a.txt"), "x");
    assert!(!elsewhere.join("a.txt").exists());
}

#[test]
fn a_message_after_a_resumed_run_goes_where_the_chat_itself_calls() {
    let (user, model) = (User::new(), model());
    started(&user, &model);
    let own = Model::start(vec![Turn::Say("here")]);
    let mut chat = user.command(&["chat", "--yes", "-m", NAME]);
    chat.env("GATEWAY_KEY", SENTINEL).env("WINDLASS_BASE_URL", own.url()).stdin(Stdio::piped());
    let mut chat = chat.spawn().unwrap();
    chat.stdin.take().unwrap().write_all(b"/continue\nmore\n").unwrap();
    let told = said(chat.wait_with_output().unwrap()).exits(0);
    assert_eq!(user.read("a.txt"), "x", "{told:#?}");
    assert_eq!((model.steps().len(), own.steps().len()), (2, 1), "{told:#?}");
    assert!(!own.keys().contains(&SENTINEL.to_owned()), "{told:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_leaves_a_run_to_the_terminal_that_knows_its_address() {
    let (user, model, other) = (User::new(), model(), model());
    started(&user, &model);
    user.configure(&format!("[providers.openai-compatible]\nbase_url = '{}'\n", other.url()));
    let server = Server::start_for(user, &[]);
    let key = server.key(&[]);
    let open = server.get("/api/v1/interrupts", &key).await.is(StatusCode::OK).body;
    let (interrupt, run) =
        (open["data"][0]["id"].as_str().unwrap(), open["data"][0]["run"].as_str().unwrap());
    let path = format!("/api/v1/interrupts/{interrupt}/answer");
    let refused = server.post(&path, &key, &json!({ "answer": { "kind": "approve" } })).await;
    refused.is_problem(409, "not_reached");
    let detail = refused.body["detail"].as_str().unwrap();
    let wanted = format!("run `{run}` was started with the model's address `{}` and the key in", model.url());
    assert!(detail.contains(&wanted) && detail.contains(&format!("`windlass resume {run}`")), "{detail}");
    // The terminal answers beside the server, which calls its own model for nothing.
    let user = &server.user;
    let said = with_key(user, &["approvals", "approve"]).exits(0);
    assert_eq!(user.read("a.txt"), "x", "{said:#?}");
    // A run whose model is unreachable can be cancelled.
    let waits = started(user, &model);
    let open = server.get("/api/v1/interrupts", &key).await.is(StatusCode::OK).body;
    let run = open["data"][0]["run"].as_str().unwrap_or_else(|| panic!("{open:#}, {waits:#?}")).to_owned();
    server.post(&format!("/api/v1/runs/{run}/cancel"), &key, &json!({})).await;
    let row = server.get(&format!("/api/v1/runs/{run}"), &key).await.is(StatusCode::OK).body;
    assert_eq!(row["status"], "cancelled", "{row:#}");
    assert_eq!(other.keys(), Vec::<String>::new());
}
