//! A page as Markdown: the part that it marks as what it is about, else all that it says.
//!
//! The parser is not trusted (`tool/confined.rs`), and pages that are built to make it slow do not reach it (`scan.rs`)
//! or are given up (`parse.rs`): of them the bare text is shown.

use std::rc::Rc;
use std::time::Duration;

use htmd::{HtmlToMarkdown, Node};
use tokio_util::sync::CancellationToken;

use super::scan::{Shape, scan};
use super::tree;
use crate::outbound::Url;
use crate::tool::confined::{Confined, confined};

/// Largest page that is read as one; pages have some 100 KiB without what they load.
const MAX_HTML_BYTES: usize = 4 * 1024 * 1024;
/// A page takes milliseconds.
const TIME_LIMIT: Duration = Duration::from_secs(20);
/// Browsers nest 512 elements at most, and put what is deeper beside.
const MAX_DEPTH: usize = 512;
/// The largest specifications have less than half of it.
const MAX_TAGS: usize = 200_000;
/// Attributes are compared with each other.
const MAX_ATTRIBUTES: usize = 500;
/// Parts that a page marks as what it is about and that are compared.
const MAX_MARKED: usize = 50;
/// An article says this part of what its page says, in percent, or it is not the whole of what was meant.
const ARTICLE_PERCENT: usize = 30;

/// A page that was read.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Page {
    pub title: String,
    /// Markdown, or bare text where that cannot be had.
    pub text: String,
    /// What a reader should know of how it was read.
    pub note: Option<&'static str>,
}

/// Reads a page. Blocks its thread; the error is for the model.
pub(super) fn read(html: &str, url: &Url, cancel: &CancellationToken) -> Result<Page, String> {
    let is_cut = html.len() > MAX_HTML_BYTES;
    let html = &html[..html.floor_char_boundary(MAX_HTML_BYTES)];
    let (shape, bare) = scan(html);
    let Shape { depth, tags, attributes } = shape;
    let bare = |note| Page { title: String::new(), text: bare.clone(), note: Some(note) };
    if depth > MAX_DEPTH || tags > MAX_TAGS || attributes > MAX_ATTRIBUTES {
        return Ok(bare("the page is built in a way that only its bare text is shown"));
    }
    let (owned, base) = (html.to_owned(), url.clone());
    match confined("html", TIME_LIMIT, cancel, move |stop| convert(&owned, &base, stop)) {
        Ok(Some(page)) if is_cut => {
            Ok(Page { note: Some("the page is too large: only its beginning was read"), ..page })
        }
        Ok(Some(page)) => Ok(page),
        Ok(None) | Err(Confined::Crashed | Confined::Slow) => {
            Ok(bare("the page could not be converted: its bare text is shown"))
        }
        Err(Confined::Cancelled) => Err("the call was cancelled".to_owned()),
        Err(Confined::Busy) => Err("too many pages are being read; try again later".to_owned()),
    }
}

/// What is no text of a page.
const UNSEEN: &[&str] = &["script", "style", "noscript", "template", "svg", "iframe", "object", "canvas"];

/// What surrounds what a page is about.
const AROUND: &[&str] = &["nav", "footer", "aside", "dialog"];

/// Converts a page; `None` where it is nested too deeply after all, or nobody waits any more.
fn convert(html: &str, base: &Url, stop: &CancellationToken) -> Option<Page> {
    let root = tree::parse(html, stop)?;
    if tree::depth(&root) > 2 * MAX_DEPTH {
        return None;
    }
    let find = |name: &str| tree::walk(&root).into_iter().find(|node| tree::name(node) == name);
    let title = find("title").map(|title| tree::text(&title)).unwrap_or_default();
    let title = title.split_whitespace().collect::<Vec<_>>().join(" ");
    tree::remove(&root, |node| {
        UNSEEN.contains(&tree::name(node))
            || tree::attribute(node, "hidden").is_some()
            || tree::attribute(node, "aria-hidden").is_some_and(|hidden| hidden == "true")
    });
    for node in tree::walk(&root) {
        let name = match tree::name(&node) {
            "a" => "href",
            "img" => "src",
            _ => continue,
        };
        tree::change(&node, name, |text| absolute(base, text));
    }
    let body = find("body").unwrap_or_else(|| root.clone());
    let part = article(&body).unwrap_or(body);
    tree::remove(&part, |node| AROUND.contains(&tree::name(node)));
    let text = HtmlToMarkdown::new().tree_to_markdown(&part);
    Some(Page { title, text: text.trim().to_owned(), note: None })
}

