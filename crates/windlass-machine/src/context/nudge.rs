//! Texts that the engine itself says to the model, and those that it says to a person in its place.
//!
//! When each is said is decided in `on/`; here are only the words and how often.

use crate::event::StepMode;

/// Empty replies that are asked again; the next one ends the run. (WT-L9)
pub const EMPTY_RETRIES: u32 = 4;

/// Replies in a row that may hit the output cap; the next one ends the run. (LM-L4)
pub const OVERRUN_RETRIES: u32 = 3;

/// What a person reads when the model stayed silent. (WT-L10)
pub const SILENT: &str = "I hit a temporary generation issue while finishing that request. \
    Please reply with \"continue\" and I will resume from the last step.";

/// What a person reads when even the plain answer failed. (WT-L12)
pub const LAST_RESORT: &str =
    "I'm here! Something went wrong on my side\u{2014}please try again or rephrase.";

/// What the model is told when the steps are used up. (WT-L11)
pub const ANSWER_NOW: &str = "No more steps are left. Answer now from what is known so far, without calling tools, \
    and say what is still open.";

/// The user text that a new step of this mode adds to the history. It is recorded with the step, and that text counts.
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
