//! `windlass mcp add` and `remove`: a server in a configuration file.
//!
//! A table is added behind everything else, and one is taken out by its lines, so that what people wrote stays as they
//! wrote it. What comes out is read before it is written: a file that Windlass could not read is left as it was.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use clap::Args;
use toml::{Table, Value};
use windlass_server::clock::clock;
use windlass_server::config::{self, ConfigFile};
use windlass_server::servers::Page;
use windlass_server::shell_quote::quoted;
use windlass_server::text::shown_line;
use windlass_server::trouble::{Exit, Trouble};

use crate::console::Console;
use crate::paths::{CONFIG_FILE, UserPaths, private_directory};

/// Arguments of `mcp add`.
#[derive(Args, Debug)]
pub struct AddArgs {
    /// What it is called: 1 to 32 of A-Z, a-z, 0-9, `_` and `-`, without `__`
    name: String,
    /// Its address
    #[arg(long, value_name = "URL", conflicts_with = "command")]
    url: Option<String>,
    /// It speaks HTTP+SSE of 2024
    #[arg(long, requires = "url")]
    sse: bool,
    /// A header of each request; a secret is a reference, `Authorization=env:TOKEN`
    #[arg(long = "header", value_name = "NAME=VALUE", requires = "url")]
    headers: Vec<String>,
    /// A variable of its environment; a secret is a reference
    #[arg(long = "env", value_name = "NAME=VALUE", requires = "command")]
    env: Vec<String>,
    /// Believe the hints of its tools
    #[arg(long)]
    trusted: bool,
    /// Write it into the folder's file, which has to be trusted anew then, and not into the user's
    #[arg(long)]
    folder: bool,
    /// The working folder [default: here]
    #[arg(long, value_name = "DIR", env = "WINDLASS_DIR", hide_env_values = true)]
    dir: Option<PathBuf>,
    /// The program that is started and its arguments, after `--`
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// Arguments of `mcp remove`.
#[derive(Args, Debug)]
pub struct RemoveArgs {
    /// The server
    name: String,
    /// Take it out of the folder's file, and not of the user's
    #[arg(long)]
    folder: bool,
    /// The working folder [default: here]
    #[arg(long, value_name = "DIR", env = "WINDLASS_DIR", hide_env_values = true)]
    dir: Option<PathBuf>,
}

/// Writes a server down.
pub fn add(console: &Console, args: &AddArgs) -> Result<Exit, Trouble> {
    let (path, other) = files(args.folder, args.dir.as_deref())?;
    let name = &args.name;
    let (before, known) = read(&path)?;
    let elsewhere = read(&other)?.1;
    for (file, known) in [(&path, &known), (&other, &elsewhere)] {
        if known.mcp.contains_key(name) {
            let what = format!("there is a server `{name}` in `{}` already", file.display());
            return Err(
                Trouble::usage(what).hint(format!("choose another name, or `windlass mcp remove {name}`"))
            );
        }
    }
    let table = table(args)?;
    let gap = if before.is_empty() || before.ends_with("\n\n") { "" } else { "\n" };
    let end = if before.is_empty() || before.ends_with('\n') { "" } else { "\n" };
    let added = format!("{end}{gap}{table}");
    let after = config::parse(&path, &format!("{before}{added}"))?;
    // Without its secrets, which another shell may have: what else is wrong with it is said now.
    after.mcp.get(name).cloned().unwrap_or_default().without_secrets(name, Page::USUAL)?;
    if let Some(folder) = path.parent()
        && !folder.exists()
    {
        private_directory(folder)?;
    }
    replace(&path, &format!("{before}{added}")).map_err(|error| unwritten(&path, &error))?;
    console.note(&format!("`{name}` stands in `{}`", shown_line(&path.display().to_string())));
    if args.folder {
        console.hint("the folder's file has changed: `windlass trust` lets it count");
    }
    let signs_in = after.mcp.get(name).is_some_and(|server| server.signs_in());
    if signs_in {
        console.hint(&format!("`windlass mcp test {name}` reaches it; `windlass mcp login {name}` signs in there, where it wants that"));
    } else {
        console.hint(&format!("`windlass mcp test {name}` reaches it, and says what it has"));
    }
    Ok(Exit::Done)
}

/// Takes a server out.
pub fn remove(console: &Console, args: &RemoveArgs) -> Result<Exit, Trouble> {
    let (path, other) = files(args.folder, args.dir.as_deref())?;
    let name = &args.name;
    let (before, known) = read(&path)?;
    if !known.mcp.contains_key(name) {
        let trouble = Trouble::usage(format!("there is no server `{name}` in `{}`", path.display()));
        return Err(match read(&other)?.1.mcp.contains_key(name) {
            true if args.folder => trouble.hint("the user's file has it: leave `--folder` away"),
            true => trouble.hint("the folder's file has it: add `--folder`"),
            false => trouble.hint("`windlass mcp list` says which there are"),
        });
    }
    let by_hand = || {
        Trouble::usage(format!("`mcp.{name}` is not written as a table of its own in `{}`", path.display()))
            .hint("take it out by hand")
    };
    let after = without(&before, name);
    // Nothing but this server may be gone.
    let parsed = |text: &str| text.parse::<Table>().map_err(|_| by_hand());
    let (mut wanted, found) = (parsed(&before)?, parsed(&after)?);
    if let Some(Value::Table(servers)) = wanted.get_mut("mcp") {
        servers.remove(name);
        if servers.is_empty() {
            wanted.remove("mcp");
        }
    }
    let is_bare =
        |table: &Table| matches!(table.get("mcp"), Some(Value::Table(servers)) if servers.is_empty());
    let mut found = found;
    if is_bare(&found) {
        found.remove("mcp");
    }
    if wanted != found {
        return Err(by_hand());
    }
    replace(&path, &after).map_err(|error| unwritten(&path, &error))?;
    console.note(&format!("`{name}` is out of `{}`", shown_line(&path.display().to_string())));
    if args.folder {
        console.hint("the folder's file has changed: `windlass trust` lets it count");
    }
    Ok(Exit::Done)
}

/// The file that is meant, and the other one.
fn files(of_folder: bool, dir: Option<&Path>) -> Result<(PathBuf, PathBuf), Trouble> {
    let user = UserPaths::find()?.config;
    let folder = dir.unwrap_or(Path::new(".")).join(CONFIG_FILE);
    Ok(if of_folder { (folder, user) } else { (user, folder) })
}

fn read(path: &Path) -> Result<(String, ConfigFile), Trouble> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(Trouble::usage(format!("cannot read `{}`: {error}", path.display()))),
    };
    let file = config::parse(path, &text)?;
    Ok((text, file))
}

