//! The counts of the store: uses of grants, and room in budgets.

use windlass_machine::*;

use super::{Tale, World};
use crate::fixture;
use crate::story::hash;

impl World {
    /// Counts a grant's use in the append that records it; the grant may have been revoked meanwhile.
    pub fn use_grant(&mut self, id: &str) {
        for grant in self.policy.grants.iter_mut().filter(|grant| grant.id == id) {
            grant.remaining = grant.remaining.map(|count| count.saturating_sub(1));
        }
    }

    /// Returns a refusal of a budget: once for some steps, in a wild tale repeatedly.
    pub fn refusal(&mut self, batch: &[Event]) -> Option<Input> {
        let (run, attempt) = batch.iter().find_map(|event| match event.fact {
            Fact::StepStarted { attempt, .. } => Some((event.run.clone()?, attempt)),
            _ => None, // tidy: nothing else draws on a budget
        })?;
        let place = u64::from(attempt.step) << 32 | u64::from(attempt.attempt);
        let first = attempt.attempt == 1 || self.tale == Tale::Wild;
        let tight = fixture::dice(&[self.seed, hash(run.as_str()), place]).one_in(40) && first;
        let again = self.tale == Tale::Wild && self.dice.one_in(40);
        if !(tight && self.refused.insert((run, attempt)) || again) {
            return None;
        }
        let approvers = fixture::approvers(if self.dice.one_in(2) { &["role:ops"] } else { &[] });
        let refused = Refused { taken: 90, wanted: 20, approvers };
        Some(Input::LimitRefused { limit: "day.cost".into(), figure: 100, refused, message: None })
    }
}
