//! `windlass admin backup` and `restore`: a copy of the store while it is in use, and a store made of it.
//!
//! A copy holds everything that the store holds, secrets that are kept in it included.

use std::path::PathBuf;

use clap::Args;
use windlass::adapter::sqlite::{self, Copied};

use crate::console::Console;
use crate::place::Ground;
use crate::trouble::{Exit, Trouble};

/// Arguments of `admin backup`.
#[derive(Args, Debug)]
pub struct BackupArgs {
    /// The folder to copy into; it must not exist yet, or be empty
    #[arg(value_name = "DIR")]
    into: PathBuf,
}

/// Arguments of `admin restore`.
#[derive(Args, Debug)]
pub struct RestoreArgs {
    /// The folder that `backup` wrote
    #[arg(value_name = "DIR")]
    from: PathBuf,
}

/// Runs `admin backup`.
pub async fn backup(console: &Console, ground: &Ground, args: &BackupArgs) -> anyhow::Result<Exit> {
    let into = std::path::absolute(&args.into)?;
    let store = ground.store();
    if into.starts_with(&store) {
        return Err(Trouble::usage(format!("`{}` lies inside the store", into.display()))
            .hint("name a folder outside, at best on another disk")
            .into());
    }
    let copied = sqlite::backup(&store, &into).await?;
    console.out_line(&format!("copied {} to {}", words(&copied), into.display()));
    Ok(Exit::Done)
}

/// Runs `admin restore`.
pub async fn restore(console: &Console, ground: Ground, args: &RestoreArgs) -> anyhow::Result<Exit> {
    let from = std::path::absolute(&args.from)?;
    let store = ground.store();
    let copied = sqlite::restore(&from, &store).await?;
    let place = ground.open_store().await?;
    let checked = place.engine.check_store().await?;
    console.out_line(&format!("restored {} to {}", words(&copied), store.display()));
    console.note(&checked);
    Ok(Exit::Done)
}

fn words(copied: &Copied) -> String {
    let Copied { threads, events, files, bytes } = copied;
    format!("{threads} threads, {events} events and {files} large blobs ({bytes} bytes)")
}
