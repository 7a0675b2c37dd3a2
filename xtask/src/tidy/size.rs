//! Limits the sizes of files and functions. Data tables are exempt.

use super::finding::Finding;
use super::lexer;
use super::source::SourceFile;

const FILE_LINES_MAX: usize = 800;
const FILE_LINES_WARN: usize = 500;
const FUNCTION_LINES_MAX: usize = 70;
/// Maximum number of lines in a test function. A test may be longer, because people read it once, from top to bottom.
const TEST_FUNCTION_LINES_MAX: usize = 100;

/// Finds source files that are too long.
pub fn files(file: &SourceFile, findings: &mut Vec<Finding>) {
    let is_prose = file.path.ends_with(".md") || file.path.ends_with(".toml");
    if is_prose || file.has_folder("data") {
        return;
    }
    let lines = file.text.lines().count();
    let advice = format!("{lines} lines; find the second noun in it and give it a module");
    if lines > FILE_LINES_MAX {
        findings.push(Finding::error(file, FILE_LINES_MAX + 1, "file size", advice));
    } else if lines > FILE_LINES_WARN {
        findings.push(Finding::warning(file, FILE_LINES_WARN + 1, "file size", advice));
    }
}

/// Finds functions that do not fit on a screen.
pub fn functions(file: &SourceFile, findings: &mut Vec<Finding>) {
    if file.has_folder("data") {
        return;
    }
    for function in lexer::functions(&file.views.code) {
        let lines = function.last_line + 1 - function.first_line;
        let is_test = file.is_test_line(function.first_line);
        let max = if is_test { TEST_FUNCTION_LINES_MAX } else { FUNCTION_LINES_MAX };
        if lines > max {
            let name = function.name;
            let advice =
                format!("`{name}` has {lines} lines of at most {max}; keep the branching, move the work out");
            findings.push(Finding::error(file, function.first_line, "function size", advice));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Severity, check};
    use super::*;

    fn function_of(lines: usize) -> String {
        format!("fn long() {{\n{}}}\n", "    step();\n".repeat(lines - 2))
    }

    #[test]
    fn long_files_warn_then_fail() {
        let at = |lines: usize| {
            let mut findings = Vec::new();
            files(&SourceFile::new("a/b.rs", "x\n".repeat(lines)), &mut findings);
            findings.first().map(|finding| finding.severity)
        };
        assert_eq!(at(500), None);
        assert_eq!(at(501), Some(Severity::Warning));
        assert_eq!(at(800), Some(Severity::Warning));
        assert_eq!(at(801), Some(Severity::Error));
    }

    #[test]
    fn data_tables_may_be_long() {
        check(files, "crates/windlass/src/data/prices.rs", &"x\n".repeat(2000), &[]);
    }

    #[test]
    fn functions_fit_a_screen() {
        check(functions, "a/b.rs", &function_of(70), &[]);
        check(functions, "a/b.rs", &function_of(71), &[1]);
    }

    #[test]
    fn braces_in_text_do_not_end_a_function() {
        let tricky =
            format!("fn long() {{\n let a = \"}}\"; let b = '}}'; // }}\n{}}}\n", "    step();\n".repeat(80));
        check(functions, "a/b.rs", &tricky, &[1]);
    }

    #[test]
    fn test_functions_may_be_longer() {
        check(functions, "a/tests/b.rs", &function_of(100), &[]);
        check(functions, "a/tests/b.rs", &function_of(101), &[1]);
        let inner = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", function_of(100));
        check(functions, "a/b.rs", &inner, &[]);
    }
}
