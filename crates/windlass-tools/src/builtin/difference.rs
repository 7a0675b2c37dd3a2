//! Previews a file change as a unified diff for the users who approve the change.
//!
//! The same file and change always produce the same text: no time limit affects the diff. Any other file
//! content produces a different text, even if it differs far from the change.

use std::io::{Read, Seek};

use similar::TextDiff;
use windlass_engine::tool::{FolderError, FolderPath, WorkingFolder};

use super::Refusal;

/// Maximum size of a diffed text, in bytes. A larger diff would cost more than it helps the reviewer.
const MAX_BYTES: u64 = 512 * 1024;
/// Maximum number of compared pairs of lines. Comparing them takes a fraction of a second.
const MAX_PAIRS: usize = 4_000_000;
/// Number of displayed characters of a file's digest.
const DIGEST_LETTERS: usize = 32;

/// The file before the change.
pub(super) struct Found {
    size_bytes: u64,
    digest: String,
    /// The text; `None` if the file is not text or is too long to diff.
    text: Option<String>,
}

/// Reads a file that a call wants to change. Returns `None` if the file does not exist, and
/// an error if the call could not change it.
pub(super) fn find(folder: &WorkingFolder, path: &FolderPath) -> Result<Option<Found>, Refusal> {
    folder.refuse_protected(path)?;
    let mut file = match folder.open_file(path) {
        Ok(file) => file,
        Err(FolderError::Missing(_)) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let failed = |error| Refusal::io("read", path, error);
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(&mut file).map_err(failed)?;
    let size_bytes = hasher.count();
    let digest = hasher.finalize().to_hex()[..DIGEST_LETTERS].to_owned();
    let mut bytes = Vec::new();
    if size_bytes <= MAX_BYTES {
        file.rewind().map_err(failed)?;
        file.take(MAX_BYTES).read_to_end(&mut bytes).map_err(failed)?;
    }
    let text = String::from_utf8(bytes).ok().filter(|_| size_bytes <= MAX_BYTES);
    Ok(Some(Found { size_bytes, digest, text }))
}

/// Formats the diff between a file and its new content.
pub(super) fn unified(path: &FolderPath, found: Option<&Found>, new: &str) -> String {
    let old = match found {
        Some(found) => {
            format!("a/{path} ({} bytes, blake3 {})", found.size_bytes, found.digest)
        }
        None => "/dev/null".to_owned(),
    };
    let leads = match path.leads_to() {
        Some(file) => format!(", resolves to {}", file.display()),
        None => String::new(),
    };
    let head = format!("--- {old}\n+++ b/{path} ({} bytes{leads})\n", new.len());
    let old = match found {
        None => "",
        Some(Found { text: Some(old), .. }) if old == new => return format!("{head}no change\n"),
        Some(Found { text: Some(old), .. }) => old,
        Some(Found { text: None, .. }) => {
            return format!("{head}the whole file is replaced; it is not text, or too long to compare\n");
        }
    };
    head + &lines(old, new)
}

fn lines(old: &str, new: &str) -> String {
    let is_small = new.len() as u64 <= MAX_BYTES && differing(old, new) <= MAX_PAIRS;
    if is_small {
        return TextDiff::from_lines(old, new).unified_diff().to_string();
    }
    let signed = |sign: char| move |line: &str| format!("{sign}{}\n", line.trim_end_matches('\n'));
    old.lines().map(signed('-')).chain(new.lines().map(signed('+'))).collect()
}

/// Returns the number of line pairs between the first and the last difference.
fn differing(old: &str, new: &str) -> usize {
    let same_before = old.lines().zip(new.lines()).take_while(|(old, new)| old == new).count();
    let same_after = old.lines().rev().zip(new.lines().rev()).take_while(|(old, new)| old == new).count();
    let same = same_before.saturating_add(same_after);
    let left = |text: &str| text.lines().count().saturating_sub(same).max(1);
    left(old).saturating_mul(left(new))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_have_little_in_common_are_shown_whole() {
        let text = |seed: u64| -> String {
            (0..20_000u64)
                .map(|nth| format!("{:x}\n", (nth ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15)))
                .collect()
        };
        let shown = lines(&text(1), &text(7));
        assert_eq!(shown.lines().filter(|line| line.starts_with('-')).count(), 20_000);
        assert_eq!(shown.lines().filter(|line| line.starts_with('+')).count(), 20_000);
        // Only the changed line of many is compared.
        let changed = text(1).replacen("\n", "\nnew\n", 1);
        assert_eq!(lines(&text(1), &changed).lines().filter(|line| line.starts_with('+')).count(), 1);
    }
}
