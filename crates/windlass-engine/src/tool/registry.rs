//! The registry: the tools that an agent may be given, their catalogue, and the check of arguments.
//!
//! It refuses what no provider would take (names, schemas) when a tool is added, so that a run
//! never finds out. It does not decide whether a call may run, and it never fetches a schema.

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

/// Why a tool cannot be registered. All are the caller's fault, and trying again does not help.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// Another tool has the name.
    #[error("there is already a tool named `{0}`")]
    Duplicate(ToolName),
    /// The name is not 1–64 of `[A-Za-z0-9_-]`.
    #[error("`{0}` is not a tool name: 1 to 64 of A-Z, a-z, 0-9, `_` and `-`")]
    Name(String),
    /// The schema of the arguments cannot be used.
    #[error("the input schema of the tool `{tool}` is invalid: {problem}")]
    Schema {
        /// The tool.
        tool: ToolName,
        /// What is wrong, with the value.
        problem: String,
    },
}

/// The tools at hand, by name.
#[derive(Clone)]
pub struct Registry {
    schemas: Arc<dyn SchemaCompiler>,
    tools: BTreeMap<ToolName, Arc<Registered>>,
    disabled: BTreeSet<ToolName>,
    adjustments: BTreeMap<ToolName, Adjustment>,
}

/// What an administrator says of a tool, whatever its own hints are.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Adjustment {
    /// What may be done again when a call's outcome was lost.
    pub effect_class: Option<EffectClass>,
    /// Whether its hints are believed.
    pub trusted: Option<bool>,
    /// How a lost outcome is looked up; the class is then `reconcile`.
    pub reconcile: Option<Reconcile>,
}

/// Names of idempotency-key arguments. The engine fills the key in only for trusted tools and tools configured as
/// `keyed`. Other tools receive the argument from the model.
const KEY_ARGUMENTS: [&str; 4] =
    ["idempotency_key", "idempotencyKey", "client_request_id", "clientRequestId"];

/// The value of a call's key: what the far side recognises a repeat by.
pub fn key_of(effect: &EffectId) -> String {
    let digest = Digest::of(effect.as_str().as_bytes()).to_string();
    format!("wl-{}", &digest[..32])
}

/// A tool with what is worked out of it once.
pub(crate) struct Registered {
    pub tool: Arc<dyn Tool>,
    /// Its shape as the model sees it.
    pub spec: ToolSpec,
    /// The argument that the engine fills with the call's key.
    pub key_argument: Option<String>,
    /// What people who speak of it beforehand have spoken of.
    pub schema_digest: Digest,
    validators: Arc<Validators>,
}

/// The schema of a tool's arguments, compiled once: a run validates against the same schema many times.
struct Validators {
    compiler: Arc<dyn SchemaCompiler>,
    compiled: OnceLock<Result<Compiled, String>>,
}

/// A schema with its idempotency key and without: an [`Adjustment`] may switch between the two later.
struct Compiled {
    whole: Arc<dyn CompiledSchema>,
    /// The schema without its idempotency key; `None` if it has none.
    keyless: Option<Arc<dyn CompiledSchema>>,
}

/// When a tool's schema is compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Compile {
    /// When the tool is registered.
    Now,
    /// When a call of the tool is first checked.
    AtFirstUse,
}

impl Registered {
    /// `fills_key`: whether the engine fills in an argument that is named like a key.
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

    /// The validator of the arguments that the model writes. The error says why the schema cannot be used.
    fn validator(&self) -> Result<&dyn CompiledSchema, &str> {
        let compiled = self.validators.of(&self.tool.spec().input_schema)?;
        let keyless = compiled.keyless.as_ref().filter(|_| self.key_argument.is_some());
        Ok(&**keyless.unwrap_or(&compiled.whole))
    }
}

impl Validators {
    /// Compiles the schema if that is not done yet. It is always the same schema.
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

/// Removes the idempotency key from a schema and returns its name. Only a string argument counts.
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

/// What a tool is to whoever allows its calls: of a server's all that the server says of it, for its words may turn one
/// tool into another; of ours the schema alone, for our words change with each version.
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
    /// Makes a registry without tools. It compiles the schemas of arguments with `schemas`.
    pub fn new(schemas: Arc<dyn SchemaCompiler>) -> Self {
        Self { schemas, tools: BTreeMap::new(), disabled: BTreeSet::new(), adjustments: BTreeMap::new() }
    }

    /// Adds a tool; refuses a name that is taken or invalid and a schema that cannot be used.
    #[allow(clippy::should_implement_trait, reason = "adding a tool can fail and is not a sum")]
    pub fn add(mut self, tool: Arc<dyn Tool>) -> Result<Self, RegistryError> {
        self.insert(tool)?;
        Ok(self)
    }

