//! The page's behavior during external errors: an expired session, a rejection, a lost connection.

use serde_json::json;

use super::access::{sign_in, signed_in_as};
use super::page::Page;
use super::{asked, otherwise, scripted, scripted_for, write};
use crate::cli::model::{Model, Turn};
use crate::http::Server;
use crate::http::auth::{PASSWORD, administrator, member};

#[tokio::test]
async fn a_conversation_continues_after_the_session_expired() {
    let said = || vec![Turn::Say("First answer."), Turn::Say("Second answer.")];
    let server = scripted(said());
    let place = server.address.trim_start_matches("http://").to_owned();
    let mut admin = administrator(&server).await;
    member(&mut admin, &server, "ann@example.com", "member").await;
    let page = signed_in_as(&server, "ann@example.com").await;
    page.say("One.").await;
    page.sees("First answer.").await;
    // The stream breaks, and reconnects after the session has expired.
    let user = server.kill();
    page.driver.delete_all_cookies().await.unwrap();
    let command = Model::start(said()).command(&user, &["serve", "--listen", &place]);
    let _server = Server::spawn(user, command);
    page.sees("Your session has ended").await;
    let held = "return document.querySelector('dialog.veil:modal') && document.querySelector('.shell').contains(document.elementFromPoint(5, 5)) === false";
    page.until("nothing behind it can be reached", held).await;
    page.write(".veil [name=password]", "not the word").await;
    page.press("Sign in").await;
    page.until("it is refused", "return all('.veil [role=alert]').length === 1").await;
    page.until("the address stays", "return all('.veil [name=email]')[0].value === 'ann@example.com'").await;
    page.write(".veil [name=password]", PASSWORD).await;
    page.press("Sign in").await;
    page.misses("Your session has ended").await;
    page.sees("First answer.").await;
    page.say("Two.").await;
    page.sees("Second answer.").await;
    page.ends_but_for(&["401", "net::ERR_", "no credential"]).await;
}

#[tokio::test]
async fn another_person_finds_nothing_of_the_one_before() {
    let server = scripted(vec![Turn::Say("A secret.")]);
    let mut admin = administrator(&server).await;
    for email in ["ann@example.com", "bob@example.com"] {
        member(&mut admin, &server, email, "member").await;
    }
    let page = signed_in_as(&server, "ann@example.com").await;
    page.say("Tell.").await;
    page.sees("A secret.").await;
    let empty = "return all('[data-key=composer]')[0].value === '' && all('.history .thread').length === 0";
    // With a page of the previous user.
    page.press("New conversation").await;
    page.write("[data-key=composer]", "half a secret").await;
    page.driver.delete_all_cookies().await.unwrap();
    page.press("Runs").await;
    page.sees("Your session has ended").await;
    page.write(".veil [name=email]", "bob@example.com").await;
    page.write(".veil [name=password]", PASSWORD).await;
    page.press("Sign in").await;
    page.misses("Your session has ended").await;
    page.go("/").await;
    page.until("nothing is left", empty).await;
    // After a sign-out.
    page.write("[data-key=composer]", "half a thought").await;
    page.go("/settings").await;
    page.press("Sign out of this browser").await;
    page.sees("Sign in to Windlass").await;
    page.shows("return sessionStorage.length", vec![], 0).await;
    sign_in(&page, "ann@example.com", PASSWORD).await;
    page.until("the own conversations", "return all('.history .thread').length === 1").await;
    page.ends_but_for(&["401", "no credential"]).await;
}

/// A problem response, generated in the page.
fn problem(status: u16, detail: &str) -> String {
    let headers = "{ 'content-type': 'application/problem+json' }";
    format!(
        "Response.json({{ status: {status}, detail: '{detail}' }}, {{ status: {status}, headers: {headers} }})"
    )
}

#[tokio::test]
async fn a_failed_sign_out_keeps_the_user_signed_in() {
    let server = Server::start(&[]);
    let page = Page::signed_in(&server).await;
    page.press("Settings").await;
    page.sees("Sign out of this browser").await;
    otherwise(
        &page,
        &format!("return url.endsWith('/auth/logout') ? {} : real()", problem(500, "it is broken")),
    )
    .await;
    page.press("Sign out of this browser").await;
    page.sees("It is broken").await;
    page.sees("Sign out of this browser").await;
    otherwise(&page, "return real()").await;
    page.press("Sign out of this browser").await;
    page.sees("Sign in to Windlass").await;
    page.ends_but_for(&["401", "Problem"]).await;
}

#[tokio::test]
async fn what_could_not_be_loaded_says_so_and_is_loaded_again() {
    let server = scripted(vec![Turn::Say("It is said.")]);
    let page = Page::signed_in(&server).await;
    page.say("Speak.").await;
    page.sees("It is said.").await;
    // A server that is shutting down cannot check sessions.
    let stops = format!(
        "if (url.endsWith('/auth/refresh')) return {}; return url.includes('/runs?') ? {} : real()",
        problem(503, "the store is away"),
        problem(401, "no token")
    );
    otherwise(&page, &stops).await;
    page.press("Runs").await;
    page.sees("Failed to load").await;
    page.sees("the store is away").await;
    assert_eq!(page.number_of("dialog").await, 0);
    otherwise(&page, "return real()").await;
    page.press("Try again").await;
    page.sees("Status").await;
    page.press("Usage").await;
    page.press("custom").await;
    page.sees("Choose a start and a later end").await;
    page.ends_but_for(&["401", "503", "Problem"]).await;
}

