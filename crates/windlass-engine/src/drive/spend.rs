//! What a thread draws from budgets: set aside in the append that starts a step, booked in the one that ends it.
//!
//! The machine knows nothing of it; a budget without room comes back to it as an input.

use std::collections::HashMap;

use windlass_machine::{
    Attempt, Event, Fact, FailureClass, Limits, Machine, ModelRequest, Principal, Reasoning, Refused, Run,
    RunId, State, ThreadId, Timestamp, TitleMade, Usage,
};

use super::Deps;
use crate::limits::{Budget, Drawing, Per, Unit, Window};
use crate::port::budget::{Amounts, Draw, Reserve, Settle};
use crate::port::journal::StoreError;
use crate::port::model::{ModelInfo, Price};

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
            Fact::ThreadTitled { made: Some(made), .. } => {
                drawn.settle.extend(settle_title(deps, machine.state(), made, event.at));
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

/// Books what a title cost, for which nothing is set aside. It belongs to no run, and is no step.
fn settle_title(deps: &Deps, state: &State, made: &TitleMade, now: Timestamp) -> Option<Settle> {
    let (owner, thread) = state.owner.as_ref().zip(state.thread.as_ref())?;
    let (workspace, run) = (state.workspace.as_str(), RunId::from(""));
    let by = Drawing { workspace, user: owner, thread, run: &run, now };
    let budgets = deps.budgets_of(workspace, owner).into_iter();
    let counts = |budget: &Budget| budget.per != Per::Run && budget.unit != Unit::Steps;
    let used = budgets.filter(counts).filter_map(|budget| {
        let name = budget.name(by);
        let used = used_of(&name, &made.usage, made.cost.map(|cost| cost.0))?;
        Some((name, used))
    });
    Some(Settle { key: format!("title/{}", state.seq), used: used.collect() })
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

/// What a step needs of all budgets that its run draws on; `None` where there are none.
fn reserve(deps: &Deps, machine: &Machine, attempt: Attempt, now: Timestamp) -> Option<Reserve> {
    let state = machine.state();
    let run = state.run.as_ref()?;
    let budgets = budgets(deps, &run.agent.limits, &state.workspace, &run.by);
    if budgets.is_empty() {
        return None;
    }
    let estimate = estimate(deps, machine);
    let (workspace, thread) = (state.workspace.as_str(), machine.thread());
    let by = Drawing { workspace, user: &run.by, thread, run: &run.id, now };
    // Two budgets may have one name, such as a run's own and the program's for each run: the smaller one counts.
    let mut draws: Vec<Draw> = Vec::with_capacity(budgets.len());
    for budget in &budgets {
        let name = budget.name(by);
        let cap = run.figure(&name, budget.cap);
        match draws.iter_mut().find(|draw| draw.budget == name) {
            Some(same) => same.cap = same.cap.min(cap),
            None => draws.push(Draw { amount: estimate.of(budget.unit), budget: name, cap }),
        }
    }
    Some(Reserve { key: key(&run.id, attempt), draws })
}

/// The program's budgets, the user's credit, and those of the agent's own limits.
fn budgets(deps: &Deps, limits: &Limits, workspace: &str, user: &Principal) -> Vec<Budget> {
    let of_run =
        |unit, cap| Budget { per: Per::Run, unit, window: Window::Total, cap, approvers: Default::default() };
    let mut all = deps.budgets_of(workspace, user);
    all.extend((limits.max_tokens > 0).then(|| of_run(Unit::Tokens, limits.max_tokens)));
    all.extend((limits.max_cost.0 > 0).then(|| of_run(Unit::Usd, limits.max_cost.0)));
    all
}

/// What budgets ask of a model call.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bounds {
    /// Whether the model must have a price.
    pub needs_a_price: bool,
    /// The longest reply in tokens, where something was set aside for it: no more than that may come.
    pub output_tokens: Option<u64>,
}

/// What the budgets that a run draws on ask of a request.
pub(super) fn bounds(deps: &Deps, workspace: &str, run: &Run, request: &ModelRequest) -> Bounds {
    let budgets = budgets(deps, &run.agent.limits, workspace, &run.by);
    let counts = |unit| budgets.iter().any(|budget| budget.unit == unit);
    let needs_a_price = counts(Unit::Usd);
    let is_bounded = needs_a_price || counts(Unit::Tokens);
    let info = || deps.models.resolve(&request.model).ok().map(|model| model.info().clone());
    Bounds { needs_a_price, output_tokens: is_bounded.then(|| output_tokens(request, info().as_ref())) }
}

/// The longest reply that is paid for.
fn output_tokens(request: &ModelRequest, info: Option<&ModelInfo>) -> u64 {
    if let Some(cap) = request.settings.max_output_tokens {
        return cap;
    }
    // The largest output that some models could give would fill a small budget before anything was said.
    let usual = match request.settings.reasoning {
        // Thinking is output too, and something has to be left for the answer.
        Reasoning::BudgetTokens(tokens) => OUTPUT_TOKENS.max(tokens.saturating_mul(2)),
        _ => OUTPUT_TOKENS, // tidy: every other setting leaves the size to the model
    };
    info.and_then(|info| info.max_output_tokens).map_or(usual, |most| most.min(usual))
}

fn estimate(deps: &Deps, machine: &Machine) -> Estimate {
    let Some(request) = machine.request() else { return Estimate { prompt: 0, output: 0, price: None } };
    let info = deps.models.resolve(&request.model).ok().map(|model| model.info().clone());
    Estimate {
        prompt: request.tokens(),
        output: output_tokens(&request, info.as_ref()),
        price: info.and_then(|info| info.price),
    }
}

impl Estimate {
    fn of(&self, unit: Unit) -> u64 {
        match unit {
            Unit::Steps => 1,
            Unit::Tokens => self.prompt.saturating_add(self.output),
            Unit::Usd => {
                // A provider may write the whole prompt to its cache, which costs more with some.
                let written =
                    self.price.and_then(|price| price.cache_written.filter(|cost| *cost > price.input));
                let cache_written = written.map(|_| self.prompt);
                let (input, output) = (Some(self.prompt), Some(self.output));
                let usage = Usage { input, output, cache_written, ..Usage::default() };
                // Without a price the model is not called.
                self.price.and_then(|price| price.cost(&usage)).map_or(0, |cost| cost.0)
            }
        }
    }
}

impl Deps {
    /// The budgets that bound what runs for a user may use, the user's credit among them.
    pub(crate) fn budgets_of(&self, workspace: &str, user: &Principal) -> Vec<Budget> {
        let credit = self.credit_of.as_ref().and_then(|credit_of| credit_of(workspace, user));
        let mut all = self.budgets.to_vec();
        all.extend(credit.map(Budget::credit));
        all
    }

    /// How a budget stands that has refused, as the machine is told.
    pub(super) fn refused(&self, budget: &str, taken: u64, wanted: u64) -> Refused {
        let unit = |budget: &str| budget.split('/').nth(3).map(str::to_owned);
        let per = |budget: &str| budget.split('/').nth(1).map(str::to_owned);
        // A budget of a day has a part more.
        let parts = |budget: &str| budget.split('/').count();
        let names = |known: &&Budget| {
            let known = known.name(Drawing {
                workspace: "",
                user: &"".into(),
                thread: &"".into(),
                run: &"".into(),
                now: Timestamp(0),
            });
            (unit(&known), per(&known), parts(&known)) == (unit(budget), per(budget), parts(budget))
        };
        let approvers = self.budgets.iter().filter(names).flat_map(|known| known.approvers.clone()).collect();
        Refused { taken, wanted, approvers }
    }
}
