//! Finds tests that wait for time to pass. `clippy.toml` ensures that only the clock adapter reads the clock.

use super::finding::Finding;
use super::lexer;
use super::source::SourceFile;

const SLEEPS: &[&str] = &["thread::sleep", "time::sleep", "time::sleep_until"];

/// Finds sleeping tests without a reason.
pub fn sleeps(file: &SourceFile, findings: &mut Vec<Finding>) {
    for word in SLEEPS {
        for at in lexer::find_words(&file.views.code, word) {
            let line = file.line_of(at);
            let is_test = file.is_test_line(line) || file.path.contains("/src/testing/");
            let has_reason = file.excuse(line, "sleep").is_some_and(|reason| !reason.is_empty());
            if is_test && !has_reason {
                let advice = "wait for the condition itself, or end the line with `// tidy: sleep <why nothing else works>`";
                findings.push(Finding::error(file, line, "sleep", advice));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::check;
    use super::*;

    #[test]
    fn tests_do_not_sleep() {
        let path = "crates/windlass/tests/kill.rs";
        check(sleeps, path, "std::thread::sleep(a);\ntokio::time::sleep(b).await;\n", &[1, 2]);
        check(sleeps, path, "std::thread::sleep(a); // tidy: sleep\n", &[1]);
        check(
            sleeps,
            path,
            "std::thread::sleep(a); // tidy: sleep the kill must come at a random moment\n",
            &[],
        );
        check(sleeps, path, "clock.sleep(a).await;\n", &[]);
        check(sleeps, "crates/windlass-engine/src/clock.rs", "tokio::time::sleep(b).await;\n", &[]);
    }
}
