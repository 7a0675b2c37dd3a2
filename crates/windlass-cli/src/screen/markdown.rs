//! Renders Markdown for a terminal as styled lines, wrapped at words. Replies are rendered block by block.

mod stream;
mod table;

use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};

use super::wrap::{columns, wrap};
use crate::paint::Paint;
use windlass_server::text::{shown, shown_line};

pub use stream::Stream;
use table::Table;

/// Maximum width of a horizontal rule in columns.
const RULE_MAX: usize = 40;

/// Renders a text. Code lines are not wrapped, so that they can be copied.
pub fn render(source: &str, columns: usize, paint: Paint) -> Vec<String> {
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let source = shown(source);
    let mut page = Rendering { columns, paint, ..Rendering::default() };
    for event in Parser::new_ext(&source, options) {
        page.take(event);
    }
    page.paragraph();
    page.lines
}

/// The prefixes of a container's lines: of its first line, and of its further lines.
struct Lead {
    first: String,
    rest: String,
    is_begun: bool,
}

/// The state of rendering.
struct Rendering {
    columns: usize,
    paint: Paint,
    lines: Vec<String>,
    /// Text of the open paragraph, heading, item or cell.
    text: String,
    leads: Vec<Lead>,
    /// The next item number of each open list; `None` for a bulleted list.
    lists: Vec<Option<u64>>,
    strong: u32,
    emphasis: u32,
    strike: u32,
    heading: Option<HeadingLevel>,
    /// The language of the open code block.
    code: Option<String>,
    table: Option<Table>,
    /// Addresses of the open links, and the byte index at which their text begins.
    links: Vec<(String, usize)>,
    /// Whether an empty line precedes the next block.
    gap: bool,
}

impl Default for Rendering {
    fn default() -> Self {
        Self {
            columns: 80,
            paint: Paint::Plain,
            lines: Vec::new(),
            text: String::new(),
            leads: Vec::new(),
            lists: Vec::new(),
            strong: 0,
            emphasis: 0,
            strike: 0,
            heading: None,
            code: None,
            table: None,
            links: Vec::new(),
            gap: false,
        }
    }
}

