//! Names from OpenTelemetry's conventions for generative AI. The conventions are in development and may change.
//!
//! Windlass's own field names are defined where they are used.

/// Version of the core conventions whose generative AI part these names follow. That part is developed in the
/// repository `semantic-conventions-genai`.
pub const CONVENTIONS: &str = "1.44.0";

/// The operation: one of the constants below.
pub const OPERATION: &str = "gen_ai.operation.name";
/// Name of the agent.
pub const AGENT: &str = "gen_ai.agent.name";
/// Id of the thread.
pub const CONVERSATION: &str = "gen_ai.conversation.id";
/// The provider that serves the model.
pub const PROVIDER: &str = "gen_ai.provider.name";
/// The requested model.
pub const MODEL: &str = "gen_ai.request.model";
/// The reason why the model stopped.
pub const FINISH: &str = "gen_ai.response.finish_reasons";
/// Name of the tool.
pub const TOOL: &str = "gen_ai.tool.name";
/// The provider's id of the call.
pub const CALL: &str = "gen_ai.tool.call.id";
/// Prompt tokens.
pub const INPUT: &str = "gen_ai.usage.input_tokens";
/// Generated tokens.
pub const OUTPUT: &str = "gen_ai.usage.output_tokens";
/// Prompt tokens read from a cache.
pub const CACHED: &str = "gen_ai.usage.cache_read.input_tokens";
/// The kind of failure; a name from the core conventions.
pub const ERROR: &str = "error.type";

/// Operation of a run.
pub const INVOKE_AGENT: &str = "invoke_agent";
/// Operation of a model call.
pub const CHAT: &str = "chat";
/// Operation of a tool call.
pub const EXECUTE_TOOL: &str = "execute_tool";
