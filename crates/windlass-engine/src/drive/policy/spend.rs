//! A thread's usage of budgets: reserved in the append that starts a step, booked in the append that ends the step.
//!
//! The machine does not handle budgets; it receives a refused reservation as an input.

use std::collections::HashMap;

use windlass_machine::{Attempt, Event, Fact, FailureClass, RunId, State, ThreadId, Usage};

use super::budgets::BudgetService;
use crate::port::budget::{Amounts, Reserve, Settle};
use crate::port::journal::{Journal, StoreError};

/// Reserved and unbooked amounts of a thread, by step and attempt.
#[derive(Default)]
pub(in crate::drive) struct Spending {
    open: HashMap<String, Amounts>,
}

/// Reservations and bookings of an append.
#[derive(Default)]
pub(in crate::drive) struct Drawn {
    pub reserve: Vec<Reserve>,
    pub settle: Vec<Settle>,
}

impl Spending {
    /// Reads the open reservations of a previous process.
    pub(in crate::drive) async fn found(
        journal: &dyn Journal,
        thread: &ThreadId,
    ) -> Result<Self, StoreError> {
        Ok(Self { open: journal.open_reservations(thread).await?.into_iter().collect() })
    }

    /// Adds the reservations or bookings of an event that was just applied.
    pub(in crate::drive) fn see(
        &mut self,
        budgets: &BudgetService,
        thread: &ThreadId,
        state: &State,
        event: &Event,
        drawn: &mut Drawn,
    ) {
        match &event.fact {
            Fact::StepStarted { attempt, .. } => {
                if let Some(reserve) = budgets.reserve(thread, state, *attempt, event.at) {
                    let amounts = reserve.draws.iter().map(|draw| (draw.budget.clone(), draw.amount));
                    self.open.insert(reserve.key.clone(), amounts.collect());
                    drawn.reserve.push(reserve);
                }
            }
            Fact::StepReplied { attempt, usage, cost, .. } => {
                let cost = cost.map(|cost| cost.0);
                self.book(event, *attempt, Some((usage, cost)), drawn);
            }
            Fact::StepFailed { attempt, class, partial, .. } => {
                // It is unknown whether the provider charges for an unfinished reply, so the whole reservation is
                // booked.
                let nothing = partial.is_none() && is_free(*class);
                self.book(event, *attempt, nothing.then_some((&Usage::default(), Some(0))), drawn);
            }
            Fact::ThreadTitled { made: Some(made), .. } => {
                drawn.settle.extend(budgets.settle_title(state, made, event.at));
            }
            _ => {} // tidy: nothing else uses anything up
        }
    }

    /// Books the usage of a step, or the whole reservation if the usage is unknown.
    fn book(
        &mut self,
        event: &Event,
        attempt: Attempt,
        used: Option<(&Usage, Option<u64>)>,
        drawn: &mut Drawn,
    ) {
        let Some(run) = &event.run else { return };
        let key = key(run, attempt);
        let Some(amounts) = self.open.remove(&key) else { return };
        let booked = amounts.into_iter().map(|(budget, amount)| {
            let booked = used.map_or(Some(amount), |(usage, cost)| used_of(&budget, usage, cost));
            (budget, booked.unwrap_or(amount))
        });
        drawn.settle.push(Settle { key, used: booked.collect() });
    }
}

pub(in crate::drive) fn key(run: &RunId, attempt: Attempt) -> String {
    format!("{run}/{}.{}", attempt.step, attempt.attempt)
}

/// Returns the amount of a budget that a step used; `None` if the provider did not report the usage.
pub(in crate::drive) fn used_of(budget: &str, usage: &Usage, cost: Option<u64>) -> Option<u64> {
    // The unit is the fourth part: `workspace/per/whose/unit[/day]`.
    match budget.split('/').nth(3) {
        Some("usd") => cost,
        Some("tokens") if *usage == Usage::default() => cost.filter(|cost| *cost == 0),
        Some("tokens") => Some(usage.input.unwrap_or(0).saturating_add(usage.output.unwrap_or(0))),
        _ => Some(1), // tidy: steps are counted one by one
    }
}

/// Whether a provider certainly does not charge for a call with this failure.
pub(crate) fn is_free(class: FailureClass) -> bool {
    match class {
        FailureClass::RateLimited
        | FailureClass::Overloaded
        | FailureClass::Auth
        | FailureClass::ContextTooLong
        | FailureClass::InvalidRequest
        | FailureClass::Config
        | FailureClass::MissingBlob => true,
        FailureClass::Transient
        | FailureClass::Timeout
        | FailureClass::Truncated
        | FailureClass::Malformed
        | FailureClass::Empty
        | FailureClass::Lost
        | FailureClass::Cancelled => false,
    }
}
