//! The registry: the tools available to agents, their catalogue, and argument validation.
//!
//! When a tool is added, the registry rejects names and schemas that a provider would not accept, before a run can
//! fail because of them. It does not decide whether a call may run, and never fetches a schema.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, OnceLock};

use serde_json::Value;
use thiserror::Error;
use windlass_machine::{Digest, EffectClass, EffectId, Mode, ToolName, ToolSpec, Trust, only_reads};

use super::Reconcile;
use super::schema::{
    MAX_FAULT_CHARS, MAX_FAULTS, MAX_SHOWN_CHARS, ValueCheck, check_arguments_schema, compile, shorten,
};
use crate::port::background::Background;
use crate::port::schema::{CompiledSchema, SchemaCompiler};
use crate::port::tool::Tool;

/// The reason why a tool cannot be registered. Every variant is the caller's fault, and a retry fails again.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// Another tool has the same name.
    #[error("there is already a tool named `{0}`")]
    Duplicate(ToolName),
    /// The name is not 1 to 64 characters of `[A-Za-z0-9_-]`.
    #[error("`{0}` is not a tool name: 1 to 64 of A-Z, a-z, 0-9, `_` and `-`")]
    Name(String),
    /// The input schema cannot be used.
    #[error("the input schema of the tool `{tool}` is invalid: {problem}")]
    Schema {
        /// Name of the tool.
        tool: ToolName,
        /// The problem, with the offending value.
        problem: String,
    },
}

/// The registered tools, by name.
#[derive(Clone)]
pub struct Registry {
    schemas: Arc<dyn SchemaCompiler>,
    tools: BTreeMap<ToolName, Arc<Registered>>,
    disabled: BTreeSet<ToolName>,
    adjustments: BTreeMap<ToolName, Adjustment>,
}

/// An administrator's settings for a tool, which override its annotations.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Adjustment {
    /// Effect class of the tool's calls; `None`: the class that the tool declares.
    pub effect_class: Option<EffectClass>,
    /// Whether the tool's annotations are trusted; `None`: as the tool declares.
    pub trusted: Option<bool>,
    /// Configuration for finding a lost outcome. If set, the effect class is `reconcile`.
    pub reconcile: Option<Reconcile>,
}

/// Names of idempotency-key arguments. The engine fills in the key only for trusted tools and tools configured as
/// `keyed`. For other tools, the model provides the argument.
const KEY_ARGUMENTS: [&str; 4] =
    ["idempotency_key", "idempotencyKey", "client_request_id", "clientRequestId"];

/// Returns the idempotency key of a call, by which the remote service recognises a repetition.
pub fn key_of(effect: &EffectId) -> String {
    let digest = Digest::of(effect.as_str().as_bytes()).to_string();
    format!("wl-{}", &digest[..32])
}

/// A tool, with values that are derived from it once.
pub(crate) struct Registered {
    pub tool: Arc<dyn Tool>,
    /// Description and schema as the model sees them.
    pub spec: ToolSpec,
    /// The argument that the engine fills with the call's key.
    pub key_argument: Option<String>,
    /// Digest of the schema. Grants and approvals are pinned to it.
    pub schema_digest: Digest,
    validators: Arc<Validators>,
}

/// The compiled input schema, cached because runs validate arguments against it many times.
struct Validators {
    compiler: Arc<dyn SchemaCompiler>,
    compiled: OnceLock<Result<Compiled, String>>,
}

/// A compiled schema with and without its idempotency key, because an [`Adjustment`] may switch between the two.
struct Compiled {
    whole: Arc<dyn CompiledSchema>,
    /// The schema without its idempotency key; `None` if the schema has no key.
    keyless: Option<Arc<dyn CompiledSchema>>,
}

/// Time at which a tool's schema is compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Compile {
    /// At the registration of the tool.
    Now,
    /// At the first validation of a call of the tool.
    AtFirstUse,
}

