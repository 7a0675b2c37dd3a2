//! Converts a page to Markdown: the part that the page marks as its article, or the whole page.
//!
//! This module runs no scripts and loads no resources.

use std::rc::Rc;

use htmd::{HtmlToMarkdown, Node};
use windlass_outbound::Url;

use super::tree;

/// Maximum number of marked elements that are compared.
const MAX_MARKED: usize = 50;
/// Minimum share of the page's text that an article must have, in percent. An article
/// with less is not the content of the page.
const ARTICLE_PERCENT: usize = 30;
/// Elements whose text is not shown.
const UNSEEN: &[&str] = &["script", "style", "noscript", "template", "svg", "iframe", "object", "canvas"];
/// Elements that surround the content of a page.
const AROUND: &[&str] = &["nav", "footer", "aside", "dialog"];

/// Converts a page to its title and Markdown; `None` if it is nested too deeply.
pub(super) fn convert(html: &str, base: Option<&str>) -> Option<(String, String)> {
    let base = base.and_then(|base| Url::parse(base).ok());
    let root = tree::parse_page(html)?;
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
        tree::change(&node, name, |text| absolute(base.as_ref(), text));
    }
    let body = find("body").unwrap_or_else(|| root.clone());
    let part = article(&body).unwrap_or(body);
    tree::remove(&part, |node| AROUND.contains(&tree::name(node)));
    let text = HtmlToMarkdown::new().tree_to_markdown(&part);
    Some((title, text.trim().to_owned()))
}

/// Returns the absolute URL of a link; `None` if the link leads to no page.
fn absolute(base: Option<&Url>, text: &str) -> Option<String> {
    let url = match base {
        Some(base) => base.join(text.trim()).ok()?,
        None => Url::parse(text.trim()).ok()?,
    };
    matches!(url.scheme(), "http" | "https").then(|| url.into())
}

/// Returns the longest part that the page marks as its content, if that part has enough of the text.
fn article(body: &Rc<Node>) -> Option<Rc<Node>> {
    let length = |node: &Rc<Node>| tree::text(node).split_whitespace().map(str::len).sum::<usize>();
    let marked = tree::walk(body).into_iter().filter(|node| {
        let role = tree::attribute(node, "role");
        matches!(tree::name(node), "article" | "main") || role.is_some_and(|role| role == "main")
    });
    // The text of nested parts is measured once per part.
    let longest = marked.take(MAX_MARKED).max_by_key(length)?;
    (length(&longest) * 100 >= length(body) * ARTICLE_PERCENT).then_some(longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(html: &str) -> (String, String) {
        convert(html, Some("https://example.com/docs/page")).unwrap()
    }

    #[test]
    fn a_page_is_markdown_with_whole_links() {
        let html = "<html><head><title> A\n title </title><script>alert(1)</script></head><body>\
            <h1>Head</h1><p>See <a href='../x?y=1'>there</a> and <a href='javascript:alert(1)'>not</a>.</p>\
            <ul><li>one</li><li><b>two</b></li></ul><pre><code>let a = 1;</code></pre>\
            <table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>\
            <p hidden>unseen</p></body></html>";
        let (title, text) = page(html);
        assert_eq!(title, "A title");
        for part in ["# Head", "[there](https://example.com/x?y=1)", "**two**", "let a = 1;", "| a | b |"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        for part in ["alert", "unseen", "javascript"] {
            assert!(!text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn of_an_article_its_surroundings_are_left_out() {
        let paragraph =
            "This sentence of an article is long, with commas, and with several clauses, for a test. "
                .repeat(6);
        let body = format!("<p>{paragraph}</p>").repeat(6);
        let html = format!(
            "<html><head><title>News</title></head><body><nav class='menu'><a href='/a'>Menu</a></nav>\
             <article><h2>Story</h2>{body}</article><footer>Imprint</footer></body></html>"
        );
        let (_, text) = page(&html);
        assert!(text.contains("sentence of an article"), "{text}");
        assert!(!text.contains("Menu") && !text.contains("Imprint"), "{text}");
    }

    #[test]
    fn a_page_is_the_same_however_it_is_cut_into_pieces() {
        let row =
            "<tr><td title='a&amp;b'>caf\u{e9} &eacute;<!-- no --><p>x<script>if (a</b>c) '</p>'</script>";
        let html = format!("<!DOCTYPE html><title>T</title><table>{}</table>end", row.repeat(500));
        let root = tree::parse_page(&html).unwrap();
        let whole = HtmlToMarkdown::new().html_to_tree(&html).unwrap();
        assert_eq!(tree::text(&root), tree::text(&whole));
        let names =
            |root| tree::walk(root).iter().map(|node| tree::name(node).to_owned()).collect::<Vec<_>>();
        assert_eq!(names(&root), names(&whole));
    }

    #[test]
    fn a_page_that_is_nested_too_deeply_is_refused_early() {
        assert_eq!(convert(&"<div>".repeat(100_000), None), None);
        assert_eq!(convert(&"<svg><foreignObject><div/>".repeat(2_000), None), None);
    }
}
