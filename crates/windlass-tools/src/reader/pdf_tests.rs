//! Encrypted PDF files.
//!
//! The test process itself parses these files, so they must not be hostile.

use std::io::Write;
use std::sync::Arc;

use flate2::Compression;
use flate2::write::ZlibEncoder;
use pdf_extract::encryption::crypt_filters::{Aes256CryptFilter, CryptFilter};
use pdf_extract::{
    Dictionary, EncryptionState, EncryptionVersion, Object, Permissions, Stream, StringFormat,
};

use super::*;
use crate::reader::wire::Format;

const ENCRYPT: &[u8] = b"Encrypt";
const HELLO: &[u8] = b"BT /F1 12 Tf 20 100 Td (Hello page) Tj ET";

/// The encryption of a test file.
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

/// Creates a file of one page. The page and the length of its content are in an
/// object stream of `more` additional bytes.
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
        // The initialization vector takes one block, and the last block has at least one byte of padding.
        Lock::Aes256 => 16 + (HELLO.len() / 16 + 1) * 16,
    };
    let index = format!("{} 0 {} {} ", page.0, length.0, first.len());
    let mut objects = format!("{index}{first}{locked_bytes} ").into_bytes();
    objects.resize(objects.len() + more, b' ');
    let kind = vec![("Type", name("Object")), ("N", 2.into()), ("First", (index.len() as i64).into())];
    let container = document.add_object(packed(kind, &objects));
    let tree =
        vec![("Type", name("Pages")), ("Kids", vec![Object::Reference(page)].into()), ("Count", 1.into())];
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
    // The library omits object streams when it writes a file, so the
    // stream was written under a placeholder type.
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
        Lock::Rc4 => {
            EncryptionVersion::V2 { document, owner_password, user_password, key_length: 128, permissions }
        }
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
    let mut text = String::new();
    let mut write = |line| {
        if let Line::Text(more) = line {
            text.push_str(&more);
        }
        Ok(())
    };
    extract(bytes, &Request::whole(Format::Pdf), &mut write).unwrap()?;
    Ok(text)
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
        told.starts_with("it requires a password; save a copy without one, for example with `qpdf"),
        "{told}"
    );
    let mut foreign = file(Lock::Rc4, "", 9, "Encrypt");
    let filter = memchr::memmem::find(&foreign, b"/Standard").unwrap();
    foreign[filter..filter + 9].copy_from_slice(b"/Uncommon");
    let told = read(&foreign).unwrap_err();
    assert!(told.starts_with("its encryption is not supported ("), "{told}");
}
