//! Tools with hidden arguments: models do not see them in the schema, and the engine fills them in at dispatch.
//!
//! The host program provides the values. The engine passes the values to the tool only, and masks them in its output.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use serde_json::Value;
use windlass_machine::{Glob, ToolSpec};
use windlass_outbound::secret::{Mask, Secret};

use crate::port::background::Background;
use crate::port::tool::{
    Ask, CallContext, Conduct, OutputPart, ProgressSender, Tool, ToolOutcome, ToolOutput, ToolSource,
    ToolTraits,
};
use crate::tool::crashing_masked;

/// Source of the values of hidden arguments.
#[async_trait]
pub trait HiddenArguments: Send + Sync {
    /// Whether tools that need the values are offered in a workspace. This method is called often and must not block.
    fn is_offered(&self, workspace: &str) -> bool;

    /// Returns the values for a call in a workspace, by argument name. The error is for the model.
    async fn arguments(&self, workspace: &str) -> Result<BTreeMap<String, Secret>, String>;
}

/// A rule that hides arguments of a server's tools.
#[derive(Clone)]
pub struct Hidden {
    /// Name of the server.
    pub server: String,
    /// Names of the server's tools, as the server or a model knows them; empty means all tools.
    pub tools: Vec<Glob>,
    /// Names of the arguments to hide, in tools that have such arguments.
    pub arguments: Vec<String>,
    /// Source of the values.
    pub from: Arc<dyn HiddenArguments>,
}

impl Hidden {
    fn is_of(&self, tool: &dyn Tool) -> bool {
        // The displayed name may have a prefix, because another server's tool has the same name.
        let traits = tool.traits();
        let names = [Some(tool.spec().name.as_str()), traits.remote_name];
        let is_named = |glob: &Glob| names.into_iter().flatten().any(|name| glob.matches(name));
        traits.server == Some(&self.server) && (self.tools.is_empty() || self.tools.iter().any(is_named))
    }
}

/// A tool source that applies hiding rules to another source.
pub struct HiddenSource {
    inner: Arc<dyn ToolSource>,
    rules: Vec<Hidden>,
    /// The wrapped tools of one source version, cached so that an unchanged tool keeps its identity.
    made: Mutex<Option<Made>>,
}

/// Wrapped tools with the source version that they were made from.
type Made = (u64, Arc<[Arc<dyn Tool>]>);

impl HiddenSource {
    /// Wraps a source. For each tool, the first matching rule applies.
    pub fn new(inner: Arc<dyn ToolSource>, rules: Vec<Hidden>) -> Self {
        Self { inner, rules, made: Mutex::default() }
    }

    fn wrapped(&self, tool: &Arc<dyn Tool>) -> Arc<dyn Tool> {
        match self.rules.iter().find(|rule| rule.is_of(&**tool)) {
            Some(rule) => Arc::new(HiddenTool::new(tool.clone(), rule)),
            None => tool.clone(),
        }
    }
}

impl ToolSource for HiddenSource {
    fn tools(&self) -> Arc<[Arc<dyn Tool>]> {
        let version = self.inner.version();
        // A poisoned lock still contains complete tools.
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        match &*made {
            Some((known, tools)) if *known == version => tools.clone(),
            Some(_) | None => {
                let tools: Arc<[_]> = self.inner.tools().iter().map(|tool| self.wrapped(tool)).collect();
                *made = Some((version, tools.clone()));
                tools
            }
        }
    }

    fn version(&self) -> u64 {
        self.inner.version()
    }
}

/// A tool without its hidden arguments.
struct HiddenTool {
    inner: Arc<dyn Tool>,
    spec: ToolSpec,
    names: Vec<String>,
    required: Vec<String>,
    from: Arc<dyn HiddenArguments>,
}

impl HiddenTool {
    fn new(inner: Arc<dyn Tool>, rule: &Hidden) -> Self {
        let mut spec = inner.spec().clone();
        let known = spec.input_schema.get("required").and_then(Value::as_array).into_iter().flatten();
        let required = known.filter_map(Value::as_str).map(str::to_owned).collect();
        if let Some(properties) = spec.input_schema.get_mut("properties").and_then(Value::as_object_mut) {
            properties.retain(|name, _| !rule.arguments.contains(name));
        }
        if let Some(names) = spec.input_schema.get_mut("required").and_then(Value::as_array_mut) {
            names.retain(|name| name.as_str().is_none_or(|name| !rule.arguments.iter().any(|it| it == name)));
        }
        Self { inner, spec, names: rule.arguments.clone(), required, from: rule.from.clone() }
    }

    /// Returns the arguments to send, and the mask that removes the hidden values from the output.
    async fn filled(&self, workspace: &str, mut arguments: Value) -> Result<(Value, Mask), String> {
        let values = self.from.arguments(workspace).await?;
        let mask = Mask::new(values.values());
        let properties = self.inner.spec().input_schema.get("properties");
        let takes = |name: &str| properties.and_then(|all| all.get(name));
        if let Some(members) = arguments.as_object_mut() {
            // Removes values that the model invented for hidden arguments.
            members.retain(|name, _| !self.names.contains(name));
            for (name, value) in values.iter().filter(|(name, _)| self.names.contains(name)) {
                if let Some(schema) = takes(name) {
                    members.insert(name.clone(), fitting(schema, value.expose()));
                }
            }
            let missing: Vec<_> =
                self.required.iter().filter(|name| !members.contains_key(*name)).cloned().collect();
            if !missing.is_empty() {
                return Err(format!("Missing required parameters: {}", missing.join(", ")));
            }
        }
        Ok((arguments, mask))
    }
}

