//! Finds the rows that tests name: comments of the form `// rows: A-1, B-2` in Rust and JavaScript, and `# rows: A-1`
//! in golden transcripts, which are tests themselves.
//!
//! The same text inside of a string is ignored.

use std::path::Path;

use anyhow::Result;

use crate::tidy::source::SourceFile;
use crate::tree;

/// A row named in a comment.
#[derive(Debug, PartialEq)]
pub struct Mention {
    /// The row's id, as written.
    pub id: String,
    pub path: String,
    /// The line, counted from 1.
    pub line: usize,
    /// Whether the comment is in test code.
    pub is_test: bool,
}

/// Finds all mentions in the workspace.
pub fn in_tree(root: &Path) -> Result<Vec<Mention>> {
    let mut found = Vec::new();
    for path in tree::files(root)? {
        let is_script = path.ends_with(".js") || path.ends_with(".mjs");
        if path.ends_with(".rs") || is_script {
            found.extend(in_file(&SourceFile::new(path.clone(), tree::read(root, &path)?)));
        } else if path.ends_with(".txt") && path.contains("/golden/") {
            found.extend(in_transcript(&path, &tree::read(root, &path)?));
        }
    }
    Ok(found)
}

fn in_file(file: &SourceFile) -> Vec<Mention> {
    let comments = if file.is_rust() { &file.views.comments } else { &file.text };
    let mut found = Vec::new();
    // A module that is compiled only for tests has no marker, but its tests do.
    let code: Vec<&str> = file.text.lines().collect();
    for (index, line) in comments.lines().enumerate() {
        let Some(ids) = line.trim().strip_prefix("// rows:") else { continue };
        for id in ids.split(',') {
            found.push(Mention {
                id: id.trim().to_owned(),
                path: file.path.clone(),
                line: index + 1,
                is_test: is_test(file, index + 1) || is_above_a_test(&code, index),
            });
        }
    }
    found
}

/// Finds the rows that a transcript names because no other test covers them.
fn in_transcript(path: &str, text: &str) -> Vec<Mention> {
    let named = text.lines().enumerate().filter_map(|(index, line)| {
        let ids = line.strip_prefix("# rows:")?;
        let mention = move |id: &str| Mention {
            id: id.trim().to_owned(),
            path: path.to_owned(),
            line: index + 1,
            is_test: true,
        };
        Some(ids.split(',').map(mention))
    });
    named.flatten().collect()
}

/// Whether a comment is directly above a test.
fn is_above_a_test(code: &[&str], index: usize) -> bool {
    let below = code.iter().skip(index + 1).map(|line| line.trim()).find(|line| !line.starts_with("//"));
    below.is_some_and(|line| line.starts_with("#[test]") || line.starts_with("#[tokio::test"))
}

/// Whether a line is test code, including the engine's test kit, whose suites test every store and bus.
fn is_test(file: &SourceFile, line: usize) -> bool {
    let is_kit = file.is_in("crates/windlass-engine/src/testing/");
    let is_script = !file.is_rust() && file.path.contains("test");
    file.is_test_line(line) || is_kit || is_script
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, text: &str, expected: &[(&str, usize, bool)]) {
        let found = in_file(&SourceFile::new(path, text));
        let found: Vec<(&str, usize, bool)> =
            found.iter().map(|mention| (mention.id.as_str(), mention.line, mention.is_test)).collect();
        assert_eq!(found, expected, "{path}\n{text}");
    }

    #[test]
    fn comments_in_tests_name_rows() {
        let text = "#[test]\n// rows: SK-G3, LM-L4\nfn a() {}\n";
        check("crates/windlass/tests/a.rs", text, &[("SK-G3", 2, true), ("LM-L4", 2, true)]);
        check("crates/windlass-engine/src/testing/suite.rs", text, &[("SK-G3", 2, true), ("LM-L4", 2, true)]);
        check("crates/windlass-server/ui/tests/a.js", "  // rows: SK-U1\n", &[("SK-U1", 1, true)]);
    }

    #[test]
    fn a_comment_above_a_test_belongs_to_it() {
        let text = "// rows: SK-G3\n// And more.\n#[tokio::test]\nasync fn a() {}\n";
        check("crates/windlass/src/golden.rs", text, &[("SK-G3", 1, true)]);
        check("crates/windlass/src/golden.rs", "// rows: SK-G3\nfn a() {}\n", &[("SK-G3", 1, false)]);
    }

    #[test]
    fn comments_elsewhere_are_no_tests() {
        check("crates/windlass/src/a.rs", "// rows: SK-G3\n", &[("SK-G3", 1, false)]);
        check("crates/windlass-server/ui/chat.js", "// rows: SK-U1\n", &[("SK-U1", 1, false)]);
    }

    #[test]
    fn a_transcript_names_its_own_rows() {
        let found = in_transcript("tests/golden/a.txt", "# rows: WT-H6, OV-2\n> message \"# rows: SK-G1\"\n");
        let found: Vec<_> = found.iter().map(|it| (it.id.as_str(), it.line, it.is_test)).collect();
        assert_eq!(found, [("WT-H6", 1, true), ("OV-2", 1, true)]);
    }

    #[test]
    fn a_string_names_nothing() {
        check("crates/windlass/tests/a.rs", "let a = \"\n// rows: SK-G3\n\";\n", &[]);
    }

    #[test]
    fn an_empty_list_is_not_passed_over() {
        check("crates/windlass/tests/a.rs", "// rows:\n", &[("", 1, true)]);
    }
}
