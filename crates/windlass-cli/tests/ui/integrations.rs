//! Integrations: created, checked, disabled and enabled, and deleted.

use serde_json::{Value, json};

use super::page::Page;
use crate::cli::User;
use crate::http::Server;

/// A system that accepts any credentials. Returns its address.
async fn system() -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}/", listener.local_addr().unwrap());
    let router = axum::Router::new().fallback(async || "{}");
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    address
}

/// The names and states of the server's integrations.
async fn known(page: &Page) -> Value {
    let all = page.asks("/integrations").await;
    let told = |one: &Value| json!([one["name"], one["status"]]);
    all["data"].as_array().unwrap().iter().map(told).collect()
}

// The server calls the system while the test waits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_system_is_connected_checked_switched_off_and_forgotten() {
    let user = User::new();
    user.configure("[server]\ninternal_hosts = [\"127.0.0.1\"]\n");
    let server = Server::start_for(user, &[]);
    let page = Page::signed_in(&server).await;
    page.go("/library/integrations").await;
    page.press("Add integration").await;
    page.write("dialog [name=provider]", "jenkins").await;
    page.write("dialog [name=name]", "CI").await;
    page.write("dialog [name=metadata]", &json!({"api_url": system().await}).to_string()).await;
    page.write("dialog [name=credentials]", "{\"username\": \"bot\"").await;
    page.press("Add").await;
    page.sees("“Credentials” is not valid JSON").await;
    page.write("dialog [name=credentials]", r#"{"username": "bot", "api_token": "SENTINEL"}"#).await;
    page.press("Add").await;
    page.sees("credentials stored").await;
    assert_eq!(known(&page).await, json!([["CI", "active"]]));

    page.press("Check").await;
    page.sees("CI: the system accepts the credentials").await;
    for (name, next, stands) in [("Disable", "Enable", "disabled"), ("Enable", "Disable", "active")] {
        page.press(name).await;
        page.until_of("it is switched", "return button(arguments[0])", vec![next.into()]).await;
        page.shows("return all('.item .state')[0].innerText", vec![], stands).await;
        assert_eq!(known(&page).await, json!([["CI", stands]]));
    }

    page.press("Delete").await;
    page.sees("This deletes its credentials").await;
    page.press("Cancel").await;
    page.misses("This deletes its credentials").await;
    assert_eq!(known(&page).await, json!([["CI", "active"]]));
    page.press("Delete").await;
    page.element("dialog .danger").await.click().await.unwrap();
    page.sees("No integrations").await;
    assert_eq!(known(&page).await, json!([]));
    assert!(!page.words().await.contains("SENTINEL"));
    page.ends().await;
}
