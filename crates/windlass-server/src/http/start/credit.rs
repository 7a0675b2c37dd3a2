//! Checks a user's remaining credit before a run starts.

use http::StatusCode;
use windlass::limits::{Per, Unit, Window};

use crate::http::Shared;
use crate::http::caller::Caller;
use crate::http::problem::Problem;

/// Returns an error if the caller's credit is used up. A small remainder may be insufficient for a step; in that case
/// the run fails. (ZE-X5)
pub async fn check_credit(app: &Shared, caller: &Caller) -> Result<(), Problem> {
    for allowance in app.engine.allowances(caller.workspace(), caller.user()).await? {
        let budget = &allowance.budget;
        let is_credit = (budget.per, budget.unit, budget.window) == (Per::User, Unit::Usd, Window::Total);
        if is_credit && allowance.left() == 0 {
            let (used, cap) = (allowance.used as f64 / 1e6, budget.cap as f64 / 1e6);
            let detail = format!("your credit is used up: {used:.2} of {cap:.2} US dollars");
            return Err(Problem::new(StatusCode::FORBIDDEN, "insufficient_credit", detail)
                .hint("ask an administrator to raise it"));
        }
    }
    Ok(())
}
