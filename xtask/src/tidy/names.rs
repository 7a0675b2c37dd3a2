//! Finds names without meaning, and redundant prefixes.

use super::finding::Finding;
use super::lexer;
use super::source::SourceFile;

/// Names that do not describe the content of a module.
const EMPTY_NAMES: &[&str] = &["util", "utils", "common", "helper", "helpers", "manager", "managers", "misc"];

/// Finds modules with an empty name, as files, folders or inline.
pub fn modules(file: &SourceFile, findings: &mut Vec<Finding>) {
    if !file.is_rust() {
        return;
    }
    let advice =
        |name: &str| format!("`{name}` is not specific; name the module after the noun that it contains");
    for name in EMPTY_NAMES {
        if file.has_folder(name) || file.stem() == *name {
            findings.push(Finding::error(file, 1, "module name", advice(name)));
        }
        for at in lexer::find_words(&file.views.code, &format!("mod {name}")) {
            if file.views.code[at..]
                .trim_start_matches(|char| lexer::is_word(char) || char == ' ')
                .starts_with('{')
            {
                findings.push(Finding::error(file, file.line_of(at), "module name", advice(name)));
            }
        }
    }
}

/// Finds functions with a redundant prefix `get_`. A function of a foreign trait can be excused.
pub fn functions(file: &SourceFile, findings: &mut Vec<Finding>) {
    for (at, _) in file.views.code.match_indices("fn get_") {
        // The formatter moves a comment after an opening bracket to the next line.
        let line = file.line_of(at);
        if [line, line + 1].iter().any(|line| file.is_excused(*line, "not our name")) {
            continue;
        }
        let name: String =
            file.views.code[at + 3..].chars().take_while(|char| lexer::is_word(*char)).collect();
        let advice = format!("rename `{name}` after its result: `{}`", name.trim_start_matches("get_"));
        findings.push(Finding::error(file, file.line_of(at), "function name", advice));
    }
}

#[cfg(test)]
mod tests {
    use super::super::check;
    use super::*;

    #[test]
    fn empty_module_names_fail() {
        for path in ["a/util.rs", "a/common/mod.rs", "tests/helpers.rs", "a/manager/x.rs", "misc.rs"] {
            check(modules, path, "//! Doc.\n", &[1]);
        }
        check(modules, "a/b.rs", "\nmod helper {\n}\n", &[2]);
    }

    #[test]
    fn names_that_contain_one_pass() {
        check(modules, "a/utility_bill.rs", "mod commonwealth {}\n// mod util {\n", &[]);
        check(modules, "a/common.md", "text\n", &[]);
    }

    #[test]
    fn getters_fail() {
        check(functions, "a.rs", "fn name() {}\npub fn get_name() {}\n", &[2]);
        check(functions, "a.rs", "fn get_name() {} // tidy: not our name\n", &[]);
        check(functions, "a.rs", "fn target_of() {}\nfn getaway() {}\n// fn get_x\nmap.get_mut(1);\n", &[]);
    }
}
