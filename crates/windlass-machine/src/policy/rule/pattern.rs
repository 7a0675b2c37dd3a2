//! Patterns of a rule: globs for names, and regular expressions for texts.
//!
//! Both kinds match in time linear in the text. Neither kind supports lookaround or backreferences.

use std::fmt;
use std::sync::{Arc, OnceLock};

use regex::{Regex, RegexBuilder};
use serde::{Deserialize, Serialize};

/// Maximum size of a compiled expression in bytes, so that a thousand rules fit into memory.
const COMPILED_MAX_BYTES: usize = 256 * 1024;

/// Maximum nesting of groups in an expression.
const NEST_MAX: u32 = 50;

/// A glob for a name: `*` matches any text, `?` any one character, and every other character itself. Case-sensitive.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Glob(Arc<str>);

impl Glob {
    /// Wraps a glob; every text is a valid glob.
    pub fn new(glob: impl Into<Arc<str>>) -> Self {
        Self(glob.into())
    }

    /// Returns the glob as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a name matches.
    pub fn matches(&self, name: &str) -> bool {
        reaches(&self.0, name, |own, other| own == '?' || own == other)
    }

    /// Whether this glob certainly matches every name that `other` matches. A `*` of this glob covers any part of
    /// `other`, and only `*` covers a `*` of `other`.
    pub(super) fn covers(&self, other: &Self) -> bool {
        reaches(&self.0, &other.0, |own, other| match other {
            '*' => false,
            '?' => own == '?',
            _ => own == '?' || own == other,
        })
    }
}

/// Matches a glob against a text. Backtracking to the last `*`
/// is sufficient: an earlier `*` offers no further matches.
fn reaches(glob: &str, text: &str, takes: impl Fn(char, char) -> bool) -> bool {
    let (mut glob, mut text) = (glob.chars(), text.chars());
    let mut last_star = None;
    loop {
        let at = text.clone();
        match (glob.next(), text.next()) {
            (Some('*'), _) => {
                text = at;
                last_star = Some((glob.clone(), text.clone()));
                continue;
            }
            (Some(own), Some(other)) if takes(own, other) => continue,
            (None, None) => return true,
            (Some(_) | None, _) => {}
        }
        let Some((after, mut from)) = last_star else { return false };
        if from.next().is_none() {
            return false;
        }
        (glob, text) = (after.clone(), from.clone());
        last_star = Some((after, from));
    }
}

impl fmt::Debug for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<&str> for Glob {
    fn from(glob: &str) -> Self {
        Self::new(glob)
    }
}

/// A regular expression, compiled at first use and shared by all copies.
#[derive(Clone)]
pub struct Pattern(Arc<Shared>);

struct Shared {
    text: Box<str>,
    compiled: OnceLock<Result<Regex, String>>,
}

impl Pattern {
    /// Wraps an expression without validation; [`Pattern::compile`] validates it.
    pub fn new(text: impl Into<Box<str>>) -> Self {
        Self(Arc::new(Shared { text: text.into(), compiled: OnceLock::new() }))
    }

    /// Returns the expression as text.
    pub fn as_str(&self) -> &str {
        &self.0.text
    }

    /// Returns the compiled expression, or an error if it is invalid or too large.
    pub fn compile(&self) -> Result<&Regex, &str> {
        let compiled = self.0.compiled.get_or_init(|| {
            let mut builder = RegexBuilder::new(&self.0.text);
            builder.size_limit(COMPILED_MAX_BYTES).dfa_size_limit(COMPILED_MAX_BYTES).nest_limit(NEST_MAX);
            builder.build().map_err(|error| match error {
                regex::Error::CompiledTooBig(limit) => {
                    format!("it needs more than {limit} bytes when compiled")
                }
                // The last line has the error; the lines above point at the position.
                error => {
                    let said = error.to_string();
                    let last = said.lines().last().unwrap_or_default();
                    last.trim_start_matches("error: ").to_owned()
                }
            })
        });
        compiled.as_ref().map_err(String::as_str)
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

impl Serialize for Pattern {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Pattern {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<str>::deserialize(deserializer).map(Self::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs() {
        let cases = [
            ("*", "", true),
            ("*", "Write", true),
            ("", "", true),
            ("", "a", false),
            ("Write", "Write", true),
            ("Write", "write", false),
            ("Write", "Writer", false),
            ("git_*", "git_", true),
            ("git_*", "git_push", true),
            ("git_*", "agit_push", false),
            ("*_push", "git_push", true),
            ("*_push", "git_push_all", false),
            ("a*b*c", "aXbYc", true),
            ("a*b*c", "abbc", true),
            ("a*b*c", "acb", false),
            ("a*ab", "aab", true),
            ("*ab*", "xaab", true),
            ("?", "", false),
            ("?", "ä", true),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("**", "x", true),
        ];
        for (glob, name, wanted) in cases {
            assert_eq!(Glob::new(glob).matches(name), wanted, "{glob} {name}");
        }
    }

    #[test]
    fn a_hostile_glob_takes_no_time() {
        let (glob, name) = ("*a".repeat(400), "a".repeat(20_000) + "b");
        assert!(!Glob::new(glob).matches(&name));
    }

    #[test]
    fn wider_globs() {
        let cases = [
            ("*", "git_*", true),
            ("*", "*", true),
            ("git_*", "git_push", true),
            ("git_*", "git_p*", true),
            ("git_*", "git_?", true),
            ("*_push", "*_p*_push", true),
            ("git_?", "git_?", true),
            ("git_?", "git_*", false),
            ("git_p*", "git_*", false),
            ("?", "*", false),
            ("a", "?", false),
            ("*x", "*", false),
        ];
        for (wide, narrow, wanted) in cases {
            assert_eq!(Glob::new(wide).covers(&Glob::new(narrow)), wanted, "{wide} {narrow}");
        }
    }

    #[test]
    fn expressions_have_a_size() {
        assert!(Pattern::new("^a+$").compile().unwrap().is_match("aaa"));
        let said = |text: &str| Pattern::new(text).compile().unwrap_err().to_owned();
        assert_eq!(said("a("), "unclosed group");
        assert_eq!(said(r"\w{1000}"), "it needs more than 262144 bytes when compiled");
        assert_eq!(said(r"(a)\1"), "backreferences are not supported");
        assert_eq!(said(&"(".repeat(60)), "unclosed group");
        assert!(said(&format!("{}a{}", "(".repeat(60), ")".repeat(60))).contains("nest"));
    }

    #[test]
    fn a_copy_shares_what_is_compiled() {
        let pattern = Pattern::new("a");
        let copy = pattern.clone();
        let first: *const Regex = pattern.compile().unwrap();
        assert!(std::ptr::eq(first, copy.compile().unwrap()));
        assert_eq!(pattern, Pattern::new("a"));
    }
}
