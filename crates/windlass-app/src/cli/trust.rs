//! `windlass trust`: a person reads a folder's `windlass.toml` and lets it count. Only on a terminal.

use std::io::BufRead;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::console::{Console, shown, shown_line};
use crate::paths::{CONFIG_FILE, UserPaths};
use crate::trouble::{Exit, Trouble};
use crate::trust::{FolderFile, Standing, Trusted};

/// Arguments of `trust`.
#[derive(Args, Debug)]
pub struct TrustArgs {
    /// The folder [default: here]
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
    /// List the trusted folders
    #[arg(long, conflicts_with_all = ["revoke", "dir"])]
    list: bool,
    /// No longer trust the folder
    #[arg(long)]
    revoke: bool,
}

/// Runs `trust`.
pub fn run(console: &Console, args: &TrustArgs) -> anyhow::Result<Exit> {
    let user = UserPaths::find()?;
    let mut trusted = Trusted::load(&user)?;
    if args.list {
        list(console, &trusted);
        return Ok(Exit::Done);
    }
    let folder = args.dir.clone().unwrap_or_else(|| PathBuf::from("."));
    if args.revoke {
        let said = match trusted.revoke(&folder)? {
            true => "no longer trusted",
            false => "was not trusted",
        };
        console.note(&format!("`{}` {said}", shown_line(&folder.display().to_string())));
        return Ok(Exit::Done);
    }
    let Some(file) = FolderFile::read(&folder)? else {
        return Err(Trouble::usage(format!("there is no `{CONFIG_FILE}` in `{}`", folder.display())).into());
    };
    let standing = trusted.standing(&file);
    let path = file.path.display().to_string();
    let path = shown_line(&path);
    if standing == Standing::Trusted {
        console.note(&format!("`{path}` is already trusted"));
        return Ok(Exit::Done);
    }
    // A file that cannot be read is said before anyone is asked to trust it.
    crate::config::parse(&file.path, &file.text)?;
    if !console.can_ask() {
        return Err(Trouble::usage("trust is a person's word, given on a terminal")
            .hint(format!("run `windlass trust {}` in a terminal", folder.display()))
            .into());
    }
    if !ask(console, &file, standing) {
        console.note("not trusted; it stays ignored");
        return Ok(Exit::Failed);
    }
    trusted.trust(&file)?;
    console.note(&format!("`{path}` is trusted until it changes"));
    Ok(Exit::Done)
}

fn list(console: &Console, trusted: &Trusted) {
    let mut any = false;
    for folder in trusted.folders() {
        any = true;
        let standing = match FolderFile::read(Path::new(folder)) {
            Ok(Some(file)) if trusted.standing(&file) == Standing::Trusted => "trusted",
            Ok(Some(_)) => "changed, ignored",
            Ok(None) => "file is gone",
            Err(_) => "unreadable",
        };
        console.out_line(&format!("{standing:<18}{}", shown_line(folder)));
    }
    if !any {
        console.note("no folder is trusted");
    }
}

/// Shows the whole file and asks. Anything but `y` is a no.
pub fn ask(console: &Console, file: &FolderFile, standing: Standing) -> bool {
    let why = match standing {
        Standing::Changed => "has changed since it was trusted",
        Standing::Unknown | Standing::Trusted => "sets up Windlass in this folder",
    };
    console.note(&format!("`{}` {why}:\n", shown_line(&file.path.display().to_string())));
    for line in shown(&file.text).lines() {
        console.note(&format!("  {} {line}", console.paint.dim("│")));
    }
    console.note("\nIt can choose models, send them to other addresses and name secrets");
    console.err("Trust it as it is now? [y/N] ");
    let mut line = String::new();
    let read = std::io::stdin().lock().read_line(&mut line);
    read.is_ok() && matches!(line.trim(), "y" | "Y" | "yes")
}
