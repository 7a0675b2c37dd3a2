//! Typed results, which tell a client how to display them: text, a page, code in a language, an image.
//!
//! For models and the journal, a result is a text: the JSON of a [`Typed`]. This module displays no result.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::function::IntoToolOutcome;
use windlass_engine::port::tool::ToolOutcome;

/// A result with typed content. (ZE-H15)
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Typed {
    /// Whether the call succeeded.
    pub success: bool,
    /// The outcome in one sentence.
    pub message: String,
    /// The content to display; `None` if the message suffices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<TypedContent>,
    /// The file that the result describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_path: Option<String>,
}

/// Content with its type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TypedContent {
    /// How to display the content.
    #[serde(rename = "type")]
    pub kind: ContentKind,
    /// The content: a text, or any JSON for [`ContentKind::Json`]. An image is a `data:` URL.
    pub data: Value,
    /// The programming language of code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub language: Option<String>,
    /// A title to display above the content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Additional data of the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Value>,
}

/// The type of content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ContentKind {
    /// Plain text.
    Text,
    /// An HTML page. Clients must display it only in a sandboxed frame.
    Html,
    /// Markdown.
    Markdown,
    /// Code in the language `language`.
    Code,
    /// Any JSON value.
    Json,
    /// An image.
    Image,
    /// An error message.
    Error,
}

impl ContentKind {
    /// Returns the name in JSON.
    pub fn word(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Html => "html",
            Self::Markdown => "markdown",
            Self::Code => "code",
            Self::Json => "json",
            Self::Image => "image",
            Self::Error => "error",
        }
    }
}

impl Typed {
    /// Creates a successful result with content.
    pub fn shown(message: impl Into<String>, kind: ContentKind, data: impl Into<Value>) -> Self {
        let content = TypedContent { kind, data: data.into(), language: None, title: None, meta: None };
        Self { success: true, message: message.into(), content: Some(content), file_path: None }
    }

    /// Parses a result's text. Returns `None` if the result is not typed.
    pub fn read(text: &str) -> Option<Self> {
        text.trim_start().starts_with('{').then(|| serde_json::from_str(text).ok()).flatten()
    }
}

impl IntoToolOutcome for Typed {
    fn into_tool_outcome(self) -> ToolOutcome {
        match serde_json::to_string(&self) {
            Ok(text) if self.success => ToolOutcome::text(text),
            Ok(text) => ToolOutcome::error(text),
            Err(problem) => ToolOutcome::error(format!("cannot serialize the result as JSON: {problem}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_engine::port::tool::OutputPart;

    // rows: ZE-H15
    #[test]
    fn a_typed_result_is_a_text_that_says_what_it_is() {
        let mut typed = Typed::shown("Wrote a page", ContentKind::Html, "<p>hi</p>");
        typed.file_path = Some("a.html".into());
        let ToolOutcome::Done(output) = typed.clone().into_tool_outcome() else { panic!("it is done") };
        let [OutputPart::Text(text)] = &*output.parts else { panic!("{output:?}") };
        assert_eq!(
            text,
            r#"{"success":true,"message":"Wrote a page","content":{"type":"html","data":"<p>hi</p>"},"file_path":"a.html"}"#
        );
        assert_eq!((Typed::read(text), output.error), (Some(typed.clone()), false));
        let failed = Typed { success: false, ..typed }.into_tool_outcome();
        assert!(matches!(failed, ToolOutcome::Done(output) if output.error));
        let all = r#"{"success":true,"message":"m","content":{"type":"code","data":"x","language":"rust","title":"t","meta":{"lines":1}}}"#;
        let content = Typed::read(all).unwrap().content.unwrap();
        assert_eq!((content.kind.word(), content.language.as_deref()), ("code", Some("rust")));
        // Texts that resemble typed results are not parsed as such.
        for text in ["{}", "plain", r#"{"success":true}"#, r#"{"success":true,"message":"m","more":1}"#] {
            assert_eq!(Typed::read(text), None, "{text}");
        }
    }
}
