//! Function tools: a Rust function with a typed argument becomes a tool.
//!
//! The schema is derived from the argument's type and simplified for models: no `$schema`, no title, no Rust number
//! formats, inlined subschemas.

use std::fmt;
use std::future::{Future, ready};
use std::sync::Arc;

use async_trait::async_trait;
use futures::FutureExt;
use futures::future::BoxFuture;
use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, Transform};
use schemars::{JsonSchema, Schema};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use windlass_engine::port::background::Background;
use windlass_engine::port::tool::{CallContext, Tool, ToolOutcome, ToolOutput, ToolTraits};
use windlass_machine::{Annotations, Area, EffectClass, ToolSpec};

/// A tool made of a Rust function.
///
/// ```
/// use windlass_schema::FunctionTool;
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Echo {
///     /// What to say again.
///     text: String,
/// }
///
/// let echo = FunctionTool::new("echo", "Echoes the text", |_context, echo: Echo| async move { echo.text });
/// ```
pub struct FunctionTool {
    spec: ToolSpec,
    effect_class: Option<EffectClass>,
    function: Box<Function>,
    preview: Option<Box<Preview>>,
    keeps: Option<&'static str>,
    background: Option<Arc<dyn Background>>,
    area: Area,
    outlives: fn(&Value) -> bool,
    paths: Vec<&'static str>,
    records_changes: bool,
    reads_locally: bool,
}

type Preview = dyn Fn(CallContext, Value) -> BoxFuture<'static, Result<String, String>> + Send + Sync;

type Function = dyn Fn(CallContext, Value) -> BoxFuture<'static, ToolOutcome> + Send + Sync;

impl FunctionTool {
    /// Creates a tool from a function that takes a call's context and typed arguments.
    ///
    /// By default, the tool is treated as changing external state: no hints, class `once`.
    pub fn new<A, F, Fut, O>(name: &str, description: impl Into<String>, function: F) -> Self
    where
        A: JsonSchema + DeserializeOwned,
        F: Fn(CallContext, A) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = O> + Send + 'static,
        O: IntoToolOutcome + 'static,
    {
        let spec = ToolSpec {
            name: name.into(),
            description: description.into(),
            input_schema: schema_for::<A>(),
            annotations: Annotations::default(),
            withheld: Vec::new(),
        };
        let function = move |context, arguments| match serde_json::from_value::<A>(arguments) {
            Ok(arguments) => function(context, arguments).map(O::into_tool_outcome).boxed(),
            Err(problem) => ready(ToolOutcome::error(format!("Invalid arguments: {problem}"))).boxed(),
        };
        let function = Box::new(function);
        Self {
            spec,
            effect_class: None,
            function,
            preview: None,
            keeps: None,
            background: None,
            area: Area::Work,
            outlives: |_: &Value| false,
            paths: Vec::new(),
            records_changes: false,
            reads_locally: false,
        }
    }

    /// Sets the hints. Unless [`FunctionTool::effect_class`] is called, the class is derived from the hints.
    pub fn annotations(mut self, annotations: Annotations) -> Self {
        self.spec.annotations = annotations;
        self
    }

    /// Sets a function that previews a call without running it, for the users who approve the call.
    pub fn preview<A, F, Fut>(mut self, preview: F) -> Self
    where
        A: DeserializeOwned,
        F: Fn(CallContext, A) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<String, String>> + Send + 'static,
    {
        self.preview =
            Some(Box::new(move |context, arguments| match serde_json::from_value::<A>(arguments) {
                Ok(arguments) => preview(context, arguments).boxed(),
                Err(problem) => ready(Err(format!("Invalid arguments: {problem}"))).boxed(),
            }));
        self
    }

    /// Sets the key of the tool's state in the thread. Tools with the same key share the state.
    pub fn keeps(mut self, name: &'static str) -> Self {
        self.keeps = Some(name);
        self
    }

    /// Sets the background work that the tool performs in addition to its calls.
    pub fn background(mut self, background: Arc<dyn Background>) -> Self {
        self.background = Some(background);
        self
    }

    /// Sets the area that the tool affects.
    pub fn area(mut self, area: Area) -> Self {
        self.area = area;
        self
    }

    /// Sets a predicate on the arguments: whether the call leaves work running in its thread after its result.
    pub fn outlives(mut self, outlives: fn(&Value) -> bool) -> Self {
        self.outlives = outlives;
        self
    }

    /// Adds a JSON pointer to an argument that is a path in the working folder: see [`ToolTraits::path_arguments`].
    pub fn path_argument(mut self, pointer: &'static str) -> Self {
        self.paths.push(pointer);
        self
    }

    /// Declares that the tool changes files only through the call's folder: see [`ToolTraits::records_changes`].
    pub fn records_changes(mut self) -> Self {
        self.records_changes = true;
        self
    }

    /// Declares that pure calls only read the working folder or the thread: see [`ToolTraits::reads_locally`].
    pub fn reads_locally(mut self) -> Self {
        self.reads_locally = true;
        self
    }

    /// Sets which calls may be repeated if their outcome is unknown.
    /// The class takes precedence over the hints.
    pub fn effect_class(mut self, class: EffectClass) -> Self {
        self.effect_class = Some(class);
        self
    }
}

#[async_trait]
impl Tool for FunctionTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn traits(&self) -> ToolTraits<'_> {
        ToolTraits {
            class: self.effect_class,
            path_arguments: &self.paths,
            area: self.area,
            records_changes: self.records_changes,
            reads_locally: self.reads_locally,
            keeps: self.keeps,
            previews: self.preview.is_some(),
            ..ToolTraits::default()
        }
    }

    fn background(&self) -> Option<Arc<dyn Background>> {
        self.background.clone()
    }

    fn outlives(&self, arguments: &Value) -> bool {
        (self.outlives)(arguments)
    }

    async fn preview(&self, context: CallContext, arguments: Value) -> Result<String, String> {
        match &self.preview {
            Some(preview) => preview(context, arguments).await,
            None => Err(format!("the tool `{}` has no preview", self.spec.name)),
        }
    }

    async fn call(&self, context: CallContext, arguments: Value) -> ToolOutcome {
        (self.function)(context, arguments).await
    }
}

