//! The library: tools with a trial call, toolsets, and tool servers.

use reqwest::{Method, StatusCode};
use serde_json::json;

use super::access::signed_in_as;
use super::otherwise;
use super::page::Page;
use crate::cli::User;
use crate::http::auth::{administrator, member};
use crate::http::mcp::far::Far;
use crate::http::mcp::prompts::Stage;
use crate::http::{Server, answer};

#[tokio::test]
async fn a_tool_is_read_about_and_tried_by_a_form_and_as_json() {
    let server = Server::start(&[]);
    let boss = server.key(&[]);
    let upload = server.request(Method::PUT, "/api/v1/files/data.csv").bearer_auth(&boss);
    answer(upload.body("city,people\nRome,3\n")).await.is(StatusCode::CREATED);
    let page = Page::signed_in(&server).await;
    page.go("/library/tools").await;
    page.write("[aria-label='Search tools']", "Read").await;
    page.go("/library/tools?tool=Read").await;
    page.sees("Description").await;
    page.press("Test call").await;
    page.write(".trial [name='v.file_path']", "data.csv").await;
    page.press("Run tool").await;
    page.sees("Result after").await;
    page.sees("Rome,3").await;
    page.write(".trial [name='v.file_path']", "none.csv").await;
    page.press("Run tool").await;
    page.sees("Failed after").await;
    page.misses("Rome,3").await;

    page.go("/library/tools?tool=Write").await;
    page.press("Test call").await;
    page.write(".trial [name='v.file_path']", "made.md").await;
    page.press("Edit as JSON").await;
    let text = page.until("what was written", "return all('.trial [name=text]')[0]?.value").await;
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(text.as_str().unwrap()).unwrap()["file_path"],
        "made.md"
    );
    page.write(".trial [name=text]", "{\"file_path\": ").await;
    page.press("Run tool").await;
    page.sees("Invalid JSON").await;
    page.write(".trial [name=text]", r#"{"file_path": "made.md", "content": "by hand"}"#).await;
    page.press("Run tool").await;
    // The page asks for approval and shows the preview.
    page.sees("the call requires approval").await;
    page.sees("+by hand").await;
    let files = async || page.asks("/files").await.to_string();
    assert!(!files().await.contains("made.md"));
    page.press("Approve and run").await;
    page.sees("Result after").await;
    assert!(files().await.contains("made.md"));
    page.ends_but_for(&["409"]).await;
}

#[tokio::test]
async fn toolsets_say_which_tools_are_always_there_and_which_change_things() {
    let server = Server::start(&[]);
    let page = Page::signed_in(&server).await;
    let sets = page.asks("/toolsets").await;
    let set = sets["data"].as_array().unwrap().iter().find(|set| set["name"] == "planning").unwrap().clone();
    page.go("/library/toolsets").await;
    page.sees("planning").await;
    page.run("document.querySelectorAll('details.item').forEach((one) => (one.open = true))", vec![]).await;
    for tool in set["tools"].as_array().unwrap() {
        page.sees(tool.as_str().unwrap()).await;
    }
    let rows = "return Object.fromEntries(all('tbody tr').map((row) => [...row.cells].map((cell) => cell.innerText)).map(([name, ...rest]) => [name, rest]))";
    let rows = page.run(rows, vec![]).await;
    let tools = page.asks("/tools").await;
    for tool in tools["data"].as_array().unwrap() {
        let name = tool["name"].as_str().unwrap();
        let given = if tool["loadable"] == true { "after the model loads the toolset" } else { "always" };
        let does = if tool["annotations"]["readOnlyHint"] == true { "read-only" } else { "makes changes" };
        assert_eq!(rows[name], json!([given, does]), "{name}: {rows:#}");
    }
    page.press("Read").await;
    page.sees("Test call").await;
    page.ends().await;
}

