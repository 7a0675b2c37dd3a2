//! A quick look at a page before a real parser is let at it: how it is nested, and its bare text.
//!
//! It takes time in proportion to the page and recurses nowhere. It is no parser: what it says is near enough to keep
//! most pages from one that takes the square of their depth. What it does not see, the bounds of `tree.rs` stop.

use std::collections::HashMap;

/// What a page is built like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Shape {
    /// Elements inside each other.
    pub depth: usize,
    /// Tags: each begins or ends an element, and a parser looks for the beginning of each end.
    pub tags: usize,
    /// Attributes of one element.
    pub attributes: usize,
}

/// Elements without an end.
const VOID: &[&str] = &[
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track",
    "wbr",
];

/// Elements whose end need not be written, with those that the beginning of one ends.
const OPEN_ENDED: &[(&str, &[&str])] = &[
    ("li", &["p", "li"]),
    ("dt", &["p", "dt", "dd"]),
    ("dd", &["p", "dt", "dd"]),
    ("option", &["option"]),
    ("optgroup", &["option"]),
    ("colgroup", &["colgroup"]),
    ("td", &["p", "li", "td", "th"]),
    ("th", &["p", "li", "td", "th"]),
    ("tr", &["p", "li", "td", "th", "tr", "colgroup"]),
    ("thead", &["p", "li", "td", "th", "tr", "colgroup", "thead", "tbody", "tfoot"]),
    ("tbody", &["p", "li", "td", "th", "tr", "colgroup", "thead", "tbody", "tfoot"]),
    ("tfoot", &["p", "li", "td", "th", "tr", "colgroup", "thead", "tbody", "tfoot"]),
];

/// Parts of a table, which are nothing elsewhere.
const OF_TABLES: &[&str] = &["td", "th", "tr", "thead", "tbody", "tfoot", "colgroup", "caption"];

/// Elements that a page has once, written or not.
const FRAME: &[&str] = &["html", "head", "body"];

/// Elements whose content is no markup.
const RAW: &[&str] = &["script", "style", "textarea", "title", "xmp", "iframe", "noembed", "noframes"];

/// Elements that do not break a line.
const INLINE: &[&str] = &[
    "a", "abbr", "b", "bdi", "bdo", "cite", "code", "data", "dfn", "em", "font", "i", "kbd", "mark", "q",
    "s", "samp", "small", "span", "strong", "sub", "sup", "time", "u", "var", "wbr", "img",
];

/// Looks at a page: its shape, and its text without markup.
pub(super) fn scan(html: &str) -> (Shape, String) {
    let (mut shape, mut open, mut text) = (Shape::default(), Open::default(), String::new());
    let mut rest = html;
    while let Some(at) = rest.find('<') {
        push_text(&mut text, &rest[..at]);
        rest = &rest[at..];
        let bytes = rest.as_bytes();
        match bytes.get(1) {
            Some(b'!') if rest.starts_with("<!--") => rest = after_comment(rest),
            Some(b'!' | b'?') => rest = after(rest, '>'),
            Some(b'/') if bytes.get(2).is_some_and(u8::is_ascii_alphabetic) => {
                let name = name_of(&rest[2..]);
                shape.tags += 1;
                open.end(&name);
                break_line(&mut text, &name);
                rest = after(rest, '>');
            }
            Some(byte) if byte.is_ascii_alphabetic() => {
                let name = name_of(&rest[1..]);
                let (attributes, behind) = attributes(&rest[1 + name.len()..]);
                let is_whole = rest[..rest.len() - behind.len()].ends_with("/>") && open.is_drawing();
                rest = behind;
                shape.tags += 1;
                shape.attributes = shape.attributes.max(attributes);
                break_line(&mut text, &name);
                let is_raw = RAW.contains(&name.as_str());
                if is_raw {
                    rest = after_raw(rest, &name);
                }
                if !is_whole {
                    open.begin(name);
                    shape.depth = shape.depth.max(open.names.len());
                }
                if is_raw {
                    open.leave();
                }
            }
            Some(_) | None => {
                text.push('<');
                rest = &rest[1..];
            }
        }
    }
    push_text(&mut text, rest);
    (shape, tidied(&text))
}

/// The elements that are open.
#[derive(Default)]
struct Open {
    names: Vec<String>,
    /// How many of each name, so that nothing is looked for that is not there.
    counts: HashMap<String, usize>,
}

impl Open {
    fn has(&self, name: &str) -> bool {
        self.counts.get(name).is_some_and(|count| *count > 0)
    }

    /// Whether what ends in `/>` is whole, as in XML.
    fn is_drawing(&self) -> bool {
        self.has("svg") || self.has("math")
    }

    fn begin(&mut self, name: String) {
        let known = name.as_str();
        if VOID.contains(&known)
            || FRAME.contains(&known)
            || (OF_TABLES.contains(&known) && !self.has("table"))
        {
            return;
        }
        let ends = OPEN_ENDED.iter().find(|(known, _)| *known == name).map(|(_, ends)| *ends);
        // A paragraph holds words, and ends where something else begins.
        let ends = ends.unwrap_or(if INLINE.contains(&known) { &[] } else { &["p"] });
        while self.names.last().is_some_and(|last| ends.contains(&last.as_str())) {
            self.leave();
        }
        *self.counts.entry(name.clone()).or_default() += 1;
        self.names.push(name);
    }

