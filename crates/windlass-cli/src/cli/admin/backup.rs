//! `windlass admin backup` and `restore`: copies a store while it is in use, and creates a store from a copy.
//!
//! A copy contains the database and the large blobs. It excludes the files of users and
//! conversations, and the vault's key.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use windlass::sqlite::{self, Copied};
use windlass_server::account::Accounts;
use windlass_server::account::people::user::People;
use windlass_server::account::sessions::signing::Sessions;
use windlass_server::trouble::{Exit, Trouble};
use windlass_server::vault::Vault;

use crate::console::Console;
use crate::place::{Ground, Place};

#[derive(Args, Debug)]
pub struct BackupArgs {
    /// The folder to write to; it must not exist, or be empty
    #[arg(value_name = "DIR")]
    into: PathBuf,
}

#[derive(Args, Debug)]
pub struct RestoreArgs {
    /// The folder that `backup` wrote
    #[arg(value_name = "DIR")]
    from: PathBuf,
    /// Keep sessions and one-time links from the backup, even if they were ended after it was made
    #[arg(long)]
    keep_sessions: bool,
    /// The `vault.key` of the original store, which decrypts its stored credentials
    #[arg(long, value_name = "FILE")]
    vault_key: Option<PathBuf>,
}

pub async fn backup(console: &Console, ground: &Ground, args: &BackupArgs) -> anyhow::Result<Exit> {
    let into = std::path::absolute(&args.into)?;
    let store = ground.store();
    if into.starts_with(&store) {
        return Err(Trouble::usage(format!("`{}` is inside the store", into.display()))
            .hint("choose a folder outside the store, preferably on another disk")
            .into());
    }
    let copied = sqlite::backup(&store, &into).await?;
    console.out_line(&format!("copied {} to {}", words(&copied), into.display()));
    console.note(
        "not copied: `files/` (uploads and conversation folders) and `vault.key`, which decrypts stored credentials; \
         back up both, and keep the key in a separate place",
    );
    Ok(Exit::Done)
}

pub async fn restore(console: &Console, ground: Ground, args: &RestoreArgs) -> anyhow::Result<Exit> {
    let from = std::path::absolute(&args.from)?;
    let store = ground.store();
    let key = args.vault_key.as_ref().map(|file| Vault::read_key(file)).transpose()?;
    let copied = sqlite::restore(&from, &store).await?;
    let vault = match key {
        Some(key) => Vault::put(&store, &key)?,
        // No key file is written, so that the user can still copy the original key file to this path.
        None => Vault::unsaved()?,
    };
    let place = ground.open_store().await?;
    // First: if the rest fails or is cut short, the store is there, and is not restored again.
    if !args.keep_sessions {
        end_sessions(console, &place, vault).await?;
    }
    console.out_line(&format!("restored {} to {}", words(&copied), store.display()));
    console.note(&place.engine.check_store().await?);
    if args.vault_key.is_none() {
        console.note(&format!(
            "`{}` is missing: copy it from the original store. Otherwise the next start creates a new key, which cannot \
             decrypt the stored credentials",
            store.join("vault.key").display()
        ));
    }
    Ok(Exit::Done)
}

/// Ends all sessions, because some of them may have been ended after the backup. API keys stay
/// valid: programs cannot sign in again.
async fn end_sessions(console: &Console, place: &Place, vault: Vault) -> anyhow::Result<()> {
    let records = place.engine.records().clone();
    let accounts =
        Accounts::new(records, windlass_server::clock::clock(), Arc::new(People::default()), vault);
    let ended = accounts.rotate_keys(Sessions::End).await?;
    let keys = accounts.count_keys().await?;
    console.note(&format!(
        "ended {ended} sessions and all one-time links; {keys} API keys are restored as of the backup: revoke those \
         that were revoked since"
    ));
    Ok(())
}

fn words(copied: &Copied) -> String {
    let Copied { threads, events, files, bytes } = copied;
    format!("{threads} threads, {events} events and {files} large blobs ({bytes} bytes)")
}
