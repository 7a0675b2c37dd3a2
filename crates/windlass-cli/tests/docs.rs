//! The repository's documents: every internal link points to an existing file and heading.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The documents to check.
fn documents() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let named = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "bench/README.md", "fuzz/README.md"];
    let folders = ["docs", "docs/dialects"].into_iter();
    let docs = folders.flat_map(|folder| std::fs::read_dir(root.join(folder)).unwrap());
    let docs = docs.map(|entry| entry.unwrap().path());
    let docs = docs.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    named.iter().map(|name| root.join(name)).chain(docs).collect()
}

/// A document's lines without its code blocks.
fn prose(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap();
    let mut in_example = false;
    let is_said = |line: &&str| {
        let is_fence = line.starts_with("```");
        in_example ^= is_fence;
        !in_example && !is_fence
    };
    text.lines().filter(is_said).map(str::to_owned).collect()
}

/// The anchor of a heading.
fn anchor(heading: &str) -> String {
    let words = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = words.chars().filter(|c| c.is_alphanumeric() || "-_ ".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[test]
fn every_link_leads_somewhere() {
    let mut followed = 0;
    for document in documents() {
        let text = prose(&document).join("\n");
        let links = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        let pictures = text.split("src=\"").skip(1).filter_map(|rest| rest.split('"').next());
        let is_ours =
            |link: &&str| !link.is_empty() && !link.contains(char::is_whitespace) && !link.contains(':');
        for link in links.chain(pictures).filter(is_ours) {
            let (path, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = if path.is_empty() { document.clone() } else { document.with_file_name(path) };
            let place = format!("`{link}` in {}", document.display());
            assert!(target.exists(), "{place} leads nowhere");
            if !heading.is_empty() {
                let lines = prose(&target);
                let headings = lines.iter().filter(|line| line.starts_with('#'));
                let anchors: BTreeSet<String> = headings.map(|line| anchor(line)).collect();
                assert!(anchors.contains(heading), "{place} names no heading");
            }
            followed += 1;
        }
    }
    assert!(followed > 30, "{followed} links");
}
