//! Where a command works: the folder, its settings, the store and the engine over it.
//!
//! Everything is checked here, before anything is started or changed.

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

/// A folder with its settings, before anything is opened.
#[derive(Clone)]
pub struct Ground {
    /// The working folder.
    pub folder: PathBuf,
    /// The user's own directories.
    pub user: UserPaths,
    /// The settings.
    pub settings: Settings,
    /// The policy files that count here: the user's, then the folder's.
    pub policies: Vec<InForce>,
    /// What flags say, for a model that is known only later.
    flags: Flags,
    place: PlaceFlags,
    /// Flags that a later command has to repeat.
    model: ModelFlags,
    /// What a new run records of how its model is reached.
    access: Option<Box<ModelAccess>>,
    /// Providers as the files have them.
    configured: BTreeMap<String, ProviderFile>,
    /// How providers of resumed runs are reached: address and variable.
    reached: BTreeMap<String, (Option<String>, Option<String>)>,
    /// Which servers are started although no model is named.
    starts: Starts,
    /// The files in the folder that settings start or read, which file tools do not change.
    programs: Vec<PathBuf>,
}

/// An opened store with an engine over it.
pub struct Place {
    /// Where it is, and how it is set up.
    pub ground: Ground,
    /// The engine.
    pub engine: Engine,
    /// The models that it calls.
    pub models: Arc<Catalog>,
    /// The folders that conversations work in.
    pub homes: Homes,
    /// The tool servers; none where nothing is started, or there are none.
    pub servers: Option<Arc<Servers>>,
    /// The systems that workspaces are connected with, once somebody needs them.
    connected: connected::Opened,
}

/// Which servers are started if no model is named.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Starts {
    Nothing,
    Servers,
    /// For a call of one tool.
    ServerOf(ToolName),
}

/// Whether a person may be asked to trust the folder's file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    /// On a terminal.
    OnTerminal,
    /// Not for this command: it starts nothing.
    Never,
}

/// Which calls run without a person's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consent {
    /// Those that the rules, grants and `auto-run` let through.
    Ask,
    /// All that no rule denies, and that needs nobody else's approval (`--yes`).
    Everything,
}

impl Consent {
    /// What `--yes` stands for.
    pub fn of(yes: bool) -> Self {
        if yes { Self::Everything } else { Self::Ask }
    }

