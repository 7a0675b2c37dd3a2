//! Listing and deleting in a working folder, for file browsers. Entries other than files and directories are omitted,
//! and links are not followed.

use std::path::Path;

use super::{FolderError, FolderPath, WorkingFolder, io_error};

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Name of the entry in its directory.
    pub name: String,
    /// File or directory.
    pub kind: EntryKind,
    /// Time of the entry's last change, in milliseconds since the Unix epoch.
    pub modified_at_ms: u64,
}

/// Kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file.
    File {
        /// Size of the file.
        size_bytes: u64,
    },
    /// A directory; its own entries are not counted.
    Directory,
}

impl WorkingFolder {
    /// Lists a directory, sorted by name, at most `limit` entries, without the store. Reads the disk, so call this
    /// method only where blocking is allowed.
    pub fn list(&self, path: Option<&FolderPath>, limit: usize) -> Result<Vec<Entry>, FolderError> {
        let relative = path.map_or(Path::new(""), FolderPath::as_path);
        let failed = |source| io_error("list", relative, source);
        let directory = self.open_directory(relative)?;
        let mut entries = Vec::new();
        for entry in directory.entries().map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            // An entry that was deleted since the listing is skipped.
            let Ok(metadata) = entry.metadata() else { continue };
            let kind = match metadata.is_dir() {
                true => EntryKind::Directory,
                false if metadata.is_file() => EntryKind::File { size_bytes: metadata.len() },
                false => continue,
            };
            if self.is_store(&relative.join(&name)) {
                continue;
            }
            let modified = metadata.modified().map(|time| time.into_std());
            let since = modified.ok().and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
            let modified_at_ms =
                since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX));
            entries.push(Entry { name, kind, modified_at_ms });
        }
        entries.sort_by(|one, other| one.name.cmp(&other.name));
        entries.truncate(limit);
        Ok(entries)
    }

    /// Deletes a file. Fails if the file is protected.
    pub fn delete(&self, path: &FolderPath) -> Result<(), FolderError> {
        self.refuse_protected(path)?;
        let (parent, name) = self.parent_of(path)?;
        parent.remove_file(&name).map_err(|source| io_error("delete", path.as_path(), source))
    }
}
