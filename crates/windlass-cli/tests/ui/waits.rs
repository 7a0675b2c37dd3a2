//! Queued messages whose preceding run is cancelled or takes them.

use super::page::Page;
use super::{asked, scripted, write};
use crate::cli::model::Turn;

fn turns() -> Vec<Turn> {
    vec![Turn::Call(vec![write("a.md")]), Turn::Say("The first is done."), Turn::Say("The second is done.")]
}

/// Presses a button of the first queued message.
async fn of_first(page: &Page, name: &str) {
    let press = "const found = all('.queue li:first-child button').find((one) => named(one) === arguments[0]); found?.click(); return found";
    page.until_of(
        "it can be pressed",
        &format!("return Boolean((() => {{ {press} }})())"),
        vec![name.into()],
    )
    .await;
}

// rows: SK-U6, ZE-P7
#[tokio::test]
async fn after_a_stop_the_queue_says_that_it_stays_and_is_sent_by_hand() {
    let server = scripted(turns());
    let page = asked(&server).await;
    page.say("one of two").await;
    page.sees("1 queued message.").await;
    page.sees("Answer the open request first").await;
    page.press("Stop").await;
    page.sees("Stopped.").await;
    page.sees("Nothing is running. Queued messages wait").await;
    assert!(!page.words().await.contains("when the run is done"));
    page.driver.refresh().await.unwrap();
    page.sees("Nothing is running. Queued messages wait").await;
    of_first(&page, "Send now").await;
    page.until("it is sent", "return all('.queue').length === 0 && all('.entry.user').length === 2").await;
    page.until(
        "it is answered",
        "return all('.stop').length === 0 && all('.entry.assistant .markdown').length > 0",
    )
    .await;
    page.ends().await;
}

// rows: SK-U6, ZE-P7
#[tokio::test]
async fn a_message_is_sent_now_in_place_of_the_run() {
    let server = scripted(turns());
    let page = asked(&server).await;
    page.say("one of two").await;
    page.say("two of two").await;
    page.sees("2 queued messages.").await;
    let last = "const own = all('.queue li:last-child button').find((one) => named(one) === 'Stop and send'); own.click()";
    page.run(last, vec![]).await;
    page.until(
        "it goes before the other",
        "return all('.entry.user .said').map((one) => one.innerText.trim())[1] === 'two of two'",
    )
    .await;
    page.ends().await;
}

#[tokio::test]
async fn what_a_message_was_being_changed_into_is_kept_when_the_run_takes_it() {
    let server = scripted(turns());
    let page = asked(&server).await;
    page.write("[data-key=composer]", "meanwhile").await;
    let send = "const own = all('[data-key=composer]')[0]; own.form.requestSubmit()";
    page.run(send, vec![]).await;
    page.sees("1 queued message.").await;
    of_first(&page, "Edit").await;
    page.write(".queue textarea", "meanwhile, and much more").await;
    page.press("Approve").await;
    page.sees("The second is done.").await;
    page.until(
        "it stands in the field",
        "return all('[data-key=composer]')[0].value === 'meanwhile, and much more'",
    )
    .await;
    page.sees("Your edit was moved to the message field below").await;
    page.ends().await;
}
