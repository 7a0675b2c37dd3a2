//! The parser of pages, which may be stopped: it is fed in small pieces, and what it makes of them is counted.
//!
//! A page of some bytes can make it build any number of elements: those that say how a text looks are opened again in
//! each paragraph. No look at the page beforehand tells that.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

use htmd::Node;
use html5ever::interface::{ElementFlags, NodeOrText, QuirksMode, TreeSink};
use html5ever::tendril::{StrTendril, TendrilSink};
use html5ever::{Attribute, ExpandedName, ParseOpts, QualName, parse_document};
use markup5ever_rcdom::RcDom;
use tokio_util::sync::CancellationToken;

/// What the parser is fed at once: at worst it opens some 700 elements in it, and ends as many.
const PIECE_BYTES: usize = 4096;
/// Elements that a page is made of; twice what one may write.
const MAX_ELEMENTS: usize = 200_000;
/// Elements inside each other, as the page's beginning has it; twice what browsers nest.
const MAX_DEPTH: usize = 1024;

/// Parses a page; `None` where it is too much, or nobody waits any more.
pub(super) fn parse(html: &str, stop: &CancellationToken) -> Option<Rc<Node>> {
    let mut parser = parse_document(Counted::default(), ParseOpts::default());
    let mut rest = html;
    while !rest.is_empty() {
        if stop.is_cancelled() {
            return None;
        }
        let (piece, behind) = rest.split_at(rest.floor_char_boundary(PIECE_BYTES));
        parser.process(StrTendril::from_slice(piece));
        let made = &parser.tokenizer.sink.sink;
        if made.elements.get() > MAX_ELEMENTS || made.depth() > MAX_DEPTH {
            return None;
        }
        rest = behind;
    }
    Some(parser.finish().document.clone())
}

/// A tree that knows how many elements it was given.
#[derive(Default)]
struct Counted {
    tree: RcDom,
    elements: Cell<usize>,
    last: RefCell<Option<Rc<Node>>>,
}

impl Counted {
    /// How deep the last element stands.
    fn depth(&self) -> usize {
        let up = |node: &Rc<Node>| {
            // The tree has no other way to look at it.
            let parent = node.parent.take();
            node.parent.set(parent.clone());
            parent.and_then(|parent| parent.upgrade())
        };
        std::iter::successors(self.last.borrow().clone(), up).take(MAX_DEPTH + 2).count()
    }
}

impl TreeSink for Counted {
    type Handle = Rc<Node>;
    type Output = RcDom;
    type ElemName<'a> = ExpandedName<'a>;

    fn create_element(&self, name: QualName, attrs: Vec<Attribute>, flags: ElementFlags) -> Rc<Node> {
        self.elements.set(self.elements.get() + 1);
        let node = self.tree.create_element(name, attrs, flags);
        *self.last.borrow_mut() = Some(node.clone());
        node
    }
    fn finish(self) -> RcDom {
        self.tree
    }
    /// Nobody reads them, and each page has thousands.
    fn parse_error(&self, _why: Cow<'static, str>) {}
    fn get_document(&self) -> Rc<Node> {
        // tidy: not our name
        self.tree.get_document()
    }
    fn elem_name<'a>(&'a self, target: &'a Rc<Node>) -> ExpandedName<'a> {
        self.tree.elem_name(target)
    }
    fn create_comment(&self, text: StrTendril) -> Rc<Node> {
        self.tree.create_comment(text)
    }
    fn create_pi(&self, target: StrTendril, data: StrTendril) -> Rc<Node> {
        self.tree.create_pi(target, data)
    }
    fn append(&self, parent: &Rc<Node>, child: NodeOrText<Rc<Node>>) {
        self.tree.append(parent, child);
    }
    fn append_based_on_parent_node(
        &self,
        element: &Rc<Node>,
        before: &Rc<Node>,
        child: NodeOrText<Rc<Node>>,
    ) {
        self.tree.append_based_on_parent_node(element, before, child);
    }
    fn append_doctype_to_document(&self, name: StrTendril, public: StrTendril, system: StrTendril) {
        self.tree.append_doctype_to_document(name, public, system);
    }
    fn get_template_contents(&self, target: &Rc<Node>) -> Rc<Node> {
        // tidy: not our name
        self.tree.get_template_contents(target)
    }
    fn same_node(&self, one: &Rc<Node>, other: &Rc<Node>) -> bool {
        self.tree.same_node(one, other)
    }
    fn set_quirks_mode(&self, mode: QuirksMode) {
        self.tree.set_quirks_mode(mode);
    }
    fn append_before_sibling(&self, sibling: &Rc<Node>, node: NodeOrText<Rc<Node>>) {
        self.tree.append_before_sibling(sibling, node);
    }
    fn add_attrs_if_missing(&self, target: &Rc<Node>, attrs: Vec<Attribute>) {
        self.tree.add_attrs_if_missing(target, attrs);
    }
    fn remove_from_parent(&self, target: &Rc<Node>) {
        self.tree.remove_from_parent(target);
    }
    fn reparent_children(&self, node: &Rc<Node>, parent: &Rc<Node>) {
        self.tree.reparent_children(node, parent);
    }
    fn is_mathml_annotation_xml_integration_point(&self, node: &Rc<Node>) -> bool {
        self.tree.is_mathml_annotation_xml_integration_point(node)
    }
    // What a `selectedcontent` shows is cloned, once more for each option: it is left empty.
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;
    use crate::tool::web::tree;

    #[test]
    fn a_page_that_makes_too_much_is_given_up() {
        let parsed = |html: &str| parse(html, &CancellationToken::new()).is_some();
        // Each paragraph opens again all that was not ended.
        let again = (0..800).fold(String::new(), |mut html, n| {
            let _ = write!(html, "<p><i a={n}></p>");
            html
        });
        assert!(!parsed(&again));
        assert!(!parsed(&"<optgroup>".repeat(100_000)));
        assert!(!parsed(&"<svg><foreignObject><div/>".repeat(2_000)));
        assert!(!parsed(&format!("<div>{}", "</p>".repeat(300_000))));
        assert!(parsed(&format!("<div>{}", "<p>a<b>b</b>".repeat(10_000))));
        assert!(parsed(""));
    }

    #[test]
    fn nobody_waits_for_a_page_that_was_cancelled() {
        let stop = CancellationToken::new();
        stop.cancel();
        assert!(parse("<p>a", &stop).is_none());
    }

    #[test]
    fn a_page_is_the_same_whatever_pieces_it_is_read_in() {
        let row =
            "<tr><td title='a&amp;b'>caf\u{e9} &eacute;<!-- no --><p>x<script>if (a</b>c) '</p>'</script>";
        let html = format!("<!DOCTYPE html><title>T</title><table>{}</table>end", row.repeat(500));
        let root = parse(&html, &CancellationToken::new()).unwrap();
        let whole = htmd::HtmlToMarkdown::new().html_to_tree(&html).unwrap();
        assert_eq!(tree::text(&root), tree::text(&whole));
        let names =
            |root| tree::walk(root).iter().map(|node| tree::name(node).to_owned()).collect::<Vec<_>>();
        assert_eq!(names(&root), names(&whole));
    }
}
