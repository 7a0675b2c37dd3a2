//! A server that shuts down during a reply, and its successor at the same address, as seen by a passive reader.

use windlass_bench::server::ModelServer;

use super::otherwise;
use super::page::Page;
use super::talk::{ended, midway, slow_at};
use crate::cli::User;

const SCRIPT: &str = "stream-500-delay15ms";

/// Records that a stream asked the client to reconnect.
const HEAR: &str = "const answer = await real();
    if (!url.includes('/stream')) return answer;
    const text = new TextDecoder();
    const look = new TransformStream({ transform(piece, onwards) {
        window.stopping ||= text.decode(piece, { stream: true }).includes('server.stopping');
        onwards.enqueue(piece);
    } });
    return new Response(answer.body.pipeThrough(look), answer)";

// The model streams while the test waits for the shutdown.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_continues_on_the_next_server_after_a_shutdown() {
    let models = ModelServer::start(0).await.unwrap();
    let server = slow_at("127.0.0.1:0", User::new(), &models, SCRIPT);
    let place = server.address.trim_start_matches("http://").to_owned();
    let page = Page::signed_in(&server).await;
    otherwise(&page, HEAR).await;
    page.say("Tell me.").await;
    let before = midway(&page).await;
    let (user, code) = server.end(libc::SIGTERM);
    assert_eq!(code, Some(143));
    page.until("it was asked to reconnect", "return window.stopping").await;
    page.sees("Connecting…").await;
    // Displayed content remains.
    let there =
        "return document.querySelector('.entry.assistant .markdown').textContent.includes(arguments[0])";
    page.shows(there, vec![before.clone().into()], true).await;
    let _server = slow_at(&place, user, &models, SCRIPT);
    page.misses("Connecting…").await;
    page.misses("Connection lost").await;
    let whole = ended(&page).await;
    assert!(whole.starts_with(&before) && whole.len() > before.len(), "{before}\n{whole}");
    assert_eq!(page.number_of(".entry.assistant[data-status=complete]").await, 1);
    // The page was not reloaded. A reload shows the same content.
    page.until("it is the page of before", "return window.stopping").await;
    page.driver.refresh().await.unwrap();
    assert_eq!(ended(&page).await, whole);
    page.ends_but_for(&["net::ERR_"]).await;
}
