//! The files in a folder that settings refer to: programs and scripts to execute, and files and secrets to read.
//! Trusting the settings includes these files, and file tools must not change them. A missing file is included as well:
//! the user never trusted a file that is created later.
//!
//! The module includes files that well-known programs load by convention. It does not
//! find other files that a script loads.

mod convention;

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use toml::{Table, Value};
use windlass::machine::Digest;

use crate::place::programs::convention::found_by_name;

/// Maximum number of files; real settings refer to far fewer.
const FILES_MAX: usize = 1_024;
/// Maximum number of bytes hashed over all files. For a file beyond this limit, only the size is hashed.
const BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Maximum number of links followed for a missing file, the same limit as in Linux (`path_resolution(7)`).
const LINKS_MAX: u32 = 40;

/// A file that settings refer to, in its current state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    pub path: PathBuf,
    /// The path relative to the folder, for display.
    pub name: String,
    /// Digest of the file's bytes, or of its size beyond the limit. `None` if the file does not exist.
    pub digest: Option<Digest>,
}

/// Returns the files in a folder that settings refer to, ordered by path, followed by the missing ones. Returns
/// no file if the settings are invalid.
pub fn named_in(folder: &Path, settings: &str) -> Vec<Program> {
    named_within(folder, settings, BYTES_MAX)
}

fn named_within(folder: &Path, settings: &str, bytes_max: u64) -> Vec<Program> {
    let (Ok(root), Ok(table)) = (folder.canonicalize(), settings.parse::<Table>()) else { return Vec::new() };
    let mut words = Vec::new();
    for server in tables(&table, "mcp") {
        let base = text(server, "cwd").map_or_else(|| root.clone(), |cwd| root.join(cwd));
        let args = server.get("args").and_then(Value::as_array).into_iter().flatten();
        let env = server.get("env").and_then(Value::as_table).into_iter().flat_map(Table::values);
        let all = server.get("command").into_iter().chain(args).chain(env).filter_map(Value::as_str);
        let all: Vec<&str> = all.flat_map(parts).collect();
        words.extend(found_by_name(&all).into_iter().map(|file| (base.clone(), file)));
        for word in all {
            words.extend([(base.clone(), word.to_owned()), (root.clone(), word.to_owned())]);
        }
    }
    let mut named: Vec<String> =
        tables(&table, "api").filter_map(|service| text(service, "openapi")).map(str::to_owned).collect();
    for (outer, inner, key) in
        [("server", "tls", "certificate"), ("server", "tls", "key"), ("tools", "bash", "shell")]
    {
        let found = table.get(outer).and_then(|outer| outer.get(inner)?.get(key)?.as_str());
        named.extend(found.map(str::to_owned));
    }
    secrets(&Value::Table(table), &mut named);
    words.extend(named.into_iter().map(|path| (root.clone(), path)));
    let found = words.into_iter().filter_map(|(base, word)| real_path(&base.join(word), LINKS_MAX));
    // Existing files come first, so that missing ones (a script in an argument yields many) never displace them.
    let inside: BTreeSet<(bool, PathBuf)> = found
        .filter(|path| path.starts_with(&root) && !path.is_dir())
        .map(|path| (!path.is_file(), path))
        .collect();
    let mut left = bytes_max;
    inside.into_iter().take(FILES_MAX).map(|(_, path)| program(&root, path, &mut left)).collect()
}

/// Returns the real path of a file, which may be missing. Returns `None` if links form a loop.
fn real_path(path: &Path, links: u32) -> Option<PathBuf> {
    if let Ok(real) = path.canonicalize() {
        return Some(real);
    }
    let parent = || real_path(path.parent()?, links);
    match path.components().next_back()? {
        Component::Normal(name) => {
            let real = parent()?.join(name);
            match std::fs::read_link(&real) {
                Ok(target) => real_path(&real.parent()?.join(target), links.checked_sub(1)?),
                Err(_) => Some(real),
            }
        }
        Component::ParentDir => parent()?.parent().map(Path::to_owned),
        Component::CurDir => parent(),
        Component::RootDir | Component::Prefix(_) => Some(path.to_owned()),
    }
}

fn text<'t>(table: &'t Table, key: &str) -> Option<&'t str> {
    table.get(key).and_then(Value::as_str)
}

fn tables<'t>(table: &'t Table, name: &str) -> impl Iterator<Item = &'t Table> {
    table.get(name).and_then(Value::as_table).into_iter().flat_map(Table::values).filter_map(Value::as_table)
}

/// Returns the parts of an argument that may be paths: the whole text, and its pieces
/// between spaces, commas, colons and `=`.
fn parts(word: &str) -> impl Iterator<Item = &str> {
    let pieces = word.split(|c: char| c.is_whitespace() || "=,:".contains(c));
    std::iter::once(word).chain(pieces).filter(|part| !part.is_empty())
}

