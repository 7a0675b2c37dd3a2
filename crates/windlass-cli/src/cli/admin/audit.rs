//! `windlass admin audit`: exports the audit log, and verifies an export without a store.

use std::io::BufReader;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use windlass_server::account::audit::verify::Flaw;
use windlass_server::account::people::user::DEFAULT_WORKSPACE;
use windlass_server::account::{Accounts, audit};
use windlass_server::trouble::{Exit, Trouble};

use crate::console::Console;

#[derive(Args, Debug)]
pub struct AuditArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print the whole log as lines of JSON
    Export(OfWorkspace),
    /// Print the last entry's hash: keep it elsewhere to detect a truncated log later
    Head(OfWorkspace),
    /// Verify an exported log
    Verify(Verify),
}

#[derive(Args, Debug)]
struct OfWorkspace {
    /// The workspace
    #[arg(long, default_value = DEFAULT_WORKSPACE, value_name = "NAME")]
    workspace: String,
}

#[derive(Args, Debug)]
struct Verify {
    /// The exported log
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The expected hash of the last entry
    #[arg(long, value_name = "HASH")]
    head: Option<String>,
}

/// Verifies an export, if the command is `verify`.
pub fn verify(console: &Console, args: &AuditArgs) -> Result<Option<Exit>, Trouble> {
    let Command::Verify(Verify { file, head }) = &args.command else { return Ok(None) };
    let unreadable =
        |error: &dyn std::fmt::Display| Trouble::usage(format!("cannot read `{}`: {error}", file.display()));
    let opened = std::fs::File::open(file).map_err(|error| unreadable(&error))?;
    match audit::verify::verify(BufReader::new(opened), head.as_deref()) {
        Ok(head) => {
            let (seq, workspace, hash) = (head.seq, head.workspace, head.hash);
            console.out_line(&format!(
                "verified {seq} entries of the workspace `{workspace}`; the last hash is {hash}"
            ));
            Ok(Some(Exit::Done))
        }
        Err(Flaw::Io(error)) => Err(unreadable(&error)),
        Err(flaw) => {
            console.note(&format!("{} {flaw}", console.paint.red("error:")));
            Ok(Some(Exit::Failed))
        }
    }
}

/// Runs the commands that need the store.
pub async fn run(console: &Console, accounts: &Accounts, args: &AuditArgs) -> anyhow::Result<Exit> {
    match &args.command {
        Command::Export(of) => {
            let mut export = accounts.audit_export(&of.workspace).await?;
            while let Some(lines) = accounts.audit_chunk(&mut export).await? {
                // Written unchanged, because escaping for the terminal would change the hashed bytes.
                console.out(&lines);
            }
        }
        Command::Head(of) => match accounts.audit_head(&of.workspace).await? {
            Some(head) => console.out_line(&format!("{} {}", head.seq, head.hash)),
            None => {
                return Err(Trouble::usage(format!("the audit log of `{}` is empty", of.workspace)).into());
            }
        },
        Command::Verify(_) => {}
    }
    Ok(Exit::Done)
}
