//! Results that the model sees a summary of: how one is summed up, and how the whole is read again.
//!
//! When a result is long enough for that, the driver decides by the run's options. (LM-O)

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::Value;

/// A result that is to be summed up.
#[derive(Clone, Copy, Debug)]
pub struct SummaryOf<'a> {
    /// The tool that answered.
    pub tool: &'a str,
    /// What it was called with.
    pub arguments: &'a Value,
    /// All of its text.
    pub text: &'a str,
    /// By what the whole is asked for.
    pub reference: &'a str,
    /// The tool by which it is asked for.
    pub fetcher: &'a str,
    /// Characters of the text that a summary shows at most.
    pub max_preview_chars: usize,
}

/// Sums a result up for the model. What it says has to name the reference; what does not, or what panics, is passed
/// over for the engine's own words. (LM-O6)
pub type Summarizer = dyn Fn(&SummaryOf<'_>) -> String + Send + Sync;

/// How a text is looked up.
pub(crate) type Read = dyn Fn(String) -> BoxFuture<'static, Result<String, String>> + Send + Sync;

/// The whole of results that the thread's model has seen summaries of, for a tool that fetches them.
#[derive(Clone, Default)]
pub struct OffloadedResults(pub(crate) Option<Arc<Read>>);

impl OffloadedResults {
    /// The whole text behind a reference. Only those of the call's own thread are known.
    pub async fn text(&self, reference: &str) -> Result<String, String> {
        match &self.0 {
            Some(read) => read(reference.to_owned()).await,
            None => Err(format!("there is no result `{reference}` in this conversation")),
        }
    }

    /// Results that are at hand, for a program that tests a tool.
    pub fn of(known: Vec<(String, String)>) -> Self {
        Self(Some(Arc::new(move |reference| {
            let found = known.iter().find(|(known, _)| *known == reference).map(|(_, text)| text.clone());
            let missing = format!("there is no result `{reference}` in this conversation");
            Box::pin(std::future::ready(found.ok_or(missing)))
        })))
    }
}
