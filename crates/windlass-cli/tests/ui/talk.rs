//! Conversations: started, followed, cancelled, steered, resumed and forked.

use windlass_bench::server::ModelServer;

use super::page::Page;
use super::{asked, scripted, write};
use crate::cli::User;
use crate::cli::model::Turn;
use crate::http::Server;

/// The text of the last displayed reply.
const LAST: &str =
    "([...document.querySelectorAll('.entry.assistant .markdown')].at(-1)?.textContent.trim() ?? '')";

/// Waits until an active reply has more than 60 displayed characters.
pub async fn midway(page: &Page) -> String {
    let script = format!(
        "const said = {LAST}; return all('[data-status=live]').length > 0 && said.length > 60 && said"
    );
    page.until("an answer in the middle", &script).await.as_str().unwrap().to_owned()
}

/// Waits for the end of the reply, and compares it with the server's. Returns it.
pub async fn ended(page: &Page) -> String {
    let script = format!(
        "return all('[data-status=complete], [data-status=partial]').some((one) => one.matches('.assistant')) && {LAST}"
    );
    let shown = page.until("the end of the answer", &script).await.as_str().unwrap().to_owned();
    let messages = page.asks(&format!("/threads/{}/messages?limit=50", page.thread().await)).await;
    let rows = messages["data"].as_array().unwrap();
    let last = rows.iter().rfind(|row| row["role"] == "assistant").unwrap();
    let text: String =
        last["blocks"].as_array().unwrap().iter().filter_map(|block| block["text"].as_str()).collect();
    assert_eq!(shown, text.trim(), "{messages:#}");
    shown
}

#[tokio::test]
async fn a_first_message_is_answered_and_stands_in_the_sidebar() {
    let server = Server::start(&[]);
    let page = Page::signed_in(&server).await;
    page.sees("What would you like to do").await;
    page.say("hello").await;
    page.thread().await;
    let said = ended(&page).await;
    assert!(said.len() > 20, "{said}");
    page.until("it stands in the sidebar", "return all('.history .thread').length === 1").await;
    page.press("New conversation").await;
    page.until("what was sent is no draft any more", "return all('[data-key=composer]')[0].value === ''")
        .await;
    page.ends().await;
}

// rows: SK-U7
#[tokio::test]
async fn a_stopped_answer_keeps_what_was_said() {
    let models = ModelServer::start(0).await.unwrap();
    let server = slow(User::new(), &models, "stream-4000-delay10ms");
    let page = Page::signed_in(&server).await;
    page.say("Tell me.").await;
    let before = midway(&page).await;
    page.press("Stop").await;
    page.sees("Stopped.").await;
    let after = ended(&page).await;
    assert!(after.starts_with(&before), "{before}\n{after}");
    page.driver.refresh().await.unwrap();
    page.sees("Stopped.").await;
    page.sees("Stopped here.").await;
    assert_eq!(ended(&page).await, after);
    // A partial reply can be forked, like any other.
    let thread = page.thread().await;
    page.press("Fork").await;
    page.until(
        "another conversation",
        &format!("return location.pathname.startsWith('/chat/') && location.pathname !== '/chat/{thread}'"),
    )
    .await;
    assert_eq!(ended(&page).await, after);
    page.ends().await;
}

#[tokio::test]
async fn the_words_that_stand_for_no_answer_are_forked_like_one() {
    let server = scripted((0..20).map(|_| Turn::Say("")).collect());
    let page = Page::signed_in(&server).await;
    page.say("Say nothing.").await;
    page.until("the engine's own words", "return all('.entry[data-status=fallback]').length === 1").await;
    let thread = page.thread().await;
    page.driver.refresh().await.unwrap();
    page.press("Fork").await;
    page.until(
        "another conversation",
        &format!("return location.pathname.startsWith('/chat/') && location.pathname !== '/chat/{thread}'"),
    )
    .await;
    page.until("it has them", "return all('.entry[data-status=fallback]').length === 1").await;
    page.ends().await;
}

fn slow(user: User, models: &ModelServer, script: &str) -> Server {
    slow_at("127.0.0.1:0", user, models, script)
}

