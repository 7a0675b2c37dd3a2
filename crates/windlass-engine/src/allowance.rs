//! Reports how much budget a user's runs have left, for user interfaces and administrators.
//!
//! Read-only: the driver reserves and books amounts.

use serde::Serialize;
use windlass_machine::{Principal, RunId, ThreadId};

use crate::engine::Engine;
use crate::error::EngineError;
use crate::limits::{Budget, Drawing, Per};

/// The current state of a budget that limits a user's runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Allowance {
    /// Scope, unit, window and cap of the budget.
    #[serde(flatten)]
    pub budget: Budget,
    /// Amount used so far, in the budget's unit.
    pub used: u64,
    /// Amount reserved for steps in flight, in the budget's unit.
    pub reserved: u64,
}

impl Allowance {
    /// Amount that new steps can still reserve, in the budget's unit.
    pub fn left(&self) -> u64 {
        self.budget.cap.saturating_sub(self.used).saturating_sub(self.reserved)
    }
}

impl Engine {
    /// Returns the budgets that limit all runs of a user: the user's budgets, including the credit, and the
    /// workspace's budgets. Budgets of single runs and threads are not included.
    pub async fn allowances(&self, workspace: &str, user: &Principal) -> Result<Vec<Allowance>, EngineError> {
        let (thread, run) = (ThreadId::from(""), RunId::from(""));
        let by =
            Drawing { workspace, user, thread: &thread, run: &run, now: self.services.store.clock.now() };
        let mut allowances = Vec::new();
        for budget in self.services.budgets.budgets_of(workspace, user) {
            if matches!(budget.per, Per::Run | Per::Thread) {
                continue;
            }
            let name = budget.name(by);
            let rows = self.services.store.journal.budgets(&name).await?;
            let row = rows.into_iter().find(|row| row.budget == name);
            let (used, reserved) = row.map_or((0, 0), |row| (row.used, row.reserved));
            allowances.push(Allowance { budget, used, reserved });
        }
        Ok(allowances)
    }
}