    /// Adds tools whose schemas are constants of the program, as [`Registry::add`] does, but compiles each schema when a
    /// call of its tool is first checked: most processes call few of their tools, and many call none.
    ///
    /// The bounds on schemas are checked at once. A test of the program has to compile the schemas
    /// ([`Registry::compile_all`]). If one cannot be compiled after all, every call of its tool is refused with the reason.
    pub fn add_built_in(
        mut self,
        tools: impl IntoIterator<Item = Arc<dyn Tool>>,
    ) -> Result<Self, RegistryError> {
        for tool in tools {
            self.insert_built_in(tool)?;
        }
        Ok(self)
    }

    /// Compiles the schemas of all tools that are still to be compiled.
    pub fn compile_all(&self) -> Result<(), RegistryError> {
        self.tools.values().try_for_each(|registered| {
            let unusable = |problem: &str| RegistryError::Schema {
                tool: registered.spec.name.clone(),
                problem: problem.to_owned(),
            };
            registered.validator().map(drop).map_err(unusable)
        })
    }

    /// Makes a registry without tools that compiles schemas as this one does.
    pub(crate) fn emptied(&self) -> Self {
        Self::new(self.schemas.clone())
    }

    /// Adds a tool as [`Registry::add`] does. If the tool is rejected, the registry is unchanged.
    pub(crate) fn insert(&mut self, tool: Arc<dyn Tool>) -> Result<(), RegistryError> {
        self.put(tool, Compile::Now)
    }

    /// Adds a tool as [`Registry::add_built_in`] does. If the tool is rejected, the registry is unchanged.
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

    /// Whether the engine fills in a tool's key: an administrator's effect class decides, else whether the hints are
    /// believed.
    fn fills_key(&self, tool: &dyn Tool) -> bool {
        let adjusted = self.adjustments.get(&tool.spec().name);
        match adjusted.and_then(|adjusted| adjusted.effect_class) {
            Some(class) => class == EffectClass::Keyed,
            None => {
                adjusted.and_then(|adjusted| adjusted.trusted).unwrap_or_else(|| !tool.traits().is_untrusted)
            }
        }
    }

    /// Adds a tool that another registry has taken already.
    pub(crate) fn add_known(&mut self, known: Arc<Registered>) {
        self.tools.insert(known.spec.name.clone(), known);
    }

    /// A tool, also where its name is disabled.
    pub(crate) fn known(&self, name: &ToolName) -> Option<&Arc<Registered>> {
        self.tools.get(name)
    }

    /// Whether a name is taken out.
    pub(crate) fn is_disabled(&self, name: &ToolName) -> bool {
        self.disabled.contains(name)
    }

    /// Whether a name is taken, by a disabled tool too.
    pub(crate) fn has(&self, name: &ToolName) -> bool {
        self.tools.contains_key(name)
    }

