//! The header of a conversation: the origin of a fork, and background commands.

use serde_json::json;

use super::page::Page;
use super::{scripted, scripted_for};
use crate::cli::User;
use crate::cli::model::Turn;

#[tokio::test]
async fn a_fork_says_what_it_is_a_fork_of() {
    let server = scripted(vec![Turn::Say("First answer."), Turn::Say("Second answer.")]);
    let page = Page::signed_in(&server).await;
    page.say("One.").await;
    page.sees("First answer.").await;
    page.until("it is over", "return all('.stop').length === 0").await;
    let parent = page.thread().await;
    assert_eq!(page.number_of(".fork-of").await, 0);
    page.run("all('.entry.assistant button').find((one) => named(one).startsWith('Fork')).click()", vec![])
        .await;
    page.until_of(
        "the fork",
        "return location.pathname.startsWith('/chat/') && location.pathname !== `/chat/${arguments[0]}`",
        vec![parent.clone().into()],
    )
    .await;
    page.sees("Fork of One.").await;
    // Both have the same title, and the fork has a mark.
    let rows = "return all('.history .thread').map((one) => [one.querySelector('.title').innerText, one.querySelector('[role=img]')?.ariaLabel ?? ''])";
    page.until_of(
        "the rows",
        &format!("return JSON.stringify((() => {{ {rows} }})()) === JSON.stringify(arguments[0])"),
        vec![json!([["One.", "Fork"], ["One.", ""]])],
    )
    .await;
    page.run("all('.fork-of a')[0].click()", vec![]).await;
    page.until_of("the parent", "return location.pathname === `/chat/${arguments[0]}`", vec![parent.into()])
        .await;
    page.until("no fork", "return all('.entry').length > 0 && all('.fork-of').length === 0").await;
    page.ends().await;
}

#[tokio::test]
async fn commands_in_the_background_are_listed_and_ended() {
    let user = User::new();
    user.configure("[tools.bash]\nenabled = true\n");
    let policy = "[[rule]]\nname = 'commands'\ntools = ['Bash']\nverdict = 'allow'\n";
    std::fs::write(user.home().join("config/windlass/policy.toml"), policy).unwrap();
    let begin = |command: &str| ("Bash", json!({"command": command, "run_in_background": true}));
    let turns = vec![
        Turn::Say("Nothing runs."),
        Turn::Call(vec![begin("sleep 7001"), begin("sleep 7002")]),
        Turn::Say("They run."),
    ];
    let server = scripted_for(user, turns);
    let page = Page::signed_in(&server).await;
    page.say("Speak.").await;
    page.sees("Nothing runs.").await;
    assert_eq!(page.number_of("[aria-label^=Commands]").await, 0);
    page.say("Begin.").await;
    page.sees("They run.").await;
    page.press("Commands, 2 running").await;
    page.until("both", "return JSON.stringify(all('.commands pre').map((one) => one.innerText)) === '[\"sleep 7001\",\"sleep 7002\"]'").await;
    page.sees("running since").await;
    page.run("all('.commands button')[0].click()", vec![]).await;
    page.until(
        "one is left",
        "return JSON.stringify(all('.commands pre').map((one) => one.innerText)) === '[\"sleep 7002\"]'",
    )
    .await;
    page.run("all('.commands button')[0].click()", vec![]).await;
    page.sees("No commands are running.").await;
    let thread = page.thread().await;
    assert_eq!(page.asks(&format!("/threads/{thread}/commands")).await["data"], json!([]));
    page.press("Close").await;
    page.until(
        "no button",
        "return all('[aria-label^=Commands]').length === 0 && document.activeElement !== document.body",
    )
    .await;
    page.ends().await;
}
