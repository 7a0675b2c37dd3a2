//! Encrypted PDFs: opened with the empty password, as most of them can be, and measured like all others.
//!
//! The parser decrypts such a file and unpacks its object streams while it loads it, before it can be asked anything,
//! and without a bound. So the word by which it would know is hidden from it, and what it would do is done here.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use pdf_extract::encryption::{DecryptionError, decrypt_object};
use pdf_extract::xref::XrefEntry;
use pdf_extract::{Dictionary, Document, EncryptionState, LoadOptions, Object, ObjectId, ObjectStream};

use super::unpack::{self, MAX_OBJECTS_BYTES, TOO_LARGE};

/// The trailer's entry that says how a file is encrypted.
const ENCRYPT: &[u8] = b"Encrypt";
/// Hides it, letter by letter.
const HIDDEN: u8 = b'X';

/// Opens a file that is encrypted; `None`: it is not.
pub(super) fn open(bytes: &[u8]) -> Result<Option<Document>, String> {
    let Cow::Owned(bytes) = hide(bytes) else { return Ok(None) };
    let options = LoadOptions::with_filter(keep_packed);
    let loaded = Document::load_mem_with_options(&bytes, options);
    let mut document = loaded.map_err(|error| error.to_string())?;
    // Other entries of a file that is not encrypted may have that name, and other texts may hold it.
    let Some(encryption) = take_hidden(&mut document.trailer) else { return Ok(None) };
    document.trailer.set(ENCRYPT, encryption);
    unlock(&mut document, &bytes)?;
    Ok(Some(document))
}

/// The file with every name `Encrypt` hidden, however it is spelled: a letter may be written as `#` and its number.
fn hide(bytes: &[u8]) -> Cow<'_, [u8]> {
    let mut hidden = Cow::Borrowed(bytes);
    for slash in memchr::memchr_iter(b'/', bytes) {
        let spelled = slash + 1;
        let (mut end, mut matched) = (spelled, 0);
        while let Some((letter, length)) = bytes.get(end..).and_then(letter) {
            if ENCRYPT.get(matched) != Some(&letter) {
                matched = 0;
                break;
            }
            (end, matched) = (end + length, matched + 1);
        }
        if matched == ENCRYPT.len() {
            hidden.to_mut()[spelled..end].fill(HIDDEN);
        }
    }
    hidden
}

/// The first letter of the rest of a name, and how many bytes it takes. (ISO 32000-1, 7.3.5)
fn letter(rest: &[u8]) -> Option<(u8, usize)> {
    match rest {
        [b'#', number @ ..] => {
            let number = std::str::from_utf8(number.get(..2)?).ok()?;
            let number =
                Some(number).filter(|number| number.bytes().all(|digit| digit.is_ascii_hexdigit()))?;
            Some((u8::from_str_radix(number, 16).ok()?, 3))
        }
        [b'\0' | b'\t' | b'\n' | b'\x0c' | b'\r' | b' ', ..] => None,
        [b'(' | b')' | b'<' | b'>' | b'[' | b']' | b'{' | b'}' | b'/' | b'%', ..] => None,
        [letter, ..] => Some((*letter, 1)),
        [] => None,
    }
}

fn take_hidden(trailer: &mut Dictionary) -> Option<Object> {
    let is_hidden = |name: &[u8]| name.len() >= ENCRYPT.len() && name.iter().all(|letter| *letter == HIDDEN);
    let (name, _) = trailer.iter().rfind(|(name, _)| is_hidden(name))?;
    let name = name.clone();
    trailer.remove(&name)
}

/// Keeps the parser from unpacking object streams that it cannot read yet.
fn keep_packed(id: ObjectId, object: &mut Object) -> Option<(ObjectId, Object)> {
    if let Object::Stream(stream) = object
        && stream.dict.has_type(b"ObjStm")
    {
        stream.dict.remove(b"Type");
    }
    Some((id, Object::Null))
}

