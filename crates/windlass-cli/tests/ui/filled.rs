//! Pages with content: open forms, queued messages, lists with rows, compared runs, and the sign-in. Each passes the
//! accessibility check and fits on a phone.

use serde_json::json;

use super::looks::Looks;
use super::page::Page;
use super::{asked, otherwise, scripted_for, write};
use crate::cli::User;
use crate::cli::model::Turn;
use crate::http::Server;

/// All other kinds of interrupts, derived from a real one.
const EVERYTHING: &str = "if (!url.includes('/interrupts?')) return real();
    const page = await (await real()).json();
    const [one] = page.data;
    const schema = { type: 'object', required: ['order'], properties: { order: { type: 'string', description: 'As on the invoice.' }, kind: { enum: ['a', 'b'] }, sure: { type: 'boolean' }, rows: { type: 'array', items: { enum: ['x', 'y'] } } } };
    const all = [
        { kind: 'question', question: { checkpoint: 'before-sending', summary: 'Which order?', schema, options: ['this one', 'none'], free_input: true } },
        { kind: 'sign_in', server: 'tracker', url: 'https://example.com/' + 'a'.repeat(120) },
        { kind: 'in_doubt', reason: 'the process that ran it is gone', effect: 'run_' + '0'.repeat(90), begun_at: one.since - 5000 },
        { kind: 'limit', limit: { limit: 'local/run/run_1/usd', figure: 2500000, used: 2600000 } },
        { kind: 'hook', reason: 'Somebody has to look at it.' },
        { kind: 'handoff', runner: 'the runner' },
    ];
    page.data = all.map((more, at) => ({ ...one, id: one.id + at, preview: null, ...more }));
    return Response.json(page)";

/// A conversation with an open request for approval and a queued message, and a row in each list.
async fn busy() -> (Server, Page) {
    let user = User::new();
    user.run(&["grants", "add", "Edit"]).exits(0);
    let server = scripted_for(user, vec![Turn::Call(vec![write("a.md")]), Turn::Say("All is settled.")]);
    let page = asked(&server).await;
    page.say("And then sum it up.").await;
    page.sees("And then sum it up.").await;
    let thread = page.thread().await;
    let make = "const ask = (method, path, body) => fetch('/api/v1' + path, { method, headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) });\
        return Promise.all([ask('PUT', `/threads/${arguments[0]}/share`), ask('POST', '/keys', { name: 'nightly' }),\
        ask('POST', '/integrations', { provider: 'jenkins', name: 'Ours', metadata: { api_url: 'https://example.com' }, credentials: { username: 'u', api_token: 't' } }),\
        ask('POST', '/team/invites', { role: 'member' })]).then((answers) => answers.map((answer) => answer.ok))";
    assert_eq!(page.run(make, vec![thread.into()]).await, json!([true, true, true, true]));
    (server, page)
}

/// Visits each page in turn.
async fn each(page: &Page, thread: &str, run: &str, look: impl AsyncFn(&str)) {
    page.go(&format!("/chat/{thread}")).await;
    page.sees("Allow Write to ").await;
    page.sees("And then sum it up.").await;
    look("a queue").await;
    for (opens, words) in
        [("Edit…", "Save and review"), ("Deny…", "Deny"), ("Always allow…", "any arguments")]
    {
        page.press(opens).await;
        page.sees(words).await;
        look(opens).await;
        page.press("Back").await;
    }
    page.press("Files").await;
    page.sees("No files yet").await;
    look("files").await;
    let [run, compared] = [format!("/runs/{run}"), format!("/compare?a={run}&b={run}")];
    for (path, words) in [
        ("/inbox", "Allow Write to "),
        ("/settings/grants", "Revoke"),
        ("/settings/shared", "Copy link"),
        ("/settings/keys", "nightly"),
        ("/settings/team", "Anyone with the link"),
        ("/library/integrations", "credentials stored"),
        (&*run, "Step 1"),
        (&*compared, "Different rows are highlighted."),
    ] {
        page.go(path).await;
        page.sees(words).await;
        if path == "/inbox" {
            otherwise(page, EVERYTHING).await;
            page.run("return module('state/inbox.js').then((inbox) => inbox.load())", vec![]).await;
            page.sees("Effect ID").await;
        }
        // A run's id differs each time.
        look(if path.starts_with("/runs/") { "a run" } else { path.split('?').next().unwrap_or(path) }).await;
    }
    page.run("return module('lib/api.js').then((api) => { api.expired.value += 1 })", vec![]).await;
    page.sees("Your session has ended").await;
    look("signing in again").await;
}

