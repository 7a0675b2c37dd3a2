//! `windlass mode` and `windlass allow`: which calls run without asking, where no rule has a word on them.

use clap::{Args, ValueEnum};
use serde_json::json;
use windlass::Whose;
use windlass::machine::{AutoRun, ToolName};

use super::{ModelFlags, PlaceFlags};
use crate::console::{Console, shown_line};
use crate::place::{Ask, Ground, Place, local};
use crate::trouble::{Exit, Trouble};

/// What the modes mean.
const MODES: &str = "\
Modes:
  ask         calls that change nothing run, the others ask
  allowlist   calls of the tools on the list run too (`windlass allow`)
  everything  all run that are not marked destructive
  default     no choice: the thread has the user's mode, the user `ask`
Rules that deny or ask are stronger than any mode.";

/// Arguments of `mode`.
#[derive(Args, Debug)]
#[command(after_help = MODES)]
pub struct ModeArgs {
    /// The new mode; without one, says which it is
    #[arg(value_enum, value_name = "MODE", hide_possible_values = true)]
    mode: Option<Mode>,
    /// Of this thread alone, by its id or the end of it
    #[arg(long, value_name = "THREAD")]
    thread: Option<String>,
    #[command(flatten)]
    place: PlaceFlags,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Mode {
    Ask,
    Allowlist,
    Everything,
    Default,
}

impl Mode {
    fn choice(self) -> Option<AutoRun> {
        match self {
            Self::Ask => Some(AutoRun::Ask),
            Self::Allowlist => Some(AutoRun::Allowlist),
            Self::Everything => Some(AutoRun::Everything),
            Self::Default => None,
        }
    }
}

/// Runs `mode`.
pub async fn mode(console: &Console, args: &ModeArgs) -> anyhow::Result<Exit> {
    let place = open(console, &args.place).await?;
    let user = Whose::User(local().principal);
    let thread = match &args.thread {
        Some(id) => Some(Whose::Thread(place.find_thread(Some(id)).await?)),
        None => None,
    };
    if let Some(mode) = args.mode {
        place.engine.set_mode(thread.as_ref().unwrap_or(&user), mode.choice()).await?;
    }
    let own = match &thread {
        Some(thread) => place.engine.mode(thread).await?,
        None => None,
    };
    let chosen = match own {
        Some(own) => Some(own),
        None => place.engine.mode(&user).await?,
    };
    console.out_line(match chosen.unwrap_or_default() {
        AutoRun::Ask => "ask",
        AutoRun::Allowlist => "allowlist",
        AutoRun::Everything => "everything",
    });
    Ok(Exit::Done)
}

/// Arguments of `allow`.
#[derive(Args, Debug)]
pub struct AllowArgs {
    /// The tools
    #[arg(value_name = "TOOL")]
    tools: Vec<ToolName>,
    /// Take them off the list
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

/// Runs `allow`.
pub async fn allow(console: &Console, args: &AllowArgs) -> anyhow::Result<Exit> {
    if args.tools.is_empty() && !args.list {
        return Err(Trouble::usage("no tool is named").hint("`windlass allow --list` shows the list").into());
    }
    let place = open(console, &args.place).await?;
    let user = local().principal;
    for tool in &args.tools {
        match args.remove {
            true => place.engine.disallow(&user, tool).await?,
            false => place.engine.allow(&user, tool).await?,
        }
    }
    let tools = place.engine.allowed(&user).await?;
    if args.json {
        console.out_json(&json!(tools).to_string());
    } else if tools.is_empty() {
        console.note("no tool is on the list");
    } else {
        tools.iter().for_each(|tool| console.out_line(&shown_line(tool.as_str())));
    }
    let mode = place.engine.mode(&Whose::User(user)).await?;
    if !args.list && !args.remove && mode != Some(AutoRun::Allowlist) {
        console.hint("the list counts in the mode `allowlist`: `windlass mode allowlist`");
    }
    Ok(Exit::Done)
}

async fn open(console: &Console, flags: &PlaceFlags) -> anyhow::Result<Place> {
    Ground::find(console, flags, &ModelFlags::default(), Ask::Never)?.open_store().await
}