/// Decrypts everything, and takes the objects out of the object streams as long as those are of a document's size.
fn unlock(document: &mut Document, bytes: &[u8]) -> Result<(), String> {
    let encryption = document.trailer.get(ENCRYPT).and_then(Object::as_reference);
    let (Ok(encryption), true) = (encryption, document.is_encrypted()) else {
        return Err(unknown("its description is missing"));
    };
    if let Err(error) = document.authenticate_password("") {
        return Err(match error {
            pdf_extract::Error::Decryption(DecryptionError::IncorrectPassword) => {
                "it needs a password; save a copy that needs none, for example with `qpdf --decrypt \
                 --password=… locked.pdf open.pdf`"
                    .to_owned()
            }
            other => unknown(&other.to_string()),
        });
    }
    let state = EncryptionState::decode(document, "").map_err(|error| unknown(&error.to_string()))?;
    let unpacked = take_out(document, &state)?;
    find_lengths(document, &unpacked, bytes);
    for (id, object) in &mut document.objects {
        if *id != encryption {
            // What cannot be decrypted cannot be read either; the rest can.
            let _ = decrypt_object(&state, *id, object);
        }
    }
    for (id, object) in unpacked {
        document.objects.entry(id).or_insert(object);
    }
    document.objects.remove(&encryption);
    document.trailer.remove(ENCRYPT);
    Ok(())
}

fn unknown(why: &str) -> String {
    format!("it is encrypted in a way that cannot be read ({why}); save a copy that is not encrypted")
}

/// The objects of all object streams, which are no longer needed then.
fn take_out(document: &mut Document, state: &EncryptionState) -> Result<BTreeMap<ObjectId, Object>, String> {
    let container_of = |entry: &XrefEntry| match entry {
        XrefEntry::Compressed { container, .. } => Some(*container),
        XrefEntry::Normal { .. } | XrefEntry::Free | XrefEntry::UnusableFree => None,
    };
    let entries = &document.reference_table.entries;
    let containers: BTreeSet<u32> = entries.values().filter_map(container_of).collect();
    let mut unpacked = BTreeMap::new();
    let mut left = MAX_OBJECTS_BYTES;
    for container in containers {
        let id = (container, 0);
        let Some(mut object) = document.objects.remove(&id) else { continue };
        if decrypt_object(state, id, &mut object).is_err() {
            continue;
        }
        let Object::Stream(stream) = &mut object else { continue };
        left -= unpack::size(stream, left).ok_or(TOO_LARGE)?;
        let Ok(stream) = ObjectStream::new(stream) else { continue };
        // A later version of an object may lie in another stream.
        unpacked.extend(stream.objects.into_iter().filter(|(id, _)| {
            entries.get(&id.0).is_some_and(|entry| container_of(entry) == Some(container))
        }));
    }
    Ok(unpacked)
}