// The test blocks on commands while the far server handles their requests.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_server_is_added_inspected_and_removed() {
    let far = Far::open().await;
    let user = User::new();
    let outbound = format!("[outbound]\ninternal_hosts = ['127.0.0.1']\nports = [443, {}]\n", far.port);
    user.configure(&outbound);
    let server = Server::start_for(user, &[]);
    let page = Page::signed_in(&server).await;
    page.go("/library/servers").await;
    page.sees("No tool servers").await;
    page.press("Add a tool server").await;
    page.write("dialog [name=name]", "far").await;
    page.write("dialog [name=url]", "http://10.0.0.1/mcp").await;
    page.press("Add").await;
    page.sees("`url` does not use https").await;
    page.write("dialog [name=url]", &format!("{}/mcp", far.base)).await;
    page.write("dialog [name=headers]", "no header").await;
    page.press("Add").await;
    page.sees("“no header” is not a header").await;
    page.write("dialog [name=headers]", "Authorization: Bearer SENTINEL").await;
    page.press("Add").await;
    page.sees("Connecting to far…").await;
    page.sees("connected").await;
    page.sees("untrusted").await;
    page.press("1 tool").await;
    page.sees("Just once").await;
    page.press("Log").await;
    page.sees("Log of far").await;
    page.until("its lines", "return all('dialog .log')[0]?.innerText.includes('connected')").await;
    page.press("Close").await;
    page.press("Reconnect").await;
    page.until(
        "it came again",
        "return fetch('/api/v1/mcp/servers/far/log') && text().includes('connected')",
    )
    .await;
    assert!(!page.words().await.contains("SENTINEL"));

    // Members can see the server, but cannot change it.
    let mut admin = administrator(&server).await;
    member(&mut admin, &server, "ann@example.com", "member").await;
    let ann = signed_in_as(&server, "ann@example.com").await;
    ann.sees("What would you like to do").await;
    ann.go("/library/servers").await;
    ann.sees("connected").await;
    assert_eq!(ann.number_of("main button").await, 0);
    ann.ends_but_for(&["401"]).await;

    page.press("Remove").await;
    page.sees("Its tools become unavailable immediately").await;
    page.element("dialog .danger").await.click().await.unwrap();
    page.sees("No tool servers").await;
    page.ends_but_for(&["422"]).await;
}

// The test blocks on commands while the far server handles their requests.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_away_says_why_and_when_it_is_tried_again() {
    let far = Far::open().await;
    let user = User::new();
    user.configure(&format!("[mcp.far]\nurl = '{}/mcp'\n", far.base));
    drop(far);
    let server = Server::start_for(user, &[]);
    let page = Page::signed_in(&server).await;
    page.go("/library/servers").await;
    page.sees("offline").await;
    page.sees("Next attempt at").await;
    page.sees("from windlass.toml").await;
    page.shows("return button('Remove') ?? null", vec![], serde_json::Value::Null).await;
    page.ends().await;
}

#[tokio::test]
async fn agent_details_require_the_right_to_start_runs() {
    let user = User::new();
    user.configure("[agent]\nmodels = ['demo/script', 'nowhere/x']\ninstructions = 'You keep the notes.'\nmode = 'plan'\n");
    let server = Server::start_for(user, &[]);
    let mut admin = administrator(&server).await;
    member(&mut admin, &server, "ann@example.com", "member").await;
    member(&mut admin, &server, "vic@example.com", "viewer").await;
    let page = signed_in_as(&server, "ann@example.com").await;
    page.sees("What would you like to do").await;
    page.go("/library/agents").await;
    page.sees("You keep the notes.").await;
    page.sees("Default mode: plan (read-only, writes a plan)").await;
    let agent = page.asks("/agents").await["data"][0].take();
    assert_eq!(agent["mode"], "plan");
    let tools = "return all('.agent .chips a').map((one) => one.innerText)";
    page.shows(tools, vec![], agent["tools"].clone()).await;
    let models = page.asks("/models").await;
    let why = models["data"].as_array().unwrap().iter().find(|model| model["name"] == "nowhere/x").unwrap();
    page.sees(why["reason"].as_str().unwrap()).await;
    page.press("Read").await;
    page.sees("Test call").await;
    page.ends_but_for(&["401"]).await;

    // A viewer does not see the agent's instructions.
    let page = signed_in_as(&server, "vic@example.com").await;
    page.sees("Your role is view-only").await;
    page.go("/library/agents").await;
    page.sees("Definition").await;
    let agent = page.asks("/agents").await["data"][0].take();
    assert_eq!((agent.get("instructions"), agent.get("mode")), (None, None));
    assert!(!page.words().await.contains("You keep the notes."));
    page.ends_but_for(&["401"]).await;
}

