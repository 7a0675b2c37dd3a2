//! The representation of a run's mode in a request: instructions, and placeholders for withheld tools.
//!
//! This module only builds texts. The gate prevents withheld calls, even if the model was shown the tool.

use std::borrow::Cow;

use serde_json::json;

use crate::agent::ToolSpec;
use crate::mode::Mode;

/// Returns the part of the instructions about the mode; `None` if the mode withholds nothing.
pub(super) fn instructions(mode: Mode) -> Option<&'static str> {
    match mode {
        Mode::Agent => None,
        Mode::Ask => Some(
            "Mode: ask. Answer, and look up what you need for it; change nothing. Tools that are marked as withheld \
             cannot be called: where a wish needs one, say so, and that the user can choose the mode `agent` for \
             their next message.",
        ),
        Mode::Plan => Some(
            "Mode: plan. Look into the matter, ask where the wish is unclear, and end with a plan: the steps in \
             order, what each changes, and how it is checked. Change nothing yourself. Tools that are marked as \
             withheld cannot be called; the user can have the plan carried out by choosing the mode `agent` for \
             their next message.",
        ),
    }
}

impl ToolSpec {
    /// Returns the tool as shown in a mode. A withheld tool keeps
    /// only its name, so that the model knows that the tool exists.
    pub fn in_mode(&self, mode: Mode) -> Cow<'_, Self> {
        if !self.withheld.contains(&mode) {
            return Cow::Borrowed(self);
        }
        Cow::Owned(Self {
            name: self.name.clone(),
            description: format!("Withheld in mode {}.", mode.word()),
            input_schema: json!({ "type": "object" }),
            annotations: self.annotations,
            withheld: self.withheld.clone(),
        })
    }
}
