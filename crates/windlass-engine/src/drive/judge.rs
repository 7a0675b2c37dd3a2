//! The policy that a round judges by: looked up for inputs that need it, and again for calls that wait.
//!
//! The machine judges. This reads the current policy, tools and links.

use windlass_machine::{
    Call, CallStatus, Command, Digest, Given, Input, Machine, Phase, Seq, Timestamp, View,
};

use super::Letter;
use super::actor::{Actor, Ended};
use super::append::Patience;
use super::policy::PolicyNow;
use super::round::Round;

/// A call as it was judged again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rejudged {
    /// The step, and the call's place in it.
    place: (Seq, usize),
    /// By which policy, and by which it was judged before.
    policies: (u64, u64),
    /// Digest of the judged call, and whether it was approved. An edit or an approval changes them.
    call: (Digest, bool),
}

impl Rejudged {
    fn of(place: (Seq, usize), call: &Call, now: u64) -> Self {
        Self { place, policies: (now, call.view), call: (call.approval, call.approved) }
    }
}

impl Actor {
    /// Puts the current policy into an input whose decision needs it.
    pub(super) async fn look_up(&mut self, input: &mut Input) -> Result<(), Ended> {
        let judged = match input {
            Input::ModelReplied(replied) => !replied.view.calls.is_empty(),
            Input::Lost { command, .. } => matches!(command, Command::CallTool { .. }),
            // It may be made again.
            Input::ToolStopped { .. } | Input::NotDispatched { .. } => true,
            Input::Answered { .. } => true,
            _ => false, // tidy: nothing else is judged
        };
        let is_loosened = || self.policy.as_ref().is_some_and(|(_, policy)| policy.is_loosened());
        let may_have_changed = matches!(input, Input::ToolStopped { .. } | Input::NotDispatched { .. });
        if judged && (is_loosened() || may_have_changed) {
            // Another process may have tightened a policy that was loosened; while a call hung or its tool changed,
            // anything may have changed.
            self.look_at_changes().await?;
        }
        let policy = if judged { self.policy().await? } else { None };
        let Some(policy) = policy else { return Ok(()) };
        match input {
            Input::ModelReplied(replied) => {
                replied.view = policy.view(std::mem::take(&mut replied.view.calls))
            }
            Input::Answered { answers, view, .. } => {
                *view = self.view_again(&policy, answers).await;
            }
            Input::Lost { view, .. }
            | Input::ToolStopped { view, .. }
            | Input::NotDispatched { view, .. } => {
                *view = self.view_again(&policy, &[]).await;
            }
            _ => {} // tidy: nothing else is judged
        }
        Ok(())
    }

    /// A view of the open calls in their current state.
    async fn view_again(&mut self, policy: &PolicyNow, answers: &[Given]) -> View {
        let folder = self.in_flight.folder(self.machine.state());
        self.deps.view_again(self.machine.state(), &folder, policy, answers).await
    }

    /// Reads whether other processes have changed the policy.
    pub(super) async fn look_at_changes(&mut self) -> Result<(), Ended> {
        let mut patience = Patience::new();
        while let Err(error) = self.deps.look_at_changes().await {
            patience.after(&self.deps, error).await.map_err(Ended::Store)?;
        }
        Ok(())
    }

    /// The policy that counts for the active run now.
    pub(super) async fn policy(&mut self) -> Result<Option<PolicyNow>, Ended> {
        let Some(run) = &self.machine.state().run else { return Ok(None) };
        if let Some((user, policy)) = &self.policy
            && *user == run.by
            // Uses that are not written yet count: they are known here alone.
            && (self.uses_grants || !self.deps.is_stale(policy))
        {
            return Ok(Some(policy.clone()));
        }
        let (user, has_own) = (run.by.clone(), !run.options.own_tools.is_empty());
        let mut patience = Patience::new();
        let policy = loop {
            match self.deps.policy_for(&user, &self.thread).await {
                Ok(policy) => break policy,
                Err(error) => patience.after(&self.deps, error).await.map_err(Ended::Store)?,
            }
        };
        let state = self.machine.state();
        let policy = match &state.run {
            Some(run) if has_own => {
                policy.with_tools(self.deps.tools_of((&state.workspace, &self.thread), run).digest)
            }
            Some(_) | None => policy,
        };
        self.policy = Some((user, policy.clone()));
        Ok(Some(policy))
    }

    /// A policy or a symbolic link that changed since calls were judged counts before any of them starts. A run with
    /// its own tools may have calls that only waited for a process that has them.
    pub(super) async fn rejudge(&mut self, round: &mut Round) -> Result<(), Ended> {
        if waiting(&self.machine, round.at).next().is_none() {
            return Ok(());
        }
        // Changes of other processes count at once.
        self.look_at_changes().await?;
        let Some(policy) = self.policy().await? else { return Ok(()) };
        let (step, now) = (self.step_seq, policy.version);
        let folder = self.in_flight.folder(self.machine.state());
        let calls = waiting(&self.machine, round.at).map(|(index, _)| index);
        let elsewhere = self.deps.led_elsewhere(self.machine.state(), &folder, calls).await;
        let older = waiting(&self.machine, round.at)
            .filter(|(index, call)| call.view != now || elsewhere.contains(index));
        let older: Vec<Rejudged> =
            older.map(|(index, call)| Rejudged::of((step, index), call, now)).collect();
        // A rejudgement that changes nothing records nothing: once for each call, as it stands, and policy is enough.
        if self.is_taken_up || !older.iter().all(|one| self.rejudged.contains(one)) {
            self.rejudged = older;
            let view = self.view_again(&policy, &[]).await;
            let letter = Letter::plain(Input::Rejudge { view });
            let _ = self.decide(&letter.input, &letter, round);
        }
        Ok(())
    }
}

/// The calls that were judged and have not started, with their places; those that were put off once their time has come.
fn waiting(machine: &Machine, now: Timestamp) -> impl Iterator<Item = (usize, &Call)> {
    let calls = match machine.state().run.as_ref().map(|run| &run.phase) {
        Some(Phase::Calls(line)) => line.calls.as_slice(),
        Some(Phase::Ready | Phase::Calling | Phase::Retrying(_) | Phase::Parked(_)) | None => &[],
    };
    let waits = move |call: &Call| match &call.status {
        CallStatus::Previewing { .. } | CallStatus::Asking(_) | CallStatus::Ready => call.view != 0,
        CallStatus::Deferred { .. } => call.view != 0 && call.status.is_due(now),
        // Its reply came where its tool was not.
        CallStatus::New => true,
        CallStatus::Started
        | CallStatus::Reconciling { .. }
        | CallStatus::Unresolved { .. }
        | CallStatus::Done => false,
    };
    calls.iter().enumerate().filter(move |(_, call)| waits(call) && !machine.lacks(&call.tool))
}
