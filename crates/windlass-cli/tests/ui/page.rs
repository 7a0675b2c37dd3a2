//! A browser on the server's pages: Debian's Chromium, headless, driven over WebDriver.
//!
//! Every wait is for a visible change, and bounded. A page that logged an error or violated its Content Security Policy
//! fails the test.

use std::ops::Deref;

use serde_json::Value;
use thirtyfour::error::WebDriverErrorInner;
use thirtyfour::prelude::*;
use thirtyfour::{Key, TypingData};
use windlass_bench::browser::BrowserPage;

use crate::http::Server;

/// Time-out for one visible change on the slowest machine.
const LONGEST_WAIT_MS: u64 = 60_000;

/// Helper functions for the tests' scripts. They see only what is visible to a person.
const EYES: &str = r"
    const shown = (one) => one.checkVisibility({ visibilityProperty: true }) && one.getClientRects().length > 0;
    const named = (one) => (one.getAttribute('aria-label') ?? (one.innerText || one.value || '')).trim().replace(/\s+/g, ' ');
    const all = (css) => [...document.querySelectorAll(css)].filter(shown);
    const button = (name) => all('button, a, summary, label, [role=tab], option').find((one) => !one.disabled && named(one) === name);
    const text = () => document.body.innerText;
    const module = (path) => import(new URL(path, document.querySelector('script[type=module]').src).href);
";

/// A page in an isolated context of the lane's browser.
pub struct Page {
    address: String,
    pub browser: BrowserPage,
}

impl Deref for Page {
    type Target = BrowserPage;

    fn deref(&self) -> &BrowserPage {
        &self.browser
    }
}

impl Page {
    /// Opens a browser without a session.
    pub async fn open(server: &Server) -> Self {
        Self::open_at(&server.address).await
    }

    /// Opens a browser without a session for an address.
    pub async fn open_at(address: &str) -> Self {
        Self { address: address.to_owned(), browser: BrowserPage::open().await.unwrap() }
    }

    /// Opens a browser in which the local administrator has signed in with a one-time link.
    pub async fn signed_in(server: &Server) -> Self {
        let mut page = Self::open(server).await;
        page.signs_in(server).await;
        page
    }

    /// Opens another server and signs in there in the same way.
    pub async fn signs_in(&mut self, server: &Server) {
        self.address.clone_from(&server.address);
        let said = server.user.run(&["admin", "link", "--address", &server.address]).exits(0);
        self.driver.goto(said.out.trim()).await.unwrap();
        self.driver.find(By::Tag("button")).await.unwrap().click().await.unwrap();
        self.until("there is a composer", "return document.querySelector('[data-key=composer]')").await;
    }

    /// Leaves the server's pages before the server ends.
    pub async fn leaves(&self) {
        self.driver.goto("about:blank").await.unwrap();
    }

    /// Opens a path with a full page load.
    pub async fn go(&self, path: &str) {
        self.driver.goto(format!("{}{path}", self.address)).await.unwrap();
    }

    /// Runs a script with the helpers of [`EYES`]. Returns its result.
    pub async fn run(&self, script: &str, arguments: Vec<Value>) -> Value {
        let script = format!("{EYES}\n{script}");
        self.driver.execute(script, arguments).await.unwrap().json().clone()
    }

    /// Waits until a script returns a truthy value.
    pub async fn until(&self, what: &str, script: &str) -> Value {
        self.until_of(what, script, vec![]).await
    }

    /// Waits until a script with arguments returns a truthy value.
    pub async fn until_of(&self, what: &str, script: &str, arguments: Vec<Value>) -> Value {
        let found = self.look(script, arguments).await;
        match found {
            Some(found) => found.json().clone(),
            None => panic!("never: {what}; the page:\n{}", self.words().await),
        }
    }

    /// Waits until a read-only script returns a value. An event's effect may be drawn later than the previously
    /// awaited change.
    pub async fn shows(&self, script: &str, mut arguments: Vec<Value>, wanted: impl Into<Value>) {
        let wanted = wanted.into();
        let compare = format!(
            "const found = (() => {{ {script} }})() ?? null; return JSON.stringify(found) === own.at(-1) && [found]"
        );
        let given = arguments.clone();
        arguments.push(wanted.to_string().into());
        if self.look(&compare, arguments).await.is_none() {
            let found = self.run(script, given).await;
            panic!("never {wanted}, in the end {found}; the page:\n{}", self.words().await);
        }
    }

