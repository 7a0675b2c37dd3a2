//! Restricts which modules construct events and requests.
//!
//! Events are constructed only in `on/`, and requests only in `context/`. The surrounding text distinguishes patterns
//! from expressions, as far as text allows.

use super::finding::Finding;
use super::lexer;
use super::source::SourceFile;

const MACHINE: &str = "crates/windlass-machine/src/";
const ENGINE: &str = "crates/windlass-engine/src/";

/// Finds requests that are constructed outside of `context/`.
pub fn requests(file: &SourceFile, findings: &mut Vec<Finding>) {
    let is_home = file.is_in("crates/windlass-machine/src/context/");
    let constructions = constructions(&file.views.code, "ModelRequest");
    report(file, is_home, &constructions, "only `context/` builds a `ModelRequest`; call it there", findings);
}

/// Finds events that are constructed outside `on/`. The event's own folder is exempt, because it decodes stored events.
pub fn events(file: &SourceFile, findings: &mut Vec<Finding>) {
    let code = &file.views.code;
    let is_home = ["on/", "event/"].iter().any(|folder| file.is_in(&format!("{MACHINE}{folder}")));
    let mut at = constructions(code, "Fact::");
    if file.path.starts_with(MACHINE) {
        at.extend(constructions(code, "Event"));
    }
    report(file, is_home, &at, "only `on/` records facts; send an `Input` and let it decide", findings);
}

fn report(file: &SourceFile, is_exempt: bool, at: &[usize], advice: &str, findings: &mut Vec<Finding>) {
    let is_ours = file.path.starts_with(MACHINE) || file.path.starts_with(ENGINE);
    let is_test_kit = file.is_in("crates/windlass-engine/src/testing/");
    if !is_ours || is_exempt || is_test_kit {
        return;
    }
    for line in at.iter().map(|at| file.line_of(*at)) {
        if !file.is_test_line(line) {
            findings.push(Finding::error(file, line, "facts", advice));
        }
    }
}

/// Returns the positions at which a struct or struct-like variant is constructed: `Name { … }`, or `Enum::Variant
/// { … }` for a name that ends in `::`.
fn constructions(code: &str, name: &str) -> Vec<usize> {
    let mut found = Vec::new();
    for at in lexer::find_words(code, name) {
        let variant = code[at + name.len()..].trim_start_matches(lexer::is_word);
        if !variant.trim_start().starts_with('{') {
            continue;
        }
        let open = code.len() - variant.trim_start().len();
        let chars: Vec<char> = code[open..].chars().collect();
        let close = lexer::matching_brace(&chars, 0);
        let body: String = chars[1..close.max(1).min(chars.len())].iter().collect();
        let after: String = chars.iter().skip(close + 1).take(200).collect();
        if !is_declaration(&code[..at]) && !is_pattern(&code[..at], &body, &after) {
            found.push(at);
        }
    }
    found
}

/// Whether the code declares the name: `struct Name {`, `impl … for Name {`, `fn f() -> Name {`.
fn is_declaration(before: &str) -> bool {
    let path_start = before.trim_end_matches(|char| lexer::is_word(char) || char == ':');
    let before = path_start.trim_end();
    before.ends_with("->")
        || ["struct", "impl", "for", "enum"].iter().any(|word| ends_with_word(before, word))
}

fn is_pattern(before: &str, body: &str, after: &str) -> bool {
    if body.trim_end().ends_with("..") {
        return true;
    }
    let next = after.trim_start_matches(|char: char| char.is_whitespace() || matches!(char, ')' | ']'));
    let is_followed = next.starts_with("=>")
        || next.starts_with('|')
        || next.starts_with("if ")
        || next.starts_with('=') && !next.starts_with("==");
    is_followed || is_in_matches(before)
}

/// Whether the innermost open parenthesis belongs to `matches!` or a similar macro.
fn is_in_matches(before: &str) -> bool {
    let mut depth = 0_usize;
    for (at, char) in before.char_indices().rev() {
        match char {
            ')' => depth += 1,
            '(' if depth > 0 => depth -= 1,
            '(' if before[..at].ends_with("matches!") => return true,
            '(' if !before[..at].ends_with(lexer::is_word) => return false,
            '{' | '}' | ';' => return false,
            _ => {}
        }
    }
    false
}

fn ends_with_word(text: &str, word: &str) -> bool {
    text.strip_suffix(word).is_some_and(|rest| !rest.ends_with(lexer::is_word))
}

#[cfg(test)]
mod tests {
    use super::super::check;
    use super::*;

    const DRIVER: &str = "crates/windlass-engine/src/drive/thread/actor.rs";
    const STATE: &str = "crates/windlass-machine/src/state.rs";

    #[test]
    fn only_context_builds_requests() {
        let text = "let a = ModelRequest { model };\n";
        check(requests, DRIVER, text, &[1]);
        check(requests, "crates/windlass-machine/src/on/model.rs", text, &[1]);
        check(requests, "crates/windlass-machine/src/context/window.rs", text, &[]);
        check(requests, "crates/windlass-engine/src/testing/model.rs", text, &[]);
        check(requests, DRIVER, "#[cfg(test)]\nmod tests {\n let a = ModelRequest { model };\n}\n", &[]);
    }

    #[test]
    fn declarations_of_requests_pass() {
        let text = "pub struct ModelRequest {}\nimpl ModelRequest {}\nimpl Show for ModelRequest {}\n\
                    fn a() -> ModelRequest {}\nfn b() -> super::ModelRequest { c() }\nlet ModelRequest { a } = b;\n";
        check(requests, STATE, text, &[]);
    }

    #[test]
    fn only_on_constructs_events() {
        let text = "events.push(Fact::RunStarted { run });\n";
        check(events, DRIVER, text, &[1]);
        check(events, STATE, text, &[1]);
        check(events, "crates/windlass-machine/src/on/message.rs", text, &[]);
        check(events, "crates/windlass-machine/src/event.rs", text, &[]);
        check(events, STATE, "match a {\n A => Fact::B { c: 1 },\n D => e,\n}\n", &[2]);
        check(events, STATE, "if a == (Fact::B { c: 1 }) { f(Fact::D { e }) }\n", &[1, 1]);
    }

    #[test]
    fn an_event_that_is_a_struct_is_found_too() {
        check(
            events,
            STATE,
            "let a = Event { kind };\nfn b() -> Event { c() }\nlet Event { kind } = d;\n",
            &[1],
        );
    }

    #[test]
    fn taking_events_apart_passes() {
        let text = "match event {\n Fact::A { b } => c,\n Fact::D { e, .. } | Fact::F { e } => g,\n\
                    Some(Fact::H { i }) if i => j,\n ModelEvent::K { l } => m,\n}\n\
                    if let Fact::N { o } = p {}\nlet q = matches!(r, Fact::S { t: 1 });\n\
                    assert!(matches!(r, Some(Fact::S { t: 1 })));\nlet u = ModelEvent::V { w };\n";
        check(events, STATE, text, &[]);
    }
}
