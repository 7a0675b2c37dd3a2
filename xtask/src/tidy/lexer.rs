//! A lexer that knows just enough Rust to tell code from comments and literals, and where functions are.
//!
//! It does not parse: macros, generics and types are characters to it. Every view of a file keeps the
//! file's lines, so that a position in any of them names the same line.

/// The two views of a source text: what the compiler sees without its literals, and the comments alone.
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
    /// Its name.
    pub name: String,
    /// The line of its `fn`, counted from 1.
    pub first_line: usize,
    /// The line of its closing brace.
    pub last_line: usize,
}

/// Splits a source text into its views.
pub fn views(text: &str) -> Views {
    let mut lexer = Lexer { chars: text.chars().collect(), at: 0, views: Views::default() };
    while lexer.at < lexer.chars.len() {
        lexer.token();
    }
    lexer.views
}

/// Lists the functions of a code view that have a body, outer ones before the ones inside them.
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

/// The index of the brace that closes the one at `open`, or the end of the text.
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

/// Whether a character can stand in an identifier.
pub fn is_word(char: char) -> bool {
    char.is_alphanumeric() || char == '_'
}

/// The byte positions where `word` stands in `code` with no identifier character on either side. Where
/// `word` itself begins or ends with another character, that side is free.
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

/// The opening brace of the body; none where a `;` ends the declaration first.
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

struct Lexer {
    chars: Vec<char>,
    at: usize,
    views: Views,
}

impl Lexer {
    fn token(&mut self) {
        match (self.peek(0), self.peek(1)) {
            ('/', '/') => self.take_comment(|lexer| lexer.peek(0) == '\n'),
            ('/', '*') => self.block_comment(),
            ('"', _) => self.string(),
            ('\'', _) => self.quote(),
            ('r', '"' | '#') if !self.follows_word() => self.raw_string(1),
            ('b' | 'c', 'r') if !self.follows_word() && matches!(self.peek(2), '"' | '#') => {
                self.raw_string(2)
            }
            _ => self.push_code(),
        }
    }

    fn peek(&self, ahead: usize) -> char {
        self.chars.get(self.at + ahead).copied().unwrap_or('\0')
    }

    /// Whether the character before belongs to an identifier, so that a prefix here is none.
    fn follows_word(&self) -> bool {
        self.at > 0 && is_word(self.chars[self.at - 1])
    }

    fn push_code(&mut self) {
        let char = self.peek(0);
        self.push(char, blank(char));
    }

    fn push_literal(&mut self) {
        let space = blank(self.peek(0));
        self.push(space, space);
    }

    fn push_comment(&mut self) {
        let char = self.peek(0);
        self.push(blank(char), char);
    }

    fn push(&mut self, code: char, comment: char) {
        self.views.code.push(code);
        self.views.comments.push(comment);
        self.at += 1;
    }

    fn take_comment(&mut self, ends: impl Fn(&Self) -> bool) {
        while self.at < self.chars.len() && !ends(self) {
            self.push_comment();
        }
    }

    fn block_comment(&mut self) {
        let mut depth = 0_usize;
        while self.at < self.chars.len() {
            match (self.peek(0), self.peek(1)) {
                ('/', '*') => depth += 1,
                ('*', '/') => depth -= 1,
                _ => {
                    self.push_comment();
                    continue;
                }
            }
            self.push_comment();
            self.push_comment();
            if depth == 0 {
                return;
            }
        }
    }

    fn string(&mut self) {
        self.push_literal();
        while self.at < self.chars.len() {
            let char = self.peek(0);
            self.push_literal();
            match char {
                '"' => return,
                '\\' if self.at < self.chars.len() => self.push_literal(),
                _ => {}
            }
        }
    }

    /// A character literal, or a lifetime, which has no second quote right after its one character.
    fn quote(&mut self) {
        if self.peek(1) == '\\' {
            self.push_literal();
            self.push_literal();
            self.push_literal();
            while self.at < self.chars.len() && self.peek(0) != '\'' {
                self.push_literal();
            }
            self.push_literal();
        } else if self.peek(2) == '\'' {
            for _ in 0..3 {
                self.push_literal();
            }
        } else {
            self.push_code();
        }
    }

    /// A raw string after its prefix; `r#name` is a raw identifier and stays code.
    fn raw_string(&mut self, prefix: usize) {
        let hashes = self.chars[self.at + prefix..].iter().take_while(|char| **char == '#').count();
        if self.peek(prefix + hashes) != '"' {
            return self.push_code();
        }
        for _ in 0..=prefix + hashes {
            self.push_literal();
        }
        while self.at < self.chars.len() {
            let closes = self.peek(0) == '"' && (1..=hashes).all(|ahead| self.peek(ahead) == '#');
            self.push_literal();
            if closes {
                for _ in 0..hashes {
                    self.push_literal();
                }
                return;
            }
        }
    }
}

fn blank(char: char) -> char {
    if char == '\n' { '\n' } else { ' ' }
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
