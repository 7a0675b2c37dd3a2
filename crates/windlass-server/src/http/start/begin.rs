//! Starts runs for a caller. Every route and dialect calls these functions, so that each run has an owner, a folder
//! and the checks of the user's limits.

use windlass::{RunTools, Started, Task};

use super::credit::check_credit;
use super::titles;
use crate::home::Home;
use crate::http::Shared;
use crate::http::caller::Caller;
use crate::http::problem::Problem;

/// Starts a run. The caller determines the run's owner, workspace and folder; these override the values in the task.
pub async fn begin(app: &Shared, caller: &Caller, mut task: Task) -> Result<Started, Problem> {
    let tools = std::mem::take(&mut task.tools);
    begin_with(app, caller, task, async { Ok(tools) }).await
}

/// Like [`begin`], but fetches the tools only after the permission and limit checks have passed.
pub async fn begin_with(
    app: &Shared,
    caller: &Caller,
    mut task: Task,
    tools: impl Future<Output = Result<RunTools, Problem>>,
) -> Result<Started, Problem> {
    caller.runs()?;
    check_credit(app, caller).await?;
    task.by = caller.user().clone();
    task.workspace = caller.workspace().to_owned();
    let home = Home::of(caller.workspace(), caller.user());
    task.folder = Some(home.folder(app.config.settings.files.folder()));
    // Reserve a slot until the store contains the run, so that the next request counts it.
    let _room = app.limits.limiter.room_for_run(&app.engine, &task).await?;
    task.tools = tools.await?;
    let model = task.agent.models.first().cloned();
    let started = app.engine.start(task).await?;
    titles::begin(app, &started, model);
    Ok(started)
}
