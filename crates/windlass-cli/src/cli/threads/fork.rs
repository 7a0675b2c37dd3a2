//! `windlass threads fork`: continues a conversation from an earlier position in a new thread, with its files
//! restored.
//!
//! If the conversation has a separate folder, the fork works in a copy of it. If it works in a folder
//! of the user, the fork shares that folder. `--restore-files` then restores its files, except those
//! that another program has changed since.

use clap::Args;
use windlass::machine::{Principal, Seq, ThreadId};
use windlass::port::journal::ThreadRow;
use windlass::{FileFate, ForkFiles, RestoreMode, Restored, UnseenCall};
use windlass_server::home::Homes;
use windlass_server::text::shown_line;
use windlass_server::trouble::{Exit, Trouble};

use super::open;
use crate::cli::flags::PlaceFlags;
use crate::console::Console;
use crate::place::Place;

#[derive(Args, Debug)]
pub struct ForkArgs {
    /// The thread's id, or the end of it [default: the newest]
    thread: Option<String>,
    /// The last event that the fork contains; `threads export` shows the numbers [default: the newest event]
    #[arg(long, value_name = "SEQ", value_parser = clap::value_parser!(u64).range(1..))]
    at: Option<u64>,
    /// Restore the files that tools have changed since then. A fork with a copied folder always does
    #[arg(long)]
    restore_files: bool,
    /// Also restore files that other programs have changed since
    #[arg(long, requires = "restore_files")]
    overwrite: bool,
    /// Only show what would happen to the files
    #[arg(long, requires = "restore_files")]
    preview: bool,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: PlaceFlags,
}

pub async fn run(console: &Console, args: &ForkArgs) -> anyhow::Result<Exit> {
    let place = open(console, &args.place).await?;
    let thread = place.find_thread(args.thread.as_deref()).await?;
    let row = place.engine.thread(&thread).row().await?;
    let at = args.at.map_or(row.head, Seq);
    if at > row.head {
        let what =
            format!("event {} does not exist: the last one of thread `{thread}` is {}", at.0, row.head.0);
        return Err(Trouble::usage(what).hint("`windlass threads export` shows them").into());
    }
    if Homes::is_own_of_thread(row.view.folder.as_deref()) {
        return copy(console, args, &place, row, at).await;
    }
    if args.restore_files && !place.homes.has_files_of(row.view.folder.as_deref()) {
        let at = row
            .view
            .folder
            .as_deref()
            .map_or("without a folder".into(), |at| format!("in `{}`", shown_line(at)));
        let what = format!("the files of thread `{thread}` are not here: it was started {at}");
        return Err(Trouble::usage(what)
            .hint("name that folder with `--dir`, and the store with `--store`")
            .into());
    }
    let restore = async |mode| place.engine.thread(&thread).files().restore(at, mode).await;
    if args.preview {
        let seen = restore(RestoreMode::Preview).await?;
        tell(console, args, None, Some(&seen));
        return Ok(Exit::Done);
    }
    let shared = row.view.folder.clone();
    let fork = place.engine.thread(&thread).fork(at, Principal::from("local"), row.view.folder).await?;
    let mode = if args.overwrite { RestoreMode::Overwrite } else { RestoreMode::Spare };
    let restored = if args.restore_files { Some(restore(mode).await?) } else { None };
    if let (None, Some(folder)) = (&restored, &shared) {
        let folder = shown_line(folder);
        console.note(&format!("the fork uses the same folder, `{folder}`; its files are unchanged"));
    }
    tell(console, args, Some(fork.as_str()), restored.as_ref());
    let is_left = |fate| matches!(fate, FileFate::ChangedSince | FileFate::NotKept | FileFate::Failed);
    let left = restored.iter().flat_map(|restored| &restored.files).any(|file| is_left(file.fate));
    Ok(if left { Exit::Failed } else { Exit::Done })
}

/// Forks a conversation with a separate folder. The fork receives a copy of the folder.
async fn copy(
    console: &Console,
    args: &ForkArgs,
    place: &Place,
    row: ThreadRow,
    at: Seq,
) -> anyhow::Result<Exit> {
    let engine = &place.engine;
    let (fork, files) = if args.preview {
        (None, engine.thread(&row.thread).files().preview_fork(at).await?)
    } else {
        let by = Principal::from("local");
        let made = engine.thread(&row.thread).files().fork(at, by, row.view.folder).await?;
        (Some(made.thread), made.files)
    };
    tell_copy(console, args, fork.as_ref().map(ThreadId::as_str), &files);
    Ok(Exit::Done)
}

fn tell_copy(console: &Console, args: &ForkArgs, fork: Option<&str>, files: &ForkFiles) {
    if args.json {
        console.out_json(&serde_json::json!({ "thread": fork, "files": files }).to_string());
        return;
    }
    for file in &files.restored {
        let word = word(file.fate, fork.is_none());
        console.out_line(&shown_line(&format!("{word:<13}  {}", file.path)));
    }
    for file in &files.not_restored {
        console.out_line(&shown_line(&format!("{:<13}  {}: {}", "not restored", file.path, file.why)));
    }
    warn_of_unseen(console, &files.unseen, files.unseen_total);
    if let Some(fork) = fork {
        console.out_line(fork);
    }
}

fn warn_of_unseen(console: &Console, unseen: &[UnseenCall], total: usize) {
    if total == 0 {
        return;
    }
    let mut tools: Vec<_> = unseen.iter().map(|call| call.tool.as_str()).collect();
    tools.sort_unstable();
    tools.dedup();
    let tools = shown_line(&tools.join("`, `")).into_owned();
    console.warn(&format!("{total} calls since then may have made untracked file changes: `{tools}`"), &[]);
}

fn tell(console: &Console, args: &ForkArgs, fork: Option<&str>, restored: Option<&Restored>) {
    if args.json {
        let said = serde_json::json!({ "thread": fork, "files": restored });
        console.out_json(&said.to_string());
        return;
    }
    for file in restored.iter().flat_map(|restored| &restored.files) {
        let why = file.why.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
        console.out_line(&shown_line(&format!(
            "{:<13}  {}{why}",
            word(file.fate, fork.is_none()),
            file.path
        )));
    }
    if let Some(restored) = restored {
        warn_of_unseen(console, &restored.unseen, restored.unseen_total);
    }
    if let Some(fork) = fork {
        console.out_line(fork);
    }
}

fn word(fate: FileFate, is_preview: bool) -> &'static str {
    match fate {
        FileFate::Restored if is_preview => "to be restored",
        FileFate::Removed if is_preview => "to be removed",
        FileFate::Restored => "restored",
        FileFate::Removed => "removed",
        FileFate::Unchanged => "unchanged",
        FileFate::ChangedSince => "changed since",
        FileFate::NotKept => "not kept",
        FileFate::Failed => "failed",
    }
}
