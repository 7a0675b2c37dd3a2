//! `windlass tools`: lists the tools that agents have in a folder, and tests them outside of any conversation.
//!
//! A trial call passes the same gate as an agent's call. It is not recorded.

use std::io::{BufRead, Read};

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use windlass::machine::{ToolName, Verdict};
use windlass::port::tool::OutputPart;
use windlass::{Consent, OfferedTool, Supposed, Trial, TrialResult, Tried};
use windlass_server::account::people::user::local;
use windlass_server::policy::{Length, word};
use windlass_server::text::{shown, shown_line};
use windlass_server::toolbox::{self, Listed, State, modes};
use windlass_server::trouble::{Exit, Trouble};

use crate::cli::flags::{ListFlags, ModelFlags, PlaceFlags};
use crate::console::Console;
use crate::place::{Ask, Ground, Place};

/// Maximum size of the arguments in bytes, the same as for a model's call.
const ARGUMENTS_MAX_BYTES: u64 = 1024 * 1024;

/// The section after the arguments in `call --help`.
const CALL_HELP: &str = "\
A call that the rules allow runs; a call that they deny does not. If they ask, you are asked in a
terminal. Elsewhere, `--yes` approves the call, if your approval is sufficient.
Exit codes: 0 done, 1 the tool failed or a rule denies the call, 2 wrong usage, 3 approval required";

#[derive(Args, Debug)]
pub struct ToolsArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the tools: in every request, loadable, or unavailable with the reason
    List(ListFlags),
    /// Show a tool: its description, its parameters and what the rules decide
    Show {
        /// The tool's name
        #[arg(value_name = "TOOL")]
        name: ToolName,
        /// Print the tool as JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        place: PlaceFlags,
    },
    /// Call a tool outside of any conversation
    #[command(after_help = CALL_HELP)]
    Call {
        /// The tool's name
        #[arg(value_name = "TOOL")]
        name: ToolName,
        /// The arguments as a JSON object; `-` reads them from standard input
        #[arg(value_name = "JSON", default_value = "{}", hide_default_value = true)]
        arguments: String,
        /// Approve the call if the rules ask
        #[arg(long, short)]
        yes: bool,
        /// Time-out without a sign of progress, such as `90s`
        #[arg(long, value_name = "TIME", default_value = "60s")]
        timeout: Length,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        place: PlaceFlags,
    },
}

pub async fn run(console: &Console, args: &ToolsArgs) -> anyhow::Result<Exit> {
    match &args.command {
        Command::List(ListFlags { json, place }) => {
            let place = open(console, place).await?;
            for listed in toolbox::list(&place.engine, &place.ground.settings) {
                list(console, &listed, *json);
            }
            Ok(Exit::Done)
        }
        Command::Show { name, json, place } => {
            let place = open(console, place).await?;
            show(console, &place, name, *json).await
        }
        Command::Call { name, arguments, yes, timeout, json, place } => {
            let arguments = read(arguments)?;
            let place = open_for(console, place, name).await?;
            let trial = Trial {
                tool: name.clone(),
                arguments,
                by: local(),
                folder: Some(place.homes.ground().clone()),
                consent: if *yes { Consent::Given } else { Consent::NotYet },
                timeout_ms: timeout.0.max(1_000),
                at_most_ms: None,
                stop: CancellationToken::new(),
                counts_as_approver: true,
            };
            call(console, &place, trial, *json).await
        }
    }
}

async fn open(console: &Console, flags: &PlaceFlags) -> anyhow::Result<Place> {
    Ground::find(console, flags, &ModelFlags::default(), Ask::OnTerminal)?.open_tools().await
}

/// Opens the store to call one tool. A built-in tool needs no server, unless integrations fill in its arguments.
async fn open_for(console: &Console, flags: &PlaceFlags, name: &ToolName) -> anyhow::Result<Place> {
    let ground = Ground::find(console, flags, &ModelFlags::default(), Ask::OnTerminal)?;
    let is_own = ground.tools()?.catalogue().iter().any(|tool| tool.name == *name);
    let is_alone = is_own && ground.settings.integrations.is_empty();
    if is_alone { ground.open_store().await } else { ground.open_tool(name).await }
}

