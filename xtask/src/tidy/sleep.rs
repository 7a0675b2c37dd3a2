//! Time is an argument. Only the clock adapter reads it, and no test waits for it to pass.

use super::finding::Finding;
use super::lexer;
use super::source::SourceFile;

const READS: &[&str] = &["SystemTime::now", "Instant::now", "Utc::now", "Local::now"];
const SLEEPS: &[&str] = &["thread::sleep", "time::sleep", "time::sleep_until"];

/// Readings of the clock outside its adapter, the project's own commands, the benchmark and tests.
pub fn reads(file: &SourceFile, findings: &mut Vec<Finding>) {
    let is_outside_the_product = !file.path.starts_with("crates/");
    if is_outside_the_product || file.is_in("crates/windlass-engine/src/clock/") {
        return;
    }
    for word in READS {
        for at in lexer::find_words(&file.views.code, word) {
            let line = file.line_of(at);
            if !file.is_test_line(line) {
                let advice =
                    format!("`{word}` outside the clock adapter; take the `Clock` port or a `now` argument");
                findings.push(Finding::error(file, line, "clock", advice));
            }
        }
    }
}

/// Sleeping in tests without a reason.
pub fn sleeps(file: &SourceFile, findings: &mut Vec<Finding>) {
    for word in SLEEPS {
        for at in lexer::find_words(&file.views.code, word) {
            let line = file.line_of(at);
            let is_test = file.is_test_line(line) || file.path.contains("/src/testing/");
            let has_reason = file.excuse(line, "sleep").is_some_and(|reason| !reason.is_empty());
            if is_test && !has_reason {
                let advice = "wait for the thing itself, or end the line with `// tidy: sleep <why nothing else works>`";
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
    fn only_the_clock_adapter_reads_the_clock() {
        let text = "let a = SystemTime::now();\nlet b = tokio::time::Instant::now();\n";
        check(reads, "crates/windlass-engine/src/drive/thread/actor.rs", text, &[1, 2]);
        check(reads, "crates/windlass-engine/src/clock.rs", text, &[]);
        check(reads, "crates/windlass/tests/main.rs", text, &[]);
        check(reads, "bench/src/main.rs", text, &[]);
        check(reads, "crates/windlass/src/a.rs", "// Instant::now is banned\n\"Instant::now\";\n", &[]);
    }

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
