//! The way from the first start's link or an invitation to the first reply.

use std::io::{BufRead, BufReader};
use std::process::Child;

use reqwest::StatusCode;
use serde_json::json;

use super::page::Page;
use super::talk::ended;
use super::{otherwise, scripted};
use crate::cli::User;
use crate::cli::model::Turn;
use crate::http::auth::{PASSWORD, administrator};

/// A newly started server and its output.
struct Started {
    said: Vec<String>,
    process: Child,
    _user: User,
}

impl Started {
    fn first() -> Self {
        let user = User::new();
        let mut process = user.start(&["serve", "--listen", "127.0.0.1:0"]);
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let said = lines.by_ref().take(3).map(Result::unwrap).collect();
        // A reader must consume the remaining output.
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        Self { said, process, _user: user }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[tokio::test]
async fn from_the_link_that_the_first_start_prints_to_the_first_answer() {
    let started = Started::first();
    let address = started.said[0].rsplit_once(' ').unwrap().1;
    let link = crate::http::auth::first_link(&started.said[2]);
    let link = link.as_str();
    assert!(link.starts_with(&format!("{address}/auth/link?token=")), "{:?}", started.said);
    let page = Page::open_at(address).await;
    page.driver.goto(link).await.unwrap();
    page.sees("Sign in to Windlass").await;
    page.press("Sign in").await;
    page.sees("What would you like to do").await;
    page.say("hello").await;
    let said = ended(&page).await;
    assert!(said.len() > 20, "{said}");
    page.ends().await;
}

#[tokio::test]
async fn an_invited_person_registers_and_talks() {
    let server = scripted(vec![Turn::Say("It is said.")]);
    let invite = json!({"role": "member", "email": "ann@example.com"});
    let mut admin = administrator(&server).await;
    let invite = admin.post("/api/v1/team/invites", invite).await.is(StatusCode::CREATED).body;
    let link = invite["url"].as_str().unwrap();
    let page = Page::open(&server).await;
    page.driver.goto(link).await.unwrap();
    page.sees("Create a Windlass account").await;
    let email = "return document.querySelector('[name=email]').value";
    page.shows(email, vec![], json!("ann@example.com")).await;
    page.write("[name=name]", "Ann Example").await;
    page.write("[name=password]", PASSWORD).await;
    page.press("Create account").await;
    page.sees("What would you like to do, Ann?").await;
    page.say("Speak.").await;
    page.sees("It is said.").await;
    let me = page.asks("/auth/me").await;
    assert_eq!((&me["email"], &me["role"]), (&json!("ann@example.com"), &json!("member")));
    // The link can be used only once.
    page.driver.goto(link).await.unwrap();
    page.sees("ask the sender of the link for a new one").await;
    page.ends_but_for(&["410"]).await;
}

#[tokio::test]
async fn a_conversation_that_begins_while_the_list_is_read_is_in_it() {
    let server = scripted(vec![Turn::Say("It is said.")]);
    let page = Page::signed_in(&server).await;
    page.sees("Your conversations appear here").await;
    // The delayed response is outdated, and a hidden page does not poll.
    let late = "if (!url.includes('/threads?') || window.release) return real();
        const before = await real();
        await new Promise((go) => (window.release = go));
        return before";
    otherwise(&page, late).await;
    let read = "Object.defineProperty(document, 'hidden', { configurable: true, get: () => true });
        module('state/threads.js').then((threads) => threads.load())";
    page.run(read, vec![]).await;
    page.until("it is on its way", "return Boolean(window.release)").await;
    page.say("Speak.").await;
    page.sees("It is said.").await;
    assert_eq!(page.number_of(".history .thread").await, 0);
    page.run("window.release()", vec![]).await;
    page.until("it is in the list", "return all('.history .thread').length === 1").await;
    page.ends().await;
}

#[tokio::test]
async fn how_far_files_are_is_heard_from_where_nothing_stood_before() {
    let server = scripted(vec![Turn::Say("First answer."), Turn::Say("Second answer.")]);
    let page = Page::signed_in(&server).await;
    let hold = "if (options?.method === 'PUT' && url.includes('/files/')) await new Promise((go) => (window.release = go)); return real()";
    otherwise(&page, hold).await;
    for (region, message, answer) in
        [(".begin > [role=status]", "One.", "First answer."), ("[data-key=told]", "Two.", "Second answer.")]
    {
        let stood = "window.region = all(arguments[0])[0]; return window.region?.innerText === ''";
        page.until_of("a region without words", stood, vec![region.into()]).await;
        page.attach("figures.csv", "a,b\n1,2\n").await;
        page.until("it is attached", "return all('.composer .chips li').length === 1").await;
        page.say(message).await;
        let told = "return window.region.isConnected && window.region.innerText.trim() === 'Uploading…'";
        page.until("how far it is", told).await;
        page.run("window.release()", vec![]).await;
        page.sees(answer).await;
        page.until("it is over", "return all('.stop').length === 0").await;
    }
    page.ends().await;
}
