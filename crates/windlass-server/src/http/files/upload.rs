//! File uploads: checks the name, the size and the owner's quota.

use axum::extract::{FromRequest, Request};
use bytes::Bytes;
use http::StatusCode;
use windlass::tool::{Entry, EntryKind, WorkingFolder};

use super::{Find, Folder, LISTED, blocking};
use crate::config::FilesFile;
use crate::home::Home;
use crate::http::Shared;
use crate::http::problem::Problem;

/// Maximum length of an upload's name, the limit of common file systems.
const NAME_MAX_BYTES: usize = 255;

/// Validates the name of an upload: one path component without control characters, and with an allowed extension.
pub fn checked_name(files: &FilesFile, name: &str) -> Result<String, Problem> {
    let shown = crate::text::first_line(name, 80);
    let is_bad = name.is_empty()
        || name.len() > NAME_MAX_BYTES
        || name.starts_with('.')
        || name.chars().any(|c| c.is_control() || "/\\\"<>".contains(c));
    if is_bad {
        return Err(Problem::bad_request(format!("`{shown}` is not a valid name for an upload"))
            .hint("use at most 255 bytes, no slashes, quotes or control characters, and no leading dot"));
    }
    if files.takes(name) { Ok(name.to_owned()) } else { Err(wrong_type(name)) }
}

/// Returns the error for a file whose extension the configuration does not allow.
pub fn wrong_type(name: &str) -> Problem {
    let shown = crate::text::first_line(name, 80);
    Problem::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "unsupported_file",
        format!("files such as `{shown}` are not accepted"),
    )
    .hint("an administrator can allow other types in `[files] extensions`")
}

/// Reads a body up to the size limit. The caller of this function has already checked the permission.
async fn body(app: &Shared, request: Request) -> Result<Bytes, Problem> {
    let body = Bytes::from_request(request, app).await;
    body.map_err(|rejection| match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => too_large(&app.config.settings.files),
        status => Problem::new(status, "bad_request", rejection.body_text()),
    })
}

fn too_large(files: &FilesFile) -> Problem {
    let limit = files.max_bytes();
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", format!("the file is larger than {limit} bytes"))
        .hint("an administrator can raise `[files] max_bytes`")
}

/// Stores an upload if its owner has quota left.
pub async fn keep(app: &Shared, home: Home, name: String, request: Request) -> Result<Entry, Problem> {
    let own = home.clone();
    let find = move |app: &Shared| {
        let folder = app.homes.uploads(&own)?;
        let count = folder.list(None, usize::MAX)?.into_iter().filter(|entry| entry.name != name).count();
        if count >= LISTED {
            return Err(no_room(format!("you have {count} uploads; at most {LISTED} are allowed")));
        }
        Ok((folder, name))
    };
    put(app, home, find, request).await
}

/// Stores a file in a folder of a user's home if the user has quota left.
pub async fn keep_at(
    app: &Shared,
    home: Home,
    find: impl Find,
    path: String,
    request: Request,
) -> Result<Entry, Problem> {
    put(app, home, move |app: &Shared| Ok((find(app)?, path)), request).await
}

async fn put(
    app: &Shared,
    home: Home,
    find: impl FnOnce(&Shared) -> Result<(Folder, String), Problem> + Send + 'static,
    request: Request,
) -> Result<Entry, Problem> {
    let _place = app.limits.uploading.place(&home).await?;
    let bytes = body(app, request).await?;
    let _turn = app.limits.uploading.turn.lock().await;
    let held = app.clone();
    blocking(move || {
        let (folder, path) = find(&held)?;
        write(&folder, &path, &bytes)
    })
    .await
}

/// Returns the error for a file that exceeds its owner's quota.
pub fn no_room(detail: String) -> Problem {
    Problem::new(StatusCode::INSUFFICIENT_STORAGE, "no_room", detail).hint(
        "delete an upload or a conversation, or ask an administrator to raise `[files] max_total_bytes`",
    )
}

/// Writes a file, and returns its entry in the folder.
fn write(folder: &WorkingFolder, path: &str, bytes: &[u8]) -> Result<Entry, Problem> {
    let path = folder.resolve(path)?;
    folder.write(&path, bytes)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let file = folder.open_file(&path)?;
        file.set_permissions(std::fs::Permissions::from_mode(0o600)).map_err(Problem::internal)?;
    }
    let name = path.as_path().file_name().map(|name| name.to_string_lossy().into_owned());
    let kind = EntryKind::File { size_bytes: bytes.len() as u64 };
    Ok(Entry { name: name.unwrap_or_default(), kind, modified_at_ms: crate::clock::now().0 })
}
