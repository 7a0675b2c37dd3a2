//! The start of a server, and headers of every response.

use reqwest::{Method, StatusCode};
use serde_json::json;

use super::{Server, answer};

#[tokio::test]
async fn it_says_that_it_lives_and_who_it_is() {
    let server = Server::start(&[]);
    let none = json!({"used": 0, "ready": 0});
    for (path, wanted) in [
        ("/api/v1/health", json!({"status": "ok"})),
        ("/api/v1/health/ready", json!({"status": "ok", "store": "ok", "mcp": none})),
    ] {
        let live = answer(server.request(Method::GET, path)).await.is(StatusCode::OK);
        assert_eq!(live.body, wanted);
    }
    let document = answer(server.request(Method::GET, "/api/v1/openapi.json")).await.is(StatusCode::OK);
    assert!(document.body["paths"]["/api/v1/health"]["get"].is_object(), "{document:#?}");
}

#[tokio::test]
async fn a_disabled_dialect_has_no_routes() {
    let user = crate::cli::User::new();
    user.configure(
        "[server.dialect.skyflo]\nenabled = false\n[server.dialect.skillchat]\nenabled = false\n\
         [server.dialect.agui]\nenabled = false\n",
    );
    let server = Server::start_for(user, &[]);
    for (method, path, there) in [
        (Method::GET, "/skyflo/api/v1/health", false),
        (Method::GET, "/skyflo/api/v1/auth/is_admin_user", false),
        (Method::GET, "/skillchat/health", false),
        (Method::POST, "/agui", false),
        (Method::POST, "/zeus/api/agent/invoke", true),
    ] {
        let found = answer(server.request(method, path).json(&json!({}))).await;
        assert_eq!(found.status, if there { 401 } else { 404 }, "{path}: {found:#?}");
    }
}

// rows: SK-R13
#[tokio::test]
async fn every_answer_has_the_id_of_its_request() {
    let server = Server::start(&[]);
    let path = "/api/v1/health";
    let named = answer(server.request(Method::GET, path).header("x-request-id", "mine-1")).await;
    assert_eq!(named.headers["x-request-id"], "mine-1");
    let drawn = answer(server.request(Method::GET, path).header("x-request-id", "not plain")).await;
    assert_eq!(drawn.headers["x-request-id"].len(), 12);
    assert!(drawn.headers.contains_key("x-process-time"));
}

#[tokio::test]
async fn an_unknown_path_method_host_or_origin_is_a_problem() {
    let server = Server::start(&[]);
    answer(server.request(Method::GET, "/nowhere")).await.is_problem(404, "not_found");
    answer(server.request(Method::PUT, "/api/v1/health")).await.is_problem(405, "method_not_allowed");
    let elsewhere = server.request(Method::GET, "/api/v1/health").header("host", "evil.example.com");
    answer(elsewhere).await.is_problem(421, "unknown_host");
    let page = server.request(Method::GET, "/api/v1/health").header("origin", "https://evil.example.com");
    answer(page).await.is_problem(403, "forbidden");
}

#[tokio::test]
async fn a_browser_at_an_unknown_path_gets_the_page() {
    let server = Server::start(&[]);
    let look = async |method: Method, path: &str, accept: &str| {
        let answer = answer(server.request(method, path).header("accept", accept)).await;
        let kind = answer.headers["content-type"].to_str().unwrap().split(';').next().unwrap().to_owned();
        let is_app = answer.body.as_str().is_some_and(|page| page.contains("id=\"app\""));
        (answer.status, kind, is_app)
    };
    let browser = "text/html,application/xhtml+xml,*/*;q=0.8";
    let problem = || (404, "application/problem+json".to_owned(), false);
    for path in ["/nowhere", "/chat", "/inbox/of/yesterday"] {
        assert_eq!(look(Method::GET, path, browser).await, (404, "text/html".to_owned(), true), "{path}");
        assert_eq!(look(Method::GET, path, "application/json, */*").await, problem(), "{path}");
        assert!(!look(Method::POST, path, browser).await.2, "{path}");
    }
    for path in ["/api/v1/nowhere", "/auth/nowhere", "/ui/x/nowhere", "/skyflo/nowhere", "/agui/a/b/c"] {
        assert_eq!(look(Method::GET, path, browser).await, problem(), "{path}");
    }
}

#[tokio::test]
async fn a_thread_is_its_owners() {
    let server = Server::start(&[]);
    server.user.run(&["run", "--yes", crate::cli::TASK]).exits(0);
    let thread = server.user.events()[0]["thread"].as_str().unwrap().to_owned();
    let path = format!("/api/v1/threads/{thread}");
    answer(server.request(Method::GET, &path)).await.is_problem(401, "unauthenticated");
    server.get(&path, "wls_nobody").await.is_problem(401, "unauthenticated");
    let own = server.get(&path, &server.key(&[])).await.is(StatusCode::OK);
    assert_eq!((own.body["id"].as_str(), own.body["status"].as_str()), (Some(&*thread), Some("idle")));
    let other = server.add_user("other@example.com", &[]);
    server.get(&path, &server.key(&["--user", &other])).await.is_problem(404, "not_found");
    let elsewhere = server.add_user("b@example.com", &["--role", "admin", "--workspace", "b"]);
    server.get(&path, &server.key(&["--user", &elsewhere])).await.is_problem(404, "not_found");
}