async fn names(page: &Page) -> (String, String) {
    let run = page.asks("/runs").await["data"][0]["id"].as_str().unwrap().to_owned();
    (page.thread().await, run)
}

#[tokio::test]
async fn nothing_that_opens_or_fills_a_page_keeps_anybody_out_or_is_wider_than_a_phone() {
    let looks = Looks::named("filled");
    let (server, page) = busy().await;
    let (thread, run) = names(&page).await;
    each(&page, &thread, &run, async |what: &str| looks.judge(&page, what).await).await;
    let visitor = Page::open(&server).await;
    visitor.go("/login").await;
    visitor.sees("Sign in to Windlass").await;
    looks.judge(&visitor, "login").await;
    looks.end();
    visitor.ends_but_for(&["401"]).await;
    page.ends_but_for(&["404"]).await;
}

#[tokio::test]
async fn reduced_motion_disables_animations() {
    let deltas = vec![json!({"content": "It begins."}), json!({"content": " It ends."})];
    let server = scripted_for(User::new(), vec![Turn::Slowly(std::time::Duration::from_secs(60), deltas)]);
    let page = Page::signed_in(&server).await;
    page.say("Begin.").await;
    page.sees("It begins.").await;
    let moving = "return document.getAnimations().filter((one) => one.playState === 'running').length";
    page.until("something moves", moving).await;
    let none = json!({"features": [{"name": "prefers-reduced-motion", "value": "reduce"}]});
    page.devtools("Emulation.setEmulatedMedia", none).await;
    page.shows(moving, vec![], 0).await;
    page.ends().await;
}

#[tokio::test]
async fn a_browser_without_a_notification_constructor_still_works() {
    let (_server, page) = busy().await;
    page.go("/inbox").await;
    page.sees("Allow Write to ").await;
    let script = "window.Notification = class { static permission = 'granted'; constructor() { throw new TypeError('Illegal constructor') } };
        Object.defineProperty(document, 'hidden', { value: true });
        return module('state/inbox.js').then(async (inbox) => { const all = inbox.inbox.value; await inbox.load();
            inbox.replace('thr_other', all.map((one) => ({ ...one, id: one.id + 'x', thread: 'thr_other' }))); return inbox.inbox.value.length })";
    assert_eq!(page.run(script, vec![]).await, 2);
    page.ends().await;
}

#[tokio::test]
async fn signing_in_again_elsewhere_leaves_the_page_where_it_is() {
    let (_server, page) = busy().await;
    let options = "return url.endsWith('/auth/options') ? Response.json({ providers: [{ name: 'ours', title: 'Ours' }], registration: 'closed', registered: true }) : real()";
    otherwise(&page, options).await;
    page.run("return module('lib/api.js').then((api) => { api.expired.value += 1 })", vec![]).await;
    page.sees("Sign in with Ours").await;
    let link = "const one = all('.veil a').at(-1); return [one.target, one.rel]";
    page.shows(link, vec![], json!(["_blank", "noopener"])).await;
    page.ends().await;
}

#[tokio::test]
async fn a_long_list_of_conversations_is_kept_fresh_too() {
    let (_server, page) = busy().await;
    // No request is sent in the meantime that would reload the list.
    page.go("/usage").await;
    page.sees("Approval rate").await;
    let script = "return module('state/threads.js').then(async ({ threads, load }) => {
        const [one] = threads.value;
        threads.value = [...Array(40).keys()].map((at) => ({ ...one, id: `thr_${at}`, title: `Title ${at}`, updated_at: 1000 - at }));
    })";
    let answer = "if (!url.includes('/threads?')) return real();
        const page = await (await real()).json();
        window.looked = true;
        return Response.json({ data: [{ ...page.data[0], id: 'thr_30', title: 'The newest now', updated_at: 2000 }, ...[...Array(24).keys()].filter((at) => at !== 3).map((at) => ({ ...page.data[0], id: `thr_${at}`, title: `Title ${at}`, updated_at: 1000 - at }))], next_cursor: 'c' })";
    otherwise(&page, answer).await;
    page.run(script, vec![]).await;
    page.until("a look", "return window.looked").await;
    page.until("it is loaded again", "return all('.history .title')[0]?.innerText === 'The newest now'")
        .await;
    let titles = page
        .run("return [...document.querySelectorAll('.history .title')].map((one) => one.innerText)", vec![])
        .await;
    let titles = titles.as_array().unwrap();
    assert_eq!(titles.len(), 39, "one was deleted, none is there twice");
    assert!(!titles.contains(&json!("Title 3")) && titles.contains(&json!("Title 39")));
    page.ends().await;
}
