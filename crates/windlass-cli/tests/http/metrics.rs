//! The server's metrics, logs and spans, which contain no secrets.

use reqwest::{Method, StatusCode};
use serde_json::Value;

use super::operate::{abandoned, dress, models, until};
use super::raw::{log, logged};
use super::{Server, answer};
use crate::cli::{User, count};

const MODEL: &str = "openai-chat/files-4";

/// A server that has driven one run to its end.
fn after_a_run(models: &super::operate::Models, dressed: impl FnOnce(&mut std::process::Command)) -> Server {
    let user = abandoned(models, "openai-chat/files-4-ttft300ms");
    let server = logged(user, &[], |command| {
        dress(command, models, MODEL);
        command.env("WINDLASS_LOG", "windlass=debug");
        dressed(command);
    });
    until("the run has ended", || count(&server.user.events(), "run.finished") == 1);
    server
}

async fn figures(server: &Server) -> Vec<String> {
    let found = answer(server.request(Method::GET, "/metrics")).await.is(StatusCode::OK);
    assert!(found.headers["content-type"].to_str().unwrap().starts_with("application/openmetrics-text"));
    found.body.as_str().unwrap().lines().map(str::to_owned).collect()
}

fn has(figures: &[String], wanted: &str) {
    assert!(figures.iter().any(|line| line == wanted), "no `{wanted}` in {figures:#?}");
}

#[test]
fn what_happens_is_counted() {
    let models = models();
    let server = after_a_run(&models, |_| {});
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let figures = runtime.block_on(async {
        answer(server.request(Method::GET, "/api/v1/threads/thr_1")).await;
        answer(server.request(Method::GET, "/anything/at/all")).await;
        figures(&server).await
    });
    for wanted in [
        "windlass_runs_total{status=\"done\"} 1",
        "windlass_tool_calls_total{tool=\"Write\",outcome=\"returned\",error=\"false\"} 1",
        "windlass_tool_calls_total{tool=\"Edit\",outcome=\"returned\",error=\"false\"} 2",
        "windlass_model_errors_total{class=\"lost\"} 1",
        "windlass_http_streams 0",
        "windlass_interrupts_waiting 0",
        "windlass_runs_active 0",
        "windlass_http_requests_total{route=\"/api/v1/threads/{thread}\",method=\"GET\",status=\"401\"} 1",
        "windlass_http_requests_total{route=\"unmatched\",method=\"GET\",status=\"404\"} 1",
        "windlass_store_append_failures_total 0",
        "# EOF",
    ] {
        has(&figures, wanted);
    }
    for begins in [
        "windlass_build_info{version=",
        "windlass_tokens_total{model=\"openai-chat/files-4",
        "windlass_store_append_seconds_count ",
    ] {
        assert!(figures.iter().any(|line| line.starts_with(begins)), "no `{begins}` in {figures:#?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_require_a_local_client_an_administrator_or_the_token() {
    let user = User::new();
    user.configure("[server]\nproxies = ['127.0.0.1']\nmetrics_token = 'env:SCRAPE'\n");
    let mut command = user.command(&["serve", "--listen", "127.0.0.1:0"]);
    command.env("SCRAPE", "scr4pe");
    let server = Server::spawn(user, command);
    // A request through a proxy is never local.
    let ask = || server.request(Method::GET, "/metrics").header("x-forwarded-for", "203.0.113.1");
    answer(ask()).await.is_problem(401, "unauthenticated");
    answer(ask().bearer_auth("scr4pe2")).await.is_problem(401, "unauthenticated");
    answer(ask().bearer_auth("scr4pe")).await.is(StatusCode::OK);
    answer(ask().bearer_auth(server.key(&[]))).await.is(StatusCode::OK);
    let member = server.add_user("m@example.com", &[]);
    answer(ask().bearer_auth(server.key(&["--user", &member]))).await.is_problem(403, "forbidden");

    // A local proxy without forwarding headers may forward either host name.
    let known = Server::start(&["--public-url", "http://agents.example.com"]);
    let beside = known.request(Method::GET, "/metrics").header("host", "agents.example.com");
    answer(beside).await.is_problem(401, "unauthenticated");
    answer(known.request(Method::GET, "/metrics")).await.is_problem(401, "unauthenticated");
    let plain = Server::start(&[]);
    answer(plain.request(Method::GET, "/metrics")).await.is(StatusCode::OK);
    let through = plain.request(Method::GET, "/metrics").header("x-forwarded-for", "127.0.0.1");
    answer(through).await.is_problem(401, "unauthenticated");
}

#[test]
fn lines_have_their_place_and_no_secret() {
    let models = models();
    let server = after_a_run(&models, |_| {});
    let key = server.key(&[]);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let path = "/api/v1/threads/thr_1?password=s3ntinel-query";
        let request = server.request(Method::GET, path).bearer_auth(&key).header("x-request-id", "mine-7");
        answer(request.header("cookie", "session=s3ntinel-cookie")).await.is_problem(404, "not_found");
        server.get("/api/v1/threads/t", "wls_s3ntinel-guess").await.is_problem(401, "unauthenticated");
    });
    let lines = log(&server.user);
    let text = serde_json::to_string(&lines).unwrap();
    for secret in ["s3ntinel", key.as_str(), "line 1"] {
        assert!(!text.contains(secret), "`{secret}` is in the log");
    }
    let spans = |line: &Value, field: &str| {
        let spans = line["spans"].as_array().cloned().unwrap_or_default();
        spans.iter().any(|span| !span[field].is_null())
    };
    let answered = lines.iter().find(|line| line["problem"] == "not_found").unwrap();
    assert_eq!(answered["spans"][0]["request_id"], "mine-7", "{answered:#}");
    let ended: Vec<_> =
        lines.iter().filter(|line| line["message"] == "ended" && spans(line, "call")).collect();
    assert_eq!(ended.len(), 3, "{lines:#?}");
    for line in ended {
        for field in ["thread", "run", "step", "call", "gen_ai.tool.name"] {
            assert!(spans(line, field), "no `{field}` in {line:#}");
        }
    }
}
