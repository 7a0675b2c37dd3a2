//! `Read`: displays a file as text with line numbers, a PDF or Word document as text, or an image.
//!
//! The first bytes of a file determine its type; its name does not. Text is streamed, so that neither a large
//! file nor a long line is held in memory. Directories and binary files are rejected.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek};

use bytes::Bytes;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;
use windlass_engine::port::tool::{OutputPart, ToolOutput};
use windlass_engine::tool::{FolderError, FolderPath, WorkingFolder, image_type};
use windlass_schema::FunctionTool;

use super::{Answer, Refusal, look, read_only};
use crate::reader::{Format, Reader, Request};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ReadArguments {
    /// Path relative to the working folder, or absolute inside it.
    file_path: String,
    /// The first line, counted from 1; for a PDF, the first page.
    #[schemars(range(min = 1))]
    offset: Option<u64>,
    /// Number of lines (default: 2,000); for a PDF, number of pages (default: 20).
    #[schemars(range(min = 1))]
    limit: Option<u64>,
}

/// Creates the tool `Read`, which displays a file. The reader parses documents. (LM-T2)
pub fn read(reader: Reader) -> FunctionTool {
    FunctionTool::new("Read", DESCRIPTION, move |context, arguments: ReadArguments| {
        let reader = reader.clone();
        look(context, move |folder, cancel| show(folder, &reader, cancel, &arguments))
    })
    .path_argument("/file_path")
    .annotations(read_only())
    .reads_locally()
}

const DESCRIPTION: &str = "Read a file. Text has line numbers as in `cat -n`; lines are cut \
after 2,000 characters. Use `offset` and `limit` for the rest, and always over 50 MB. PDF and \
Word files come as text; PNG, JPEG, GIF and WebP up to 5 MB as images. Not for \
directories: use Glob.";

const DEFAULT_LINES: u64 = 2000;
const MAX_LINE_CHARS: usize = 2000;
/// Maximum number of bytes kept of a line. A character has at most four bytes,
/// so every line that is not truncated fits.
const MAX_LINE_BYTES: usize = MAX_LINE_CHARS * 4 + 4;
const MAX_IMAGE_BYTES: u64 = 5 * 1024 * 1024;
/// Maximum size of a file that is read as a whole, in bytes. A larger text is read only
/// in windows; a larger document is rejected.
const MAX_WHOLE_BYTES: u64 = 50 * 1024 * 1024;
/// Maximum number of bytes that one call reads for display, for any number of
/// requested lines. A result holds far less.
const MAX_SHOWN_BYTES: usize = 2 * 1024 * 1024;
/// Number of bytes inspected to detect a binary file, as in git.
const SNIFF_BYTES: u64 = 8000;
/// Number of lines between two checks of the cancel signal.
const CANCEL_EVERY: u64 = 256;

fn show(
    folder: &WorkingFolder,
    reader: &Reader,
    cancel: &CancellationToken,
    arguments: &ReadArguments,
) -> Answer {
    let path = folder.resolve(&arguments.file_path)?;
    let mut file = folder.open_file(&path).map_err(|error| match error {
        FolderError::Directory(path) => Refusal(format!("`{path}` is a directory; list it with Glob")),
        other => other.into(),
    })?;
    let failed = |error| Refusal::io("read", &path, error);
    let size_bytes = file.metadata().map_err(failed)?.len();
    let mut start = Vec::new();
    (&mut file).take(SNIFF_BYTES).read_to_end(&mut start).map_err(failed)?;
    file.rewind().map_err(failed)?;
    if start.is_empty() {
        return Ok(ToolOutput::text(format!("[`{path}` is empty]")));
    }
    if let Some(media_type) = image_type(&start) {
        return show_image(file, size_bytes, &path, media_type);
    }
    if let Some(format) = Format::of(&start) {
        let bytes = read_at_most(file, MAX_WHOLE_BYTES).map_err(failed)?.ok_or_else(|| {
            Refusal(format!("the {format} `{path}` has {size_bytes} bytes; the limit is {MAX_WHOLE_BYTES}"))
        })?;
        let first = arguments.offset.unwrap_or(1).max(1);
        let request = Request { first, count: arguments.limit, ..Request::whole(format) };
        let read = reader.read_blocking(&request, &bytes, cancel);
        let document =
            read.map_err(|error| Refusal(format!("cannot read the {format} `{path}`: {error}")))?;
        return Ok(ToolOutput::text(document.text));
    }
    if start.contains(&0) {
        return Err(Refusal(format!(
            "`{path}` is a binary file of {size_bytes} bytes; only text, PDF and Word documents and images \
             can be read"
        )));
    }
    if size_bytes > MAX_WHOLE_BYTES && arguments.offset.is_none() && arguments.limit.is_none() {
        return Err(Refusal(format!(
            "`{path}` has {size_bytes} bytes; over {MAX_WHOLE_BYTES} bytes, set `offset` and `limit`, or \
             search with Grep"
        )));
    }
    let window = Window {
        first: arguments.offset.unwrap_or(1).max(1),
        count: arguments.limit.unwrap_or(DEFAULT_LINES).max(1),
        // The rest of a small file is counted, so that the model knows its length.
        counts_rest: size_bytes <= MAX_WHOLE_BYTES,
    };
    window.show(file, &path, cancel)
}

