//! `windlass threads commands`: lists and ends the background commands of a conversation, in all processes.

use clap::Args;
use windlass::BackgroundCommand;
use windlass_server::clock::now;
use windlass_server::text::{first_line, shown, shown_line};
use windlass_server::trouble::Trouble;

use super::{age, open};
use crate::cli::flags::PlaceFlags;
use crate::console::Console;

/// Maximum length of a command in the list, in characters.
const COMMAND_CHARS: usize = 60;

#[derive(Args, Debug)]
pub struct CommandsArgs {
    /// The thread's id, or the end of it [default: the newest]
    thread: Option<String>,
    /// End this command and all processes that it has started
    #[arg(long, value_name = "ID")]
    end: Option<String>,
    /// Print one line of JSON per command
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: PlaceFlags,
}

pub async fn run(console: &Console, args: &CommandsArgs) -> anyhow::Result<()> {
    let place = open(console, &args.place).await?;
    let thread = place.find_thread(args.thread.as_deref()).await?;
    let commands = place.engine.thread(&thread).commands().await?;
    let Some(id) = &args.end else {
        list(console, &commands, args.json);
        return Ok(());
    };
    let command = named(&commands, id)?;
    place.engine.thread(&thread).end_command(&command.id).await?;
    console.note(&format!("ended `{}`: {}", command.id, first_line(&shown(&command.command), COMMAND_CHARS)));
    Ok(())
}

/// Finds a command by its id, with or without the suffix for its process.
fn named<'a>(commands: &'a [BackgroundCommand], id: &str) -> Result<&'a BackgroundCommand, Trouble> {
    let is_named = |it: &&BackgroundCommand| it.id == id || it.id.split('@').next() == Some(id);
    let mut found = commands.iter().filter(is_named);
    match (found.next(), found.next()) {
        (Some(command), None) => Ok(command),
        (Some(_), Some(_)) => Err(Trouble::usage(format!(
            "`{}` is ambiguous: several processes run such a command",
            shown_line(id)
        ))
        .hint("`windlass threads commands` shows the full ids")),
        (None, _) => Err(Trouble::usage(format!("no running command `{}`", shown_line(id)))
            .hint("`windlass threads commands` shows the running commands")),
    }
}

fn list(console: &Console, commands: &[BackgroundCommand], json: bool) {
    if json {
        for line in commands.iter().filter_map(|command| serde_json::to_string(command).ok()) {
            console.out_json(&line);
        }
        return;
    }
    if commands.is_empty() {
        console.note("no running commands");
        return;
    }
    let now = now();
    let head = format!("{:<COMMAND_CHARS$}  {:>9}  ID", "COMMAND", "AGE");
    console.out_line(&console.out_paint.dim(&head));
    for command in commands {
        let shown = first_line(&shown(&command.command), COMMAND_CHARS - 1);
        console.out_line(&format!(
            "{shown:<COMMAND_CHARS$}  {:>9}  {}",
            age(now, command.begun_at),
            command.id
        ));
    }
}