/// Fills streams whose length is told in an object stream: the parser could not look there.
fn find_lengths(document: &mut Document, unpacked: &BTreeMap<ObjectId, Object>, bytes: &[u8]) {
    // Positions count from the header.
    let header = memchr::memmem::find(bytes, b"%PDF-").unwrap_or_default();
    for object in document.objects.values_mut() {
        let Object::Stream(stream) = object else { continue };
        let Some(start) = stream.start_position.filter(|_| stream.content.is_empty()) else { continue };
        let length = stream.dict.get(b"Length").and_then(Object::as_reference).ok();
        let length = length.and_then(|length| unpacked.get(&length)?.as_i64().ok());
        let length = length.and_then(|length| usize::try_from(length).ok());
        let begin = header + start;
        if let Some(content) = length.and_then(|length| bytes.get(begin..begin.checked_add(length)?)) {
            stream.set_content(content.to_vec());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::Arc;

    use flate2::Compression;
    use flate2::write::ZlibEncoder;
    use pdf_extract::encryption::crypt_filters::{Aes256CryptFilter, CryptFilter};
    use pdf_extract::{EncryptionVersion, Permissions, Stream, StringFormat};
    use tokio_util::sync::CancellationToken;

    use super::*;

    const HELLO: &[u8] = b"BT /F1 12 Tf 20 100 Td (Hello page) Tj ET";

    /// How a test file is locked.
    #[derive(Clone, Copy)]
    enum Lock {
        Rc4,
        Aes256,
    }

    fn dictionary(entries: Vec<(&str, Object)>) -> Dictionary {
        let mut all = Dictionary::new();
        entries.into_iter().for_each(|(key, value)| all.set(key, value));
        all
    }

    fn name(text: &str) -> Object {
        Object::Name(text.as_bytes().to_vec())
    }

    fn packed(kind: Vec<(&str, Object)>, bytes: &[u8]) -> Stream {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(bytes).unwrap();
        let mut all = dictionary(kind);
        all.set("Filter", "FlateDecode");
        Stream::new(all, encoder.finish().unwrap())
    }

    /// A file of one page, which lies in an object stream of some more bytes, as does the length of what it draws.
    fn file(lock: Lock, password: &str, more: usize, encrypt: &str) -> Vec<u8> {
        let mut document = Document::with_version("1.7");
        let content = document.add_object(Stream::new(Dictionary::new(), HELLO.to_vec()));
        let (pages, page, length) =
            (document.new_object_id(), document.new_object_id(), document.new_object_id());
        let font = "<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>";
        let first = format!(
            "<</Type/Page/Parent {} 0 R/Contents {} 0 R/MediaBox[0 0 200 200]/Resources<</Font<</F1 {font}>>>>>> ",
            pages.0, content.0
        );
        let locked_bytes = match lock {
            Lock::Rc4 => HELLO.len(),
            // A block in front, and at least one byte behind to fill the last one.
            Lock::Aes256 => 16 + (HELLO.len() / 16 + 1) * 16,
        };
        let index = format!("{} 0 {} {} ", page.0, length.0, first.len());
        let mut objects = format!("{index}{first}{locked_bytes} ").into_bytes();
        objects.resize(objects.len() + more, b' ');
        let kind = vec![("Type", name("Object")), ("N", 2.into()), ("First", (index.len() as i64).into())];
        let container = document.add_object(packed(kind, &objects));
        let tree = vec![
            ("Type", name("Pages")),
            ("Kids", vec![Object::Reference(page)].into()),
            ("Count", 1.into()),
        ];
        document.objects.insert(pages, dictionary(tree).into());
        let root = document.add_object(dictionary(vec![("Type", name("Catalog")), ("Pages", pages.into())]));
        document.trailer.set("Root", root);
        let id = || Object::String(b"0123456789abcdef".to_vec(), StringFormat::Hexadecimal);
        document.trailer.set("ID", vec![id(), id()]);
        document.encrypt(&state(&document, lock, password)).unwrap();
        let by = document.trailer.get(ENCRYPT).and_then(Object::as_reference).unwrap();
        let drawn = document.get_object_mut(content).and_then(Object::as_stream_mut).unwrap();
        assert_eq!(drawn.content.len(), locked_bytes);
        drawn.dict.set("Length", Object::Reference(length));
        let mut bytes = Vec::new();
        document.save_to(&mut bytes).unwrap();
        // The library leaves object streams out where it writes.
        let kind = memchr::memmem::find(&bytes, b"/Object").unwrap();
        bytes[kind..kind + 7].copy_from_slice(b"/ObjStm");
        bytes.push(b'\n');
        let said = memchr::memmem::rfind(&bytes, b"startxref").unwrap() + "startxref".len();
        let before = String::from_utf8_lossy(&bytes[said..]).split_whitespace().next().unwrap().to_owned();
        let (start, number) = (bytes.len(), container.0 + 100);
        let place = |index: u8| [2, (container.0 >> 8) as u8, container.0 as u8, index];
        let places = [place(0), place(1)].concat();
        let id = "30313233343536373839616263646566";
        bytes.extend(
            format!(
                "{number} 0 obj\n<</Type/XRef/Size {}/W[1 2 1]/Index[{} 2]/Prev {before}/Root {} 0 R/{encrypt} {} 0 R\
                 /ID[<{id}><{id}>]/Length {}>>stream\n",
                number + 1,
                page.0,
                root.0,
                by.0,
                places.len()
            )
            .bytes(),
        );
        bytes.extend(places);
        bytes.extend(format!("\nendstream\nendobj\nstartxref\n{start}\n%%EOF\n").bytes());
        bytes
    }

    fn state(document: &Document, lock: Lock, user_password: &str) -> EncryptionState {
        let (owner_password, permissions) = ("owner", Permissions::all());
        let filter: Arc<dyn CryptFilter> = Arc::new(Aes256CryptFilter);
        let version = match lock {
            Lock::Rc4 => EncryptionVersion::V2 {
                document,
                owner_password,
                user_password,
                key_length: 128,
                permissions,
            },
            Lock::Aes256 => EncryptionVersion::V5 {
                encrypt_metadata: true,
                crypt_filters: [(b"StdCF".to_vec(), filter)].into(),
                file_encryption_key: &[7; 32],
                stream_filter: b"StdCF".to_vec(),
                string_filter: b"StdCF".to_vec(),
                owner_password,
                user_password,
                permissions,
            },
        };
        EncryptionState::try_from(version).unwrap()
    }

    fn read(bytes: &[u8]) -> Result<String, String> {
        super::super::extract(bytes, 1, None, &CancellationToken::new())
    }

    #[test]
    fn a_file_that_needs_no_password_is_read() {
        for lock in [Lock::Rc4, Lock::Aes256] {
            for spelled in ["Encrypt", "#45ncryp#74"] {
                let told = read(&file(lock, "", 9, spelled)).unwrap();
                assert_eq!(told, "[page 1 of 1]\nHello page\n", "{spelled}");
            }
        }
    }

    #[test]
    fn a_file_that_needs_a_password_names_the_way_out() {
        let told = read(&file(Lock::Aes256, "secret", 9, "Encrypt")).unwrap_err();
        assert!(
            told.starts_with("it needs a password; save a copy that needs none, for example with `qpdf"),
            "{told}"
        );
        let mut foreign = file(Lock::Rc4, "", 9, "Encrypt");
        let filter = memchr::memmem::find(&foreign, b"/Standard").unwrap();
        foreign[filter..filter + 9].copy_from_slice(b"/Uncommon");
        let told = read(&foreign).unwrap_err();
        assert!(told.starts_with("it is encrypted in a way that cannot be read ("), "{told}");
    }

    #[test]
    fn object_streams_are_measured_once_they_are_readable() {
        for lock in [Lock::Rc4, Lock::Aes256] {
            assert_eq!(read(&file(lock, "", MAX_OBJECTS_BYTES, "#45ncrypt")).unwrap_err(), TOO_LARGE);
        }
    }

    #[test]
    fn only_the_whole_name_is_hidden() {
        let check = |text: &str, expected: &str| {
            assert_eq!(String::from_utf8_lossy(&hide(text.as_bytes())), expected);
        };
        check("/Encrypt 5 0 R/EncryptMetadata true", "/XXXXXXX 5 0 R/EncryptMetadata true");
        check("/#45#6Ecrypt<<>>/Encrypt", "/XXXXXXXXXXX<<>>/XXXXXXX");
        check("/Encryp /Encrypt#zz /#4 /Encrypt#20", "/Encryp /XXXXXXX#zz /#4 /Encrypt#20");
        assert!(matches!(hide(b"/Pages /Encrypted"), Cow::Borrowed(_)));
    }
}
