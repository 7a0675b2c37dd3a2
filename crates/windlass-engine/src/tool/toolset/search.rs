//! Search in the names and descriptions of tools: BM25 with the usual constants.
//!
//! Words are split at everything except letters and digits, and between a lower-case and an upper-case letter. The
//! words of a name have three times the weight, because a name is more specific than a sentence. (Robertson and
//! Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009)

use std::collections::HashMap;

use windlass_machine::{ToolName, ToolSpec};

/// Saturation of repeated words.
const K1: f64 = 1.2;
/// Strength of the normalisation by length.
const B: f64 = 0.75;
/// Weight of a name's words.
const NAME_COUNTS: u32 = 3;

#[derive(Default)]
pub(super) struct Index {
    names: Vec<ToolName>,
    lengths: Vec<u32>,
    mean_length: f64,
    /// For each word, the tools that contain it, with the number of occurrences.
    postings: HashMap<String, Vec<(u32, u32)>>,
}

impl Index {
    pub fn of<'a>(specs: impl Iterator<Item = &'a ToolSpec>) -> Self {
        let mut index = Self::default();
        for spec in specs {
            let at = index.names.len() as u32;
            let mut counts: HashMap<String, u32> = HashMap::new();
            words(spec.name.as_str()).for_each(|word| *counts.entry(word).or_default() += NAME_COUNTS);
            words(&spec.description).for_each(|word| *counts.entry(word).or_default() += 1);
            index.lengths.push(counts.values().sum());
            index.names.push(spec.name.clone());
            for (word, count) in counts {
                index.postings.entry(word).or_default().push((at, count));
            }
        }
        let all: u64 = index.lengths.iter().map(|length| u64::from(*length)).sum();
        index.mean_length = all as f64 / index.lengths.len().max(1) as f64;
        index
    }

    /// Returns the tools that match a query, best first; equal scores are ordered by name.
    pub fn search(&self, query: &str, limit: usize) -> Vec<&ToolName> {
        let mut scores: HashMap<u32, f64> = HashMap::new();
        for word in words(query) {
            let Some(posting) = self.postings.get(&word) else { continue };
            let (have, all) = (posting.len() as f64, self.names.len() as f64);
            let rarity = ((all - have + 0.5) / (have + 0.5) + 1.0).ln();
            for (at, count) in posting {
                let length = f64::from(self.lengths[*at as usize]) / self.mean_length;
                let count = f64::from(*count);
                *scores.entry(*at).or_default() +=
                    rarity * count * (K1 + 1.0) / (count + K1 * (1.0 - B + B * length));
            }
        }
        let mut found: Vec<(u32, f64)> = scores.into_iter().collect();
        found.sort_by(|(one, score), (other, better)| better.total_cmp(score).then(one.cmp(other)));
        found.into_iter().take(limit).map(|(at, _)| &self.names[at as usize]).collect()
    }
}

/// Returns the words of a text in lower case, without a plural `s`, so that `pods` finds `pod`.
fn words(text: &str) -> impl Iterator<Item = String> {
    let mut spaced = String::with_capacity(text.len() + 8);
    let mut was_small = false;
    for letter in text.chars() {
        if letter.is_uppercase() && was_small {
            spaced.push(' ');
        }
        was_small = letter.is_lowercase() || letter.is_ascii_digit();
        spaced.push(if letter.is_alphanumeric() { letter } else { ' ' });
    }
    let words: Vec<String> = spaced.split_whitespace().map(|word| singular(word.to_lowercase())).collect();
    words.into_iter()
}

fn singular(mut word: String) -> String {
    if word.len() > 3 && word.ends_with('s') && !word.ends_with("ss") {
        word.pop();
    }
    word
}
