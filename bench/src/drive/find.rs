//! Measures searches in a catalogue of thousands of tools, in a separate process: the cost of a model's `tool_search`.
//!
//! Calls no model. Each search is a trial call, including the gate's checks.

use std::sync::Arc;

use anyhow::{Result, bail};
use async_trait::async_trait;
use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use windlass::machine::{ADMIN, Annotations, Party, ToolSpec};
use windlass::port::tool::{CallContext, Tool, ToolOutcome, ToolSource, ToolTraits};
use windlass::{Consent, Trial, Tried};

use super::quantile;
use crate::machine;

/// The size of the catalogue and the number of searches.
#[derive(Debug, Args)]
pub struct Find {
    /// Tools in the catalogue
    #[arg(long, default_value_t = 5_000)]
    pub tools: usize,
    /// Searches
    #[arg(long, default_value_t = 400)]
    pub searches: usize,
}

/// The measured times.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Found {
    /// Time until the engine had indexed all tools, in milliseconds.
    pub index_ms: f64,
    /// Median duration of a search in milliseconds.
    pub search_ms: f64,
    /// 99th percentile of the duration of a search, in milliseconds.
    pub search_p99_ms: f64,
}

const VERBS: [&str; 10] =
    ["list", "get", "delete", "create", "restart", "scale", "describe", "export", "archive", "merge"];
const THINGS: [&str; 10] =
    ["pod", "invoice", "ticket", "branch", "bucket", "dashboard", "alert", "user", "report", "secret"];

/// A tool of a server, which is never called.
struct Far(ToolSpec, String);

#[async_trait]
impl Tool for Far {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }
    fn traits(&self) -> ToolTraits<'_> {
        ToolTraits { server: Some(&self.1), ..ToolTraits::default() }
    }
    async fn call(&self, _: CallContext, _: Value) -> ToolOutcome {
        ToolOutcome::error("never called")
    }
}

struct Catalogue(Arc<[Arc<dyn Tool>]>);

impl ToolSource for Catalogue {
    fn tools(&self) -> Arc<[Arc<dyn Tool>]> {
        self.0.clone()
    }
    fn version(&self) -> u64 {
        1
    }
}

fn tool(number: usize) -> Arc<dyn Tool> {
    let (verb, thing, service) = (VERBS[number % 10], THINGS[number / 10 % 10], number / 100);
    let spec = ToolSpec {
        name: format!("s{service}_{verb}_{thing}").as_str().into(),
        description: format!("Does {verb} for each {thing} of service {service}, and tells what came of it."),
        input_schema: json!({"type": "object", "properties": {"id": {"type": "string"}}}),
        annotations: Annotations::default(),
        withheld: Vec::new(),
    };
    Arc::new(Far(spec, format!("server{service}")))
}

impl Find {
    /// Measures the searches.
    pub(super) async fn measure(&self) -> Result<Found> {
        let tools: Arc<[Arc<dyn Tool>]> = (0..self.tools).map(tool).collect();
        let start_ns = machine::monotonic_ns();
        let engine = windlass::builder().tool_source(Arc::new(Catalogue(tools))).build().await?;
        let index_ms = (machine::monotonic_ns() - start_ns) as f64 / 1e6;
        let mut times = Vec::with_capacity(self.searches);
        for number in 0..self.searches {
            let (verb, thing) = (VERBS[number % 10], THINGS[number / 10 % 10]);
            let query = format!("{verb} the {thing}s of service {}", number % 50);
            let by = Party {
                principal: "bench".into(),
                workspace: "default".into(),
                roles: vec![ADMIN.to_owned()],
            };
            let trial = Trial {
                tool: "tool_search".into(),
                arguments: json!({ "query": query, "include_write_tools": true }),
                by,
                folder: None,
                consent: Consent::NotYet,
                timeout_ms: 10_000,
                at_most_ms: None,
                stop: Default::default(),
                counts_as_approver: true,
            };
            let start_ns = machine::monotonic_ns();
            let tried = engine.tools().try_tool(trial).await?;
            times.push((machine::monotonic_ns() - start_ns) as f64 / 1e6);
            match tried {
                Tried::Ran(result) if !result.error => {}
                other => bail!("a search did not run: {other:?}"), // tidy: only a search that ran is measured
            }
        }
        let mut of = |share| quantile(&mut times, share).unwrap_or_default();
        Ok(Found { index_ms, search_ms: of(0.5), search_p99_ms: of(0.99) })
    }
}
