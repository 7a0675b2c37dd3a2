//! Taking a file in: its name, its size, and the room that its owner has.

use axum::extract::rejection::BytesRejection;
use bytes::Bytes;
use http::StatusCode;
use windlass::tool::{Entry, EntryKind, WorkingFolder};

use super::{LISTED, blocking};
use crate::config::FilesFile;
use crate::home::Home;
use crate::http::Shared;
use crate::http::problem::Problem;

/// Longest name of an upload, as file systems have it.
const NAME_MAX_BYTES: usize = 255;

/// A name that an upload may have: one part of a path, without control characters.
pub fn checked_name(files: &FilesFile, name: &str) -> Result<String, Problem> {
    let shown = crate::console::first_line(name, 80);
    let is_bad = name.is_empty()
        || name.len() > NAME_MAX_BYTES
        || name.starts_with('.')
        || name.chars().any(|c| c.is_control() || "/\\\"<>".contains(c));
    if is_bad {
        return Err(Problem::bad_request(format!("`{shown}` cannot be the name of an upload")).hint(
            "use at most 255 bytes, no slashes, quotes or control characters, and no leading full stop",
        ));
    }
    if files.takes(name) { Ok(name.to_owned()) } else { Err(wrong_type(name)) }
}

/// A file whose end of name an administrator does not let in.
pub fn wrong_type(name: &str) -> Problem {
    let shown = crate::console::first_line(name, 80);
    Problem::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "unsupported_file",
        format!("files such as `{shown}` are not taken"),
    )
    .hint("an administrator chooses which in `[files] extensions`")
}

/// A body within the limit.
pub fn body(files: &FilesFile, body: Result<Bytes, BytesRejection>) -> Result<Bytes, Problem> {
    body.map_err(|rejection| match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => too_large(files),
        status => Problem::new(status, "bad_request", rejection.body_text()),
    })
}

fn too_large(files: &FilesFile) -> Problem {
    let limit = files.max_bytes();
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", format!("the file is larger than {limit} bytes"))
        .hint("an administrator can raise `[files] max_bytes`")
}

/// Keeps an upload, where its owner has room for it.
pub async fn keep(app: Shared, home: Home, name: String, bytes: Bytes) -> Result<Entry, Problem> {
    // One at a time, so that two of them do not both find the last room.
    let _turn = app.uploading.lock().await;
    let held = app.clone();
    blocking(move || {
        let folder = held.homes.uploads(&home)?;
        let others = folder.list(None, usize::MAX)?.into_iter().filter(|entry| entry.name != name);
        let (mut count, mut taken) = (0, 0_u64);
        for other in others {
            if let EntryKind::File { size_bytes } = other.kind {
                taken = taken.saturating_add(size_bytes);
            }
            count += 1;
        }
        let limit = held.settings.files.max_total_bytes();
        if taken.saturating_add(bytes.len() as u64) > limit {
            let detail = format!("{taken} of {limit} bytes are taken; {} more do not fit", bytes.len());
            return Err(Problem::new(StatusCode::INSUFFICIENT_STORAGE, "no_room", detail)
                .hint("delete an upload, or have an administrator raise `[files] max_total_bytes`"));
        }
        if count >= LISTED {
            let detail = format!("there are {count} uploads; at most {LISTED} are kept");
            return Err(
                Problem::new(StatusCode::INSUFFICIENT_STORAGE, "no_room", detail).hint("delete an upload")
            );
        }
        write(&folder, &name, &bytes)
    })
    .await
}

/// Writes a file and looks at what is there then.
pub fn write(folder: &WorkingFolder, path: &str, bytes: &[u8]) -> Result<Entry, Problem> {
    let path = folder.resolve(path)?;
    folder.write(&path, bytes)?;
    let name = path.as_path().file_name().map(|name| name.to_string_lossy().into_owned());
    let kind = EntryKind::File { size_bytes: bytes.len() as u64 };
    Ok(Entry { name: name.unwrap_or_default(), kind, modified_at_ms: crate::place::now().0 })
}
