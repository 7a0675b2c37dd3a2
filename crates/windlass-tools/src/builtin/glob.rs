//! `Glob`: finds files whose paths match a pattern, newest first. The tool reads names and no contents.
//!
//! Symbolic links that lead out of the folder are not followed.

use std::cmp::Reverse;
use std::path::Path;

use cap_std::time::SystemTime;
use globset::{GlobBuilder, GlobSet};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;
use windlass_engine::port::tool::ToolOutput;
use windlass_engine::tool::WorkingFolder;
use windlass_schema::FunctionTool;

use super::walk::{Entry, Flow, Ignored, walk};
use super::{Answer, Refusal, look, read_only};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct GlobArguments {
    /// The pattern, relative to `path`: `**/*.rs` or `src/{a,b}/*.md`.
    pattern: String,
    /// Directory to search (default: the working folder).
    path: Option<String>,
    #[serde(default)]
    include_ignored: bool,
}

/// Creates the tool `Glob`, which finds files by name. (LM-T5)
pub fn glob() -> FunctionTool {
    FunctionTool::new("Glob", DESCRIPTION, |context, arguments: GlobArguments| {
        look(context, move |folder, cancel| find(folder, cancel, &arguments))
    })
    .path_argument("/path")
    .annotations(read_only())
    .reads_locally()
}

const DESCRIPTION: &str = "Find files by pattern: `*`, `?`, `**` across directories, `[a-z]`, `{a,b}`. Returns up to \
1,000, newest first. Includes hidden files; skips `.git`, linked directories and what `.gitignore` names.";

const MAX_FOUND: usize = 1000;
const MAX_PATTERN_BYTES: usize = 4096;

fn find(folder: &WorkingFolder, cancel: &CancellationToken, arguments: &GlobArguments) -> Answer {
    let start = folder.resolve(arguments.path.as_deref().unwrap_or("."))?;
    let matcher = compile(relative_pattern(folder, &arguments.pattern)?)?;
    let mut found: Vec<(Reverse<Option<SystemTime>>, String)> = Vec::new();
    let mut visit = |entry: Entry<'_>| {
        let below = entry.path.strip_prefix(start.as_path()).unwrap_or(entry.path);
        if matcher.is_match(below)
            && let Some(modified) = modified(folder, &entry)
        {
            found.push((Reverse(modified), entry.path.to_string_lossy().into_owned()));
        }
        Ok(Flow::On)
    };
    let passed = walk(folder, &start, Ignored::included(arguments.include_ignored), cancel, &mut visit)?;
    found.sort();
    let total = found.len();
    let mut text = String::new();
    for (_, path) in found.iter().take(MAX_FOUND) {
        text.push_str(path);
        text.push('\n');
    }
    if total == 0 {
        text.push_str(&format!("[no file matches `{}`]\n", arguments.pattern));
    }
    if total > MAX_FOUND {
        text.push_str(&format!("[the newest {MAX_FOUND} of {total}; use a narrower pattern]\n"));
    }
    passed.note(&mut text);
    Ok(ToolOutput::text(text))
}

/// Returns when a file last changed. For a link, this is the time of its target,
/// if the target is a file inside the folder.
fn modified(folder: &WorkingFolder, entry: &Entry<'_>) -> Option<Option<SystemTime>> {
    let metadata = if entry.is_link {
        let target = folder.resolve(entry.path.to_str()?).ok()?;
        folder.metadata(&target).ok().filter(|metadata| metadata.is_file())?
    } else {
        entry.parent.symlink_metadata(entry.name).ok()?
    };
    Some(metadata.modified().ok())
}

/// Removes the folder from the beginning of an absolute pattern.
fn relative_pattern<'a>(folder: &WorkingFolder, pattern: &'a str) -> Result<&'a str, Refusal> {
    if !Path::new(pattern).is_absolute() {
        return Ok(pattern);
    }
    pattern
        .strip_prefix(folder.path().to_str().unwrap_or("/"))
        .and_then(|rest| rest.strip_prefix('/'))
        .ok_or_else(|| {
            Refusal(
                "the pattern is outside the working folder; write it relative to the working folder"
                    .to_owned(),
            )
        })
}

/// Compiles a pattern. The length of a pattern is limited.
pub(super) fn compile(pattern: &str) -> Result<GlobSet, Refusal> {
    if pattern.is_empty() {
        return Err(Refusal::new("the pattern is empty"));
    }
    if pattern.len() > MAX_PATTERN_BYTES {
        let length = pattern.len();
        return Err(Refusal(format!(
            "the pattern is {length} bytes long; at most {MAX_PATTERN_BYTES} are allowed"
        )));
    }
    if Path::new(pattern).components().any(|part| part == std::path::Component::ParentDir) {
        return Err(Refusal(format!("`..` is not allowed in the pattern `{pattern}`; use `path`")));
    }
    let pattern = pattern.strip_prefix("./").unwrap_or(pattern);
    // Compiles a set with one glob: the set's builder returns an error for a deeply nested pattern, where the
    // matcher of a single glob panics.
    GlobBuilder::new(pattern)
        .literal_separator(true)
        .build()
        .and_then(|glob| GlobSet::new([glob]))
        .map_err(|error| Refusal(format!("invalid pattern: {}", error.kind())))
}
