//! Colours of a terminal.

use std::borrow::Cow;

use windlass_server::policy::Highlight;

/// Whether text is coloured. Colour never says what the words do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paint {
    /// With escape sequences.
    Colored,
    /// As it is.
    Plain,
}

impl Paint {
    /// A text in the style of these codes.
    pub fn with<'t>(self, code: &str, text: &'t str) -> Cow<'t, str> {
        match self {
            Self::Colored => Cow::Owned(format!("\x1b[{code}m{text}\x1b[0m")),
            Self::Plain => Cow::Borrowed(text),
        }
    }
    /// Less prominent.
    pub fn dim(self, text: &str) -> Cow<'_, str> {
        self.with("2", text)
    }
    /// More prominent.
    pub fn bold(self, text: &str) -> Cow<'_, str> {
        self.with("1", text)
    }
    /// Something failed.
    pub fn red(self, text: &str) -> Cow<'_, str> {
        self.with("1;31", text)
    }
    /// Something went well.
    pub fn green(self, text: &str) -> Cow<'_, str> {
        self.with("32", text)
    }
    /// Worth a look.
    pub fn yellow(self, text: &str) -> Cow<'_, str> {
        self.with("1;33", text)
    }
    /// What to do.
    pub fn cyan(self, text: &str) -> Cow<'_, str> {
        self.with("36", text)
    }
    /// A highlighted part of a problem of a policy file.
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
