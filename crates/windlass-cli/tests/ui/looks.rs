//! Checks a displayed page in each appearance without a reload: light, dark and phone. In each of them it must pass the
//! accessibility check and fit the width, and it gets a screenshot.

use std::sync::Mutex;

use serde_json::json;

use super::feel::{axe, barriers, nothing_sticks_out};
use super::page::Page;
use super::pictures::take;

/// The name of an appearance, its theme, and the window's width and height.
const LOOKS: &[(&str, &str, u32, u32)] =
    &[("light", "light", 1280, 860), ("dark", "dark", 1280, 860), ("phone", "light", 360, 740)];

/// Sets the theme in the page's settings, and hides the sidebar on a phone. Pages rendered by the server follow the
/// system's theme only.
const WEAR: &str = "
    const [theme, isNarrow] = arguments;
    if (!document.querySelector('.shell, .login')) return true;
    return module('state/look.js').then((look) => {
        look.theme.value = theme;
        look.sidebar.value = isNarrow && !document.querySelector('.sidebar dialog[open]') ? 'closed' : 'open';
        return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))));
    });";

const DIALOGS_FIT: &str = "return all('dialog[open]').every((one) => {
        const box = one.getBoundingClientRect();
        return box.left >= 0 && box.right <= 361 && one.scrollWidth <= one.clientWidth;
    })";

/// Collects the violations of all checked pages.
pub struct Looks {
    axe: String,
    /// Prefix of the screenshots' names.
    prefix: &'static str,
    found: Mutex<Vec<String>>,
}

impl Looks {
    pub fn named(prefix: &'static str) -> Self {
        Self { axe: axe(), prefix, found: Mutex::default() }
    }

    /// Checks the displayed page without changing it.
    pub async fn judge(&self, page: &Page, what: &str) {
        page.until("it is whole", "return document.querySelectorAll('[aria-busy=true]').length === 0").await;
        for (look, theme, width, height) in LOOKS {
            wear(page, theme, *width, *height).await;
            if *look == "phone" {
                nothing_sticks_out(page, what).await;
                assert_eq!(page.run(DIALOGS_FIT, vec![]).await, true, "{what} is wider than a phone");
            } else {
                let new = barriers(page, &self.axe).await;
                let new = new.into_iter().map(|one| format!("{look}, {what}: {one}"));
                self.found.lock().unwrap().extend(new);
            }
            take(page, &format!("{}-{look}-{}", self.prefix, file_name(what))).await;
        }
        wear(page, "light", 1280, 860).await;
    }

    /// Asserts that no page had violations.
    pub fn end(self) {
        let found = self.found.into_inner().unwrap();
        assert!(found.is_empty(), "{found:#?}");
    }
}

/// Applies an appearance to the displayed page.
pub async fn wear(page: &Page, theme: &str, width: u32, height: u32) {
    let is_narrow = width < 500;
    let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": is_narrow});
    page.devtools("Emulation.setDeviceMetricsOverride", size).await;
    // Disables transitions, because an intermediate frame shows neither appearance.
    let features = json!({"features": [
        {"name": "prefers-color-scheme", "value": theme},
        {"name": "prefers-reduced-motion", "value": "reduce"},
    ]});
    page.devtools("Emulation.setEmulatedMedia", features).await;
    page.run(WEAR, vec![theme.into(), is_narrow.into()]).await;
}

fn file_name(what: &str) -> String {
    let words = what.split(|sign: char| !sign.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-").to_lowercase()
}