    async fn look(
        &self,
        script: &str,
        arguments: Vec<Value>,
    ) -> Option<thirtyfour::session::scriptret::ScriptRet> {
        let script = format!(
            "{EYES}\nconst own = [...arguments];\nconst end = performance.now() + {LONGEST_WAIT_MS};\n\
             const once = function () {{ {script} }};\n\
             return new Promise((resolve) => {{\n\
               const look = () => {{\n\
                 let found = null;\n\
                 try {{ found = once(...own); }} catch (error) {{ found = null; }}\n\
                 if (found) resolve(found); else if (performance.now() > end) resolve(null); else setTimeout(look, 20);\n\
               }};\n look();\n}});"
        );
        let found = loop {
            match self.driver.execute(script.clone(), arguments.clone()).await {
                // The element was redrawn before its reference arrived.
                Err(error) if matches!(error.as_inner(), WebDriverErrorInner::StaleElementReference(_)) => {}
                found => break found.unwrap(),
            }
        };
        (!found.json().is_null()).then_some(found)
    }

    /// Waits until a text is displayed.
    pub async fn sees(&self, words: &str) {
        self.until_of(
            &format!("“{words}” is shown"),
            "return text().includes(arguments[0])",
            vec![words.into()],
        )
        .await;
    }

    /// Waits until a text is no longer displayed.
    pub async fn misses(&self, words: &str) {
        let what = format!("“{words}” is gone");
        self.until_of(&what, "return !text().includes(arguments[0])", vec![words.into()]).await;
    }

    /// All visible text.
    pub async fn words(&self) -> String {
        self.run("return text()", vec![]).await.as_str().unwrap_or_default().to_owned()
    }

    /// Waits for a visible element.
    pub async fn element(&self, css: &str) -> WebElement {
        self.found(css, "return all(arguments[0])[0]").await
    }

    /// Presses the element with this name, as soon as it can be pressed.
    pub async fn press(&self, name: &str) {
        let button = self.found(name, "return button(arguments[0])").await;
        if let Err(error) = button.click().await {
            // The element may have been redrawn or covered in the meantime.
            let again = self.found(name, "return button(arguments[0])").await;
            again.click().await.unwrap_or_else(|_| panic!("`{name}` cannot be pressed: {error}"));
        }
    }

    /// Attaches a file with this name, as if it was selected in the file dialog.
    pub async fn attach(&self, name: &str, bytes: impl AsRef<[u8]>) {
        let path = tempfile::tempdir_in(self.browser.folder.path()).unwrap().keep().join(name);
        std::fs::write(&path, bytes).unwrap();
        let field = self.driver.find(By::Css("input[type=file]")).await.unwrap();
        field.send_keys(path.to_str().unwrap()).await.unwrap();
    }

    async fn found(&self, name: &str, script: &str) -> WebElement {
        match self.look(script, vec![name.into()]).await {
            Some(found) => found.element().unwrap(),
            None => panic!("there is no `{name}`; the page:\n{}", self.words().await),
        }
    }

    /// Replaces the text of a field.
    pub async fn write(&self, css: &str, words: &str) {
        let field = self.element(css).await;
        // `clear` would remove the focus.
        field.send_keys(Key::Control + "a").await.unwrap();
        field.send_keys(words).await.unwrap();
    }

    /// Types into the focused element.
    pub async fn types(&self, keys: impl Into<TypingData>) {
        self.driver.action_chain().send_keys(keys).perform().await.unwrap();
    }

    /// Writes a message and sends it with Enter.
    pub async fn say(&self, words: &str) {
        let field = self.element("[data-key=composer]").await;
        field.send_keys(words).await.unwrap();
        field.send_keys(Key::Enter + "").await.unwrap();
    }

    /// The id of the displayed conversation.
    pub async fn thread(&self) -> String {
        let path =
            self.until("a conversation is shown", "return location.pathname.match('^/chat/(.+)')?.[1]").await;
        path.as_str().unwrap().to_owned()
    }

    /// The number of visible elements.
    pub async fn number_of(&self, css: &str) -> u64 {
        self.run("return all(arguments[0]).length", vec![css.into()]).await.as_u64().unwrap()
    }

    /// Errors in the browser's console, except the expected ones.
    pub async fn complaints(&self, but_for: &[&str]) -> Vec<String> {
        let log = self.driver.browser_log().await.unwrap();
        log.into_iter()
            .filter(|entry| entry.level == "SEVERE" || entry.message.contains("Content Security Policy"))
            .map(|entry| entry.message)
            .filter(|message| !but_for.iter().any(|known| message.contains(known)))
            .collect()
    }

    /// Closes the browser. Asserts that its console has no errors.
    pub async fn ends(self) {
        self.ends_but_for(&[]).await;
    }

    /// Closes the browser after a test with expected errors.
    pub async fn ends_but_for(self, known: &[&str]) {
        let complaints = self.complaints(known).await;
        assert!(complaints.is_empty(), "{complaints:#?}");
        self.browser.quit().await.unwrap();
    }

    /// Sends a DevTools command to the browser.
    pub async fn devtools(&self, command: &str, parameters: Value) -> Value {
        self.browser.devtools(command, parameters).await.unwrap()
    }

    /// The response of an API path to the page's user.
    pub async fn asks(&self, path: &str) -> Value {
        let script = "return fetch('/api/v1' + arguments[0]).then((answer) => answer.json())";
        self.run(script, vec![path.into()]).await
    }
}