#[tokio::test]
async fn a_rejected_batch_is_reported_and_stays_open() {
    let server = scripted(vec![Turn::Call(vec![write("a.md"), write("b.md")]), Turn::Say("All is settled.")]);
    let page = asked(&server).await;
    page.sees("2 calls need approval: Write").await;
    let refused = "if (!url.endsWith('/interrupts/answers')) return real();
        const problem = { status: 409, title: 'Conflict', detail: 'another answer was faster' };
        return Response.json({ results: [{ thread: null, interrupts: [], answered: [], problem }] })";
    otherwise(&page, refused).await;
    page.press("Approve all").await;
    page.sees("Another answer was faster").await;
    page.sees("2 calls need approval: Write").await;
    otherwise(&page, "return real()").await;
    page.press("Approve all").await;
    page.sees("All is settled.").await;
    page.ends_but_for(&["Problem"]).await;
}

#[tokio::test]
async fn a_choice_that_is_refused_is_not_shown_as_made() {
    let server = scripted(vec![Turn::Say("It is said.")]);
    let page = Page::signed_in(&server).await;
    page.say("Speak.").await;
    page.sees("It is said.").await;
    let refused = format!("return options?.method === 'PUT' ? {} : real()", problem(403, "you may not"));
    otherwise(&page, &refused).await;
    let choose = "const field = all('[aria-label=\"Approvals\"]')[0]; field.value = 'everything'; field.dispatchEvent(new Event('change', { bubbles: true }))";
    page.until("the choice", "return all('[aria-label=\"Approvals\"]')[0]").await;
    page.run(choose, vec![]).await;
    page.sees("You may not").await;
    page.until("what counts", "return all('[aria-label=\"Approvals\"]')[0].value === ''").await;
    page.press("Settings").await;
    page.press("Approvals").await;
    page.press("everything Ask only for destructive calls and where a policy rule requires it").await;
    page.until("what counts", "return all('[type=radio]').length === 3 && !all('[type=radio]')[2].checked")
        .await;
    page.ends_but_for(&["Problem"]).await;
}

#[tokio::test]
async fn keys_act_once_on_the_page_and_for_who_wants_them() {
    let server = scripted(vec![Turn::Call(vec![write("a.md")]), Turn::Say("All is settled.")]);
    let page = asked(&server).await;
    let key = "const ask = document.querySelector('.ask'); ask?.focus(); (ask ?? document.body).dispatchEvent(new KeyboardEvent('keydown', { bubbles: true, cancelable: true, key: arguments[0], repeat: arguments[1] }))";
    page.run(key, vec!["a".into(), true.into()]).await;
    // Deleting asks for confirmation, with a menu and then a dialog above the page.
    page.run("document.querySelector('.history .menu [popover]').showPopover()", vec![]).await;
    page.run(key, vec!["Escape".into(), false.into()]).await;
    page.until("the menu is closed", "return !document.querySelector(':popover-open')").await;
    page.run("document.querySelector('.history .menu [popover]').showPopover()", vec![]).await;
    page.press("Delete").await;
    page.sees("You cannot undo this").await;
    page.run(key, vec!["a".into(), false.into()]).await;
    // A text selection starts inside of the dialog and ends outside.
    let words = page.element("dialog p").await;
    let held = page.driver.action_chain().move_to_element_center(&words).click_and_hold();
    held.move_by_offset(-500, 0).release().perform().await.unwrap();
    assert_eq!(page.number_of("dialog").await, 1);
    page.press("Cancel").await;
    page.misses("You cannot undo this").await;
    page.run("localStorage.setItem('windlass.letters', 'off')", vec![]).await;
    page.driver.refresh().await.unwrap();
    page.sees("Allow Write to ").await;
    page.run(key, vec!["a".into(), false.into()]).await;
    page.run(key, vec!["?".into(), false.into()]).await;
    assert_eq!(page.number_of("dialog").await, 0);
    page.sees("Allow Write to ").await;
    page.press("Settings").await;
    page.press("Appearance").await;
    page.press("On (press ? for the list)").await;
    page.run(key, vec!["?".into(), false.into()]).await;
    page.sees("Approve or deny the focused call").await;
    page.ends().await;
}

#[tokio::test]
async fn a_message_that_is_taken_while_a_conversation_is_read_is_shown() {
    let user = crate::cli::User::new();
    let server = scripted_for(
        user,
        vec![
            Turn::Call(vec![write("a.md")]),
            Turn::Say("The first is done."),
            Turn::Say("The second is done."),
        ],
    );
    let page = asked(&server).await;
    page.say("the second").await;
    page.sees("1 queued message.").await;
    let thread = page.thread().await;
    page.press("New conversation").await;
    page.sees("What would you like to do").await;
    // The interrupt is answered between the two reads, and the run continues to its end.
    let slow = format!(
        "const answer = await real();
         if (!url.endsWith('/threads/{thread}') || window.waited) return answer;
         window.waited = true;
         const open = await (await fetch('/api/v1/interrupts?thread={thread}')).json();
         for (const one of open.data) await fetch(`/api/v1/interrupts/${{one.id}}/answer`, {{ method: 'POST', headers: {{ 'content-type': 'application/json' }}, body: JSON.stringify({{ answer: {{ kind: 'approve' }} }}) }});
         for (;;) {{
           const said = await (await fetch('/api/v1/threads/{thread}/messages?limit=50')).json();
           if (JSON.stringify(said).includes('The second is done.')) return answer;
           await new Promise((go) => setTimeout(go, 50));
         }}"
    );
    otherwise(&page, &slow).await;
    page.element(".history .thread a").await.click().await.unwrap();
    page.sees("The second is done.").await;
    let said =
        "return [...document.querySelectorAll('.entry.user .said')].map((one) => one.innerText.trim())";
    page.shows(said, vec![], json!(["Write it.", "the second"])).await;
    page.ends().await;
}
