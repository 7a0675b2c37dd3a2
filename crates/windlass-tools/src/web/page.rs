//! Reads a web page as Markdown, or as plain text if it cannot be converted.
//!
//! The reader process parses the page.

use tokio_util::sync::CancellationToken;
use windlass_outbound::Url;

use crate::reader::{Document, Format, ReadError, Reader, Request};

/// Maximum size of a page, in bytes. Pages have about 100 KiB without the files that they load.
const MAX_HTML_BYTES: usize = 4 * 1024 * 1024;

/// A converted page.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Page {
    pub title: String,
    /// Markdown or plain text.
    pub text: String,
    /// A remark on the conversion.
    pub note: Option<&'static str>,
}

/// Reads a page. The model reads the error.
pub(super) async fn read(
    html: &str,
    url: &Url,
    reader: &Reader,
    cancel: &CancellationToken,
) -> Result<Page, String> {
    let is_cut = html.len() > MAX_HTML_BYTES;
    let html = &html[..html.floor_char_boundary(MAX_HTML_BYTES)];
    let request = Request { base: Some(url.to_string()), ..Request::whole(Format::Html) };
    let bare = Request::whole(Format::BareHtml);
    match reader.read(&request, html.as_bytes(), cancel).await {
        Ok(Document { title, text }) => {
            let note = is_cut.then_some("the page is too large: only the beginning was read");
            Ok(Page { title, text, note })
        }
        Err(ReadError::Refused(_) | ReadError::Crashed { .. } | ReadError::Slow) => {
            let read = reader.read(&bare, html.as_bytes(), cancel).await;
            let Document { title, text } = read.map_err(|error| refused(url, &error))?;
            Ok(Page {
                title,
                text,
                note: Some("the page could not be converted to Markdown: its plain text is shown"),
            })
        }
        Err(error @ (ReadError::Absent | ReadError::Start { .. } | ReadError::Cancelled)) => {
            Err(refused(url, &error))
        }
    }
}

fn refused(url: &Url, error: &ReadError) -> String {
    format!("cannot read the page `{url}`: {error}")
}
