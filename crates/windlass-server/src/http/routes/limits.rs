//! `/limits`: the remaining budgets and credit for the caller's runs. (ZE-E4, ZE-O1)

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;
use windlass::Allowance;
use windlass::limits::{Per, Unit, Window};

use crate::http::Shared;
use crate::http::api::{ApiRouter, routes};
use crate::http::caller::Caller;
use crate::http::problem::Problem;

pub fn routes() -> ApiRouter {
    ApiRouter::new().routes(routes!(list))
}

/// The current state of a budget.
#[derive(Debug, Serialize, ToSchema)]
struct Limit {
    /// What it applies to: the runs of the `user` or of the `workspace`.
    #[schema(value_type = String)]
    per: Per,
    /// Unit: `usd` (millionths of a US dollar), `tokens` or `steps`.
    #[schema(value_type = String)]
    unit: Unit,
    /// Period: `total` or `day`.
    #[schema(value_type = String)]
    window: Window,
    /// Maximum, in the unit.
    cap: u64,
    /// Amount used.
    used: u64,
    /// Amount reserved for steps in progress.
    reserved: u64,
    /// Amount left.
    left: u64,
}

impl From<Allowance> for Limit {
    fn from(allowance: Allowance) -> Self {
        let left = allowance.left();
        let Allowance { budget, used, reserved } = allowance;
        Self {
            per: budget.per,
            unit: budget.unit,
            window: budget.window,
            cap: budget.cap,
            used,
            reserved,
            left,
        }
    }
}

/// Budgets of the caller.
#[derive(Debug, Serialize, ToSchema)]
struct LimitList {
    /// Budgets of the user and of the workspace. Budgets of single runs and threads are not included.
    data: Vec<Limit>,
}

/// List the remaining budgets of the caller
#[utoipa::path(get, path = "/limits", tag = "usage",
    responses((status = 200, body = LimitList), (status = 401, body = Problem)))]
async fn list(State(app): State<Shared>, caller: Caller) -> Result<Json<LimitList>, Problem> {
    caller.reads()?;
    let allowances = app.engine.allowances(caller.workspace(), caller.user()).await?;
    Ok(Json(LimitList { data: allowances.into_iter().map(Limit::from).collect() }))
}