/// A server at an address, whose model streams slowly enough to be interrupted.
pub fn slow_at(place: &str, user: User, models: &ModelServer, script: &str) -> Server {
    let mut command = user.command(&["serve", "--listen", place]);
    command
        .env("OPENAI_API_KEY", "none")
        .env("WINDLASS_MODEL", format!("openai-chat/{script}"))
        .env("WINDLASS_BASE_URL", models.base_url());
    Server::spawn(user, command)
}

// rows: SK-U6, ZE-P7
#[tokio::test]
async fn waiting_messages_are_changed_taken_back_and_sent_in_their_turn() {
    let server = scripted(vec![
        Turn::Call(vec![write("a.md")]),
        Turn::Say("The first is done."),
        Turn::Say("The second is done."),
    ]);
    let page = asked(&server).await;
    // The second message is typed before the server has responded to the first.
    page.say("one of two").await;
    page.say("two of two").await;
    page.sees("2 queued messages.").await;
    let press = async |row: usize, name: &str| {
        let script = "return all(`.queue li:nth-child(${arguments[0]}) button`).find((one) => named(one) === arguments[1])";
        let found = page.driver.execute(format!("const all = (css) => [...document.querySelectorAll(css)]; const named = (one) => one.innerText; {script}"), vec![row.into(), name.into()]).await.unwrap();
        found.element().unwrap().click().await.unwrap();
    };
    press(1, "Edit").await;
    page.write(".queue textarea", "one, changed").await;
    page.press("Save").await;
    page.sees("one, changed").await;
    press(2, "Remove").await;
    page.sees("1 queued message.").await;
    page.press("Approve").await;
    page.sees("The second is done.").await;
    page.until("nothing waits", "return all('.queue').length === 0").await;
    let said =
        "return [...document.querySelectorAll('.entry.user .said')].map((one) => one.innerText.trim())";
    let said = page.run(said, vec![]).await;
    assert_eq!(said, serde_json::json!(["Write it.", "one, changed"]));
    page.ends().await;
}

#[tokio::test]
async fn a_reload_in_the_middle_ends_with_the_same_text() {
    let models = ModelServer::start(0).await.unwrap();
    let server = slow(User::new(), &models, "stream-300-delay15ms");
    let page = Page::signed_in(&server).await;
    page.say("Tell me.").await;
    let before = midway(&page).await;
    page.driver.refresh().await.unwrap();
    let again = midway(&page).await;
    assert!(again.starts_with(&before), "{before}\n{again}");
    let whole = ended(&page).await;
    assert!(whole.starts_with(&again), "{again}\n{whole}");
    page.ends().await;
}

#[tokio::test]
async fn a_reload_finds_the_answer_however_much_was_recorded_since_it_began() {
    let models = ModelServer::start(0).await.unwrap();
    let server = slow(User::new(), &models, "stream-4000-delay10ms");
    let page = Page::signed_in(&server).await;
    page.say("Tell me.").await;
    let before = midway(&page).await;
    page.say("first").await;
    page.sees("1 queued message.").await;
    // Each change of the queued message is an event.
    let change = "const ask = (path, method, body) => fetch(`/api/v1/threads/${arguments[0]}/${path}`, { method, body, headers: { 'content-type': 'application/json' } });\
        return (async () => {\
            const [waits] = (await (await ask('queue', 'GET')).json()).data;\
            for (let at = 1; at <= 520; at += 1) {\
                const answer = await ask(`queue/${waits.id}`, 'PATCH', JSON.stringify({ message: `change ${at}` }));\
                if (!answer.ok) return [at, answer.status, await answer.text()];\
            }\
        })();";
    let changed = page.run(change, vec![page.thread().await.into()]).await;
    assert!(changed.is_null(), "{changed}");
    page.driver.refresh().await.unwrap();
    let again = midway(&page).await;
    assert!(again.starts_with(&before), "{before}\n{again}");
    page.press("Stop").await;
    page.sees("Stopped.").await;
    page.ends().await;
}

