//! The files in a folder that settings name: programs and scripts that they start, descriptions and secrets that they
//! read. Trust in the settings is trust in these, and file tools do not change them.
//!
//! Only files that are named are found; what a script loads by itself is not.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use toml::{Table, Value};
use windlass::machine::Digest;

/// Files that are looked at: far more than settings name.
const FILES_MAX: usize = 256;
/// Bytes that are digested of all of them. Of what is beyond, only the size counts.
const BYTES_MAX: u64 = 64 * 1024 * 1024;

/// A file that settings name, as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Its real path.
    pub path: PathBuf,
    /// The path relative to the folder, for people.
    pub name: String,
    /// Of its bytes, or of its size if there are too many.
    pub digest: Digest,
}

/// The files in a folder that settings name, in the order of their paths. Settings that cannot be read name none.
pub fn named_in(folder: &Path, settings: &str) -> Vec<Program> {
    let (Ok(root), Ok(table)) = (folder.canonicalize(), settings.parse::<Table>()) else { return Vec::new() };
    let mut words = Vec::new();
    for server in tables(&table, "mcp") {
        let base =
            server.get("cwd").and_then(Value::as_str).map_or_else(|| root.clone(), |cwd| root.join(cwd));
        let args = server.get("args").and_then(Value::as_array).into_iter().flatten();
        let all = server.get("command").into_iter().chain(args).filter_map(Value::as_str);
        for word in all.flat_map(parts) {
            words.extend([(base.clone(), word.to_owned()), (root.clone(), word.to_owned())]);
        }
    }
    for service in tables(&table, "api") {
        let named = service.get("openapi").and_then(Value::as_str);
        words.extend(named.map(|named| (root.clone(), named.to_owned())));
    }
    let mut references = Vec::new();
    secrets(&Value::Table(table), &mut references);
    words.extend(references.into_iter().map(|path| (root.clone(), path)));
    let found = words.into_iter().filter_map(|(base, word)| base.join(word).canonicalize().ok());
    let inside: BTreeSet<PathBuf> = found.filter(|path| path.starts_with(&root) && path.is_file()).collect();
    let mut left = BYTES_MAX;
    inside.into_iter().take(FILES_MAX).map(|path| program(&root, path, &mut left)).collect()
}

fn tables<'t>(table: &'t Table, name: &str) -> impl Iterator<Item = &'t Table> {
    table.get(name).and_then(Value::as_table).into_iter().flat_map(Table::values).filter_map(Value::as_table)
}

/// What of a word may be a path: all of it, and what stands behind blanks, commas and `=`.
fn parts(word: &str) -> impl Iterator<Item = &str> {
    let pieces = word.split(|c: char| c.is_whitespace() || c == '=' || c == ',');
    std::iter::once(word).chain(pieces).filter(|part| !part.is_empty())
}

/// Paths of secrets, which are references wherever they stand.
fn secrets(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) => found.extend(text.strip_prefix("file:").map(str::to_owned)),
        Value::Array(values) => values.iter().for_each(|value| secrets(value, found)),
        Value::Table(table) => table.values().for_each(|value| secrets(value, found)),
        Value::Integer(_) | Value::Float(_) | Value::Boolean(_) | Value::Datetime(_) => {}
    }
}

fn program(root: &Path, path: PathBuf, left: &mut u64) -> Program {
    let size = std::fs::metadata(&path).map_or(0, |found| found.len());
    let bytes = if size <= *left { std::fs::read(&path).ok() } else { None };
    let digest = match &bytes {
        Some(bytes) => Digest::of(bytes),
        None => Digest::default().chain(&size),
    };
    *left = left.saturating_sub(size);
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
        for file in
            ["server.sh", "tools/server.js", "tools/deep/a.py", "api.yaml", "token", "data.csv", "c.json"]
        {
            std::fs::write(folder.join(file), file).unwrap();
        }
        let settings = "
            [mcp.a]
            command = './server.sh'
            args = ['../outside.js', 'missing.js', '.']
            [mcp.b]
            command = 'node'
            args = ['tools/server.js', '--config=c.json']
            [mcp.c]
            command = 'sh'
            args = ['-c', 'python a.py']
            cwd = 'tools/deep'
            env = { TOKEN = 'file:token' }
            [api.d]
            base_url = 'https://example.com/data.csv'
            openapi = 'api.yaml'
        ";
        let names = |settings: &str| {
            named_in(&folder, settings).into_iter().map(|program| program.name).collect::<Vec<_>>()
        };
        let wanted = ["api.yaml", "c.json", "server.sh", "token", "tools/deep/a.py", "tools/server.js"];
        assert_eq!(names(settings), wanted);
        assert!(names("no TOML").is_empty() && names("store = 'data.csv'").is_empty());
        let before = named_in(&folder, settings);
        std::fs::write(folder.join("tools/server.js"), "evil").unwrap();
        let after = named_in(&folder, settings);
        let changed = before.iter().zip(&after).filter(|(before, after)| before.digest != after.digest);
        assert_eq!(changed.map(|(program, _)| &*program.name).collect::<Vec<_>>(), ["tools/server.js"]);
    }
}
