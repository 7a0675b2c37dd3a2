//! Parses the chunks of a body into server-sent events.
//!
//! Implements the parsing rules of the WHATWG specification
//! (<https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream>) for `data` and `event`.
//! Identifiers and reconnection times are ignored: the client never reconnects to the stream of a model's reply.

use windlass_engine::port::model::ModelError;
use windlass_machine::FailureClass;

/// Maximum size of an event, in bytes. Only generated images are
/// nearly as large: about 20 megabytes in base64.
const EVENT_MAX_BYTES: usize = 32 * 1024 * 1024;

/// Whether a reply continues after an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// More events may follow.
    More,
    /// This event ended the reply.
    End,
}

/// Splits a body into events, for chunks of any size.
#[derive(Default)]
pub(crate) struct EventReader {
    /// The beginning of a line whose end has not arrived.
    line: Vec<u8>,
    /// The `event` field of the current event; empty if the event has none.
    name: String,
    /// The `data` lines of the current event, joined by line feeds.
    data: Vec<u8>,
    has_data: bool,
    /// Whether the last byte was a carriage return. A line feed after it belongs to the same line ending.
    after_return: bool,
    /// Whether a first line has been read. A byte-order mark is allowed only before it.
    started: bool,
}

impl EventReader {
    /// Passes each complete event of a chunk, with its name and data, to `handle`. Stops at
    /// [`Flow::End`] or an error and ignores the rest of the chunk. An event without its final blank
    /// line is incomplete and is never passed to `handle`.
    pub(crate) fn read(
        &mut self,
        mut chunk: &[u8],
        handle: &mut impl FnMut(&str, &[u8]) -> Result<Flow, ModelError>,
    ) -> Result<Flow, ModelError> {
        loop {
            if self.after_return
                && let Some(first) = chunk.first()
            {
                self.after_return = false;
                if *first == b'\n' {
                    chunk = &chunk[1..];
                }
            }
            let Some(end) = memchr::memchr2(b'\n', b'\r', chunk) else {
                self.line.extend_from_slice(chunk);
                self.require_bounded()?;
                return Ok(Flow::More);
            };
            self.after_return = chunk[end] == b'\r';
            let ended_event = if self.line.is_empty() {
                self.read_line(&chunk[..end])
            } else {
                let mut line = std::mem::take(&mut self.line);
                line.extend_from_slice(&chunk[..end]);
                let ended = self.read_line(&line);
                line.clear();
                self.line = line;
                ended
            };
            self.require_bounded()?;
            chunk = &chunk[end + 1..];
            if ended_event {
                let flow = handle(&self.name, &self.data);
                self.name.clear();
                self.data.clear();
                self.has_data = false;
                if flow? == Flow::End {
                    return Ok(Flow::End);
                }
            }
        }
    }

    /// Processes one complete line. Returns whether the line ended an event with data.
    fn read_line(&mut self, line: &[u8]) -> bool {
        const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();
        let line = if self.started { line } else { line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line) };
        self.started = true;
        if line.is_empty() {
            if !self.has_data {
                self.name.clear();
            }
            return self.has_data;
        }
        let (field, value) = match memchr::memchr(b':', line) {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &[][..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => {
                if self.has_data {
                    self.data.push(b'\n');
                }
                self.data.extend_from_slice(value);
                self.has_data = true;
            }
            b"event" => self.name = String::from_utf8_lossy(value).into_owned(),
            _ => {}
        }
        false
    }

    fn require_bounded(&self) -> Result<(), ModelError> {
        if self.line.len() + self.data.len() <= EVENT_MAX_BYTES {
            return Ok(());
        }
        let text = format!("the provider sent an event of more than {EVENT_MAX_BYTES} bytes");
        Err(ModelError::new(FailureClass::Malformed, text))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the events of a body that arrives in these chunks, as `name=data`.
    fn events<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Vec<String> {
        let mut reader = EventReader::default();
        let mut seen = Vec::new();
        for chunk in chunks {
            let mut keep = |name: &str, data: &[u8]| {
                seen.push(format!("{name}={}", String::from_utf8_lossy(data)));
                Ok(Flow::More)
            };
            reader.read(chunk, &mut keep).unwrap();
        }
        seen
    }

    #[test]
    fn fields_comments_and_line_ends() {
        let check =
            |body: &str, expected: &[&str]| assert_eq!(events([body.as_bytes()]), expected, "{body:?}");
        check("data: a\n\n", &["=a"]);
        check("data:a\r\n\r\n", &["=a"]);
        check("data: a\r\rdata: b\r\r", &["=a", "=b"]);
        check("event: x\ndata: a\n\ndata: b\n\n", &["x=a", "=b"]);
        check("event: x\n\ndata: b\n\n", &["=b"]);
        check("data: a\ndata: b\n\n", &["=a\nb"]);
        check("data\ndata\n\n", &["=\n"]);
        check(": comment\nid: 1\nretry: 2\ndata:  a\n\n", &["= a"]);
        check("\u{feff}data: a\n\n\u{feff}data: b\n\n", &["=a"]);
        check("data: unfinished\n", &[]);
    }

    #[test]
    fn an_event_that_ends_the_reply_ends_the_reading() {
        let mut reader = EventReader::default();
        let mut count = 0;
        let mut end = |_: &str, _: &[u8]| {
            count += 1;
            Ok(Flow::End)
        };
        assert_eq!(reader.read(b"data: a\n\ndata: b\n\n", &mut end).unwrap(), Flow::End);
        assert_eq!(count, 1);
    }

    #[test]
    fn an_endless_event_is_refused() {
        let mut reader = EventReader::default();
        let mut ignore = |_: &str, _: &[u8]| Ok(Flow::More);
        let chunk = vec![b'x'; 1024 * 1024];
        let failed = (0..40).find_map(|_| reader.read(&chunk, &mut ignore).err());
        assert_eq!(failed.unwrap().class, FailureClass::Malformed);
        let mut reader = EventReader::default();
        let line = [b"data:", chunk.as_slice(), b"\n"].concat();
        let failed = (0..40).find_map(|_| reader.read(&line, &mut ignore).err());
        assert_eq!(failed.unwrap().class, FailureClass::Malformed);
    }

    proptest! {
        #[test]
        fn chunks_do_not_matter(
            lines in prop::collection::vec("(data|event|id)?:? ?[a-z:ü]{0,6}(\r\n|\n|\r)", 0..12),
            cuts in prop::collection::vec(0_usize..200, 0..8),
        ) {
            let body = lines.concat();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut % (body.len() + 1)).collect();
            cuts.extend([0, body.len()]);
            cuts.sort_unstable();
            let pieces = cuts.windows(2).map(|pair| &body.as_bytes()[pair[0]..pair[1]]);
            prop_assert_eq!(events(pieces), events([body.as_bytes()]));
        }
    }
}
