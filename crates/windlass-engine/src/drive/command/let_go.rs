//! Notifies tools of deferred or asking calls that will never resume because their run has ended. The tools can then
//! stop work that they started elsewhere.
//!
//! The notification is best effort: the process that records the run's end sends it once. The outcome of the call was
//! recorded before, and no code waits for the tool.

use std::sync::Arc;

use windlass_machine::{CallStatus, Content, Event, Fact, Outcome, Phase, State, ThreadId};

use crate::drive::catalog::ToolCatalog;
use crate::drive::contents::Contents;
use crate::port::clock::Clock;
use crate::port::tool::Tool;

/// Timeout for the tool's handler in milliseconds: enough for one request to a server.
const WITHIN_MS: u64 = 30_000;

/// An abandoned call with recorded state.
pub(in crate::drive) struct LetGo {
    tool: Arc<dyn Tool>,
    state: Content,
}

impl LetGo {
    /// Returns the call that an event ends before it could resume, if its tool has recorded state. The event is not
    /// applied to the thread's state yet.
    pub(in crate::drive) fn of(
        catalog: &ToolCatalog,
        thread: &ThreadId,
        state: &State,
        event: &Event,
    ) -> Option<Self> {
        let Fact::ToolFinished { call: key, outcome: Outcome::Cancelled | Outcome::InDoubt, .. } =
            &event.fact
        else {
            return None;
        };
        let run = state.run.as_ref()?;
        let Phase::Calls(line) = &run.phase else { return None };
        let call = line.calls.get(key.index as usize)?;
        let waits = match call.status {
            CallStatus::Deferred { .. } | CallStatus::Asking(_) => call.starts > 0,
            CallStatus::New
            | CallStatus::Previewing { .. }
            | CallStatus::Ready
            | CallStatus::Started
            | CallStatus::Reconciling { .. }
            | CallStatus::Unresolved { .. }
            | CallStatus::Done => false,
        };
        let parked = call.parked.clone().filter(|_| waits)?;
        let tools = catalog.of_run(&state.workspace, thread, run);
        Some(Self { tool: tools.registry.get(call.tool.as_str())?, state: parked })
    }

    /// Notifies the tool in the background.
    pub(in crate::drive) fn tell(self, contents: Arc<Contents>, clock: Arc<dyn Clock>) {
        tokio::spawn(async move {
            let state = match contents.text_of(&self.state).await {
                Ok(state) => state,
                Err(error) => return tracing::debug!(%error, "a call that is let go of cannot be told so"),
            };
            tell(&*self.tool, &state, &*clock).await;
        });
    }
}

/// Notifies a tool of an abandoned call.
pub(in crate::drive) async fn tell(tool: &dyn Tool, state: &str, clock: &dyn Clock) {
    tokio::select! {
        () = tool.let_go(state) => {}
        () = clock.sleep_ms(WITHIN_MS) => {}
    }
}
