//! Finds the modules that the page needs at startup, from their `import` statements.
//!
//! A browser discovers a module only when it loads the module that imports it, so each level of imports costs a round
//! trip. With preload links for all modules, the page needs two round trips. Modules that `import()` loads are
//! excluded: they load on demand.

use std::collections::{BTreeSet, VecDeque};

/// Returns the paths of all modules that `entry` imports directly or transitively, in breadth-first order. `read`
/// returns a module's source.
pub fn imported_by(entry: &str, read: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let mut known = BTreeSet::from([entry.to_owned()]);
    let mut waiting = VecDeque::from([entry.to_owned()]);
    let mut found = Vec::new();
    while let Some(path) = waiting.pop_front() {
        let source = read(&path).unwrap_or_default();
        for import in imports(&source).filter_map(|import| resolve(&path, import)) {
            if known.insert(import.clone()) {
                waiting.push_back(import.clone());
                found.push(import);
            }
        }
    }
    found
}

/// Returns the relative specifiers in `import … from "…"`, `export … from "…"` and `import "…"` of a source.
fn imports(source: &str) -> impl Iterator<Item = &str> {
    source.match_indices('"').filter_map(|(at, _)| {
        let before = source[..at].trim_end();
        let rest = &source[at + 1..];
        let address = &rest[..rest.find('"')?];
        let is_import = before.ends_with("from") || before.ends_with("import");
        (is_import && address.starts_with('.') && !address.contains(char::is_whitespace)).then_some(address)
    })
}

/// Resolves a relative specifier against a module's path. Returns `None` if it leaves the embedded files.
fn resolve(module: &str, address: &str) -> Option<String> {
    let mut path: Vec<&str> = module.split('/').collect();
    path.pop();
    for part in address.split('/') {
        match part {
            "." => {}
            ".." => drop(path.pop()?),
            name => path.push(name),
        }
    }
    Some(path.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str) -> Option<String> {
        let source = match path {
            "app/main.js" => {
                "import { a } from \"./lib/a.js\";\nimport \"./b.js\";\nconst later = () => import(\"./later.js\");"
            }
            "app/lib/a.js" => {
                "import{x}from\"../../vendor/x.js\";export{y}from\"../b.js\";/** @type {import(\"./t.js\").T} */"
            }
            "app/b.js" => "import { a } from \"./lib/a.js\"; const said = \"from \";",
            _ => return None,
        };
        Some(source.to_owned())
    }

    #[test]
    fn every_module_that_is_imported_at_once_is_named_once() {
        assert_eq!(imported_by("app/main.js", source), ["app/lib/a.js", "app/b.js", "vendor/x.js"]);
    }

    #[test]
    fn an_address_that_leads_out_of_the_files_is_none() {
        assert_eq!(resolve("app/main.js", "../../x.js"), None);
    }
}
