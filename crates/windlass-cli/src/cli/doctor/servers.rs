//! Checks whether the configured and added tool servers can be reached. Starts all of them
//! concurrently, and stops them after the check.

use windlass::mcp::{Health, ServerStatus};
use windlass_server::servers::{self, Which};

use super::{Check, State};
use crate::cli::mcp::over;
use crate::place::Ground;
use crate::view::preview::plural;

/// Name of the check.
const NAME: &str = "tool server";

/// Time-out for all servers together.
const WITHIN_MS: u64 = 15_000;

/// Checks all servers.
pub(super) async fn servers(ground: &Ground) -> Vec<Check> {
    match Box::pin(reached(ground)).await {
        Ok(checks) => checks,
        Err(error) => vec![Check::broken(NAME, &error)],
    }
}

async fn reached(ground: &Ground) -> anyhow::Result<Vec<Check>> {
    // A separate check reports a store that cannot be opened.
    let Ok(place) = ground.clone().open_store().await else { return Ok(Vec::new()) };
    if !servers::are_any(&ground.settings, &**place.engine.records()).await? {
        return Ok(Vec::new());
    }
    let servers = over(&place, Which::Each).await?;
    servers.hub.settled(WITHIN_MS).await;
    let checks = servers.hub.status().iter().map(check).collect();
    servers.hub.stop().await;
    Ok(checks)
}

fn check(status: &ServerStatus) -> Check {
    let name = &status.name;
    let broken = |message: String| {
        let hint = format!("`windlass mcp test {name}` shows its log");
        Check::new(NAME, State::Broken, message).hint(hint)
    };
    match &status.health {
        Health::Ready { .. } => {
            let count = status.tools.len();
            Check::ok(NAME, format!("`{name}`: {count} {}", plural(count, "tool")))
        }
        Health::Disabled => Check::ok(NAME, format!("`{name}` is disabled")),
        Health::Starting => broken(format!("`{name}` did not respond within {} s", WITHIN_MS / 1_000)),
        Health::Unavailable { why, .. } => broken(format!("`{name}` is unavailable: {why}")),
        Health::NeedsSignIn { .. } => {
            let hint = format!("`windlass mcp login {name}` signs in");
            Check::warning(NAME, format!("`{name}` requires sign-in")).hint(hint)
        }
    }
}
