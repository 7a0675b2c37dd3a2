//! The tools that a hub offers, and their names.
//!
//! This module does not depend on servers.

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
    /// The server tools by name, without the resource tools. A rebuild reuses the `Arc` of an unchanged tool.
    pub made: Mutex<BTreeMap<String, Arc<McpTool>>>,
    pub resource_tools: [(String, Arc<dyn Tool>); 2],
    pub version: watch::Sender<u64>,
}

impl HubOffer {
    /// Creates an offer without server tools. The resource tools query `hub`.
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
        // A name is checked and assigned in one operation, so a panic cannot leave the names invalid.
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
