//! A response's body, decompressed and limited as it arrives. A few bytes that decompress
//! to gigabytes are truncated at the limit.
//!
//! The caller interprets the bytes.

use std::io::{self, Write};

use flate2::write::{MultiGzDecoder, ZlibDecoder};
use http::header::CONTENT_ENCODING;
use http::{HeaderMap, Method, StatusCode};

/// A body, or the beginning of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Body {
    /// The decompressed bytes.
    pub bytes: Vec<u8>,
    /// Number of bytes received over the network, before decompression.
    pub bytes_in: u64,
    /// Why the body ends at this point.
    pub end: End,
}

/// Why a body ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The server completed the body.
    Whole,
    /// The size limit was reached. The body has more bytes.
    Cut,
    /// The connection broke or the decompression failed, for this reason.
    Broken(String),
}

/// Decompresses the chunks of a body.
pub(super) struct Unpacker {
    decoder: Decoder,
    max_bytes: usize,
    bytes_in: u64,
    end: Option<End>,
}

enum Decoder {
    Plain(Bounded),
    Gzip(MultiGzDecoder<Bounded>),
    Zlib(ZlibDecoder<Bounded>),
}

impl Decoder {
    fn kept(&mut self) -> &mut Bounded {
        match self {
            Self::Plain(kept) => kept,
            Self::Gzip(decoder) => decoder.get_mut(),
            Self::Zlib(decoder) => decoder.get_mut(),
        }
    }

    fn writer(&mut self) -> &mut dyn Write {
        match self {
            Self::Plain(kept) => kept,
            Self::Gzip(decoder) => decoder,
            Self::Zlib(decoder) => decoder,
        }
    }

    fn finish(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(_) => Ok(()),
            Self::Gzip(decoder) => decoder.try_finish(),
            Self::Zlib(decoder) => decoder.try_finish(),
        }
    }
}

impl Unpacker {
    pub(super) fn new(method: &Method, status: StatusCode, headers: &HeaderMap, max_bytes: usize) -> Self {
        let kept = Bounded { bytes: Vec::new(), max_bytes, is_full: false };
        let mut encodings = headers.get_all(CONTENT_ENCODING).iter();
        let encoding = match (encodings.next(), encodings.next()) {
            (None, _) => "",
            (Some(one), None) => one.to_str().unwrap_or("unreadable"),
            (Some(_), Some(_)) => "several",
        };
        let has_none = *method == Method::HEAD || matches!(status.as_u16(), 100..=199 | 204 | 304);
        let mut end = None;
        let decoder = match encoding.trim().to_ascii_lowercase().as_str() {
            _ if has_none => Decoder::Plain(kept),
            "" | "identity" => Decoder::Plain(kept),
            "gzip" | "x-gzip" => Decoder::Gzip(MultiGzDecoder::new(kept)),
            "deflate" => Decoder::Zlib(ZlibDecoder::new(kept)),
            other => {
                let shown: String = other.chars().take(40).collect();
                end = Some(End::Broken(format!("the content encoding `{shown}` was not requested")));
                Decoder::Plain(kept)
            }
        };
        Self { decoder, max_bytes, bytes_in: 0, end }
    }

    /// Whether no further chunk is needed.
    pub(super) fn is_done(&self) -> bool {
        self.end.is_some()
    }

    pub(super) fn push(&mut self, chunk: &[u8]) {
        self.bytes_in += chunk.len() as u64;
        let written = self.decoder.writer().write_all(chunk).and_then(|()| self.decoder.writer().flush());
        if self.decoder.kept().is_full {
            self.end = Some(End::Cut);
        } else if let Err(error) = written {
            self.end = Some(End::Broken(format!("decompression failed: {error}")));
        } else if self.bytes_in > self.max_bytes as u64 * 9 / 8 + PACKING_BYTES {
            // Compressed bytes that decompress to nothing could arrive forever.
            self.end = Some(End::Cut);
        }
    }

    pub(super) fn fail(&mut self, why: String) {
        self.end.get_or_insert(End::Broken(why));
    }

