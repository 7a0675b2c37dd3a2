//! How much a PDF's streams unpack to, found out without holding it: a few kilobytes can stand for gigabytes, and the
//! parser unpacks whole streams whatever their size.
//!
//! The parser packs out cross-reference and object streams while it loads, before it can be asked anything: the
//! former are looked for in the raw bytes, the latter where it hands each object over, or, in an encrypted file, where
//! they have been decrypted (`locked.rs`).

use std::cell::Cell;
use std::collections::BTreeSet;
use std::io::{self, Read, Write};

use flate2::read::{DeflateDecoder, ZlibDecoder};
use pdf_extract::{Dictionary, Document, LoadOptions, Object, ObjectId, Stream};
use weezl::BitOrder;
use weezl::decode::Decoder;

use super::locked;

/// All that is packed in a file. Pictures count, although they are never unpacked, for a stream's own word on what it
/// is proves nothing.
const MAX_FILE_BYTES: usize = 1024 * 1024 * 1024;
/// All cross-reference streams, at some 6 bytes an object.
const MAX_INDEX_BYTES: usize = 16 * 1024 * 1024;
/// All object streams.
pub(super) const MAX_OBJECTS_BYTES: usize = 64 * 1024 * 1024;
/// A stream that text extraction needs beside a page's own: a font, a table of characters. A larger one is a picture.
const MAX_STREAM_BYTES: usize = 12 * 1024 * 1024;
/// Bytes before a stream in which its dictionary says what it is.
const DICTIONARY_BYTES: usize = 1024;
/// Layers of packing that are looked through.
const MAX_LAYERS: usize = 4;

/// What is said of a file beyond one of these.
pub(super) const TOO_LARGE: &str = "its streams unpack to far more than a document has";

thread_local! {
    /// What is left for object streams in the file that this thread loads.
    static OBJECTS_LEFT: Cell<usize> = const { Cell::new(0) };
}

/// Loads a document whose streams unpack to a bounded size.
pub(super) fn load(bytes: &[u8]) -> Result<Document, String> {
    refuse_bombs(bytes)?;
    if let Some(document) = locked::open(bytes)? {
        return Ok(document);
    }
    OBJECTS_LEFT.set(MAX_OBJECTS_BYTES);
    let options = LoadOptions::with_filter(measured);
    Document::load_mem_with_options(bytes, options).map_err(|error| error.to_string())
}

/// Empties the streams that no text extraction needs and that would take too much memory.
pub(super) fn empty_oversized(document: &mut Document) {
    // What a page draws itself is judged where it is read, so that the page says why it has no text.
    let pages = document.get_pages().into_values();
    let own: BTreeSet<ObjectId> = pages.flat_map(|page| document.get_page_contents(page)).collect();
    for (id, object) in &mut document.objects {
        if let Object::Stream(stream) = object
            && !own.contains(id)
            && size(stream, MAX_STREAM_BYTES).is_none()
        {
            stream.set_plain_content(Vec::new());
        }
    }
}

/// What the parser makes of a stream in bytes; `None` beyond a limit.
pub(super) fn size(stream: &Stream, limit: usize) -> Option<usize> {
    let Ok(filters) = stream.filters() else {
        return Some(stream.content.len()).filter(|size| *size <= limit);
    };
    let mut content = stream.content.clone();
    for filter in filters {
        let mut bounded = Bounded { bytes: Vec::new(), limit };
        let whole = match filter {
            b"FlateDecode" => inflate(&content, &mut bounded).is_ok(),
            b"LZWDecode" => expand(&content, stream, &mut bounded),
            // At most four bytes for one.
            b"ASCII85Decode" => {
                let mut only = Dictionary::new();
                only.set("Filter", "ASCII85Decode");
                bounded.bytes = Stream::new(only, content).decompressed_content().unwrap_or_default();
                bounded.bytes.len() <= limit
            }
            // The parser knows no other and leaves the stream packed.
            _ => return Some(stream.content.len()),
        };
        if !whole {
            return None;
        }
        content = bounded.bytes;
    }
    Some(content.len())
}

/// Sees each object before the parser unpacks it; `None` leaves it out.
fn measured(id: ObjectId, object: &mut Object) -> Option<(ObjectId, Object)> {
    if let Object::Stream(stream) = object
        && stream.dict.has_type(b"ObjStm")
    {
        let left = OBJECTS_LEFT.get();
        OBJECTS_LEFT.set(left - size(stream, left)?);
    }
    // The parser looks only whether there is something, except in an object stream, whose objects it takes from here.
    Some((id, if matches!(object, Object::Stream(_)) { Object::Null } else { object.clone() }))
}

