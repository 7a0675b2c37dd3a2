//! Texts from the engine to the model, and texts to a person in place of the model's.
//!
//! The decisions in `on/` use them; this module has only the texts and the maximum repetitions.

use crate::event::StepMode;

/// Empty replies that are retried; the next one ends the run. (WT-L9)
pub const EMPTY_RETRIES: u32 = 4;

/// Consecutive replies that may hit the output maximum; the next one ends the run. (LM-L4)
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

/// Returns the user text that a new step of this mode adds to the history. It is recorded with the step, and the
/// recorded text is used later.
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
