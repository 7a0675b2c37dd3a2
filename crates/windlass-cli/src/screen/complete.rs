//! Completes the word at the cursor: a `/command` at the start of the input, or an `@file` of the working folder.

use std::path::Path;

/// Maximum number of entries read from a folder.
const ENTRIES_MAX: usize = 2_000;

/// A completion of the word at the cursor.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Completion {
    /// Index of the first byte of the word.
    pub from: usize,
    /// The longest common prefix of all candidates, at least as long as the word.
    pub common: String,
    /// The candidates, if there are several.
    pub candidates: Vec<String>,
}

/// Completes the word before the cursor. Returns `None` without a match.
pub fn complete(text: &str, cursor: usize, commands: &[&str], folder: &Path) -> Option<Completion> {
    let before = &text[..cursor];
    let from = before
        .rfind(char::is_whitespace)
        .map_or(0, |at| at + before[at..].chars().next().map_or(1, char::len_utf8));
    let word = &before[from..];
    let mut candidates: Vec<String> = if let Some(path) = word.strip_prefix('@') {
        files(folder, path).into_iter().map(|path| format!("@{path}")).collect()
    } else if word.starts_with('/') && from == 0 {
        commands
            .iter()
            .filter(|command| command.starts_with(word))
            .map(|command| (*command).to_owned())
            .collect()
    } else {
        return None;
    };
    candidates.sort();
    let common = common(&candidates)?;
    if let [only] = candidates.as_slice() {
        // A completed folder can be completed further; any other name ends the word.
        let end = if only.ends_with('/') { "" } else { " " };
        return Some(Completion { from, common: format!("{only}{end}"), candidates: Vec::new() });
    }
    Some(Completion { from, common, candidates })
}

/// Returns files and folders with this path prefix, relative to the working folder. A hidden
/// file matches only a prefix with a dot.
fn files(folder: &Path, path: &str) -> Vec<String> {
    let (parent, begin) = path.rsplit_once('/').map_or(("", path), |(parent, begin)| (parent, begin));
    // Absolute paths and `..` are not completed, so that no other folder is read.
    if parent.starts_with('/') || parent.split('/').any(|part| part == "..") {
        return Vec::new();
    }
    let Ok(entries) = std::fs::read_dir(folder.join(parent)) else { return Vec::new() };
    let named = entries.take(ENTRIES_MAX).flatten().filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let fits = name.starts_with(begin) && (begin.starts_with('.') || !name.starts_with('.'));
        let is_plain = !name.chars().any(|c| c.is_whitespace() || c.is_control());
        let slash = if entry.path().is_dir() { "/" } else { "" };
        let parent = if parent.is_empty() { String::new() } else { format!("{parent}/") };
        (fits && is_plain).then(|| format!("{parent}{name}{slash}"))
    });
    named.collect()
}

/// Returns the longest common prefix; `None` without candidates.
fn common(candidates: &[String]) -> Option<String> {
    let mut common = candidates.first()?.clone();
    for candidate in candidates {
        let same = common.chars().zip(candidate.chars()).take_while(|(one, other)| one == other);
        let length = same.map(|(c, _)| c.len_utf8()).sum();
        common.truncate(length);
    }
    Some(common)
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMANDS: &[&str] = &["/model", "/mode", "/quit"];

    fn check(text: &str) -> Option<(String, Vec<String>)> {
        let folder = tempfile::tempdir().unwrap();
        for name in ["data.csv", "date.txt", "notes/one.md", ".hidden"] {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let completion = complete(text, text.len(), COMMANDS, folder.path())?;
        Some((format!("{}{}", &text[..completion.from], completion.common), completion.candidates))
    }

    #[test]
    fn commands_are_completed_at_the_beginning() {
        assert_eq!(check("/q"), Some(("/quit ".into(), vec![])));
        assert_eq!(check("/m"), Some(("/mode".into(), vec!["/mode".into(), "/model".into()])));
        assert_eq!((check("say /q"), check("/x"), check("word")), (None, None, None));
    }

    #[test]
    fn files_are_completed_anywhere() {
        let two = vec!["@data.csv".into(), "@date.txt".into()];
        assert_eq!(check("read @d"), Some(("read @dat".into(), two)));
        assert_eq!(check("read @data"), Some(("read @data.csv ".into(), vec![])));
        assert_eq!(check("@no"), Some(("@notes/".into(), vec![])));
        assert_eq!(check("@notes/"), Some(("@notes/one.md ".into(), vec![])));
        assert_eq!(check("@.h"), Some(("@.hidden ".into(), vec![])));
        assert_eq!((check("@../"), check("@/etc/")), (None, None), "nothing outside the folder");
    }
}
