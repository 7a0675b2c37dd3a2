//! What a thread draws from budgets: set aside in the append that starts a step, booked in the one that ends it.
//!
//! The machine knows nothing of it; a budget without room comes back to it as an input.

use std::collections::HashMap;

use windlass_machine::{
    Attempt, Event, Fact, FailureClass, Machine, Refused, RunId, ThreadId, Timestamp, Usage,
};

use super::Deps;
use crate::limits::{Budget, Drawing, Per, Unit, Window};
use crate::port::budget::{Amounts, Draw, Reserve, Settle};
use crate::port::journal::StoreError;
use crate::port::model::Price;

/// What is set aside for a reply in tokens, where the agent sets no cap of its own. (SK-L4's floor)
const OUTPUT_TOKENS: u64 = 16_384;

/// What a thread has set aside and not booked, by step and try.
#[derive(Default)]
pub(super) struct Spending {
    open: HashMap<String, Amounts>,
}

/// What an append draws and books.
#[derive(Default)]
pub(super) struct Drawn {
    pub reserve: Vec<Reserve>,
    pub settle: Vec<Settle>,
}

/// What a step may use at most, and at what price.
struct Estimate {
    prompt: u64,
    output: u64,
    price: Option<Price>,
}

impl Spending {
    /// Takes over what a process before this one has left open.
    pub(super) async fn found(deps: &Deps, thread: &ThreadId) -> Result<Self, StoreError> {
        Ok(Self { open: deps.journal.open_reservations(thread).await?.into_iter().collect() })
    }

    /// What an event that was just folded in draws or books.
    pub(super) fn see(&mut self, deps: &Deps, machine: &Machine, event: &Event, drawn: &mut Drawn) {
        match &event.fact {
            Fact::StepStarted { attempt, .. } => {
                if let Some(reserve) = reserve(deps, machine, *attempt, event.at) {
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
                // Whether the provider charges for what it did not finish, nobody knows: then all of it counts.
                let nothing = partial.is_none() && is_free(*class);
                self.book(event, *attempt, nothing.then_some((&Usage::default(), Some(0))), drawn);
            }
            _ => {} // tidy: nothing else uses anything up
        }
    }

    /// Books what a step used; all that was set aside where that is not known.
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

fn key(run: &RunId, attempt: Attempt) -> String {
    format!("{run}/{}.{}", attempt.step, attempt.attempt)
}

/// What a step used of a budget; `None` where that was not reported.
fn used_of(budget: &str, usage: &Usage, cost: Option<u64>) -> Option<u64> {
    // The unit is the fourth part: `workspace/per/whose/unit[/day]`.
    match budget.split('/').nth(3) {
        Some("usd") => cost,
        Some("tokens") if *usage == Usage::default() => cost.filter(|cost| *cost == 0),
        Some("tokens") => Some(usage.input.unwrap_or(0).saturating_add(usage.output.unwrap_or(0))),
        _ => Some(1), // tidy: steps are counted one by one
    }
}

/// Whether a provider surely charges nothing for a call that failed so.
fn is_free(class: FailureClass) -> bool {
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

/// What a step needs of all budgets that its run draws on; `None` where there are none.
fn reserve(deps: &Deps, machine: &Machine, attempt: Attempt, now: Timestamp) -> Option<Reserve> {
    let state = machine.state();
    let run = state.run.as_ref()?;
    let budgets = budgets(deps, &run.agent.limits);
    if budgets.is_empty() {
        return None;
    }
    let estimate = estimate(deps, machine);
    let (workspace, thread) = (state.workspace.as_str(), machine.thread());
    let by = Drawing { workspace, user: &run.by, thread, run: &run.id, now };
    let draws = budgets.iter().map(|budget| {
        let name = budget.name(by);
        let cap = run.figure(&name, budget.cap);
        Draw { amount: estimate.of(budget.unit), budget: name, cap }
    });
    Some(Reserve { key: key(&run.id, attempt), draws: draws.collect() })
}

/// The program's budgets and those of the agent's own limits.
fn budgets(deps: &Deps, limits: &windlass_machine::Limits) -> Vec<Budget> {
    let of_run =
        |unit, cap| Budget { per: Per::Run, unit, window: Window::Total, cap, approvers: Default::default() };
    let mut all = deps.budgets.to_vec();
    all.extend((limits.max_tokens > 0).then(|| of_run(Unit::Tokens, limits.max_tokens)));
    all.extend((limits.max_cost.0 > 0).then(|| of_run(Unit::Usd, limits.max_cost.0)));
    all
}

/// Whether a run draws on a budget of money.
pub(super) fn needs_a_price(deps: &Deps, limits: &windlass_machine::Limits) -> bool {
    budgets(deps, limits).iter().any(|budget| budget.unit == Unit::Usd)
}

fn estimate(deps: &Deps, machine: &Machine) -> Estimate {
    let Some(request) = machine.request() else { return Estimate { prompt: 0, output: 0, price: None } };
    let info = deps.models.resolve(&request.model).ok().map(|model| model.info().clone());
    // The largest output that some models could give would fill a small budget before anything was said.
    let own = info.as_ref().and_then(|info| info.max_output_tokens).map(|most| most.min(OUTPUT_TOKENS));
    let cap = request.settings.max_output_tokens.or(own);
    Estimate {
        prompt: request.tokens(),
        output: cap.unwrap_or(OUTPUT_TOKENS),
        price: info.and_then(|info| info.price),
    }
}

impl Estimate {
    fn of(&self, unit: Unit) -> u64 {
        match unit {
            Unit::Steps => 1,
            Unit::Tokens => self.prompt.saturating_add(self.output),
            Unit::Usd => {
                let usage = Usage { input: Some(self.prompt), output: Some(self.output), ..Usage::default() };
                // Without a price the model is not called.
                self.price.and_then(|price| price.cost(&usage)).map_or(0, |cost| cost.0)
            }
        }
    }
}

impl Deps {
    /// How a budget stands that has refused, as the machine is told.
    pub(super) fn refused(&self, budget: &str, taken: u64, wanted: u64) -> Refused {
        let unit = |budget: &str| budget.split('/').nth(3).map(str::to_owned);
        let per = |budget: &str| budget.split('/').nth(1).map(str::to_owned);
        let names = |known: &&Budget| {
            let known = known.name(Drawing {
                workspace: "",
                user: &"".into(),
                thread: &"".into(),
                run: &"".into(),
                now: Timestamp(0),
            });
            (unit(&known), per(&known)) == (unit(budget), per(budget))
        };
        let approvers = self.budgets.iter().filter(names).flat_map(|known| known.approvers.clone()).collect();
        Refused { taken, wanted, approvers }
    }
}
