//! Import cycles between the modules of a crate.
//!
//! A cycle has at most [`MOST`] files, all in one folder, so that each folder can be read, tested and moved on its own. The
//! folder of a module with submodules is the submodules' folder. Imports of re-exports count as imports of the file that
//! defines the item. A re-export by the parent of an item is no import. Test code is ignored.

use std::collections::{BTreeMap, BTreeSet};

use super::finding::Finding;
use super::lexer::find_words;
use super::source::SourceFile;

/// Maximum number of files in a cycle.
const MOST: usize = 6;

/// The path of a module in its crate; empty for the crate's root.
type Module = Vec<String>;

/// The imports of a file.
#[derive(Default)]
struct Imports {
    /// Imported or named paths, each with whether the file re-exports it.
    paths: Vec<(bool, Vec<String>)>,
}

/// The files of a crate, by module.
struct Crate<'f> {
    files: BTreeMap<Module, &'f SourceFile>,
    imports: BTreeMap<Module, Imports>,
}

/// Finds cycles in each crate of the workspace.
pub fn circles(files: &[SourceFile]) -> Vec<Finding> {
    let mut crates: BTreeMap<&str, Vec<&SourceFile>> = BTreeMap::new();
    for file in files.iter().filter(|file| file.is_rust() && !file.is_test_file()) {
        if let Some((root, _)) = file.path.split_once("/src/") {
            crates.entry(root).or_default().push(file);
        }
    }
    crates.into_iter().flat_map(|(root, files)| Crate::new(root, files).check()).collect()
}

impl<'f> Crate<'f> {
    fn new(root: &str, files: Vec<&'f SourceFile>) -> Self {
        let module = |file: &SourceFile| -> Module {
            let path = file.path[root.len() + "/src/".len()..].trim_end_matches(".rs");
            let mut parts: Module = path.split('/').map(str::to_owned).collect();
            if matches!(parts.last().map(String::as_str), Some("mod" | "lib" | "main")) {
                parts.pop();
            }
            parts
        };
        // A library's root takes precedence over a binary's, which imports the library by name.
        let mut by_module = BTreeMap::new();
        for file in files {
            let known = by_module.entry(module(file)).or_insert(file);
            if file.stem() == "lib" {
                *known = file;
            }
        }
        let imports = by_module.iter().map(|(module, file)| (module.clone(), Imports::of(file))).collect();
        Self { files: by_module, imports }
    }

    fn check(&self) -> Vec<Finding> {
        let circles = self.circles().into_iter();
        circles.filter_map(|circle| self.judge(&circle)).collect()
    }

    fn judge(&self, circle: &BTreeSet<Module>) -> Option<Finding> {
        let homes: BTreeSet<Module> = circle.iter().map(|module| self.home(module)).collect();
        let what = match (circle.len(), homes.len()) {
            (files, _) if files > MOST => format!("an import cycle of {files} files"),
            (_, folders) if folders > 1 => format!("an import cycle across {folders} folders"),
            _ => return None,
        };
        let names: Vec<String> = circle.iter().map(|module| module.join("::")).collect();
        let advice =
            format!("{what}: {}; move shared code into a file that imports none of them", names.join(", "));
        let file = self.files.get(circle.first()?)?;
        Some(Finding::error(file, 1, "circles", advice))
    }

    /// Returns the folder of a module: the submodules' folder if the module has any.
    fn home(&self, module: &Module) -> Module {
        let has_children =
            self.files.keys().any(|other| other.len() > module.len() && other.starts_with(module));
        let depth = if has_children { module.len() } else { module.len().saturating_sub(1) };
        module[..depth].to_vec()
    }

    /// Returns the modules that a module imports.
    fn imported(&self, module: &Module) -> BTreeSet<Module> {
        let imports = self.imports.get(module).into_iter().flat_map(|imports| &imports.paths);
        let found = imports.filter_map(|(is_public, path)| {
            let target = self.resolve(self.absolute(module, path)?, 0)?;
            let is_own_child = *is_public && target.starts_with(module);
            (target != *module && !is_own_child).then_some(target)
        });
        found.collect()
    }

