//! Processes that do not have every tool of the run: a call waits while its tool is missing.

use std::collections::BTreeSet;

use windlass_machine::*;

use super::World;

/// Tools that only some processes have: one that usually runs without asking, one that a rule asks about, and one
/// that asks people itself.
const OWN: [&str; 3] = ["Tool", "Pay", "Question"];

impl World {
    /// Another process takes the thread over. Sets the tools that it does not have, and lets it judge calls whose
    /// tool was missing before.
    pub fn lack(&mut self) {
        let lacks = self.dice.one_in(3);
        self.have(if lacks { OWN.map(ToolName::from).into() } else { BTreeSet::new() });
    }

    /// Returns the tools that the process does not have.
    pub fn lacked(&self) -> BTreeSet<ToolName> {
        OWN.map(ToolName::from).into_iter().filter(|tool| self.machine.lacks(tool)).collect()
    }

    fn have(&mut self, lacks: BTreeSet<ToolName>) {
        self.machine.lack(lacks);
        let run = self.machine.state().run.as_ref();
        if let Some(Phase::Calls(line)) = run.map(|run| &run.phase) {
            self.judges_late |= line.calls.iter().any(|call| call.status == CallStatus::New);
            // A view with a version means that the policy is unchanged.
            self.mail.push_back(Input::Rejudge { view: View { version: 1, ..View::default() } });
        }
    }

    /// Moves a thread whose calls wait for their tools to a process that has all tools.
    pub fn find_tools(&mut self) -> bool {
        let missing = !self.machine.missing().is_empty();
        if missing || !self.lacked().is_empty() {
            self.crash();
            self.have(BTreeSet::new());
            return true;
        }
        false
    }

    /// Returns a process's view of a step's calls: unknown for missing tools.
    pub fn seen(&self, mut calls: Vec<CallView>, names: impl Iterator<Item = ToolName>) -> Vec<CallView> {
        for (known, name) in calls.iter_mut().zip(names) {
            if self.machine.lacks(&name) {
                *known = CallView::Unknown;
            }
        }
        calls
    }

    /// Checks that no call is started, previewed or refused because its tool is only in another process.
    pub fn check_lacks(&self, before: &Machine, decided: &[Event]) {
        let run = before.state().run.as_ref();
        let tool = |key: &CallKey| match run.map(|run| &run.phase) {
            Some(Phase::Calls(line)) => line.calls.get(key.index as usize).map(|call| call.tool.clone()),
            Some(Phase::Ready | Phase::Calling | Phase::Retrying(_) | Phase::Parked(_)) | None => None,
        };
        for event in decided {
            match &event.fact {
                Fact::ToolStarted { call, .. } | Fact::CallPreviewing { call, .. } => {
                    assert!(
                        !tool(call).is_some_and(|tool| before.lacks(&tool)),
                        "{event:?} without its tool"
                    );
                }
                Fact::ToolFinished { call, outcome: Outcome::Refused, content, .. } => {
                    let lacks = tool(call).is_some_and(|tool| before.lacks(&tool));
                    let text = format!("{content:?}");
                    assert!(
                        !lacks || !text.contains("available") && !text.contains("Unknown tool"),
                        "{text}"
                    );
                }
                _ => {} // tidy: nothing else is done by a tool
            }
        }
    }
}
