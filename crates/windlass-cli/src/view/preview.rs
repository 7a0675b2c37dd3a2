//! A preview of a call for its approval: all arguments, and the changes to files.

use std::path::Path;

use serde_json::Value;
use windlass::tool::WorkingFolder;
use windlass_server::text::shown;

use crate::paint::Paint;

/// Maximum size of a file that is compared with the arguments of a lost call (a call whose outcome is unknown), in
/// bytes.
const FILE_MAX_BYTES: u64 = 512 * 1024;

/// Formats a tool's preview, with the lines of a diff coloured.
pub fn told(preview: &str, paint: Paint) -> Vec<String> {
    let line = |line: &str| match line.as_bytes() {
        [b'+', ..] if !line.starts_with("+++") => paint.green(&shown(line)).into_owned(),
        [b'-', ..] if !line.starts_with("---") => paint.red(&shown(line)).into_owned(),
        _ => shown(line).into_owned(),
    };
    preview.lines().map(line).collect()
}

/// Whether a tool's preview contains all of the arguments: a complete diff, not just a summary.
pub fn is_all(tool: &str, preview: &str) -> bool {
    let is_cut = preview.lines().next_back().is_some_and(|last| last.starts_with("[…"));
    matches!(tool, "Write" | "Edit") && preview.starts_with("--- ") && preview.contains("\n@@ ") && !is_cut
}

/// Returns the lines of a call, without any omission.
pub fn lines(tool: &str, arguments: &str, paint: Paint) -> Vec<String> {
    let Ok(value) = serde_json::from_str::<Value>(arguments) else {
        return shown(arguments).lines().map(str::to_owned).collect();
    };
    let text = |key: &str| value.get(key).and_then(Value::as_str);
    match (tool, text("file_path"), text("content"), text("old_string"), text("new_string")) {
        ("Write", Some(_), Some(content), _, _) => content.lines().map(|line| added(line, paint)).collect(),
        ("Edit", Some(_), _, Some(old), Some(new)) => {
            let all = value.get("replace_all").and_then(Value::as_bool).unwrap_or_default();
            let every = all.then(|| "every occurrence:".to_owned());
            let gone = old.lines().map(|line| removed(line, paint));
            every.into_iter().chain(gone).chain(new.lines().map(|line| added(line, paint))).collect()
        }
        _ => {
            let pretty = serde_json::to_string_pretty(&value).unwrap_or_else(|_| arguments.to_owned());
            shown(&pretty).lines().map(str::to_owned).collect()
        }
    }
}

/// Describes a call in one line. For a file, states whether it is new and its new size.
pub fn headline(tool: &str, arguments: &str, folder: &Path) -> String {
    let label = super::call::label(tool, arguments);
    let value = serde_json::from_str::<Value>(arguments).unwrap_or_default();
    let text = |key: &str| value.get(key).and_then(Value::as_str);
    match (tool, text("file_path"), text("content")) {
        ("Write", Some(path), Some(content)) => {
            let kind = match exists(folder, path) {
                true => "replaces the file",
                false => "new file",
            };
            let lines = content.lines().count();
            format!("{label} ({kind}, {lines} {}, {} bytes)", plural(lines, "line"), content.len())
        }
        _ => label,
    }
}

/// Describes the evidence of a lost call in the working folder. Returns `None` if the folder proves nothing.
pub fn evidence(tool: &str, arguments: &str, folder: &Path) -> Option<String> {
    let value = serde_json::from_str::<Value>(arguments).ok()?;
    let text = |key: &str| value.get(key).and_then(Value::as_str).map(|text| text.replace("\r\n", "\n"));
    let path = text("file_path")?;
    let now = existing(folder, &path).map(|text| text.replace("\r\n", "\n"));
    let found = match (tool, now, text("content"), text("old_string"), text("new_string")) {
        ("Write" | "Edit", None, ..) if !exists(folder, &path) => "does not exist",
        ("Write", Some(now), Some(content), ..) if now == content => "has exactly that content",
        ("Write", Some(_), Some(_), ..) => "has different content",
        ("Edit", Some(now), _, Some(old), Some(new)) if new.is_empty() => match now.contains(&old) {
            true => "still has the text to remove",
            false => "no longer has the text to remove",
        },
        ("Edit", Some(now), _, Some(old), Some(new)) => {
            // The new text may contain the old one.
            match (now.contains(&new), now.replace(&new, "").contains(&old)) {
                (true, false) => "has the new text",
                (true, true) => "has both the new and the old text",
                (false, true) => "still has the old text and not the new one",
                (false, false) => "has neither the old text nor the new one",
            }
        }
        _ => return None,
    };
    Some(format!("now: `{}` {found}", shown(&path)))
}

