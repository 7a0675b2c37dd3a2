//! Lists and dialogs with more pages or with errors: all rows are displayed, and errors are visible in place.

use serde_json::json;

use super::page::Page;
use super::{otherwise, scripted};
use crate::cli::model::Turn;
use crate::http::Server;

/// Splits a list of the API into pages of one entry each, regardless of the requested size.
const IN_PARTS: &str = "if (!url.includes(window.list) || (options?.method ?? 'GET') !== 'GET') return real();
    const asked = new URL(url, location.href).searchParams;
    const at = Number(asked.get('cursor') ?? 0);
    return Response.json({ data: window.rows.slice(at, at + 1), next_cursor: at + 1 < window.rows.length ? String(at + 1) : null })";

#[tokio::test]
async fn a_list_is_read_to_its_end() {
    let server = Server::start(&[]);
    let page = Page::signed_in(&server).await;
    let tool = |name: &str| {
        json!({"name": name, "title": name, "description": "Does it.", "input_schema": {}, "annotations": {}, "trusted": true,
            "effect_class": "pure", "server": null, "toolset": null, "loadable": false, "modes": [], "tokens": 1, "tags": []})
    };
    let member = |id: &str| json!({"id": id, "name": id, "email": null, "role": "member", "active": true, "credit_usd": null});
    let grant = |tool: &str| json!({"id": tool, "tool": tool, "server": null, "arguments": [], "remaining": 1, "expires_at": null, "user": "local", "by": "local"});
    let share = |title: &str| json!({"thread": title, "title": title, "at": 1});
    let cases = [
        ("/tools?", "/library/tools", [tool("first_one"), tool("second_one"), tool("third_one")]),
        ("/tools?", "/library/toolsets", [tool("first_one"), tool("second_one"), tool("third_one")]),
        (
            "/team/members?",
            "/settings/team",
            [member("first_one"), member("second_one"), member("third_one")],
        ),
        ("/grants?", "/settings/grants", [grant("first_one"), grant("second_one"), grant("third_one")]),
        ("/shares?", "/settings/shared", [share("first_one"), share("second_one"), share("third_one")]),
    ];
    for (list, path, rows) in cases {
        page.go("/settings/look").await;
        page.sees("Density").await;
        page.run(
            "Object.assign(window, { list: arguments[0], rows: arguments[1] })",
            vec![list.into(), json!(rows)],
        )
        .await;
        otherwise(&page, IN_PARTS).await;
        let there = "return module('lib/route.js').then((route) => route.go(arguments[0]))";
        page.run(there, vec![path.into()]).await;
        for name in ["first_one", "second_one", "third_one"] {
            page.until_of(
                &format!("{name} in {path}"),
                "return document.querySelector('main').textContent.includes(arguments[0])",
                vec![name.into()],
            )
            .await;
        }
    }
    page.ends().await;
}

#[tokio::test]
async fn arguments_that_are_no_json_stay_to_be_mended() {
    let server = Server::start(&[]);
    let page = Page::signed_in(&server).await;
    page.go("/library/tools?tool=Write").await;
    page.press("Test call").await;
    page.write(".trial [name='v.file_path']", "a.md").await;
    page.write(".trial [name='v.content']", "x").await;
    page.press("Edit as JSON").await;
    let field = ".trial [aria-label='Arguments as JSON']";
    page.write(field, "{\"file_path\": \"b.md\", ").await;
    page.press("Run tool").await;
    page.sees("Invalid JSON").await;
    let typed = "return document.querySelector(arguments[0]).value";
    assert_eq!(page.run(typed, vec![field.into()]).await, "{\"file_path\": \"b.md\", ");
    page.ends().await;
}

/// Whether a notice is visible, announced and clickable: it is in the dialog, and nothing covers it.
const HEARD: &str = "const one = all('.notice').find((one) => one.innerText.includes(arguments[0])); if (!one) return false;
    const box = one.getBoundingClientRect(); const top = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);
    return one.contains(top) && one.closest('dialog[open]') !== null && one.closest('[role=status][aria-label]') !== null";

#[tokio::test]
async fn what_goes_wrong_in_a_dialog_is_said_in_it() {
    let server = scripted(vec![Turn::Say("It is said.")]);
    let page = Page::signed_in(&server).await;
    let refuse = "if (['PUT', 'POST'].includes(options?.method)) return Response.json({ status: 409, detail: 'not at this moment' }, { status: 409, headers: { 'content-type': 'application/problem+json' } }); return real()";
    page.go("/settings/team").await;
    page.press("Add a member with a password").await;
    page.write("dialog [name=email]", "ann@example.com").await;
    page.write("dialog [name=password]", "long enough for it").await;
    otherwise(&page, refuse).await;
    page.run("all('dialog form')[0].requestSubmit()", vec![]).await;
    page.until_of("the problem", HEARD, vec!["Not at this moment".into()]).await;
    page.press("Cancel").await;
    let beside = "return all('.notice').length === 1 && all('.notice')[0].closest('dialog') === null";
    page.until("it stays when the dialog goes", beside).await;
    otherwise(&page, "return real()").await;
    page.go("/").await;
    page.say("Speak.").await;
    page.sees("It is said.").await;
    page.press("Share").await;
    page.sees("Only you and the workspace's administrators").await;
    otherwise(&page, refuse).await;
    page.press("Create link").await;
    page.until_of("the problem", HEARD, vec!["Not at this moment".into()]).await;
    page.ends_but_for(&["Problem"]).await;
}

