//! `windlass mcp add` and `remove`: adds a server to a configuration file, or removes one.
//!
//! Edits keep the comments and the layout of the remaining file. The edited text is parsed as a configuration before it
//! replaces the file, so that the commands never write a file that Windlass cannot read.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use clap::Args;
use toml_edit::{DocumentMut, InlineTable, Item, RawString, Table, value};
use windlass_server::config::{self, ConfigFile};
use windlass_server::servers::Page;
use windlass_server::shell_quote::quoted;
use windlass_server::text::shown_line;
use windlass_server::trouble::{Exit, Trouble};

use crate::console::Console;
use crate::paths::{CONFIG_FILE, UserPaths, private_directory};

#[derive(Args, Debug)]
pub struct AddArgs {
    /// The server's name: 1 to 32 of A-Z, a-z, 0-9, `_` and `-`, without `__`
    name: String,
    /// The server's address
    #[arg(long, value_name = "URL", conflicts_with = "command")]
    url: Option<String>,
    /// Use the HTTP+SSE transport of 2024
    #[arg(long, requires = "url")]
    sse: bool,
    /// A header of each request; write a secret as a reference, `Authorization=env:TOKEN`
    #[arg(long = "header", value_name = "NAME=VALUE", requires = "url")]
    headers: Vec<String>,
    /// An environment variable of the program; write a secret as a reference
    #[arg(long = "env", value_name = "NAME=VALUE", requires = "command")]
    env: Vec<String>,
    /// Trust the annotations of its tools
    #[arg(long)]
    trusted: bool,
    /// Write to the folder's file instead of the user's; the folder must then be trusted again
    #[arg(long)]
    folder: bool,
    /// The working folder [default: the current directory]
    #[arg(long, value_name = "DIR", env = "WINDLASS_DIR", hide_env_values = true)]
    dir: Option<PathBuf>,
    /// The program to start and its arguments, after `--`
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

#[derive(Args, Debug)]
pub struct RemoveArgs {
    /// The server's name
    name: String,
    /// Remove it from the folder's file instead of the user's
    #[arg(long)]
    folder: bool,
    /// The working folder [default: the current directory]
    #[arg(long, value_name = "DIR", env = "WINDLASS_DIR", hide_env_values = true)]
    dir: Option<PathBuf>,
}

/// Adds a server to a configuration file.
pub fn add(console: &Console, args: &AddArgs) -> Result<Exit, Trouble> {
    let (path, other) = files(args.folder, args.dir.as_deref())?;
    let name = &args.name;
    let (before, known) = read(&path)?;
    let elsewhere = read(&other)?.1;
    for (file, known) in [(&path, &known), (&other, &elsewhere)] {
        if known.mcp.contains_key(name) {
            let what = format!("server `{name}` already exists in `{}`", file.display());
            return Err(
                Trouble::usage(what).hint(format!("choose another name, or `windlass mcp remove {name}`"))
            );
        }
    }
    let text = with(&before, name, table(args)?)?;
    let after = config::parse(&path, &text)?;
    // Secrets are not resolved: only the shell that starts Windlass needs them.
    after.mcp.get(name).cloned().unwrap_or_default().without_secrets(name, Page::USUAL)?;
    if let Some(folder) = path.parent()
        && !folder.exists()
    {
        private_directory(folder)?;
    }
    replace(&path, &text).map_err(|error| unwritten(&path, &error))?;
    console.note(&format!("added `{name}` to `{}`", shown_line(&path.display().to_string())));
    if args.folder {
        console.hint("the folder's file has changed: run `windlass trust` to apply it");
    }
    let signs_in = after.mcp.get(name).is_some_and(|server| server.signs_in());
    if signs_in {
        console.hint(&format!(
            "`windlass mcp test {name}` connects to it; `windlass mcp login {name}` signs in, if required"
        ));
    } else {
        console.hint(&format!("`windlass mcp test {name}` connects to it and lists its tools"));
    }
    Ok(Exit::Done)
}

/// Removes a server from a configuration file.
pub fn remove(console: &Console, args: &RemoveArgs) -> Result<Exit, Trouble> {
    let (path, other) = files(args.folder, args.dir.as_deref())?;
    let name = &args.name;
    let (before, known) = read(&path)?;
    if !known.mcp.contains_key(name) {
        let trouble = Trouble::usage(format!("no server `{name}` in `{}`", path.display()));
        return Err(match read(&other)?.1.mcp.contains_key(name) {
            true if args.folder => trouble.hint("it is in the user's file: omit `--folder`"),
            true => trouble.hint("it is in the folder's file: add `--folder`"),
            false => trouble.hint("`windlass mcp list` lists the servers"),
        });
    }
    let after = without(&before, name)?;
    replace(&path, &after).map_err(|error| unwritten(&path, &error))?;
    console.note(&format!("removed `{name}` from `{}`", shown_line(&path.display().to_string())));
    if args.folder {
        console.hint("the folder's file has changed: run `windlass trust` to apply it");
    }
    Ok(Exit::Done)
}

/// Returns the selected file, and the other one.
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

/// Replaces a file's text atomically. If the file is a symbolic link, replaces the file that it links to.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let (real, permissions) = match path.canonicalize() {
        Ok(real) => (real.clone(), Some(fs::metadata(&real)?.permissions())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => (path.to_owned(), None),
        Err(error) => return Err(error),
    };
    let folder = real.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // Only the owner may read the temporary file, until it gets the permissions of the file that it replaces.
    let mut draft = tempfile::NamedTempFile::new_in(folder)?;
    draft.write_all(text.as_bytes())?;
    if let Some(permissions) = permissions {
        draft.as_file().set_permissions(permissions)?;
    }
    draft.as_file().sync_all()?;
    draft.persist(&real)?;
    Ok(())
}

