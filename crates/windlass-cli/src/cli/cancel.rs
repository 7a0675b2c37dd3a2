//! `windlass cancel`: cancels a run that this or any other process drives.

use clap::Args;
use windlass::EngineError;
use windlass_server::account::people::user::local;
use windlass_server::trouble::Exit;

use crate::cli::flags::{ModelFlags, PlaceFlags};
use crate::console::Console;
use crate::place::{Ask, Ground};

#[derive(Args, Debug)]
pub struct CancelArgs {
    /// The run's id, or the end of it [default: the newest unfinished run]
    #[arg(value_name = "RUN")]
    run: Option<String>,
    #[command(flatten)]
    place: PlaceFlags,
}

pub async fn run(console: &Console, args: &CancelArgs) -> anyhow::Result<Exit> {
    let ground = Ground::find(console, &args.place, &ModelFlags::default(), Ask::Never)?;
    let place = ground.open_store().await?;
    let row = place.find_run(args.run.as_deref()).await?;
    let run = row.view.run;
    if let Some(status) = row.view.status {
        let status = super::threads::run_word(status);
        console.note(&format!("run {run} has already ended: {status}"));
        return Ok(Exit::Done);
    }
    match place.engine.run(&run).cancel(local().principal).await {
        Ok(_) => {}
        // The run ended meanwhile; its outcome is printed below.
        Err(EngineError::Rejected(_)) => {}
        Err(error) => return Err(error.into()),
    }
    let outcome = place.engine.run(&run).wait().await?;
    console.note(&format!("run {run}: {}", super::threads::status_word(outcome.status)));
    Ok(Exit::Done)
}