// The test blocks on commands while the far server handles their requests.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prompt_of_a_server_is_filled_in_and_begins_a_conversation() {
    let stage = Stage::start().await;
    let server = Server::start_for(stage.user(), &[]);
    let page = Page::signed_in(&server).await;
    page.go("/library/servers").await;
    page.sees("connected").await;
    page.press("Prompts").await;
    let names = "return all('.plain-list button').map((one) => one.innerText)";
    page.until("they are listed", "return button('Greeting')").await;
    page.shows(names, vec![], json!(["Greeting", "a/b asks", "broken"])).await;
    page.press("broken").await;
    page.press("Preview").await;
    page.sees("out of paper").await;
    page.press("Close").await;
    page.press("Greeting").await;
    page.sees("Greets a city").await;
    let needed = "return all('dialog input').map((one) => one.required)";
    page.shows(needed, vec![], json!([true, false])).await;
    page.write("dialog [name=a0]", "Oslo").await;
    page.press("Preview").await;
    page.sees("Greet Oslo, as you like").await;
    let said = "return all('dialog .filled').map((one) => [one.querySelector('p').innerText, one.querySelector('pre').innerText])";
    page.shows(said, vec![], json!([["User", "Greet Oslo, as you like"], ["Assistant", "Hello Oslo"],]))
        .await;
    page.press("Use in a new conversation").await;
    page.sees("What would you like to do").await;
    let text = page.until("it is written", "return all('[data-key=composer]')[0]?.value").await;
    assert_eq!(text, "Greet Oslo, as you like");
    page.ends_but_for(&["502"]).await;
}

/// An unsent draft, after a message that may have arrived.
const UNSENT: &str =
    "return module('state/drafts.js').then(({ keepDraft }) => keepDraft('new', 'Sent.\\nUnsent.',
    [{ text: 'Sent.', model: null, mode: null, options: {}, key: 'k' }]))";

// The test blocks on commands while the far server handles their requests.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prompt_shows_what_cannot_be_seen_and_stands_behind_what_was_written() {
    let stage = Stage::start().await;
    let server = Server::start_for(stage.user(), &[]);
    let page = Page::signed_in(&server).await;
    page.go("/library/servers").await;
    page.sees("connected").await;
    page.run(UNSENT, vec![]).await;
    page.press("Prompts").await;
    page.press("Greeting").await;
    page.element("dialog [name=a0]").await;
    page.run("all('dialog [name=a0]')[0].value = 'Os\\u202elo\\u{e0041}'", vec![]).await;
    page.press("Preview").await;
    page.sees(r"Greet Os\u202elo\udb40\udc41, as you like").await;
    page.press("Use in a new conversation").await;
    page.sees("What would you like to do").await;
    let text = page.until("it is written", "return all('[data-key=composer]')[0]?.value").await;
    assert_eq!(text, "Sent.\nUnsent.\nGreet Os\u{202e}lo\u{e0041}, as you like");
    let kept = "return module('state/drafts.js').then(({ draftOf }) => draftOf('new'))";
    let kept = page.run(kept, vec![]).await;
    assert_eq!((&kept["text"], &kept["sent"][0]["key"]), (&text, &json!("k")));
    page.ends().await;
}

#[tokio::test]
async fn where_no_tools_are_it_is_said_what_brings_some() {
    let server = Server::start(&[]);
    let page = Page::signed_in(&server).await;
    page.go("/library").await;
    page.sees("load_toolset").await;
    let nothing = "if (/\\/(tools|toolsets)(\\?|$)/.test(url)) return new Response('{\"data\": []}', { headers: { 'content-type': 'application/json' } }); return real()";
    otherwise(&page, nothing).await;
    page.press("Toolsets").await;
    page.sees("No tools").await;
    let tables = "return all('.empty code').map((one) => one.innerText)";
    page.shows(tables, vec![], json!(["[mcp.NAME]", "windlass.toml", "[api.NAME]"])).await;
    page.ends().await;
}