    /// Ends the innermost element of a name with all that is in it.
    fn end(&mut self, name: &str) {
        while self.has(name) {
            if self.leave().is_none_or(|left| left == name) {
                return;
            }
        }
    }

    fn leave(&mut self) -> Option<String> {
        let left = self.names.pop()?;
        if let Some(count) = self.counts.get_mut(&left) {
            *count -= 1;
        }
        Some(left)
    }
}

fn name_of(text: &str) -> String {
    let end = text
        .find(|c: char| c.is_ascii_whitespace() || c == '/' || c == '>' || c == '<')
        .unwrap_or(text.len());
    // A name of an element is short; what is longer is none that is listed here.
    text[..text.floor_char_boundary(end.min(64))].to_ascii_lowercase()
}

/// Counts attributes until the tag ends, and gives what stands behind it.
fn attributes(text: &str) -> (usize, &str) {
    let (mut count, mut quote, mut in_word) = (0, None, false);
    for (at, byte) in text.bytes().enumerate() {
        match quote {
            Some(mark) if byte == mark => quote = None,
            Some(_) => {}
            None => match byte {
                b'>' => return (count, &text[at + 1..]),
                b'"' | b'\'' => quote = Some(byte),
                b'/' => in_word = false,
                _ if byte.is_ascii_whitespace() => in_word = false,
                _ if !in_word => {
                    in_word = true;
                    count += 1;
                }
                _ => {}
            },
        }
    }
    (count, "")
}

fn after(text: &str, end: char) -> &str {
    text.find(end).map_or("", |at| &text[at + 1..])
}

fn after_comment(text: &str) -> &str {
    for short in ["<!-->", "<!--->"] {
        if let Some(rest) = text.strip_prefix(short) {
            return rest;
        }
    }
    text[4..].find("-->").map_or("", |at| &text[4 + at + 3..])
}

/// What stands behind the end of an element whose content is no markup.
fn after_raw<'a>(text: &'a str, name: &str) -> &'a str {
    let mut rest = text;
    while let Some(at) = rest.find("</") {
        rest = &rest[at..];
        if rest.get(2..2 + name.len()).is_some_and(|found| found.eq_ignore_ascii_case(name)) {
            return after(rest, '>');
        }
        rest = &rest[2..];
    }
    ""
}

fn break_line(text: &mut String, name: &str) {
    if !INLINE.contains(&name) && !text.ends_with('\n') {
        text.push('\n');
    }
}

fn push_text(text: &mut String, more: &str) {
    if !more.contains('&') {
        text.push_str(more);
        return;
    }
    let plain =
        [("&nbsp;", " "), ("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&apos;", "'")];
    let mut more = more.to_owned();
    for (entity, character) in plain {
        more = more.replace(entity, character);
    }
    // Last, so that nothing is read twice.
    text.push_str(&more.replace("&amp;", "&"));
}

/// The text without empty lines and blanks beside each other.
fn tidied(text: &str) -> String {
    let lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    let lines: Vec<String> = lines.filter(|line| !line.is_empty()).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_page_is_found_without_a_parser() {
        let page = "<!DOCTYPE html><html><head><title>T</title><style>p{}</style><script>if (a</b>c) '<div>'</script>\
            </head><body><!-- <div> --><h1 class=\"a > b\">Head</h1><p>One <b>two</b>&amp;lt;<p>three<br>four\
            <ul><li>a<li>b</ul> 1 < 2 <3</body>";
        let (shape, text) = scan(page);
        assert_eq!(text, "Head\nOne two&lt;\nthree\nfour\na\nb\n1 < 2 <3");
        assert_eq!((shape.depth, shape.attributes), (2, 1));
    }

    #[test]
    fn what_would_take_a_parser_long_is_seen() {
        let (shape, _) = scan(&"<div>".repeat(10_000));
        assert_eq!((shape.depth, shape.tags), (10_000, 10_000));
        let (shape, _) = scan(&"<div></div>".repeat(10_000));
        assert_eq!(shape.depth, 1);
        let (shape, _) = scan(&format!("<div {}>", "a b=1 ".repeat(5_000)));
        assert_eq!(shape.attributes, 10_000);
        let (shape, _) = scan(&"<p>a<li>b<td>c".repeat(1_000));
        assert_eq!(shape.depth, 2);
        let (shape, _) = scan(&format!("<svg>{}</svg>", "<path d='x'/>".repeat(1_000)));
        assert_eq!(shape.depth, 1);
        let (shape, _) = scan(&format!("<table>{}</table>", "<tr><td>a<td><p>b<p>c".repeat(1_000)));
        assert_eq!(shape.depth, 4);
        // What parsers nest although its end need not be written.
        for open in ["<optgroup>", "<rt>", "<div></b>", "<div></p></span>", "<i></td>", "<b></p>"] {
            assert!(scan(&open.repeat(1_000)).0.depth >= 1_000, "{open}");
        }
        // Each end is looked for among what is open.
        let (shape, _) = scan(&format!("<div>{}", "</p>".repeat(5_000)));
        assert_eq!(shape.tags, 5_001);
        assert_eq!(scan("<ul><li>a<li><p>b<p>c</ul><p>d").0.depth, 3);
        for broken in
            ["<", "<!", "<!--", "<a", "<a href=\"", "</", "</a", "<script>", "<!-->x", "&", "<\u{e9}>"]
        {
            scan(broken);
        }
        assert_eq!(scan("<!-->x").1, "x");
    }
}
