//! `Read`: windows, notes, images and PDFs.

use serde_json::{Value, json};

use super::Desk;

#[track_caller]
fn check(content: impl AsRef<[u8]>, window: Value, expected: &str) {
    let desk = Desk::new();
    desk.put("file", content);
    let mut arguments = json!({"file_path": "file"});
    arguments.as_object_mut().unwrap().extend(window.as_object().unwrap().clone());
    assert_eq!(desk.show("Read", arguments), expected);
}

// rows: LM-T2
#[test]
fn lines_are_numbered_as_by_cat() {
    check("one\n\n\tthree", json!({}), "ok:      1\tone\n     2\t\n     3\t\tthree");
    check("one\r\ntwo\r\n", json!({}), "ok:      1\tone\n     2\ttwo");
    check("", json!({}), "ok: [`file` is empty]");
}

// rows: LM-T2
#[test]
fn a_window_says_what_is_left() {
    let lines = "a\nb\nc\nd\n";
    check(
        lines,
        json!({"offset": 2, "limit": 2}),
        "ok:      2\tb\n     3\tc\n[lines 2–3 of 4; continue with offset 4]",
    );
    check(lines, json!({"offset": 4}), "ok:      4\td");
    check(lines, json!({"offset": 4, "limit": u64::MAX}), "ok:      4\td");
    check(lines, json!({"offset": 5}), "error: line 5 is beyond the end: `file` has 4 lines");
    let desk = Desk::new();
    desk.put("long.txt", "x\n".repeat(2001));
    let answer = desk.show("Read", json!({"file_path": "long.txt"}));
    assert_eq!(answer.lines().count(), 2001);
    assert!(answer.ends_with("  2000\tx\n[lines 1–2000 of 2001; continue with offset 2001]"));
}

// rows: LM-T2
#[test]
fn a_long_line_is_cut_between_characters() {
    let whole = "é".repeat(2000);
    check(&whole, json!({}), &format!("ok:      1\t{whole}"));
    let cut = format!(
        "ok:      1\t{whole} [cut: the line has 4002 bytes]\n     2\tend\n[1 lines cut after 2000 characters]"
    );
    check(format!("{}\nend\n", "é".repeat(2001)), json!({}), &cut);
    // Three-byte characters: the kept bytes end within one.
    let shown = "€".repeat(2000);
    let cut =
        format!("ok:      1\t{shown} [cut: the line has 30000 bytes]\n[1 lines cut after 2000 characters]");
    check("€".repeat(10_000), json!({}), &cut);
}

// rows: LM-T2
#[test]
fn bad_bytes_are_shown_and_noted() {
    let expected = "ok:      1\tcaf\u{fffd}\n[not valid UTF-8: invalid bytes are shown as \u{fffd}]";
    check(b"caf\xe9\n", json!({}), expected);
    check(
        b"\x7fELF\0\0",
        json!({}),
        "error: `file` is a binary file of 6 bytes; only text, PDF and Word documents and images can be read",
    );
}

// rows: LM-T2
#[test]
fn pictures_are_recognized_by_their_first_bytes() {
    check(b"\x89PNG\r\n\x1a\nrest", json!({}), "ok: <image/png, 12 bytes>");
    check(b"\xff\xd8\xff\xe0", json!({}), "ok: <image/jpeg, 4 bytes>");
    check(b"GIF89a", json!({}), "ok: <image/gif, 6 bytes>");
    check(b"RIFF\0\0\0\0WEBPVP8 ", json!({}), "ok: <image/webp, 16 bytes>");
    let mut large = b"GIF89a".to_vec();
    large.resize(5 * 1024 * 1024 + 1, 0);
    check(&large, json!({}), "error: the image `file` has 5242881 bytes; the limit is 5242880");
    large.pop();
    check(&large, json!({}), "ok: <image/gif, 5242880 bytes>");
}

// rows: LM-T2
#[test]
fn a_huge_file_is_read_by_window_only() {
    let desk = Desk::new();
    desk.put("huge.log", "0123456789\n".repeat(5_000_000));
    let refused = "error: `huge.log` has 55000000 bytes; over 52428800 bytes, set `offset` and `limit`, or \
                   search with Grep";
    assert_eq!(desk.show("Read", json!({"file_path": "huge.log"})), refused);
    let window = json!({"file_path": "huge.log", "offset": 4_000_000, "limit": 1});
    let expected = "ok: 4000000\t0123456789\n[more may follow; continue with offset 4000001]";
    assert_eq!(desk.show("Read", window), expected);
}