/// A page reloads its conversation after a failure, for example after its session has expired.
#[tokio::test]
async fn reloading_a_conversation_keeps_the_streamed_text() {
    let models = ModelServer::start(0).await.unwrap();
    let server = slow(User::new(), &models, "stream-300-delay15ms");
    let page = Page::signed_in(&server).await;
    page.say("Tell me.").await;
    midway(&page).await;
    let again = format!(
        "return module('state/conversation.js').then(async ({{ shown }}) => {{
            const before = {LAST};
            await shown.value.load();
            await new Promise(requestAnimationFrame);
            return [before, {LAST}];
        }})"
    );
    let texts = page.run(&again, vec![]).await;
    let [before, after] = [0, 1].map(|at| texts[at].as_str().unwrap());
    assert!(after.starts_with(before), "{before}\n{after}");
    ended(&page).await;
    page.ends().await;
}

#[tokio::test]
async fn after_a_crash_of_the_server_the_page_shows_what_the_journal_has() {
    let models = ModelServer::start(0).await.unwrap();
    let server = slow(User::new(), &models, "stream-300-delay15ms");
    let place = server.address.trim_start_matches("http://").to_owned();
    let page = Page::signed_in(&server).await;
    page.say("Tell me.").await;
    midway(&page).await;
    let user = server.kill();
    page.sees("Connecting…").await;
    let _server = slow_at(&place, user, &models, "stream-300-delay15ms");
    page.misses("Connecting…").await;
    page.misses("Connection lost").await;
    let shown = ended(&page).await;
    page.driver.refresh().await.unwrap();
    assert_eq!(ended(&page).await, shown);
    page.ends_but_for(&["net::ERR_"]).await;
}

#[tokio::test]
async fn an_answer_is_forked_into_a_conversation_of_its_own() {
    let server = scripted(vec![Turn::Say("First answer."), Turn::Say("Second answer.")]);
    let page = Page::signed_in(&server).await;
    page.say("One.").await;
    page.sees("First answer.").await;
    let parent = page.thread().await;
    page.press("Fork").await;
    page.sees("Forked into a new conversation.").await;
    let path =
        format!("return location.pathname.startsWith('/chat/') && location.pathname !== '/chat/{parent}'");
    page.until("another conversation is shown", &path).await;
    page.sees("First answer.").await;
    page.say("Two.").await;
    page.sees("Second answer.").await;
    page.go(&format!("/chat/{parent}")).await;
    page.sees("First answer.").await;
    assert!(!page.words().await.contains("Second answer."));
    page.ends().await;
}

#[tokio::test]
async fn an_edited_message_begins_another_conversation_and_leaves_this_one() {
    let server = scripted(vec![Turn::Say("First answer."), Turn::Say("Second answer.")]);
    let (page, parent) = super::edited_second(&server).await;
    page.run("all('.entry.user form')[0].requestSubmit()", vec![]).await;
    let path =
        format!("return location.pathname.startsWith('/chat/') && location.pathname !== '/chat/{parent}'");
    page.until("another conversation is shown", &path).await;
    page.sees("Three.").await;
    page.sees("Second answer.").await;
    assert!(!page.words().await.contains("Two."), "{}", page.words().await);
    page.go(&format!("/chat/{parent}")).await;
    page.sees("Two.").await;
    page.ends().await;
}

#[tokio::test]
async fn a_file_is_attached_and_named_in_the_message() {
    let server = scripted(vec![Turn::Say("It is read.")]);
    let page = Page::signed_in(&server).await;
    page.attach("figures.csv", "a,b\n1,2\n").await;
    page.sees("figures.csv").await;
    page.say("Read it.").await;
    page.sees("It is read.").await;
    page.until("the message names it", "return all('.entry.user')[0].innerText.includes('figures.csv')")
        .await;
    page.ends().await;
}

#[tokio::test]
async fn what_was_typed_outlives_a_reload() {
    let server = scripted(vec![Turn::Say("Yes.")]);
    let page = Page::signed_in(&server).await;
    page.write("[data-key=composer]", "half a thought").await;
    page.driver.refresh().await.unwrap();
    page.until("it is still there", "return all('[data-key=composer]')[0].value === 'half a thought'").await;
    page.say("").await;
    page.sees("Yes.").await;
    page.ends().await;
}
