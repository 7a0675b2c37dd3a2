//! `windlass trust`: the user reviews a folder's `windlass.toml` and `windlass.policy.toml` and trusts
//! them. The command requires a terminal.

use std::path::{Path, PathBuf};

use clap::Args;
use windlass_server::policy::PolicyText;
use windlass_server::text::shown_line;
use windlass_server::trouble::{Exit, Trouble};

use crate::console::Console;
use crate::paths::{CONFIG_FILE, POLICY_FILE, UserPaths};
use crate::place::trust::prompt::ask;
use crate::place::trust::{FolderFiles, Standing, Trusted};

#[derive(Args, Debug)]
pub struct TrustArgs {
    /// The folder [default: the current directory]
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
    /// List the trusted folders
    #[arg(long, conflicts_with_all = ["revoke", "dir"])]
    list: bool,
    /// Revoke trust in the folder
    #[arg(long)]
    revoke: bool,
}

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
    let Some(files) = FolderFiles::read(&folder)? else {
        let what = format!("neither `{CONFIG_FILE}` nor `{POLICY_FILE}` exists in `{}`", folder.display());
        return Err(Trouble::usage(what).into());
    };
    let standing = trusted.standing(&files);
    let say = |what: &str| {
        for file in files.iter() {
            console.note(&format!("`{}` {what}", shown_line(&file.path.display().to_string())));
        }
    };
    if standing == Standing::Trusted {
        say("is already trusted");
        return Ok(Exit::Done);
    }
    // Report an invalid file before the prompt to trust it.
    if let Some(file) = &files.config {
        windlass_server::config::parse(&file.path, &file.text)?;
    }
    if let Some(file) = &files.policy {
        PolicyText::parse(&file.path, &file.text).whole()?;
    }
    if !console.can_ask() {
        return Err(Trouble::usage("trusting a folder requires confirmation in a terminal")
            .hint(format!("run `windlass trust {}` in a terminal", folder.display()))
            .into());
    }
    if !ask(console, &files, standing) {
        console.note("not trusted; nothing has changed");
        return Ok(Exit::Failed);
    }
    trusted.trust(&files)?;
    say("is trusted until it changes");
    Ok(Exit::Done)
}

fn list(console: &Console, trusted: &Trusted) {
    let mut any = false;
    for folder in trusted.folders() {
        any = true;
        let standing = match FolderFiles::read(Path::new(folder)) {
            Ok(Some(files)) if trusted.standing(&files) == Standing::Trusted => "trusted",
            Ok(Some(_)) => "changed, ignored",
            Ok(None) => "files are gone",
            Err(_) => "unreadable",
        };
        console.out_line(&format!("{standing:<18}{}", shown_line(folder)));
    }
    if !any {
        console.note("no folder is trusted");
    }
}