#[async_trait]
impl Tool for HiddenTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn traits(&self) -> ToolTraits<'_> {
        // Hidden arguments may come from outside, so the call is not a local read.
        ToolTraits { reads_locally: false, ..self.inner.traits() }
    }

    fn conduct(&self, arguments: &Value) -> Conduct {
        self.inner.conduct(arguments)
    }

    fn server_for(&self, arguments: &Value) -> Option<String> {
        self.inner.server_for(arguments)
    }

    fn is_offered(&self, workspace: &str) -> bool {
        self.from.is_offered(workspace) && self.inner.is_offered(workspace)
    }

    fn unavailable(&self) -> Option<String> {
        self.inner.unavailable()
    }

    fn background(&self) -> Option<Arc<dyn Background>> {
        self.inner.background()
    }

    fn asks(&self, arguments: &Value) -> Option<Ask> {
        self.inner.asks(arguments)
    }

    fn outlives(&self, arguments: &Value) -> bool {
        self.inner.outlives(arguments)
    }

    async fn preview(&self, context: CallContext, arguments: Value) -> Result<String, String> {
        let (arguments, mask) = self.filled(&context.workspace, arguments).await?;
        let told = self.inner.preview(masked_progress(context, &mask), arguments);
        let told = crashing_masked(told, || mask.clone()).await;
        told.map(|text| mask.text(&text)).map_err(|text| mask.text(&text))
    }

    async fn call(&self, context: CallContext, arguments: Value) -> ToolOutcome {
        match self.filled(&context.workspace, arguments).await {
            Ok((arguments, mask)) => {
                let called = self.inner.call(masked_progress(context, &mask), arguments);
                let output = crashing_masked(called, || mask.clone()).await;
                masked(output, &mask)
            }
            Err(why) => ToolOutcome::error(why),
        }
    }

    async fn let_go(&self, state: &str) {
        self.inner.let_go(state).await;
    }
}

/// Converts a value to the type that the argument's schema requires,
/// because a stored text may represent a number or a boolean.
fn fitting(schema: &Value, text: &str) -> Value {
    let is_for = |name: &str| match schema.get("type") {
        Some(Value::Array(names)) => names.iter().any(|it| it == name),
        Some(one) => one == name,
        None => false,
    };
    let read = serde_json::from_str(text).ok().filter(|value| match value {
        Value::Bool(_) => is_for("boolean"),
        Value::Number(number) => is_for("number") || (is_for("integer") && !number.is_f64()),
        Value::Null | Value::String(_) | Value::Array(_) | Value::Object(_) => false,
    });
    read.filter(|_| !is_for("string")).unwrap_or_else(|| Value::String(text.to_owned()))
}

/// Returns a context that masks progress texts.
fn masked_progress(context: CallContext, mask: &Mask) -> CallContext {
    let (heard, mask) = (context.progress.clone(), mask.clone());
    let progress = ProgressSender::new(move |text| heard.report(mask.text(&text)));
    CallContext { progress, ..context }
}

/// Removes the hidden values from an outcome.
fn masked(outcome: ToolOutcome, mask: &Mask) -> ToolOutcome {
    // The tool's state would be recorded. Masking would change it, so such an outcome becomes an error.
    let wants_back = match &outcome {
        ToolOutcome::Done(_) | ToolOutcome::Unknown { .. } => None,
        ToolOutcome::Ask(ask) => serde_json::to_string(&(&ask.kind, &ask.terms, &ask.state)).ok(),
        ToolOutcome::Defer(deferral) => serde_json::to_string(&deferral.state).ok(),
    };
    if wants_back.is_some_and(|text| mask.text(&text) != text) {
        return ToolOutcome::error("Tool error: the call wants to keep a value that may not be recorded");
    }
    match outcome {
        ToolOutcome::Done(output) => masked_output(output, mask).into(),
        ToolOutcome::Unknown { reason } => ToolOutcome::unknown(mask.text(&reason)),
        ToolOutcome::Ask(_) | ToolOutcome::Defer(_) => outcome,
    }
}

/// Removes the hidden values from an output.
fn masked_output(mut output: ToolOutput, mask: &Mask) -> ToolOutput {
    for part in &mut output.parts {
        match part {
            OutputPart::Text(text) => *text = mask.text(text),
            OutputPart::Image { bytes, .. } => *bytes = mask.bytes(bytes).into(),
            OutputPart::File { name, bytes, .. } => {
                (*name, *bytes) = (mask.text(name), mask.bytes(bytes).into())
            }
        }
    }
    output.keep = output.keep.map(|text| mask.text(&text));
    output
}
