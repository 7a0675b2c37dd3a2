//! The environment of a command: the folder, its settings, the store and the engine over it.
//!
//! The place validates all settings before the command starts or changes anything.

mod access;
mod answers;
mod commands;
mod elsewhere;
mod flags;
mod layer;
mod meant;
pub(super) mod opened;
pub(super) mod programs;
mod tools;
pub(super) mod trust;
mod zone;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::SetOnce;
use windlass::machine::{ModelAccess, ModelName, ModelSettings, Party, Principal, Rule, ToolName, Verdict};
use windlass::models::{DEMO_MODEL, ProviderCatalog};
use windlass::port::model::{Ability, Models};
use windlass::port::observe::Observer;
use windlass::sqlite::{Durability, SqliteFolder, StoreOptions};
use windlass::tool::WorkingFolder;
use windlass::{AgentConfig, Attend, Builder, Engine, Task};
use windlass_server::account::Accounts;
use windlass_server::account::people::user::local;
use windlass_server::account::people::user::{PEOPLE, People};
use windlass_server::catalog::Catalog;
use windlass_server::clock::clock;
use windlass_server::config::{self, ConfigFile, Flags, ModelSource, ProviderFile, Settings};
use windlass_server::home::Homes;
use windlass_server::integration::Integrations;
use windlass_server::integration::connected;
use windlass_server::integration::reach::Reach;
use windlass_server::policy::{Extent, InForce, PolicyText};
use windlass_server::servers::{self, Back, Servers, Which};
use windlass_server::shell_quote::quoted;
use windlass_server::trouble::Trouble;
use windlass_server::vault::Vault;

pub use self::flags::{ModelFlags, PlaceFlags};
use self::layer::{FolderLayer, read_layer};
use crate::console::Console;
use crate::paths::UserPaths;
use crate::place::opened::OpenedStore;

/// A folder with its resolved settings, before the store is opened.
#[derive(Clone)]
pub struct Ground {
    pub folder: PathBuf,
    pub user: UserPaths,
    pub settings: Settings,
    /// The policy files in force: the user's, then the folder's.
    pub policies: Vec<InForce>,
    /// The values of flags, for a model that is determined later.
    flags: Flags,
    place: PlaceFlags,
    /// Model flags, which hints repeat in the commands that they suggest.
    model: ModelFlags,
    /// The address and key variable for the run's model, as recorded with a new run.
    access: Option<Box<ModelAccess>>,
    /// Providers as configured in the files, without flags.
    configured: BTreeMap<String, ProviderFile>,
    /// Address and key variable of each provider that a resumed run uses.
    reached: BTreeMap<String, (Option<String>, Option<String>)>,
    /// Which tool servers to start if the command calls no model.
    starts: Starts,
    /// Files in the folder that settings execute or read. File tools must not change them.
    programs: Vec<PathBuf>,
}

/// An open store with an engine over it.
pub struct Place {
    /// The folder and settings from which it was opened.
    pub ground: Ground,
    pub engine: Engine,
    /// The models that the engine calls.
    pub models: Arc<Catalog>,
    /// The working folders of conversations.
    pub homes: Homes,
    /// The tool servers. `None` if the command starts none or none are configured.
    pub servers: Option<Arc<Servers>>,
    /// The integrations of workspaces, opened on first use.
    connected: connected::Opened,
}

/// Which tool servers to start if the command calls no model.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Starts {
    Nothing,
    Servers,
    /// Only the server of this tool.
    ServerOf(ToolName),
}

/// Whether the command may ask the user to trust the folder's configuration file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    /// Yes, if the command runs on a terminal.
    OnTerminal,
    /// No: the command executes nothing from the folder.
    Never,
}

/// Which calls run without an approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consent {
    /// Calls that the rules, grants and `auto-run` allow.
    Ask,
    /// All calls, except those that a rule denies or reserves for another approver (`--yes`).
    Everything,
}

impl Consent {
    /// Converts the flag `--yes`.
    pub fn of(yes: bool) -> Self {
        if yes { Self::Everything } else { Self::Ask }
    }

