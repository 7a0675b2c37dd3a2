//! Validates a client's guards. The gate decides whether a call requires approval. The server rejects a guard that is
//! stricter than the gate, and ignores a looser one.
//!
//! Rules and grants are lasting decisions of administrators and of the user, so one request cannot override them.

use windlass::machine::AutoRun;
use windlass::{OfferedTool, Whose};
use windlass_server::http::Shared;
use windlass_server::http::caller::Caller;
use windlass_server::http::problem::Problem;

use super::super::session::Session;
use super::body::{CallResult, Guards};

/// Rejects guards that the gate would not enforce.
pub async fn check(app: &Shared, caller: &Caller, session: &Session, guards: &Guards) -> Result<(), Problem> {
    let tools = app.engine.tools().list();
    for (name, guard) in guards {
        let Some(tool) = tools.iter().find(|tool| tool.spec.name.as_str() == name) else { continue };
        if guard.enabled == Some(false) {
            return Err(unmet(name, "enabled", "a tool cannot be disabled for one session")
                .hint("ask an administrator to deny it with a rule"));
        }
        if !guard.requires_interrupt {
            continue;
        }
        if runs_unasked(tool) {
            return Err(unmet(
                name,
                "requires_interrupt",
                "its calls change nothing and run without approval",
            )
            .hint("omit it, or ask an administrator to add a rule that requires approval"));
        }
        if auto_run(app, caller, session).await? != AutoRun::Ask {
            return Err(unmet(
                name,
                "requires_interrupt",
                "your auto-run choice lets its calls run without approval",
            )
            .hint("choose `ask` with `PUT /api/v1/auto-run`"));
        }
    }
    Ok(())
}

fn unmet(tool: &str, member: &str, why: &str) -> Problem {
    let tool = windlass_server::text::first_line(tool, 64);
    Problem::invalid(format!("`tool_interrupt_config.{tool}.{member}` cannot be applied: {why}"))
}

/// Whether the gate allows a tool's calls because they change nothing. (SK-A1)
fn runs_unasked(tool: &OfferedTool) -> bool {
    let hints = tool.spec.annotations;
    tool.trusted && hints.read_only_hint && !hints.open_world_hint && !hints.destructive_hint
}

/// Returns the auto-run setting of a session.
async fn auto_run(app: &Shared, caller: &Caller, session: &Session) -> Result<AutoRun, Problem> {
    let of_thread = app.engine.policy().auto_run(&Whose::Thread(session.thread.clone())).await?;
    let chosen = match of_thread {
        Some(chosen) => Some(chosen),
        None => app.engine.policy().auto_run(&Whose::User(caller.user().clone())).await?,
    };
    Ok(chosen.unwrap_or_default())
}

/// Rejects a decision that the client's own guard does not accept for the tool.
pub fn allows(guards: &Guards, tool: &str, result: &CallResult) -> Result<(), Problem> {
    let allowed = guards.get(tool).map(|guard| guard.allowed_decisions.as_slice()).unwrap_or_default();
    if allowed.is_empty() || allowed.contains(&result.decision) {
        return Ok(());
    }
    let word = result.decision.word();
    Err(Problem::invalid(format!(
        "`tool_interrupt_config` does not allow the decision `{word}` for `{tool}`"
    )))
}
