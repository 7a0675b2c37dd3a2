//! Prompts for the limits of a grant, one after the other.

use windlass::machine::{Answer, Condition, Predicate, Timestamp, ToolName};
use windlass_server::policy::Length;

use super::{Asking, Reply, Stage};
use crate::console::Console;
use crate::view::call::span;
use crate::view::preview::plural;

/// A grant that the user requests.
#[derive(Clone, Debug)]
pub struct GrantWish {
    pub tool: ToolName,
    /// Conditions on the arguments; empty for any.
    pub arguments: Vec<Condition>,
    /// Maximum number of calls; `None` means unlimited.
    pub count: Option<u32>,
    /// Duration of the grant; `None` means unlimited.
    pub lasts: Option<Length>,
}

impl GrantWish {
    pub fn expires_at(&self, now: Timestamp) -> Option<Timestamp> {
        self.lasts.map(|lasts| now.plus_ms(lasts.0))
    }

    /// Describes the grant in one line.
    pub fn said(&self) -> String {
        let count = match self.count {
            Some(count) => format!("{count} {}", plural(count as usize, "call")),
            None => "unlimited calls".to_owned(),
        };
        let lasts = self.lasts.map_or("no expiry".to_owned(), |lasts| format!("for {}", span(lasts.0)));
        let which = if self.arguments.is_empty() { "any arguments" } else { "exactly these arguments" };
        format!("granted: {count} of `{}`, {lasts}, {which}", self.tool)
    }
}

impl Asking {
    pub(super) fn take_grant(&mut self, console: &Console, stage: Stage, text: &str) -> Reply {
        match (stage, text) {
            (Stage::GrantCount, "") => self.stage = Stage::GrantTime(self.wish(None)),
            (Stage::GrantCount, text) => match text.parse::<u32>() {
                Ok(count @ 1..) => self.stage = Stage::GrantTime(self.wish(Some(count))),
                Ok(0) | Err(_) => self.stage = Stage::GrantCount,
            },
            (Stage::GrantTime(wish), "") => self.stage = Stage::GrantScope(wish),
            (Stage::GrantTime(wish), text) => match text.parse::<Length>() {
                Ok(lasts) => self.stage = Stage::GrantScope(GrantWish { lasts: Some(lasts), ..wish }),
                Err(_) => self.stage = Stage::GrantTime(wish),
            },
            (Stage::GrantScope(wish), "" | "e" | "exactly") => {
                let arguments = self.exactly();
                return self.granted(console, GrantWish { arguments, ..wish });
            }
            (Stage::GrantScope(wish), "a" | "any") => return self.granted(console, wish),
            (stage, _) => self.stage = stage,
        }
        self.again(console)
    }

    fn wish(&self, count: Option<u32>) -> GrantWish {
        let tool = self.item().and_then(|item| item.open.tool.as_deref()).unwrap_or_default();
        GrantWish { tool: ToolName::from(tool), arguments: Vec::new(), count, lasts: None }
    }

    /// Returns conditions that require exactly the call's arguments.
    fn exactly(&self) -> Vec<Condition> {
        let text = self.item().and_then(|item| item.open.arguments.as_deref()).unwrap_or_default();
        let value = serde_json::from_str(text).unwrap_or_default();
        vec![Condition { argument: String::new(), is: Predicate::Equals(value) }]
    }

    fn granted(&mut self, console: &Console, wish: GrantWish) -> Reply {
        match self.item() {
            Some(item) => Reply::Grant(wish, item.given(Answer::Approve)),
            None => self.again(console),
        }
    }
}