fn show_image(file: File, size_bytes: u64, path: &FolderPath, media_type: &str) -> Answer {
    let bytes = read_at_most(file, MAX_IMAGE_BYTES).map_err(|error| Refusal::io("read", path, error))?;
    let Some(bytes) = bytes else {
        return Err(Refusal(format!(
            "the image `{path}` has {size_bytes} bytes; the limit is {MAX_IMAGE_BYTES}"
        )));
    };
    let image = OutputPart::Image { media_type: media_type.to_owned(), bytes: Bytes::from(bytes) };
    Ok(ToolOutput { parts: vec![image], ..ToolOutput::default() })
}

/// Reads a whole file. Returns `None` if the file has more than `max_bytes` bytes.
fn read_at_most(file: File, max_bytes: u64) -> std::io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    file.take(max_bytes + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= max_bytes).then_some(bytes))
}

/// The range of requested lines.
struct Window {
    first: u64,
    count: u64,
    counts_rest: bool,
}

/// Why a window ended.
enum End {
    OfFile,
    OfWindow,
}

impl Window {
    fn show(&self, file: File, path: &FolderPath, cancel: &CancellationToken) -> Answer {
        let mut lines = Lines { reader: BufReader::with_capacity(64 * 1024, file), kept: Vec::new() };
        let mut shown = Shown::default();
        let after = self.first.saturating_add(self.count);
        let mut number: u64 = 0;
        let end = loop {
            if number.is_multiple_of(CANCEL_EVERY) && cancel.is_cancelled() {
                return Err(Refusal::cancelled());
            }
            if !self.counts_rest && (number + 1 >= after || shown.is_full()) {
                break End::OfWindow;
            }
            let Some(length) = lines.advance().map_err(|error| Refusal::io("read", path, error))? else {
                break End::OfFile;
            };
            number += 1;
            if (self.first..after).contains(&number) && !shown.is_full() {
                shown.push(number, &lines.kept, length);
            }
        };
        if shown.last == 0 {
            return Err(Refusal(format!(
                "line {} is beyond the end: `{path}` has {number} lines",
                self.first
            )));
        }
        shown.note(self.first, number, &end);
        Ok(ToolOutput::text(shown.text))
    }
}

/// The displayed text so far.
#[derive(Default)]
struct Shown {
    text: String,
    /// The number of the last displayed line; 0 before the first.
    last: u64,
    cut_lines: u64,
    is_lossy: bool,
}

impl Shown {
    fn is_full(&self) -> bool {
        self.text.len() >= MAX_SHOWN_BYTES
    }

    fn push(&mut self, number: u64, kept: &[u8], length: u64) {
        let is_whole = kept.len() as u64 == length;
        // A character split by the truncation does not make the file invalid.
        let valid = match std::str::from_utf8(kept) {
            Err(error) if !is_whole && error.error_len().is_none() => &kept[..error.valid_up_to()],
            Ok(_) | Err(_) => kept,
        };
        self.is_lossy |= std::str::from_utf8(valid).is_err();
        let line = String::from_utf8_lossy(valid);
        let line = line.strip_suffix('\r').unwrap_or(&line);
        let end = line.char_indices().nth(MAX_LINE_CHARS).map(|(end, _)| end);
        self.text.push_str(&format!("{number:>6}\t{}", &line[..end.unwrap_or(line.len())]));
        if end.is_some() {
            self.cut_lines += 1;
            self.text.push_str(&format!(" [cut: the line has {length} bytes]"));
        }
        self.text.push('\n');
        self.last = number;
    }

    fn note(&mut self, first: u64, read: u64, end: &End) {
        let next = self.last + 1;
        match end {
            End::OfFile if self.last < read => {
                let last = self.last;
                self.text
                    .push_str(&format!("[lines {first}–{last} of {read}; continue with offset {next}]\n"));
            }
            End::OfWindow => self.text.push_str(&format!("[more may follow; continue with offset {next}]\n")),
            End::OfFile => {}
        }
        if self.cut_lines > 0 {
            let cut = self.cut_lines;
            self.text.push_str(&format!("[{cut} lines cut after {MAX_LINE_CHARS} characters]\n"));
        }
        if self.is_lossy {
            self.text.push_str("[not valid UTF-8: invalid bytes are shown as \u{fffd}]\n");
        }
    }
}

/// Reads a file line by line and holds only the beginning of each line.
struct Lines {
    reader: BufReader<File>,
    /// The beginning of the current line, without its line ending.
    kept: Vec<u8>,
}

impl Lines {
    /// Reads a line. Returns its length in bytes; `None` at the end of the file.
    fn advance(&mut self) -> std::io::Result<Option<u64>> {
        self.kept.clear();
        let mut length: u64 = 0;
        let mut is_begun = false;
        loop {
            let buffer = self.reader.fill_buf()?;
            if buffer.is_empty() {
                return Ok(is_begun.then_some(length));
            }
            is_begun = true;
            let end = buffer.iter().position(|byte| *byte == b'\n');
            let part = &buffer[..end.unwrap_or(buffer.len())];
            let room = MAX_LINE_BYTES - self.kept.len();
            self.kept.extend_from_slice(&part[..part.len().min(room)]);
            length += part.len() as u64;
            let used = part.len() + usize::from(end.is_some());
            self.reader.consume(used);
            if end.is_some() {
                return Ok(Some(length));
            }
        }
    }
}
