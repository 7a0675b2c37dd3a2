//! The policy for the verdicts of a round: read for inputs that need a verdict, and again for waiting calls.
//!
//! The machine judges calls. This module only reads the current policy, tools and links.

use std::collections::BTreeSet;

use windlass_machine::{
    Call, CallStatus, Command, Digest, Given, Input, Machine, Phase, Principal, RunId, Seq, Timestamp,
    ToolName, View,
};

use crate::drive::catalog::ToolCatalog;
use crate::drive::journal::append::Patience;
use crate::drive::policy::service::PolicyNow;
use crate::drive::thread::actors::ActorServices;
use crate::drive::thread::ended::Ended;
use crate::drive::thread::flight::InFlight;
use crate::port::records::RecordChange;

/// A call that was judged again, with all inputs of its verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::drive::thread) struct Rejudged {
    /// The step, and the call's index in it.
    place: (Seq, usize),
    /// The policy versions of the new and of the previous verdict.
    policies: (u64, u64),
    /// Digest of the judged call, and whether it was approved. An edit or an approval changes these values.
    call: (Digest, bool),
}

impl Rejudged {
    fn of(place: (Seq, usize), call: &Call, now: u64) -> Self {
        Self { place, policies: (now, call.view), call: (call.approval, call.approved) }
    }
}

/// Policy and tools for the verdicts of a thread's calls.
#[derive(Default)]
pub(in crate::drive::thread) struct Judging {
    /// Position of the newest `step.started` event.
    pub step: Seq,
    /// The run's own tools that this process does not have.
    lacks: Option<(RunId, BTreeSet<ToolName>)>,
    /// Whether the run has its own tools, and no round was decided since they were looked up.
    pub is_taken_up: bool,
    /// The calls that were last judged again.
    rejudged: Vec<Rejudged>,
    /// The policy for the user that the run works for.
    policy: Option<(Principal, PolicyNow)>,
    /// Whether this round has used a grant.
    pub uses_grants: bool,
}

impl Judging {
    /// Reports to the machine which of the run's own tools this process does not have. The tools are looked up once
    /// per run, so that the set does not change during the run.
    pub(in crate::drive::thread) async fn know_tools(
        &mut self,
        catalog: &ToolCatalog,
        machine: &mut Machine,
    ) {
        let state = machine.state();
        let Some(run) = &state.run else {
            machine.lack(BTreeSet::new());
            return;
        };
        let is_known = self.lacks.as_ref().is_some_and(|(of, _)| *of == run.id);
        if !is_known {
            self.policy = None;
            self.is_taken_up = !run.options.own_tools.is_empty();
            self.lacks = Some((run.id.clone(), catalog.lacking(state).await));
        }
        if let Some((_, lacks)) = &self.lacks {
            machine.lack(lacks.clone());
        }
    }

    /// Drops the values that were read for a round that was not written.
    pub(in crate::drive::thread) fn forget(&mut self) {
        self.policy = None;
        self.rejudged.clear();
    }

    /// Counts a use of a grant. Returns the change of its record for the append.
    pub(in crate::drive::thread) fn use_up(&mut self, grant: &str) -> Option<RecordChange> {
        self.uses_grants = true;
        let (_, policy) = self.policy.as_mut()?;
        policy.use_up(grant)
    }

    /// Adds the current policy to an input whose decision needs it.
    pub(in crate::drive::thread) async fn look_up(
        &mut self,
        services: &ActorServices,
        machine: &Machine,
        in_flight: &mut InFlight,
        input: &mut Input,
    ) -> Result<(), Ended> {
        let judged = match input {
            Input::ModelReplied(replied) => !replied.view.calls.is_empty(),
            Input::Lost { command, .. } => matches!(command, Command::CallTool { .. }),
            // The call may be started again.
            Input::ToolStopped { .. } | Input::NotDispatched { .. } => true,
            Input::Answered { .. } => true,
            _ => false, // tidy: nothing else is judged
        };
        let is_loosened = || self.policy.as_ref().is_some_and(|(_, policy)| policy.is_loosened());
        let may_have_changed = matches!(input, Input::ToolStopped { .. } | Input::NotDispatched { .. });
        if judged && (is_loosened() || may_have_changed) {
            // Another process may have tightened a loosened policy. While a call hung or its tool changed, every part
            // of the policy may have changed.
            look_at_changes(services).await?;
        }
        let policy = if judged { self.policy(services, machine).await? } else { None };
        let Some(policy) = policy else { return Ok(()) };
        match input {
            Input::ModelReplied(replied) => {
                replied.view = policy.view(std::mem::take(&mut replied.view.calls))
            }
            Input::Answered { answers, view, .. } => {
                *view = view_again(services, machine, in_flight, &policy, answers).await;
            }
            Input::Lost { view, .. }
            | Input::ToolStopped { view, .. }
            | Input::NotDispatched { view, .. } => {
                *view = view_again(services, machine, in_flight, &policy, &[]).await;
            }
            _ => {} // tidy: nothing else is judged
        }
        Ok(())
    }

