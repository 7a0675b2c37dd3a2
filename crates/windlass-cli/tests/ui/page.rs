//! A browser on the server's pages: Debian's Chromium without a window, driven over WebDriver.
//!
//! Every wait is for something that the page shows, and bounded. A page that wrote an error to its console, or tried
//! what its policy forbids, has failed, whatever it shows.

use std::ops::Deref;

use serde_json::Value;
use thirtyfour::error::WebDriverErrorInner;
use thirtyfour::prelude::*;
use thirtyfour::{Key, TypingData};
use windlass_bench::browser::BrowserPage;

use crate::http::Server;

/// As long as the slowest machine may take for one thing to be shown.
const LONGEST_WAIT_MS: u64 = 60_000;

/// What the scripts of the tests look with: who sees is a person, so that only what is shown counts.
const EYES: &str = r"
    const shown = (one) => one.checkVisibility({ visibilityProperty: true }) && one.getClientRects().length > 0;
    const named = (one) => (one.getAttribute('aria-label') ?? (one.innerText || one.value || '')).trim().replace(/\s+/g, ' ');
    const all = (css) => [...document.querySelectorAll(css)].filter(shown);
    const button = (name) => all('button, a, summary, label, [role=tab], option').find((one) => !one.disabled && named(one) === name);
    const text = () => document.body.innerText;
    const module = (path) => import(new URL(path, document.querySelector('script[type=module]').src).href);
";

