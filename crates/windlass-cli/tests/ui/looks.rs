//! Whatever is shown, in each of its looks without loading it anew: in light, in the dark and as narrow as a phone. In
//! none of them anything keeps anybody out or sticks out, and each has its picture for people to look at.

use std::sync::Mutex;

use serde_json::json;

use super::feel::{axe, barriers, nothing_sticks_out};
use super::page::Page;
use super::pictures::take;

/// A look's name, its theme, and the window's width and height.
const LOOKS: &[(&str, &str, u32, u32)] =
    &[("light", "light", 1280, 860), ("dark", "dark", 1280, 860), ("phone", "light", 360, 740)];

/// Has the page look as its reader has chosen; on a phone its sidebar is out of the way. Pages that are the server's own
/// go by the system alone.
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

/// Judges what it is shown, and remembers what was wrong.
pub struct Looks {
    axe: String,
    /// What the names of its pictures begin with.
    prefix: &'static str,
    found: Mutex<Vec<String>>,
}

impl Looks {
    pub fn named(prefix: &'static str) -> Self {
        Self { axe: axe(), prefix, found: Mutex::default() }
    }

    /// Looks at what is shown now, which nothing changes.
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

    /// Nothing of what was judged keeps anybody out.
    pub fn end(self) {
        let found = self.found.into_inner().unwrap();
        assert!(found.is_empty(), "{found:#?}");
    }
}

/// Puts a look on the page that is shown.
pub async fn wear(page: &Page, theme: &str, width: u32, height: u32) {
    let is_narrow = width < 500;
    let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": is_narrow});
    page.devtools("Emulation.setDeviceMetricsOverride", size).await;
    // What moves on its way from one look to the other is neither.
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
