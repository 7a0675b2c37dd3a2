//! Lists, reads and copies the files of the workspace.
//!
//! Excludes build output and version control. Does not interpret file contents.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// Folders without hand-written files.
const SKIPPED_FOLDERS: &[&str] = &["target", ".git", "node_modules"];

/// Lists all files in a folder as sorted relative paths, separated by `/`.
pub fn files(root: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    collect(root, "", &mut found)?;
    found.sort();
    Ok(found)
}

/// Reads a file as text. Replaces bytes that are not UTF-8.
pub fn read(root: &Path, path: &str) -> Result<String> {
    let bytes = fs::read(root.join(path)).with_context(|| format!("could not read `{path}`"))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Makes `copy` contain the same files as `root`. Unchanged files keep their modification time, so that a build in the
/// copy is incremental.
pub fn mirror(root: &Path, copy: &Path) -> Result<()> {
    fs::create_dir_all(copy)?;
    let wanted = files(root)?;
    for path in files(copy)? {
        if wanted.binary_search(&path).is_err() {
            fs::remove_file(copy.join(&path))
                .with_context(|| format!("could not remove the copy of `{path}`"))?;
        }
    }
    for path in &wanted {
        let target = copy.join(path);
        let bytes = fs::read(root.join(path)).with_context(|| format!("could not read `{path}`"))?;
        if fs::read(&target).is_ok_and(|present| present == bytes) {
            continue;
        }
        if let Some(folder) = target.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(&target, bytes).with_context(|| format!("could not write the copy of `{path}`"))?;
    }
    Ok(())
}

fn collect(folder: &Path, prefix: &str, found: &mut Vec<String>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("could not list `{}`", folder.display()))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{prefix}{name}");
        let kind = entry.file_type()?;
        if kind.is_dir() && !SKIPPED_FOLDERS.contains(&name.as_str()) {
            collect(&entry.path(), &format!("{path}/"), found)?;
        } else if kind.is_file() && name != ".git" {
            found.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mirror_copies_new_files_and_removes_old_ones() {
        let base = std::env::temp_dir().join(format!("windlass-xtask-mirror-{}", std::process::id()));
        let (root, copy) = (base.join("root"), base.join("copy"));
        fs::create_dir_all(root.join("a/target")).unwrap();
        fs::create_dir_all(&copy).unwrap();
        fs::write(root.join("a/kept.rs"), "kept").unwrap();
        fs::write(root.join("a/target/built"), "built").unwrap();
        fs::write(copy.join("gone.rs"), "gone").unwrap();
        mirror(&root, &copy).unwrap();
        let copied = files(&copy).unwrap();
        fs::remove_dir_all(&base).unwrap();
        assert_eq!(copied, ["a/kept.rs"]);
    }
}
