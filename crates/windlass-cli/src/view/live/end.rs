//! Prints the outcome of a run: its answer, or its error with hints, and its figures.

use windlass::{Figures, Outcome, Status};
use windlass_server::text::shown;

use super::{Line, Live, Show};
use crate::view::call::seconds;
use crate::view::preview::plural;

impl Live {
    /// Prints the final outcome of the run.
    pub fn end(&mut self, outcome: &Outcome) {
        let paint = self.console.paint;
        let text = outcome.output.as_deref().unwrap_or_default();
        let is_shown = self.answer == text;
        self.start(Line::Empty);
        match (self.show, outcome.status) {
            (Show::Terminal, Status::Done) if !is_shown => self.text(text),
            (Show::Answer, Status::Done) => {
                self.console.out(text);
                if !text.ends_with('\n') {
                    self.console.out("\n");
                }
            }
            (Show::Terminal | Show::Answer | Show::Progress, _) => {}
        }
        self.start(Line::Empty);
        for error in &outcome.errors {
            let line = format!("{} (`{}`)", shown(&error.message), error.code);
            if outcome.status == Status::Cancelled {
                self.note(&paint.yellow("cancelled"));
            } else {
                self.note(&format!("{} {line}", paint.red("failed:")));
                self.hint(&error.code, &error.message);
            }
        }
        let Figures { steps, calls, tokens, cost, duration_ms, .. } = outcome.figures;
        let mut figures = vec![
            format!("{steps} {}", plural(steps as usize, "step")),
            format!("{calls} {}", plural(calls as usize, "call")),
        ];
        if let (Some(input), Some(output)) = (tokens.input, tokens.output) {
            figures.push(format!("{input} + {output} tokens"));
        }
        if let Some(cost) = cost.filter(|cost| cost.0 > 0) {
            figures.push(format!("${:.4}", cost.0 as f64 / 1e6));
        }
        figures.push(seconds(duration_ms));
        self.note(&paint.dim(&figures.join(" · ")));
        self.pause();
    }

    fn hint(&self, code: &str, message: &str) {
        let hint = match code {
            "ERR_API" if message.starts_with("cannot reach ") => {
                "check the address (`--base-url`), that a server listens there, and the network"
            }
            "ERR_STREAM_PARSE" => {
                "check the address (`--base-url`): the server there may not be a model endpoint"
            }
            "ERR_AUTH" => "check the provider's key; `windlass doctor` shows which keys are found",
            "ERR_MAX_TURNS" => "raise `--max-steps`, or split the task",
            "ERR_CONFIG" => "`windlass doctor` shows the cause",
            "ERR_RATE_LIMIT" | "ERR_API_OVERLOADED" | "ERR_API" | "ERR_STREAM_INCOMPLETE" => {
                "try again later, or name a fallback in `agent.models`"
            }
            _ => return,
        };
        self.console.hint(hint);
    }
}