impl fmt::Debug for FunctionTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FunctionTool")
            .field("spec", &self.spec)
            .field("effect_class", &self.effect_class)
            .finish_non_exhaustive()
    }
}

/// Return types of a function tool.
pub trait IntoToolOutcome {
    /// Converts the value to the outcome of the call.
    fn into_tool_outcome(self) -> ToolOutcome;
}

impl IntoToolOutcome for ToolOutcome {
    fn into_tool_outcome(self) -> ToolOutcome {
        self
    }
}

impl IntoToolOutcome for ToolOutput {
    fn into_tool_outcome(self) -> ToolOutcome {
        self.into()
    }
}

impl IntoToolOutcome for String {
    fn into_tool_outcome(self) -> ToolOutcome {
        ToolOutcome::text(self)
    }
}

impl IntoToolOutcome for &'static str {
    fn into_tool_outcome(self) -> ToolOutcome {
        ToolOutcome::text(self)
    }
}

impl IntoToolOutcome for Value {
    fn into_tool_outcome(self) -> ToolOutcome {
        ToolOutcome::text(self.to_string())
    }
}

/// Returns a value as JSON.
#[derive(Clone, Debug, PartialEq)]
pub struct Json<T>(pub T);

impl<T: Serialize> IntoToolOutcome for Json<T> {
    fn into_tool_outcome(self) -> ToolOutcome {
        match serde_json::to_string(&self.0) {
            Ok(json) => ToolOutcome::text(json),
            Err(problem) => ToolOutcome::error(format!("cannot serialize the result as JSON: {problem}")),
        }
    }
}

impl<T: IntoToolOutcome, E: fmt::Display> IntoToolOutcome for Result<T, E> {
    fn into_tool_outcome(self) -> ToolOutcome {
        match self {
            Ok(output) => output.into_tool_outcome(),
            Err(problem) => ToolOutcome::error(problem.to_string()),
        }
    }
}

/// Derives a type's JSON schema (2020-12) in the form that models receive.
pub fn schema_for<A: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12()
        .with(|settings| {
            settings.meta_schema = None;
            settings.inline_subschemas = true;
        })
        .with_transform(RecursiveTransform(CleanForModels));
    let mut schema = settings.into_generator().into_root_schema_for::<A>().to_value();
    // The type's doc comment would repeat the tool's description.
    if let Some(root) = schema.as_object_mut() {
        root.shift_remove("description");
        if root.get("type") == Some(&json!("object")) {
            // Some providers reject an object schema without `properties`.
            root.entry("properties").or_insert_with(|| json!({}));
        }
    }
    schema
}

#[derive(Clone)]
struct CleanForModels;

impl Transform for CleanForModels {
    fn transform(&mut self, schema: &mut Schema) {
        schema.remove("title");
        // Line breaks of a doc comment have no meaning; paragraphs do.
        if let Some(Value::String(description)) = schema.get_mut("description") {
            let paragraphs: Vec<String> =
                description.split("\n\n").map(|paragraph| paragraph.replace('\n', " ")).collect();
            *description = paragraphs.join("\n\n");
        }
        // These defaults are self-evident; the tool's description contains all other defaults.
        if schema.get("default").is_some_and(|it| [json!(null), json!(false), json!([])].contains(it)) {
            schema.remove("default");
        }
        // `uint64` and similar names are defined by schemars, and some providers reject unknown formats.
        let is_number_format = schema
            .get("format")
            .and_then(Value::as_str)
            .is_some_and(|format| ["uint", "int", "float", "double"].iter().any(|n| format.starts_with(n)));
        if is_number_format {
            schema.remove("format");
        }
    }
}
