//! The text of a PDF's pages, from a parser that is not trusted.
//!
//! A hostile file can make it panic, loop or recurse without end. It runs in a thread of its own
//! with a time limit, panics are caught page by page, and the two known endless recursions (a page
//! tree and drawn forms that contain themselves) are looked for first, because a stack that
//! overflows ends the process. What streams unpack to is bounded before the parser unpacks them
//! (`pdf/unpack.rs`), in an encrypted file too (`pdf/locked.rs`). No text recognition: a scanned page has no text.

mod locked;
mod unpack;

use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use pdf_extract::content::Content;
use pdf_extract::{Dictionary, Document, Object, ObjectId, PlainTextOutput, Stream, output_doc_page};
use tokio_util::sync::CancellationToken;

use super::{Answer, Refusal};
use crate::port::tool::ToolOutput;
use crate::tool::confined::{Confined, confined};

const DEFAULT_PAGES: u64 = 20;
/// A page takes milliseconds; a file that needs longer than this does not end.
const TIME_LIMIT: Duration = Duration::from_secs(30);
const MAX_PAGE_TREE_DEPTH: usize = 64;
const MAX_FORM_DEPTH: usize = 12;
/// Forms drawn on one page, counted as often as they are drawn.
const MAX_FORMS: usize = 2000;
/// A page's drawing is a few hundred kilobytes; that of a dense map is some megabytes.
const MAX_DRAWN_BYTES: usize = 16 * 1024 * 1024;
const MAX_TEXT_BYTES: usize = 2 * 1024 * 1024;

/// Shows the text of some pages.
pub(in crate::tool) fn show(
    bytes: Vec<u8>,
    path: &dyn Display,
    first: u64,
    count: Option<u64>,
    cancel: &CancellationToken,
) -> Answer {
    let work = move |stop: &CancellationToken| extract(&bytes, first, count, stop);
    let cannot = |problem: &str| Refusal(format!("cannot read the PDF `{path}`: {problem}"));
    match confined("pdf", TIME_LIMIT, cancel, work) {
        Ok(Ok(text)) => Ok(ToolOutput::text(text)),
        Ok(Err(problem)) => Err(cannot(&problem)),
        Err(Confined::Cancelled) => Err(Refusal::cancelled()),
        Err(Confined::Busy) => Err(Refusal::new("too many files are being read; try again later")),
        Err(Confined::Crashed) => Err(cannot("it is damaged")),
        Err(Confined::Slow) => {
            Err(Refusal(format!("cannot read the PDF `{path}` within {} s", TIME_LIMIT.as_secs())))
        }
    }
}

fn extract(bytes: &[u8], first: u64, count: Option<u64>, stop: &CancellationToken) -> Result<String, String> {
    let mut document = unpack::load(bytes)?;
    unpack::empty_oversized(&mut document);
    let pages = document.get_pages();
    let total = pages.len() as u64;
    if total == 0 {
        return Err("it has no pages".to_owned());
    }
    if first > total {
        return Err(format!("page {first} is beyond the end: it has {total} pages"));
    }
    let after = first.saturating_add(count.unwrap_or(DEFAULT_PAGES).max(1));
    let mut text = String::new();
    let mut last = first;
    for (number, id) in pages.iter().filter(|(number, _)| (first..after).contains(&u64::from(**number))) {
        if stop.is_cancelled() || text.len() >= MAX_TEXT_BYTES {
            break;
        }
        last = u64::from(*number);
        text.push_str(&format!("[page {number} of {total}]\n"));
        match page_text(&document, *number, *id) {
            Ok(page) if page.trim().is_empty() => text.push_str("[no text on this page]\n"),
            Ok(page) => {
                text.push_str(page.trim());
                text.push('\n');
            }
            Err(problem) => text.push_str(&format!("[this page cannot be read: {problem}]\n")),
        }
    }
    if last < total {
        text.push_str(&format!("[pages {first}–{last} of {total}; continue with offset {}]\n", last + 1));
    }
    Ok(text)
}

