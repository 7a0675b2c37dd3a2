//! Extractor for operators, who may manage settings that all workspaces of the store share.

use axum::extract::FromRequestParts;
use http::request;

use crate::account::people::user::DEFAULT_WORKSPACE;
use crate::http::Shared;
use crate::http::caller::Caller;
use crate::http::problem::Problem;

/// An administrator of the default workspace. The extractor rejects other callers before the server reads their request
/// body.
pub struct Operator(pub Caller);

/// Returns whether a caller is an operator.
pub fn is_operator(caller: &Caller) -> bool {
    caller.workspace() == DEFAULT_WORKSPACE && caller.administers().is_ok()
}

impl FromRequestParts<Shared> for Operator {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut request::Parts, app: &Shared) -> Result<Self, Problem> {
        let caller = Caller::from_request_parts(parts, app).await?;
        caller.administers()?;
        if caller.workspace() == DEFAULT_WORKSPACE {
            return Ok(Self(caller));
        }
        let what = format!("this requires an administrator of the workspace `{DEFAULT_WORKSPACE}`");
        Err(Problem::forbidden(what))
    }
}
