//! The model library `rig`: implements Bedrock's wire, and is the oracle of the other wires in the tests.
//!
//! Its types are used only here and in `cloud/bedrock.rs`.

#[cfg(all(test, feature = "testing"))]
pub(crate) mod capture;
pub(crate) mod failure;
pub(crate) mod history;
mod media;
pub(crate) mod reply;
pub(crate) mod settings;
mod stop;
pub(crate) mod stream;
pub(crate) mod tools;
#[cfg(all(test, feature = "testing"))]
pub(crate) mod wire;

use std::collections::HashSet;

use rig_core::completion::history::adapt;
use rig_core::completion::{CompletionRequest, ReplayTarget};
use rig_core::message::{
    AssistantContent, Message as RigMessage, ToolChoice, ToolResultContent, UserContent,
};
use serde_json::{Map, Value};
use windlass_engine::port::model::{ModelCall, ModelError};
use windlass_machine::Origin;

use crate::library::history::{History, Target};
use crate::settings::Facts;

/// Converts a call to the library's request.
pub(crate) fn request(
    call: &ModelCall,
    recipient: &dyn ReplayTarget,
    origin: &Origin,
    facts: &Facts<'_>,
    extra_body: &Map<String, Value>,
) -> Result<CompletionRequest, ModelError> {
    let target = Target {
        kind: facts.kind,
        origin,
        library: history::library_origin(recipient.api(), recipient.provider(), recipient.model()),
        nine_letter_ids: facts.preset.name == "mistral",
    };
    let history = history::build(call, &target)?;
    let mut request = CompletionRequest::from(Vec::<RigMessage>::new());
    request.model = Some(target.library.model.clone());
    request.tools = tools::tools(call, facts.kind)?;
    let tools = !request.tools.is_empty();
    // Stated explicitly, because gateways have different defaults. (SK-L2)
    request.tool_choice = tools.then_some(ToolChoice::Auto);
    settings::apply(&mut request, &call.request.settings, facts, extra_body)?;
    if cfg!(debug_assertions) && !cfg!(test) {
        check_unrepaired(&history, tools, recipient);
    }
    request.chat_history = history.messages;
    Ok(request)
}

/// The library silently repairs histories. Asserts that a plain history from Windlass needs no repair.
fn check_unrepaired(history: &History, tools: bool, target: &dyn ReplayTarget) {
    let system = |message: &RigMessage| matches!(message, RigMessage::System { .. });
    let later_system = history.messages.iter().skip_while(|message| system(message)).any(system);
    // Ids are unique only within a reply. The library distinguishes equal ids of different replies.
    let mut ids = HashSet::new();
    let calls = history.messages.iter().filter_map(|message| match message {
        RigMessage::Assistant(turn) => Some(turn.tool_calls()),
        RigMessage::System { .. } | RigMessage::User { .. } => None,
    });
    let distinct = calls.flatten().all(|call| ids.insert(&call.id));
    if tools && distinct && !later_system && history.messages.iter().all(is_plain) {
        let adapted = adapt(&history.messages, target);
        debug_assert_eq!(adapted, history.messages, "the model library changed a history before sending it");
    }
}

/// Whether the library should leave a message unchanged. It may change blocks of another origin, unsupported
/// media, and provider items that are sent only in pairs.
fn is_plain(message: &RigMessage) -> bool {
    match message {
        RigMessage::System { .. } => true,
        RigMessage::User { content } => content.iter().all(|part| match part {
            UserContent::Text(_) => true,
            // On some wires, a result is one text, so several results are joined.
            UserContent::ToolResult(result) => {
                matches!(result.content.as_slice(), [ToolResultContent::Text(_)])
            }
            UserContent::Image(_)
            | UserContent::Audio(_)
            | UserContent::Video(_)
            | UserContent::Document(_) => false,
        }),
        RigMessage::Assistant(turn) => {
            let paired = |block: &AssistantContent| matches!(block, AssistantContent::Opaque(_));
            turn.origin.is_some()
                && !turn.content.iter().any(paired)
                && !matches!(turn.content.last(), Some(AssistantContent::Reasoning(_)))
        }
    }
}
