//! The view that a decision carries: what is known of each call from outside the thread, read just before.
//!
//! It judges nothing; the gate does.

use windlass_machine::{Arguments, Block, CallView, Content, Digest, Phase, State, View, repair_arguments};

use super::Deps;

impl Deps {
    /// The view for a reply's calls. The blocks still hold their texts inline.
    pub(crate) fn view_of(&self, blocks: &[Block]) -> View {
        let policy = self.policy();
        let calls = blocks.iter().filter_map(|block| match block {
            Block::ToolCall(call) => {
                Some(self.call_view(call.name.as_str(), call.asked.inline().unwrap_or_default()))
            }
            Block::Text { .. }
            | Block::Image { .. }
            | Block::File { .. }
            | Block::Reasoning { .. }
            | Block::ToolResult(_)
            | Block::Opaque { .. } => None,
        });
        View { version: policy.version(), auto_run: policy.auto_run, calls: calls.collect() }
    }

    /// The view for the open calls of a thread's step.
    pub(crate) fn view_again(&self, state: &State) -> View {
        let policy = self.policy();
        let mut calls = Vec::new();
        if let Some(Phase::Calls(line)) = state.run.as_ref().map(|run| &run.phase) {
            for call in &line.calls {
                calls.push(self.settled_view(call.tool.as_str(), &call.arguments));
            }
        }
        View { version: policy.version(), auto_run: policy.auto_run, calls }
    }

    fn call_view(&self, tool: &str, arguments: &str) -> CallView {
        let Some(tool) = self.registry.get(tool) else { return CallView::Unknown };
        let arguments = self.check(tool.spec().name.as_str(), arguments);
        CallView::Known { class: tool.effect_class(), annotations: tool.spec().annotations, arguments }
    }

    /// The view of a call whose arguments were checked before. (A blob is named by the digest of its bytes.)
    fn settled_view(&self, tool: &str, arguments: &Content) -> CallView {
        let Some(tool) = self.registry.get(tool) else { return CallView::Unknown };
        let digest = match arguments {
            Content::Inline(text) => Digest::of(text.as_bytes()),
            Content::Blob(blob) => blob.digest,
        };
        let arguments = Arguments::AsAsked { digest };
        CallView::Known { class: tool.effect_class(), annotations: tool.spec().annotations, arguments }
    }

    /// Parses, repairs and validates arguments.
    fn check(&self, tool: &str, text: &str) -> Arguments {
        let (value, repaired) = match repair_arguments(text) {
            Ok(read) => read,
            Err(reason) => return Arguments::Invalid { reason },
        };
        if let Err(reason) = self.registry.check_arguments(tool, &value) {
            return Arguments::Invalid { reason };
        }
        if !repaired {
            return Arguments::AsAsked { digest: Digest::of(text.as_bytes()) };
        }
        let text = value.to_string();
        Arguments::Repaired { digest: Digest::of(text.as_bytes()), arguments: Content::Inline(text) }
    }
}
