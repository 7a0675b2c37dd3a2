//! Parses HTML into a tree, and walks it without recursion.
//!
//! This module does not interpret elements (`html.rs` does).

use std::rc::Rc;

use htmd::Node;
use html5ever::tendril::{StrTendril, TendrilSink};
use html5ever::{ParseOpts, parse_document};
use markup5ever_rcdom::{NodeData, RcDom};

/// Number of bytes passed to the parser between two checks of the depth.
const PIECE_BYTES: usize = 4096;
/// Maximum depth of a page. Browsers nest at most 512 elements. The parser's
/// time grows with the square of the depth.
const MAX_DEPTH: usize = 1024;

/// Parses a page. Returns `None` if the page is nested too deeply.
pub(crate) fn parse_page(html: &str) -> Option<Rc<Node>> {
    let mut parser = parse_document(RcDom::default(), ParseOpts::default());
    let mut rest = html;
    while !rest.is_empty() {
        let (piece, behind) = rest.split_at(rest.floor_char_boundary(PIECE_BYTES));
        parser.process(StrTendril::from_slice(piece));
        if end_depth(&parser.tokenizer.sink.sink.document) > MAX_DEPTH {
            return None;
        }
        rest = behind;
    }
    Some(parser.finish().document)
}

/// Returns the depth of the last node.
fn end_depth(root: &Rc<Node>) -> usize {
    let last = |node: &Rc<Node>| node.children.borrow().last().cloned();
    std::iter::successors(Some(root.clone()), last).count()
}

/// Returns the name of an element; empty for other nodes.
pub(super) fn name(node: &Node) -> &str {
    match &node.data {
        NodeData::Element { name, .. } => &name.local,
        NodeData::Document
        | NodeData::Doctype { .. }
        | NodeData::Text { .. }
        | NodeData::Comment { .. }
        | NodeData::ProcessingInstruction { .. } => "",
    }
}

/// Returns an attribute of an element.
pub(crate) fn attribute(node: &Node, wanted: &str) -> Option<String> {
    let NodeData::Element { attrs, .. } = &node.data else { return None };
    let attrs = attrs.borrow();
    attrs.iter().find(|attr| &*attr.name.local == wanted).map(|attr| attr.value.to_string())
}

/// Changes the value of an attribute if the element has it; `None` removes the attribute.
pub(super) fn change(node: &Node, wanted: &str, change: impl FnOnce(&str) -> Option<String>) {
    let NodeData::Element { attrs, .. } = &node.data else { return };
    let mut attrs = attrs.borrow_mut();
    let Some(at) = attrs.iter().position(|attr| &*attr.name.local == wanted) else { return };
    match change(&attrs[at].value) {
        Some(value) => attrs[at].value = value.into(),
        None => drop(attrs.remove(at)),
    }
}

/// Whether an element has a class.
pub(crate) fn has_class(node: &Node, class: &str) -> bool {
    attribute(node, "class")
        .is_some_and(|classes| classes.split_ascii_whitespace().any(|known| known == class))
}

/// Returns a node and all its descendants in document order.
pub(crate) fn walk(root: &Rc<Node>) -> Vec<Rc<Node>> {
    let (mut found, mut open) = (Vec::new(), vec![root.clone()]);
    while let Some(node) = open.pop() {
        open.extend(node.children.borrow().iter().rev().cloned());
        found.push(node);
    }
    found
}

/// Returns all text below a node, with its white space.
pub(crate) fn text(root: &Rc<Node>) -> String {
    let mut all = String::new();
    for node in walk(root) {
        if let NodeData::Text { contents } = &node.data {
            all.push_str(&contents.borrow());
        }
    }
    all
}

/// Removes the descendants that match.
pub(super) fn remove(root: &Rc<Node>, fits: impl Fn(&Node) -> bool) {
    for node in walk(root) {
        node.children.borrow_mut().retain(|child| !fits(child));
    }
}
