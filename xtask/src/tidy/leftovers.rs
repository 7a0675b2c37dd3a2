//! Finds leftovers: unfinished code, personal notes, paths of one machine, and trailing whitespace.

use super::finding::Finding;
use super::lexer;
use super::source::SourceFile;

const UNFINISHED: &[&str] = &["todo!", "unimplemented!", "dbg!"];
const NOTES: &[&str] = &["FIXME", "XXX"];

/// Paths that exist on one machine only. Each is split in two parts so that this file passes its own check.
const MACHINE_PATHS: &[&str] = &[concat!("/", "root/"), concat!("/", "work/"), concat!("/", "Users/")];

/// Finds unfinished code and personal notes.
pub fn markers(file: &SourceFile, findings: &mut Vec<Finding>) {
    for word in UNFINISHED {
        for at in lexer::find_words(&file.views.code, word) {
            let advice = format!("`{word}` is unfinished; finish it or return an error that says so");
            findings.push(Finding::error(file, file.line_of(at), "leftovers", advice));
        }
    }
    for (index, comment) in file.views.comments.lines().enumerate() {
        for note in NOTES.iter().filter(|note| !lexer::find_words(comment, note).is_empty()) {
            let advice = format!("`{note}` is an open task; do it, or open an issue");
            findings.push(Finding::error(file, index + 1, "leftovers", advice));
        }
    }
}

/// Finds tests that never run.
pub fn ignored_tests(file: &SourceFile, findings: &mut Vec<Finding>) {
    for (at, _) in file.views.code.match_indices("#[ignore") {
        let advice =
            "an ignored test checks nothing; make it pass, or delete it with the reason in the commit";
        findings.push(Finding::error(file, file.line_of(at), "ignored test", advice));
    }
}

/// Finds absolute paths that exist on one machine only.
pub fn machine_paths(file: &SourceFile, findings: &mut Vec<Finding>) {
    for (index, line) in file.text.lines().enumerate() {
        for path in MACHINE_PATHS.iter().filter(|path| starts_path(line, path)) {
            if !file.is_excused(index + 1, "path") {
                let advice = format!("`{path}` is a path of one machine; use a relative or a temporary one");
                findings.push(Finding::error(file, index + 1, "machine path", advice));
            }
        }
    }
}

/// Finds whitespace at the end of a line, and files without a final line break.
pub fn whitespace(file: &SourceFile, findings: &mut Vec<Finding>) {
    for (index, line) in file.text.split('\n').enumerate() {
        if line.ends_with([' ', '\t', '\r']) {
            findings.push(Finding::error(file, index + 1, "whitespace", "remove the trailing whitespace"));
        }
    }
    if !file.text.is_empty() && !file.text.ends_with('\n') {
        let last = file.text.lines().count();
        findings.push(Finding::error(file, last, "whitespace", "end the file with a line break"));
    }
}

/// Whether a path begins at this position, instead of being the tail of a longer path or a URL.
fn starts_path(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|char| lexer::is_word(char) || matches!(char, '.' | '/' | '}' | '-'))
    })
}

#[cfg(test)]
mod tests {
    use super::super::check;
    use super::*;

    #[test]
    fn unfinished_code_fails() {
        check(
            markers,
            "a.rs",
            "fn a() { todo!() }\nfn b() { unimplemented!(\"c\") }\ndbg!(d);\n",
            &[1, 2, 3],
        );
        check(markers, "a.rs", "// todo!() in a comment\nlet b = \"dbg!\";\nmy_dbg!(c);\n", &[]);
    }

    #[test]
    fn notes_to_oneself_fail() {
        let text = format!("// {} later\nlet a = 1; // {}: hm\n", NOTES[0], NOTES[1]);
        check(markers, "a.rs", &text, &[1, 2]);
        check(markers, "a.rs", "let a = \"XXX\";\n// XXXL\n", &[]);
    }

    #[test]
    fn ignored_tests_fail() {
        check(ignored_tests, "a.rs", "#[test]\n#[ignore]\nfn a() {}\n#[ignore = \"slow\"]\n", &[2, 4]);
        check(ignored_tests, "a.rs", "// #[ignore]\n", &[]);
    }

    #[test]
    fn paths_of_one_machine_fail() {
        for path in MACHINE_PATHS {
            check(machine_paths, "a.md", &format!("see\n`{path}notes`\n"), &[2]);
            check(machine_paths, "a.rs", &format!("open(\"{path}b\");\n"), &[1]);
            check(
                machine_paths,
                "a.rs",
                &format!("open(\"{path}b\"); // tidy: path it is the input here\n"),
                &[],
            );
            check(machine_paths, "a.rs", &format!("get(\"https://example.org{path}b\");\n"), &[]);
        }
    }

    #[test]
    fn blanks_at_line_ends_fail() {
        check(whitespace, "a.md", "a\nb \nc\t\nd\r\ne\n", &[2, 3, 4]);
        check(whitespace, "a.toml", "a\nb", &[2]);
        check(whitespace, "a.toml", "", &[]);
    }
}
