//! `/limits`: what the caller's runs may still use, of budgets and of credit. (ZE-E4, ZE-O1)

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

/// The routes.
pub fn routes() -> ApiRouter {
    ApiRouter::new().routes(routes!(list))
}

/// How a budget stands.
#[derive(Debug, Serialize, ToSchema)]
struct Limit {
    /// Whose runs: `user` or `workspace`.
    #[schema(value_type = String)]
    per: Per,
    /// What is counted: `usd` (millionths of a US dollar), `tokens` or `steps`.
    #[schema(value_type = String)]
    unit: Unit,
    /// For how long: `total` or `day`.
    #[schema(value_type = String)]
    window: Window,
    /// How much in all, in the unit.
    cap: u64,
    /// What was used.
    used: u64,
    /// What is set aside for steps under way.
    reserved: u64,
    /// What is left.
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

/// What bounds one's runs.
#[derive(Debug, Serialize, ToSchema)]
struct LimitList {
    /// Budgets of oneself and of the workspace; those of single runs and conversations are not among them.
    data: Vec<Limit>,
}

/// What one's runs may still use
#[utoipa::path(get, path = "/limits", tag = "usage",
    responses((status = 200, body = LimitList), (status = 401, body = Problem)))]
async fn list(State(app): State<Shared>, caller: Caller) -> Result<Json<LimitList>, Problem> {
    caller.reads()?;
    let allowances = app.engine.allowances(caller.workspace(), caller.user()).await?;
    Ok(Json(LimitList { data: allowances.into_iter().map(Limit::from).collect() }))
}
