//! Tools with arguments that no model sees: they are taken out of the schema, and filled in when a call is dispatched.
//!
//! Where the values come from is the program's; here they go to the tool and nowhere else. What comes back is masked.

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

/// Where hidden arguments come from.
#[async_trait]
pub trait HiddenArguments: Send + Sync {
    /// Whether tools that need them are offered in a workspace. Read often, so it waits for nothing.
    fn is_offered(&self, workspace: &str) -> bool;

    /// The values for a call in a workspace, by the names of the arguments. The error is for the model.
    async fn arguments(&self, workspace: &str) -> Result<BTreeMap<String, Secret>, String>;
}

/// Which arguments of which tools are hidden.
#[derive(Clone)]
pub struct Hidden {
    /// The server whose tools.
    pub server: String,
    /// Names of its tools, as the server or as a model knows them; none: all of them.
    pub tools: Vec<Glob>,
    /// The arguments, where a tool has them.
    pub arguments: Vec<String>,
    /// Where their values come from.
    pub from: Arc<dyn HiddenArguments>,
}

impl Hidden {
    fn is_of(&self, tool: &dyn Tool) -> bool {
        // The name that it is shown by may have got a prefix, because another server's tool has the same.
        let traits = tool.traits();
        let names = [Some(tool.spec().name.as_str()), traits.remote_name];
        let is_named = |glob: &Glob| names.into_iter().flatten().any(|name| glob.matches(name));
        traits.server == Some(&self.server) && (self.tools.is_empty() || self.tools.iter().any(is_named))
    }
}

/// A source of tools of which some have hidden arguments.
pub struct HiddenSource {
    inner: Arc<dyn ToolSource>,
    rules: Vec<Hidden>,
    /// The tools of a version, so that the same tool stays the same.
    made: Mutex<Option<Made>>,
}

/// Tools, and the version of the source that they are of.
type Made = (u64, Arc<[Arc<dyn Tool>]>);

impl HiddenSource {
    /// The tools of a source, by these rules; the first that is of a tool counts.
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
        // A poisoned lock still holds whole tools.
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

    /// The arguments as they are sent, and what takes their values out of what comes back.
    async fn filled(&self, workspace: &str, mut arguments: Value) -> Result<(Value, Mask), String> {
        let values = self.from.arguments(workspace).await?;
        let mask = Mask::new(values.values());
        let properties = self.inner.spec().input_schema.get("properties");
        let takes = |name: &str| properties.and_then(|all| all.get(name));
        if let Some(members) = arguments.as_object_mut() {
            // Whatever a model makes up for them does not count.
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
        // Its hidden arguments come from elsewhere.
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

/// A value as an argument's schema wants it: what is kept as a text may be a number or a boolean there.
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

/// A context whose progress is told without them.
fn masked_progress(context: CallContext, mask: &Mask) -> CallContext {
    let (heard, mask) = (context.progress.clone(), mask.clone());
    let progress = ProgressSender::new(move |text| heard.report(mask.text(&text)));
    CallContext { progress, ..context }
}

/// An outcome without the values that were filled in.
fn masked(outcome: ToolOutcome, mask: &Mask) -> ToolOutcome {
    // What a tool wants back would be recorded, and without the value it would not be what it wants.
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

/// An answer without them.
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
