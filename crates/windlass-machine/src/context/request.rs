//! The request to a model: what `context/` builds from State and nothing else does.
//!
//! It is prefix plus tail. Large parts stand in it by digest; the driver puts the bytes beside it
//! before an adapter sees it.

use std::sync::Arc;

use serde::Serialize;

use crate::agent::ModelSettings;
use crate::id::ModelName;
use crate::message::{BlobRef, Content, Message};

/// A whole request to a model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModelRequest {
    /// Which model, `provider/model`.
    pub model: ModelName,
    /// Instructions, stable parts first. The first cache mark stands after them.
    pub system: Vec<Content>,
    /// The tool catalogue by digest. The second cache mark stands after it.
    pub tools: Option<BlobRef>,
    /// The history, oldest first: valid by construction, newest message last.
    pub messages: Vec<Arc<Message>>,
    /// Texts rebuilt for each step (time, reminders, nudges), after the last cache mark; sent as user text.
    pub tail: Vec<String>,
    /// How the model is asked.
    pub settings: ModelSettings,
}