    /// The enabled tools, sorted by name.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Registered>> + Clone {
        self.tools.iter().filter(|(name, _)| !self.disabled.contains(*name)).map(|(_, registered)| registered)
    }

    /// Adds several tools, as [`Registry::add`] does.
    pub fn add_all(self, tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Result<Self, RegistryError> {
        tools.into_iter().try_fold(self, Self::add)
    }

    /// The same without some tools. What is disabled stays so.
    pub(crate) fn without(&self, names: &[ToolName]) -> Self {
        let mut rest = self.clone();
        rest.tools.retain(|name, _| !names.contains(name));
        rest
    }

    /// Says something of a tool that wins over its own hints, whether it is added before, after or never.
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

    /// What may be done again when the outcome of a tool's call was lost, as far as the tool alone tells it.
    pub(crate) fn effect_class(&self, registered: &Registered) -> EffectClass {
        self.adjusted(registered, registered.tool.traits().effect_class(registered.tool.spec()))
    }

    /// What an administrator says of a class that the tool itself has given.
    pub(crate) fn adjusted(&self, registered: &Registered, own: EffectClass) -> EffectClass {
        let adjusted = self.adjustments.get(&registered.spec.name);
        if let Some(reconcile) = adjusted.and_then(|adjusted| adjusted.reconcile.as_ref()) {
            return EffectClass::Reconcile { wait_ms: reconcile.wait_ms };
        }
        match (adjusted.and_then(|adjusted| adjusted.effect_class), own) {
            (Some(class), _) => class,
            // The far side recognises a repeat.
            (None, EffectClass::Once) if registered.key_argument.is_some() => EffectClass::Keyed,
            (None, class) => class,
        }
    }

    /// A tool's shape as a catalogue has it: with the modes that have none of its calls.
    pub(crate) fn shown(&self, registered: &Registered) -> ToolSpec {
        let (tool, spec) = (&registered.tool, &registered.spec);
        let trust = if self.is_trusted(registered) { Trust::Trusted } else { Trust::Untrusted };
        let reads = tool.traits().reads_too && trust == Trust::Trusted
            || only_reads(self.effect_class(registered), spec.annotations, trust);
        let withheld = Mode::ALL.into_iter().filter(|mode| !mode.has(tool.traits().area, reads)).collect();
        ToolSpec { withheld, ..spec.clone() }
    }

    /// Whether a tool's hints are believed.
    pub(crate) fn is_trusted(&self, registered: &Registered) -> bool {
        let adjusted = self.adjustments.get(&registered.spec.name).and_then(|adjusted| adjusted.trusted);
        adjusted.unwrap_or_else(|| !registered.tool.traits().is_untrusted)
    }

    /// How the lost outcome of a tool's calls is looked up.
    pub(crate) fn reconcile(&self, name: &str) -> Option<&Reconcile> {
        self.adjustments.get(&ToolName::from(name))?.reconcile.as_ref()
    }

    /// What tools keep at work beside their calls.
    pub(crate) fn background(&self) -> Vec<Arc<dyn Background>> {
        self.all().filter_map(|registered| registered.tool.background()).collect()
    }

    /// The tool by which summed up results are read, where there is one.
    pub(crate) fn fetcher(&self) -> Option<&ToolName> {
        let enabled = self.tools.iter().filter(|(name, _)| !self.disabled.contains(*name));
        enabled.filter(|(_, registered)| registered.tool.traits().fetches).map(|(name, _)| name).next()
    }

    /// Takes a name out, whether its tool is added before, after or never. It wins over everything.
    pub fn disable(mut self, name: impl Into<ToolName>) -> Self {
        self.disabled.insert(name.into());
        self
    }

    /// Finds a tool; a disabled one is not there.
    pub fn get(&self, name: &str) -> Option<Arc<dyn Tool>> {
        self.enabled(name).map(|registered| registered.tool.clone())
    }

    /// Lists the shapes of the enabled tools, sorted by name.
    pub fn catalogue(&self) -> Arc<[ToolSpec]> {
        self.all().map(|registered| registered.spec.clone()).collect()
    }

    /// A digest of the tools' shapes and of what is said of them: another one says that calls have to be judged again.
    pub(crate) fn digest(&self) -> Digest {
        self.all().fold(Digest::default(), |digest, registered| {
            let (class, trusted) = (self.effect_class(registered), self.is_trusted(registered));
            digest.chain(&(&registered.spec, registered.schema_digest, class, trusted))
        })
    }

    /// Checks a call's arguments against its tool's schema.
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

    /// Compares a value with a schema from outside. The error says why the schema cannot be used, or names the first five
    /// faults.
    pub fn check_value(&self, schema: &Value, value: &Value) -> Result<(), String> {
        ValueCheck::new(&*self.schemas, schema)?.check(value)
    }

    /// Removes `null` members that the schema neither allows nor requires: models write `null` for optional arguments.
    /// Returns whether any was removed. Copies the arguments at most once.
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
        // From the original, so that members that stay keep their order.
        nulls.iter().filter(|member| member.remove_from(arguments)).count() > 0
    }

    pub(crate) fn enabled(&self, name: &str) -> Option<&Arc<Registered>> {
        let name = ToolName::from(name);
        if self.disabled.contains(&name) { None } else { self.tools.get(&name) }
    }
}

/// A member of an object, by the JSON Pointer of the object and its own name.
struct Member {
    parent: String,
    name: String,
}

impl Member {
    fn of(pointer: &str) -> Option<Self> {
        let (parent, name) = pointer.rsplit_once('/')?;
        Some(Self { parent: parent.to_owned(), name: name.replace("~1", "/").replace("~0", "~") })
    }

    /// Removes it. Returns `false` if there is no such member, as for an item of an array.
    fn remove_from(&self, value: &mut Value) -> bool {
        let members = value.pointer_mut(&self.parent).and_then(Value::as_object_mut);
        members.is_some_and(|members| members.shift_remove(&self.name).is_some())
    }
}

/// Validates the input schema of an external tool; [`Registry::add`] would reject the same ones.
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

/// Members that are left out of a call's arguments at most.
const MAX_NULLS: usize = 64;

fn is_tool_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}
