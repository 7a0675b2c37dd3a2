//! Use by keyboard alone, from the sign-in to a reply and back. Keys go to the focused element, nothing is clicked, and
//! only keys move the focus.

use serde_json::{Value, json};
use thirtyfour::Key;

use super::page::Page;
use super::{scripted, write};
use crate::cli::model::Turn;
use crate::http::auth::{PASSWORD, administrator, member};

/// Presses the tab key until the element with this name has the focus.
async fn tab_to(page: &Page, name: &str) {
    let look = "const one = document.activeElement; return one === document.body ? '' : one.dataset.key || one.name || named(one)";
    let mut passed = Vec::new();
    for _ in 0..100 {
        let focus = page.run(look, vec![]).await;
        if focus == name {
            return;
        }
        passed.push(focus);
        page.types(Key::Tab + "").await;
    }
    panic!("no way to `{name}` by the tab key: {passed:?}");
}

/// Presses Enter on an element; its focus must be visible.
async fn enter_on(page: &Page, name: &str) {
    tab_to(page, name).await;
    let seen = "const style = getComputedStyle(document.activeElement); return style.outlineStyle !== 'none' || style.boxShadow !== 'none'";
    assert_eq!(page.run(seen, vec![]).await, true, "no focus can be seen on `{name}`");
    page.types(Key::Enter + "").await;
}

#[tokio::test]
async fn a_user_signs_in_writes_and_approves_by_keyboard_alone() {
    let server = scripted(vec![Turn::Call(vec![write("a.md")]), Turn::Say("All is settled.")]);
    member(&mut administrator(&server).await, &server, "ann@example.com", "member").await;
    let page = Page::open(&server).await;
    page.go("/").await;
    page.sees("Sign in to Windlass").await;
    tab_to(&page, "email").await;
    page.types("ann@example.com").await;
    tab_to(&page, "password").await;
    page.types(PASSWORD).await;
    enter_on(&page, "Sign in").await;
    page.sees("What would you like to do").await;

    tab_to(&page, "composer").await;
    page.types("Write it.").await;
    page.types(Key::Enter + "").await;
    page.sees("Allow Write to ").await;
    enter_on(&page, "approve").await;
    page.sees("All is settled.").await;

    enter_on(&page, "Settings").await;
    page.sees("Sign out of this browser").await;
    enter_on(&page, "Keyboard shortcuts").await;
    page.sees("Show keyboard shortcuts").await;
    // The dialog traps the focus: elements below it cannot be reached.
    let mut inside = Vec::new();
    for _ in 0..4 {
        page.types(Key::Tab + "").await;
        let within = "const one = document.activeElement; return one === document.body || one.closest('dialog') !== null";
        inside.push(page.run(within, vec![]).await);
    }
    assert_eq!(inside, vec![Value::Bool(true); 4]);
    page.types(Key::Escape + "").await;
    page.misses("Show keyboard shortcuts").await;
    let back = "return named(document.activeElement)";
    page.shows(back, vec![], json!("Keyboard shortcuts")).await;

    let title = page.until("its title", "return named(all('.history .thread a')[0])").await;
    enter_on(&page, title.as_str().unwrap()).await;
    page.sees("All is settled.").await;
    tab_to(&page, "composer").await;
    page.ends_but_for(&["401"]).await;
}
