//! Starting a run for a caller: every route and dialect does it here, so that none forgets whose run it is, where its
//! tools work, and what its user may still use.

use windlass::{RunTools, Started, Task};

use super::credit::check_credit;
use super::titles;
use crate::home::Home;
use crate::http::Shared;
use crate::http::caller::Caller;
use crate::http::problem::Problem;

/// Starts a run for whoever calls. Whose it is and where its tools work are the caller's, whatever the task says.
pub async fn begin(app: &Shared, caller: &Caller, mut task: Task) -> Result<Started, Problem> {
    let tools = std::mem::take(&mut task.tools);
    begin_with(app, caller, task, async { Ok(tools) }).await
}

/// The same with tools that are only fetched for a run that may be started.
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
    // Kept until the run is in the store, where the next one finds it.
    let _room = app.limits.limiter.room_for_run(&app.engine, &task).await?;
    task.tools = tools.await?;
    let model = task.agent.models.first().cloned();
    let started = app.engine.start(task).await?;
    titles::begin(app, &started, model);
    Ok(started)
}