impl Registered {
    /// Creates a registered tool. `fills_key` is whether the engine
    /// fills in an argument with the name of an idempotency key.
    fn of(
        compiler: &Arc<dyn SchemaCompiler>,
        tool: Arc<dyn Tool>,
        when: Compile,
        fills_key: bool,
    ) -> Result<Self, RegistryError> {
        let validators = Arc::new(Validators { compiler: compiler.clone(), compiled: OnceLock::new() });
        let schema = &tool.spec().input_schema;
        let usable = match when {
            Compile::Now => validators.of(schema).map(drop).map_err(str::to_owned),
            Compile::AtFirstUse => check_arguments_schema(schema),
        };
        let invalid = |problem| RegistryError::Schema { tool: tool.spec().name.clone(), problem };
        usable.map_err(invalid)?;
        Ok(Self::with(tool, validators, fills_key))
    }

    fn with(tool: Arc<dyn Tool>, validators: Arc<Validators>, fills_key: bool) -> Self {
        let mut spec = tool.spec().clone();
        let schema_digest = digest_of(&*tool);
        let key_argument = if fills_key { without_key(&mut spec.input_schema) } else { None };
        Self { tool, spec, key_argument, schema_digest, validators }
    }

    /// Returns the validator for arguments from the model. The error describes why the schema is unusable.
    fn validator(&self) -> Result<&dyn CompiledSchema, &str> {
        let compiled = self.validators.of(&self.tool.spec().input_schema)?;
        let keyless = compiled.keyless.as_ref().filter(|_| self.key_argument.is_some());
        Ok(&**keyless.unwrap_or(&compiled.whole))
    }
}

impl Validators {
    /// Compiles the schema on the first call. Every call must pass the same schema.
    fn of(&self, schema: &Value) -> Result<&Compiled, &str> {
        let compiled = self.compiled.get_or_init(|| Compiled::of(&*self.compiler, schema));
        compiled.as_ref().map_err(String::as_str)
    }
}

impl Compiled {
    fn of(compiler: &dyn SchemaCompiler, schema: &Value) -> Result<Self, String> {
        let whole = compile(compiler, schema)?;
        let mut rest = schema.clone();
        let keyless = without_key(&mut rest).map(|_| compile(compiler, &rest)).transpose()?;
        Ok(Self { whole, keyless })
    }
}

/// Removes the idempotency key from a schema and returns its name. Only a string argument is a key.
fn without_key(schema: &mut Value) -> Option<String> {
    let properties = schema.get_mut("properties")?.as_object_mut()?;
    let is_text = |value: &Value| value.get("type").and_then(Value::as_str) == Some("string");
    let key = KEY_ARGUMENTS.into_iter().find(|name| properties.get(*name).is_some_and(is_text))?;
    properties.shift_remove(key);
    if let Some(required) = schema.get_mut("required").and_then(Value::as_array_mut) {
        required.retain(|name| name.as_str() != Some(key));
    }
    Some(key.to_owned())
}

/// Returns the digest that grants and approvals are pinned to. For a server's tool it covers name, description and
/// schema, because another description may make it another tool. For an engine tool it covers the schema only,
/// because descriptions change with each version.
fn digest_of(tool: &dyn Tool) -> Digest {
    let spec = tool.spec();
    match tool.traits().server {
        Some(_) => Digest::default().chain(&(
            tool.traits().remote_name.unwrap_or(tool.spec().name.as_str()),
            &spec.description,
            &spec.input_schema,
            spec.annotations,
        )),
        None => Digest::of(spec.input_schema.to_string().as_bytes()),
    }
}

impl Registry {
    /// Creates an empty registry that compiles input schemas with `schemas`.
    pub fn new(schemas: Arc<dyn SchemaCompiler>) -> Self {
        Self { schemas, tools: BTreeMap::new(), disabled: BTreeSet::new(), adjustments: BTreeMap::new() }
    }

    /// Adds a tool. Fails if the name is taken or invalid, or the schema is unusable.
    #[allow(clippy::should_implement_trait, reason = "adding a tool can fail and is not a sum")]
    pub fn add(mut self, tool: Arc<dyn Tool>) -> Result<Self, RegistryError> {
        self.insert(tool)?;
        Ok(self)
    }

