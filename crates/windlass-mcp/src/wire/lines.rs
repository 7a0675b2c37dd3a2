//! Splits a server's stdout into lines and parses each line as a JSON-RPC message. If a line is unreadable,
//! the module recovers the request id if possible.
//!
//! The module limits the size of each line and quotes none: an answer may contain credentials that the server
//! received. It fails no request.

use std::borrow::Cow;

use rmcp::RoleClient;
use rmcp::model::RequestId;
use rmcp::service::RxJsonRpcMessage;
use serde_json::error::Category;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

/// Maximum size of a message, in bytes; the same as over HTTP.
pub(crate) const LINE_MAX_BYTES: usize = 16 * 1024 * 1024;

/// A line of a server's stdout.
pub(crate) enum Line {
    Message(Box<RxJsonRpcMessage<RoleClient>>),
    Unreadable(Unreadable),
}

/// A line that is not a JSON-RPC message.
#[derive(Debug, PartialEq)]
pub(crate) struct Unreadable {
    pub recipient: Recipient,
    /// The reason, without text from the line.
    pub why: Cow<'static, str>,
}

/// The request that an unreadable line answers.
#[derive(Debug, PartialEq)]
pub(crate) enum Recipient {
    Request(RequestId),
    /// The line is an answer, but its id is missing or unreadable.
    UnknownRequest,
    /// The line is not an answer: a request or notification of the server, or text outside the protocol.
    None,
}

/// The lines of a process. [`Lines::next`] may be cancelled without losing data.
pub(crate) struct Lines<R> {
    read: BufReader<R>,
    line: Vec<u8>,
    /// The outline of a line that is too long.
    long: Option<Outline>,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub fn new(read: R) -> Self {
        Self { read: BufReader::new(read), line: Vec::new(), long: None }
    }

    /// Reads the next line that is not empty; `None` at the end.
    pub async fn next(&mut self) -> Option<Line> {
        loop {
            let Some(available) = self.read.fill_buf().await.ok().filter(|available| !available.is_empty())
            else {
                return self.last();
            };
            let newline = available.iter().position(|byte| *byte == b'\n');
            let taken = newline.map_or(available.len(), |at| at + 1);
            let part = &available[..taken];
            match &mut self.long {
                Some(outline) => outline.read(part),
                None if self.line.len() + taken > LINE_MAX_BYTES => {
                    let mut outline = Outline::default();
                    outline.read(&std::mem::take(&mut self.line));
                    outline.read(part);
                    self.long = Some(outline);
                }
                None => self.line.extend_from_slice(part),
            }
            self.read.consume(taken);
            if newline.is_none() {
                continue;
            }
            if let Some(outline) = self.long.take() {
                let why = format!("it is longer than {LINE_MAX_BYTES} bytes").into();
                let recipient = match outline.recipient() {
                    // Only an answer is that long. A dump of other data begins with other characters.
                    Recipient::None if outline.is_object() && !outline.has_method => {
                        Recipient::UnknownRequest
                    }
                    recipient => recipient,
                };
                return Some(Line::Unreadable(Unreadable { recipient, why }));
            }
            let line = parse_line(&std::mem::take(&mut self.line));
            if line.is_some() {
                return line;
            }
        }
    }

    /// Returns the last line if it has no newline and is a message. An incomplete line is dropped,
    /// because its truncated id may belong to another request. The end of the connection then
    /// leaves the outcome of its request unknown.
    fn last(&mut self) -> Option<Line> {
        self.long = None;
        match parse_line(&std::mem::take(&mut self.line))? {
            line @ Line::Message(_) => Some(line),
            Line::Unreadable(_) => None,
        }
    }
}

/// Counts the non-empty lines in the output of an ended server, for fuzzing.
#[cfg(feature = "testing")]
pub(crate) fn count_lines(output: &[u8]) -> usize {
    let mut lines = Lines::new(output);
    let read = std::iter::from_fn(|| futures::executor::block_on(lines.next()));
    read.count()
}

/// Parses a line; `None` if it is empty.
fn parse_line(line: &[u8]) -> Option<Line> {
    let line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line).trim_ascii();
    (!line.is_empty()).then(|| parse_message(line))
}

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// Parses a JSON-RPC message.
pub(crate) fn parse_message(text: &[u8]) -> Line {
    // The first byte is checked before parsing, because a server may print endless text.
    if !text.starts_with(b"{") {
        let why = "it is not a JSON object".into();
        return Line::Unreadable(Unreadable { recipient: Recipient::None, why });
    }
    let error = match serde_json::from_slice(text) {
        Ok(message) => return Line::Message(Box::new(message)),
        Err(error) => error,
    };
    let why = match error.classify() {
        _ if std::str::from_utf8(text).is_err() => "it is not UTF-8",
        Category::Data => "it is neither a result nor an error",
        _ if error.to_string().starts_with("recursion limit") => "it is nested too deeply",
        Category::Syntax | Category::Eof | Category::Io => "it is not JSON",
    };
    let mut outline = Outline::default();
    outline.read(text);
    Line::Unreadable(Unreadable { recipient: outline.recipient(), why: why.into() })
}

/// Scans the top level of an object byte by byte, to find the id of a
/// message whose rest is unreadable or too long.
#[derive(Default)]
struct Outline {
    /// The first byte that is neither white space nor part of a byte order mark.
    first: Option<u8>,
    depth: usize,
    in_text: bool,
    is_escaped: bool,
    /// The beginning of the current text or number.
    token: Vec<u8>,
    /// The key of the current member, until its value is read.
    key: Option<Vec<u8>>,
    id: Option<RequestId>,
    has_method: bool,
    has_version: bool,
}

