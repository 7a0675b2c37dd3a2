//! Parses `xtask/mutants.txt`. The top of that file describes the format.

use anyhow::{Context, Result, bail};

/// A deliberate breakage and the tests that must detect it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Mutant {
    /// Unique name of the mutant.
    pub name: String,
    /// The invariant that the mutant breaks; 0 for any other promise.
    pub invariant: u8,
    /// The file that the mutant changes, relative to the root of the workspace.
    pub file: String,
    /// The package whose tests must fail.
    pub package: String,
    /// The tests that must fail, as a filter expression of nextest.
    pub tests: String,
    /// Whether `cargo xtask ci` runs the mutant.
    pub is_quick: bool,
    /// The text to replace.
    pub find: String,
    /// The replacement.
    pub replace: String,
}

/// The number of invariants in ARCHITECTURE.md.
const INVARIANTS: u8 = 12;

/// Parses the whole list. An error names the mutant.
pub fn parse(text: &str) -> Result<Vec<Mutant>> {
    let mut mutants: Vec<Mutant> = Vec::new();
    for section in sections(text)? {
        let mutant = mutant_of(&section).with_context(|| format!("mutant `{}`", section.name))?;
        if mutants.iter().any(|other| other.name == mutant.name) {
            bail!("mutant `{}` is listed twice", mutant.name);
        }
        mutants.push(mutant);
    }
    Ok(mutants)
}

/// A header and the fields below it. The lines of a multi-line text are joined.
struct Section {
    name: String,
    fields: Vec<(String, String)>,
}

fn sections(text: &str) -> Result<Vec<Section>> {
    let mut sections: Vec<Section> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line_number = index + 1;
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            sections.push(Section { name: name.to_owned(), fields: Vec::new() });
            continue;
        }
        let Some(section) = sections.last_mut() else {
            bail!("line {line_number}: `{line}` is before the first header");
        };
        if let Some(text_line) = line.strip_prefix('|') {
            let Some((_, value)) = section.fields.last_mut() else {
                bail!("line {line_number}: a text line without `find:` or `replace:` above it");
            };
            value.push_str(text_line.strip_prefix(' ').unwrap_or(text_line));
            value.push('\n');
        } else if let Some((field, value)) = line.split_once(':') {
            section.fields.push((field.to_owned(), value.trim().to_owned()));
        } else {
            bail!("line {line_number}: `{line}` is neither a header, a field nor a text line");
        }
    }
    Ok(sections)
}

fn mutant_of(section: &Section) -> Result<Mutant> {
    let mut mutant = Mutant { name: section.name.clone(), ..Mutant::default() };
    let mut missing = vec!["invariant", "file", "package", "tests", "quick", "find", "replace"];
    for (field, value) in &section.fields {
        let Some(at) = missing.iter().position(|name| name == field) else {
            bail!("`{field}` is unknown or duplicated");
        };
        missing.remove(at);
        let text = || value.strip_suffix('\n').unwrap_or(value).to_owned();
        match field.as_str() {
            "invariant" => mutant.invariant = value.parse().context("`invariant` is not a number")?,
            "file" => mutant.file = value.clone(),
            "package" => mutant.package = value.clone(),
            "tests" => mutant.tests = value.clone(),
            "quick" => mutant.is_quick = yes_or_no(value)?,
            "find" => mutant.find = text(),
            _ => mutant.replace = text(),
        }
    }
    if let Some(field) = missing.first() {
        bail!("`{field}` is missing");
    }
    if mutant.find.is_empty() || mutant.find == mutant.replace {
        bail!("it changes nothing");
    }
    if mutant.invariant > INVARIANTS {
        bail!("unknown invariant {}", mutant.invariant);
    }
    Ok(mutant)
}

fn yes_or_no(value: &str) -> Result<bool> {
    match value {
        "yes" => Ok(true),
        "no" => Ok(false),
        other => bail!("`quick` is `{other}`; write `yes` or `no`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "# note\n[a-b]\ninvariant: 4\nfile: a.rs\npackage: p\ntests: test(c)\nquick: yes\n\
                        find:\n| if a {\n|     b: c\n|\n| }\nreplace:\n| d\n";

    #[test]
    fn a_mutant_keeps_its_texts_byte_for_byte() {
        let mutants = parse(GOOD).unwrap();
        let expected = Mutant {
            name: "a-b".into(),
            invariant: 4,
            file: "a.rs".into(),
            package: "p".into(),
            tests: "test(c)".into(),
            is_quick: true,
            find: "if a {\n    b: c\n\n}".into(),
            replace: "d".into(),
        };
        assert_eq!(mutants, [expected]);
    }

    fn check_error(text: &str, expected: &str) {
        let error = format!("{:#}", parse(text).unwrap_err());
        assert!(error.contains(expected), "{error}");
    }

    #[test]
    fn mistakes_are_named() {
        check_error("file: a\n", "before the first header");
        check_error("[a]\nfile: b\n", "`invariant` is missing");
        check_error("[a]\n| b\n", "without `find:`");
        check_error("[a]\ncolour: red\n", "`colour` is unknown");
        check_error(&GOOD.replace("quick: yes", "quick: perhaps"), "`perhaps`");
        check_error(&GOOD.replace("invariant: 4", "invariant: 13"), "unknown invariant 13");
        check_error(
            &GOOD.replace("replace:\n| d", "replace:\n| if a {\n|     b: c\n|\n| }"),
            "changes nothing",
        );
        check_error(&format!("{GOOD}{GOOD}"), "twice");
    }

    #[test]
    fn an_empty_replacement_deletes() {
        assert_eq!(parse(&GOOD.replace("| d\n", "")).unwrap()[0].replace, "");
    }
}
