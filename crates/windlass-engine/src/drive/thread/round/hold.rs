//! A round that is held until the results of its local reads join it, so that one append records both.
//!
//! A local read has no effect, so it may run before its start is durable. If the
//! process dies during the wait, the reply is lost and the next process calls the model
//! again. `may_wait` selects the rounds that are held; the actor ends the wait.

use windlass_machine::{Command, EffectClass, Fact, Input, Machine, Verdict};

use super::Round;
use crate::drive::catalog::ToolCatalog;
use crate::drive::thread::mail::{Letter, Mail};

/// Maximum time in milliseconds that a round is held. During this time a
/// paid reply is not durable, and watchers have not received its event.
pub(in crate::drive::thread) const HOLD_MS: u64 = 10;

/// A decided round that is neither appended nor published. The machine has applied it.
pub(in crate::drive::thread) struct HeldRound {
    pub round: Round,
    /// Inputs that the round was decided from. A rejected round is
    /// decided again from these inputs, without another model call.
    pub letters: Vec<Letter>,
}

/// Whether a round may be held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::drive::thread) enum Hold {
    Allowed,
    Never,
}

/// Whether a round may be held: it contains only replies and results, and the machine wants only local reads.
/// Interrupts, grants, previews, budgets and inputs with a waiting sender are recorded immediately.
pub(in crate::drive::thread) fn may_wait(
    round: &Round,
    letters: &[Letter],
    machine: &Machine,
    catalog: &ToolCatalog,
) -> bool {
    let joins = |letter: &Letter| matches!(letter.input, Input::ModelReplied(_) | Input::ToolReturned { .. });
    !round.events.is_empty()
        && round.consumed.is_empty()
        && letters.iter().all(joins)
        && round.events.iter().all(|event| may_be_held(&event.fact))
        && wants_local_reads(machine, catalog)
}

fn may_be_held(fact: &Fact) -> bool {
    match fact {
        Fact::CallJudged { verdict, .. } => matches!(verdict, Verdict::Allow | Verdict::Deny),
        Fact::StepReplied { .. } | Fact::ToolStarted { .. } | Fact::ToolFinished { .. } => true,
        _ => false, // tidy: everything else is recorded at once
    }
}

fn wants_local_reads(machine: &Machine, catalog: &ToolCatalog) -> bool {
    let state = machine.state();
    let Some(run) = &state.run else { return false };
    let wanted = machine.wants();
    let tools = catalog.of_run(&state.workspace, machine.thread(), run);
    let is_local_read = |command: &Command| match command {
        Command::CallTool {
            start: 1, tool, class: EffectClass::Pure, reply: None, resumed: None, ..
        } => tools.registry.get(tool.as_str()).is_some_and(|tool| tool.traits().reads_locally),
        Command::CallTool { .. }
        | Command::CallModel { .. }
        | Command::PreviewTool { .. }
        | Command::Reconcile { .. } => false,
    };
    !wanted.is_empty() && wanted.iter().all(is_local_read)
}

/// Whether all mails are results that join a held round. Any
/// other mail ends the wait and is decided after the append.
pub(in crate::drive::thread) fn joins(mails: &[Mail]) -> bool {
    let is_result = |mail: &Mail| match mail {
        Mail::Landed(letter) => matches!(letter.input, Input::ToolReturned { .. }),
        Mail::Input(_) | Mail::Inbox | Mail::Lapsed(_) => false,
    };
    !mails.is_empty() && mails.iter().all(is_result)
}