#[tokio::test]
async fn a_system_is_connected_and_json_that_is_none_is_named() {
    let server = Server::start(&[]);
    let page = Page::signed_in(&server).await;
    page.go("/library/integrations").await;
    page.press("Add integration").await;
    page.write("dialog [name=provider]", "jenkins").await;
    page.write("dialog [name=name]", "Ours").await;
    page.write("dialog [name=metadata]", "{\"api_url\": \"https://example.com\"}").await;
    page.write("dialog [name=credentials]", "{\"username\": ").await;
    page.run("all('dialog form')[0].requestSubmit()", vec![]).await;
    page.until(
        "it is named",
        "return all('dialog [role=alert]')[0]?.innerText.startsWith('“Credentials” is not valid JSON')",
    )
    .await;
    page.write("dialog [name=credentials]", "{\"username\": \"u\", \"api_token\": \"t\"}").await;
    page.run("all('dialog form')[0].requestSubmit()", vec![]).await;
    page.sees("credentials stored").await;
    page.ends().await;
}

/// Lets the first request of a page fail once.
const FAILS_ONCE: &str = "if (!url.includes(window.list) || window.failed) return real(); window.failed = true;
    return Response.json({ status: 500, detail: 'something broke' }, { status: 500, headers: { 'content-type': 'application/problem+json' } })";

#[tokio::test]
async fn a_page_whose_first_request_fails_says_so_and_tries_again() {
    let server = Server::start(&[]);
    let page = Page::signed_in(&server).await;
    for (list, path, words) in [
        ("/policy", "/library/policy", "Test a call against the policy"),
        ("/auto-run", "/settings/asking", "Allow list"),
    ] {
        page.go("/settings/look").await;
        page.sees("Density").await;
        page.run("window.list = arguments[0]", vec![list.into()]).await;
        otherwise(&page, FAILS_ONCE).await;
        let there = "return module('lib/route.js').then((route) => route.go(arguments[0]))";
        page.run(there, vec![path.into()]).await;
        page.sees("Failed to load").await;
        page.press("Try again").await;
        page.sees(words).await;
    }
    page.ends_but_for(&["Problem"]).await;
}

#[tokio::test]
async fn a_list_of_conversations_that_could_not_be_read_is_not_called_empty() {
    let server = Server::start(&[]);
    let page = Page::signed_in(&server).await;
    page.sees("Your conversations appear here").await;
    page.run("window.list = '/threads?'", vec![]).await;
    otherwise(&page, FAILS_ONCE).await;
    page.run("return module('state/threads.js').then((threads) => threads.load())", vec![]).await;
    page.sees("Cannot load conversations.").await;
    page.misses("Your conversations appear here").await;
    page.press("Try again").await;
    page.sees("Your conversations appear here").await;
    page.ends_but_for(&["Problem"]).await;
}

#[tokio::test]
async fn a_share_that_cannot_be_read_says_so_and_tries_again() {
    let server = scripted(vec![Turn::Say("Hello.")]);
    let page = Page::signed_in(&server).await;
    page.say("Go.").await;
    page.sees("Hello.").await;
    page.run("window.list = '/share'", vec![]).await;
    otherwise(&page, FAILS_ONCE).await;
    page.press("Share").await;
    page.sees("Cannot load the sharing status").await;
    page.press("Try again").await;
    page.sees("Only you and the workspace's administrators can read this conversation.").await;
    page.ends_but_for(&["Problem"]).await;
}

/// A list of 60 conversations, of which the newest moves.
const LONG: &str = "if (!url.includes('/threads?')) return real();
    const asked = new URL(url, location.href).searchParams;
    const at = Number(asked.get('cursor') ?? 0);
    const row = (_, number) => ({ id: `thr_${number}`, title: `Number ${number}.`, status: 'idle', interrupts: 0, head: 1, owner: 'local', created_at: 1, updated_at: 1000 - number });
    const rows = Array.from({ length: 60 }, row);
    if (window.sent) rows.unshift({ ...rows.pop(), title: 'Sent to just now.', updated_at: 2000 });
    return Response.json({ data: rows.slice(at, at + 25), next_cursor: at + 25 < rows.length ? String(at + 25) : null })";

// rows: SK-U11
#[tokio::test]
async fn a_list_that_was_loaded_further_stays_so_when_something_is_sent() {
    let server = Server::start(&[]);
    let page = Page::signed_in(&server).await;
    otherwise(&page, LONG).await;
    let loaded = "return module('state/threads.js').then(async (threads) => {
        await threads.load(); await threads.load(true); await threads.load(true);
        const before = threads.threads.value.length;
        window.sent = true;
        await threads.refresh();
        return [before, threads.threads.value.length, threads.threads.value[0].title];
    })";
    assert_eq!(page.run(loaded, vec![]).await, json!([60, 60, "Sent to just now."]));
    page.ends().await;
}
