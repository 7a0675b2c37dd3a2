//! What a model is told of the mode that its run is in, and what stands for the tools that the mode withholds.
//!
//! It says and shows; that nothing withheld is run is decided elsewhere, whatever a model was shown.

use std::borrow::Cow;

use serde_json::json;

use crate::agent::ToolSpec;
use crate::mode::Mode;

/// The part of the instructions that is about the mode; none where everything may be done.
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
    /// The tool as it is shown in a mode: one that the mode withholds keeps its name, so that the model knows of it, and
    /// nothing else of it.
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
