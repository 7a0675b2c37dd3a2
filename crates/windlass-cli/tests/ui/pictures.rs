//! Screenshots of every page, in light and dark mode and as narrow as a phone. They are in `target/screenshots`
//! afterwards.

use std::time::Duration;

use serde_json::json;

use super::looks::wear;
use super::page::Page;
use super::{scripted_for, write};
use crate::cli::User;
use crate::cli::model::Turn;
use crate::http::Server;

const ANSWER: &str = "I looked at `data.csv`. Here is what stands out:\n\n\
    1. **Rome** has three times as many people as **Oslo**.\n2. The file has two columns and no empty cells.\n\n\
    | city | people | share |\n|---|---:|---:|\n| Rome | 3 | 75 % |\n| Oslo | 1 | 25 % |\n\n\
    ```python\nimport csv\n\nwith open(\"data.csv\") as file:\n    rows = list(csv.DictReader(file))\nprint(sum(int(row[\"people\"]) for row in rows))\n```\n\n\
    I would write this down next. Shall I?";

/// The name of each screenshot, its path, and a text that shows that the page has loaded.
const PAGES: &[(&str, &str, &str)] = &[
    ("begin", "/", "What would you like to do"),
    ("inbox", "/inbox", "Allow Edit to "),
    ("runs", "/runs", "Status"),
    ("library", "/library", "Library"),
    ("toolsets", "/library/toolsets", "planning"),
    ("servers", "/library/servers", "No tool servers"),
    ("agents", "/library/agents", "Definition"),
    ("policy", "/library/policy", "No rules"),
    ("integrations", "/library/integrations", "Integrations"),
    ("profile", "/settings", "Sign out of this browser"),
    ("asking", "/settings/asking", "Allow list"),
    ("grants", "/settings/grants", "No grants"),
    ("shared", "/settings/shared", "Nothing is shared"),
    ("keys", "/settings/keys", "Create key"),
    ("sessions", "/settings/sessions", "this session"),
    ("team", "/settings/team", "Invite a member"),
    ("limits", "/settings/limits", "No limits"),
    ("look", "/settings/look", "Density"),
];

/// The appearances: a name, the theme, and the window's width and height.
const LOOKS: &[(&str, &str, u32, u32)] =
    &[("light", "light", 1280, 860), ("dark", "dark", 1280, 860), ("phone", "light", 390, 844)];

pub async fn take(page: &Page, name: &str) {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/screenshots");
    std::fs::create_dir_all(folder).unwrap();
    page.until("it is whole", "return document.querySelectorAll('[aria-busy=true]').length === 0").await;
    // Waits for fonts and animations, so that screenshots are reproducible.
    page.run("return document.fonts.ready.then(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true)))))", vec![]).await;
    let path = std::path::PathBuf::from(format!("{folder}/{name}.png"));
    page.driver.screenshot(&path).await.unwrap();
    assert!(std::fs::metadata(&path).unwrap().len() > 5_000, "{name} is empty");
}

