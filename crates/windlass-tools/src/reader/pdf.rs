//! Extracts the text of a PDF's pages.
//!
//! The module recognizes no text in images: a scanned page has no text. It has no
//! guards: a hostile file ends the process.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use pdf_extract::encryption::DecryptionError;
use pdf_extract::{Document, Error, PlainTextOutput, output_doc_page};

use super::wire::{Line, Request};

const DEFAULT_PAGES: u64 = 20;
const MAX_TEXT_BYTES: usize = 2 * 1024 * 1024;

/// Writes the text of the requested pages, each as soon as it is extracted.
pub(super) fn extract(
    bytes: &[u8],
    request: &Request,
    write: &mut dyn FnMut(Line) -> io::Result<()>,
) -> io::Result<Result<(), String>> {
    let document = match load(bytes) {
        Ok(document) => document,
        Err(why) => return Ok(Err(why)),
    };
    let first = request.first;
    let pages = document.get_pages();
    let total = pages.len() as u64;
    if total == 0 {
        return Ok(Err("it has no pages".to_owned()));
    }
    if first > total {
        return Ok(Err(format!("page {first} is beyond the end: it has {total} pages")));
    }
    let after = first.saturating_add(request.count.unwrap_or(DEFAULT_PAGES).max(1));
    let (mut last, mut written) = (first, 0);
    for number in pages.keys().filter(|number| (first..after).contains(&u64::from(**number))) {
        if written >= MAX_TEXT_BYTES {
            break;
        }
        last = u64::from(*number);
        write(Line::Page { number: last, total })?;
        write(Line::Text(format!("[page {number} of {total}]\n")))?;
        let text = match page_text(&document, *number) {
            Ok(page) if page.trim().is_empty() => "[no text on this page]\n".to_owned(),
            Ok(page) => format!("{}\n", page.trim()),
            Err(why) => format!("[this page cannot be read: {why}]\n"),
        };
        written += text.len();
        write(Line::Text(text))?;
    }
    if last < total {
        let note = format!("[pages {first}–{last} of {total}; continue with offset {}]\n", last + 1);
        write(Line::Text(note))?;
    }
    Ok(Ok(()))
}

/// Loads a document that needs no password.
fn load(bytes: &[u8]) -> Result<Document, String> {
    let document = Document::load_mem(bytes).map_err(|error| explain(&error))?;
    if document.is_encrypted() {
        // The parser drops the content that it could not decrypt.
        document.authenticate_password("").map_err(|error| explain(&error))?;
    }
    Ok(document)
}

fn explain(error: &Error) -> String {
    match error {
        Error::Decryption(DecryptionError::IncorrectPassword) | Error::InvalidPassword => PASSWORD.to_owned(),
        Error::Decryption(_) | Error::UnsupportedSecurityHandler(_) => {
            format!("its encryption is not supported ({error}); save a copy without encryption")
        }
        other => other.to_string(),
    }
}

const PASSWORD: &str = "it requires a password; save a copy without one, for example with `qpdf --decrypt \
                        --password=… locked.pdf open.pdf`";

fn page_text(document: &Document, number: u32) -> Result<String, String> {
    // A panic loses one page; a crash ends the process.
    let extracted = catch_unwind(AssertUnwindSafe(|| {
        let mut text = String::new();
        let mut output = PlainTextOutput::new(&mut text);
        output_doc_page(document, &mut output, number).map_err(|error| error.to_string())?;
        Ok(text)
    }));
    extracted.unwrap_or_else(|_| Err("it is damaged".to_owned()))
}

#[cfg(test)]
#[path = "pdf_tests.rs"]
mod tests;