/// Refuses a file whose packed bytes stand for far more than a document has.
fn refuse_bombs(bytes: &[u8]) -> Result<(), String> {
    const KEYWORD: &[u8] = b"stream";
    let (mut all, mut index) = (0, 0);
    let mut at = 0;
    while let Some(found) = bytes[at..].windows(KEYWORD.len()).position(|window| window == KEYWORD) {
        let keyword = at + found;
        at = keyword + KEYWORD.len();
        let packed = match &bytes[at..] {
            [b'\r', b'\n', rest @ ..] | [b'\n' | b'\r', rest @ ..] => rest,
            _ => continue,
        };
        let size = inflated(packed, MAX_FILE_BYTES - all);
        all += size;
        let dictionary = &bytes[keyword.saturating_sub(DICTIONARY_BYTES)..keyword];
        let says = |word: &[u8]| dictionary.windows(word.len()).any(|window| window == word);
        if says(b"XRef") {
            index += size;
        }
        if all >= MAX_FILE_BYTES || index > MAX_INDEX_BYTES {
            return Err(TOO_LARGE.to_owned());
        }
    }
    Ok(())
}

/// What packed bytes inflate to at the most, counted up to a limit, however often they were packed.
fn inflated(packed: &[u8], limit: usize) -> usize {
    let mut largest = 0;
    for layers in 1..=MAX_LAYERS {
        let mut reader: Box<dyn Read + '_> = Box::new(packed);
        for _ in 0..layers {
            reader = Box::new(ZlibDecoder::new(reader));
        }
        let mut first = [0; 2];
        let begun = reader.read_exact(&mut first).is_ok();
        let size = if begun { first.len() + count(reader, limit) } else { 0 };
        largest = largest.max(size.min(limit));
        // A header of zlib (RFC 1950, section 2.2): more may be packed inside.
        let packed_again = first[0] & 0x0f == 8 && u16::from_be_bytes(first) % 31 == 0;
        if largest >= limit || !begun || !packed_again {
            break;
        }
    }
    if largest == 0 && packed.len() > 2 {
        // As the parser does where the header is wrong.
        largest = count(DeflateDecoder::new(&packed[2..]), limit);
    }
    largest
}

/// Bytes before the end or an error, up to a limit.
fn count(mut reader: impl Read, limit: usize) -> usize {
    let mut buffer = [0; 16 * 1024];
    let mut all = 0;
    while all < limit {
        match reader.read(&mut buffer) {
            Ok(0) | Err(_) => break,
            Ok(count) => all += count,
        }
    }
    all.min(limit)
}

/// Inflates as the parser does: what came before an error counts, and a wrong header is skipped.
fn inflate(packed: &[u8], bounded: &mut Bounded) -> Result<(), Full> {
    copy(ZlibDecoder::new(packed), bounded)?;
    if bounded.bytes.is_empty() && packed.len() > 2 {
        copy(DeflateDecoder::new(&packed[2..]), bounded)?;
    }
    Ok(())
}

fn copy(mut reader: impl Read, bounded: &mut Bounded) -> Result<(), Full> {
    let mut buffer = [0; 16 * 1024];
    loop {
        match reader.read(&mut buffer) {
            Ok(0) | Err(_) => return Ok(()),
            Ok(count) => bounded.write_all(&buffer[..count]).map_err(|_| Full)?,
        }
    }
}

/// Expands as the parser does; `false` beyond the limit.
fn expand(packed: &[u8], stream: &Stream, bounded: &mut Bounded) -> bool {
    const MIN_BITS: u8 = 8;
    let parameters = stream.dict.get(b"DecodeParms").and_then(Object::as_dict);
    let early = parameters.and_then(|all| all.get(b"EarlyChange")).and_then(Object::as_i64);
    let mut decoder = match early {
        Ok(0) => Decoder::new(BitOrder::Msb, MIN_BITS),
        Ok(_) | Err(_) => Decoder::with_tiff_size_switch(BitOrder::Msb, MIN_BITS),
    };
    // An error of the data leaves what came before it, for the parser as well.
    let _ = decoder.into_stream(&mut *bounded).decode_all(packed);
    bounded.bytes.len() < bounded.limit
}

/// More came than may.
struct Full;

