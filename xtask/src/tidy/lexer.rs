//! Separates code from comments and literals with rustc's lexer, and finds the functions in the code.
//!
//! Does not parse the code: macros, generics and types are plain characters. Every view of a file keeps the file's
//! lines, so that a position in any of them names the same line.

use ra_ap_rustc_lexer::{FrontmatterAllowed, TokenKind};

/// The two views of a source text: the code without its literals, and the comments.
#[derive(Debug, Default)]
pub struct Views {
    /// The code; comments and the contents of string and character literals are spaces.
    pub code: String,
    /// The comments; everything else is spaces.
    pub comments: String,
}

/// A function with a body.
#[derive(Debug, PartialEq)]
pub struct Function {
    pub name: String,
    /// The line of its `fn`, counted from 1.
    pub first_line: usize,
    /// The line of its closing brace.
    pub last_line: usize,
}

/// Splits a source text into its views.
pub fn views(text: &str) -> Views {
    let mut views = Views::default();
    let mut at = 0;
    for token in ra_ap_rustc_lexer::tokenize(text, FrontmatterAllowed::No) {
        let end = at + token.len as usize;
        let source = &text[at..end];
        let blank: String = source.chars().map(|char| if char == '\n' { '\n' } else { ' ' }).collect();
        let (code, comment) = match token.kind {
            TokenKind::LineComment { .. } | TokenKind::BlockComment { .. } => (blank.as_str(), source),
            TokenKind::Literal { .. } => (blank.as_str(), blank.as_str()),
            _ => (source, blank.as_str()), // tidy: not our enum
        };
        views.code.push_str(code);
        views.comments.push_str(comment);
        at = end;
    }
    views
}

/// Lists the functions with a body in a code view, outer ones before inner ones.
pub fn functions(code: &str) -> Vec<Function> {
    let chars: Vec<char> = code.chars().collect();
    let mut found = Vec::new();
    let mut line = 1;
    for at in 0..chars.len() {
        if chars[at] == '\n' {
            line += 1;
        }
        let Some(name) = function_name(&chars, at) else { continue };
        let Some(open) = body_start(&chars, at) else { continue };
        let last_line = line + count_lines(&chars[at..matching_brace(&chars, open)]);
        found.push(Function { name, first_line: line, last_line });
    }
    found
}

/// Returns the index of the brace that closes the one at `open`, or the end of the text.
pub fn matching_brace(chars: &[char], open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, char) in chars.iter().enumerate().skip(open) {
        match char {
            '{' => depth += 1,
            '}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at;
                }
            }
            _ => {}
        }
    }
    chars.len()
}

/// Whether a character is valid in an identifier.
pub fn is_word(char: char) -> bool {
    char.is_alphanumeric() || char == '_'
}

/// Returns the byte positions of `word` in `code` without an adjacent identifier character. If `word` begins or ends
/// with a character that is not an identifier character, that side is not checked.
pub fn find_words(code: &str, word: &str) -> Vec<usize> {
    let starts_word = word.chars().next().is_some_and(is_word);
    let ends_word = word.chars().next_back().is_some_and(is_word);
    code.match_indices(word)
        .filter(|(at, _)| !(starts_word && code[..*at].chars().next_back().is_some_and(is_word)))
        .filter(|(at, _)| !(ends_word && code[at + word.len()..].chars().next().is_some_and(is_word)))
        .map(|(at, _)| at)
        .collect()
}

fn function_name(chars: &[char], at: usize) -> Option<String> {
    let starts_word = at == 0 || !is_word(chars[at - 1]);
    if !starts_word || !chars[at..].starts_with(&['f', 'n', ' ']) {
        return None;
    }
    let name: String = chars[at + 3..].iter().copied().take_while(|char| is_word(*char)).collect();
    (!name.is_empty()).then_some(name)
}

/// Returns the opening brace of the body. Returns `None` if a `;` ends the declaration first.
fn body_start(chars: &[char], from: usize) -> Option<usize> {
    let mut depth = 0_i32;
    for (at, char) in chars.iter().enumerate().skip(from) {
        match char {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            '{' if depth == 0 => return Some(at),
            ';' if depth == 0 => return None,
            _ => {}
        }
    }
    None
}

fn count_lines(chars: &[char]) -> usize {
    chars.iter().filter(|char| **char == '\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_code(text: &str, expected: &str) {
        let squeezed = views(text).code.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(squeezed, expected, "{text}");
    }

    #[test]
    fn literals_and_comments_are_not_code() {
        check_code("a // b\nc", "a c");
        check_code("a /* b /* c */ d */ e", "a e");
        check_code(r#"f("x { \" // y") g"#, "f( ) g");
        check_code("r#\"a \" b\"# c", "c");
        check_code("br##\"a \"# b\"## c", "c");
        check_code("r#type x", "r#type x");
        check_code("'{' '\\'' '\\u{7d}' x", "x");
        check_code("fn f<'a>(x: &'a str) {}", "fn f<'a>(x: &'a str) {}");
        check_code("writer\"x\" y", "writer y");
    }

    #[test]
    fn comments_have_a_view_of_their_own() {
        let views = views("let a = \"// no\"; // yes\n/* also */ b");
        assert_eq!(views.comments.split_whitespace().collect::<Vec<_>>().join(" "), "// yes /* also */");
    }

    #[test]
    fn views_keep_the_lines() {
        let text = "a\n\"b\nc\" /* d\n */ e\n";
        let views = views(text);
        assert_eq!(views.code.lines().count(), text.lines().count());
        assert_eq!(views.comments.lines().count(), text.lines().count());
    }

    #[test]
    fn functions_are_found_with_their_lines() {
        let text =
            "trait T {\n fn none(&self) -> [u8; 2];\n}\nfn outer() {\n fn inner() { }\n}\ntype F = fn(u8);";
        let found = functions(&views(text).code);
        let function =
            |name: &str, first_line, last_line| Function { name: name.into(), first_line, last_line };
        assert_eq!(found, [function("outer", 4, 6), function("inner", 5, 5)]);
    }

    #[test]
    fn words_end_where_identifiers_end() {
        assert_eq!(find_words("rig prig rigid rig::a", "rig"), [0, 15]);
        assert_eq!(find_words("a::rig::b", "rig::"), [3]);
    }
}
