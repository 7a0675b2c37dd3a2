//! Limits the fields of services, which are structs that hold ports, locks or channels, so that each stays one
//! concept.
//!
//! Two kinds of structs are exempt: options that a program sets, and structs that pass parts to several services. Such
//! a struct begins with `// tidy: fields` and the reason.

use super::finding::Finding;
use super::lexer;
use super::source::SourceFile;

const FIELDS_MAX: usize = 12;

/// Field types that make a struct a service.
const HELD: [&str; 8] = [
    "Arc<dyn ",
    "Box<dyn ",
    "Mutex<",
    "RwLock<",
    "mpsc::Sender<",
    "mpsc::Receiver<",
    "watch::Sender<",
    "broadcast::Sender<",
];

/// Finds services with too many fields.
pub fn fields(file: &SourceFile, findings: &mut Vec<Finding>) {
    if !file.is_rust() || file.is_test_file() || !file.has_folder("src") {
        return;
    }
    let code = &file.views.code;
    for at in lexer::find_words(code, "struct") {
        let line = file.line_of(at);
        let Some(body) = body(&code[at..]) else { continue };
        let fields = fields_of(body);
        let is_service = fields.iter().any(|field| HELD.iter().any(|held| field.contains(held)));
        if fields.len() > FIELDS_MAX
            && is_service
            && !file.is_test_line(line)
            && !(line..=line + 1).any(|line| file.is_excused(line, "fields"))
        {
            let advice = format!(
                "{} fields of at most {FIELDS_MAX} in a struct that holds ports, locks or channels; find the second noun in it",
                fields.len()
            );
            findings.push(Finding::error(file, line, "service size", advice));
        }
    }
}

/// Returns the text between a struct's braces. Returns `None` for a struct without named fields.
fn body(code: &str) -> Option<&str> {
    let open = code.find(['{', ';', '('])?;
    if !code[open..].starts_with('{') {
        return None;
    }
    let chars: Vec<char> = code[open..].chars().collect();
    let close = lexer::matching_brace(&chars, 0);
    let length: usize = chars[..close].iter().map(|char| char.len_utf8()).sum();
    Some(&code[open + 1..open + length])
}

/// Returns the fields, each with its type.
fn fields_of(body: &str) -> Vec<&str> {
    let (mut fields, mut depth, mut start) = (Vec::new(), 0_i32, 0);
    let mut before = ' ';
    for (at, char) in body.char_indices() {
        match char {
            '(' | '[' | '{' | '<' => depth += 1,
            '>' if before == '-' => {}
            ')' | ']' | '}' | '>' => depth -= 1,
            ',' if depth == 0 => {
                fields.push(&body[start..at]);
                start = at + 1;
            }
            _ => {} // tidy: any other character
        }
        before = char;
    }
    fields.push(&body[start..]);
    fields.retain(|field| field.contains(':'));
    fields
}

#[cfg(test)]
mod tests {
    use super::super::check;
    use super::*;

    fn service(fields: usize, marker: &str) -> String {
        let plain: String =
            (1..fields).map(|nth| format!("    /// A figure, of course.\n    f{nth}: u64,\n")).collect();
        format!("struct S {{{marker}\n    clock: Arc<dyn Fn(u8, u8) -> u64>,\n{plain}}}\n")
    }

    #[test]
    fn a_service_has_few_fields() {
        let path = "crates/windlass-engine/src/a.rs";
        check(fields, path, &service(12, ""), &[]);
        check(fields, path, &service(13, ""), &[1]);
        check(fields, path, &service(13, "\n    // tidy: fields of a program"), &[]);
        let figures: String = (0..20).map(|nth| format!("    f{nth}: u64,\n")).collect();
        check(fields, path, &format!("struct S {{\n{figures}}}\nstruct T(Mutex<u8>);\nstruct U;\n"), &[]);
    }
}
