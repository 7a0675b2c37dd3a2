//! `windlass grants`: a user's grants, by which similar calls run without asking.

use clap::{Args, Subcommand};
use serde_json::json;
use windlass::GrantDraft;
use windlass::machine::{Condition, Grant, Predicate, ToolName};
use windlass_server::account::people::user::local;
use windlass_server::clock::now;
use windlass_server::policy::Length;
use windlass_server::text::shown_line;
use windlass_server::toolbox;
use windlass_server::trouble::{Exit, Trouble};

use crate::cli::flags::{ListFlags, ModelFlags, PlaceFlags};
use crate::console::Console;
use crate::place::{Ask, Ground, Place};
use crate::view::call::span;

#[derive(Args, Debug)]
pub struct GrantsArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the grants
    List(ListFlags),
    /// Let calls of a tool run without asking
    Add {
        /// The tool's name
        tool: ToolName,
        /// Only if this argument has this value, such as `/to=ann@example.com` [repeatable]
        #[arg(long, value_name = "POINTER=VALUE", value_parser = condition)]
        when: Vec<Condition>,
        /// Maximum number of calls [default: unlimited]
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
        count: Option<u32>,
        /// Duration, such as 30m, 8h or 2d [default: no expiry]
        #[arg(long = "for", value_name = "TIME")]
        lasts: Option<Length>,
        #[command(flatten)]
        place: PlaceFlags,
    },
    /// Revoke a grant; calls that have not started no longer match it
    Revoke {
        /// The grant's id, or the end of it
        grant: String,
        #[command(flatten)]
        place: PlaceFlags,
    },
}

pub async fn run(console: &Console, args: &GrantsArgs) -> anyhow::Result<Exit> {
    match &args.command {
        Command::List(ListFlags { json, place }) => {
            list(console, &open(console, place).await?, *json).await?
        }
        Command::Add { tool, when, count, lasts, place } => {
            let place = open_tools(console, place).await?;
            let by = local().principal;
            let grant = place.engine.policy().grant(GrantDraft {
                user: by.clone(),
                tool: tool.clone(),
                arguments: when.clone(),
                count: *count,
                expires_at: lasts.map(|lasts| now().plus_ms(lasts.0)),
                by,
            });
            let grant = grant.await.map_err(|error| toolbox::missing(&place.engine, error))?;
            console.note(&format!("granted: {}", words(&grant)));
        }
        Command::Revoke { grant, place } => {
            let place = open(console, place).await?;
            let id = find(&place, grant).await?;
            place.engine.policy().revoke(&id, None).await?;
            console.note(&format!("revoked: {id}"));
        }
    }
    Ok(Exit::Done)
}

async fn open(console: &Console, flags: &PlaceFlags) -> anyhow::Result<Place> {
    Ground::find(console, flags, &ModelFlags::default(), Ask::Never)?.open_store().await
}

/// Opens the store with its tool servers, because a grant is bound to the current version of the tool.
async fn open_tools(console: &Console, flags: &PlaceFlags) -> anyhow::Result<Place> {
    Ground::find(console, flags, &ModelFlags::default(), Ask::Never)?.open_tools().await
}

async fn list(console: &Console, place: &Place, json: bool) -> anyhow::Result<()> {
    let grants = place.engine.policy().grants(None).await?;
    for (user, grant) in &grants {
        if json {
            console.out_json(&json!({ "user": user, "grant": grant }).to_string());
        } else {
            console.out_line(&words(grant));
        }
    }
    if grants.is_empty() && !json {
        console.note("no grants");
    }
    Ok(())
}

fn words(grant: &Grant) -> String {
    let count = grant.remaining.map_or("unlimited".to_owned(), |count| format!("{count} left"));
    let lasts = match grant.expires_at {
        None => "no expiry".to_owned(),
        Some(at) if at <= now() => "expired".to_owned(),
        Some(at) => format!("for {}", span(at.since(now()))),
    };
    let conditions = grant.arguments.iter().map(|condition| match (&condition.argument[..], &condition.is) {
        ("", Predicate::Equals(value)) => format!("arguments {value}"),
        (argument, Predicate::Equals(value)) => format!("{argument} = {value}"),
        (argument, is) => format!("{argument} {}", json!(is)),
    });
    let conditions: Vec<String> = conditions.collect();
    let which = if conditions.is_empty() { "any arguments".to_owned() } else { conditions.join(", ") };
    let from =
        grant.server.as_ref().map(|server| format!(", from the server `{server}`")).unwrap_or_default();
    let line = format!("{}  {:<12}  {count:<12}  {lasts:<10}  {which}{from}", grant.id, grant.tool.as_str());
    shown_line(&line).into_owned()
}

async fn find(place: &Place, id: &str) -> anyhow::Result<String> {
    let grants = place.engine.policy().grants(None).await?;
    let mut found = grants.iter().map(|(_, grant)| &grant.id).filter(|it| !id.is_empty() && it.ends_with(id));
    match (found.next(), found.next()) {
        (Some(one), None) => Ok(one.clone()),
        (Some(_), Some(_)) => {
            Err(Trouble::usage(format!("`{id}` is ambiguous: several grant ids end with it"))
                .hint("give more of the id")
                .into())
        }
        (None, _) => Err(Trouble::usage(format!("no grant `{id}`"))
            .hint("`windlass grants list` lists the grants")
            .into()),
    }
}

/// Parses `POINTER=VALUE`. A value that is not valid JSON is a string.
fn condition(text: &str) -> Result<Condition, String> {
    let (argument, value) = text.split_once('=').ok_or("write `/argument=value`")?;
    if !argument.starts_with('/') {
        return Err(format!("a JSON pointer begins with `/`: write `/{argument}`"));
    }
    let value = serde_json::from_str(value).unwrap_or_else(|_| value.into());
    Ok(Condition { argument: argument.to_owned(), is: Predicate::Equals(value) })
}