impl Rendering {
    fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.begin(tag),
            Event::End(tag) => self.end(tag),
            // The parser has resolved character references such as `&#27;`, so control characters are escaped again.
            Event::Text(text) if self.code.is_some() => self.code_lines(&shown(&text)),
            Event::Text(text) | Event::InlineHtml(text) => {
                let styled = self.styled(&shown(&text));
                self.text.push_str(&styled);
            }
            Event::Html(html) => self.text.push_str(&shown(&html)),
            Event::Code(code) => {
                let code = self.paint.cyan(&code).into_owned();
                self.text.push_str(&code);
            }
            Event::InlineMath(text) | Event::DisplayMath(text) | Event::FootnoteReference(text) => {
                self.text.push_str(&shown(&text));
            }
            Event::SoftBreak => self.text.push(' '),
            Event::HardBreak => self.text.push('\n'),
            Event::Rule => {
                self.open_block();
                let rule = "─".repeat(RULE_MAX.min(self.room()));
                let rule = self.paint.dim(&rule).into_owned();
                self.line(&rule);
                self.gap = true;
            }
            Event::TaskListMarker(is_done) => self.text.push_str(if is_done { "☑ " } else { "☐ " }),
        }
    }

    fn begin(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph | Tag::HtmlBlock => self.open_block(),
            Tag::Heading { level, .. } => {
                self.open_block();
                self.heading = Some(level);
            }
            Tag::BlockQuote(_) => {
                self.paragraph();
                self.open_block();
                let bar = self.paint.dim("│ ").into_owned();
                self.leads.push(Lead { first: bar.clone(), rest: bar, is_begun: false });
            }
            Tag::CodeBlock(kind) => {
                self.paragraph();
                self.open_block();
                self.code = Some(match kind {
                    CodeBlockKind::Fenced(language) => language.to_string(),
                    CodeBlockKind::Indented => String::new(),
                });
            }
            Tag::List(first) => {
                self.paragraph();
                if self.lists.is_empty() {
                    self.open_block();
                }
                self.lists.push(first);
            }
            Tag::Item => self.item(),
            Tag::Table(alignments) => {
                self.open_block();
                self.table = Some(Table::new(alignments));
            }
            Tag::Strong => self.strong += 1,
            Tag::Emphasis => self.emphasis += 1,
            Tag::Strikethrough => self.strike += 1,
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
                self.links.push((shown_line(&dest_url).into_owned(), self.text.len()));
            }
            _ => {} // tidy: another crate's enum; the other kinds are switched off, or have no look of their own
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph | TagEnd::HtmlBlock => {
                self.paragraph();
                self.gap = true;
            }
            TagEnd::Heading(_) => {
                self.paragraph();
                self.heading = None;
                self.gap = true;
            }
            TagEnd::CodeBlock => {
                self.code = None;
                self.gap = true;
            }
            TagEnd::BlockQuote(_) => {
                self.paragraph();
                self.leads.pop();
                self.gap = true;
            }
            TagEnd::Item => {
                self.paragraph();
                self.leads.pop();
            }
            TagEnd::List(_) => {
                self.lists.pop();
                self.gap |= self.lists.is_empty();
            }
            TagEnd::TableCell => {
                let cell = std::mem::take(&mut self.text);
                self.table.iter_mut().for_each(|table| table.cell(cell.clone()));
            }
            TagEnd::TableHead | TagEnd::TableRow => self.table.iter_mut().for_each(Table::end_row),
            TagEnd::Table => {
                if let Some(table) = self.table.take() {
                    let lines = table.lines(self.room(), self.paint);
                    lines.iter().for_each(|line| self.line(line));
                }
                self.gap = true;
            }
            TagEnd::Strong => self.strong = self.strong.saturating_sub(1),
            TagEnd::Emphasis => self.emphasis = self.emphasis.saturating_sub(1),
            TagEnd::Strikethrough => self.strike = self.strike.saturating_sub(1),
            TagEnd::Link | TagEnd::Image => self.end_link(),
            _ => {} // tidy: another crate's enum; as above
        }
    }

    fn item(&mut self) {
        let marker = match self.lists.last_mut() {
            Some(Some(number)) => {
                *number += 1;
                format!("{}. ", *number - 1)
            }
            Some(None) | None => "• ".to_owned(),
        };
        let rest = " ".repeat(columns(&marker));
        self.leads.push(Lead { first: marker, rest, is_begun: false });
    }

    /// Appends a link's address if its text does not contain it.
    fn end_link(&mut self) {
        let Some((address, from)) = self.links.pop() else { return };
        let text = self.text.get(from..).unwrap_or_default();
        if !address.is_empty() && !text.contains(address.trim_start_matches("mailto:")) {
            let address = self.paint.dim(&format!(" ({address})")).into_owned();
            self.text.push_str(&address);
        }
    }

    fn styled(&self, text: &str) -> String {
        let mut codes = Vec::new();
        if self.heading.is_some() || self.strong > 0 {
            codes.push("1");
        }
        if self.emphasis > 0 {
            codes.push("3");
        }
        if self.heading == Some(HeadingLevel::H1) {
            codes.push("4");
        }
        if self.strike > 0 {
            codes.push("9");
        }
        match codes.as_slice() {
            [] => text.to_owned(),
            codes => self.paint.with(&codes.join(";"), text).into_owned(),
        }
    }

    fn code_lines(&mut self, text: &str) {
        let is_difference = self.code.as_deref().is_some_and(|language| language.starts_with("diff"));
        for line in text.lines() {
            let line = match line.as_bytes() {
                [b'+', ..] if is_difference => self.paint.green(line),
                [b'-', ..] if is_difference => self.paint.red(line),
                _ if is_difference => line.into(),
                _ => self.paint.cyan(line),
            };
            self.line(&format!("  {line}"));
        }
    }

    /// Returns the number of columns that remain beside the containers' prefixes.
    fn room(&self) -> usize {
        let taken: usize = self.leads.iter().map(|lead| columns(&lead.rest)).sum();
        self.columns.saturating_sub(taken).max(8)
    }

    /// Separates a block from the previous one.
    fn open_block(&mut self) {
        if std::mem::take(&mut self.gap) {
            let begun = self.leads.iter().filter(|lead| lead.is_begun);
            let line: String = begun.map(|lead| lead.rest.as_str()).collect();
            self.lines.push(line.trim_end().to_owned());
        }
    }

    /// Writes the text of the open paragraph.
    fn paragraph(&mut self) {
        let text = std::mem::take(&mut self.text);
        if text.is_empty() {
            return;
        }
        for line in wrap(text.trim_end(), self.room(), "") {
            self.line(&line);
        }
    }

    fn line(&mut self, text: &str) {
        let mut line = String::new();
        for lead in &mut self.leads {
            line.push_str(if lead.is_begun { &lead.rest } else { &lead.first });
            lead.is_begun = true;
        }
        line.push_str(text);
        self.lines.push(line.trim_end().to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(source: &str) -> String {
        render(source, 40, Paint::Plain).join("\n")
    }

    #[test]
    fn blocks_are_separated_and_wrapped_at_words() {
        insta::assert_snapshot!(check("# Title\nA paragraph that is longer than the forty columns of the test.\n\n> quoted\n> text\n\n---\nend"), @"
        Title

        A paragraph that is longer than the
        forty columns of the test.

        │ quoted text

        ────────────────────────────────────────

        end
        ");
    }

    #[test]
    fn lists_keep_their_numbers_and_their_indentation() {
        insta::assert_snapshot!(check("3. three\n4. four has a text that does not fit into one line\n   - inner\n   - [x] done\n   - [ ] open\n"), @"
        3. three
        4. four has a text that does not fit
           into one line
           • inner
           • ☑ done
           • ☐ open
        ");
    }

    #[test]
    fn code_is_indented_and_not_wrapped() {
        let code = "```rust\nfn main() { println!(\"a line that is longer than forty columns\"); }\n```";
        assert_eq!(check(code), "  fn main() { println!(\"a line that is longer than forty columns\"); }");
        let difference = render("```diff\n-old\n+new\n```", 40, Paint::Colored);
        assert_eq!(difference, ["  \x1b[1;31m-old\x1b[0m", "  \x1b[32m+new\x1b[0m"]);
    }

    #[test]
    fn a_table_has_columns_that_fit() {
        insta::assert_snapshot!(check("| City | People |\n|---|---:|\n| Rome | 3 |\n| Oslo, which is a city in the far north of Europe | 1 |"), @"
        City                            │ People
        ────────────────────────────────┼───────
        Rome                            │      3
        Oslo, which is a city in the    │      1
        far north of Europe             │
        ");
    }

    #[test]
    fn styles_and_links() {
        let rendered =
            render("a **bold *both*** `code` [text](https://x.org) <https://y.org>", 100, Paint::Colored);
        let wanted = "a \x1b[1mbold \x1b[0m\x1b[1;3mboth\x1b[0m \x1b[36mcode\x1b[0m text\x1b[2m (https://x.org)\x1b[0m https://y.org";
        assert_eq!(rendered, [wanted]);
    }

    #[test]
    fn a_text_cannot_steer_the_screen() {
        assert_eq!(check("a \x1b[2J `\x1b[2J`"), "a ␛[2J ␛[2J");
        // Character references are resolved only when the text is parsed.
        let referred = check("a &#27;[2J &#x9b;2J &#x202e; [x](b&#27;c)\n\n<b>&#27;</b>\n");
        assert!(referred.chars().all(|c| c == '\n' || !c.is_control()), "{referred:?}");
        assert!(!referred.contains('\u{202e}'), "{referred:?}");
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_rendered(source in "([#>*`|\\-1. \n\\[\\]()a-z🙂]|\n\n){0,80}", limit in 1_usize..90) {
            render(&source, limit, Paint::Colored);
        }
    }
}
