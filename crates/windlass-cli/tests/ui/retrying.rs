//! A retried model call: the page's text during the wait.

use serde_json::json;
use windlass::testing::provider::ProviderServer;

use super::page::Page;
use crate::cli::User;
use crate::http::Server;

/// The notice about the next attempt, with its seconds.
const NOTICE: &str =
    "return all('.retry')[0]?.innerText.match(/^Retrying \\(attempt 2 of 4, in (\\d+) s\\)$/)?.[1]";

// rows: SK-L6, SK-L7
// The provider responds while the test waits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retry_is_announced_with_its_attempt_and_a_countdown_also_after_a_reload() {
    // The provider responds with 429 and a `Retry-After` of 7 s.
    let provider = ProviderServer::start().await.unwrap();
    let user = User::new();
    let mut command = user.command(&["serve", "--listen", "127.0.0.1:0"]);
    command.env("WINDLASS_MODEL", "openai-compatible/model-x");
    command.env("WINDLASS_BASE_URL", format!("{}/v1", provider.url("oai-ok-429")));
    let server = Server::spawn(user, command);
    let page = Page::signed_in(&server).await;
    page.say("Begin.").await;
    page.until("the notice", NOTICE).await;
    let events = page.asks(&format!("/threads/{}/events?limit=100", page.thread().await)).await;
    let failed =
        events["data"].as_array().unwrap().iter().find(|event| event["type"] == "step.failed").unwrap();
    assert_eq!((&failed["class"], &failed["attempts_max"]), (&json!("rate_limited"), &json!(4)), "{failed}");
    assert_eq!(failed["retry_at"].as_u64().unwrap() - failed["at"].as_u64().unwrap(), 7000);
    page.driver.refresh().await.unwrap();
    let later = page.until("the notice, after a reload", NOTICE).await;
    let counts = "const now = all('.retry')[0].innerText; return !now.includes(`in ${arguments[0]} s`)";
    page.until_of("it counts down", counts, vec![later]).await;
    page.press("Stop").await;
    page.sees("Stopped.").await;
    assert_eq!(page.number_of(".retry").await, 0);
    page.ends().await;
}
