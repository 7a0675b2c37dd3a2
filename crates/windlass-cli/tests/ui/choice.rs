//! Options of a message: model, mode and files, and its idempotency key across a reload.

use serde_json::{Value, json};

use super::page::Page;
use super::typing::{cut_off, said};
use super::{choose, otherwise, scripted};
use crate::cli::User;
use crate::cli::model::{Model, Turn};
use crate::http::Server;

/// A server with two usable models, and one without a key.
fn several(turns: Vec<Turn>) -> Server {
    let user = User::new();
    let model = Model::start(turns);
    user.configure(&format!(
        "[agent]\nmodels = [\"own/first\", \"own/second\", \"anthropic/locked\"]\n[providers.own]\nbase_url = \"{}\"\n",
        model.url()
    ));
    let command = user.command(&["serve", "--listen", "127.0.0.1:0"]);
    Server::spawn(user, command)
}

/// The models of a thread's runs, and the modes of its messages, oldest first.
async fn used(page: &Page) -> (Vec<Value>, Vec<Value>) {
    let thread = page.thread().await;
    let runs = page.asks(&format!("/runs?thread={thread}")).await;
    let models = runs["data"].as_array().unwrap().iter().rev().map(|run| run["model"].clone());
    let said = page.asks(&format!("/threads/{thread}/messages?limit=50")).await;
    let said = said["data"].as_array().unwrap().iter().filter(|one| one["role"] == "user");
    (models.collect(), said.map(|one| one["mode"].clone()).collect())
}

const PICKED: &str = "return all('select[aria-label=Model]')[0]?.value === arguments[0] && all('select[aria-label=Mode]')[0].value === arguments[1]";

// rows: ZE-H12
#[tokio::test]
async fn the_next_message_goes_to_the_model_and_mode_of_the_last_one() {
    let server =
        several(vec![Turn::Say("First answer."), Turn::Say("Second answer."), Turn::Say("Third answer.")]);
    let page = Page::signed_in(&server).await;
    choose(&page, "select[aria-label=Model]", "own/second").await;
    choose(&page, "select[aria-label=Mode]", "plan").await;
    page.say("One.").await;
    page.sees("First answer.").await;
    let picked = async |model: &str, mode: &str| {
        page.until_of("what is picked", PICKED, vec![model.into(), mode.into()]).await;
    };
    picked("own/second", "plan").await;
    page.say("Two.").await;
    page.sees("Second answer.").await;
    page.driver.refresh().await.unwrap();
    page.sees("Second answer.").await;
    picked("own/second", "plan").await;
    choose(&page, "select[aria-label=Mode]", "ask").await;
    page.say("Three.").await;
    page.sees("Third answer.").await;
    let (second, plan) = (json!("own/second"), json!("plan"));
    let expected = (vec![second.clone(), second.clone(), second], vec![plan.clone(), plan, json!("ask")]);
    assert_eq!(used(&page).await, expected);
    page.ends().await;
}

#[tokio::test]
async fn an_edited_message_keeps_its_model_its_mode_and_its_files() {
    let server =
        several(vec![Turn::Say("First answer."), Turn::Say("Second answer."), Turn::Say("Third answer.")]);
    let page = Page::signed_in(&server).await;
    page.say("One.").await;
    page.sees("First answer.").await;
    let parent = page.thread().await;
    choose(&page, "select[aria-label=Model]", "own/second").await;
    choose(&page, "select[aria-label=Mode]", "ask").await;
    drop_files(&page, "document.body", 1).await;
    page.say("Two.").await;
    page.sees("Second answer.").await;
    // A message can be edited after its run has ended.
    page.until("it is answered", "return all('.stop').length === 0").await;
    page.run("all('.entry.user')[1].querySelectorAll('button').forEach((one) => named(one) === 'Edit' && one.click())", vec![]).await;
    page.sees("1 attachment will be included").await;
    page.write(".entry.user textarea", "Two, changed.").await;
    page.run("all('.entry.user form')[0].requestSubmit()", vec![]).await;
    let there =
        format!("return location.pathname.startsWith('/chat/') && location.pathname !== '/chat/{parent}'");
    page.until("another conversation", &there).await;
    page.sees("Two, changed.").await;
    page.until("it is answered", "return all('.stop').length === 0 && all('.entry.assistant').length === 2")
        .await;
    let (models, modes) = used(&page).await;
    assert_eq!((models.last(), modes.last()), (Some(&json!("own/second")), Some(&json!("ask"))));
    page.until(
        "its file",
        "return all('.entry.user')[1].querySelector('.chips')?.innerText.includes('file1.txt')",
    )
    .await;
    page.ends().await;
}

#[tokio::test]
async fn a_model_that_cannot_be_used_says_why_and_cannot_be_chosen() {
    let server = several(vec![Turn::Say("First answer.")]);
    let page = Page::signed_in(&server).await;
    let locked = "const own = document.querySelector('option[value=\"anthropic/locked\"]'); return own?.disabled && own.innerText.length > 'anthropic/locked ()'.length && own.innerText";
    let words = page.until("it is not to be had", locked).await;
    assert!(words.as_str().unwrap().contains("key") || words.as_str().unwrap().contains("KEY"), "{words}");
    let others = "return [...document.querySelectorAll('select[aria-label=Model] option:not(:disabled)')].map((one) => one.value)";
    page.shows(others, vec![], json!(["own/first", "own/second"])).await;
    page.ends().await;
}