/// Puts a text in a file's place, whole or not at all. Where the file is a link, what it leads to is replaced.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let (real, permissions) = match path.canonicalize() {
        Ok(real) => (real.clone(), Some(fs::metadata(&real)?.permissions())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => (path.to_owned(), None),
        Err(error) => return Err(error),
    };
    let draft = real.with_extension(format!("toml.{:016x}", clock().random()));
    // Whatever has the name is not written to, and nobody reads the draft before the file's own permissions say so.
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&draft)?;
    let written = file
        .write_all(text.as_bytes())
        .and_then(|()| permissions.map_or(Ok(()), |permissions| file.set_permissions(permissions)))
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::rename(&draft, &real));
    if written.is_err() {
        // What was begun is of no use to anybody.
        let _ = fs::remove_file(&draft);
    }
    written
}

fn unwritten(path: &Path, error: &std::io::Error) -> Trouble {
    Trouble::usage(format!("cannot write `{}`: {error}", path.display()))
        .hint("give this user write access to it, or write the table by hand")
}

/// The server's table.
fn table(args: &AddArgs) -> Result<String, Trouble> {
    let mut table = format!("[mcp.{}]\n", args.name);
    let text = |text: &str| Value::from(text).to_string();
    let mut line = |key: &str, value: String| table.push_str(&format!("{key} = {value}\n"));
    match (&args.url, args.command.split_first()) {
        (Some(url), None) => line("url", text(url)),
        (None, Some((command, rest))) => {
            line("command", text(command));
            if !rest.is_empty() {
                line("args", Value::from(rest.to_vec()).to_string());
            }
        }
        (Some(_), Some(_)) | (None, None) => {
            return Err(Trouble::usage("a server is an address or a program").hint(format!(
                "`windlass mcp add {0} --url https://…`, or `windlass mcp add {0} -- COMMAND`",
                quoted(&args.name)
            )));
        }
    }
    if args.sse {
        line("transport", text("sse"));
    }
    for (key, pairs) in [("headers", &args.headers), ("env", &args.env)] {
        if !pairs.is_empty() {
            let mut values = Table::new();
            for pair in pairs {
                let (name, value) = pair.split_once('=').ok_or_else(|| {
                    Trouble::usage(format!("a value of `{key}` has no `=`")).hint("write `NAME=VALUE`")
                })?;
                values.insert(name.to_owned(), Value::from(value));
            }
            line(key, Value::from(values).to_string());
        }
    }
    if args.trusted {
        line("trusted", "true".to_owned());
    }
    Ok(table)
}