/// Keeps bytes up to a limit.
struct Bounded {
    bytes: Vec<u8>,
    limit: usize,
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = self.limit - self.bytes.len();
        self.bytes.extend_from_slice(&bytes[..bytes.len().min(room)]);
        if bytes.len() > room { Err(io::ErrorKind::StorageFull.into()) } else { Ok(bytes.len()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use flate2::Compression;
    use flate2::write::ZlibEncoder;
    use pdf_extract::Document;
    use tokio_util::sync::CancellationToken;

    use super::*;

    const MEGABYTE: usize = 1024 * 1024;

    fn packed(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn name(text: &str) -> Object {
        Object::Name(text.as_bytes().to_vec())
    }

    fn stream(filters: &[&str], content: Vec<u8>) -> Stream {
        let mut dictionary = Dictionary::new();
        dictionary.set("Filter", Object::Array(filters.iter().map(|filter| name(filter)).collect()));
        Stream::new(dictionary, content)
    }

    #[test]
    fn a_stream_is_measured_as_the_parser_unpacks_it() {
        let plain = vec![b' '; 3 * MEGABYTE];
        let lzw = weezl::encode::Encoder::with_tiff_size_switch(BitOrder::Msb, 8).encode(&plain).unwrap();
        let streams = [
            stream(&["FlateDecode"], packed(&plain)),
            stream(&["FlateDecode", "FlateDecode"], packed(&packed(&plain))),
            stream(&["LZWDecode"], lzw),
            // A wrong header, which the parser skips.
            stream(&["FlateDecode"], [&[0, 0][..], &packed(&plain)[2..]].concat()),
            // An end that is cut off.
            stream(&["FlateDecode"], packed(&plain)[..2_000].to_vec()),
        ];
        for stream in &streams {
            let unpacked = stream.decompressed_content().unwrap().len();
            assert!(unpacked > MEGABYTE, "{:?}: {unpacked}", stream.filters());
            assert_eq!(size(stream, 4 * MEGABYTE), Some(unpacked), "{:?}", stream.filters());
            assert_eq!(size(stream, MEGABYTE), None, "{:?}", stream.filters());
        }
        let text = stream(&["ASCII85Decode"], b"87cURD]i,\"Ebo80~>".to_vec());
        assert_eq!(size(&text, 100), Some(12));
        assert_eq!(size(&stream(&["DCTDecode"], vec![1; 9]), 100), Some(9));
    }

    /// A page that draws `content`, and what is read of it.
    fn read(content: Stream) -> Result<String, String> {
        let mut document = Document::with_version("1.5");
        let content = document.add_object(content);
        let pages = document.new_object_id();
        let dictionary = |entries: Vec<(&str, Object)>| {
            let mut all = Dictionary::new();
            entries.into_iter().for_each(|(key, value)| all.set(key, value));
            all
        };
        let page = document.add_object(dictionary(vec![
            ("Type", name("Page")),
            ("Parent", pages.into()),
            ("Contents", content.into()),
            ("Resources", Dictionary::new().into()),
            ("MediaBox", vec![0.into(), 0.into(), 9.into(), 9.into()].into()),
        ]));
        let tree = vec![("Type", name("Pages")), ("Kids", vec![page.into()].into()), ("Count", 1.into())];
        document.objects.insert(pages, dictionary(tree).into());
        let root = document.add_object(dictionary(vec![("Type", name("Catalog")), ("Pages", pages.into())]));
        document.trailer.set("Root", root);
        let mut bytes = Vec::new();
        document.save_to(&mut bytes).unwrap();
        super::super::extract(&bytes, 1, None, &CancellationToken::new())
    }

    #[test]
    fn a_page_that_unpacks_to_too_much_says_so() {
        let content = |size: usize| stream(&["FlateDecode"], packed(&vec![b' '; size]));
        assert_eq!(read(content(9)).unwrap(), "[page 1 of 1]\n[no text on this page]\n");
        let told = read(content(40 * MEGABYTE)).unwrap();
        assert!(told.contains("cannot be read: what it draws unpacks to more than 16777216 bytes"), "{told}");
    }

    #[test]
    fn a_file_of_bombs_is_refused_before_it_is_parsed() {
        let bomb = |kind: &str, content: &[u8]| {
            [format!("%PDF-1.5\n1 0 obj<</Type/{kind}>>stream\n").as_bytes(), content].concat()
        };
        let index = packed(&vec![0; MAX_INDEX_BYTES + 1]);
        assert!(refuse_bombs(&bomb("XRef", &index)).is_err());
        assert!(refuse_bombs(&bomb("XRef", &packed(&index))).is_err());
        assert!(refuse_bombs(&bomb("Font", &index)).is_ok());
        assert!(refuse_bombs(&bomb("XRef", b"no flate")).is_ok());
    }

    #[test]
    fn object_streams_share_what_there_is() {
        let mut objects = stream(&["FlateDecode"], packed(&vec![b' '; 3 * MEGABYTE]));
        objects.dict.set("Type", "ObjStm");
        OBJECTS_LEFT.set(5 * MEGABYTE);
        let take = || measured((1, 0), &mut Object::Stream(objects.clone())).is_some();
        assert_eq!((take(), take()), (true, false));
    }
}
