//! The tools that a hub offers, and the names that they are given.
//!
//! It knows no server.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};

use tokio::sync::watch;
use windlass_engine::port::tool::Tool;

use crate::hub::Shared;
use crate::hub::name::Names;
use crate::hub::resource::ResourceTools;
use crate::hub::tool::McpTool;

/// The tools of a hub.
pub(crate) struct HubOffer {
    names: Mutex<Names>,
    pub tools: RwLock<Arc<[Arc<dyn Tool>]>>,
    /// The same, as they were made: one that has not changed stays the same.
    pub made: Mutex<BTreeMap<String, Arc<McpTool>>>,
    pub resource_tools: [(String, Arc<dyn Tool>); 2],
    pub version: watch::Sender<u64>,
}

impl HubOffer {
    /// No tools of servers yet. The tools that read resources ask `hub`.
    pub fn new(names: Names, hub: &Weak<Shared>) -> Self {
        Self {
            names: Mutex::new(names),
            tools: RwLock::new(Arc::from([])),
            made: Mutex::default(),
            resource_tools: ResourceTools::of(hub.clone()),
            version: watch::Sender::new(0),
        }
    }

    pub fn names(&self) -> MutexGuard<'_, Names> {
        // A name is taken and given in one go.
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