/// Drops `count` files on an element by drag events. Returns whether the page prevented the browser's default action.
async fn drop_files(page: &Page, target: &str, count: usize) -> bool {
    let script = format!(
        "const data = new DataTransfer();
         for (let at = 1; at <= {count}; at += 1) data.items.add(new File([`file ${{at}}`], `file${{at}}.txt`, {{ type: 'text/plain' }}));
         const told = (name) => {{ const event = new DragEvent(name, {{ bubbles: true, cancelable: true, dataTransfer: data }}); {target}.dispatchEvent(event); return event.defaultPrevented; }};
         return told('dragover') && told('drop')"
    );
    page.run(&script, vec![]).await == true
}

#[tokio::test]
async fn files_are_dropped_anywhere_and_pasted_and_what_is_too_much_is_named() {
    let server = scripted(vec![Turn::Say("First answer."), Turn::Say("Second answer.")]);
    let page = Page::signed_in(&server).await;
    page.say("One.").await;
    page.sees("First answer.").await;
    assert!(
        drop_files(&page, "document.querySelector('.transcript')", 1).await,
        "the page is left for the file"
    );
    page.until("it is attached", "return all('.composer .chips li').length === 1").await;
    let paste = "const data = new DataTransfer(); data.items.add(new File(['x'], 'pasted.txt', { type: 'text/plain' }));\
        return !all('[data-key=composer]')[0].dispatchEvent(new ClipboardEvent('paste', { bubbles: true, cancelable: true, clipboardData: data }))";
    assert_eq!(page.run(paste, vec![]).await, true);
    page.until("so is it", "return all('.composer .chips li').length === 2 && text().includes('pasted.txt')")
        .await;
    // The browser handles a dropped text.
    let words = "const data = new DataTransfer(); data.setData('text/plain', 'words');\
        return document.body.dispatchEvent(new DragEvent('drop', { bubbles: true, cancelable: true, dataTransfer: data }))";
    assert_eq!(page.run(words, vec![]).await, true);
    drop_files(&page, "document.body", 20).await;
    page.sees("You can attach up to 20 files").await;
    page.sees("Not attached: file19.txt, file20.txt").await;
    page.until("as many as may", "return all('.composer .chips li').length === 20").await;
    page.say("Two.").await;
    page.sees("Second answer.").await;
    page.until(
        "all went with it",
        "return all('.entry.user')[1].querySelectorAll('.chips li').length === 20",
    )
    .await;
    page.ends().await;
}

#[tokio::test]
async fn a_message_that_may_have_arrived_is_carried_out_once_over_a_reload() {
    let server = scripted(vec![Turn::Say("First answer."), Turn::Say("Second answer.")]);
    let page = cut_off(&server).await;
    page.driver.refresh().await.unwrap();
    page.until("it is still there", "return all('[data-key=composer]')[0]?.value === 'Two.'").await;
    page.press("Send").await;
    let taken = "return all('[data-key=composer]')[0].value === '' && !Object.keys(sessionStorage).some((name) => name.startsWith('windlass.draft.'))";
    page.until("it is taken", taken).await;
    page.sees("Second answer.").await;
    assert_eq!(said(&page).await, 2);
    page.ends_but_for(&["Unreachable"]).await;
}

#[tokio::test]
async fn a_message_can_be_sent_when_it_is_known_what_the_last_one_chose() {
    let server = several(vec![Turn::Say("First answer."), Turn::Say("Second answer.")]);
    let page = Page::signed_in(&server).await;
    choose(&page, "select[aria-label=Model]", "own/second").await;
    page.say("One.").await;
    page.sees("First answer.").await;
    let thread = page.thread().await;
    page.until("it is over", "return all('.stop').length === 0").await;
    page.press("New conversation").await;
    page.sees("What would you like to do").await;
    // Simulates a run of many steps, whose message is not in the loaded part.
    let late = "if (url.includes('/messages?')) { const page = await (await real()).json(); for (const one of page.data) delete one.model; return Response.json(page); }
        if (url.includes('/runs?')) await new Promise((go) => (window.release = go)); return real()";
    otherwise(&page, late).await;
    page.element(&format!("a[href='/chat/{thread}']")).await.click().await.unwrap();
    let drawn = "return window.release && all('.chat .title').length === 1";
    page.until("the run is asked for, and what is known is drawn", drawn).await;
    assert_eq!(page.number_of("[data-key=composer]").await, 0);
    page.run("window.release()", vec![]).await;
    page.sees("First answer.").await;
    page.until_of("what is picked", PICKED, vec!["own/second".into(), "agent".into()]).await;
    otherwise(&page, "return real()").await;
    page.say("Two.").await;
    page.sees("Second answer.").await;
    let second = json!("own/second");
    assert_eq!(used(&page).await.0, vec![second.clone(), second]);
    page.ends().await;
}