/// Realistic conversations: one finished, and one that waits for approval.
async fn used() -> (Server, Page, String) {
    let edit = json!({"file_path": "notes.md", "old_string": "Rome is large.", "new_string": "Rome has three times as many people as Oslo."});
    let thought = json!({"reasoning_content": "The file is small, so I can read it whole. Then I compare the rows, and say what differs most between them."});
    let words: Vec<serde_json::Value> =
        ANSWER.split_inclusive(' ').map(|word| json!({ "content": word })).collect();
    let mut deltas = vec![thought; 3];
    deltas.extend(words);
    let server = scripted_for(
        User::new(),
        vec![
            Turn::Say("Hello. Put files into this conversation's folder, and say what you want to know."),
            Turn::Call(vec![
                ("Glob", json!({"pattern": "*"})),
                ("Read", json!({"file_path": "data.csv"})),
                ("Read", json!({"file_path": "notes.md"})),
            ]),
            Turn::Slowly(Duration::from_millis(3), deltas),
            Turn::Call(vec![write("insights.md"), ("Edit", edit)]),
            Turn::Say("Both files are written."),
        ],
    );
    let page = Page::signed_in(&server).await;
    page.say("I have figures of cities").await;
    page.sees("say what you want to know").await;
    page.until("it is done", "return all('.stop').length === 0").await;
    let thread = page.thread().await;
    let key = server.key(&[]);
    let files = [
        ("data.csv", "city,people\nRome,3\nOslo,1\n"),
        ("notes.md", "# Notes\n\nRome is large.\nOslo is in the north.\n"),
    ];
    for (name, text) in files {
        let path = format!("/api/v1/threads/{thread}/files/content?path={name}");
        let put =
            server.request(reqwest::Method::PUT, &path).bearer_auth(&key).body(text).send().await.unwrap();
        assert!(put.status().is_success(), "{put:?}");
    }
    page.say("Read data.csv in this folder and say what stands out.").await;
    page.sees("Shall I?").await;
    page.until("it is done", "return all('.stop').length === 0").await;
    page.say("Yes: write insights.md, and mend notes.md.").await;
    // Both requests open at the same time, in either order.
    page.sees("Allow Write to ").await;
    page.sees("Allow Edit to ").await;
    page.press("Approve").await;
    page.until(
        "only Edit asks",
        "return all('.ask').length === 1 && all('.ask')[0].innerText.includes('Allow Edit to ')",
    )
    .await;
    (server, page, thread)
}

/// Takes a screenshot in each appearance.
async fn each_look(page: &Page, what: &str) {
    for (name, theme, width, height) in LOOKS {
        wear(page, theme, *width, *height).await;
        take(page, &format!("{name}-{what}")).await;
    }
}

// rows: SK-U1
#[tokio::test]
async fn every_page_has_its_picture() {
    let (server, page, thread) = used().await;
    let visitor = Page::open(&server).await;
    visitor.go("/").await;
    visitor.sees("Sign in to Windlass").await;
    each_look(&visitor, "login").await;
    visitor.ends_but_for(&["401"]).await;
    let key = server.key(&[]);
    // A second run for the comparison.
    let other = server.post("/api/v1/runs", &key, &json!({"message": "Only look."})).await;
    let other = other.body["run"].as_str().unwrap().to_owned();
    let runs = page.asks(&format!("/runs?thread={thread}")).await;
    let run = runs["data"][1]["id"].as_str().unwrap().to_owned();
    for (name, theme, width, height) in LOOKS {
        wear(&page, theme, *width, *height).await;
        // The scroll position of a conversation and the size of charts are determined when they are opened.
        page.go(&format!("/chat/{thread}")).await;
        page.sees("Allow Edit to ").await;
        take(&page, &format!("{name}-approval")).await;
        page.run("document.querySelector('.transcript').scrollTop = 0", vec![]).await;
        page.run("document.querySelectorAll('.call')[1].open = true", vec![]).await;
        page.until("a result", "return document.querySelector('.call .result')").await;
        take(&page, &format!("{name}-conversation")).await;
        page.go("/usage").await;
        page.until("charts", "return document.querySelectorAll('.chart canvas').length === 4").await;
        take(&page, &format!("{name}-usage")).await;
    }
    page.go(&format!("/runs/{run}")).await;
    page.sees("Step 1").await;
    page.element("details.span[data-kind=model] summary").await.click().await.unwrap();
    page.press("Show prompt").await;
    page.sees("tokens, estimated").await;
    each_look(&page, "timeline").await;
    page.go(&format!("/compare?a={run}&b={other}")).await;
    page.sees("Different rows are highlighted.").await;
    each_look(&page, "comparison").await;
    for (what, path, words) in PAGES {
        page.go(path).await;
        page.sees(words).await;
        each_look(&page, what).await;
    }
    page.run("document.activeElement.blur()", vec![]).await;
    page.types("?").await;
    page.sees("Show keyboard shortcuts").await;
    each_look(&page, "help").await;
    page.ends().await;
}