fn class(tool: &OfferedTool) -> String {
    let class = serde_json::to_value(tool.class).unwrap_or_default();
    // A class with fields is encoded as an object with the class as its only key.
    let name = class.as_object().and_then(|members| members.keys().next().cloned());
    name.or_else(|| class.as_str().map(str::to_owned)).unwrap_or_default()
}

fn list(console: &Console, listed: &Listed, json: bool) {
    let Listed { name, state, why, tool } = listed;
    if json {
        let mut line = json!({ "name": name, "state": state.word(), "why": why });
        if let (Some(tool), Some(members)) = (tool, line.as_object_mut()) {
            members.extend([
                ("toolset".to_owned(), json!(tool.group)),
                ("server".to_owned(), json!(tool.server)),
                ("class".to_owned(), json!(class(tool))),
                ("trusted".to_owned(), json!(tool.trusted)),
                ("modes".to_owned(), json!(modes(tool))),
                ("tokens".to_owned(), json!(tool.tokens)),
            ]);
        }
        return console.out_json(&line.to_string());
    }
    let (group, class) = match tool {
        Some(tool) => (tool.group.as_deref().unwrap_or("-").to_owned(), class(tool)),
        None => ("-".to_owned(), "-".to_owned()),
    };
    let why = why.as_ref().filter(|_| *state != State::Loadable).map_or("", String::as_str);
    let line = format!("{:<24} {group:<12} {class:<11} {:<12} {why}", name.as_str(), state.word());
    console.out_line(&shown_line(line.trim_end()));
}

/// Creates the error for a missing tool, with the reason.
fn missing(place: &Place, name: &ToolName) -> Trouble {
    let known = toolbox::list(&place.engine, &place.ground.settings).into_iter().find(|it| it.name == *name);
    match known.and_then(|listed| listed.why) {
        Some(why) => Trouble::usage(format!("tool `{name}` is not available: {why}")),
        None => Trouble::usage(format!("unknown tool `{name}`")),
    }
    .hint("`windlass tools list` lists the tools")
}

async fn show(console: &Console, place: &Place, name: &ToolName, json: bool) -> anyhow::Result<Exit> {
    let found = toolbox::list(&place.engine, &place.ground.settings).into_iter().find(|it| it.name == *name);
    let call = Supposed { tool: name.clone(), arguments: None, by: local(), rules: None };
    let standing = place.engine.policy().standing(&call).await?;
    let (Some(Listed { state, tool: Some(tool), .. }), Some(standing)) = (found, standing) else {
        return Err(missing(place, name).into());
    };
    let words: Vec<&str> = modes(&tool).into_iter().map(|mode| mode.word()).collect();
    if json {
        let shown = json!({
            "name": name, "description": tool.spec.description, "input_schema": tool.spec.input_schema,
            "annotations": tool.spec.annotations, "trusted": tool.trusted, "class": class(&tool),
            "server": tool.server, "toolset": tool.group, "state": state.word(), "modes": words,
            "previews": tool.previews, "tokens": tool.tokens,
            "verdict": standing.verdict, "by": standing.by,
        });
        console.out_json(&shown.to_string());
        return Ok(Exit::Done);
    }
    console.out_line(&console.out_paint.bold(name.as_str()));
    console.out_line(&shown(&tool.spec.description));
    let of = match (&tool.group, &tool.server) {
        (Some(group), Some(server)) => format!("{}, toolset {group}, from the server {server}", state.word()),
        (Some(group), None) => format!("{}, toolset {group}", state.word()),
        (None, Some(server)) => format!("{}, from the server {server}", state.word()),
        (None, None) => state.word().to_owned(),
    };
    let believed = if tool.trusted { "" } else { ", its hints are not trusted" };
    let gate = match standing.verdict {
        Verdict::Allow => "runs without asking",
        Verdict::Ask => "requires approval",
        Verdict::Deny => "is denied",
    };
    for (what, how) in [
        ("given", of),
        ("class", format!("{}{believed}", class(&tool))),
        ("modes", words.join(", ")),
        ("gate", format!("{gate} (decided by {}), unless a rule tests the arguments", standing.by)),
        ("tokens", tool.tokens.to_string()),
    ] {
        console.out_line(&format!("{} {}", console.out_paint.dim(&format!("{what:<7}")), shown_line(&how)));
    }
    console.out_line(&shown(&serde_json::to_string_pretty(&tool.spec.input_schema)?));
    Ok(Exit::Done)
}

