//! The messages between the two processes: one line of JSON and the document in, lines of JSON out.
//!
//! It starts no process and parses no document.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Largest answer; far more than a tool displays.
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
    /// The URL of a page; its links are relative to it.
    pub base: Option<String>,
    /// The first page to read, from 1.
    pub first: u64,
    /// The number of pages; `None`: all.
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
    /// The format of a document that only a reader can parse; `None` for text and anything else.
    pub(crate) fn of(bytes: &[u8]) -> Option<Self> {
        if bytes.starts_with(b"%PDF-") {
            return Some(Self::Pdf);
        }
        // A ZIP archive whose first file has a name that Office documents use.
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
    /// A request for the whole document.
    pub(crate) fn whole(format: Format) -> Self {
        Self { format, base: None, first: 1, count: None }
    }

    /// The line before the document.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut line = serde_json::to_vec(self).unwrap_or_default();
        line.push(b'\n');
        line
    }
}