/// A file without the tables of a server. Comments that stand right above a table go with it.
fn without(text: &str, name: &str) -> String {
    let own = [format!("[mcp.{name}]"), format!("[mcp.\"{name}\"]"), format!("[mcp.'{name}']")];
    let below = [format!("[mcp.{name}."), format!("[mcp.\"{name}\"."), format!("[mcp.'{name}'.")];
    let is_own = |line: &str| {
        let head = line.split('#').next().unwrap_or_default().trim();
        own.iter().any(|own| own == head) || below.iter().any(|below| head.starts_with(below))
    };
    let mut kept: Vec<&str> = Vec::new();
    let mut is_out = false;
    for line in text.split_inclusive('\n') {
        if line.trim_start().starts_with('[') {
            is_out = is_own(line);
            if is_out {
                while kept.last().is_some_and(|above| above.trim_start().starts_with('#')) {
                    kept.pop();
                }
            }
        }
        if !is_out {
            kept.push(line);
        }
    }
    kept.concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn a_file_is_replaced_where_it_lies_and_stays_as_private_as_it_was() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real.toml"), folder.path().join("windlass.toml"));
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        symlink(&real, &link).unwrap();
        fs::write(&real, "a").unwrap();
        fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
        replace(&link, "b").unwrap();
        assert!(link.is_symlink());
        assert_eq!((fs::read_to_string(&real).unwrap(), mode(&real)), ("b".to_owned(), 0o640));
        let new = folder.path().join("new.toml");
        replace(&new, "c").unwrap();
        assert_eq!((fs::read_to_string(&new).unwrap(), mode(&new)), ("c".to_owned(), 0o600));
        let drafts = fs::read_dir(folder.path())
            .unwrap()
            .filter(|file| file.as_ref().unwrap().file_name().to_string_lossy().contains("toml."));
        assert_eq!(drafts.count(), 0);
    }

    #[test]
    fn a_servers_lines_go_and_nobody_elses() {
        let text = "# mine\nrelaxed = true\n\n# the tickets\n[mcp.a]\nurl = 'x'\n[mcp.a.headers]\nx = '1'\n\n[mcp.ab] # stays\nurl = 'y'\n";
        assert_eq!(without(text, "a"), "# mine\nrelaxed = true\n\n[mcp.ab] # stays\nurl = 'y'\n");
        assert_eq!(without(text, "b"), text);
        assert_eq!(without("[mcp.\"a\"]\nurl = 'x'\n", "a"), "");
    }
}
