//! What the runs of a user may still use, for those who look after budgets and credit.
//!
//! It reads; what is set aside and booked is the driver's business.

use serde::Serialize;
use windlass_machine::{Principal, RunId, ThreadId};

use crate::engine::Engine;
use crate::error::EngineError;
use crate::limits::{Budget, Drawing, Per};

/// How a budget stands that bounds what runs for a user may use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Allowance {
    /// The budget.
    #[serde(flatten)]
    pub budget: Budget,
    /// What was used of it, in the budget's unit.
    pub used: u64,
    /// What is set aside for steps under way.
    pub reserved: u64,
}

impl Allowance {
    /// What is left.
    pub fn left(&self) -> u64 {
        self.budget.cap.saturating_sub(self.used).saturating_sub(self.reserved)
    }
}

impl Engine {
    /// How the budgets stand that bound what all runs for a user may use: the user's, with the credit, and the
    /// workspace's. Those of single runs and threads are not among them.
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