    /// Adds tools whose schemas are constants of the program, like [`Registry::add`]. Each schema is only compiled
    /// when a call of its tool is first validated, because most processes call few tools or none.
    ///
    /// The limits on schemas are checked immediately. A test of the program should
    /// compile the schemas ([`Registry::compile_all`]). If a schema cannot be
    /// compiled at run time, every call of its tool is rejected with the reason.
    pub fn add_built_in(
        mut self,
        tools: impl IntoIterator<Item = Arc<dyn Tool>>,
    ) -> Result<Self, RegistryError> {
        for tool in tools {
            self.insert_built_in(tool)?;
        }
        Ok(self)
    }

    /// Compiles all schemas that were not compiled yet.
    pub fn compile_all(&self) -> Result<(), RegistryError> {
        self.tools.values().try_for_each(|registered| {
            let unusable = |problem: &str| RegistryError::Schema {
                tool: registered.spec.name.clone(),
                problem: problem.to_owned(),
            };
            registered.validator().map(drop).map_err(unusable)
        })
    }

    /// Creates an empty registry with the same schema compiler.
    pub(crate) fn emptied(&self) -> Self {
        Self::new(self.schemas.clone())
    }

    /// Adds a tool like [`Registry::add`]. If the tool is rejected, the registry is unchanged.
    pub(crate) fn insert(&mut self, tool: Arc<dyn Tool>) -> Result<(), RegistryError> {
        self.put(tool, Compile::Now)
    }

    /// Adds a tool like [`Registry::add_built_in`]. If the tool is rejected, the registry is unchanged.
    pub(crate) fn insert_built_in(&mut self, tool: Arc<dyn Tool>) -> Result<(), RegistryError> {
        self.put(tool, Compile::AtFirstUse)
    }

    fn put(&mut self, tool: Arc<dyn Tool>, when: Compile) -> Result<(), RegistryError> {
        let name = tool.spec().name.clone();
        if !is_tool_name(name.as_str()) {
            return Err(RegistryError::Name(shorten(name.as_str(), MAX_SHOWN_CHARS)));
        }
        if self.tools.contains_key(&name) {
            return Err(RegistryError::Duplicate(name));
        }
        let fills_key = self.fills_key(&*tool);
        let registered = Registered::of(&self.schemas, tool, when, fills_key)?;
        self.tools.insert(name, Arc::new(registered));
        Ok(())
    }

    /// Whether the engine fills in a tool's key: decided by an administrator's effect class, otherwise by trust in
    /// its annotations.
    fn fills_key(&self, tool: &dyn Tool) -> bool {
        let adjusted = self.adjustments.get(&tool.spec().name);
        match adjusted.and_then(|adjusted| adjusted.effect_class) {
            Some(class) => class == EffectClass::Keyed,
            None => {
                adjusted.and_then(|adjusted| adjusted.trusted).unwrap_or_else(|| !tool.traits().is_untrusted)
            }
        }
    }

    /// Adds a tool that another registry has already validated.
    pub(crate) fn add_known(&mut self, known: Arc<Registered>) {
        self.tools.insert(known.spec.name.clone(), known);
    }

    /// Returns a tool, even if it is disabled.
    pub(crate) fn known(&self, name: &ToolName) -> Option<&Arc<Registered>> {
        self.tools.get(name)
    }

    /// Whether a name is disabled.
    pub(crate) fn is_disabled(&self, name: &ToolName) -> bool {
        self.disabled.contains(name)
    }

    /// Whether a name is taken, possibly by a disabled tool.
    pub(crate) fn has(&self, name: &ToolName) -> bool {
        self.tools.contains_key(name)
    }