fn unwritten(path: &Path, error: &std::io::Error) -> Trouble {
    Trouble::usage(format!("cannot write `{}`: {error}", path.display()))
        .hint("give this user write access, or edit the file by hand")
}

/// Creates the server's table.
fn table(args: &AddArgs) -> Result<Table, Trouble> {
    let mut table = Table::new();
    match (&args.url, args.command.split_first()) {
        (Some(url), None) => table.insert("url", value(url)),
        (None, Some((command, []))) => table.insert("command", value(command)),
        (None, Some((command, rest))) => {
            table.insert("command", value(command));
            table.insert("args", value(toml_edit::Array::from_iter(rest)))
        }
        (Some(_), Some(_)) | (None, None) => {
            return Err(Trouble::usage("a server needs either an address or a program").hint(format!(
                "`windlass mcp add {0} --url https://…`, or `windlass mcp add {0} -- COMMAND`",
                quoted(&args.name)
            )));
        }
    };
    if args.sse {
        table.insert("transport", value("sse"));
    }
    for (key, pairs) in [("headers", &args.headers), ("env", &args.env)] {
        let mut values = InlineTable::new();
        for pair in pairs {
            let (name, value) = pair.split_once('=').ok_or_else(|| {
                Trouble::usage(format!("a value of `{key}` has no `=`")).hint("write `NAME=VALUE`")
            })?;
            values.insert(name, value.into());
        }
        if !values.is_empty() {
            table.insert(key, value(values));
        }
    }
    if args.trusted {
        table.insert("trusted", value(true));
    }
    Ok(table)
}

/// Returns the text of a file with another server.
fn with(text: &str, name: &str, server: Table) -> Result<String, Trouble> {
    let mut document = document(text)?;
    let mut parent = Table::new();
    parent.set_implicit(true);
    let servers = document.entry("mcp").or_insert(Item::Table(parent));
    if let Some(servers) = servers.as_table_like_mut() {
        servers.insert(name, Item::Table(server));
    }
    Ok(document.to_string())
}

