//! The lines that a server process writes: messages, and answers that cannot be read, with the call that they are for.
//!
//! It bounds each line and quotes none: an answer may hold what the server was given. What becomes of a call is the
//! caller's.

use rmcp::RoleClient;
use rmcp::model::RequestId;
use rmcp::service::RxJsonRpcMessage;
use serde_json::error::Category;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

/// Bytes of one message at most, as over HTTP.
pub(super) const LINE_MAX_BYTES: usize = 16 * 1024 * 1024;

/// What a server said.
pub(super) enum Said {
    Message(Box<RxJsonRpcMessage<RoleClient>>),
    Unreadable(Unreadable),
}

/// A line that is no message.
#[derive(Debug, PartialEq)]
pub(super) struct Unreadable {
    pub of: Of,
    /// Without what it says.
    pub why: String,
}

/// What an unreadable line was to be.
#[derive(Debug, PartialEq)]
pub(super) enum Of {
    /// The answer to a request.
    Answer(RequestId),
    /// The answer to a request that it does not name.
    SomeAnswer,
    /// A request or notification of the server, or no part of the protocol.
    Else,
}

/// The output of a process by lines. May be dropped while it waits and be asked again: nothing is lost.
pub(super) struct Lines<R> {
    read: BufReader<R>,
    line: Vec<u8>,
    /// Of a line that is too long.
    long: Option<Outline>,
    /// Lines that are no part of the protocol.
    strays: usize,
}

/// Stray lines that are logged: a server may print text for people without an end.
const MAX_STRAYS: usize = 20;

impl<R: AsyncRead + Unpin> Lines<R> {
    pub fn new(read: R) -> Self {
        Self { read: BufReader::new(read), line: Vec::new(), long: None, strays: 0 }
    }

    /// The next that is said; `None` at the end.
    pub async fn next(&mut self) -> Option<Said> {
        loop {
            let available = self.read.fill_buf().await.ok().filter(|available| !available.is_empty())?;
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
                let why = format!("it is longer than {LINE_MAX_BYTES} bytes");
                let of = match outline.of() {
                    // Nothing but an answer is as long.
                    Of::Else if !outline.has_method => Of::SomeAnswer,
                    of => of,
                };
                return Some(Said::Unreadable(Unreadable { of, why }));
            }
            let said = read(&self.line, self.strays < MAX_STRAYS);
            self.line.clear();
            if let Some(Said::Unreadable(Unreadable { of: Of::Else, .. })) = said {
                self.strays += 1;
            }
            if let Some(said) = said {
                return Some(said);
            }
        }
    }
}

/// Reads a line; `None` if it is empty, or is no message and need not be told.
fn read(line: &[u8], tells_strays: bool) -> Option<Said> {
    let line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line).trim_ascii();
    // What begins otherwise is not read: it may be a flood.
    if line.is_empty() || !tells_strays && !line.starts_with(b"{") {
        return None;
    }
    Some(match message(line) {
        Ok(message) => Said::Message(message),
        Err(unreadable) => Said::Unreadable(unreadable),
    })
}

/// Reads a message. The error says what it was to be.
pub(super) fn message(text: &[u8]) -> Result<Box<RxJsonRpcMessage<RoleClient>>, Unreadable> {
    let error = match serde_json::from_slice(text) {
        Ok(message) => return Ok(Box::new(message)),
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
    Err(Unreadable { of: outline.of(), why: why.to_owned() })
}

/// The top level of an object, read byte by byte: the id of a message whose rest cannot be read or kept.
#[derive(Default)]
struct Outline {
    depth: usize,
    in_text: bool,
    is_escaped: bool,
    /// The beginning of the text or number that is being read.
    token: Vec<u8>,
    /// The key of the member that is being read, once its value comes.
    key: Option<Vec<u8>>,
    id: Option<RequestId>,
    has_method: bool,
    has_version: bool,
}

/// Bytes of a key, a number or an id that are kept.
const TOKEN_MAX_BYTES: usize = 64;

impl Outline {
    fn of(&self) -> Of {
        match &self.id {
            _ if self.has_method => Of::Else,
            Some(id) => Of::Answer(id.clone()),
            None if self.has_version => Of::SomeAnswer,
            None => Of::Else,
        }
    }

    fn read(&mut self, bytes: &[u8]) {
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

    fn of(text: &[u8]) -> Of {
        message(text).unwrap_err().of
    }

    #[test]
    fn an_unreadable_answer_says_whose_it_is() {
        let seven = || Of::Answer(RequestId::Number(7));
        let cases: [(&[u8], Of); 9] = [
            (br#"{"jsonrpc":"2.0","id":7}"#, seven()),
            (br#"{"id" : 7 , "result": [[[ {"id": 8} "#, seven()),
            (br#"{"result":"\"id\":3,","id":7}"#, seven()),
            (
                b"{\"result\":{\"a\":\"\xff\",\"id\":3},\"id\":\"x\"}",
                Of::Answer(RequestId::String("x".into())),
            ),
            (br#"{"jsonrpc":"2.0","result":{"id":3}"#, Of::SomeAnswer),
            (br#"{"jsonrpc":"2.0","id":7,"method":1}"#, Of::Else),
            (br#"{"level":"info","id2":7}"#, Of::Else),
            (b"Listening on port 7", Of::Else),
            (b"[7]", Of::Else),
        ];
        for (text, wanted) in cases {
            assert_eq!(of(text), wanted, "{}", String::from_utf8_lossy(text));
        }
    }

    #[tokio::test]
    async fn a_line_that_is_too_long_is_passed_over_and_said() {
        let long = format!("{{\"result\":\"{}\",\"id\":7}}\n", "x".repeat(LINE_MAX_BYTES));
        let text = format!("\n{long}{{\"jsonrpc\":\"2.0\",\"id\":8,\"result\":{{}}}}\n");
        let mut lines = Lines::new(text.as_bytes());
        let Some(Said::Unreadable(unreadable)) = lines.next().await else { panic!("it was read") };
        assert_eq!(unreadable.of, Of::Answer(RequestId::Number(7)));
        assert!(matches!(lines.next().await, Some(Said::Message(_))));
        assert!(lines.next().await.is_none());
    }
}
