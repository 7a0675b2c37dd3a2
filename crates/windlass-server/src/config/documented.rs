//! Compares `docs/configuration.md` with the code: the document must list every key and every variable, and no other.
//! Its examples must parse.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::json;
use windlass::port::model::Price;

use super::{ConfigFile, parse};

const DOCUMENT: &str = include_str!("../../../../docs/configuration.md");

/// The section of top-level keys.
const TOP: &str = "The top of the file";

/// A key that does not exist anywhere.
const NOWHERE: &str = "0";

/// Returns the TOML examples of a document.
pub fn examples(document: &str) -> Vec<&str> {
    let blocks = document.split("\n```toml\n").skip(1);
    blocks.map(|block| block.split("\n```").next().unwrap_or_default()).collect()
}

/// Returns the first code word of each table row with the second cell, by section. The section of a configuration table
/// has the table's name in its heading.
pub fn sections(document: &str) -> BTreeMap<String, BTreeMap<String, String>> {
    let mut sections: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    let mut section = String::new();
    for line in document.lines() {
        if let Some(heading) = line.strip_prefix("## ").or_else(|| line.strip_prefix("### ")) {
            section = code(heading).unwrap_or(heading).to_owned();
        }
        let Some(row) = line.strip_prefix("| ") else { continue };
        let Some(key) = code(row) else { continue };
        let beside = row.split(" | ").nth(1).unwrap_or_default();
        let before = sections.entry(section.clone()).or_default().insert(key.to_owned(), beside.to_owned());
        assert_eq!(before, None, "`{key}` stands twice in {section}");
    }
    sections
}

/// Returns the code word at the beginning of a text.
fn code(text: &str) -> Option<&str> {
    text.strip_prefix('`')?.split('`').next()
}

/// Returns the keys that a table accepts, according to the parser's error for an unknown key.
fn accepted(table: &str) -> BTreeSet<String> {
    let keys = |keys: &[&str]| keys.iter().map(|key| (*key).to_owned()).collect();
    match table {
        TOP => expected(""),
        // All other keys of this table are tool names.
        "[tools]" => keys(&["disabled", "bash", "<Name>"]),
        "[api.<name>.auth]" => {
            let of = |kind: &str| expected(&format!("[api.x.auth]\ntype = '{kind}'\n"));
            let kinds = ["bearer", "header", "basic"].iter().flat_map(|kind| of(kind));
            kinds.chain(["type".to_owned()]).collect()
        }
        table => expected(&format!("{}\n", named(table))),
    }
}

/// Returns a table's header with a concrete name in place of each placeholder.
fn named(table: &str) -> String {
    let mut parts = table.split('<');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |all, part| format!("{all}x{}", part.split_once('>').map_or("", |(_, rest)| rest)))
}

fn expected(text: &str) -> BTreeSet<String> {
    let error = toml::from_str::<ConfigFile>(&format!("{text}{NOWHERE} = 1\n")).unwrap_err();
    let message = error.message();
    assert!(message.starts_with(&format!("unknown field `{NOWHERE}`")), "{text}: {message}");
    message.split('`').skip(3).step_by(2).map(str::to_owned).collect()
}

#[test]
fn the_reference_names_every_key_and_no_other() {
    let sections = sections(DOCUMENT);
    let tables = || sections.iter().filter(|(section, _)| *section == TOP || section.starts_with('['));
    let said: BTreeMap<&str, BTreeSet<String>> =
        tables().map(|(table, keys)| (table.as_str(), keys.keys().cloned().collect())).collect();
    let taken: BTreeMap<&str, BTreeSet<String>> =
        said.keys().map(|table| (*table, accepted(table))).collect();
    assert_eq!(said, taken);
    // A nested table needs its own section; otherwise this test would not check it.
    let plain = |section: &str| section.trim_matches(['[', ']']).to_owned();
    for (table, keys) in tables() {
        let inner = keys
            .iter()
            .filter(|(_, kind)| ["table", "tables by name", "list of tables"].contains(&kind.as_str()));
        for (key, _) in inner {
            let name = if table == TOP { key.clone() } else { format!("{}.{key}", plain(table)) };
            let has =
                |section: &String| plain(section) == name || plain(section).starts_with(&format!("{name}.<"));
            assert!(sections.keys().any(has), "`{key}` of {table} is described nowhere");
        }
    }
    // Prices have no separate section, because the table of prices accepts any key.
    let price = DOCUMENT.lines().find(|line| line.starts_with("| `price` |")).unwrap();
    for (key, _) in json!(Price::default()).as_object().unwrap() {
        assert!(price.contains(&format!("`{key}`")), "{key}");
    }
}

#[test]
fn the_reference_names_every_variable_and_no_other() {
    let said: BTreeSet<String> =
        sections(DOCUMENT).remove("Environment").unwrap().into_keys().filter(|name| is_ours(name)).collect();
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut sources = Vec::new();
    for name in ["windlass-cli", "windlass-compat", "windlass-server"] {
        collect(&crates.join(name).join("src"), &mut sources);
    }
    let texts: Vec<String> = sources.iter().map(|path| std::fs::read_to_string(path).unwrap()).collect();
    let words = texts.iter().flat_map(|text| text.split('"'));
    let read: BTreeSet<String> = words.filter(|word| is_ours(word)).map(str::to_owned).collect();
    assert_eq!(said, read);
}

/// Returns whether a word is the name of a Windlass variable. Variables for tests are excluded.
fn is_ours(word: &str) -> bool {
    let is_name = |rest: &str| rest.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
    let rest = word.strip_prefix("WINDLASS_").filter(|rest| !rest.is_empty() && is_name(rest));
    rest.is_some_and(|rest| !rest.starts_with("TEST"))
}

fn collect(folder: &Path, sources: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, sources);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            sources.push(path);
        }
    }
}

#[test]
fn the_examples_are_taken() {
    let documents = [
        ("configuration.md", DOCUMENT),
        ("commands.md", include_str!("../../../../docs/commands.md")),
        ("operations.md", include_str!("../../../../docs/operations.md")),
        ("tools.md", include_str!("../../../../docs/tools.md")),
        ("dialects/skillchat.md", include_str!("../../../../docs/dialects/skillchat.md")),
        ("dialects/skyflo.md", include_str!("../../../../docs/dialects/skyflo.md")),
        ("dialects/zeus.md", include_str!("../../../../docs/dialects/zeus.md")),
    ];
    for (name, document) in documents {
        let examples = examples(document);
        assert!(!examples.is_empty(), "{name}");
        for example in examples {
            if let Err(trouble) = parse(Path::new(name), example) {
                panic!("{trouble}\n{example}");
            }
        }
    }
}
