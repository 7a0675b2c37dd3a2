//! The text of a page without its structure.
//!
//! The module uses the tokenizer alone, in linear time for any nesting.
//! It does not produce Markdown (`html.rs`).

use std::cell::RefCell;

use html5ever::tendril::StrTendril;
use html5ever::tokenizer::states::RawKind;
use html5ever::tokenizer::{
    BufferQueue, Tag, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts,
};

/// Elements that do not break a line.
const INLINE: &[&str] = &[
    "a", "abbr", "b", "bdi", "bdo", "cite", "code", "data", "dfn", "em", "font", "i", "kbd", "mark", "q",
    "s", "samp", "small", "span", "strong", "sub", "sup", "time", "u", "var", "wbr", "img",
];

/// Extracts the text of a page.
pub(super) fn text(html: &str) -> String {
    let tokenizer = Tokenizer::new(Collector::default(), TokenizerOpts::default());
    let input = BufferQueue::default();
    input.push_back(StrTendril::from_slice(html));
    // The sink never requests a script run, so the first call consumes the complete input.
    let _ = tokenizer.feed(&input);
    tokenizer.end();
    let text = tokenizer.sink.text.take();
    let lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
}

#[derive(Default)]
struct Collector {
    text: RefCell<String>,
    /// Whether the tokenizer is inside an element whose content is not part of the text.
    is_hidden: RefCell<bool>,
}

impl TokenSink for Collector {
    type Handle = ();

    fn process_token(&self, token: Token, _line: u64) -> TokenSinkResult<()> {
        match token {
            Token::CharacterTokens(text) if !*self.is_hidden.borrow() => {
                self.text.borrow_mut().push_str(&text)
            }
            Token::NullCharacterToken if !*self.is_hidden.borrow() => self.text.borrow_mut().push('\u{fffd}'),
            Token::TagToken(tag) => return self.process_tag(&tag),
            Token::CharacterTokens(_)
            | Token::NullCharacterToken
            | Token::DoctypeToken(_)
            | Token::CommentToken(_)
            | Token::EOFToken
            | Token::ParseError(_) => {}
        }
        TokenSinkResult::Continue
    }
}

impl Collector {
    fn process_tag(&self, tag: &Tag) -> TokenSinkResult<()> {
        let name = &*tag.name;
        if !INLINE.contains(&name) {
            self.text.borrow_mut().push('\n');
        }
        if tag.kind == TagKind::EndTag {
            self.is_hidden.replace(false);
            return TokenSinkResult::Continue;
        }
        let kind = match name {
            "script" => RawKind::ScriptData,
            "style" | "xmp" | "iframe" | "noembed" | "noframes" => RawKind::Rawtext,
            "title" | "textarea" => RawKind::Rcdata,
            _ => return TokenSinkResult::Continue,
        };
        self.is_hidden.replace(matches!(name, "script" | "style" | "iframe" | "noembed" | "noframes"));
        TokenSinkResult::RawData(kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_its_text() {
        let html = "<title>T &amp; t</title><p>one <b>two</b><script>if (a < b) '</p>'</script><style>p {}</style>\
                    <p>three&eacute;<br>four<!-- no --> <x <y>five";
        assert_eq!(text(html), "T & t\none two\nthree\u{e9}\nfour\nfive");
    }
}