    /// Returns the current policy for the active run.
    async fn policy(
        &mut self,
        services: &ActorServices,
        machine: &Machine,
    ) -> Result<Option<PolicyNow>, Ended> {
        let state = machine.state();
        let Some(run) = &state.run else { return Ok(None) };
        let mut patience = Patience::new();
        if let Some((user, policy)) = &mut self.policy
            && *user == run.by
        {
            // A policy with unwritten uses of grants stays valid, because only this round knows these uses.
            let counts = self.uses_grants || !services.policy.is_stale(policy);
            let counts = counts
                || loop {
                    match services.policy.confirm(policy, user, machine.thread()).await {
                        Ok(is_confirmed) => break is_confirmed,
                        Err(error) => patience.after(&*services.clock, error).await.map_err(Ended::Store)?,
                    }
                };
            if counts {
                return Ok(Some(policy.clone()));
            }
        }
        let policy = loop {
            match services.policy.policy_for(&run.by, machine.thread()).await {
                Ok(policy) => break policy,
                Err(error) => patience.after(&*services.clock, error).await.map_err(Ended::Store)?,
            }
        };
        let policy = if run.options.own_tools.is_empty() {
            policy
        } else {
            policy.with_tools(services.catalog.of_run(&state.workspace, machine.thread(), run).digest)
        };
        self.policy = Some((run.by.clone(), policy.clone()));
        Ok(Some(policy))
    }

    /// Judges waiting calls again before any of them starts, if the policy or a symbolic link has changed. A run with
    /// its own tools may have calls that were only waiting for a process with these tools.
    pub(in crate::drive::thread) async fn rejudge(
        &mut self,
        services: &ActorServices,
        machine: &Machine,
        in_flight: &mut InFlight,
        at: Timestamp,
    ) -> Result<Option<Input>, Ended> {
        if waiting(machine, at).next().is_none() {
            return Ok(None);
        }
        // Changes by other processes apply immediately.
        look_at_changes(services).await?;
        let Some(policy) = self.policy(services, machine).await? else { return Ok(None) };
        let (step, now) = (self.step, policy.version);
        let calls = waiting(machine, at).map(|(index, _)| index);
        let folder = in_flight.folder(machine.state());
        let elsewhere = services.inspector.led_elsewhere(machine.state(), &folder, calls).await;
        let older =
            waiting(machine, at).filter(|(index, call)| call.view != now || elsewhere.contains(index));
        let older: Vec<Rejudged> =
            older.map(|(index, call)| Rejudged::of((step, index), call, now)).collect();
        // A rejudgement that changes nothing is not recorded, so each call is judged once per state and policy.
        if !self.is_taken_up && older.iter().all(|one| self.rejudged.contains(one)) {
            return Ok(None);
        }
        self.rejudged = older;
        let view = view_again(services, machine, in_flight, &policy, &[]).await;
        Ok(Some(Input::Rejudge { view }))
    }
}

/// Creates a view of the open calls in their current state.
async fn view_again(
    services: &ActorServices,
    machine: &Machine,
    in_flight: &mut InFlight,
    policy: &PolicyNow,
    answers: &[Given],
) -> View {
    let folder = in_flight.folder(machine.state());
    services.inspector.view_again(machine.state(), &folder, policy, answers).await
}

/// Reads whether other processes have changed the policy.
async fn look_at_changes(services: &ActorServices) -> Result<(), Ended> {
    let mut patience = Patience::new();
    while let Err(error) = services.policy.look_at_changes().await {
        patience.after(&*services.clock, error).await.map_err(Ended::Store)?;
    }
    Ok(())
}

/// Returns the calls that were judged but not started, with
/// their indexes. Deferred calls are included if they are due.
fn waiting(machine: &Machine, now: Timestamp) -> impl Iterator<Item = (usize, &Call)> {
    let calls = match machine.state().run.as_ref().map(|run| &run.phase) {
        Some(Phase::Calls(line)) => line.calls.as_slice(),
        Some(Phase::Ready | Phase::Calling | Phase::Retrying(_) | Phase::Parked(_)) | None => &[],
    };
    let waits = move |call: &Call| match &call.status {
        CallStatus::Previewing { .. } | CallStatus::Asking(_) | CallStatus::Ready => call.view != 0,
        CallStatus::Deferred { .. } => call.view != 0 && call.status.is_due(now),
        // A process without the call's tool decided the model's reply.
        CallStatus::New => true,
        CallStatus::Started
        | CallStatus::Reconciling { .. }
        | CallStatus::Unresolved { .. }
        | CallStatus::Done => false,
    };
    calls.iter().enumerate().filter(move |(_, call)| waits(call) && !machine.lacks(&call.tool))
}
