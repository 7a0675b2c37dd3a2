//! A task for an agent as the host program defines it: agent, message, and options of the run.
//!
//! This module holds data only; [`Engine::start`](crate::Engine::start) starts the run.

use std::fmt;
use std::sync::Arc;

use windlass_machine::{
    InputId, Limits, Message, Mode, ModelName, ModelSettings, Note, Principal, Role, RunOptions, ThreadId,
    ToolName, WhenBusy,
};

use crate::port::tool::Tool;

/// An agent definition from the host program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AgentConfig {
    /// Display name, also used in lists and usage sums.
    pub name: String,
    /// The model, `provider/model`, then the fallbacks tried in order.
    pub models: Vec<ModelName>,
    /// System instructions; stable parts first, so that prompt caches hit.
    pub instructions: Vec<String>,
    /// Model settings, such as temperature and output schema.
    pub settings: ModelSettings,
    /// Limits of each run.
    pub limits: Limits,
    /// The mode of a run, unless the task or an earlier run of the thread has set a mode.
    pub mode: Option<Mode>,
}

/// A message for an agent, with the options of the run that processes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    /// The agent definition, pinned when the run starts.
    pub agent: AgentConfig,
    /// The user's message.
    pub message: Message,
    /// The thread to run in; `None` creates a thread.
    pub thread: Option<ThreadId>,
    /// The sender's id of the message. A repeated send to the same thread within 24 h returns the result of the first
    /// send. `None` generates a new id.
    pub id: Option<InputId>,
    /// The user that the run works for.
    pub by: Principal,
    /// The tenant that the thread belongs to.
    pub workspace: String,
    /// The folder recorded for a new thread and passed to the function
    /// of [`Builder::folders`](crate::Builder::folders). An engine with
    /// one folder for all threads records that folder instead.
    pub folder: Option<String>,
    /// Options of the run, such as its mode and its time zone.
    pub options: RunOptions,
    /// The handling of the message if another run is active in the thread.
    pub when_busy: WhenBusy,
    /// Data of the host program, recorded in the same append as the message.
    pub note: Option<Note>,
    /// The tools of the run. Tools that the engine does not have stay in this process until the run ends, because
    /// they may contain secrets. Another process that resumes the run gets them from
    /// [`Builder::tools_of`](crate::Builder::tools_of). (LM-I7)
    pub tools: RunTools,
}

/// The tools of a run, relative to the engine's.
#[derive(Clone, Default)]
pub enum RunTools {
    /// The engine's tools.
    #[default]
    Usual,
    /// The engine's tools except the named tools, plus further tools. A
    /// further tool replaces the engine's tool of the same name.
    Replacing {
        /// Names of engine tools that the run does not have.
        names: Vec<ToolName>,
        /// The tools to add.
        tools: Vec<Arc<dyn Tool>>,
    },
    /// No tools: the model can only reply.
    Nothing,
}

impl RunTools {
    /// Returns the engine's tools plus `tools`, which replace engine tools of the same names.
    pub fn beside(tools: Vec<Arc<dyn Tool>>) -> Self {
        Self::Replacing { names: Vec::new(), tools }
    }
}

impl fmt::Debug for RunTools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usual => f.write_str("Usual"),
            Self::Replacing { names, tools } => {
                let tools: Vec<_> = tools.iter().map(|tool| &tool.spec().name).collect();
                f.debug_struct("Replacing").field("names", names).field("tools", &tools).finish()
            }
            Self::Nothing => f.write_str("Nothing"),
        }
    }
}

impl PartialEq for RunTools {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Usual, Self::Usual) | (Self::Nothing, Self::Nothing) => true,
            (
                Self::Replacing { names, tools },
                Self::Replacing { names: other_names, tools: other_tools },
            ) => {
                let mut pairs = tools.iter().zip(other_tools);
                names == other_names
                    && tools.len() == other_tools.len()
                    && pairs.all(|(tool, other)| Arc::ptr_eq(tool, other))
            }
            (Self::Usual | Self::Replacing { .. } | Self::Nothing, _) => false,
        }
    }
}

impl Task {
    /// Creates a task in a new thread from a text message.
    pub fn new(agent: AgentConfig, text: impl Into<String>) -> Self {
        Self {
            agent,
            message: Message::text(Role::User, text),
            thread: None,
            id: None,
            by: Principal::from("local"),
            workspace: "default".into(),
            folder: None,
            options: RunOptions::default(),
            when_busy: WhenBusy::default(),
            note: None,
            tools: RunTools::Usual,
        }
    }
}
