//! The names of OpenTelemetry's conventions for generative AI, in one place: they are in development and change.
//!
//! Names of our own are where they are used.

/// The conventions that these names are of: those in development in the repository `semantic-conventions-genai`, which
/// the core conventions of this version point to.
pub const CONVENTIONS: &str = "1.44.0";

pub const OPERATION: &str = "gen_ai.operation.name";
pub const AGENT: &str = "gen_ai.agent.name";
pub const CONVERSATION: &str = "gen_ai.conversation.id";
pub const PROVIDER: &str = "gen_ai.provider.name";
pub const MODEL: &str = "gen_ai.request.model";
pub const FINISH: &str = "gen_ai.response.finish_reasons";
pub const TOOL: &str = "gen_ai.tool.name";
pub const CALL: &str = "gen_ai.tool.call.id";
pub const INPUT: &str = "gen_ai.usage.input_tokens";
pub const OUTPUT: &str = "gen_ai.usage.output_tokens";
pub const CACHED: &str = "gen_ai.usage.cache_read.input_tokens";
pub const ERROR: &str = "error.type";

/// Operations, which are the names of spans too.
pub const INVOKE_AGENT: &str = "invoke_agent";
pub const CHAT: &str = "chat";
pub const EXECUTE_TOOL: &str = "execute_tool";
