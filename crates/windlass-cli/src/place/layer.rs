//! The settings and rules of a folder, and the files in it that settings execute or read.

use std::path::{Path, PathBuf};

use windlass_server::config::{self, ConfigFile};
use windlass_server::policy::{Extent, InForce, PolicyText};
use windlass_server::shell_quote::quoted;
use windlass_server::trouble::Trouble;

use super::Ask;
use crate::console::Console;
use crate::paths::UserPaths;
use crate::place::programs::{Program, named_in};
use crate::place::trust::{FolderFiles, Standing, Trusted};

/// The parts of a folder's files that are in force.
pub(super) struct FolderLayer {
    pub(super) config: Option<ConfigFile>,
    pub(super) policy: Option<InForce>,
    /// Files in the folder that the settings in force execute or read, including the user's settings.
    pub(super) programs: Vec<PathBuf>,
}

fn paths(programs: Vec<Program>) -> impl Iterator<Item = PathBuf> {
    programs.into_iter().map(|program| program.path)
}

/// Reads a folder's files. If the user trusts the files, now or before, their entire content applies. Otherwise, only
/// rules that tighten the policy apply.
pub(super) fn read_layer(
    console: &Console,
    user: &UserPaths,
    folder: &Path,
    ask: Ask,
) -> Result<FolderLayer, Trouble> {
    let own = std::fs::read_to_string(&user.config).unwrap_or_default();
    let mut programs: Vec<PathBuf> = paths(named_in(folder, &own)).collect();
    let Some(files) = FolderFiles::read(folder)? else {
        return Ok(FolderLayer { config: None, policy: None, programs });
    };
    let mut trusted = Trusted::load(user)?;
    let standing = trusted.standing(&files);
    let mut counts = standing == Standing::Trusted;
    if !counts && ask == Ask::OnTerminal && console.can_ask() {
        counts = crate::place::trust::prompt::ask(console, &files, standing);
        if counts {
            trusted.trust(&files)?;
        }
    }
    let policy = files.policy.as_ref().map(|file| PolicyText::parse(&file.path, &file.text));
    if counts {
        let config = files.config.as_ref().map(|file| config::parse(&file.path, &file.text)).transpose()?;
        let policy = policy.map(|text| text.in_force(Extent::Whole)).transpose()?;
        programs.extend(paths(files.programs));
        return Ok(FolderLayer { config, policy, programs });
    }
    let why = match standing {
        Standing::Changed => "has changed since it was trusted",
        Standing::Unknown | Standing::Trusted => "is not trusted yet",
    };
    let folder = quoted(&folder.display().to_string());
    let hint = format!("review it, then run `windlass trust {folder}` in a terminal");
    if let Some(file) = &files.config {
        console.warn(&format!("`{}` {why} and is ignored", file.path.display()), &[&hint]);
    }
    if let Some(policy) = &policy {
        let what = format!("`{}` {why}: only its rules that deny or ask apply", policy.path.display());
        console.warn(&what, &[&hint]);
    }
    let policy = policy.map(|text| text.in_force(Extent::Tightening)).transpose()?;
    Ok(FolderLayer { config: None, policy, programs })
}