    /// Returns the rules that apply with this consent. `--yes` adds an allowing rule and acts as one approval of the
    /// user who typed it. It therefore removes every asking rule that this single approval satisfies.
    fn over(self, mut rules: Vec<Rule>) -> Vec<Rule> {
        if self == Self::Everything {
            let Party { principal, roles, .. } = local();
            let said = [(principal, roles)];
            rules.retain(|rule| rule.verdict != Verdict::Ask || !rule.terms.are_met_by(&said));
            rules.push(Rule { name: Some("--yes".into()), ..Rule::new(Verdict::Allow) });
        }
        rules
    }
}

impl Ground {
    /// Reads the settings that apply to a folder.
    pub fn find(
        console: &Console,
        place: &PlaceFlags,
        model: &ModelFlags,
        ask: Ask,
    ) -> Result<Self, Trouble> {
        let user = UserPaths::find()?;
        let folder = place.folder();
        if !folder.is_dir() {
            return Err(Trouble::usage(format!("`{}` is not a folder", folder.display()))
                .hint("set the working folder with `--dir`"));
        }
        let mut layers: Vec<ConfigFile> = config::read(&user.config)?.into_iter().collect();
        let own = PolicyText::read(&user.policy())?.map(|text| text.in_force(Extent::Whole)).transpose()?;
        let FolderLayer { config, policy, programs } = read_layer(console, &user, &folder, ask)?;
        layers.extend(config);
        let flags = Flags {
            model: model.model.clone(),
            base_url: model.base_url.clone(),
            api_key_env: model.api_key_env.clone(),
            store: place.store.clone(),
            max_steps: model.max_steps,
        };
        let settings = Settings::resolve(layers, flags.clone(), &config::environment)?;
        let configured = settings.providers.clone();
        Ok(Self {
            folder,
            user,
            settings,
            policies: own.into_iter().chain(policy).collect(),
            flags,
            place: place.clone(),
            model: model.clone(),
            access: None,
            configured,
            reached: BTreeMap::new(),
            starts: Starts::Nothing,
            programs,
        })
    }

    /// Returns the rules of all policy files in force, the user's first.
    pub fn rules(&self) -> Vec<Rule> {
        self.policies.iter().flat_map(|file| file.rules.clone()).collect()
    }

    /// Returns the path of the store.
    pub fn store(&self) -> PathBuf {
        let named = self.settings.store.as_ref();
        let whole = |store: &PathBuf| std::path::absolute(store).unwrap_or_else(|_| store.clone());
        named.map_or_else(|| self.user.store_of(&self.folder), whole)
    }

    /// Opens the store, and creates it if it is missing. `used` names the models that the command will call.
    pub async fn open(self, used: &[ModelName], consent: Consent) -> anyhow::Result<Place> {
        let rules = consent.over(self.rules());
        let finish = |builder: Builder| builder.rules(rules).roles_of(|_| async { Ok(local().roles) });
        // Boxed, because otherwise the future of every command that opens a store would contain this large future.
        Box::pin(self.open_with(used, Back::Page, finish)).await
    }

    /// Opens the store for a server. The server drives every thread that no other process
    /// drives. Roles come from user accounts.
    pub async fn open_server(
        self,
        used: &[ModelName],
        observer: Arc<dyn Observer>,
        back: String,
    ) -> anyhow::Result<(Place, Accounts)> {
        let rules = self.rules();
        let people = Arc::new(People::default());
        let creditors = people.clone();
        let credit = move |workspace: &str, user: &Principal| creditors.credit(workspace, user);
        // The accounts are in the store that is being opened. A role lookup during the opening waits for them.
        let opened = Arc::new(SetOnce::<Accounts>::new());
        let asked = opened.clone();
        let roles = move |principal: Principal| {
            let asked = asked.clone();
            async move { Ok(asked.wait().await.refresh().await?.roles(&principal)) }
        };
        let providers = self.settings.providers.clone();
        let finish = |builder: Builder| {
            let builder = builder.rules(rules).roles_of(roles).roles_change_with([PEOPLE]);
            let builder = builder.credit_of(credit).observer(observer);
            builder.attend(Attend::All).reaches(move |access| access::is_own(&providers, access))
        };
        let place = Box::pin(self.open_with(used, Back::At(back), finish)).await?;
        let vault = Vault::open(&place.ground.store())?;
        let accounts = Accounts::new(place.engine.records().clone(), clock(), people, vault);
        // The cell was created above and is set only by this call, so `set` cannot fail.
        let _ = opened.set(accounts.clone());
        Ok((place, accounts))
    }

