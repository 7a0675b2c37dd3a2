//! `Edit`: uniqueness, line endings, and its report.

use serde_json::json;

use super::Desk;

const SONG: &str = "one\ntwo\nthree\ntwo\n";

#[track_caller]
fn check(before: &str, old: &str, new: &str, replace_all: bool, answer: &str, after: &str) {
    let desk = Desk::new();
    desk.put("song.txt", before);
    let arguments = json!({
        "file_path": "song.txt", "old_string": old, "new_string": new, "replace_all": replace_all,
    });
    assert_eq!(desk.show("Edit", arguments), answer);
    assert_eq!(desk.text("song.txt"), after);
}

// rows: LM-T4
#[test]
fn a_text_that_occurs_once_is_replaced() {
    check(SONG, "three", "3", false, "ok: Edited `song.txt`: line 3", "one\ntwo\n3\ntwo\n");
    check(
        SONG,
        "one\n",
        "a\nb\nc\n",
        false,
        "ok: Edited `song.txt`: lines 1–3",
        "a\nb\nc\ntwo\nthree\ntwo\n",
    );
    check(SONG, "three\n", "", false, "ok: Edited `song.txt`: line 3", "one\ntwo\ntwo\n");
}

// rows: LM-T4
#[test]
fn a_text_that_is_not_unique_is_refused_with_its_lines() {
    let answer =
        "error: `old_string` occurs 2 times in `song.txt` (lines 2, 4); make it unique or set `replace_all`";
    check(SONG, "two", "2", false, answer, SONG);
}

// rows: LM-T4
#[test]
fn every_occurrence_is_replaced_on_request() {
    let answer = "ok: Edited `song.txt`: 2 replacements, lines 2, 5";
    check(SONG, "two", "2\n2", true, answer, "one\n2\n2\nthree\n2\n2\n");
}

// rows: LM-T4
#[test]
fn nothing_to_do_is_an_error() {
    let same = "error: `old_string` and `new_string` are the same: nothing to change";
    check(SONG, "two", "two", false, same, SONG);
    check(SONG, "", "two", false, "error: `old_string` is empty; use Write to create a file", SONG);
    check(
        SONG,
        "four",
        "4",
        false,
        "error: `old_string` does not occur in `song.txt`; read the file and copy the text exactly",
        SONG,
    );
}

// rows: LM-T4
#[test]
fn windows_line_ends_are_kept() {
    check(
        "a\r\nb\r\nc\r\n",
        "a\nb\n",
        "x\ny\n",
        false,
        "ok: Edited `song.txt`: lines 1–2",
        "x\r\ny\r\nc\r\n",
    );
}

// rows: LM-T4
#[test]
fn a_file_that_is_not_utf_8_is_left_alone() {
    let desk = Desk::new();
    desk.put("latin.txt", b"caf\xe9 two");
    let answer = desk.show("Edit", json!({"file_path": "latin.txt", "old_string": "two", "new_string": "2"}));
    assert_eq!(answer, "error: `latin.txt` is not UTF-8 (byte 3); it cannot be edited");
    assert_eq!(std::fs::read(desk.inside.join("latin.txt")).unwrap(), b"caf\xe9 two");
}

// rows: LM-T4
#[test]
fn edits_of_one_file_beside_each_other_lose_nothing() {
    let desk = Desk::new();
    let lines: Vec<String> = (10..42).map(|number| format!("line {number}\n")).collect();
    desk.put("song.txt", lines.concat());
    std::thread::scope(|scope| {
        for line in &lines {
            let new = line.replace("line", "verse");
            let arguments = json!({"file_path": "song.txt", "old_string": line, "new_string": new});
            let desk = &desk;
            scope.spawn(move || desk.show("Edit", arguments));
        }
    });
    assert_eq!(desk.text("song.txt"), lines.concat().replace("line", "verse"));
}

#[test]
fn a_file_that_would_grow_beyond_the_limit_is_left_alone() {
    let before = "a".repeat(1024 * 1024);
    let answer = "error: `song.txt` would grow to more than 52428800 bytes; replace less at a time";
    check(&before, "a", &"b".repeat(100), true, answer, &before);
}
