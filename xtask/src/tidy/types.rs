//! Counts type names that several modules of a crate use for different things.
//!
//! A search for a type should find one definition. Names that only make sense within their module may repeat.

use std::collections::BTreeMap;

use super::lexer;
use super::ratchet::Count;
use super::source::SourceFile;

/// Names that the module's name completes.
const REPEATABLE: &[&str] = &["Error", "Result", "Config", "Builder", "Query", "Body", "State"];

/// Maximum number of types with one name in a crate.
const TYPES_MAX: usize = 2;

/// Returns the names that more than [`TYPES_MAX`] structs, enums or traits of a crate share.
pub fn repeated(files: &[SourceFile]) -> Vec<Count> {
    let mut types: BTreeMap<(&str, String), Vec<String>> = BTreeMap::new();
    for file in files.iter().filter(|file| file.is_rust() && !file.is_test_file()) {
        let Some(name) = file.path.strip_prefix("crates/").and_then(|path| path.split('/').next()) else {
            continue;
        };
        for (line, declared) in declared(file) {
            types.entry((name, declared)).or_default().push(format!("{}:{line}", file.path));
        }
    }
    types.retain(|(_, name), places| places.len() > TYPES_MAX && !REPEATABLE.contains(&name.as_str()));
    let advice = "give each a more specific name";
    let count = |((krate, name), places)| Count {
        subject: format!("types named {name} in {krate}"),
        limit: TYPES_MAX,
        places,
        advice,
    };
    types.into_iter().map(count).collect()
}

/// Returns the types that a file declares outside test code, each with its line.
fn declared(file: &SourceFile) -> Vec<(usize, String)> {
    let code = &file.views.code;
    let mut found = Vec::new();
    for keyword in ["struct ", "enum ", "trait "] {
        for at in lexer::find_words(code, keyword) {
            let name: String =
                code[at + keyword.len()..].chars().take_while(|char| lexer::is_word(*char)).collect();
            let line = file.line_of(at);
            if name.starts_with(char::is_uppercase) && !file.is_test_line(line) {
                found.push((line, name));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_be_used_twice_in_a_crate() {
        let file = |path: &str| SourceFile::new(path, "pub struct Kept<'a>(&'a str);\nenum Error {}\n");
        let twice = [file("crates/a/src/x.rs"), file("crates/a/src/y.rs"), file("crates/b/src/z.rs")];
        assert_eq!(repeated(&twice), []);
        let thrice = ["x", "y", "z"].map(|name| file(&format!("crates/a/src/{name}.rs")));
        let counts = repeated(&thrice);
        assert_eq!(counts.len(), 1, "errors may repeat: {counts:?}");
        assert_eq!(counts[0].subject, "types named Kept in a");
        assert_eq!(counts[0].places, ["crates/a/src/x.rs:1", "crates/a/src/y.rs:1", "crates/a/src/z.rs:1"]);
    }

    #[test]
    fn test_code_and_comments_declare_nothing() {
        let text = "// struct A\n#[cfg(test)]\nmod tests {\n    struct B;\n}\nlet my_struct = C;\n";
        assert_eq!(declared(&SourceFile::new("crates/a/src/x.rs", text)), []);
    }
}
