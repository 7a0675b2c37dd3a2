//! Verifies an exported audit log without store, network or keys.
//!
//! The verification detects entries that were changed, removed, reordered or inserted. It detects a truncated end by
//! the missing last line, or by comparison with a hash noted elsewhere. It cannot prove who wrote the file.

use std::io::{self, BufRead};

use serde::{Deserialize, Serialize};

use super::{Entry, GENESIS, Head};

/// The last line of an export.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trailer {
    /// The head of the chain at the time of the export.
    pub head: Head,
}

/// A defect of an export, with its position.
#[derive(Debug, thiserror::Error)]
pub enum Flaw {
    /// The file cannot be read.
    #[error("the file cannot be read: {0}")]
    Io(#[from] io::Error),
    /// A line is not a valid entry.
    #[error("line {line} is not an entry of an audit log: {why}")]
    Foreign {
        /// Line number, from 1.
        line: u64,
        why: String,
    },
    /// Entries before this line are missing, reordered or inserted.
    #[error("line {line} has entry {found} instead of {expected}: entries were removed, moved or inserted")]
    Order {
        /// Line number.
        line: u64,
        /// Expected position.
        expected: u64,
        /// Position found.
        found: u64,
    },
    /// The entry does not follow the entry before it.
    #[error("line {line} does not follow from the previous line: an entry was changed, moved or inserted")]
    Chain {
        /// Line number.
        line: u64,
    },
    /// The entry was changed after it was written.
    #[error("line {line}, entry {seq}, was changed after it was written")]
    Changed {
        /// Line number.
        line: u64,
        /// Position of the entry.
        seq: u64,
    },
    /// The last line is missing.
    #[error("the log ends at entry {seq} without its last line: its end was cut off")]
    Cut {
        /// Position of the last entry.
        seq: u64,
    },
    /// The last entry's hash differs from the noted hash.
    #[error("the log ends with the hash {found} instead of {expected}: its end was cut off or rewritten")]
    OtherEnd {
        /// The noted hash.
        expected: String,
        /// The hash found.
        found: String,
    },
}

/// Verifies an export. `noted` is the hash of the last entry, which the auditor has recorded elsewhere.
pub fn verify(file: impl BufRead, noted: Option<&str>) -> Result<Head, Flaw> {
    let mut head = Head { workspace: String::new(), seq: 0, hash: GENESIS.to_owned() };
    let mut trailer: Option<Head> = None;
    for (line, text) in (1..).zip(file.lines()) {
        let text = text?;
        let foreign = |why: String| Flaw::Foreign { line, why };
        if trailer.is_some() {
            return Err(foreign("it follows the last line".into()));
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
    // The export of an empty log names its workspace only in the last line.
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
    // Compare byte for byte: JSON allows content that a parser ignores, such as duplicate keys.
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
        check("line 2, entry 2, was changed after it was written", |lines| {
            lines[1] = lines[1].replace("a@example.com", "b@example.com");
        });
        check("line 2, entry 2, was changed after it was written", |lines| {
            lines[1] = lines[1].replace("\"n\":2", "\"n\":1,\"n\":2");
        });
        let order = "has entry 3 instead of 2: entries were removed, moved or inserted";
        check(&format!("line 2 {order}"), |lines| drop(lines.remove(1)));
        check(&format!("line 2 {order}"), |lines| lines.swap(1, 2));
        check("line 3 has entry 2 instead of 3: entries were removed, moved or inserted", |lines| {
            lines.insert(2, lines[1].clone());
        });
        check(
            "line 3 does not follow from the previous line: an entry was changed, moved or inserted",
            |lines| {
                // An entry that is rewritten with a matching hash breaks the chain after it.
                let mut entry: Entry = serde_json::from_str(&lines[1]).unwrap();
                entry.action = "logout".into();
                entry.hash = entry.digest();
                lines[1] = entry.line();
            },
        );
        check("the log ends at entry 3 without its last line: its end was cut off", |lines| {
            lines.truncate(3);
        });
        check("line 6 is not an entry of an audit log: it follows the last line", |lines| {
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