    async fn open_with(
        self,
        used: &[ModelName],
        back: Back,
        finish: impl FnOnce(Builder) -> Builder,
    ) -> anyhow::Result<Place> {
        opened::remember(OpenedStore { path: self.store(), flags: self.same_flags() });
        let models = Arc::new(Catalog::open(&self.settings, used)?);
        let folder = WorkingFolder::open(&self.folder)?
            .with_store(&self.user.data)
            .with_protected_file(&self.user.config)
            .with_protected_file(self.user.policy());
        let folder = self.programs.iter().fold(folder, |folder, path| folder.with_protected_file(path));
        let homes = Homes::new(&self.store(), Arc::new(folder));
        let homes = homes.with_limit(self.settings.files.max_total_bytes());
        let found = homes.clone();
        let durability = if self.settings.relaxed { Durability::Relaxed } else { Durability::Full };
        let options = StoreOptions { durability, ..StoreOptions::default() };
        let tools = self.tools()?;
        let builder = windlass::builder()
            .store(SqliteFolder::new(self.store()).options(options))
            .folder(homes.ground().clone());
        // Open the store first: it contains records of tool servers, and their tools must be
        // registered before any run is driven.
        let (builder, records) = Box::pin(builder.open_store()).await?;
        // A command that only reads starts no server.
        let starts = match (used, &back) {
            ([], _) if self.starts == Starts::Nothing => false,
            (_, Back::At(_)) => true,
            (_, Back::Page) => servers::are_any(&self.settings, &*records).await?,
        };
        let servers = match starts {
            false => None,
            true => {
                // Boxed: otherwise the future of every command that opens a store contains this large future.
                let which = match &self.starts {
                    Starts::ServerOf(tool) => Which::ServerOf(tool.as_str()),
                    Starts::Nothing | Starts::Servers => Which::All,
                };
                let store = self.store();
                Some(Box::pin(Servers::start(&self.settings, &tools, &store, records, back, which)).await?)
            }
        };
        let opened = connected::Opened::default();
        let source = servers.as_ref().map_or_else(servers::none, |servers| servers.hub.clone());
        let builder = builder
            .models(models.clone())
            .tools(tools)
            .tool_source(connected::hidden(source, &self.settings, &opened))
            .toolsets(config::toolsets(&self.settings.toolsets))
            .folders(move |thread, recorded| {
                found.thread(thread, recorded).map_err(|error| error.to_string())
            })
            .budgets(self.settings.budgets.clone());
        let builder = match self.settings.agent.offload.offload() {
            Some(offload) => builder.offload(offload),
            None => builder,
        };
        let engine = finish(builder).build().await?;
        if let Some(servers) = &servers {
            servers.attach(&engine);
        }
        let place = Place { ground: self, engine, models, homes, servers, connected: opened };
        // The integrations fill in arguments of server tools. Any call after this point may need them.
        let are_called = !used.is_empty() || place.servers.is_some();
        if are_called && !place.ground.settings.integrations.is_empty() {
            place.integrations().await?;
        }
        Ok(place)
    }

    /// Opens the store for reading. Calls no model.
    pub async fn open_store(self) -> anyhow::Result<Place> {
        Box::pin(self.open(&[], Consent::Ask)).await
    }

    /// Opens the store to list and test tools. Starts the tool servers and calls no model.
    pub async fn open_tools(self) -> anyhow::Result<Place> {
        self.open_to_resume(Consent::Ask).await
    }

    /// Opens the store to resume a run. The run names its model, and its calls need the tool servers.
    pub async fn open_to_resume(mut self, consent: Consent) -> anyhow::Result<Place> {
        self.starts = Starts::Servers;
        Box::pin(self.open(&[], consent)).await
    }

    /// Opens the store to call one tool. Calls no model. Starts only the tool's server, if that server is known.
    pub async fn open_tool(mut self, tool: &ToolName) -> anyhow::Result<Place> {
        self.starts = Starts::ServerOf(tool.clone());
        Box::pin(self.open(&[], Consent::Ask)).await
    }

