//! Checks an exported audit log by itself: no store, no network, no keys.
//!
//! It finds entries that were changed, removed, reordered or put in. That the end was cut off shows where the export's
//! last line is missing, or against a hash that somebody noted elsewhere; it does not know who wrote the file.

use std::io::{self, BufRead};

use serde::{Deserialize, Serialize};

use super::{Entry, GENESIS, Head};

/// The last line of an export.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trailer {
    /// Where the chain ended when it was exported.
    pub head: Head,
}

/// What is wrong with an export, and where.
#[derive(Debug, thiserror::Error)]
pub enum Flaw {
    /// It cannot be read.
    #[error("the file cannot be read: {0}")]
    Io(#[from] io::Error),
    /// A line is no entry as Windlass writes it.
    #[error("line {line} is no entry of an audit log: {why}")]
    Foreign {
        /// The line, from 1.
        line: u64,
        /// Why not.
        why: String,
    },
    /// Entries are missing, moved or put in before this line.
    #[error(
        "line {line} has the entry {found} where {expected} belongs: entries were removed, moved or put in"
    )]
    Order {
        /// The line.
        line: u64,
        /// The position that comes next.
        expected: u64,
        /// The position that was found.
        found: u64,
    },
    /// The entry follows another one than stands before it.
    #[error("line {line} does not follow from the line before: an entry was changed, moved or put in")]
    Chain {
        /// The line.
        line: u64,
    },
    /// The entry is not what was written.
    #[error("line {line}, the entry {seq}, was changed after it was written")]
    Changed {
        /// The line.
        line: u64,
        /// Its position.
        seq: u64,
    },
    /// The end is missing.
    #[error("the log ends at the entry {seq} without its last line: its end was cut off")]
    Cut {
        /// The last entry.
        seq: u64,
    },
    /// The end is another one than was noted.
    #[error(
        "the log ends with the hash {found} and not with {expected}: its end was cut off or written anew"
    )]
    OtherEnd {
        /// The hash that was noted.
        expected: String,
        /// The hash that was found.
        found: String,
    },
}

/// Checks an export; `noted` is a hash that the log must end with, known from elsewhere.
pub fn verify(file: impl BufRead, noted: Option<&str>) -> Result<Head, Flaw> {
    let mut head = Head { workspace: String::new(), seq: 0, hash: GENESIS.to_owned() };
    let mut trailer: Option<Head> = None;
    for (line, text) in (1..).zip(file.lines()) {
        let text = text?;
        let foreign = |why: String| Flaw::Foreign { line, why };
        if trailer.is_some() {
            return Err(foreign("it stands after the last line".into()));
        }
        if text.starts_with("{\"head\":") {
            let Trailer { head } = serde_json::from_str(&text).map_err(|error| foreign(error.to_string()))?;
            trailer = Some(head);
            continue;
        }
        let entry: Entry = serde_json::from_str(&text).map_err(|error| foreign(error.to_string()))?;
        if head.seq == 0 {
            head.workspace.clone_from(&entry.workspace);
        }
        head = step(head, entry, line, &text)?;
    }
    let end = trailer.ok_or(Flaw::Cut { seq: head.seq })?;
    // The export of an empty log names its workspace in the last line alone.
    if head.seq == 0 {
        head.workspace.clone_from(&end.workspace);
    }
    let expected = noted.unwrap_or(&end.hash);
    if end != head || expected != head.hash {
        return Err(Flaw::OtherEnd { expected: expected.to_owned(), found: head.hash });
    }
    Ok(head)
}

fn step(head: Head, entry: Entry, line: u64, text: &str) -> Result<Head, Flaw> {
    if entry.seq != head.seq + 1 {
        return Err(Flaw::Order { line, expected: head.seq + 1, found: entry.seq });
    }
    // Byte for byte: JSON has room for words that nobody reads, such as a key that is there twice.
    if entry.hash != entry.digest() || entry.line() != text {
        return Err(Flaw::Changed { line, seq: entry.seq });
    }
    if entry.prev != head.hash || entry.workspace != head.workspace {
        return Err(Flaw::Chain { line });
    }
    Ok(Head { workspace: head.workspace, seq: entry.seq, hash: entry.hash })
}

#[cfg(test)]
mod tests {
    use windlass::machine::Timestamp;

    use super::super::Note;
    use super::*;

    fn export(entries: u64) -> Vec<String> {
        let mut lines = Vec::new();
        let mut head: Option<Head> = None;
        for seq in 1..=entries {
            let note = Note::new("default", "login").on("a@example.com").with("n", seq);
            let entry = note.after(head.as_ref(), Timestamp(seq));
            head = Some(Head { workspace: "default".into(), seq, hash: entry.hash.clone() });
            lines.push(entry.line());
        }
        let empty = || Head { workspace: "default".into(), seq: 0, hash: GENESIS.into() };
        let trailer = Trailer { head: head.unwrap_or_else(empty) };
        lines.push(serde_json::to_string(&trailer).unwrap());
        lines
    }

    fn verdict(lines: &[String], noted: Option<&str>) -> String {
        match verify(lines.join("\n").as_bytes(), noted) {
            Ok(head) => format!("whole up to {}", head.seq),
            Err(flaw) => flaw.to_string(),
        }
    }

    fn check(expected: &str, change: impl FnOnce(&mut Vec<String>)) {
        let mut lines = export(4);
        change(&mut lines);
        assert_eq!(verdict(&lines, None), expected);
    }

    #[test]
    fn what_was_done_to_an_export_is_found() {
        check("whole up to 4", |_| {});
        assert_eq!(verdict(&export(0), None), "whole up to 0");
        check("line 2, the entry 2, was changed after it was written", |lines| {
            lines[1] = lines[1].replace("a@example.com", "b@example.com");
        });
        check("line 2, the entry 2, was changed after it was written", |lines| {
            lines[1] = lines[1].replace("\"n\":2", "\"n\":1,\"n\":2");
        });
        let order = "has the entry 3 where 2 belongs: entries were removed, moved or put in";
        check(&format!("line 2 {order}"), |lines| drop(lines.remove(1)));
        check(&format!("line 2 {order}"), |lines| lines.swap(1, 2));
        check("line 3 has the entry 2 where 3 belongs: entries were removed, moved or put in", |lines| {
            lines.insert(2, lines[1].clone());
        });
        check(
            "line 3 does not follow from the line before: an entry was changed, moved or put in",
            |lines| {
                // Somebody who writes an entry anew with a hash that fits it breaks what comes after.
                let mut entry: Entry = serde_json::from_str(&lines[1]).unwrap();
                entry.action = "logout".into();
                entry.hash = entry.digest();
                lines[1] = entry.line();
            },
        );
        check("the log ends at the entry 3 without its last line: its end was cut off", |lines| {
            lines.truncate(3);
        });
        check("line 6 is no entry of an audit log: it stands after the last line", |lines| {
            lines.push(lines[0].clone());
        });
    }

    #[test]
    fn a_cut_end_shows_against_the_hash_that_was_noted() {
        let whole = export(4);
        let noted = verify(whole.join("\n").as_bytes(), None).unwrap().hash;
        assert_eq!(verdict(&whole, Some(&noted)), "whole up to 4");
        let shorter = export(3);
        assert_eq!(verdict(&shorter, None), "whole up to 3");
        assert!(verdict(&shorter, Some(&noted)).starts_with("the log ends with the hash"));
        let mut cut = whole.clone();
        cut.remove(3);
        assert!(verdict(&cut, None).starts_with("the log ends with the hash"), "{}", verdict(&cut, None));
    }
}
