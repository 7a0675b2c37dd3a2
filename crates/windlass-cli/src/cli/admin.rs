//! `windlass admin`: administration of accounts directly in the store, without a server.

mod audit;
mod backup;

use std::sync::Arc;

use clap::{Args, Subcommand};
use windlass::machine::Principal;
use windlass_server::account::Scope;
use windlass_server::account::error::AccountError;
use windlass_server::account::key::KeyDraft;
use windlass_server::account::link::{DAY_S, LinkUse, Maker};
use windlass_server::account::people::user::{DEFAULT_WORKSPACE, LOCAL, People, User, fold_email};
use windlass_server::account::sessions::signing::Sessions;
use windlass_server::account::{Accounts, Role, secret};
use windlass_server::config::Settings;
use windlass_server::trouble::{Exit, Trouble};
use windlass_server::vault::Vault;

use super::serve;
use crate::cli::flags::{ModelFlags, PlaceFlags};
use crate::console::Console;
use crate::place::{Ask, Ground};

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
    /// Create an API key and print it once
    AddKey(AddKey),
    /// Print a one-time link that signs the local administrator in
    Link(LinkTo),
    /// Print a one-time link to reset a user's password
    Reset(Reset),
    /// Add a workspace and print a registration link for its first administrator
    AddWorkspace(AddWorkspace),
    /// Export and verify the audit log
    Audit(audit::AuditArgs),
    /// Rotate the key that signs access tokens; servers may be running
    RotateKeys(RotateKeys),
    /// Back up the store to a folder; it may be in use
    Backup(backup::BackupArgs),
    /// Restore a store from a backup
    Restore(backup::RestoreArgs),
}

#[derive(Args, Debug)]
struct LinkTo {
    /// The server's address in the link [default: from the configuration]
    #[arg(long, value_name = "URL")]
    address: Option<String>,
}

#[derive(Args, Debug)]
struct RotateKeys {
    /// Also end all sessions and invalidate one-time links
    #[arg(long)]
    end_sessions: bool,
}

#[derive(Args, Debug)]
struct Reset {
    /// The user's email address
    #[arg(value_name = "EMAIL")]
    email: String,
    #[command(flatten)]
    link: LinkTo,
}

#[derive(Args, Debug)]
struct AddWorkspace {
    /// Name of the workspace: letters a to z, digits, `-` and `_`
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    link: LinkTo,
}

impl LinkTo {
    /// Returns a link that contains the token.
    fn with(&self, settings: &Settings, token: &str) -> String {
        let configured = || match settings.server.public_urls.iter().flatten().next() {
            Some(url) => url.clone(),
            None => {
                format!("http://{}", settings.server.listen.map_or(serve::LISTEN.into(), |at| at.to_string()))
            }
        };
        let address = self.address.clone().unwrap_or_else(configured);
        windlass_server::http::link(&address, token)
    }
}

#[derive(Args, Debug)]
struct AddUser {
    /// The user's email address
    #[arg(value_name = "EMAIL")]
    email: String,
    /// The user's role
    #[arg(long, value_enum, default_value_t = RoleWord::Member)]
    role: RoleWord,
    /// The workspace
    #[arg(long, default_value = DEFAULT_WORKSPACE, value_name = "NAME")]
    workspace: String,
}

