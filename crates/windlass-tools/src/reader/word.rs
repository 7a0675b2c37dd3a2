//! Extracts the text of a Word document (Office Open XML, ECMA-376 part 1): paragraphs, headings, lists and tables.
//!
//! Headers, footnotes, comments and deleted text are skipped.

use std::io::{Cursor, Read};

use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesStart, Event};
use quick_xml::{Reader, XmlVersion};
use zip::ZipArchive;

/// The part of the archive that contains the text.
const PART: &str = "word/document.xml";
/// Maximum size of this part, in bytes. A book has far less.
const MAX_PART_BYTES: u64 = 256 * 1024 * 1024;
const MAX_TEXT_BYTES: usize = 2 * 1024 * 1024;
/// Maximum heading level in Markdown. Word has nine levels.
const MAX_HEADING: usize = 6;

/// Extracts the text of a document.
pub(super) fn extract(bytes: &[u8]) -> Result<String, String> {
    let mut archive = ZipArchive::new(Cursor::new(bytes)).map_err(|error| error.to_string())?;
    let part = archive
        .by_name(PART)
        .map_err(|error| format!("it is not a Word document: it has no part `{PART}` ({error})"))?;
    let mut xml = Vec::new();
    part.take(MAX_PART_BYTES).read_to_end(&mut xml).map_err(|error| error.to_string())?;
    let mut writer = Writer::default();
    let mut reader = Reader::from_reader(xml.as_slice());
    while writer.text.len() < MAX_TEXT_BYTES {
        match reader.read_event().map_err(|error| error.to_string())? {
            Event::Start(element) => writer.start(&element),
            Event::Empty(element) => {
                writer.start(&element);
                writer.end(element.local_name().as_ref());
            }
            Event::End(element) => writer.end(element.local_name().as_ref()),
            Event::Text(text) => {
                writer.push(&text.xml_content(XmlVersion::Implicit1_0));
            }
            Event::GeneralRef(reference) => match reference.resolve_char_ref().ok().flatten() {
                Some(character) => writer.push(character.encode_utf8(&mut [0; 4])),
                None => writer.push(resolve_predefined_entity(&reference).unwrap_or_default()),
            },
            Event::Eof => return Ok(writer.text),
            Event::CData(_) | Event::Comment(_) | Event::Decl(_) | Event::PI(_) | Event::DocType(_) => {}
        }
    }
    writer.text.push_str("\n[truncated: the document has more text]\n");
    Ok(writer.text)
}

#[derive(Default)]
struct Writer {
    text: String,
    line: String,
    /// Whether the parser is inside an element whose text is extracted.
    is_text: bool,
    heading: usize,
    is_list: bool,
    /// The cells of the current row, for each open table.
    rows: Vec<Vec<String>>,
}

impl Writer {
    fn start(&mut self, element: &BytesStart<'_>) {
        match element.local_name().as_ref() {
            "t" => self.is_text = true,
            "tab" => self.line.push('\t'),
            "br" | "cr" => self.line.push('\n'),
            "noBreakHyphen" => self.line.push('-'),
            "pStyle" => self.heading = value(element).map(|style| level(&style)).unwrap_or_default(),
            "numPr" => self.is_list = true,
            "tr" => self.rows.push(Vec::new()),
            "tc" => {
                if let Some(row) = self.rows.last_mut() {
                    row.push(String::new());
                }
            }
            _ => {}
        }
    }

    fn push(&mut self, text: &str) {
        if self.is_text {
            self.line.push_str(text);
        }
    }

    fn end(&mut self, name: &str) {
        match name {
            "t" => self.is_text = false,
            "p" => self.end_paragraph(),
            "tr" => {
                let row = self.rows.pop().unwrap_or_default();
                let line = format!("| {} |", row.join(" | "));
                self.put(&line, "\n");
            }
            "tbl" => self.put("", "\n"),
            _ => {}
        }
    }

    fn end_paragraph(&mut self) {
        let line = std::mem::take(&mut self.line);
        let (heading, is_list) = (std::mem::take(&mut self.heading), std::mem::take(&mut self.is_list));
        let line = line.trim();
        if line.is_empty() {
            return;
        }
        let mark = match (heading, is_list) {
            (1.., _) => format!("{} ", "#".repeat(heading)),
            (0, true) => "- ".to_owned(),
            (0, false) => String::new(),
        };
        self.put(&format!("{mark}{line}"), if is_list { "\n" } else { "\n\n" });
    }

    /// Adds a block to the innermost cell, or to the text.
    fn put(&mut self, block: &str, end: &str) {
        match self.rows.last_mut().and_then(|row| row.last_mut()) {
            Some(cell) => {
                if !cell.is_empty() {
                    cell.push(' ');
                }
                cell.push_str(&block.replace('\n', " "));
            }
            None => {
                self.text.push_str(block);
                self.text.push_str(end);
            }
        }
    }
}

/// Returns the attribute `val`.
fn value(element: &BytesStart<'_>) -> Option<String> {
    let mut attributes = element.attributes();
    let attribute =
        attributes.with_checks(false).flatten().find(|it| it.key.local_name().as_ref() == "val")?;
    Some(attribute.value.into_owned())
}

/// Returns the heading level of a style: `Title`, `Heading1`, `heading 2`; 0 for other styles.
fn level(style: &str) -> usize {
    let style = style.to_ascii_lowercase();
    if style == "title" {
        return 1;
    }
    let number = style.strip_prefix("heading").and_then(|level| level.trim().parse::<usize>().ok());
    number.map_or(0, |level| level.clamp(1, MAX_HEADING))
}