    /// The rules that count beside it. `--yes` is a rule that allows, and one approval of whoever types it: a rule that
    /// asks for no more than that is answered by it.
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
    /// Reads the settings that count in a folder.
    pub fn find(
        console: &Console,
        place: &PlaceFlags,
        model: &ModelFlags,
        ask: Ask,
    ) -> Result<Self, Trouble> {
        let user = UserPaths::find()?;
        let folder = place.folder();
        if !folder.is_dir() {
            return Err(Trouble::usage(format!("`{}` is no folder", folder.display()))
                .hint("name the working folder with `--dir`"));
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

    /// The rules that count here.
    pub fn rules(&self) -> Vec<Rule> {
        self.policies.iter().flat_map(|file| file.rules.clone()).collect()
    }

    /// The store's folder.
    pub fn store(&self) -> PathBuf {
        let named = self.settings.store.as_ref();
        let whole = |store: &PathBuf| std::path::absolute(store).unwrap_or_else(|_| store.clone());
        named.map_or_else(|| self.user.store_of(&self.folder), whole)
    }

    /// Opens the store, and makes it where it is missing. `used` are the models that will be called.
    pub async fn open(self, used: &[ModelName], consent: Consent) -> anyhow::Result<Place> {
        let rules = consent.over(self.rules());
        let finish = |builder: Builder| builder.rules(rules).roles_of(|_| async { Ok(local().roles) });
        // On the heap: every command that opens a store would carry it.
        Box::pin(self.open_with(used, Back::Page, finish)).await
    }

    /// Opens the store for a server: it also drives what nobody drives, and people have the roles of their accounts.
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
        // The accounts are in the store that is being opened: whoever asks before they are there waits for them.
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
        // It was made above and is set nowhere else.
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
        // What servers left behind is in the store, and their tools are there before anything is driven.
        let (builder, records) = Box::pin(builder.open_store()).await?;
        // Whoever only looks starts nothing.
        let starts = match (used, &back) {
            ([], _) if self.starts == Starts::Nothing => false,
            (_, Back::At(_)) => true,
            (_, Back::Page) => servers::are_any(&self.settings, &*records).await?,
        };
        let servers = match starts {
            false => None,
            true => {
                let store = self.store();
                // On the heap: every command that opens a store would carry it.
                let which = match &self.starts {
                    Starts::ServerOf(tool) => Which::ServerOf(tool.as_str()),
                    Starts::Nothing | Starts::Servers => Which::All,
                };
                let started = Servers::start(&self.settings, &tools, &store, records, back, which);
                Some(Box::pin(started).await?)
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
        // What the servers' tools are filled in with. It may be wanted by any call from here on.
        let are_called = !used.is_empty() || place.servers.is_some();
        if are_called && !place.ground.settings.integrations.is_empty() {
            place.integrations().await?;
        }
        Ok(place)
    }

    /// Opens the store for looking: no model is called.
    pub async fn open_store(self) -> anyhow::Result<Place> {
        Box::pin(self.open(&[], Consent::Ask)).await
    }

    /// Opens the store for whoever looks at tools and tries them: the servers are started, and no model is called.
    pub async fn open_tools(self) -> anyhow::Result<Place> {
        self.open_to_go_on(Consent::Ask).await
    }

    /// Opens the store for whoever goes on with a run, whose model is found there: its calls need the servers.
    pub async fn open_to_go_on(mut self, consent: Consent) -> anyhow::Result<Place> {
        self.starts = Starts::Servers;
        Box::pin(self.open(&[], consent)).await
    }

    /// Opens the store for a call of one tool: no model is called. Only its server is started, if it is known.
    pub async fn open_tool(mut self, tool: &ToolName) -> anyhow::Result<Place> {
        self.starts = Starts::ServerOf(tool.clone());
        Box::pin(self.open(&[], Consent::Ask)).await
    }

    /// Flags that a later command needs to find the same folder and store.
    pub fn place_flags(&self) -> String {
        let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
        flags([("--dir", path(&self.place.dir)), ("--store", path(&self.place.store))])
    }

    /// The same, and what reaches the same model if no run has recorded it.
    pub fn same_flags(&self) -> String {
        let ModelFlags { base_url, api_key_env, .. } = &self.model;
        self.place_flags()
            + &flags([("--base-url", base_url.clone()), ("--api-key-env", api_key_env.clone())])
    }
}

/// Flags with their values as a shell takes them, each after a blank.
fn flags<const N: usize>(flags: [(&str, Option<String>); N]) -> String {
    let given = flags.into_iter().filter_map(|(flag, value)| Some(format!(" {flag} {}", quoted(&value?))));
    given.collect()
}

impl Place {
    /// The agent of a new run, its models checked and what is worth knowing said.
    pub fn agent(&self, console: &Console) -> anyhow::Result<AgentConfig> {
        let agent = self.ground.settings.agent();
        if self.ground.settings.source == ModelSource::Nothing {
            console.warn(
                &format!(
                    "no model key in the environment: `{DEMO_MODEL}` answers, which is a script and no AI"
                ),
                &["set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY, or name a model with `--model`"],
            );
        }
        // The settings always name at least one model.
        check_model(console, &self.models.now(), &agent.models[0], &agent.settings)?;
        for fallback in &agent.models[1..] {
            if let Err(error) = check_model(console, &self.models.now(), fallback, &agent.settings) {
                console.warn(&format!("the fallback `{fallback}` cannot be used: {error}"), &[]);
            }
        }
        Ok(agent)
    }

    /// The systems that workspaces are connected with.
    pub async fn integrations(&self) -> anyhow::Result<Arc<Integrations>> {
        if let Some(integrations) = self.connected.get() {
            return Ok(integrations.clone());
        }
        let vault = Vault::open(&self.ground.store())?;
        let reach = Reach::new(self.ground.settings.server.internal_hosts.clone().unwrap_or_default());
        let integrations = Integrations::open(self.engine.records().clone(), clock(), vault, reach).await?;
        // Whoever was first has opened the same.
        let _ = self.connected.set(Arc::new(integrations));
        Ok(self.connected.wait().await.clone())
    }

    /// A task for that agent.
    pub fn task(&self, agent: &AgentConfig, text: impl Into<String>) -> Task {
        let mut task = Task::new(agent.clone(), text);
        task.options.utc_offset_minutes = Some(zone::utc_offset_minutes());
        task.options.access.clone_from(&self.ground.access);
        task.folder = Some(self.homes.ground().path().display().to_string());
        task
    }
}

/// Refuses a model that cannot be called or is known to lack what the agent needs: tool calls, and answers by a
/// schema where the settings have one. An unknown one only warns. (SK-L13)
pub fn check_model(
    console: &Console,
    catalog: &ProviderCatalog,
    model: &ModelName,
    settings: &ModelSettings,
) -> anyhow::Result<()> {
    let resolved = catalog.resolve(model)?;
    if let Some(ability) = resolved.info().lacks(Ability::needed(settings)) {
        let hint = "choose another one with `--model provider/name`";
        return Err(Trouble::usage(ability.refusal(model)).hint(hint).into());
    }
    let provider = config::provider_of(model);
    let name = model.as_str().split_once('/').map_or(model.as_str(), |(_, name)| name);
    let describe = format!("describe it under `[providers.{provider}.models.\"{name}\"]`");
    if resolved.info().can(Ability::ToolCalls).is_none() {
        console
            .warn(&format!("unknown model `{model}`: assuming that it supports tool calls; {describe}"), &[]);
    } else if settings.output_schema.is_some() && resolved.info().can(Ability::StructuredOutput).is_none() {
        let what = "assuming that it supports answers by a JSON schema";
        console.warn(&format!("model `{model}`: {what}; {describe}"), &[]);
    }
    Ok(())
}
