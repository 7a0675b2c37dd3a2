//! `windlass admin`: what whoever may use the store may do with its accounts, without a server.

mod backup;

use std::sync::Arc;

use clap::{Args, Subcommand};
use windlass::machine::Principal;

use super::{ModelFlags, PlaceFlags};
use crate::account::key::{KeyDraft, Scope};
use crate::account::user::{DEFAULT_WORKSPACE, LOCAL, People, User};
use crate::account::{Accounts, Role, secret};
use crate::console::Console;
use crate::place::{Ask, Ground};
use crate::trouble::{Exit, Trouble};

/// Arguments of `admin`.
#[derive(Args, Debug)]
pub struct AdminArgs {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    place: PlaceFlags,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Add a user
    AddUser(AddUser),
    /// Make an API key and print it; it is not shown again
    AddKey(AddKey),
    /// Copy the store into a folder, also while it is in use
    Backup(backup::BackupArgs),
    /// Make a store of such a copy
    Restore(backup::RestoreArgs),
}

#[derive(Args, Debug)]
struct AddUser {
    /// The user's address
    #[arg(value_name = "EMAIL")]
    email: String,
    /// What the user may do
    #[arg(long, value_enum, default_value_t = RoleWord::Member)]
    role: RoleWord,
    /// The workspace
    #[arg(long, default_value = DEFAULT_WORKSPACE, value_name = "NAME")]
    workspace: String,
}

#[derive(Args, Debug)]
struct AddKey {
    /// What people call the key
    #[arg(value_name = "NAME")]
    name: String,
    /// Whose it is
    #[arg(long, default_value = LOCAL, value_name = "ID")]
    user: String,
    /// Limit it: read, run, approve, admin [default: all that its user may]
    #[arg(long = "scope", value_enum, value_name = "SCOPE", hide_possible_values = true)]
    scopes: Vec<ScopeWord>,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum RoleWord {
    Viewer,
    Member,
    Admin,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum ScopeWord {
    Read,
    Run,
    Approve,
    Admin,
}

/// Runs `admin`.
pub async fn run(console: &Console, args: &AdminArgs) -> anyhow::Result<Exit> {
    let ground = Ground::find(console, &args.place, &ModelFlags::default(), Ask::Never)?;
    match &args.command {
        Command::Backup(args) => return backup::backup(console, &ground, args).await,
        Command::Restore(args) => return backup::restore(console, ground, args).await,
        Command::AddUser(_) | Command::AddKey(_) => {}
    }
    let place = ground.open_store().await?;
    let records = place.engine.records().clone();
    let accounts = Accounts::new(records, crate::place::clock(), Arc::new(People::default()));
    accounts.local().await?;
    match &args.command {
        Command::AddUser(args) => {
            let user = User {
                id: Principal::from(format!("usr_{}", secret::draw::<9>()).as_str()),
                workspace: args.workspace.clone(),
                role: match args.role {
                    RoleWord::Viewer => Role::Viewer,
                    RoleWord::Member => Role::Member,
                    RoleWord::Admin => Role::Admin,
                },
                name: args.email.clone(),
                email: Some(args.email.to_lowercase()),
                active: true,
                created_at: crate::place::now(),
            };
            accounts.add_user(&user).await?;
            console.out_line(user.id.as_str());
        }
        Command::AddKey(args) => {
            let user = Principal::from(args.user.as_str());
            if accounts.refresh().await?.find(&user).is_none() {
                return Err(Trouble::usage(format!("there is no user `{user}`")).into());
            }
            let scopes = args.scopes.iter().map(|word| match word {
                ScopeWord::Read => Scope::Read,
                ScopeWord::Run => Scope::Run,
                ScopeWord::Approve => Scope::Approve,
                ScopeWord::Admin => Scope::Admin,
            });
            let draft =
                KeyDraft { user, name: args.name.clone(), scopes: scopes.collect(), expires_at: None };
            let (_, secret) = accounts.add_key(draft).await?;
            console.out_line(&secret);
        }
        // Done before the store was opened.
        Command::Backup(_) | Command::Restore(_) => {}
    }
    Ok(Exit::Done)
}
