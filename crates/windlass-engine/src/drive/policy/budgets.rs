//! The budgets that limit the usage of runs: the host program's
//! budgets, the user's credit, and the limits of an agent.
//!
//! This module selects and prices budgets; the thread's driver reserves and books amounts.

use std::sync::Arc;

use windlass_machine::{
    Attempt, Limits, ModelRequest, Principal, Reasoning, Refused, Run, RunId, State, ThreadId, Timestamp,
    TitleMade, Usage,
};

use super::spend::{key, used_of};
use crate::drive::CreditOf;
use crate::limits::{Budget, Drawing, Per, Unit, Window};
use crate::port::budget::{Draw, Reserve, Settle};
use crate::port::model::{ModelInfo, Models, Price};

/// Number of tokens that are reserved for a reply if the agent sets no maximum. (SK-L4's minimum)
const OUTPUT_TOKENS: u64 = 16_384;

/// Upper bound on the usage of a step, with its price.
struct Estimate {
    prompt: u64,
    output: u64,
    price: Option<Price>,
}

/// Limits that budgets impose on a model call.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::drive) struct Bounds {
    /// Whether the model must have a known price.
    pub needs_a_price: bool,
    /// Maximum number of output tokens, if an amount was reserved for the reply.
    pub output_tokens: Option<u64>,
}

/// The budgets of an engine.
pub(crate) struct BudgetService {
    budgets: Vec<Budget>,
    credit_of: Option<Arc<CreditOf>>,
    models: Arc<dyn Models>,
}

impl BudgetService {
    pub(crate) fn new(
        budgets: Vec<Budget>,
        credit_of: Option<Arc<CreditOf>>,
        models: &Arc<dyn Models>,
    ) -> Self {
        Self { budgets, credit_of, models: models.clone() }
    }

    /// Returns the budgets that limit the usage of a user's runs, including the user's credit.
    pub(crate) fn budgets_of(&self, workspace: &str, user: &Principal) -> Vec<Budget> {
        let credit = self.credit_of.as_ref().and_then(|credit_of| credit_of(workspace, user));
        let mut all = self.budgets.to_vec();
        all.extend(credit.map(Budget::credit));
        all
    }

    /// Describes a refused reservation for the machine.
    pub(in crate::drive) fn refused(&self, budget: &str, taken: u64, wanted: u64) -> Refused {
        let unit = |budget: &str| budget.split('/').nth(3).map(str::to_owned);
        let per = |budget: &str| budget.split('/').nth(1).map(str::to_owned);
        // The name of a daily budget has one additional part.
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

    /// Returns the amounts that a step reserves from all budgets of its run; `None` if the run has no budgets.
    pub(in crate::drive) fn reserve(
        &self,
        thread: &ThreadId,
        state: &State,
        attempt: Attempt,
        now: Timestamp,
    ) -> Option<Reserve> {
        let run = state.run.as_ref()?;
        let budgets = self.budgets_of_run(&run.agent.limits, &state.workspace, &run.by);
        if budgets.is_empty() {
            return None;
        }
        let estimate = self.estimate(state);
        let workspace = state.workspace.as_str();
        let by = Drawing { workspace, user: &run.by, thread, run: &run.id, now };
        // Two budgets may have the same name, such as a run's own and the program's for each run. The lower cap
        // applies.
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

    /// Returns the program's budgets, the user's credit, and the limits of the agent.
    fn budgets_of_run(&self, limits: &Limits, workspace: &str, user: &Principal) -> Vec<Budget> {
        let of_run = |unit, cap| Budget {
            per: Per::Run,
            unit,
            window: Window::Total,
            cap,
            approvers: Default::default(),
        };
        let mut all = self.budgets_of(workspace, user);
        all.extend((limits.max_tokens > 0).then(|| of_run(Unit::Tokens, limits.max_tokens)));
        all.extend((limits.max_cost.0 > 0).then(|| of_run(Unit::Usd, limits.max_cost.0)));
        all
    }

    /// Returns the limits that the run's budgets impose on a request.
    pub(in crate::drive) fn bounds(&self, workspace: &str, run: &Run, request: &ModelRequest) -> Bounds {
        let budgets = self.budgets_of_run(&run.agent.limits, workspace, &run.by);
        let counts = |unit| budgets.iter().any(|budget| budget.unit == unit);
        let needs_a_price = counts(Unit::Usd);
        let is_bounded = needs_a_price || counts(Unit::Tokens);
        let info = || self.models.resolve(&request.model).ok().map(|model| model.info().clone());
        Bounds { needs_a_price, output_tokens: is_bounded.then(|| output_tokens(request, info().as_ref())) }
    }

    fn estimate(&self, state: &State) -> Estimate {
        let Some(request) = ModelRequest::of(state) else {
            return Estimate { prompt: 0, output: 0, price: None };
        };
        let info = self.models.resolve(&request.model).ok().map(|model| model.info().clone());
        Estimate {
            prompt: request.tokens(),
            output: output_tokens(&request, info.as_ref()),
            price: info.and_then(|info| info.price),
        }
    }

    /// Books the cost of a generated title. No amount was reserved
    /// for the title. It belongs to no run and is no step.
    pub(in crate::drive) fn settle_title(
        &self,
        state: &State,
        made: &TitleMade,
        now: Timestamp,
    ) -> Option<Settle> {
        let (owner, thread) = state.owner.as_ref().zip(state.thread.as_ref())?;
        let (workspace, run) = (state.workspace.as_str(), RunId::from(""));
        let by = Drawing { workspace, user: owner, thread, run: &run, now };
        let budgets = self.budgets_of(workspace, owner).into_iter();
        let counts = |budget: &Budget| budget.per != Per::Run && budget.unit != Unit::Steps;
        let used = budgets.filter(counts).filter_map(|budget| {
            let name = budget.name(by);
            let used = used_of(&name, &made.usage, made.cost.map(|cost| cost.0))?;
            Some((name, used))
        });
        Some(Settle { key: format!("title/{}", state.seq), used: used.collect() })
    }
}

/// Returns the number of output tokens that are reserved for a reply.
fn output_tokens(request: &ModelRequest, info: Option<&ModelInfo>) -> u64 {
    if let Some(cap) = request.settings.max_output_tokens {
        return cap;
    }
    // The maximum output of some models would exceed a small budget before the first step.
    let usual = match request.settings.reasoning {
        // Reasoning is output too, and the answer needs some of it.
        Reasoning::BudgetTokens(tokens) => OUTPUT_TOKENS.max(tokens.saturating_mul(2)),
        _ => OUTPUT_TOKENS, // tidy: every other setting leaves the size to the model
    };
    info.and_then(|info| info.max_output_tokens).map_or(usual, |most| most.min(usual))
}

impl Estimate {
    fn of(&self, unit: Unit) -> u64 {
        match unit {
            Unit::Steps => 1,
            Unit::Tokens => self.prompt.saturating_add(self.output),
            Unit::Usd => {
                // A provider may write the whole prompt to its cache,
                // and some providers charge more for cache writes.
                let written =
                    self.price.and_then(|price| price.cache_written.filter(|cost| *cost > price.input));
                let cache_written = written.map(|_| self.prompt);
                let (input, output) = (Some(self.prompt), Some(self.output));
                let usage = Usage { input, output, cache_written, ..Usage::default() };
                // A model without a known price is not called.
                self.price.and_then(|price| price.cost(&usage)).map_or(0, |cost| cost.0)
            }
        }
    }
}
