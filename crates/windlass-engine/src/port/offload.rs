//! Offloaded results: a function that summarizes a result for the model, and access to the original text.
//!
//! The driver decides from the run's options whether a result is offloaded. (LM-O)

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::Value;

/// A result to summarize.
#[derive(Clone, Copy, Debug)]
pub struct SummaryOf<'a> {
    /// Name of the tool that returned the result.
    pub tool: &'a str,
    /// Arguments of the call.
    pub arguments: &'a Value,
    /// The complete text of the result.
    pub text: &'a str,
    /// Id by which the model can request the complete text.
    pub reference: &'a str,
    /// Name of the tool that returns the complete text.
    pub fetcher: &'a str,
    /// Maximum number of characters of the text that a summary may show.
    pub max_preview_chars: usize,
}

/// Summarizes a result for the model. The summary must contain the reference. If the summary does not contain it, or
/// the function panics, the engine uses its own text. (LM-O6)
pub type Summarizer = dyn Fn(&SummaryOf<'_>) -> String + Send + Sync;

/// Reads the complete text behind a reference.
pub(crate) type Read = dyn Fn(String) -> BoxFuture<'static, Result<String, String>> + Send + Sync;

/// Access to the complete texts of the thread's offloaded results, for a tool that fetches them.
#[derive(Clone, Default)]
pub struct OffloadedResults(pub(crate) Option<Arc<Read>>);

impl OffloadedResults {
    /// Returns the complete text behind a reference. Fails for references of other threads.
    pub async fn text(&self, reference: &str) -> Result<String, String> {
        match &self.0 {
            Some(read) => read(reference.to_owned()).await,
            None => Err(format!("there is no result `{reference}` in this conversation")),
        }
    }

    /// Creates access to the given results, for tests of a tool.
    pub fn of(known: Vec<(String, String)>) -> Self {
        Self(Some(Arc::new(move |reference| {
            let found = known.iter().find(|(known, _)| *known == reference).map(|(_, text)| text.clone());
            let missing = format!("there is no result `{reference}` in this conversation");
            Box::pin(std::future::ready(found.ok_or(missing)))
        })))
    }
}
