//! The inspector of a run: its requests, decisions and waits, and the comparison of two runs.

use std::time::Duration;

use serde_json::json;
use thirtyfour::prelude::*;

use super::asks::approves_for;
use super::page::Page;
use super::{asked, choose, otherwise, scripted, write};
use crate::cli::User;
use crate::cli::model::{Model, Turn};
use crate::http::Server;

/// Each span: its kind, name and state.
const SPANS: &str = "return all('.span').map((one) => [one.dataset.kind, one.querySelector('strong').innerText,\
    one.querySelector('summary .quiet').innerText.split(',')[0]])";

/// Removes durations.
const TIMELESS: &str =
    "const timeless = (text) => text.trim().replace(/after [\\d.]+ m?s/g, 'after a while');";

/// Opens the newest run of the displayed conversation, without a reload.
async fn inspected(page: &Page) {
    page.until("it is over", "return all('.stop').length === 0").await;
    page.driver.find(By::Css("a[href^='/runs?thread=']")).await.unwrap().click().await.unwrap();
    page.element("table.list a[href^='/runs/']").await.click().await.unwrap();
    page.element(".span").await;
}

/// Opens every span.
async fn opened(page: &Page) {
    page.run("document.querySelectorAll('.span').forEach((one) => (one.open = true))", vec![]).await;
}

/// Compares the two runs of the displayed conversation, older one first.
async fn compared(page: &Page) {
    page.go("/runs").await;
    page.until("two runs", "return all('td input').length === 2").await;
    page.run("all('td input').reverse().forEach((one) => one.click())", vec![]).await;
    page.press("Compare selected").await;
    page.sees("Final answers").await;
}

#[tokio::test]
async fn the_arguments_that_were_sent_are_shown_with_who_changed_them_and_what_decided() {
    let server = scripted(vec![Turn::Call(vec![write("a.md")]), Turn::Say("All is settled.")]);
    let page = asked(&server).await;
    approves_for(&page, "other.md").await;
    page.sees("All is settled.").await;
    inspected(&page).await;
    page.shows(
        SPANS,
        vec![],
        json!([
            ["model", "openai-compatible/scripted", "replied"],
            ["wait", "Allow Write to create a.md?", "edited"],
            ["wait", "Allow Write to create other.md?", "approved"],
            ["tool", "Write", "done"],
            ["model", "openai-compatible/scripted", "replied"],
        ]),
    )
    .await;
    opened(&page).await;
    page.sees("edited by Local administrator").await;
    let call = "const own = all('.span[data-kind=tool]')[0];\
        own.querySelector('.before').open = true;\
        return [...own.querySelectorAll('pre')].slice(0, 2).map((one) => JSON.parse(one.textContent).file_path)";
    assert_eq!(page.run(call, vec![]).await, json!(["other.md", "a.md"]));
    let decided = format!(
        "{TIMELESS} return all('.span[data-kind=tool] .decided li').map((one) => timeless(one.innerText))"
    );
    page.shows(
        &decided,
        vec![],
        json!([
            "Approval required. No policy rule matches; the tool's annotations decide.",
            "Local administrator edited the arguments after a while.",
            "Local administrator approved after a while.",
        ]),
    )
    .await;
    // The same holds in a comparison.
    page.until("the conversation", "return button('Open conversation')").await;
    page.press("Open conversation").await;
    page.say("Again.").await;
    page.sees("Done.").await;
    compared(&page).await;
    page.sees("Write: done, edited by Local administrator").await;
    page.until("what was sent", "return all('.told pre').some((one) => one.innerText.includes('other.md'))")
        .await;
    assert!(!page.words().await.contains("\"a.md\""));
    page.ends().await;
}

#[tokio::test]
async fn arguments_that_were_mended_are_shown_above_those_that_came() {
    let broken = "{\"pattern\": \"*\",}";
    let call =
        json!({"index": 0, "id": "c", "type": "function", "function": {"name": "Glob", "arguments": broken}});
    let calls = json!({"role": "assistant", "tool_calls": [call]});
    let server = scripted(vec![Turn::Slowly(Duration::ZERO, vec![calls]), Turn::Say("All is settled.")]);
    let page = Page::signed_in(&server).await;
    page.say("Look.").await;
    page.sees("All is settled.").await;
    inspected(&page).await;
    opened(&page).await;
    let call = "const own = all('.span[data-kind=tool]')[0];\
        return [own.querySelector('h3 .tag').innerText, ...[...own.querySelectorAll('pre')].slice(0, 2).map((one) => one.textContent)]";
    page.shows(call, vec![], json!(["repaired", "{\n  \"pattern\": \"*\"\n}", broken])).await;
    page.ends().await;
}