    pub(super) fn finish(mut self) -> Body {
        let end = self.end.take().unwrap_or_else(|| match self.decoder.finish() {
            _ if self.bytes_in == 0 => End::Whole,
            _ if self.decoder.kept().is_full => End::Cut,
            Ok(()) => End::Whole,
            Err(error) => End::Broken(format!("decompression failed: {error}")),
        });
        let bytes = std::mem::take(&mut self.decoder.kept().bytes);
        Body { bytes, bytes_in: self.bytes_in, end }
    }
}

/// Overhead of compressing incompressible bytes, in bytes: headers, trailers, and a little per block.
const PACKING_BYTES: u64 = 1024;

/// Stores up to `max_bytes` bytes and rejects the next one.
struct Bounded {
    bytes: Vec<u8>,
    max_bytes: usize,
    is_full: bool,
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = self.max_bytes - self.bytes.len();
        self.bytes.extend_from_slice(&bytes[..bytes.len().min(room)]);
        if bytes.len() > room {
            self.is_full = true;
            return Err(io::Error::other("the size limit is reached"));
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use flate2::Compression;
    use flate2::write::{GzEncoder, ZlibEncoder};
    use http::HeaderValue;

    use super::*;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn zlib(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    /// Decompresses a body that arrives in chunks of `step` bytes.
    fn unpacked(encoding: &'static str, packed: &[u8], step: usize, max_bytes: usize) -> Body {
        let mut headers = HeaderMap::new();
        if !encoding.is_empty() {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static(encoding));
        }
        let mut unpacker = Unpacker::new(&Method::GET, StatusCode::OK, &headers, max_bytes);
        for chunk in packed.chunks(step) {
            if unpacker.is_done() {
                break;
            }
            unpacker.push(chunk);
        }
        unpacker.finish()
    }

    #[test]
    fn a_body_is_unpacked_however_it_is_split() {
        let text = "the quick brown fox ".repeat(50);
        for step in [1, 7, 10_000] {
            for (encoding, packed) in [
                ("", text.as_bytes().to_vec()),
                ("gzip", gzip(text.as_bytes())),
                ("deflate", zlib(text.as_bytes())),
            ] {
                let body = unpacked(encoding, &packed, step, 10_000);
                assert_eq!(
                    (body.bytes, body.end),
                    (text.as_bytes().to_vec(), End::Whole),
                    "{encoding} {step}"
                );
                assert_eq!(body.bytes_in, packed.len() as u64);
            }
        }
        // Two gzip members are one body.
        let two = [gzip(b"one "), gzip(b"two")].concat();
        assert_eq!(unpacked("GZIP", &two, 3, 100).bytes, b"one two");
    }

    #[test]
    fn what_unpacks_to_too_much_is_cut_at_the_bound() {
        let bomb = gzip(&vec![0; 50 * 1024 * 1024]);
        assert!(bomb.len() < 60_000);
        let body = unpacked("gzip", &bomb, 4096, 10_000);
        assert_eq!((body.bytes.len(), body.end), (10_000, End::Cut));
        let body = unpacked("", &[7; 10_001], 10_001, 10_000);
        assert_eq!((body.bytes.len(), body.end), (10_000, End::Cut));
        let body = unpacked("", &[7; 10_000], 100, 10_000);
        assert_eq!((body.bytes.len(), body.end), (10_000, End::Whole));
        // Endless empty gzip members are truncated.
        let body = unpacked("gzip", &gzip(b"").repeat(10_000), 4096, 10_000);
        assert_eq!(body.end, End::Cut);
        assert!(body.bytes_in < 20_000);
    }

    #[test]
    fn what_is_not_packed_as_it_says_is_broken() {
        let half = gzip(b"text that is packed");
        let cases: [(&'static str, &[u8]); 4] =
            [("gzip", b"plain"), ("gzip", &half[..half.len() - 9]), ("br", b"x"), ("gzip, gzip", &half)];
        for (encoding, packed) in cases {
            let body = unpacked(encoding, packed, 5, 1000);
            assert!(matches!(body.end, End::Broken(_)), "{encoding}: {:?}", body.end);
        }
        assert_eq!(unpacked("gzip", b"", 5, 1000).end, End::Whole);
    }
}