/// Returns the plural form of a word, unless `count` is 1.
pub fn plural(count: usize, word: &str) -> String {
    if count == 1 { word.to_owned() } else { format!("{word}s") }
}

fn exists(folder: &Path, path: &str) -> bool {
    let open = || {
        WorkingFolder::open(folder)
            .ok()
            .and_then(|folder| folder.resolve(path).ok().map(|path| (folder, path)))
    };
    open().is_some_and(|(folder, path)| folder.open_file(&path).is_ok())
}

/// Returns the current content of a file, read with the same restrictions as the file tools.
fn existing(folder: &Path, path: &str) -> Option<String> {
    use std::io::Read;
    let folder = WorkingFolder::open(folder).ok()?;
    let path = folder.resolve(path).ok()?;
    let mut text = String::new();
    let file = folder.open_file(&path).ok()?;
    file.take(FILE_MAX_BYTES + 1).read_to_string(&mut text).ok()?;
    (text.len() as u64 <= FILE_MAX_BYTES).then_some(text)
}

fn removed(line: &str, paint: Paint) -> String {
    paint.red(&format!("- {}", shown(line))).into_owned()
}

fn added(line: &str, paint: Paint) -> String {
    paint.green(&format!("+ {}", shown(line))).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(tool: &str, arguments: &str) -> String {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("old.md"), "one\ntwo\nthree\n").unwrap();
        let head = headline(tool, arguments, folder.path());
        let lines = lines(tool, arguments, Paint::Plain);
        format!("{head}\n{}", lines.join("\n"))
    }

    #[test]
    fn a_new_file() {
        insta::assert_snapshot!(check("Write", r##"{"file_path":"new.md","content":"# A\nb\n"}"##), @r#"
        Write new.md (new file, 2 lines, 6 bytes)
        + # A
        + b
        "#);
    }

    #[test]
    fn a_replaced_file() {
        insta::assert_snapshot!(check("Write", r#"{"file_path":"old.md","content":"one\n2\nthree\n"}"#), @r#"
        Write old.md (replaces the file, 3 lines, 12 bytes)
        + one
        + 2
        + three
        "#);
    }

    #[test]
    fn what_a_tool_tells_cannot_steer_the_screen() {
        let preview = "--- a/odd\u{1b}[2J\n+++ b/odd\n-two\n+2\u{9b}\n";
        assert_eq!(told(preview, Paint::Plain), ["--- a/odd␛[2J", "+++ b/odd", "-two", "+2\\u{9b}"]);
    }

    #[test]
    fn an_edit() {
        insta::assert_snapshot!(
            check("Edit", r#"{"file_path":"old.md","old_string":"two","new_string":"2\u001b[2J","replace_all":true}"#),
            @r#"
        Edit old.md
        every occurrence:
        - two
        + 2␛[2J
        "#
        );
    }

    #[test]
    fn what_the_folder_says_of_a_lost_call() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.md"), "one\r\ntwo\r\n").unwrap();
        let edit = |old: &str, new: &str| {
            let asked = serde_json::json!({"file_path": "a.md", "old_string": old, "new_string": new});
            evidence("Edit", &asked.to_string(), folder.path()).unwrap()
        };
        let write = |path: &str, content: &str| {
            let asked = serde_json::json!({"file_path": path, "content": content});
            evidence("Write", &asked.to_string(), folder.path()).unwrap()
        };
        assert_eq!(edit("three", "one\ntwo"), "now: `a.md` has the new text");
        assert_eq!(edit("one", "2"), "now: `a.md` still has the old text and not the new one");
        assert_eq!(edit("two", "one"), "now: `a.md` has both the new and the old text");
        assert_eq!(edit("3", "4"), "now: `a.md` has neither the old text nor the new one");
        assert_eq!(edit("wo", "two\n"), "now: `a.md` has the new text", "the new text may hold the old one");
        assert_eq!(edit("one", ""), "now: `a.md` still has the text to remove");
        assert_eq!(edit("three", ""), "now: `a.md` no longer has the text to remove");
        assert_eq!(write("a.md", "one\ntwo\n"), "now: `a.md` has exactly that content");
        assert_eq!(write("a.md", "one"), "now: `a.md` has different content");
        assert_eq!(write("b.md", "one"), "now: `b.md` does not exist");
        assert_eq!(evidence("Send", r#"{"file_path":"a.md"}"#, folder.path()), None);
    }

    #[test]
    fn any_other_call_shows_every_argument() {
        insta::assert_snapshot!(check("Send", r#"{"to":"a@b.c","body":{"n":1}}"#), @r#"
        Send a@b.c
        {
          "to": "a@b.c",
          "body": {
            "n": 1
          }
        }
        "#);
    }
}