    /// Returns the path from the crate's root. Returns `None` for a path into another crate.
    fn absolute(&self, module: &Module, path: &[String]) -> Option<Vec<String>> {
        let mut base = module.clone();
        let mut rest = path;
        match rest.first()?.as_str() {
            "crate" => (base, rest) = (Module::new(), &rest[1..]),
            "self" => rest = &rest[1..],
            "super" => {
                while rest.first().is_some_and(|part| part == "super") {
                    base.pop();
                    rest = &rest[1..];
                }
            }
            child => {
                let mut own = base.clone();
                own.push(child.to_owned());
                if !self.files.contains_key(&own) {
                    return None;
                }
            }
        }
        Some(base.into_iter().chain(rest.iter().cloned()).collect())
    }

    /// Returns the module that defines an item, through re-exports.
    fn resolve(&self, path: Vec<String>, depth: usize) -> Option<Module> {
        const RE_EXPORTS: usize = 8;
        let length = (0..=path.len()).rev().find(|length| self.files.contains_key(&path[..*length]))?;
        let (module, rest) = (path[..length].to_vec(), &path[length..]);
        if let Some(item) = rest.first()
            && depth < RE_EXPORTS
        {
            let public = self.imports.get(&module).into_iter().flat_map(|imports| &imports.paths);
            let named = public.filter(|(is_public, path)| *is_public && path.last() == Some(item));
            let targets = named.filter_map(|(_, from)| self.absolute(&module, from));
            if let Some(target) = targets.into_iter().find(|target| *target != path) {
                let whole = target.into_iter().chain(rest[1..].iter().cloned()).collect();
                return self.resolve(whole, depth + 1);
            }
        }
        Some(module)
    }

    /// Returns the modules of each cycle.
    fn circles(&self) -> BTreeSet<BTreeSet<Module>> {
        let edges: BTreeMap<&Module, BTreeSet<Module>> =
            self.files.keys().map(|module| (module, self.imported(module))).collect();
        let reached = |from: &Module| {
            let mut seen = BTreeSet::new();
            let mut open: Vec<Module> = edges[from].iter().cloned().collect();
            while let Some(module) = open.pop() {
                if seen.insert(module.clone()) {
                    open.extend(edges.get(&module).into_iter().flatten().cloned());
                }
            }
            seen
        };
        let all: BTreeMap<&Module, BTreeSet<Module>> =
            self.files.keys().map(|module| (module, reached(module))).collect();
        let circle = |module: &Module| -> BTreeSet<Module> {
            let back = all[module].iter().filter(|other| all[other].contains(module));
            back.cloned().collect()
        };
        self.files.keys().map(circle).filter(|circle| circle.len() > 1).collect()
    }
}

impl Imports {
    fn of(file: &SourceFile) -> Self {
        let mut code = String::new();
        for (number, line) in file.views.code.lines().enumerate() {
            if !file.is_test_line(number + 1) {
                code.push_str(line);
            }
            code.push('\n');
        }
        let code = without_visibility(&code);
        let mut imports = Self::default();
        let mut rest = String::new();
        let mut from = 0;
        for at in find_words(&code, "use") {
            let Some(end) = code[at..].find(';').map(|end| at + end) else { break };
            if at < from {
                continue;
            }
            let before = code[from..at].trim_end();
            imports.expand(before.ends_with("pub"), &[], code[at + "use".len()..end].trim());
            rest.push_str(&code[from..at]);
            from = end + 1;
        }
        rest.push_str(&code[from..]);
        for path in paths_in(&rest) {
            imports.paths.push((false, path));
        }
        imports
    }

