//! Requires a module doc at the top of each Rust file: its purpose, and what the module deliberately does not do.

use super::finding::Finding;
use super::source::SourceFile;

/// Whether a file belongs to a library crate, whose module docs are the manual for embedding programs.
fn is_library(path: &str) -> bool {
    const PRODUCT: [&str; 3] = ["windlass-cli", "windlass-compat", "windlass-server"];
    let parts = path.strip_prefix("crates/").and_then(|path| path.split_once("/src/"));
    parts.is_some_and(|(name, _)| !PRODUCT.contains(&name))
}

/// Finds Rust files without a module doc at the top.
pub fn modules(file: &SourceFile, findings: &mut Vec<Finding>) {
    if !file.is_rust() || file.text.trim().is_empty() {
        return;
    }
    let wanted = if is_library(&file.path) { 2 } else { 1 };
    let doc_lines = file
        .text
        .lines()
        .take_while(|line| line.starts_with("//!"))
        .filter(|line| !line.trim_start_matches("//!").trim().is_empty())
        .count();
    if doc_lines < wanted {
        let advice =
            format!("open the file with at least {wanted} line(s) of `//!`: what it is, what it does not do");
        findings.push(Finding::error(file, 1, "module doc", advice));
    }
}

#[cfg(test)]
mod tests {
    use super::super::check;
    use super::*;

    #[test]
    fn a_library_module_needs_two_lines() {
        let path = "crates/windlass-engine/src/drive/thread/actor.rs";
        check(modules, path, "use a;\n", &[1]);
        check(modules, path, "//! The loop.\n//!\nuse a;\n", &[1]);
        check(modules, path, "//! The loop.\n//!\n//! It decides nothing.\n", &[]);
    }

    #[test]
    fn any_other_file_needs_one() {
        check(modules, "crates/windlass-cli/src/main.rs", "fn main() {}\n", &[1]);
        check(modules, "crates/windlass-cli/src/main.rs", "//! The product.\nfn main() {}\n", &[]);
        check(modules, "crates/windlass/tests/main.rs", "mod a;\n", &[1]);
    }
}