#[tokio::test]
async fn a_limit_and_the_user_who_raised_it_are_shown() {
    let user = User::new();
    let look = || Turn::Call(vec![("Glob", json!({"pattern": "*"}))]);
    let model = Model::start(vec![look(), look(), Turn::Say("All is settled.")]);
    let command = model.command(&user, &["serve", "--listen", "127.0.0.1:0", "--max-steps", "1"]);
    let server = Server::spawn(user, command);
    let page = Page::signed_in(&server).await;
    page.say("Look twice.").await;
    page.sees("Used: 1 of 1.").await;
    // A waiting run is displayed as such in the list and in the inspector.
    page.go("/runs").await;
    page.sees("needs approval").await;
    page.element("table.list a[href^='/runs/']").await.click().await.unwrap();
    page.until("it waits", "return all('h1 + .state')[0]?.innerText === 'needs approval'").await;
    page.press("Open conversation").await;
    page.write("[name=to]", "9").await;
    page.press("Continue").await;
    page.sees("All is settled.").await;
    inspected(&page).await;
    opened(&page).await;
    let told = format!(
        "{TIMELESS} return all('.span[data-kind=wait]').flatMap((one) => [...one.querySelectorAll('p:not(.quiet)')].map((line) => timeless(line.innerText)))"
    );
    page.shows(
        &told,
        vec![],
        json!([
            "Limit reached: steps per run",
            "Used: 1 of 1.",
            "Local administrator raised the limit to 9 after a while.",
        ]),
    )
    .await;
    let marks = "return all('.span[data-kind=mark] > p:last-child').map((one) => one.innerText)";
    page.shows(marks, vec![], json!(["Limit reached: steps per run (1)."])).await;
    page.ends().await;
}

#[tokio::test]
async fn a_journal_that_comes_in_parts_is_read_to_its_end() {
    let look = || Turn::Call(vec![("Glob", json!({"pattern": "*"}))]);
    let server = scripted(vec![look(), look(), Turn::Say("All is settled.")]);
    let page = Page::signed_in(&server).await;
    page.say("Look twice.").await;
    page.sees("All is settled.").await;
    // Simulates long events, of which the server returns fewer than requested.
    otherwise(
        &page,
        "return url.includes('/events?') ? window.through(url.replace('limit=500', 'limit=3'), options) : real()",
    )
    .await;
    inspected(&page).await;
    let steps = "return all('.timeline h2').map((one) => one.innerText).join() === 'Step 1,Step 2,Step 3' && all('.timeline .quiet').at(-1).innerText.startsWith('replied')";
    page.until("all of its steps", steps).await;
    page.ends().await;
}

#[tokio::test]
async fn the_beginning_of_a_prompt_is_marked_as_far_as_a_cache_had_it() {
    let server = scripted(vec![Turn::Say("It is said.")]);
    let page = Page::signed_in(&server).await;
    page.say("About apples.").await;
    page.sees("It is said.").await;
    // The model of this test reports no cache use and has no price.
    let other = "const answer = await real();\
        if (!url.includes('/events?')) return answer;\
        const part = await answer.json();\
        for (const event of part.data) if (event.type === 'step.replied') Object.assign(event, { usage: { input: 2000, cached: 1000, output: 7 }, cost: 1234000 });\
        return new Response(JSON.stringify(part), { headers: { 'content-type': 'application/json' } })";
    otherwise(&page, other).await;
    inspected(&page).await;
    let folded = "return all('.span .used').map((one) => one.innerText)";
    page.shows(folded, vec![], json!(["2K in (1K cached), 7 out, $1.23"])).await;
    opened(&page).await;
    page.press("Show prompt").await;
    page.sees("The provider read 1,000 of 2,000 tokens from its cache").await;
    let parts = page
        .run(
            "return all('.prompt details').map((one) => [one.dataset.cached, one.querySelector('.tag')?.innerText ?? '', Number(one.querySelector('.quiet').innerText.split(' ')[0].replaceAll(',', ''))])",
            vec![],
        )
        .await;
    let parts = parts.as_array().unwrap();
    let whole: u64 = parts.iter().map(|part| part[2].as_u64().unwrap()).sum();
    // Reported tokens are distributed by the estimate: here one half is from the cache.
    let mut before = 0;
    for part in parts {
        let end = before + part[2].as_u64().unwrap();
        let wanted = if 2 * end <= whole {
            ["all", "cached (estimate)"]
        } else if 2 * before < whole {
            ["some", "partly cached (estimate)"]
        } else {
            ["none", ""]
        };
        assert_eq!([&part[0], &part[1]], wanted, "{parts:#?}");
        before = end;
    }
    assert_eq!(parts.last().unwrap()[0], "none", "what was asked last is new: {parts:#?}");
    page.ends().await;
}

