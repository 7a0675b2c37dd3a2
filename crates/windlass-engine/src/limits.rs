//! Budgets that outlast a run: money, tokens and steps of a user, a workspace or a thread, in total or per day.
//!
//! This module defines the counted units; the store keeps the counts.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use windlass_machine::{Approver, Principal, RunId, ThreadId, Timestamp};

use crate::port::budget::part;

/// An upper limit on the combined usage of a set of runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// The set of runs that shares the budget.
    pub per: Per,
    /// The unit that the budget counts.
    pub unit: Unit,
    /// The period after which the count restarts.
    #[serde(default)]
    pub window: Window,
    /// The limit: millionths of a US dollar, tokens, or steps. 0 allows nothing.
    pub cap: u64,
    /// The approvers that may raise the limit for a run. Empty: everyone who may answer in the thread.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub approvers: BTreeSet<Approver>,
}

/// The set of runs that shares a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Per {
    /// Each run has its own budget.
    Run,
    /// All runs of a thread share the budget.
    Thread,
    /// All runs that work for a user share the budget.
    User,
    /// All runs of a workspace share the budget.
    Workspace,
}

/// The unit that a budget counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Millionths of a US dollar, by list prices.
    Usd,
    /// Tokens of prompts and replies.
    Tokens,
    /// Steps: model calls, with the tool calls that they request.
    Steps,
}

/// The period of a budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Window {
    /// No period: the count never restarts. A user's credit is such a budget.
    #[default]
    Total,
    /// A calendar day in UTC.
    Day,
}

/// The identities from which the names of a run's budgets derive, and the current time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Drawing<'a> {
    pub workspace: &'a str,
    pub user: &'a Principal,
    pub thread: &'a ThreadId,
    pub run: &'a RunId,
    pub now: Timestamp,
}

impl Budget {
    /// Creates the budget for a user's credit, in millionths of a US dollar.
    pub(crate) fn credit(cap: u64) -> Self {
        Self { per: Per::User, unit: Unit::Usd, window: Window::Total, cap, approvers: BTreeSet::new() }
    }

    /// Returns the budget's name in the store. Names of different workspaces never collide.
    pub(crate) fn name(&self, by: Drawing<'_>) -> String {
        let (per, whose) = match self.per {
            Per::Run => ("run", by.run.as_str()),
            Per::Thread => ("thread", by.thread.as_str()),
            Per::User => ("user", by.user.as_str()),
            Per::Workspace => ("workspace", ""),
        };
        let unit = self.unit.name();
        let day = match self.window {
            Window::Total => String::new(),
            Window::Day => format!("/{}", day(by.now)),
        };
        format!("{}/{per}/{}/{unit}{day}", part(by.workspace), part(whose))
    }
}

impl Unit {
    fn name(self) -> &'static str {
        match self {
            Self::Usd => "usd",
            Self::Tokens => "tokens",
            Self::Steps => "steps",
        }
    }
}

/// Formats the UTC day of a time, such as `2026-11-21`. (Civil from days, H. Hinnant)
fn day(at: Timestamp) -> String {
    let days = (at.0 / 86_400_000) as i64 + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        for (ms, wanted) in [
            (0, "1970-01-01"),
            (86_399_999, "1970-01-01"),
            (951_782_400_000, "2000-02-29"),
            (1_709_164_800_000, "2024-02-29"),
            (1_795_219_200_000, "2026-11-21"),
            (4_107_542_400_000, "2100-03-01"),
        ] {
            assert_eq!(day(Timestamp(ms)), wanted);
        }
    }

    #[test]
    fn no_two_workspaces_or_users_share_a_budget() {
        let budget = Budget {
            per: Per::User,
            unit: Unit::Usd,
            window: Window::Day,
            cap: 1,
            approvers: BTreeSet::new(),
        };
        let name = |workspace: &str, user: &str| {
            let (user, thread, run) = (user.into(), "t".into(), "r".into());
            let now = Timestamp(0);
            budget.name(Drawing { workspace, user: &user, thread: &thread, run: &run, now })
        };
        assert_eq!(name("w", "ann"), "w/user/ann/usd/1970-01-01");
        assert_ne!(name("w/user", "ann"), name("w", "user/ann"));
        assert_ne!(name("w", "a%2Fb"), name("w", "a/b"));
    }
}
