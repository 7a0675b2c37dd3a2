//! Stores the outputs of tools in a chat for `/output`.

use std::collections::VecDeque;

/// Maximum number of stored outputs.
const OUTPUTS_MAX: usize = 100;

/// Maximum number of bytes stored of each output.
const OUTPUT_MAX_BYTES: usize = 256 * 1024;

/// The newest outputs, each with the label of its call.
#[derive(Debug, Default)]
pub struct Outputs {
    kept: VecDeque<(String, String)>,
    /// Number of dropped outputs, which precede the first stored one.
    dropped: usize,
}

impl Outputs {
    pub fn keep(&mut self, label: &str, text: &str) -> usize {
        let end = (0..=text.len().min(OUTPUT_MAX_BYTES)).rev().find(|at| text.is_char_boundary(*at));
        self.kept.push_back((label.to_owned(), text[..end.unwrap_or_default()].to_owned()));
        if self.kept.len() > OUTPUTS_MAX {
            self.kept.pop_front();
            self.dropped += 1;
        }
        self.dropped + self.kept.len()
    }

    /// Returns an output by its number, or the newest one for `None`.
    pub fn get(&self, number: Option<usize>) -> Option<(String, String)> {
        match number {
            Some(number) => self.kept.get(number.checked_sub(self.dropped + 1)?).cloned(),
            None => self.kept.back().cloned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_outputs_are_kept_under_their_numbers() {
        let mut outputs = Outputs::default();
        let numbers: Vec<usize> = (0..103).map(|nth| outputs.keep(&format!("call {nth}"), "text")).collect();
        assert_eq!((numbers[0], numbers[102]), (1, 103));
        let label = |number| outputs.get(number).map(|(label, _)| label);
        assert_eq!((label(Some(3)), label(Some(4))), (None, Some("call 3".into())));
        assert_eq!((label(Some(104)), label(None)), (None, Some("call 102".into())));
    }
}
