//! Documents that `Read` passes to the reader process: PDF and Word, ordinary and hostile.

use std::io::{Read, Write};

use flate2::Compression;
use flate2::write::ZlibEncoder;
use serde_json::{Value, json};
use windlass::reader::Reader;
use windlass::tool::builtin;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use super::{Desk, reader};

fn check(content: impl AsRef<[u8]>, arguments: Value, expected: &str) {
    let desk = Desk::new();
    desk.put("file", content);
    let mut all = json!({"file_path": "file"});
    all.as_object_mut().unwrap().extend(arguments.as_object().unwrap().clone());
    assert_eq!(desk.show("Read", all), expected);
}

/// Writes a PDF of the objects, numbered from 1; the first is the catalogue.
fn pdf<T: AsRef<[u8]>>(objects: &[T]) -> Vec<u8> {
    let mut bytes = b"%PDF-1.4\n".to_vec();
    let mut places = Vec::new();
    for (index, object) in objects.iter().enumerate() {
        places.push(bytes.len());
        bytes.extend(format!("{} 0 obj\n", index + 1).bytes());
        bytes.extend(object.as_ref());
        bytes.extend(b"\nendobj\n");
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

/// Two pages, the first of which harms the parser. Asserts the error of the whole read or the text of the first page.
fn check_hostile(file: Vec<u8>, first: &str) {
    let desk = Desk::new();
    desk.put("file", file);
    let answer = desk.show("Read", json!({"file_path": "file"}));
    assert!(
        answer.starts_with(&format!("ok: [page 1 of 2]\n[this page cannot be read: {first}")),
        "{answer}"
    );
    // The second page is in the same answer, or can be read separately.
    let rest = desk.show("Read", json!({"file_path": "file", "offset": 2}));
    assert!(answer.contains("Second page") || answer.ends_with("continue with offset 2]"), "{answer}");
    assert_eq!(rest, "ok: [page 2 of 2]\nSecond page");
}

// rows: LM-T2
#[test]
fn a_hostile_pdf_spoils_only_its_page() {
    // A form that draws itself, and a page that is its own parent, overflow the stack.
    check_hostile(document("/Parent 2 0 R", "/X1 Do", "/X1 Do"), "it is damaged, or requires more than");
    check_hostile(document("/Parent 3 0 R", FIRST, ""), "it is damaged, or requires more than");
    check_hostile(document("/Parent 2 0 R", "BT /F9 12 Tf (x) Tj ET", ""), "it is damaged");
}

/// A file whose cross-reference stream has fields of `width` bytes.
fn wide_fields(width: u64) -> Vec<u8> {
    let mut bytes = b"%PDF-1.5\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[]/Count 0>>endobj\n".to_vec();
    let start = bytes.len();
    let index = format!(
        "3 0 obj<</Type/XRef/Size 4/W[1 {width} 1]/Root 1 0 R/Length 9>>stream\n123456789\nendstream endobj\n"
    );
    bytes.extend(index.bytes());
    bytes.extend(format!("startxref\n{start}\n%%EOF").bytes());
    bytes
}

/// A compressed stream of `size` spaces.
fn packed(size: usize) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    std::io::copy(&mut std::io::repeat(b' ').take(size as u64), &mut encoder).unwrap();
    encoder.finish().unwrap()
}

/// A page whose content decompresses to `size` bytes.
fn bomb(size: usize) -> Vec<u8> {
    let content = packed(size);
    let head = format!("<</Filter/FlateDecode/Length {}>>\nstream\n", content.len());
    let mut objects = vec![
        b"<</Type/Catalog/Pages 2 0 R>>".to_vec(),
        b"<</Type/Pages/Kids[3 0 R]/Count 1/MediaBox[0 0 9 9]/Resources<<>>>>".to_vec(),
        b"<</Type/Page/Parent 2 0 R/Contents 4 0 R>>".to_vec(),
    ];
    objects.push([head.as_bytes(), &content, b"\nendstream"].concat());
    pdf(&objects)
}

// rows: LM-T2
#[test]
fn no_pdf_ends_the_process() {
    let hostile = [("width", wide_fields(70_368_744_177_664)), ("bomb", bomb(3 << 30))];
    for (name, file) in hostile {
        let desk = Desk::new();
        desk.put("file", file);
        let answer = desk.show("Read", json!({"file_path": "file"}));
        assert!(
            answer.contains("it is damaged, or requires more than 1024 MiB of memory"),
            "{name}: {answer}"
        );
    }
}

// rows: LM-T2
#[test]
fn the_reader_process_has_no_rights() {
    assert_eq!(windlass::testing::rights_of(&reader()), "granted: []");
}

// rows: LM-T2
#[test]
fn without_a_reader_documents_are_refused() {
    for (reader, why) in [
        (Reader::none(), "this program has no document reader: call `windlass::reader::reader_main()`"),
        (
            Reader::program("/nowhere/reader"),
            "cannot start the document reader `/nowhere/reader`: No such file",
        ),
        // A program that is no reader.
        (Reader::program("/bin/true"), "it is damaged, or requires more than"),
    ] {
        let desk = Desk {
            registry: windlass::registry().add_all(builtin::file_tools(&reader)).unwrap(),
            ..Desk::new()
        };
        desk.put("file", document("/Parent 2 0 R", FIRST, ""));
        let answer = desk.show("Read", json!({"file_path": "file"}));
        assert!(answer.starts_with(&format!("error: cannot read the PDF `file`: {why}")), "{answer}");
    }
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

/// A Word document with a body.
pub fn word(body: &str) -> Vec<u8> {
    let namespace = "http://schemas.openxmlformats.org/wordprocessingml/2006/main";
    let xml = format!(
        "<?xml version=\"1.0\"?><w:document xmlns:w=\"{namespace}\"><w:body>{body}</w:body></w:document>"
    );
    let mut archive = ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, content) in [("[Content_Types].xml", "<Types/>"), ("word/document.xml", &xml)] {
        archive.start_file(name, SimpleFileOptions::default()).unwrap();
        archive.write_all(content.as_bytes()).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

// rows: LM-T2
#[test]
fn a_word_document_is_read_as_text() {
    let cell = |text: &str| format!("<w:tc><w:p><w:r><w:t>{text}</w:t></w:r></w:p></w:tc>");
    let body = format!(
        "<w:p><w:pPr><w:pStyle w:val=\"Heading2\"/></w:pPr><w:r><w:t>Head</w:t></w:r></w:p>\
         <w:p><w:r><w:t xml:space=\"preserve\">A &amp; </w:t></w:r><w:r><w:t>b&#233;</w:t><w:tab/><w:t>c</w:t></w:r></w:p><w:p/>\
         <w:p><w:pPr><w:numPr/></w:pPr><w:r><w:t>one</w:t></w:r></w:p><w:p><w:pPr><w:numPr/></w:pPr><w:r><w:t>two</w:t></w:r></w:p>\
         <w:tbl><w:tr>{}{}</w:tr><w:tr>{}{}</w:tr></w:tbl><w:p><w:r><w:delText>gone</w:delText><w:t>end</w:t></w:r></w:p>",
        cell("1"),
        cell("2"),
        cell("3"),
        cell("4")
    );
    let expected = "ok: ## Head\n\nA & b\u{e9}\tc\n\n- one\n- two\n| 1 | 2 |\n| 3 | 4 |\n\nend";
    check(word(&body), json!({}), expected);
    let mut archive = ZipWriter::new(std::io::Cursor::new(Vec::new()));
    archive.start_file("[Content_Types].xml", SimpleFileOptions::default()).unwrap();
    let sheet = archive.finish().unwrap().into_inner();
    let other = "it is not a Word document: it has no part `word/document.xml` (specified file not found in \
                 archive)";
    check(sheet, json!({}), &format!("error: cannot read the Word document `file`: {other}"));
    let damaged = word("<w:p><w:t>");
    for end in (60..damaged.len()).step_by(37) {
        let desk = Desk::new();
        desk.put("file", &damaged[..end]);
        let answer = desk.show("Read", json!({"file_path": "file"}));
        assert!(answer.starts_with("error: cannot read the Word document `file`:"), "{answer}");
    }
}