fn read(text: &str) -> Result<Value, Trouble> {
    let mut read = String::new();
    let text = if text == "-" {
        let from = std::io::stdin().lock().take(ARGUMENTS_MAX_BYTES + 1).read_to_string(&mut read);
        from.map_err(|error| Trouble::usage(format!("cannot read the arguments: {error}")))?;
        &read
    } else {
        text
    };
    if text.len() as u64 > ARGUMENTS_MAX_BYTES {
        return Err(Trouble::usage(format!("the arguments are longer than {ARGUMENTS_MAX_BYTES} bytes")));
    }
    match serde_json::from_str(text) {
        Ok(value @ Value::Object(_)) => Ok(value),
        Ok(_) => {
            Err(Trouble::usage("the arguments are not a JSON object").hint("write them as `{\"name\": …}`"))
        }
        Err(error) => Err(Trouble::usage(format!("the arguments are not valid JSON: {error}"))
            .hint("quote them for your shell: `'{\"file_path\": \"a.txt\"}'`")),
    }
}

async fn call(console: &Console, place: &Place, mut trial: Trial, json: bool) -> anyhow::Result<Exit> {
    let name = trial.tool.clone();
    let mut tried = place.engine.tools().try_tool(trial.clone()).await?;
    while let Tried::Asks { by, yours: true, preview } = &tried
        && trial.consent != Consent::Given
        && console.can_ask()
    {
        let again = if trial.consent == Consent::NotYet { "" } else { " again: its effect has changed" };
        console.note(&format!(
            "`{}` requires approval (decided by {}){again}",
            shown_line(name.as_str()),
            shown_line(by)
        ));
        preview.iter().for_each(|preview| console.note(&shown(preview)));
        console.err("Run it? [y/N] ");
        let mut line = String::new();
        let read = std::io::stdin().lock().read_line(&mut line);
        if read.is_err() || !matches!(line.trim(), "y" | "Y" | "yes") {
            break;
        }
        trial.consent = preview.clone().map_or(Consent::Given, Consent::AsShown);
        tried = place.engine.tools().try_tool(trial.clone()).await?;
    }
    Ok(match tried {
        Tried::Unknown => return Err(missing(place, &name).into()),
        Tried::Unfit { reason } => {
            return Err(Trouble::usage(format!("invalid call of `{name}`: {reason}"))
                .hint(format!("`windlass tools show {name}` shows its parameters"))
                .into());
        }
        Tried::Denied { by, reason } => {
            if json {
                let told =
                    json!({ "tool": name, "verdict": word(Verdict::Deny), "by": by, "reason": reason });
                console.out_json(&told.to_string());
            }
            let why = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
            console.note(&shown_line(&format!("not run: denied by `{by}`{why}")));
            Exit::Failed
        }
        Tried::Asks { by, yours, preview } => {
            if json {
                let told =
                    json!({ "tool": name, "verdict": word(Verdict::Ask), "by": by, "preview": preview });
                console.out_json(&told.to_string());
            }
            console.note(&shown_line(&format!("not run: it requires approval (decided by {by})")));
            match yours {
                true => console.hint("`--yes` approves it"),
                false => console.hint("another user has to approve such calls: let an agent make the call"),
            }
            Exit::Waiting
        }
        Tried::Ran(result) => ran(console, &name, &result, json),
    })
}

fn ran(console: &Console, name: &ToolName, result: &TrialResult, json: bool) -> Exit {
    if json {
        console.out_json(
            &json!({
                "tool": name, "verdict": word(Verdict::Allow), "by": result.by, "error": result.error,
                "duration_ms": result.duration_ms, "content": toolbox::content(result),
            })
            .to_string(),
        );
    } else {
        for part in &result.parts {
            console.out_line(&match part {
                OutputPart::Text(text) => shown(text).into_owned(),
                OutputPart::Image { media_type, bytes } => {
                    format!("[image, {}, {} bytes]", shown_line(media_type), bytes.len())
                }
                OutputPart::File { name, media_type, bytes } => {
                    let (name, media_type) = (shown_line(name), shown_line(media_type));
                    format!("[file, {name}, {media_type}, {} bytes]", bytes.len())
                }
            });
        }
    }
    if result.error { Exit::Failed } else { Exit::Done }
}