fn page_text(document: &Document, number: u32, id: ObjectId) -> Result<String, String> {
    let extracted = catch_unwind(AssertUnwindSafe(|| {
        refuse_recursion(document, id)?;
        let mut text = String::new();
        output_doc_page(document, &mut PlainTextOutput::new(&mut text), number)
            .map_err(|error| error.to_string())?;
        Ok(text)
    }));
    extracted.unwrap_or_else(|_| Err("it is damaged".to_owned()))
}

/// Refuses a page on which the parser would recurse without end.
fn refuse_recursion(document: &Document, page: ObjectId) -> Result<(), String> {
    let page_dictionary = document.get_dictionary(page).map_err(|error| error.to_string())?;
    let mut resources = None;
    let mut node = page_dictionary;
    for depth in 0.. {
        if depth > MAX_PAGE_TREE_DEPTH {
            return Err("its page tree is too deep".to_owned());
        }
        resources = resources.or_else(|| dictionary(document, node, b"Resources"));
        let parent = node.get(b"Parent").and_then(Object::as_reference);
        match parent.and_then(|parent| document.get_dictionary(parent)) {
            Ok(parent) => node = parent,
            Err(_) => break,
        }
    }
    let mut held = 0;
    for part in document.get_page_contents(page) {
        if let Ok(part) = document.get_object(part).and_then(Object::as_stream) {
            held = hold(held, part)?;
        }
    }
    let content = document.get_page_content(page).map_err(|error| error.to_string())?;
    let mut forms = 0;
    match resources {
        Some(resources) => walk_forms(document, &content, resources, Drawn { depth: 0, held }, &mut forms),
        None => Ok(()),
    }
}

/// What is being drawn at once: forms within each other, and their bytes, which the parser holds many times over.
#[derive(Clone, Copy)]
struct Drawn {
    depth: usize,
    held: usize,
}

fn hold(held: usize, stream: &Stream) -> Result<usize, String> {
    unpack::size(stream, MAX_DRAWN_BYTES)
        .map(|size| held + size)
        .filter(|held| *held <= MAX_DRAWN_BYTES)
        .ok_or_else(|| format!("what it draws unpacks to more than {MAX_DRAWN_BYTES} bytes"))
}

/// Goes through what a content draws, as the parser will, but counts.
fn walk_forms(
    document: &Document,
    content: &[u8],
    resources: &Dictionary,
    outer: Drawn,
    forms: &mut usize,
) -> Result<(), String> {
    let Ok(content) = Content::decode(content) else { return Ok(()) };
    let drawn = content.operations.iter().filter(|operation| operation.operator == "Do");
    for name in drawn.filter_map(|operation| operation.operands.first()?.as_name().ok()) {
        let Some(form) =
            dictionary(document, resources, b"XObject").and_then(|all| stream(document, all, name))
        else {
            continue;
        };
        *forms += 1;
        if outer.depth >= MAX_FORM_DEPTH || *forms > MAX_FORMS {
            return Err("it draws too many forms within each other".to_owned());
        }
        let held = hold(outer.held, form)?;
        let inner = dictionary(document, &form.dict, b"Resources").unwrap_or(resources);
        let bytes = form.decompressed_content().unwrap_or_else(|_| form.content.clone());
        walk_forms(document, &bytes, inner, Drawn { depth: outer.depth + 1, held }, forms)?;
    }
    Ok(())
}

fn dictionary<'a>(document: &'a Document, holder: &'a Dictionary, key: &[u8]) -> Option<&'a Dictionary> {
    document.dereference(holder.get(key).ok()?).ok()?.1.as_dict().ok()
}

fn stream<'a>(document: &'a Document, holder: &'a Dictionary, key: &[u8]) -> Option<&'a Stream> {
    document.dereference(holder.get(key).ok()?).ok()?.1.as_stream().ok()
}
