//! Terminal colours.

use std::borrow::Cow;

use windlass_server::policy::Highlight;

/// Whether text is coloured. Colour is never the only carrier of meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paint {
    Colored,
    Plain,
}

impl Paint {
    /// Wraps a text in the escape sequence of an SGR code, if colours are on.
    pub fn with<'t>(self, code: &str, text: &'t str) -> Cow<'t, str> {
        match self {
            Self::Colored => Cow::Owned(format!("\x1b[{code}m{text}\x1b[0m")),
            Self::Plain => Cow::Borrowed(text),
        }
    }
    pub fn dim(self, text: &str) -> Cow<'_, str> {
        self.with("2", text)
    }
    pub fn bold(self, text: &str) -> Cow<'_, str> {
        self.with("1", text)
    }
    /// Applies the style of errors.
    pub fn red(self, text: &str) -> Cow<'_, str> {
        self.with("1;31", text)
    }
    /// Applies the style of success.
    pub fn green(self, text: &str) -> Cow<'_, str> {
        self.with("32", text)
    }
    /// Applies the style of warnings.
    pub fn yellow(self, text: &str) -> Cow<'_, str> {
        self.with("1;33", text)
    }
    /// Applies the style of hints.
    pub fn cyan(self, text: &str) -> Cow<'_, str> {
        self.with("36", text)
    }
    /// Colours a highlighted part of a policy file's diagnostic.
    pub fn highlight(self, part: Highlight, text: &str) -> String {
        let styled = match part {
            Highlight::Error => self.red(text),
            Highlight::Warning => self.yellow(text),
            Highlight::Hint => self.cyan(text),
            Highlight::Margin => self.dim(text),
            Highlight::Mark => self.bold(text),
        };
        styled.into_owned()
    }
}
