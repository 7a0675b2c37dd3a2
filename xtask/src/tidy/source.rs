//! A file as input of the rules: its text, its views, and which of its lines are test code.
//!
//! Only Rust files have views; for other files the rules use the text.

use super::lexer::{self, Views};

/// A file of the workspace.
pub struct SourceFile {
    /// The path relative to the root of the workspace, separated by `/`.
    pub path: String,
    pub text: String,
    /// The views of a Rust file; empty for any other file.
    pub views: Views,
    /// For each line, whether it is under `#[cfg(test)]`.
    test_lines: Vec<bool>,
}

impl SourceFile {
    /// Prepares a file for the rules.
    pub fn new(path: impl Into<String>, text: impl Into<String>) -> Self {
        let (path, text) = (path.into(), text.into());
        let views = if path.ends_with(".rs") { lexer::views(&text) } else { Views::default() };
        let test_lines = test_lines(&views.code);
        Self { path, text, views, test_lines }
    }

    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Whether the file is in a folder, given with a final `/`, or is the folder's module file.
    pub fn is_in(&self, folder: &str) -> bool {
        self.path.starts_with(folder) || self.path.strip_suffix(".rs") == Some(folder.trim_end_matches('/'))
    }

    /// Whether the path contains a folder with this name.
    pub fn has_folder(&self, name: &str) -> bool {
        self.path.split('/').rev().skip(1).any(|part| part == name)
    }

    /// Returns the file's name without its extension.
    pub fn stem(&self) -> &str {
        let name = self.path.rsplit('/').next().unwrap_or(&self.path);
        name.split('.').next().unwrap_or(name)
    }

    /// Whether the path makes the whole file test code.
    pub fn is_test_file(&self) -> bool {
        self.has_folder("tests") || self.has_folder("benches") || self.stem() == "tests"
    }

    /// Whether a line, counted from 1, is test code.
    pub fn is_test_line(&self, line: usize) -> bool {
        self.is_test_file() || self.test_lines.get(line - 1).copied().unwrap_or(false)
    }

    /// Returns the line, counted from 1, of a byte position in the code view.
    pub fn line_of(&self, at: usize) -> usize {
        self.views.code[..at].matches('\n').count() + 1
    }

    /// Whether a line has `// tidy: <marker>`, which excuses it from the rule with that marker.
    pub fn is_excused(&self, line: usize, marker: &str) -> bool {
        let comment = self.views.comments.lines().nth(line - 1).unwrap_or_default();
        comment.split_once("tidy: ").is_some_and(|(_, rest)| rest.starts_with(marker))
    }

    /// Returns the text after `// tidy: <marker>` on a line. Returns `None` without the marker.
    pub fn excuse(&self, line: usize, marker: &str) -> Option<&str> {
        let comment = self.views.comments.lines().nth(line - 1)?;
        Some(comment.split_once("tidy: ")?.1.strip_prefix(marker)?.trim())
    }
}

/// Marks the lines of each item under an attribute such as `#[cfg(test)]` or `#[cfg(all(test, unix))]`.
fn test_lines(code: &str) -> Vec<bool> {
    let mut marked = vec![false; code.lines().count()];
    for (at, _) in code.match_indices("#[cfg(") {
        let attribute_end = code[at..].find(")]").map_or(code.len(), |end| at + end);
        let condition = &code[at..attribute_end];
        if lexer::find_words(condition, "test").is_empty() || condition.contains("not(") {
            continue;
        }
        let item = &code[attribute_end..];
        let Some(open) = item.find(['{', ';']) else { continue };
        let end = if item[open..].starts_with('{') {
            let chars: Vec<char> = item[open..].chars().collect();
            chars[..lexer::matching_brace(&chars, 0)].iter().filter(|char| **char == '\n').count()
        } else {
            0
        };
        let first = code[..at].matches('\n').count();
        let last = code[..attribute_end + open].matches('\n').count() + end;
        for line in marked.iter_mut().take(last + 1).skip(first) {
            *line = true;
        }
    }
    marked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_under_cfg_test_are_test_code() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\nfn c() {}\n";
        let file = SourceFile::new("src/a.rs", text);
        let lines: Vec<bool> = (1..=6).map(|line| file.is_test_line(line)).collect();
        assert_eq!(lines, [false, true, true, true, true, false]);
    }

    #[test]
    fn code_that_is_absent_from_tests_is_no_test_code() {
        let file = SourceFile::new("src/a.rs", "#[cfg(not(test))]\nmod real {\n}\n");
        assert!(!file.is_test_line(2));
    }

    #[test]
    fn a_folder_holds_its_files_and_its_module_file() {
        assert!(SourceFile::new("src/drive/thread/actor.rs", "").is_in("src/drive/"));
        assert!(SourceFile::new("src/drive.rs", "").is_in("src/drive/"));
        assert!(!SourceFile::new("src/driver.rs", "").is_in("src/drive/"));
    }

    #[test]
    fn an_excuse_stands_on_its_own_line() {
        let file = SourceFile::new("src/a.rs", "a(); // tidy: sleep the process has no other sign\nb();\n");
        assert_eq!(file.excuse(1, "sleep"), Some("the process has no other sign"));
        assert_eq!(file.excuse(2, "sleep"), None);
        assert!(!file.is_excused(1, "path"));
    }
}