    /// Returns the flags with which a later command finds the same folder and store.
    pub fn place_flags(&self) -> String {
        let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
        flags([("--dir", path(&self.place.dir)), ("--store", path(&self.place.store))])
    }

    /// Returns the same flags, plus those that select the same model and provider if no run has recorded them.
    pub fn same_flags(&self) -> String {
        let ModelFlags { base_url, api_key_env, .. } = &self.model;
        self.place_flags()
            + &flags([("--base-url", base_url.clone()), ("--api-key-env", api_key_env.clone())])
    }
}

/// Formats flags with shell-quoted values, each preceded by a space.
fn flags<const N: usize>(flags: [(&str, Option<String>); N]) -> String {
    let given = flags.into_iter().filter_map(|(flag, value)| Some(format!(" {flag} {}", quoted(&value?))));
    given.collect()
}

impl Place {
    /// Builds the agent of a new run. Validates its models and prints warnings about them.
    pub fn agent(&self, console: &Console) -> anyhow::Result<AgentConfig> {
        let agent = self.ground.settings.agent();
        if self.ground.settings.source == ModelSource::Nothing {
            console.warn(
                &format!(
                    "no model key in the environment: using `{DEMO_MODEL}`, which is a script and not an AI"
                ),
                &["set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY, or name a model with `--model`"],
            );
        }
        // The settings always name at least one model, so the index is valid.
        check_model(console, &self.models.now(), &agent.models[0], &agent.settings)?;
        for fallback in &agent.models[1..] {
            if let Err(error) = check_model(console, &self.models.now(), fallback, &agent.settings) {
                console.warn(&format!("the fallback `{fallback}` cannot be used: {error}"), &[]);
            }
        }
        Ok(agent)
    }

    /// Returns the integrations of workspaces. Opens them on first use.
    pub async fn integrations(&self) -> anyhow::Result<Arc<Integrations>> {
        if let Some(integrations) = self.connected.get() {
            return Ok(integrations.clone());
        }
        let vault = Vault::open(&self.ground.store())?;
        let reach = Reach::new(self.ground.settings.server.internal_hosts.clone().unwrap_or_default());
        let integrations = Integrations::open(self.engine.records().clone(), clock(), vault, reach).await?;
        // If another task has set the cell first, its value is equivalent.
        let _ = self.connected.set(Arc::new(integrations));
        Ok(self.connected.wait().await.clone())
    }

    /// Builds a task for the agent.
    pub fn task(&self, agent: &AgentConfig, text: impl Into<String>) -> Task {
        let mut task = Task::new(agent.clone(), text);
        task.options.utc_offset_minutes = Some(zone::utc_offset_minutes());
        task.options.access.clone_from(&self.ground.access);
        task.folder = Some(self.homes.ground().path().display().to_string());
        task
    }
}

/// Returns an error if a model cannot be called or is known to lack an ability that the agent needs: tool calls, and
/// structured output if the settings have a schema. An unknown model only causes a warning. (SK-L13)
pub fn check_model(
    console: &Console,
    catalog: &ProviderCatalog,
    model: &ModelName,
    settings: &ModelSettings,
) -> anyhow::Result<()> {
    let resolved = catalog.resolve(model)?;
    if let Some(ability) = resolved.info().lacks(Ability::needed(settings)) {
        let hint = "choose another model with `--model provider/name`";
        return Err(Trouble::usage(ability.refusal(model)).hint(hint).into());
    }
    let provider = config::provider_of(model);
    let name = model.as_str().split_once('/').map_or(model.as_str(), |(_, name)| name);
    let describe = format!("describe it under `[providers.{provider}.models.\"{name}\"]`");
    if resolved.info().can(Ability::ToolCalls).is_none() {
        console
            .warn(&format!("unknown model `{model}`: assuming that it supports tool calls; {describe}"), &[]);
    } else if settings.output_schema.is_some() && resolved.info().can(Ability::StructuredOutput).is_none() {
        let what = "assuming that it supports structured output";
        console.warn(&format!("model `{model}`: {what}; {describe}"), &[]);
    }
    Ok(())
}