/// A page in an empty context of the lane's browser.
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
    /// Opens a browser that has no session with this server yet.
    pub async fn open(server: &Server) -> Self {
        Self::open_at(&server.address).await
    }

    /// The same for a server at an address.
    pub async fn open_at(address: &str) -> Self {
        Self { address: address.to_owned(), browser: BrowserPage::open().await.unwrap() }
    }

    /// Opens a browser in which the local administrator has signed in by a one-time link.
    pub async fn signed_in(server: &Server) -> Self {
        let mut page = Self::open(server).await;
        page.signs_in(server).await;
        page
    }

    /// Goes to a server, which may be another one than before, and signs in there in the same way.
    pub async fn signs_in(&mut self, server: &Server) {
        self.address.clone_from(&server.address);
        let said = server.user.run(&["admin", "link", "--address", &server.address]).exits(0);
        self.driver.goto(said.out.trim()).await.unwrap();
        self.driver.find(By::Tag("button")).await.unwrap().click().await.unwrap();
        self.until("there is a composer", "return document.querySelector('[data-key=composer]')").await;
    }

    /// Leaves the pages of the server, before that ends.
    pub async fn leaves(&self) {
        self.driver.goto("about:blank").await.unwrap();
    }

    /// Goes to a path as a fresh page.
    pub async fn go(&self, path: &str) {
        self.driver.goto(format!("{}{path}", self.address)).await.unwrap();
    }

    /// What a script returns, which may look with [`EYES`].
    pub async fn run(&self, script: &str, arguments: Vec<Value>) -> Value {
        let script = format!("{EYES}\n{script}");
        self.driver.execute(script, arguments).await.unwrap().json().clone()
    }

    /// Waits in the page until a script returns something that counts as true.
    pub async fn until(&self, what: &str, script: &str) -> Value {
        self.until_of(what, script, vec![]).await
    }

    /// The same for a script with arguments.
    pub async fn until_of(&self, what: &str, script: &str, arguments: Vec<Value>) -> Value {
        let found = self.look(script, arguments).await;
        match found {
            Some(found) => found.json().clone(),
            None => panic!("never: {what}; the page:\n{}", self.words().await),
        }
    }

    /// Waits until a script that changes nothing returns a value: what an event brings may be drawn after what was
    /// waited for.
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
                // It was drawn anew on its way here.
                Err(error) if matches!(error.as_inner(), WebDriverErrorInner::StaleElementReference(_)) => {}
                found => break found.unwrap(),
            }
        };
        (!found.json().is_null()).then_some(found)
    }

    /// Waits until a text is shown.
    pub async fn sees(&self, words: &str) {
        self.until_of(
            &format!("“{words}” is shown"),
            "return text().includes(arguments[0])",
            vec![words.into()],
        )
        .await;
    }

    /// Waits until a text is not shown any more.
    pub async fn misses(&self, words: &str) {
        let what = format!("“{words}” is gone");
        self.until_of(&what, "return !text().includes(arguments[0])", vec![words.into()]).await;
    }

    /// All that is shown, as text.
    pub async fn words(&self) -> String {
        self.run("return text()", vec![]).await.as_str().unwrap_or_default().to_owned()
    }

    /// Waits for an element that can be seen.
    pub async fn element(&self, css: &str) -> WebElement {
        self.found(css, "return all(arguments[0])[0]").await
    }

    /// Presses what bears this name, once it can be pressed.
    pub async fn press(&self, name: &str) {
        let button = self.found(name, "return button(arguments[0])").await;
        if let Err(error) = button.click().await {
            // It may have been drawn anew meanwhile, or something slid over it.
            let again = self.found(name, "return button(arguments[0])").await;
            again.click().await.unwrap_or_else(|_| panic!("`{name}` cannot be pressed: {error}"));
        }
    }

    /// Attaches a file of this name, as somebody who chooses it in the dialog for files.
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

    /// Writes into a field, in place of what is there.
    pub async fn write(&self, css: &str, words: &str) {
        let field = self.element(css).await;
        // Not `clear`, which takes the focus away.
        field.send_keys(Key::Control + "a").await.unwrap();
        field.send_keys(words).await.unwrap();
    }

    /// Types into whatever has the focus.
    pub async fn types(&self, keys: impl Into<TypingData>) {
        self.driver.action_chain().send_keys(keys).perform().await.unwrap();
    }

    /// Writes a message and sends it by the key.
    pub async fn say(&self, words: &str) {
        let field = self.element("[data-key=composer]").await;
        field.send_keys(words).await.unwrap();
        field.send_keys(Key::Enter + "").await.unwrap();
    }

    /// The thread whose conversation is shown.
    pub async fn thread(&self) -> String {
        let path =
            self.until("a conversation is shown", "return location.pathname.match('^/chat/(.+)')?.[1]").await;
        path.as_str().unwrap().to_owned()
    }

    /// How many elements there are that can be seen.
    pub async fn number_of(&self, css: &str) -> u64 {
        self.run("return all(arguments[0]).length", vec![css.into()]).await.as_u64().unwrap()
    }

    /// What the browser's console has, but for what is looked for in vain on purpose.
    pub async fn complaints(&self, but_for: &[&str]) -> Vec<String> {
        let log = self.driver.browser_log().await.unwrap();
        log.into_iter()
            .filter(|entry| entry.level == "SEVERE" || entry.message.contains("Content Security Policy"))
            .map(|entry| entry.message)
            .filter(|message| !but_for.iter().any(|known| message.contains(known)))
            .collect()
    }

    /// Ends the browser: nothing has gone wrong on the way that the page did not show.
    pub async fn ends(self) {
        self.ends_but_for(&[]).await;
    }

    /// The same where some requests had to fail.
    pub async fn ends_but_for(self, known: &[&str]) {
        let complaints = self.complaints(known).await;
        assert!(complaints.is_empty(), "{complaints:#?}");
        self.browser.quit().await.unwrap();
    }

    /// Asks the browser itself for something that no page can do.
    pub async fn devtools(&self, command: &str, parameters: Value) -> Value {
        self.browser.devtools(command, parameters).await.unwrap()
    }

    /// What an API path answers to the person in the page.
    pub async fn asks(&self, path: &str) -> Value {
        let script = "return fetch('/api/v1' + arguments[0]).then((answer) => answer.json())";
        self.run(script, vec![path.into()]).await
    }
}