#[derive(Args, Debug)]
struct AddKey {
    /// A display name for the key
    #[arg(value_name = "NAME")]
    name: String,
    /// The user that the key belongs to
    #[arg(long, default_value = LOCAL, value_name = "ID")]
    user: String,
    /// Limit the key: read, run, approve, admin [default: all permissions of its user]
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

impl RoleWord {
    fn role(self) -> Role {
        match self {
            Self::Viewer => Role::Viewer,
            Self::Member => Role::Member,
            Self::Admin => Role::Admin,
        }
    }
}

impl ScopeWord {
    fn scope(self) -> Scope {
        match self {
            Self::Read => Scope::Read,
            Self::Run => Scope::Run,
            Self::Approve => Scope::Approve,
            Self::Admin => Scope::Admin,
        }
    }
}

pub async fn run(console: &Console, args: &AdminArgs) -> anyhow::Result<Exit> {
    // Verifying an export needs no store, so an auditor can run the command on any machine.
    if let Command::Audit(audit) = &args.command
        && let Some(exit) = audit::verify(console, audit)?
    {
        return Ok(exit);
    }
    let ground = Ground::find(console, &args.place, &ModelFlags::default(), Ask::Never)?;
    match &args.command {
        Command::Backup(args) => return backup::backup(console, &ground, args).await,
        Command::Restore(args) => return backup::restore(console, ground, args).await,
        Command::AddUser(_)
        | Command::AddKey(_)
        | Command::Link(_)
        | Command::Reset(_)
        | Command::AddWorkspace(_)
        | Command::RotateKeys(_)
        | Command::Audit(_) => {}
    }
    let place = ground.open_store().await?;
    let (records, settings) = (place.engine.records().clone(), &place.ground.settings);
    let vault = Vault::open(&place.ground.store())?;
    let accounts =
        Accounts::new(records, windlass_server::clock::clock(), Arc::new(People::default()), vault);
    accounts.local().await?;
    let said = match &args.command {
        Command::AddUser(args) => add_user(&accounts, args).await?,
        Command::AddKey(args) => return add_key(console, &accounts, args).await,
        Command::Link(link) => {
            let used_for = LinkUse::SignIn { user: Principal::from(LOCAL) };
            let made = accounts.make_link(Maker::Terminal, DEFAULT_WORKSPACE, used_for, DAY_S).await;
            link.with(settings, &made.map_err(trouble)?.1)
        }
        Command::Reset(args) => {
            let email = fold_email(&args.email).map_err(trouble)?;
            let none = || Trouble::usage(format!("no user has the email address `{email}`"));
            let user = accounts.by_email(&email).await?.ok_or_else(none)?;
            let made = accounts.reset_link(Maker::Terminal, &user.workspace, &user.id).await;
            args.link.with(settings, &made.map_err(trouble)?.1)
        }
        Command::AddWorkspace(args) => {
            let token = accounts.add_workspace(&args.name).await.map_err(trouble)?;
            args.link.with(settings, &token)
        }
        Command::RotateKeys(args) => {
            let sessions = if args.end_sessions { Sessions::End } else { Sessions::Keep };
            let ended = accounts.rotate_keys(sessions).await.map_err(trouble)?;
            match sessions {
                Sessions::Keep => {
                    "replaced the signing key; sessions stay valid and get new tokens".to_owned()
                }
                Sessions::End => format!("replaced the signing key and ended {ended} sessions"),
            }
        }
        Command::Audit(args) => return audit::run(console, &accounts, args).await,
        // These commands were handled before the store was opened.
        Command::Backup(_) | Command::Restore(_) => return Ok(Exit::Done),
    };
    console.out_line(&said);
    Ok(Exit::Done)
}

async fn add_user(accounts: &Accounts, args: &AddUser) -> anyhow::Result<String> {
    let user = User {
        id: Principal::from(format!("usr_{}", secret::draw::<9>()).as_str()),
        workspace: args.workspace.clone(),
        role: args.role.role(),
        name: args.email.clone(),
        email: Some(fold_email(&args.email).map_err(trouble)?),
        vouched: true,
        verified: false,
        typed: false,
        active: true,
        credit_micro_usd: None,
        created_at: windlass_server::clock::now(),
        settled_at: windlass_server::clock::now(),
    };
    match accounts.add_user(&user).await.map_err(AccountError::from) {
        Err(AccountError::Changed { .. }) => {
            Err(Trouble::usage(format!("the email address `{}` is already in use", args.email)).into())
        }
        added => {
            added?;
            Ok(user.id.to_string())
        }
    }
}

async fn add_key(console: &Console, accounts: &Accounts, args: &AddKey) -> anyhow::Result<Exit> {
    let user = Principal::from(args.user.as_str());
    if accounts.refresh().await?.find(&user).is_none() {
        return Err(Trouble::usage(format!("unknown user `{user}`")).into());
    }
    let scopes = args.scopes.iter().map(|word| word.scope()).collect();
    let draft = KeyDraft { user, name: args.name.clone(), scopes, expires_at: None };
    let (key, secret) = accounts.add_key(draft).await?;
    // The key is shown only once, so a key that could not be printed is revoked.
    if let Err(error) = console.try_out(&format!("{secret}\n")) {
        accounts.take_key_back(&key).await.map_err(trouble)?;
        let lost = format!("cannot print the key, so it was revoked: {error}");
        return Err(Trouble::output(lost).into());
    }
    Ok(Exit::Done)
}

/// Converts an account error. A store error stays a store error; any other error is a usage error.
fn trouble(error: AccountError) -> anyhow::Error {
    match error {
        AccountError::Store(error) => error.into(),
        error => Trouble::usage(error.to_string()).into(), // tidy: not our enum all others are the caller's
    }
}
