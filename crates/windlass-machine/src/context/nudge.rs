//! Texts from the engine to the model, and texts to a person in place of the model's.
//!
//! The decisions in `on/` use these texts; this module has only the texts and the maximum numbers of retries.

use crate::event::StepMode;

/// Maximum number of empty replies that are retried; the next empty reply ends the run. (WT-L9)
pub const EMPTY_RETRIES: u32 = 4;

/// Maximum number of consecutive replies that may hit the output maximum; the next such reply ends the run. (LM-L4)
pub const OVERRUN_RETRIES: u32 = 3;

/// Text for a person if the model gave no answer. (WT-L10)
pub const SILENT: &str = "I hit a temporary generation issue while finishing that request. \
    Please reply with \"continue\" and I will resume from the last step.";

/// Text for a person if even the plain answer failed. (WT-L12)
pub const LAST_RESORT: &str =
    "I'm here! Something went wrong on my side\u{2014}please try again or rephrase.";

/// Instruction to the model when no steps are left. (WT-L11)
pub const ANSWER_NOW: &str = "No more steps are left. Answer now from what is known so far, without calling tools, \
    and say what is still open.";

/// Returns the user text that a new step of this mode adds to the history. The text is recorded with the step, so
/// that a later build sends the recorded text.
pub fn text(mode: StepMode) -> Option<&'static str> {
    match mode {
        StepMode::Plain | StepMode::Fallback => None,
        StepMode::AfterEmpty(times) if times >= EMPTY_RETRIES => Some(
            "You repeatedly returned an empty response. Answer now: either call a tool or write the final answer \
             as text.",
        ),
        StepMode::AfterEmpty(_) => {
            Some("Your last response was empty. Please go on: call a tool or write the answer.")
        }
        StepMode::Continue => Some(
            "Your last response reached the output limit. Go on exactly where it stopped, without repeating.",
        ),
        StepMode::Smaller => Some(
            "Your last response reached the output limit before its tool call was complete, so nothing was run. \
             Split the work into smaller calls.",
        ),
    }
}
