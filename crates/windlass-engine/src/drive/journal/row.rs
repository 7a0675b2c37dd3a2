//! The rows of lists, written with each append.
//!
//! The rows repeat content of the journal. No decision depends on them.

use windlass_machine::{
    Asked, Block, Event, Fact, InputId, InterruptKind, Machine, ModelName, Phase, Principal, Queued, Run,
    RunId, Seq, State, Timestamp, Totals,
};

use crate::port::journal::{AskedCall, RunView, ThreadAsks, ThreadStatus, ThreadView};

/// Returns the thread's current activity.
pub(in crate::drive) fn status(state: &State) -> ThreadStatus {
    match &state.run {
        None => ThreadStatus::Idle,
        Some(run) if run.is_sleeping() => ThreadStatus::Sleeping,
        Some(run) if run.waiting_since.is_some() => ThreadStatus::Waiting,
        Some(_) => ThreadStatus::Running,
    }
}

/// Returns a thread's columns in lists: a function of its journal alone.
pub(crate) fn thread_view(machine: &Machine) -> ThreadView {
    let state = machine.state();
    let interrupts = state.run.as_ref().map_or(0, |run| run.open().count() as u32);
    ThreadView {
        workspace: state.workspace.clone(),
        owner: state.owner.clone().unwrap_or_else(|| Principal::from("")),
        title: state.title.clone(),
        status: status(state),
        folder: state.folder.clone(),
        deadline: machine.wall_deadline(),
        interrupts,
        updated_at: state.wall_at(),
        forked_from: state.forked_from.clone(),
        asks: state.run.as_ref().map(asks).filter(|asks| !asks.interrupts.is_empty()).map(Box::new),
    }
}

/// Returns the open interrupts of a run.
pub(crate) fn asks(run: &Run) -> ThreadAsks {
    let asked_call = |(index, asked): (Option<usize>, &Asked)| {
        let call = match (&run.phase, index) {
            (Phase::Calls(line), Some(index)) => line.calls.get(index),
            _ => None, // tidy: no other phase has calls
        };
        let in_doubt = call.filter(|_| matches!(asked.kind, InterruptKind::InDoubt { .. }));
        AskedCall {
            asked: asked.clone(),
            expires_at: asked.expires_at(),
            tool: call.map(|call| call.tool.clone()),
            arguments: call.map(|call| call.arguments.clone()),
            doubt: in_doubt.and_then(|call| call.started_at.zip(call.doubt.clone())),
        }
    };
    let interrupts = run.open().map(asked_call).collect();
    ThreadAsks { run: run.id.clone(), run_started_at: run.started_at, interrupts }
}

/// Returns the columns of an active run.
pub(in crate::drive) fn run_view(run: &Run) -> RunView {
    RunView {
        run: run.id.clone(),
        agent: run.agent.name.clone(),
        model: run.model.clone(),
        queued: None,
        status: None,
        from: run.from,
        started_at: run.started_at,
        finished_at: None,
        totals: run.totals,
    }
}

/// Returns the columns of a run whose first message is queued.
pub(in crate::drive) fn queued_view(id: &InputId, queued: &Queued, from: Seq, at: Timestamp) -> RunView {
    RunView {
        run: queued.run.clone(),
        agent: queued.agent.name.clone(),
        // An agent has at least one model.
        model: queued.agent.models.first().cloned().unwrap_or_else(|| ModelName::from("")),
        queued: Some(id.clone()),
        status: None,
        from,
        started_at: at,
        finished_at: None,
        totals: Totals::default(),
    }
}

/// Returns the queued run whose message an event takes or withdraws. The event is not applied to the state yet.
pub(in crate::drive) fn unqueued(state: &State, event: &Event) -> Option<RunId> {
    let (Fact::MessageTaken { id } | Fact::MessageWithdrawn { id, .. }) = &event.fact else { return None };
    let waiting = state.queue.iter().find(|waiting| waiting.id == *id)?;
    Some(waiting.queued.run.clone())
}

/// Drops the row of a run that was queued in the same batch.
pub(in crate::drive) fn drop_queued(runs: &mut Vec<RunView>, run: &RunId) {
    runs.retain(|view| view.run != *run || view.queued.is_none());
}

/// Estimates the size of an event in the journal in bytes: the size of its largest part plus a constant.
pub(in crate::drive) fn weight(event: &Event) -> usize {
    let content = match &event.fact {
        Fact::StepReplied { message, .. } | Fact::MessageReceived { message, .. } => {
            message.blocks.iter().map(block_weight).sum()
        }
        Fact::ToolFinished { content, .. } => content.iter().map(block_weight).sum(),
        Fact::RunStarted { agent, .. } => {
            let instructions = agent.full().into_iter().flat_map(|agent| &agent.instructions);
            instructions.map(|text| text.inline().map_or(128, str::len)).sum()
        }
        Fact::Note { data, .. } => data.to_string().len(),
        Fact::InterruptOpened { kind: InterruptKind::Question(question), .. } => {
            let values = [&question.params, &question.schema].into_iter().flatten();
            let options: usize = question.options.iter().map(String::len).sum();
            question.summary.len() + options + values.map(|value| value.to_string().len()).sum::<usize>()
        }
        _ => 0, // tidy: the other kinds are small
    };
    256 + content
}

fn block_weight(block: &Block) -> usize {
    match block {
        Block::Text { text, .. } | Block::Reasoning { text, .. } => text.inline().map_or(128, str::len),
        Block::ToolCall(call) => 64 + call.asked.inline().map_or(128, str::len),
        Block::Image { .. } | Block::File { .. } | Block::ToolResult(_) | Block::Opaque { .. } => 256,
    }
}

/// Adds or replaces a run's row.
pub(in crate::drive) fn put_run(runs: &mut Vec<RunView>, view: RunView) {
    match runs.iter_mut().find(|known| known.run == view.run) {
        Some(known) => *known = view,
        None => runs.push(view),
    }
}
