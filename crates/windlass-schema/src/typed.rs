//! Results that say what they are, so that whoever shows them knows how: text, a page, code in a language, a picture.
//!
//! A result stays a text for models and the journal: the JSON of a [`Typed`]. Nothing here shows anything.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::function::IntoToolOutcome;
use windlass_engine::port::tool::ToolOutcome;

/// A result with typed content. (ZE-H15)
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Typed {
    /// Whether the call did what it was to do.
    pub success: bool,
    /// What became of it, in a sentence.
    pub message: String,
    /// What there is to show.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<TypedContent>,
    /// The file that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_path: Option<String>,
}

/// What there is to show, and what it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TypedContent {
    /// What it is.
    #[serde(rename = "type")]
    pub kind: ContentKind,
    /// It: a text, or JSON where that is its kind. A picture is a `data:` address.
    pub data: Value,
    /// The language of code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub language: Option<String>,
    /// What it is called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Whatever else the tool says of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Value>,
}

/// What content is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ContentKind {
    /// Plain text.
    Text,
    /// A page, which is only ever shown in a frame that can do nothing.
    Html,
    /// Markdown.
    Markdown,
    /// Code in a language.
    Code,
    /// A value.
    Json,
    /// A picture.
    Image,
    /// What went wrong.
    Error,
}

impl ContentKind {
    /// Its word.
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
    /// A result that shows something.
    pub fn shown(message: impl Into<String>, kind: ContentKind, data: impl Into<Value>) -> Self {
        let content = TypedContent { kind, data: data.into(), language: None, title: None, meta: None };
        Self { success: true, message: message.into(), content: Some(content), file_path: None }
    }

    /// Reads a result's text; `None` where it says nothing of what it is.
    pub fn read(text: &str) -> Option<Self> {
        text.trim_start().starts_with('{').then(|| serde_json::from_str(text).ok()).flatten()
    }
}

impl IntoToolOutcome for Typed {
    fn into_tool_outcome(self) -> ToolOutcome {
        match serde_json::to_string(&self) {
            Ok(text) if self.success => ToolOutcome::text(text),
            Ok(text) => ToolOutcome::error(text),
            Err(problem) => ToolOutcome::error(format!("the answer is not JSON: {problem}")),
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
        // What only looks like one is a text like any other.
        for text in ["{}", "plain", r#"{"success":true}"#, r#"{"success":true,"message":"m","more":1}"#] {
            assert_eq!(Typed::read(text), None, "{text}");
        }
    }
}
