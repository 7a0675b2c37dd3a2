//! Modes: the calls that a run may make. Rules, grants and people cannot allow more. (ZE-E15, ZE-H12)
//!
//! | Calls | `agent` | `ask` | `plan` |
//! |---|---|---|---|
//! | that change something | yes | no | no |
//! | that only read: files, the web, services, servers, lists of the thread | yes | yes | yes |
//! | that read memory | yes | no | yes |
//! | that ask people | yes | no | yes |
//! | of commands, browsers and desktops, also those that only read | yes | no | no |
//!
//! A mode is checked before the gate and allows no call on its own. A separate setting determines which calls run
//! without asking: [`AutoRun`](crate::policy::AutoRun).

use serde::{Deserialize, Serialize};

use crate::id::ToolName;

/// Purpose of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Carry out tasks, with every tool.
    #[default]
    Agent,
    /// Answer questions: tools that only read, without memory and without questions to people.
    Ask,
    /// Make a plan: tools that only read, including memory and questions to people.
    Plan,
}

/// Subject area of a tool, as distinguished by modes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Area {
    /// Files, services, servers, the web, lists: everything not listed below.
    #[default]
    Work,
    /// Memory beyond the thread.
    Memory,
    /// Questions to people.
    People,
    /// The machine itself: commands, a browser, a desktop. Observing the
    /// machine is not a read, because it shows the user's activity.
    Machine,
}

impl Mode {
    /// All modes.
    pub const ALL: [Self; 3] = [Self::Agent, Self::Ask, Self::Plan];

    /// Returns the mode's name.
    pub fn word(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Ask => "ask",
            Self::Plan => "plan",
        }
    }

    /// Whether the mode has calls of an area; `reads` is whether the calls only read.
    pub fn has(self, area: Area, reads: bool) -> bool {
        match (self, area) {
            (Self::Agent, _) => true,
            (Self::Ask, Area::Work) | (Self::Plan, Area::Work | Area::Memory | Area::People) => reads,
            (Self::Ask, Area::Memory | Area::People | Area::Machine) | (Self::Plan, Area::Machine) => false,
        }
    }

    /// Returns the source of the verdict, for a call that is denied because of the mode.
    pub(crate) fn label(self) -> String {
        format!("mode {}", self.word())
    }

    /// Explains to the model why a call was not run, and which modes allow it.
    pub(crate) fn refusal(self, tool: &ToolName, area: Area, reads: bool) -> String {
        let having = Self::ALL.into_iter().filter(|mode| mode.has(area, reads));
        let having: Vec<String> = having.map(|mode| format!("`{}`", mode.word())).collect();
        let what = if reads { "has no such calls" } else { "changes nothing" };
        format!(
            "Not run: the mode `{}` {what}. `{tool}` is there for this in the mode {}. Do not retry it: say what you \
             would do with it, and that the user can choose that mode for their next message",
            self.word(),
            having.join(" or ")
        )
    }
}

impl std::str::FromStr for Mode {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|mode| mode.word() == word);
        known.ok_or_else(|| format!("`{word}` is no mode; the modes are `agent`, `ask` and `plan`"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // rows: ZE-H12, ZE-E15
    #[test]
    fn the_table_of_tools_and_modes() {
        let table = [
            // Description, area, whether the call only reads, and the modes that have it.
            ("files, services, servers", Area::Work, false, "agent"),
            ("the same, only reading; the todo list; web search", Area::Work, true, "agent ask plan"),
            ("writing to memory", Area::Memory, false, "agent"),
            ("reading memory", Area::Memory, true, "agent plan"),
            ("questions to people", Area::People, true, "agent plan"),
            ("commands, browsers, desktops", Area::Machine, false, "agent"),
            ("what a command has said", Area::Machine, true, "agent"),
        ];
        for (what, area, reads, modes) in table {
            let having: Vec<_> = Mode::ALL.into_iter().filter(|mode| mode.has(area, reads)).collect();
            let words: Vec<_> = having.iter().map(|mode| mode.word()).collect();
            assert_eq!(words.join(" "), modes, "{what}");
        }
    }

    #[test]
    fn modes_are_read_by_their_words() {
        for mode in Mode::ALL {
            assert_eq!(mode.word().parse(), Ok(mode));
        }
        assert_eq!(
            "Ask".parse::<Mode>().unwrap_err(),
            "`Ask` is no mode; the modes are `agent`, `ask` and `plan`"
        );
    }
}