/// Maximum number of bytes kept of a key, a number or an id.
const TOKEN_MAX_BYTES: usize = 64;

impl Outline {
    fn recipient(&self) -> Recipient {
        match &self.id {
            _ if self.has_method || !self.is_object() => Recipient::None,
            Some(id) => Recipient::Request(id.clone()),
            None if self.has_version => Recipient::UnknownRequest,
            None => Recipient::None,
        }
    }

    fn is_object(&self) -> bool {
        self.first == Some(b'{')
    }

    fn read(&mut self, bytes: &[u8]) {
        let is_first = |byte: &u8| !byte.is_ascii_whitespace() && !BYTE_ORDER_MARK.contains(byte);
        self.first = self.first.or_else(|| bytes.iter().copied().find(is_first));
        bytes.iter().for_each(|byte| self.take(*byte));
    }

    fn take(&mut self, byte: u8) {
        if self.in_text {
            match byte {
                _ if self.is_escaped => {
                    self.is_escaped = false;
                    self.keep(byte);
                }
                b'\\' => self.is_escaped = true,
                b'"' => {
                    self.in_text = false;
                    self.text_ends();
                }
                byte => self.keep(byte),
            }
            return;
        }
        match byte {
            b'"' => {
                self.in_text = true;
                self.token.clear();
            }
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => {
                self.number_ends();
                self.depth = self.depth.saturating_sub(1);
            }
            b',' if self.depth == 1 => {
                self.number_ends();
                self.key = None;
            }
            b':' if self.depth == 1 => self.token.clear(),
            byte => self.keep(byte),
        }
    }

    fn keep(&mut self, byte: u8) {
        if self.depth == 1 && self.token.len() < TOKEN_MAX_BYTES {
            self.token.push(byte);
        }
    }

    fn text_ends(&mut self) {
        if self.depth != 1 {
            return;
        }
        let token = std::mem::take(&mut self.token);
        match &self.key {
            None => {
                self.has_method |= token == b"method";
                self.has_version |= token == b"jsonrpc";
                self.key = Some(token);
            }
            Some(key) if key == b"id" => {
                self.id = String::from_utf8(token).ok().map(|text| RequestId::String(text.into()));
            }
            Some(_) => {}
        }
    }

    fn number_ends(&mut self) {
        let is_id = self.depth == 1 && self.key.as_deref() == Some(b"id");
        if is_id
            && let Some(number) = std::str::from_utf8(&self.token).ok().and_then(|it| it.trim().parse().ok())
        {
            self.id = Some(RequestId::Number(number));
        }
        self.token.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recipient(text: &[u8]) -> Recipient {
        let Line::Unreadable(unreadable) = parse_message(text) else { panic!("it was read") };
        unreadable.recipient
    }

    async fn unreadable(lines: &mut Lines<&[u8]>) -> Recipient {
        let Some(Line::Unreadable(unreadable)) = lines.next().await else { panic!("it was read") };
        unreadable.recipient
    }

    #[test]
    fn an_unreadable_answer_names_its_request() {
        let seven = || Recipient::Request(RequestId::Number(7));
        let cases: [(&[u8], Recipient); 10] = [
            (br#"{"jsonrpc":"2.0","id":7}"#, seven()),
            (br#"{"id" : 7 , "result": [[[ {"id": 8} "#, seven()),
            (br#"{"result":"\"id\":3,","id":7}"#, seven()),
            (
                b"{\"result\":{\"a\":\"\xff\",\"id\":3},\"id\":\"x\"}",
                Recipient::Request(RequestId::String("x".into())),
            ),
            (br#"{"jsonrpc":"2.0","id":"7"}"#, Recipient::Request(RequestId::String("7".into()))),
            (br#"{"jsonrpc":"2.0","result":{"id":3}"#, Recipient::UnknownRequest),
            (br#"{"jsonrpc":"2.0","id":7,"method":1}"#, Recipient::None),
            (br#"{"level":"info","id2":7}"#, Recipient::None),
            (b"Listening on port 7", Recipient::None),
            (b"[7]", Recipient::None),
        ];
        for (text, wanted) in cases {
            assert_eq!(recipient(text), wanted, "{}", String::from_utf8_lossy(text));
        }
    }

    #[tokio::test]
    async fn a_line_that_is_too_long_is_skipped_and_reported() {
        let long = "x".repeat(LINE_MAX_BYTES);
        let text = format!(
            "\n{{\"result\":\"{long}\",\"id\":7}}\n{{\"result\":\"{long}\"}}\n{long}\n\
             {{\"jsonrpc\":\"2.0\",\"id\":8,\"result\":{{}}}}\n"
        );
        let mut lines = Lines::new(text.as_bytes());
        assert_eq!(unreadable(&mut lines).await, Recipient::Request(RequestId::Number(7)));
        assert_eq!(unreadable(&mut lines).await, Recipient::UnknownRequest);
        assert_eq!(unreadable(&mut lines).await, Recipient::None, "a dump answers no request");
        assert!(matches!(lines.next().await, Some(Line::Message(_))));
        assert!(lines.next().await.is_none());
    }

    #[tokio::test]
    async fn the_last_line_needs_no_newline() {
        let mut lines = Lines::new(br#"{"jsonrpc":"2.0","id":8,"result":{}}"#.as_slice());
        assert!(matches!(lines.next().await, Some(Line::Message(_))));
        assert!(lines.next().await.is_none());
        // A truncated line does not identify its request reliably.
        let mut lines = Lines::new(br#"{"jsonrpc":"2.0","id":8,"met"#.as_slice());
        assert!(lines.next().await.is_none());
    }
}