/// Collects the paths of secrets (`file:` references) at any depth.
fn secrets(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) => found.extend(text.strip_prefix("file:").map(str::to_owned)),
        Value::Array(values) => values.iter().for_each(|value| secrets(value, found)),
        Value::Table(table) => table.values().for_each(|value| secrets(value, found)),
        Value::Integer(_) | Value::Float(_) | Value::Boolean(_) | Value::Datetime(_) => {}
    }
}

fn program(root: &Path, path: PathBuf, left: &mut u64) -> Program {
    let size = path.is_file().then(|| std::fs::metadata(&path).map_or(0, |found| found.len()));
    let digest = size.map(|size| match if size <= *left { std::fs::read(&path).ok() } else { None } {
        Some(bytes) => {
            *left -= size;
            Digest::of(&bytes)
        }
        None => Digest::default().chain(&size),
    });
    let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
    Program { path, name, digest }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_settings_start_and_read_is_found() {
        let base = tempfile::tempdir().unwrap();
        let folder = base.path().join("folder");
        std::fs::create_dir_all(folder.join("tools/deep")).unwrap();
        std::fs::write(base.path().join("outside.js"), "x").unwrap();
        let files = [
            "server.sh",
            "tools/server.js",
            "tools/index.js",
            "tools/deep/a.py",
            "api.yaml",
            "token",
            "data.csv",
            "c.json",
            "hook.js",
            "cert.pem",
            "key.pem",
            "shell",
        ];
        for file in files {
            std::fs::write(folder.join(file), file).unwrap();
        }
        #[cfg(unix)]
        for (name, target) in [("linked.js", "later/made.js"), ("loop.js", "loop.js")] {
            std::os::unix::fs::symlink(target, folder.join(name)).unwrap();
        }
        let settings = "
            [mcp.a]
            command = './server.sh'
            args = ['../outside.js', 'missing/./../missing.js', '.', 'linked.js', 'loop.js', 'tools']
            [mcp.b]
            command = 'node'
            args = ['tools/server.js', '--config=c.json']
            [mcp.c]
            command = 'sh'
            args = ['-c', 'python a.py']
            cwd = 'tools/deep'
            env = { TOKEN = 'file:token', NODE_OPTIONS = '--require ./hook.js' }
            [mcp.e]
            command = 'node'
            args = ['tools']
            [api.d]
            base_url = 'https://example.com/data.csv'
            openapi = 'api.yaml'
            [server.tls]
            certificate = 'cert.pem'
            key = 'key.pem'
            [tools.bash]
            shell = './shell'
        ";
        let names = |settings: &str| {
            let named = named_in(&folder, settings).into_iter();
            named.filter(|named| named.digest.is_some()).map(|named| named.name).collect::<Vec<_>>()
        };
        let wanted = [
            "api.yaml",
            "c.json",
            "cert.pem",
            "hook.js",
            "key.pem",
            "server.sh",
            "shell",
            "token",
            "tools/deep/a.py",
            "tools/index.js",
            "tools/server.js",
        ];
        assert_eq!(names(settings), wanted);
        let absent = named_in(&folder, settings).into_iter().filter(|named| named.digest.is_none());
        let absent: Vec<_> = absent.map(|named| named.name).collect();
        for name in ["missing.js", "node", "tools/deep/python", "tools/package.json"] {
            assert!(absent.iter().any(|absent| absent == name), "{name}: {absent:?}");
        }
        #[cfg(unix)]
        assert!(
            absent.iter().any(|name| name == "later/made.js") && !absent.iter().any(|name| name == "loop.js")
        );
        assert!(!absent.iter().any(|name| name.contains("outside") || name.is_empty()), "{absent:?}");
        assert!(names("no TOML").is_empty() && names("store = 'data.csv'").is_empty());
        let before = named_in(&folder, settings);
        std::fs::write(folder.join("tools/server.js"), "evil").unwrap();
        let after = named_in(&folder, settings);
        let changed = before.iter().zip(&after).filter(|(before, after)| before.digest != after.digest);
        assert_eq!(changed.map(|(program, _)| &*program.name).collect::<Vec<_>>(), ["tools/server.js"]);
    }

    #[test]
    fn a_file_that_is_too_large_hides_no_change_of_the_others() {
        let folder = tempfile::tempdir().unwrap();
        let settings = "[mcp.a]\ncommand = './a'\nargs = ['b']";
        std::fs::write(folder.path().join("a"), "more than seven").unwrap();
        let digests = |b: &str| {
            std::fs::write(folder.path().join("b"), b).unwrap();
            named_within(folder.path(), settings, 7).into_iter().map(|named| named.digest).collect::<Vec<_>>()
        };
        let (before, after) = (digests("good"), digests("evil"));
        assert_eq!((before.len(), before[0]), (2, after[0]));
        assert_ne!(before[1], after[1]);
    }
}