    /// Returns the enabled tools, sorted by name.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Registered>> + Clone {
        self.tools.iter().filter(|(name, _)| !self.disabled.contains(*name)).map(|(_, registered)| registered)
    }

    /// Adds several tools, like [`Registry::add`].
    pub fn add_all(self, tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Result<Self, RegistryError> {
        tools.into_iter().try_fold(self, Self::add)
    }

    /// Returns a registry without some tools. Disabled names remain disabled.
    pub(crate) fn without(&self, names: &[ToolName]) -> Self {
        let mut rest = self.clone();
        rest.tools.retain(|name, _| !names.contains(name));
        rest
    }

    /// Sets an adjustment for a tool, which may be added before or after, or never.
    pub fn adjust(mut self, name: impl Into<ToolName>, adjustment: Adjustment) -> Self {
        let name = name.into();
        self.adjustments.insert(name.clone(), adjustment);
        if let Some(known) = self.tools.get(&name) {
            let (tool, validators) = (known.tool.clone(), known.validators.clone());
            let fills_key = self.fills_key(&*tool);
            self.tools.insert(name, Arc::new(Registered::with(tool, validators, fills_key)));
        }
        self
    }

    /// Returns the effect class of a tool, without regard to arguments.
    pub(crate) fn effect_class(&self, registered: &Registered) -> EffectClass {
        self.adjusted(registered, registered.tool.traits().effect_class(registered.tool.spec()))
    }

    /// Returns the class that applies if the tool itself declares `own`.
    pub(crate) fn adjusted(&self, registered: &Registered, own: EffectClass) -> EffectClass {
        let adjusted = self.adjustments.get(&registered.spec.name);
        if let Some(reconcile) = adjusted.and_then(|adjusted| adjusted.reconcile.as_ref()) {
            return EffectClass::Reconcile { wait_ms: reconcile.wait_ms };
        }
        match (adjusted.and_then(|adjusted| adjusted.effect_class), own) {
            (Some(class), _) => class,
            // The remote service recognises a repetition.
            (None, EffectClass::Once) if registered.key_argument.is_some() => EffectClass::Keyed,
            (None, class) => class,
        }
    }

    /// Returns a tool for a catalogue, including the modes that withhold all of its calls.
    pub(crate) fn shown(&self, registered: &Registered) -> ToolSpec {
        let (tool, spec) = (&registered.tool, &registered.spec);
        let trust = if self.is_trusted(registered) { Trust::Trusted } else { Trust::Untrusted };
        let reads = tool.traits().reads_too && trust == Trust::Trusted
            || only_reads(self.effect_class(registered), spec.annotations, trust);
        let withheld = Mode::ALL.into_iter().filter(|mode| !mode.has(tool.traits().area, reads)).collect();
        ToolSpec { withheld, ..spec.clone() }
    }

    /// Whether a tool's annotations are trusted.
    pub(crate) fn is_trusted(&self, registered: &Registered) -> bool {
        let adjusted = self.adjustments.get(&registered.spec.name).and_then(|adjusted| adjusted.trusted);
        adjusted.unwrap_or_else(|| !registered.tool.traits().is_untrusted)
    }

    /// Returns the configuration for finding the lost outcome of a tool's calls.
    pub(crate) fn reconcile(&self, name: &str) -> Option<&Reconcile> {
        self.adjustments.get(&ToolName::from(name))?.reconcile.as_ref()
    }

    /// Returns the background commands of all tools.
    pub(crate) fn background(&self) -> Vec<Arc<dyn Background>> {
        self.all().filter_map(|registered| registered.tool.background()).collect()
    }

    /// Returns the tool that reads offloaded results; `None` if the registry has none.
    pub(crate) fn fetcher(&self) -> Option<&ToolName> {
        let enabled = self.tools.iter().filter(|(name, _)| !self.disabled.contains(*name));
        enabled.filter(|(_, registered)| registered.tool.traits().fetches).map(|(name, _)| name).next()
    }

    /// Disables a name; its tool may be added before or after, or
    /// never. Disabling takes precedence over all other settings.
    pub fn disable(mut self, name: impl Into<ToolName>) -> Self {
        self.disabled.insert(name.into());
        self
    }

    /// Returns an enabled tool.
    pub fn get(&self, name: &str) -> Option<Arc<dyn Tool>> {
        self.enabled(name).map(|registered| registered.tool.clone())
    }

    /// Lists the specs of the enabled tools, sorted by name.
    pub fn catalogue(&self) -> Arc<[ToolSpec]> {
        self.all().map(|registered| registered.spec.clone()).collect()
    }

    /// Returns a digest of the tools and their adjustments. If it changes, waiting calls are judged again.
    pub(crate) fn digest(&self) -> Digest {
        self.all().fold(Digest::default(), |digest, registered| {
            let (class, trusted) = (self.effect_class(registered), self.is_trusted(registered));
            digest.chain(&(&registered.spec, registered.schema_digest, class, trusted))
        })
    }

    /// Validates a call's arguments against its tool's schema.
    ///
    /// The error is for the model: at most five faults, each with its path and the value.
    pub fn check_arguments(&self, name: &str, arguments: &Value) -> Result<(), String> {
        let Some(registered) = self.enabled(name) else {
            return Err(format!("there is no tool named `{}`", shorten(name, MAX_SHOWN_CHARS)));
        };
        if registered.tool.traits().checks_arguments {
            return Ok(());
        }
        let validator = registered.validator().map_err(|problem| {
            format!("the tool `{name}` cannot be called, because its schema cannot be used: {problem}")
        })?;
        let faults = validator.faults(arguments, MAX_FAULTS);
        let faults: Vec<String> = faults
            .iter()
            .map(|fault| {
                let path = if fault.path.is_empty() { "arguments" } else { &fault.path };
                format!("`{}`: {}", shorten(path, MAX_SHOWN_CHARS), shorten(&fault.problem, MAX_FAULT_CHARS))
            })
            .collect();
        if faults.is_empty() { Ok(()) } else { Err(faults.join("; ")) }
    }

    /// Validates a value against an external schema. The error describes
    /// why the schema is unusable, or lists the first five faults.
    pub fn check_value(&self, schema: &Value, value: &Value) -> Result<(), String> {
        ValueCheck::new(&*self.schemas, schema)?.check(value)
    }

    /// Removes `null` members that the schema neither allows nor requires, because models write `null` for optional
    /// arguments. Returns whether a member was removed. Copies the arguments at most once.
    pub fn leave_out_nulls(&self, name: &str, arguments: &mut Value) -> bool {
        let registered = self.enabled(name).filter(|registered| !registered.tool.traits().checks_arguments);
        let Some(Ok(validator)) = registered.map(|registered| registered.validator()) else { return false };
        let faults = validator.faults(arguments, MAX_NULLS);
        let mut nulls: Vec<Member> = faults
            .iter()
            .filter(|fault| arguments.pointer(&fault.path) == Some(&Value::Null))
            .filter_map(|fault| Member::of(&fault.path))
            .collect();
        if nulls.is_empty() {
            return false;
        }
        let mut without = arguments.clone();
        nulls.retain(|member| member.remove_from(&mut without));
        for fault in validator.faults(&without, usize::MAX) {
            if let Some(missing) = &fault.missing {
                nulls.retain(|member| fault.path != member.parent || *missing != member.name);
            }
        }
        // Remove members from the original value, so that the remaining members keep their order.
        nulls.iter().filter(|member| member.remove_from(arguments)).count() > 0
    }

    pub(crate) fn enabled(&self, name: &str) -> Option<&Arc<Registered>> {
        let name = ToolName::from(name);
        if self.disabled.contains(&name) { None } else { self.tools.get(&name) }
    }
}

/// A member of an object: the JSON Pointer of the object, and the member's name.
struct Member {
    parent: String,
    name: String,
}

impl Member {
    fn of(pointer: &str) -> Option<Self> {
        let (parent, name) = pointer.rsplit_once('/')?;
        Some(Self { parent: parent.to_owned(), name: name.replace("~1", "/").replace("~0", "~") })
    }

    /// Removes the member. Returns `false` if the member does not exist, as for an array item.
    fn remove_from(&self, value: &mut Value) -> bool {
        let members = value.pointer_mut(&self.parent).and_then(Value::as_object_mut);
        members.is_some_and(|members| members.shift_remove(&self.name).is_some())
    }
}

/// Validates the input schema of an external tool; [`Registry::add`] rejects the same schemas.
pub fn check_schema(schemas: &dyn SchemaCompiler, schema: &Value) -> Result<(), String> {
    Compiled::of(schemas, schema).map(drop)
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry")
            .field("tools", &self.tools.keys().collect::<Vec<_>>())
            .field("disabled", &self.disabled)
            .finish()
    }
}

/// Maximum number of members that are removed from a call's arguments.
const MAX_NULLS: usize = 64;

fn is_tool_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}
