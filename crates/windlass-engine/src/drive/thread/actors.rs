//! The services that the drivers of all threads share.
//!
//! The services hold no state of a single thread.

use std::sync::Arc;

use super::expiry::Expiries;
use crate::drive::catalog::ToolCatalog;
use crate::drive::command::background::BackgroundCommands;
use crate::drive::command::context::CommandServices;
use crate::drive::command::inspect::CallInspector;
use crate::drive::journal::store::ThreadStore;
use crate::drive::policy::budgets::BudgetService;
use crate::drive::policy::service::PolicyService;
use crate::port::bus::Bus;
use crate::port::clock::Clock;
use crate::port::observe::Observer;

/// Services shared by all drivers of an engine.
pub(crate) struct ActorServices {
    pub store: Arc<ThreadStore>,
    pub bus: Arc<dyn Bus>,
    pub clock: Arc<dyn Clock>,
    pub catalog: Arc<ToolCatalog>,
    pub policy: Arc<PolicyService>,
    pub budgets: Arc<BudgetService>,
    pub inspector: Arc<CallInspector>,
    pub background: Arc<BackgroundCommands>,
    pub commands: Arc<CommandServices>,
    pub observer: Option<Arc<dyn Observer>>,
    pub expiries: Expiries,
    /// Whether this engine also drives threads that need a driver and have none (`Attend::All`).
    pub attends: bool,
}