const LONG: &str = "The same beginning.\nIt has three lines, of which this is the second, and it is longer than what a cell of a table \
    shows of it before somebody opens it, so that whoever wants to read it whole presses a button below it; then it is \
    all there, up to its very last word, which is: apples.\nThe end.";

#[tokio::test]
async fn answers_and_results_of_two_runs_are_compared_whole() {
    let server = scripted(vec![
        Turn::Call(vec![("Read", json!({"file_path": "data.csv"}))]),
        Turn::Say(LONG),
        Turn::Call(vec![("Read", json!({"file_path": "none.csv"}))]),
        Turn::Say("The same beginning.\nAnother middle.\nThe end."),
    ]);
    let page = Page::signed_in(&server).await;
    page.say("Go.").await;
    page.sees("The end.").await;
    page.until("it is over", "return all('.stop').length === 0").await;
    page.say("Again.").await;
    page.sees("Another middle.").await;
    page.until("it is over", "return all('.stop').length === 0").await;
    compared(&page).await;
    let cells = "return [...all('.compare tbody tr').find((row) => row.cells[0].innerText === 'Step 1').cells].slice(1).map((cell) => [...cell.querySelectorAll('.told > span')].map((one) => one.innerText))";
    page.shows(
        cells,
        vec![],
        json!([
            ["openai-compatible/scripted: replied", "Read: failed", "Result"],
            ["openai-compatible/scripted: replied", "Read: failed", "Result"],
        ]),
    )
    .await;
    page.sees("`data.csv` does not exist").await;
    page.sees("`none.csv` does not exist").await;
    let long = LONG.split_whitespace().collect::<Vec<_>>().join(" ");
    let shown = "return all('.told pre').some((one) => one.innerText.replace(/\\s+/g, ' ') === arguments[0])";
    page.shows(shown, vec![long.clone().into()], false).await;
    page.press(&format!("Show all {} characters", LONG.len())).await;
    page.until_of("it is whole", shown, vec![long.into()]).await;
    let lines = page
        .run(
            "return all('.diff span').map((one) => [one.dataset.kind, one.textContent.slice(1, 20).trim()])",
            vec![],
        )
        .await;
    assert_eq!(
        lines,
        json!([
            ["same", "The same beginning."],
            ["removed", "It has three lines,"],
            ["added", "Another middle."],
            ["same", "The end."],
        ])
    );
    page.ends().await;
}

#[tokio::test]
async fn runs_are_looked_for_by_how_they_stand() {
    let server = scripted(vec![Turn::Say("It is said."), Turn::Call(vec![write("a.md")])]);
    let page = Page::signed_in(&server).await;
    page.say("Speak.").await;
    page.sees("It is said.").await;
    page.until("it is over", "return all('.stop').length === 0").await;
    page.say("Write it.").await;
    page.sees("Allow Write to ").await;
    let runs = page.asks("/runs").await;
    let rows: Vec<_> =
        runs["data"].as_array().unwrap().iter().map(|run| (&run["status"], &run["waits"])).collect();
    assert_eq!(rows, [(&json!(null), &json!(true)), (&json!("done"), &json!(false))]);
    page.go("/runs").await;
    let shown = "return all('td .state').map((one) => one.innerText).join() === arguments[0]";
    for (status, wanted) in [
        ("", "needs approval,done"),
        ("done", "done"),
        ("waiting", "needs approval"),
        ("active", "needs approval"),
        ("failed", ""),
        ("cancelled", ""),
    ] {
        choose(&page, "[aria-label='Status']", status).await;
        page.until_of(&format!("those that are `{status}`"), shown, vec![wanted.into()]).await;
        // The filter persists across a reload.
        page.driver.refresh().await.unwrap();
        page.until_of(&format!("`{status}` again"), shown, vec![wanted.into()]).await;
        if wanted.is_empty() {
            page.sees("No runs with this status.").await;
        }
    }
    page.press("Show all").await;
    page.until_of("all of them", shown, vec!["needs approval,done".into()]).await;
    page.ends().await;
}

