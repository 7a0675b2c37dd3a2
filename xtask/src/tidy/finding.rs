//! A rule's finding at a line, and its output format.
//!
//! Rules create findings; the command counts them.

use std::fmt;

use super::source::SourceFile;

/// An error or warning at a line.
#[derive(Debug, PartialEq)]
pub struct Finding {
    pub path: String,
    pub line: usize,
    pub rule: &'static str,
    pub advice: String,
    pub severity: Severity,
}

/// Whether a finding fails the check.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Severity {
    Error,
    Warning,
}

impl Finding {
    pub fn error(file: &SourceFile, line: usize, rule: &'static str, advice: impl Into<String>) -> Self {
        Self { path: file.path.clone(), line, rule, advice: advice.into(), severity: Severity::Error }
    }

    pub fn warning(file: &SourceFile, line: usize, rule: &'static str, advice: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(file, line, rule, advice) }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prefix = if self.severity == Severity::Warning { "warning: " } else { "" };
        write!(f, "{prefix}{}:{}: {}: {}", self.path, self.line, self.rule, self.advice)
    }
}
