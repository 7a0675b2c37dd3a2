//! References to secrets: where a value is kept, never the value. Resolved where a request is about to leave.

use serde::{Deserialize, Deserializer};
use windlass::models::Secret;

use crate::trouble::Trouble;

/// Where a secret is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reference {
    /// `env:NAME`.
    Variable(String),
    /// `file:PATH`.
    File(String),
}

impl Reference {
    /// Reads a reference; `None` where the text is none.
    pub fn parse(text: &str) -> Option<Self> {
        let named = |rest: &str| Some(rest.trim().to_owned()).filter(|name| !name.is_empty());
        if let Some(name) = text.strip_prefix("env:") {
            return named(name).map(Self::Variable);
        }
        named(text.strip_prefix("file:")?).map(Self::File)
    }

    /// Reads the secret; `key` names the setting in an error.
    pub fn resolve(&self, key: &str) -> Result<Secret, Trouble> {
        match self {
            Self::Variable(name) => match super::environment(name) {
                Some(value) => Ok(Secret::new(value.trim())),
                None => {
                    Err(Trouble::usage(format!("`{key}` refers to the variable {name}, which is not set"))
                        .hint(format!("set {name}, or change `{key}`")))
                }
            },
            Self::File(path) => match std::fs::read_to_string(path) {
                Ok(value) if !value.trim().is_empty() => Ok(Secret::new(value.trim())),
                Ok(_) => Err(Trouble::usage(format!("`{key}` refers to the file `{path}`, which is empty"))),
                Err(error) => Err(Trouble::usage(format!(
                    "`{key}` refers to the file `{path}`, which cannot be read: {error}"
                ))),
            },
        }
    }
}

impl std::fmt::Display for Reference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Variable(name) => write!(f, "env:{name}"),
            Self::File(path) => write!(f, "file:{path}"),
        }
    }
}

impl<'de> Deserialize<'de> for Reference {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        // The text may be the secret itself: it is not repeated.
        Self::parse(&text).ok_or_else(|| {
            serde::de::Error::custom(
                "a secret must not stand in a file; write `env:NAME` or `file:PATH`, which say where it is",
            )
        })
    }
}

/// A header's value: a reference, or a text that is no secret.
#[derive(Clone, PartialEq, Eq)]
pub enum HeaderValue {
    /// Kept elsewhere.
    Reference(Reference),
    /// As it stands.
    Literal(String),
}

impl HeaderValue {
    /// Whether the value stands in the file.
    pub fn is_literal(&self) -> bool {
        matches!(self, Self::Literal(_))
    }

    /// The value; `key` names the setting in an error.
    pub fn resolve(&self, key: &str) -> Result<Secret, Trouble> {
        match self {
            Self::Reference(reference) => reference.resolve(key),
            Self::Literal(text) => Ok(Secret::new(text.as_str())),
        }
    }
}

impl std::fmt::Debug for HeaderValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Reference(reference) => reference.fmt(f),
            Self::Literal(_) => f.write_str("(a literal value)"),
        }
    }
}

impl<'de> Deserialize<'de> for HeaderValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Ok(Reference::parse(&text).map_or(Self::Literal(text), Self::Reference))
    }
}
