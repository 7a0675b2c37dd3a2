//! The services of an engine and their wiring.
//!
//! Each service gets only the ports and services that it uses.

use std::sync::Arc;

use windlass_machine::{Offload, Policy};

use super::CreditOf;
use super::Reaches;
use super::catalog::ToolCatalog;
use super::catalog::own::OwnTools;
use super::catalog::tools::Tools;
use super::command::background::BackgroundCommands;
use super::command::context::CommandServices;
use super::command::folder::{FolderSource, Folders};
use super::command::inspect::CallInspector;
use super::command::offload::Offloading;
use super::command::trial::Trials;
use super::contents::Contents;
use super::journal::store::ThreadStore;
use super::policy::budgets::BudgetService;
use super::policy::prune::Pruner;
use super::policy::service::{PolicyService, Roles};
use super::thread::actors::ActorServices;
use super::thread::claim::renew;
use super::thread::expiry::Expiries;
use super::thread::registry::ThreadRegistry;
use super::thread::sweep::sweep;
use super::watch::WatchSource;
use crate::limits::Budget;
use crate::port::background::Background;
use crate::port::blob::Blobs;
use crate::port::bus::Bus;
use crate::port::clock::Clock;
use crate::port::hook::Hook;
use crate::port::journal::Journal;
use crate::port::model::Models;
use crate::port::observe::Observer;
use crate::port::offload::Summarizer;
use crate::port::records::Records;

/// The engine's ports and the host program's options.
pub(crate) struct Parts {
    // tidy: fields on their way to the services
    pub journal: Arc<dyn Journal>,
    pub blobs: Arc<dyn Blobs>,
    pub records: Arc<dyn Records>,
    pub bus: Arc<dyn Bus>,
    pub clock: Arc<dyn Clock>,
    pub models: Arc<dyn Models>,
    pub tools: Tools,
    pub own_tools: OwnTools,
    /// Tools that run background commands.
    pub background: Vec<Arc<dyn Background>>,
    pub folders: FolderSource,
    pub policy: Policy,
    pub budgets: Vec<Budget>,
    pub hook: Option<Arc<dyn Hook>>,
    pub observer: Option<Arc<dyn Observer>>,
    pub roles: Roles,
    pub credit_of: Option<Arc<CreditOf>>,
    /// The default for offloading long results, for runs without their own setting.
    pub offload: Option<Offload>,
    /// The host program's summarizer for offloaded results.
    pub summarizer: Option<Arc<Summarizer>>,
    /// See [`Builder::reaches`](crate::Builder::reaches).
    pub reaches: Option<Arc<Reaches>>,
    /// Whether this engine drives threads that no process drives.
    pub attends: bool,
    /// See [`Builder::driven_max`](crate::Builder::driven_max).
    pub driven_max: usize,
}

/// The services that an engine's handles call.
pub(crate) struct Services {
    pub store: Arc<ThreadStore>,
    pub records: Arc<dyn Records>,
    pub models: Arc<dyn Models>,
    pub contents: Arc<Contents>,
    pub catalog: Arc<ToolCatalog>,
    pub policy: Arc<PolicyService>,
    pub budgets: Arc<BudgetService>,
    pub folders: Arc<Folders>,
    pub background: Arc<BackgroundCommands>,
    pub registry: Arc<ThreadRegistry>,
    pub trials: Arc<Trials>,
    pub watch: Arc<WatchSource>,
}

impl Services {
    /// Wires the services together and starts the sweep.
    pub(crate) fn start(parts: Parts) -> Arc<Self> {
        let Parts { journal, blobs, records, bus, clock, models, hook, .. } = parts;
        let contents = Arc::new(Contents::new(blobs));
        let catalog = ToolCatalog::new(&journal, &clock, &contents, parts.tools, parts.own_tools);
        let catalog = Arc::new(catalog);
        let policy = PolicyService::new(&records, &clock, &catalog, parts.roles, parts.policy);
        let policy = Arc::new(policy);
        let budgets = Arc::new(BudgetService::new(parts.budgets, parts.credit_of, &models));
        let folders = Arc::new(Folders::new(parts.folders, &clock));
        let background = BackgroundCommands::new(parts.background, &journal, &records, &bus, &clock);
        let background = Arc::new(background);
        let store = Arc::new(ThreadStore::new(&journal, &clock, parts.reaches));
        let inspector = CallInspector::new(&contents, &catalog, &folders, &clock, hook.clone());
        let inspector = Arc::new(inspector);
        let commands = Arc::new(CommandServices {
            models: models.clone(),
            contents: contents.clone(),
            catalog: catalog.clone(),
            inspector: inspector.clone(),
            folders: folders.clone(),
            bus: bus.clone(),
            clock: clock.clone(),
            offloading: Offloading { default: parts.offload, summarizer: parts.summarizer },
        });
        let actors = Arc::new(ActorServices {
            store: store.clone(),
            bus: bus.clone(),
            clock: clock.clone(),
            catalog: catalog.clone(),
            policy: policy.clone(),
            budgets: budgets.clone(),
            inspector,
            background: background.clone(),
            commands,
            observer: parts.observer,
            expiries: Expiries::default(),
            attends: parts.attends,
        });
        let pruner = Pruner::new(&journal, &records, &clock, &contents, &catalog);
        let registry = ThreadRegistry::new(actors, contents.clone(), pruner, parts.driven_max);
        let trials = Arc::new(Trials::new(&catalog, &policy, &records, &folders, &clock, hook));
        if let Some(lease_ms) = journal.lease_ms() {
            tokio::spawn(renew(Arc::downgrade(&registry), lease_ms));
        }
        let watch = Arc::new(WatchSource { journal, bus, clock });
        tokio::spawn(sweep(Arc::downgrade(&registry)));
        Arc::new(Self {
            store,
            records,
            models,
            contents,
            catalog,
            policy,
            budgets,
            folders,
            background,
            registry,
            trials,
            watch,
        })
    }
}
