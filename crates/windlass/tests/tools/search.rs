//! `Glob` and `Grep`: their matches, order and limits.

use std::fs::{File, FileTimes};
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use windlass_machine::ToolName;

use super::{Desk, context, run, show};

fn tree() -> Desk {
    let desk = Desk::new();
    desk.put("src/main.rs", "fn main() {\n    run();\n}\n");
    desk.put("src/run.rs", "// Runs.\nfn run() {\n    todo();\n}\n\nfn todo() {}\n");
    desk.put("notes.md", "Run it.\nrun fast\n");
    desk.put(".hidden/run.md", "hidden run\n");
    desk.put(".git/HEAD", "run\n");
    desk.put("data.bin", b"run\0run\n");
    for (age, path) in
        ["notes.md", "src/run.rs", "src/main.rs", ".hidden/run.md", "data.bin"].iter().enumerate()
    {
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(2_000_000_000 - age as u64);
        let file = File::options().write(true).open(desk.inside.join(path)).unwrap();
        file.set_times(FileTimes::new().set_modified(time)).unwrap();
    }
    desk
}

#[track_caller]
fn check(tool: &str, arguments: Value, expected: &str) {
    assert_eq!(tree().show(tool, arguments), format!("ok: {expected}"));
}

// rows: LM-T5
#[test]
fn glob_lists_the_newest_first() {
    check("Glob", json!({"pattern": "**/*"}), "notes.md\nsrc/run.rs\nsrc/main.rs\n.hidden/run.md\ndata.bin");
    check("Glob", json!({"pattern": "*.md"}), "notes.md");
    check("Glob", json!({"pattern": "**/*.{rs,md}", "path": "src"}), "src/run.rs\nsrc/main.rs");
    check("Glob", json!({"pattern": "*.rs"}), "[no file matches `*.rs`]");
}

// rows: LM-T5
#[test]
fn glob_breaks_ties_by_name_and_stops_at_a_thousand() {
    let desk = Desk::new();
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    for number in 0..1003 {
        desk.put(format!("{number:04}.txt"), "");
        let file = File::options().write(true).open(desk.inside.join(format!("{number:04}.txt"))).unwrap();
        file.set_times(FileTimes::new().set_modified(time)).unwrap();
    }
    let answer = desk.show("Glob", json!({"pattern": "*"}));
    let lines: Vec<&str> = answer.lines().collect();
    assert_eq!((lines[0], lines[999]), ("ok: 0000.txt", "0999.txt"));
    assert_eq!(lines[1000..], ["[the newest 1000 of 1003; use a narrower pattern]"]);
}

// rows: LM-T5
#[test]
fn glob_takes_an_absolute_pattern_inside() {
    let desk = tree();
    let pattern = desk.inside.join("src/*.rs");
    assert_eq!(desk.show("Glob", json!({"pattern": pattern})), "ok: src/run.rs\nsrc/main.rs");
}

// rows: LM-T6
#[test]
fn grep_shows_files_lines_or_counts() {
    check("Grep", json!({"pattern": "run"}), "notes.md\n.hidden/run.md\nsrc/main.rs\nsrc/run.rs");
    let lines =
        "notes.md:2:run fast\n.hidden/run.md:1:hidden run\nsrc/main.rs:2:    run();\nsrc/run.rs:2:fn run() {";
    check("Grep", json!({"pattern": "run", "output_mode": "content"}), lines);
    check("Grep", json!({"pattern": "(?m)^fn ", "output_mode": "count"}), "src/main.rs:1\nsrc/run.rs:2");
    let any_case =
        json!({"pattern": "RUN", "case_insensitive": true, "output_mode": "count", "glob": "*.md"});
    check("Grep", any_case, "notes.md:2\n.hidden/run.md:1");
    check("Grep", json!({"pattern": "walk"}), "[no match for `walk`]");
}

// rows: LM-T6
#[test]
fn grep_shows_context_with_breaks() {
    let arguments = json!({
        "pattern": "run|todo\\(\\) ", "path": "src/run.rs", "output_mode": "content", "context": 1,
    });
    let lines = "src/run.rs-1-// Runs.\nsrc/run.rs:2:fn run() {\nsrc/run.rs-3-    todo();\n--\nsrc/run.rs-5-\nsrc/run.rs:6:fn todo() {}";
    check("Grep", arguments, lines);
}

// rows: LM-T6
#[test]
fn grep_filters_by_path() {
    check("Grep", json!({"pattern": "run", "path": "src"}), "src/main.rs\nsrc/run.rs");
    check("Grep", json!({"pattern": "run", "glob": "*.rs"}), "src/main.rs\nsrc/run.rs");
    check("Grep", json!({"pattern": "run", "glob": "src/m*"}), "src/main.rs");
    check("Grep", json!({"pattern": "run", "path": "notes.md"}), "notes.md");
    check("Grep", json!({"pattern": "run", "path": "data.bin"}), "[no match for `run`]");
}

// rows: LM-T6
#[test]
fn grep_matches_across_lines_on_request() {
    let lines = "src/main.rs:1:fn main() {\nsrc/main.rs:2:    run();";
    let pattern = "main\\(.*run\\(";
    check("Grep", json!({"pattern": pattern, "multiline": true, "output_mode": "content"}), lines);
    check("Grep", json!({"pattern": pattern, "output_mode": "content"}), "[no match for `main\\(.*run\\(`]");
    let refused = tree().show("Grep", json!({"pattern": "a\\nb"}));
    assert!(refused.starts_with("error: invalid pattern"), "{refused}");
    assert!(refused.ends_with("Set `multiline` to match across lines"), "{refused}");
}

// rows: LM-T6
#[test]
fn grep_stops_at_the_head_and_says_so() {
    let head = "notes.md\n.hidden/run.md\n[the first 2 lines; narrow the search or raise `head_limit`]";
    check("Grep", json!({"pattern": "run", "head_limit": 2}), head);
    let all = "notes.md\n.hidden/run.md\nsrc/main.rs\nsrc/run.rs";
    check("Grep", json!({"pattern": "run", "head_limit": 4}), all);
    let desk = Desk::new();
    desk.put("many.txt", "x\n".repeat(1000));
    let answer = desk.show("Grep", json!({"pattern": "x", "output_mode": "content"}));
    assert_eq!(answer.lines().count(), 251);
    assert!(answer.ends_with("[the first 250 lines; narrow the search or raise `head_limit`]"), "{answer}");
}

// rows: LM-T2, LM-T3, LM-T4, LM-T5, LM-T6
#[test]
fn a_cancelled_call_does_nothing() {
    let desk = tree();
    let cancel = CancellationToken::new();
    cancel.cancel();
    let calls = [
        ("Read", json!({"file_path": "notes.md"})),
        ("Write", json!({"file_path": "new.md", "content": ""})),
        ("Edit", json!({"file_path": "notes.md", "old_string": "fast", "new_string": "slow"})),
        ("Glob", json!({"pattern": "**"})),
        ("Grep", json!({"pattern": "run"})),
    ];
    for (name, arguments) in calls {
        let name = ToolName::from(name);
        let tool = desk.registry.get(name.as_str()).unwrap();
        let output = run(&*tool, context(Some(desk.folder.clone()), cancel.clone()), arguments.clone());
        assert_eq!(show(&output), "error: the call was cancelled", "{name}");
        let output = run(&*tool, context(None, CancellationToken::new()), arguments);
        assert_eq!(show(&output), "error: this thread has no working folder", "{name}");
    }
    assert!(!desk.inside.join("new.md").exists());
    assert_eq!(desk.text("notes.md"), "Run it.\nrun fast\n");
}
