//! `windlass auto-run` and `windlass allow`: which calls run without asking if no rule applies to them.

use clap::{Args, ValueEnum};
use serde_json::json;
use windlass::Whose;
use windlass::machine::{AutoRun, ToolName};
use windlass_server::account::people::user::local;
use windlass_server::text::shown_line;
use windlass_server::toolbox;
use windlass_server::trouble::{Exit, Trouble};

use crate::cli::flags::{ModelFlags, PlaceFlags};
use crate::console::Console;
use crate::place::{Ask, Ground, Place};

/// Help text that explains the choices.
const CHOICES: &str = "\
Choices:
  ask         run read-only calls, ask for all others
  allowlist   also run calls of the tools on the list (`windlass allow`)
  everything  run all calls that are not marked destructive
  default     unset: a thread uses its user's choice, a user uses `ask`
Rules that deny or ask take precedence. The mode limits what a run may do at all:
`windlass run --mode`.";

#[derive(Args, Debug)]
#[command(after_help = CHOICES)]
pub struct AutoRunArgs {
    /// The new setting; without one, show the current one
    #[arg(value_enum, value_name = "CHOICE", hide_possible_values = true)]
    choice: Option<Choice>,
    /// Apply to this thread only: its id, or the end of it
    #[arg(long, value_name = "THREAD")]
    thread: Option<String>,
    #[command(flatten)]
    place: PlaceFlags,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Choice {
    Ask,
    Allowlist,
    Everything,
    Default,
}

impl Choice {
    fn auto_run(self) -> Option<AutoRun> {
        match self {
            Self::Ask => Some(AutoRun::Ask),
            Self::Allowlist => Some(AutoRun::Allowlist),
            Self::Everything => Some(AutoRun::Everything),
            Self::Default => None,
        }
    }
}

pub async fn auto_run(console: &Console, args: &AutoRunArgs) -> anyhow::Result<Exit> {
    let place = open(console, &args.place).await?;
    let user = Whose::User(local().principal);
    let thread = match &args.thread {
        Some(id) => Some(Whose::Thread(place.find_thread(Some(id)).await?)),
        None => None,
    };
    if let Some(choice) = args.choice {
        place.engine.policy().set_auto_run(thread.as_ref().unwrap_or(&user), choice.auto_run()).await?;
    }
    let own = match &thread {
        Some(thread) => place.engine.policy().auto_run(thread).await?,
        None => None,
    };
    let chosen = match own {
        Some(own) => Some(own),
        None => place.engine.policy().auto_run(&user).await?,
    };
    console.out_line(match chosen.unwrap_or_default() {
        AutoRun::Ask => "ask",
        AutoRun::Allowlist => "allowlist",
        AutoRun::Everything => "everything",
    });
    Ok(Exit::Done)
}

#[derive(Args, Debug)]
pub struct AllowArgs {
    /// The tools to add
    #[arg(value_name = "TOOL")]
    tools: Vec<ToolName>,
    /// Remove the tools from the list
    #[arg(long)]
    remove: bool,
    /// Show the list
    #[arg(long, conflicts_with_all = ["tools", "remove"])]
    list: bool,
    /// Print the list as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: PlaceFlags,
}

pub async fn allow(console: &Console, args: &AllowArgs) -> anyhow::Result<Exit> {
    if args.tools.is_empty() && !args.list {
        return Err(Trouble::usage("no tool given").hint("`windlass allow --list` shows the list").into());
    }
    let adds = !args.remove && !args.tools.is_empty();
    let place = match adds {
        // Adding validates the tools, so this command starts the tool servers.
        true => ground(console, &args.place)?.open_tools().await?,
        false => open(console, &args.place).await?,
    };
    let user = local().principal;
    for tool in &args.tools {
        match args.remove {
            true => place.engine.policy().disallow(&user, tool).await?,
            false => {
                let allowed = place.engine.policy().allow(&user, tool).await;
                allowed.map_err(|error| toolbox::missing(&place.engine, error))?;
            }
        }
    }
    let tools = place.engine.policy().allowed(&user).await?;
    if args.json {
        console.out_json(&json!(tools).to_string());
    } else if tools.is_empty() {
        console.note("the list is empty");
    } else {
        tools.iter().for_each(|tool| console.out_line(&shown_line(tool.as_str())));
    }
    let chosen = place.engine.policy().auto_run(&Whose::User(user)).await?;
    if !args.list && !args.remove && chosen != Some(AutoRun::Allowlist) {
        console.hint("the list applies if `allowlist` is set: `windlass auto-run allowlist`");
    }
    Ok(Exit::Done)
}

async fn open(console: &Console, flags: &PlaceFlags) -> anyhow::Result<Place> {
    ground(console, flags)?.open_store().await
}

fn ground(console: &Console, flags: &PlaceFlags) -> anyhow::Result<Ground> {
    Ok(Ground::find(console, flags, &ModelFlags::default(), Ask::Never)?)
}