/// A link as it would be followed; `None` where no page is behind it.
fn absolute(base: &Url, text: &str) -> Option<String> {
    let url = base.join(text.trim()).ok()?;
    matches!(url.scheme(), "http" | "https").then(|| url.into())
}

/// The part that the page itself marks as what it is about, where that says enough of it.
fn article(body: &Rc<Node>) -> Option<Rc<Node>> {
    let said = |node: &Rc<Node>| tree::text(node).split_whitespace().map(str::len).sum::<usize>();
    let marked = tree::walk(body).into_iter().filter(|node| {
        let role = tree::attribute(node, "role");
        matches!(tree::name(node), "article" | "main") || role.is_some_and(|role| role == "main")
    });
    // Parts in each other are walked over once for each: a page marks few.
    let longest = marked.take(MAX_MARKED).max_by_key(said)?;
    (said(&longest) * 100 >= said(body) * ARTICLE_PERCENT).then_some(longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(html: &str) -> Page {
        let url = Url::parse("https://example.com/docs/page").unwrap();
        read(html, &url, &CancellationToken::new()).unwrap()
    }

    #[test]
    fn a_page_is_markdown_with_whole_links() {
        let html = "<html><head><title> A\n title </title><script>alert(1)</script></head><body>\
            <h1>Head</h1><p>See <a href='../x?y=1'>there</a> and <a href='javascript:alert(1)'>not</a>.</p>\
            <ul><li>one</li><li><b>two</b></li></ul><pre><code>let a = 1;</code></pre>\
            <table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>\
            <p hidden>unseen</p></body></html>";
        let page = page(html);
        assert_eq!(page.title, "A title");
        for part in ["# Head", "[there](https://example.com/x?y=1)", "**two**", "let a = 1;", "| a | b |"] {
            assert!(page.text.contains(part), "{part}: {}", page.text);
        }
        for part in ["alert", "unseen", "javascript"] {
            assert!(!page.text.contains(part), "{part}: {}", page.text);
        }
    }

    #[test]
    fn of_an_article_its_surroundings_are_left_out() {
        let paragraph =
            "This is a sentence of an article, which goes on, with commas, for quite a while. ".repeat(6);
        let body = format!("<p>{paragraph}</p>").repeat(6);
        let html = format!(
            "<html><head><title>News</title></head><body><nav class='menu'><a href='/a'>Menu</a></nav>\
             <article><h2>Story</h2>{body}</article><footer>Imprint</footer></body></html>"
        );
        let page = page(&html);
        assert!(page.text.contains("sentence of an article"), "{}", page.text);
        assert!(!page.text.contains("Menu") && !page.text.contains("Imprint"), "{}", page.text);
    }

    #[test]
    fn pages_that_are_built_to_harm_are_read_all_the_same() {
        let rows = [
            format!("{}deep", "<div>".repeat(200_000)),
            format!("{}deep", "<b><i>".repeat(100_000)),
            // What a scan takes for a comment is none.
            format!("<!--><x {}>deep", "a=1 ".repeat(100_000)),
            format!("<p {}>deep</p>", "a b ".repeat(200_000)),
            format!("{}deep", "<table><tr><td>".repeat(20_000)),
            format!("{}deep", "<ul><li>".repeat(300)),
            format!("{}deep", "<blockquote>".repeat(500)),
            format!("<title>{}</title>deep", "x".repeat(100_000)),
            "deep".to_owned(),
            "<p>deep\0\u{fffd}</p>".to_owned(),
        ];
        for html in rows {
            let page = page(&html);
            assert!(page.text.contains("deep"), "{:.60}: {:.100}", html, page.text);
        }
        let page = page(&format!("<p>{}</p>", "long ".repeat(2_000_000)));
        assert!(page.note.is_some() && page.text.len() <= MAX_HTML_BYTES);
    }
}