/// Returns the text of a file without a server. Removes the comments directly above the server's
/// table, but not those above a blank line.
fn without(text: &str, name: &str) -> Result<String, Trouble> {
    let mut document = document(text)?;
    let servers = document.get_mut("mcp").and_then(Item::as_table_like_mut);
    let Some(Item::Table(removed)) = servers.and_then(|servers| servers.remove(name)) else {
        return Ok(document.to_string());
    };
    let above = text_of(removed.decor().prefix());
    if let Some((kept, _)) = above.rsplit_once("\n\n").filter(|(kept, _)| kept.contains('#')) {
        let behind = removed.position().unwrap_or_default();
        let next = next_position(&document, behind);
        match next.and_then(|position| table_at(&mut document, position)) {
            Some(table) => {
                let prefix = format!("{kept}\n{}", text_of(table.decor().prefix()));
                table.decor_mut().set_prefix(prefix);
            }
            None => document.set_trailing(format!("{kept}\n{}", text_of(Some(document.trailing())))),
        }
    }
    Ok(document.to_string())
}

fn document(text: &str) -> Result<DocumentMut, Trouble> {
    text.parse().map_err(|error| Trouble::usage(format!("the configuration is not valid TOML: {error}")))
}

fn text_of(raw: Option<&RawString>) -> &str {
    raw.and_then(RawString::as_str).unwrap_or_default()
}

/// Returns the position in the file of the first table after another one.
fn next_position(table: &Table, behind: isize) -> Option<isize> {
    let tables = table.iter().filter_map(|(_, item)| item.as_table());
    tables
        .flat_map(|table| {
            table.position().filter(|at| *at > behind).into_iter().chain(next_position(table, behind))
        })
        .min()
}

fn table_at(table: &mut Table, position: isize) -> Option<&mut Table> {
    table.iter_mut().filter_map(|(_, item)| item.as_table_mut()).find_map(|table| {
        if table.position() == Some(position) { Some(table) } else { table_at(table, position) }
    })
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
    fn removing_a_server_keeps_everything_else() {
        let check =
            |text: &str, name: &str, expected: &str| assert_eq!(without(text, name).unwrap(), expected);
        let text = "# mine\nrelaxed = true\n\n# the tickets\n[mcp.a]\nurl = 'x'\n[mcp.a.headers]\nx = '1'\n\n[mcp.ab] # stays\nurl = 'y'\n";
        check(text, "a", "# mine\nrelaxed = true\n\n[mcp.ab] # stays\nurl = 'y'\n");
        check(text, "b", text);
        check("[mcp.\"a\"]\nurl = 'x'\n", "a", "");
        check("mcp = { a = { url = 'x' }, b = { url = 'y' } }\n", "a", "mcp = { b = { url = 'y' } }\n");
        check("mcp.a.url = 'x'\nmcp.b.url = 'y'\n", "a", "mcp.b.url = 'y'\n");
        let grouped = "relaxed = true\n\n# Servers\n\n# the tickets\n[mcp.a]\nurl = 'x'\n";
        check(grouped, "a", "relaxed = true\n\n# Servers\n");
        check(
            &format!("{grouped}\n[mcp.b]\nurl = 'y'\n"),
            "a",
            "relaxed = true\n\n# Servers\n\n[mcp.b]\nurl = 'y'\n",
        );
    }

    #[test]
    fn a_server_is_added_in_the_form_of_the_file() {
        let server = || {
            let mut table = Table::new();
            table.insert("url", value("x"));
            table
        };
        let check = |text: &str, expected: &str| assert_eq!(with(text, "a", server()).unwrap(), expected);
        check("", "[mcp.a]\nurl = \"x\"\n");
        check("# mine\nrelaxed = true", "# mine\nrelaxed = true\n\n[mcp.a]\nurl = \"x\"\n");
        check("mcp = { b = { url = 'y' } }\n", "mcp = { b = { url = 'y' } , a = { url = \"x\" } }\n");
    }
}
