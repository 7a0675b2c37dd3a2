//! What an agent is to do, as a host program says it: the agent, the message, and what the run has of its own.
//!
//! Nothing here starts anything.

use std::fmt;
use std::sync::Arc;

use windlass_machine::{
    InputId, Limits, Message, Mode, ModelName, ModelSettings, Note, Principal, Role, RunOptions, ThreadId,
    ToolName, WhenBusy,
};

use crate::port::tool::Tool;

/// An agent as a host program defines it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AgentConfig {
    /// The name people know it by.
    pub name: String,
    /// The model, `provider/model`, then the fallbacks tried in order.
    pub models: Vec<ModelName>,
    /// Instructions, stable parts first.
    pub instructions: Vec<String>,
    /// How the model is asked.
    pub settings: ModelSettings,
    /// What a run may use at most.
    pub limits: Limits,
    /// The mode of its runs, where nobody has chosen one for the run or for one before it in the thread.
    pub mode: Option<Mode>,
}

/// What an agent is to do.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    /// Who does it.
    pub agent: AgentConfig,
    /// The message.
    pub message: Message,
    /// The thread; `None` makes one.
    pub thread: Option<ThreadId>,
    /// The sender's id of the message, by which a repeated send to the same thread is recognised for 24 h: it returns
    /// what the first led to. `None` draws one.
    pub id: Option<InputId>,
    /// Who asks.
    pub by: Principal,
    /// The tenant.
    pub workspace: String,
    /// What is recorded as the folder of a new thread's tools, and told to whoever finds it
    /// ([`Builder::folders`](crate::Builder::folders)). An engine with one folder for all threads records that one.
    pub folder: Option<String>,
    /// How the run behaves.
    pub options: RunOptions,
    /// What happens while another run is active in the thread.
    pub when_busy: WhenBusy,
    /// Data of the host program, recorded in the append that takes the message.
    pub note: Option<Note>,
    /// Which tools the run has. Those that the engine does not have stay in this process until the run ends, with the
    /// secrets in them; another process that resumes the run calls [`Builder::tools_of`](crate::Builder::tools_of) for
    /// them. (LM-I7)
    pub tools: RunTools,
}

/// The tools of a run.
#[derive(Clone, Default)]
pub enum RunTools {
    /// The engine's.
    #[default]
    Usual,
    /// The engine's without those that have these names, and further tools. A further tool replaces the engine's of the
    /// same name.
    Replacing {
        /// Names of tools of the engine that the run does not have.
        names: Vec<ToolName>,
        /// The further tools.
        tools: Vec<Arc<dyn Tool>>,
    },
    /// None: the model can only reply.
    Nothing,
}

impl RunTools {
    /// The engine's tools and further ones, which replace the engine's of the same names.
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
    /// A task in words.
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
