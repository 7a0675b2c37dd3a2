//! Counts lines with words that mark a sentence without an actor or a technical verb, in each area of the workspace.
//!
//! CONTRIBUTING describes how prose is written. A marker word can be right in a sentence. Most lines with a marker word
//! are unclear, so the number of such lines must not rise.

use std::collections::BTreeMap;

use super::ratchet::Count;
use super::source::SourceFile;

/// Lower-case marker words and phrases. Underscores of identifiers are compared as blanks.
const MARKERS: &[&str] = &[
    "whoever",
    "nobody",
    "somebody",
    "anew",
    "is told",
    "are told",
    "be told",
    "was told",
    "were told",
    "been told",
    "goes on",
    "go on",
    "went on",
    "gone on",
    "becomes of",
    "became of",
    "turns up",
    "taken up",
    "given back",
    "looked at",
];

/// Files that have to name the marker words.
const EXEMPT: &[&str] = &["xtask/src/tidy/words.rs", "xtask/ratchet.txt", "CONTRIBUTING.md"];

/// Counts the lines with a marker word in each crate and in each other folder at the root.
pub fn markers(files: &[SourceFile]) -> Vec<Count> {
    let mut areas: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in files.iter().filter(|file| !EXEMPT.contains(&file.path.as_str())) {
        let places = areas.entry(area(&file.path)).or_default();
        let marked = file.text.lines().enumerate().filter(|(_, line)| has_marker(line));
        places.extend(marked.map(|(index, _)| format!("{}:{}", file.path, index + 1)));
    }
    let advice = "name the actor and use the technical verb";
    let count = |(area, places)| Count {
        subject: format!("lines with marker words in {area}"),
        limit: 0,
        places,
        advice,
    };
    areas.into_iter().map(count).collect()
}

/// Returns the crate of a file, or its first folder.
fn area(path: &str) -> String {
    let parts: Vec<&str> = path.split('/').collect();
    match parts.as_slice() {
        ["crates", name, ..] => format!("crates/{name}"),
        [folder, _, ..] => (*folder).to_owned(),
        _ => "the root".to_owned(),
    }
}

fn has_marker(line: &str) -> bool {
    let words: Vec<String> = line
        .to_lowercase()
        .split(|char: char| !char.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect();
    let line = format!(" {} ", words.join(" "));
    MARKERS.iter().any(|marker| line.contains(&format!(" {marker} ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_count_in_prose_strings_and_names() {
        assert!(has_marker("/// Nobody reads it."));
        assert!(has_marker("fn nobody_is_told() {}"));
        assert!(has_marker("bail!(\"the run goes on\")"));
        assert!(!has_marker("/// The driver resumes the run."));
        assert!(!has_marker("let renewed = tanew;"));
    }

    #[test]
    fn each_crate_is_an_area() {
        let file = |path: &str| SourceFile::new(path, "a\n// whoever\n");
        let paths = ["crates/a/src/x.rs", "crates/a/src/y.rs", "docs/z.md", "README.md", "CONTRIBUTING.md"];
        let counts = markers(&paths.map(file));
        let found: Vec<(&str, usize)> =
            counts.iter().map(|count| (count.subject.as_str(), count.places.len())).collect();
        let expected = [
            ("lines with marker words in crates/a", 2),
            ("lines with marker words in docs", 1),
            ("lines with marker words in the root", 1),
        ];
        assert_eq!(found, expected);
        assert_eq!(counts[0].places, ["crates/a/src/x.rs:2", "crates/a/src/y.rs:2"]);
    }
}
