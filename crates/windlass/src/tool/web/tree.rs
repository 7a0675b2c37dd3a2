//! The tree of a page: walks that recurse nowhere, so that no page is too deep for them.
//!
//! How a page is parsed, `parse.rs` says.

use std::rc::Rc;

use htmd::Node;
use markup5ever_rcdom::NodeData;

pub(super) use super::parse::parse;

/// The name of an element; empty for what is none.
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

/// An attribute of an element.
pub(super) fn attribute(node: &Node, wanted: &str) -> Option<String> {
    let NodeData::Element { attrs, .. } = &node.data else { return None };
    let attrs = attrs.borrow();
    attrs.iter().find(|attr| &*attr.name.local == wanted).map(|attr| attr.value.to_string())
}

/// Changes the value of an attribute where it has one; `None` takes it away.
pub(super) fn change(node: &Node, wanted: &str, change: impl FnOnce(&str) -> Option<String>) {
    let NodeData::Element { attrs, .. } = &node.data else { return };
    let mut attrs = attrs.borrow_mut();
    let Some(at) = attrs.iter().position(|attr| &*attr.name.local == wanted) else { return };
    match change(&attrs[at].value) {
        Some(value) => attrs[at].value = value.into(),
        None => drop(attrs.remove(at)),
    }
}

/// Whether an element is of a class.
pub(super) fn is_of(node: &Node, class: &str) -> bool {
    attribute(node, "class")
        .is_some_and(|classes| classes.split_ascii_whitespace().any(|known| known == class))
}

/// A node and all below it, in the order of the page.
pub(super) fn walk(root: &Rc<Node>) -> Vec<Rc<Node>> {
    let (mut found, mut open) = (Vec::new(), vec![root.clone()]);
    while let Some(node) = open.pop() {
        open.extend(node.children.borrow().iter().rev().cloned());
        found.push(node);
    }
    found
}

/// How deeply a tree is nested.
pub(super) fn depth(root: &Rc<Node>) -> usize {
    let (mut deepest, mut open) = (0, vec![(root.clone(), 0)]);
    while let Some((node, depth)) = open.pop() {
        deepest = deepest.max(depth);
        open.extend(node.children.borrow().iter().map(|child| (child.clone(), depth + 1)));
    }
    deepest
}

/// All text of a node, blanks as they are.
pub(super) fn text(root: &Rc<Node>) -> String {
    let mut all = String::new();
    for node in walk(root) {
        if let NodeData::Text { contents } = &node.data {
            all.push_str(&contents.borrow());
        }
    }
    all
}

/// Takes away what is below a node and fits.
pub(super) fn remove(root: &Rc<Node>, fits: impl Fn(&Node) -> bool) {
    for node in walk(root) {
        node.children.borrow_mut().retain(|child| !fits(child));
    }
}