/// Lists of runs with the requested status, in two pages. The second page is held until the test releases it.
const IN_PARTS: &str = "if (!url.includes('/runs?')) return real();
    if (window.broken) return Response.json({ status: 500, detail: 'something broke' }, { status: 500, headers: { 'content-type': 'application/problem+json' } });
    const asked = new URL(url, location.href).searchParams;
    const [status, isSecond] = [asked.get('status') ?? 'done', asked.has('cursor')];
    const run = { id: `run_${status}${isSecond ? 2 : 1}`, thread: 'thr_one', model: 'm', status, started_at: 1, finished_at: 2, steps: 1, tool_calls: 0 };
    if (isSecond) await new Promise((go) => (window.release = go));
    const answer = { data: [run], next_cursor: isSecond ? null : 'more' };
    return Object.assign(Response.json(answer), { json: async () => ((window.taken = (window.taken ?? 0) + 1), answer) })";

/// Whether exactly these runs are listed.
const LISTED: &str =
    "return all('table.list a[href^=\"/runs/\"]').map((one) => one.innerText).join() === arguments[0]";

#[tokio::test]
async fn more_runs_of_another_filter_do_not_come_into_the_list() {
    let server = Server::start(&[]);
    let page = Page::signed_in(&server).await;
    otherwise(&page, IN_PARTS).await;
    page.press("Runs").await;
    page.until_of("the first", LISTED, vec!["done1".into()]).await;
    page.press("More").await;
    page.until("it is asked for", "return Boolean(window.release)").await;
    choose(&page, "[aria-label='Status']", "failed").await;
    page.until_of("the others", LISTED, vec!["failed1".into()]).await;
    page.run("window.release(); window.release = null", vec![]).await;
    page.until("it has come", "return window.taken === 3").await;
    page.press("More").await;
    page.until("it is asked for", "return Boolean(window.release)").await;
    page.run("window.release()", vec![]).await;
    page.until_of("both of them", LISTED, vec!["failed1,failed2".into()]).await;
    page.ends().await;
}

#[tokio::test]
async fn runs_that_cannot_be_looked_for_are_not_those_from_before() {
    let server = Server::start(&[]);
    let page = Page::signed_in(&server).await;
    otherwise(&page, IN_PARTS).await;
    page.press("Runs").await;
    page.until_of("the first", LISTED, vec!["done1".into()]).await;
    page.run("window.broken = true", vec![]).await;
    choose(&page, "[aria-label='Status']", "failed").await;
    page.sees("Failed to load").await;
    page.until_of("none", LISTED, vec!["".into()]).await;
    page.run("window.broken = false", vec![]).await;
    page.press("Try again").await;
    page.until_of("those", LISTED, vec!["failed1".into()]).await;
    page.ends().await;
}

/// The opened conversation is a fork, whose parent returns this response.
const A_FORK: &str = "const problem = (status) => Response.json({ status, detail: 'something broke' }, { status, headers: { 'content-type': 'application/problem+json' } });
    if (url.endsWith('/threads/thr_parent')) return window.how === 200 ? Response.json({ title: 'What was before' }) : problem(window.how);
    if (!/threads\\/[^/?]+$/.test(url)) return real();
    return Response.json({ ...(await (await real()).json()), forked_from: { thread: 'thr_parent', until: 1 } })";

#[tokio::test]
async fn what_a_fork_is_of_is_gone_only_where_the_server_says_so() {
    let server = scripted(vec![Turn::Say("It is said.")]);
    let page = Page::signed_in(&server).await;
    page.say("Speak.").await;
    page.sees("It is said.").await;
    let thread = page.thread().await;
    otherwise(&page, A_FORK).await;
    for (status, words) in
        [(404, "an unavailable conversation"), (500, "a conversation that could not be loaded")]
    {
        page.press("New conversation").await;
        page.sees("What would you like to do").await;
        page.run("window.how = arguments[0]", vec![status.into()]).await;
        page.element(&format!("a[href='/chat/{thread}']")).await.click().await.unwrap();
        page.sees(&format!("Fork of {words}")).await;
    }
    page.run("window.how = 200", vec![]).await;
    page.press("Try again").await;
    page.sees("Fork of What was before").await;
    page.ends().await;
}
