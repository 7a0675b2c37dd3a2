//! Test cases of `windlass policy test`: each has a call and the expected verdict.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::{Map, Value};
use windlass::clock::SystemClock;
use windlass::machine::{
    AllowedTool, Annotations, AutoRun, Judgement, Policy, Principal, Rule, Subject, Surface, ToolName, Trust,
    Verdict,
};
use windlass::port::clock::Clock;
use windlass::reader::Reader;
use windlass::tool::builtin::file_tools;

use super::problem::Problem;
use super::time::Moment;

/// A file of test cases.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaseFile {
    /// Policy files to test, relative to this file.
    pub policy: Option<Vec<PathBuf>>,
    #[serde(default, rename = "case")]
    pub cases: Vec<Case>,
}

/// `[[case]]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    name: Option<String>,
    tool: ToolName,
    server: Option<String>,
    #[serde(default)]
    arguments: Map<String, Value>,
    user: Option<Principal>,
    #[serde(default)]
    roles: Vec<String>,
    agent: Option<String>,
    #[serde(default)]
    surface: Surface,
    workspace: Option<String>,
    #[serde(default)]
    auto_run: AutoRun,
    #[serde(default)]
    allowlist: BTreeSet<ToolName>,
    annotations: Option<AnnotationsFile>,
    trusted: Option<bool>,
    at: Option<Moment>,
    expect: Verdict,
    by: Option<String>,
}

/// A tool's annotations.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct AnnotationsFile {
    read_only: bool,
    destructive: bool,
    idempotent: bool,
    open_world: bool,
}

impl CaseFile {
    pub fn parse(text: &str) -> Result<Self, Problem> {
        toml::from_str(text).map_err(|error| Problem::of_toml(text, &error))
    }
}

impl Case {
    /// Returns the label of the case; `index` is its position in the file.
    pub fn label(&self, index: usize) -> String {
        self.name.clone().unwrap_or_else(|| format!("case #{} (`{}`)", index + 1, self.tool))
    }

    /// Evaluates the call under the given rules.
    pub fn judge(&self, rules: &[Rule]) -> Judgement {
        let policy = Policy {
            rules: rules.to_vec(),
            auto_run: self.auto_run,
            allowlist: self.allowlist.iter().map(|tool| self.allowed(tool)).collect(),
            grants: Vec::new(),
        };
        let (nobody, arguments) = (Principal::from("local"), Value::Object(self.arguments.clone()));
        policy.judge(&Subject {
            tool: &self.tool,
            server: self.server.as_deref(),
            schema: None,
            annotations: self.annotations(),
            trust: if self.trusted.unwrap_or(self.server.is_none()) {
                Trust::Trusted
            } else {
                Trust::Untrusted
            },
            arguments: Some(&arguments),
            paths: &[],
            principal: self.user.as_ref().unwrap_or(&nobody),
            roles: &self.roles,
            agent: self.agent.as_deref().unwrap_or("default"),
            surface: self.surface,
            workspace: self.workspace.as_deref().unwrap_or("default"),
            now: self.at.map_or_else(|| SystemClock::new().now(), |moment| moment.0),
        })
    }

    /// Builds an entry of the allow list. The tool that the case calls belongs to the case's server.
    fn allowed(&self, tool: &ToolName) -> AllowedTool {
        let server = self.server.clone().filter(|_| *tool == self.tool);
        AllowedTool { tool: tool.clone(), server, schema: None }
    }

    /// Returns the difference between a verdict and the expected verdict, or `None` if they are equal.
    pub fn complaint(&self, judgement: &Judgement) -> Option<String> {
        let Judgement { verdict, by, .. } = judgement;
        let said = format!("{} by `{by}`", word(*verdict));
        if *verdict != self.expect {
            return Some(format!("{said}; expected: {}", word(self.expect)));
        }
        let wanted = self.by.as_ref().filter(|wanted| *wanted != by)?;
        Some(format!("{said}; expected: by `{wanted}`"))
    }

    /// Returns the annotations in the case or, without any, those of the built-in tool with that name.
    fn annotations(&self) -> Annotations {
        if let Some(file) = self.annotations {
            return Annotations {
                read_only_hint: file.read_only,
                destructive_hint: file.destructive,
                idempotent_hint: file.idempotent,
                open_world_hint: file.open_world,
            };
        }
        let built_in = file_tools(&Reader::none())
            .into_iter()
            .find(|tool| self.server.is_none() && tool.spec().name == self.tool);
        built_in.map(|tool| tool.spec().annotations).unwrap_or_default()
    }
}

/// Returns a verdict as policy files write it.
pub fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Allow => "allow",
        Verdict::Ask => "ask",
        Verdict::Deny => "deny",
    }
}
