//! Messages in an edit form: the field has the focus, and its text is kept.

use std::time::Duration;

use super::page::Page;
use super::{asked, scripted, write};
use crate::cli::model::Turn;

/// Presses a button inside of an element, even if the button is only visible on hover.
async fn of(page: &Page, css: &str, name: &str) {
    let press = "const found = [...all(arguments[0])[0].querySelectorAll('button')].find((one) => named(one) === arguments[1]); found?.focus(); found?.click(); return Boolean(found)";
    page.until_of("it can be pressed", press, vec![css.into(), name.into()]).await;
}

#[tokio::test]
async fn a_message_that_is_edited_has_the_focus_and_gives_it_back() {
    let server = scripted(vec![Turn::Call(vec![write("a.md")]), Turn::Say("It is written.")]);
    let page = asked(&server).await;
    page.say("And then?").await;
    page.sees("1 queued message.").await;
    for place in [".entry.user", ".queue li"] {
        of(&page, place, "Edit").await;
        let field = "return document.activeElement === document.querySelector(`${arguments[0]} textarea`)";
        page.until_of("the field has it", field, vec![place.into()]).await;
        of(&page, place, "Cancel").await;
        let button =
            "return document.activeElement.closest(arguments[0]) && named(document.activeElement) === 'Edit'";
        page.until_of("the button has it again", button, vec![place.into()]).await;
    }
    page.ends().await;
}

#[tokio::test]
async fn what_a_message_is_changed_into_outlives_a_look_far_away() {
    let long = "Some words.\n\n".repeat(40);
    let number = 14;
    let server = scripted((0..number).map(|_| Turn::spoken(Duration::ZERO, &long, 1_000)).collect());
    let page = Page::signed_in(&server).await;
    let over = "const [said, answered] = ['.entry.user', '.entry'].map((css) => [...document.querySelectorAll(css)].at(-1));\
        return said.innerText.startsWith(arguments[0]) && answered.matches('.assistant[data-status=complete]') && all('.stop').length === 0";
    for at in 1..=number {
        let message = format!("Message {at}.");
        page.say(&message).await;
        page.until_of("it is answered", over, vec![message.into()]).await;
    }
    let top = "document.querySelector('.transcript').scrollTop = 0; return all('.entry.user')[0]?.innerText.startsWith('Message 1.')";
    page.until("the first message", top).await;
    of(&page, ".entry.user", "Edit").await;
    page.write(".entry.user textarea", "Changed.").await;
    // Blocks far from the viewport are removed, except a block with an open form.
    let far = "const own = document.querySelector('.transcript'); own.scrollTop = own.scrollHeight;\
        return [...document.querySelectorAll('.block')].some((one) => one.childElementCount === 0)";
    page.until("something is put away", far).await;
    let kept = "document.querySelector('.transcript').scrollTop = 0; return all('.entry.user textarea')[0]?.value === 'Changed.'";
    page.until("what was typed", kept).await;
    page.ends().await;
}