    /// Expands a tree of imports into paths.
    fn expand(&mut self, is_public: bool, prefix: &[String], tree: &str) {
        let tree = tree.split(" as ").next().unwrap_or(tree).trim();
        let parts = |text: &str| -> Vec<String> {
            let parts = text.split("::").map(str::trim).filter(|part| !part.is_empty());
            parts.map(str::to_owned).collect()
        };
        let Some(open) = tree.find('{') else {
            let path: Vec<String> = prefix.iter().cloned().chain(parts(tree)).collect();
            self.paths.push((is_public, path));
            return;
        };
        let prefix: Vec<String> = prefix.iter().cloned().chain(parts(&tree[..open])).collect();
        let inner = tree[open + 1..].trim_end().strip_suffix('}').unwrap_or(&tree[open + 1..]);
        let (mut depth, mut from) = (0_usize, 0);
        for (at, char) in inner.char_indices() {
            match char {
                '{' => depth += 1,
                '}' => depth = depth.saturating_sub(1),
                ',' if depth == 0 => {
                    self.expand(is_public, &prefix, &inner[from..at]);
                    from = at + 1;
                }
                _ => {} // tidy: any other character
            }
        }
        if !inner[from..].trim().is_empty() {
            self.expand(is_public, &prefix, &inner[from..]);
        }
    }
}

/// Replaces `pub(crate)`, `pub(super)` and `pub(in …)` by `pub`, because their paths are not imports.
fn without_visibility(code: &str) -> String {
    let mut found = String::new();
    let mut rest = code;
    while let Some(at) = rest.find("pub(") {
        let end = rest[at..].find(')').map_or(rest.len(), |end| at + end + 1);
        found.push_str(&rest[..at]);
        found.push_str("pub");
        rest = &rest[end..];
    }
    found + rest
}

/// Returns all paths of at least two segments in the code.
fn paths_in(code: &str) -> Vec<Vec<String>> {
    let is_part = |char: char| char.is_alphanumeric() || char == '_' || char == ':';
    let words = code.split(|char: char| !is_part(char));
    let paths = words.filter(|word| word.contains("::") && !word.starts_with(':'));
    let parts = |path: &str| -> Vec<String> {
        path.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect()
    };
    paths.map(parts).filter(|path| path.len() > 1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<SourceFile> =
            files.iter().map(|(path, text)| SourceFile::new(format!("crates/c/src/{path}"), *text)).collect();
        circles(&files).into_iter().map(|finding| finding.advice).collect()
    }

    #[test]
    fn a_circle_stays_in_one_folder() {
        let root = ("lib.rs", "mod a;\nmod b;\npub use b::Seen;\n");
        let across = [
            root,
            ("a.rs", "mod x;\nuse crate::b::Y;\n"),
            ("a/x.rs", ""),
            ("b.rs", "fn f(_: crate::a::x::X) {}\n"),
        ];
        assert_eq!(found(&across), Vec::<String>::new(), "`b` imports `a::x`, which imports nothing");
        let across =
            [root, ("a.rs", "mod x;\n"), ("a/x.rs", "use crate::Seen;\n"), ("b.rs", "use crate::a::x::X;\n")];
        assert_eq!(found(&across).len(), 1, "through a re-export");
        assert!(found(&across)[0].starts_with("an import cycle across 2 folders: a::x, b;"));
        let beside = [
            ("lib.rs", "mod a;\nmod b;\n"),
            ("a.rs", "use super::b;\n"),
            ("b.rs", "use super::a::{self, A};\n"),
        ];
        assert_eq!(found(&beside), Vec::<String>::new());
        let tested =
            [root, across[1], ("a/x.rs", "#[cfg(test)]\nmod tests {\n    use crate::Seen;\n}\n"), across[3]];
        assert_eq!(found(&tested), Vec::<String>::new());
    }

    #[test]
    fn a_circle_has_few_files() {
        let of = |files: usize| {
            let texts: Vec<(String, String)> = (0..files)
                .map(|n| (format!("m{n}.rs"), format!("use crate::m{}::X;\n", (n + 1) % files)))
                .collect();
            found(&texts.iter().map(|(path, text)| (&**path, &**text)).collect::<Vec<_>>())
        };
        assert_eq!(of(MOST), Vec::<String>::new());
        assert!(of(MOST + 1)[0].starts_with("an import cycle of 7 files"));
    }

    #[test]
    fn a_parent_that_re_exports_its_children_imports_none_of_them() {
        let files = [
            ("lib.rs", "mod a;\n"),
            ("a.rs", "mod x;\nmod y;\npub(crate) use x::X;\n"),
            ("a/x.rs", "use super::y::Y;\n"),
            ("a/y.rs", "pub(in crate::a) struct Y;\n"),
        ];
        assert_eq!(found(&files), Vec::<String>::new());
    }
}
