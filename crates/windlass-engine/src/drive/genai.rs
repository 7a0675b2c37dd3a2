//! The names of OpenTelemetry's conventions for generative AI, in one place: they are in development and change.
//!
//! Names of our own are where they are used.

/// The conventions that these names are of: those in development in the repository `semantic-conventions-genai`, which
/// the core conventions of this version point to.
pub const CONVENTIONS: &str = "1.44.0";

/// What is done: one of the operations below.
pub const OPERATION: &str = "gen_ai.operation.name";
/// The agent's name.
pub const AGENT: &str = "gen_ai.agent.name";
/// The conversation: a thread.
pub const CONVERSATION: &str = "gen_ai.conversation.id";
/// Who serves the model.
pub const PROVIDER: &str = "gen_ai.provider.name";
/// The model that is asked.
pub const MODEL: &str = "gen_ai.request.model";
/// Why a reply ended.
pub const FINISH: &str = "gen_ai.response.finish_reasons";
/// The tool's name.
pub const TOOL: &str = "gen_ai.tool.name";
/// The provider's id of a call.
pub const CALL: &str = "gen_ai.tool.call.id";
/// Tokens of the prompt.
pub const INPUT: &str = "gen_ai.usage.input_tokens";
/// Tokens of the reply.
pub const OUTPUT: &str = "gen_ai.usage.output_tokens";
/// Tokens of the prompt that came from a cache.
pub const CACHED: &str = "gen_ai.usage.cache_read.input_tokens";
/// What kind of failure it was; a name of the core conventions.
pub const ERROR: &str = "error.type";

/// A run.
pub const INVOKE_AGENT: &str = "invoke_agent";
/// A model call.
pub const CHAT: &str = "chat";
/// A tool call.
pub const EXECUTE_TOOL: &str = "execute_tool";
