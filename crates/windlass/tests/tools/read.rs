//! `Read`: windows, notes, pictures and PDFs.

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
    // Three-byte characters: the bytes kept end within one.
    let shown = "€".repeat(2000);
    let cut =
        format!("ok:      1\t{shown} [cut: the line has 30000 bytes]\n[1 lines cut after 2000 characters]");
    check("€".repeat(10_000), json!({}), &cut);
}

// rows: LM-T2
#[test]
fn bad_bytes_are_shown_and_noted() {
    let expected = "ok:      1\tcaf\u{fffd}\n[not valid UTF-8: the bad bytes are shown as \u{fffd}]";
    check(b"caf\xe9\n", json!({}), expected);
    check(
        b"\x7fELF\0\0",
        json!({}),
        "error: `file` is a binary file of 6 bytes; only text, PDF and pictures are read",
    );
}

// rows: LM-T2
#[test]
fn pictures_are_told_by_their_first_bytes() {
    check(b"\x89PNG\r\n\x1a\nrest", json!({}), "ok: <image/png, 12 bytes>");
    check(b"\xff\xd8\xff\xe0", json!({}), "ok: <image/jpeg, 4 bytes>");
    check(b"GIF89a", json!({}), "ok: <image/gif, 6 bytes>");
    check(b"RIFF\0\0\0\0WEBPVP8 ", json!({}), "ok: <image/webp, 16 bytes>");
    let mut large = b"GIF89a".to_vec();
    large.resize(5 * 1024 * 1024 + 1, 0);
    check(&large, json!({}), "error: the picture `file` has 5242881 bytes; at most 5242880 are shown");
    large.pop();
    check(&large, json!({}), "ok: <image/gif, 5242880 bytes>");
}

// rows: LM-T2
#[test]
fn a_huge_file_is_read_by_window_only() {
    let desk = Desk::new();
    desk.put("huge.log", "0123456789\n".repeat(5_000_000));
    let refused = "error: `huge.log` has 55000000 bytes; a file over 52428800 bytes is read with `offset` and `limit`, or searched with Grep";
    assert_eq!(desk.show("Read", json!({"file_path": "huge.log"})), refused);
    let window = json!({"file_path": "huge.log", "offset": 4_000_000, "limit": 1});
    let expected = "ok: 4000000\t0123456789\n[more may follow; continue with offset 4000001]";
    assert_eq!(desk.show("Read", window), expected);
}

/// Writes a PDF of the objects, numbered from 1; the first is the catalogue.
fn pdf(objects: &[String]) -> Vec<u8> {
    let mut bytes = b"%PDF-1.4\n".to_vec();
    let mut places = Vec::new();
    for (index, object) in objects.iter().enumerate() {
        places.push(bytes.len());
        bytes.extend(format!("{} 0 obj\n{object}\nendobj\n", index + 1).bytes());
    }
    let start = bytes.len();
    bytes.extend(format!("xref\n0 {}\n0000000000 65535 f \n", objects.len() + 1).bytes());
    for place in places {
        bytes.extend(format!("{place:010} 00000 n \n").bytes());
    }
    let size = objects.len() + 1;
    bytes.extend(format!("trailer\n<</Size {size}/Root 1 0 R>>\nstartxref\n{start}\n%%EOF\n").bytes());
    bytes
}

fn stream(dictionary: &str, content: &str) -> String {
    format!("<<{dictionary}/Length {}>>\nstream\n{content}\nendstream", content.len())
}

/// Makes two pages: the first as given, the second plain.
pub fn document(page: &str, content: &str, form: &str) -> Vec<u8> {
    let font = "<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>";
    let second = "BT /F1 12 Tf 20 100 Td (Second page) Tj ET";
    let plain = "/Type/Page/Parent 2 0 R/Contents 5 0 R";
    pdf(&[
        "<</Type/Catalog/Pages 2 0 R>>".to_owned(),
        "<</Type/Pages/Kids[3 0 R 4 0 R]/Count 2/MediaBox[0 0 200 200]\
         /Resources<</Font<</F1 6 0 R>>/XObject<</X1 8 0 R>>>>>>"
            .to_owned(),
        format!("<</Type/Page/Contents 7 0 R {page}>>"),
        format!("<<{plain}>>"),
        stream("", second),
        font.to_owned(),
        stream("", content),
        stream("/Type/XObject/Subtype/Form/BBox[0 0 9 9]", form),
    ])
}

const FIRST: &str = "BT /F1 12 Tf 20 100 Td (Hello page) Tj ET";

// rows: LM-T2
#[test]
fn a_pdf_is_read_page_by_page() {
    let file = document("/Parent 2 0 R", FIRST, "");
    check(&file, json!({}), "ok: [page 1 of 2]\nHello page\n[page 2 of 2]\nSecond page");
    let first = "ok: [page 1 of 2]\nHello page\n[pages 1–1 of 2; continue with offset 2]";
    check(&file, json!({"limit": 1}), first);
    check(&file, json!({"offset": 2}), "ok: [page 2 of 2]\nSecond page");
    let beyond = "error: cannot read the PDF `file`: page 3 is beyond the end: it has 2 pages";
    check(&file, json!({"offset": 3}), beyond);
}

// rows: LM-T2
#[test]
fn a_hostile_pdf_spoils_only_its_page() {
    let answer = |problem: &str| format!("ok: [page 1 of 2]\n{problem}\n[page 2 of 2]\nSecond page");
    let itself = document("/Parent 2 0 R", "/X1 Do", "/X1 Do");
    let forms = "[this page cannot be read: it draws too many forms within each other]";
    check(itself, json!({}), &answer(forms));
    let many = document("/Parent 2 0 R", &"/X1 Do ".repeat(3000), "q Q");
    check(many, json!({}), &answer(forms));
    let own_parent = document("/Parent 3 0 R", FIRST, "");
    check(own_parent, json!({}), &answer("[this page cannot be read: its page tree is too deep]"));
    let no_font = document("/Parent 2 0 R", "BT /F9 12 Tf (x) Tj ET", "");
    check(no_font, json!({}), &answer("[this page cannot be read: it is damaged]"));
}

// rows: LM-T2
#[test]
fn a_damaged_pdf_is_an_error() {
    let file = document("/Parent 2 0 R", FIRST, "");
    for end in (5..file.len()).step_by(97) {
        let desk = Desk::new();
        desk.put("file", &file[..end]);
        let answer = desk.show("Read", json!({"file_path": "file"}));
        assert!(
            answer.starts_with("error: cannot read the PDF") || answer.starts_with("ok: [page 1"),
            "{answer}"
        );
    }
}

// rows: LM-T2
#[test]
fn pdfs_beyond_the_readers_wait_for_their_turn() {
    let desk = Desk::new();
    desk.put("file", document("/Parent 2 0 R", FIRST, ""));
    std::thread::scope(|scope| {
        let calls: Vec<_> = (0..16)
            .map(|_| scope.spawn(|| desk.show("Read", json!({"file_path": "file", "offset": 2}))))
            .collect();
        for call in calls {
            assert_eq!(call.join().unwrap(), "ok: [page 2 of 2]\nSecond page");
        }
    });
}
