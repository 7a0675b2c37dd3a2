//! The messages between the two processes: one line of JSON and the document in, lines of JSON out.
//!
//! This module starts no process and parses no document.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Maximum size of an answer, in bytes. A tool displays far less.
pub(super) const MAX_ANSWER_BYTES: u64 = 16 * 1024 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Format {
    /// A PDF as the text of its pages.
    Pdf,
    /// A Word document (OOXML) as text.
    Word,
    /// A page of the web as Markdown.
    Html,
    /// A web page as text without structure, if it cannot be converted.
    BareHtml,
    /// A page of search results as a JSON list.
    Results,
    /// Reports which rights the process still has.
    #[cfg(feature = "testing")]
    Rights,
}

/// Describes how to read the document that follows.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Request {
    pub format: Format,
    /// The URL of a page. Links in the page are relative to this URL.
    pub base: Option<String>,
    /// The first page to read, counted from 1.
    pub first: u64,
    /// The number of pages to read; `None`: all.
    pub count: Option<u64>,
}

/// A document as text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Document {
    pub title: String,
    pub text: String,
}

/// A line of the answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Line {
    Title(String),
    Text(String),
    Page { number: u64, total: u64 },
    Refused(String),
    End,
}

impl Format {
    /// Returns the format of a document that only a reader can parse; `None` for text and any other format.
    pub(crate) fn of(bytes: &[u8]) -> Option<Self> {
        if bytes.starts_with(b"%PDF-") {
            return Some(Self::Pdf);
        }
        // Office documents are ZIP archives whose first file has one of these names.
        let is_archive = bytes.starts_with(b"PK\x03\x04");
        let name = bytes.get(30..).unwrap_or_default();
        let begins = [&b"[Content_Types].xml"[..], b"_rels/", b"word/", b"docProps/"];
        let is_office = is_archive && begins.iter().any(|begin| name.starts_with(begin));
        is_office.then_some(Self::Word)
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pdf => "PDF",
            Self::Word => "Word document",
            Self::Html | Self::BareHtml => "page",
            Self::Results => "results page",
            #[cfg(feature = "testing")]
            Self::Rights => "list of rights",
        })
    }
}

impl Request {
    /// Creates a request for the whole document.
    pub(crate) fn whole(format: Format) -> Self {
        Self { format, base: None, first: 1, count: None }
    }

    /// Encodes the line before the document.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut line = serde_json::to_vec(self).unwrap_or_default();
        line.push(b'\n');
        line
    }
}
