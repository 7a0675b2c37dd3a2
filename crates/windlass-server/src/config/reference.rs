//! References to secrets: the location of a value, never the value. Windlass resolves them when it is about to send a
//! request.

use serde::{Deserialize, Deserializer};
use windlass::models::Secret;

use crate::trouble::Trouble;

/// The location of a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reference {
    /// `env:NAME`.
    Variable(String),
    /// `file:PATH`.
    File(String),
}

impl Reference {
    /// Parses a reference. Returns `None` if the text is not a reference.
    pub fn parse(text: &str) -> Option<Self> {
        let named = |rest: &str| Some(rest.trim().to_owned()).filter(|name| !name.is_empty());
        if let Some(name) = text.strip_prefix("env:") {
            return named(name).map(Self::Variable);
        }
        named(text.strip_prefix("file:")?).map(Self::File)
    }

    /// Reads the secret. `key` names the setting in an error.
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
        // The text may be the secret itself, so the error does not contain the text.
        Self::parse(&text).ok_or_else(|| {
            serde::de::Error::custom(
                "a file must not contain a literal secret; write `env:NAME` or `file:PATH` to refer to it",
            )
        })
    }
}

/// A header's value: a reference to a secret, or a literal text.
#[derive(Clone, PartialEq, Eq)]
pub enum HeaderValue {
    Reference(Reference),
    Literal(String),
}

impl HeaderValue {
    /// Returns whether the file contains the value literally.
    pub fn is_literal(&self) -> bool {
        matches!(self, Self::Literal(_))
    }

    /// Returns the value. `key` names the setting in an error.
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
