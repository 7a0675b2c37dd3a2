//! Tests the server against its OpenAPI document: a fuzzer sends valid and invalid requests, and every response must
//! match the document.
//!
//! The fuzzer is a separate program, which `cargo xtask test` installs into `target/schemathesis`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use reqwest::StatusCode;
use serde_json::json;

use super::Server;

/// The checks of every response. Two are omitted. Valid requests may be rejected, because invented ids name nothing.
/// Authentication has a separate test, because a client with many failed attempts is locked out.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
    response_headers_conformance,response_schema_conformance,negative_data_rejection,unsupported_method,\
    allow_header_conformance,use_after_free";

/// Requests for each operation. All of them together take about a minute.
const EXAMPLES: &str = "8";

fn fuzzer() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let path = root.join("target/schemathesis/bin/schemathesis");
    assert!(path.exists(), "`{}` is absent: `cargo xtask test` installs it", path.display());
    path
}

#[tokio::test]
async fn every_answer_is_one_that_the_description_names() {
    let user = crate::cli::User::new();
    user.configure(
        "[server.limits]\nrequests_per_minute = 0\nanonymous_requests_per_minute = 0\nruns_per_user = 0\n",
    );
    let server = Server::start_for(user, &[]);
    let ann = server.admin();
    // One object of each kind exists.
    let thread = ann.small_talk().await;
    let (waiting, _, interrupt) = ann.asked().await;
    ann.post(&format!("/threads/{waiting}/messages"), json!({"message": "later"}))
        .await
        .is(StatusCode::ACCEPTED);
    ann.post("/grants", json!({"tool": "Write"})).await.is(StatusCode::CREATED);
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report.txt");
    let out = std::fs::File::create(&report).unwrap();
    let status = Command::new(fuzzer())
        .args(["run", &format!("{}/api/v1/openapi.json", server.address)])
        .args(["--header", &format!("Authorization: Bearer {}", ann.key)])
        .args(["--checks", CHECKS, "--max-examples", EXAMPLES])
        .args(["--phases", "coverage,fuzzing", "--workers", "1", "--request-timeout", "20"])
        // Long waits have separate tests and would consume the time. Failed sign-ins would lock this address out, as
        // intended.
        .args(["--exclude-path-regex", "/(wait|stream|updates|login|refresh)$"])
        .args(["--generation-deterministic", "--no-color"])
        .current_dir(folder.path())
        .env("NO_PROXY", "127.0.0.1")
        .stdin(Stdio::null())
        .stdout(out.try_clone().unwrap())
        .stderr(out)
        .status()
        .unwrap();
    let said = std::fs::read_to_string(&report).unwrap();
    assert!(status.success(), "{said}\nthere were `{thread}` and `{interrupt}`");
    assert!(said.contains("Coverage") && said.contains("Fuzzing"), "{said}");
}
