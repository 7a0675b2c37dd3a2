//! `Edit`: replaces one text in a file by another. The tool accepts no patches and no line numbers: an exact
//! match cannot change the wrong position.

use std::io::Read;

use schemars::JsonSchema;
use serde::Deserialize;
use windlass_engine::port::tool::ToolOutput;
use windlass_engine::tool::{FolderPath, WorkingFolder};
use windlass_machine::EffectClass;
use windlass_schema::FunctionTool;

use super::{Answer, Refusal, change, difference, foresee};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct EditArguments {
    /// Path relative to the working folder, or absolute inside it.
    file_path: String,
    /// The text to replace, without Read's line numbers.
    old_string: String,
    /// The replacement; must differ from `old_string`.
    new_string: String,
    #[serde(default)]
    replace_all: bool,
}

/// Creates the tool `Edit`, which replaces a text that occurs once in a file. (LM-T4)
pub fn edit() -> FunctionTool {
    FunctionTool::new("Edit", DESCRIPTION, |context, arguments: EditArguments| {
        change(context, move |folder| apply(folder, &arguments))
    })
    .preview(|context, arguments: EditArguments| {
        foresee(context, move |folder| {
            let edited = edited(folder, &arguments)?;
            let found = difference::find(folder, &edited.path)?;
            Ok(difference::unified(&edited.path, found.as_ref(), &edited.text))
        })
    })
    .records_changes()
    .path_argument("/file_path")
    .effect_class(EffectClass::Once)
}

const DESCRIPTION: &str = "Replace text in a file. `old_string` must match exactly, including white space, \
and occur exactly once: add surrounding lines to make it unique, or set `replace_all`.";

/// Maximum size of a file, in bytes. An edit holds the file twice in memory.
const MAX_SIZE_BYTES: u64 = 50 * 1024 * 1024;
/// Maximum number of line numbers reported for `replace_all`.
const MAX_REPORTED: usize = 50;

/// A file with its replacements applied, not yet written.
struct Edited {
    path: FolderPath,
    text: String,
    /// The inserted text, with the file's line endings.
    to: String,
    /// Offsets of the replacements in the new text.
    starts: Vec<usize>,
}

fn apply(folder: &WorkingFolder, arguments: &EditArguments) -> Answer {
    let Edited { path, text: new, to, starts } = edited(folder, arguments)?;
    folder.write(&path, new.as_bytes())?;
    let changed = if starts.len() == 1 { span(&new, starts[0], &to) } else { lines_at(&new, &starts) };
    let times = if starts.len() == 1 { String::new() } else { format!("{} replacements, ", starts.len()) };
    Ok(ToolOutput::text(format!("Edited `{path}`: {times}{changed}")))
}

fn edited(folder: &WorkingFolder, arguments: &EditArguments) -> Result<Edited, Refusal> {
    if arguments.old_string.is_empty() {
        return Err(Refusal::new("`old_string` is empty; use Write to create a file"));
    }
    if arguments.old_string == arguments.new_string {
        return Err(Refusal::new("`old_string` and `new_string` are the same: nothing to change"));
    }
    let path = folder.resolve(&arguments.file_path)?;
    folder.refuse_protected(&path)?;
    let mut bytes = Vec::new();
    let file = folder.open_file(&path)?;
    file.take(MAX_SIZE_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| Refusal::io("read", &path, error))?;
    if bytes.len() as u64 > MAX_SIZE_BYTES {
        return Err(Refusal(format!("`{path}` is too large to edit; the limit is {MAX_SIZE_BYTES} bytes")));
    }
    let old = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Refusal(format!("`{path}` is not UTF-8 (byte {at}); it cannot be edited"))
    })?;
    let (from, to) = line_ends_like(&old, &arguments.old_string, &arguments.new_string);
    let matches: Vec<usize> = old.match_indices(&from).map(|(at, _)| at).collect();
    match matches.len() {
        0 => {
            return Err(Refusal(format!(
                "`old_string` does not occur in `{path}`; read the file and copy the text exactly"
            )));
        }
        count if count > 1 && !arguments.replace_all => {
            let lines = lines_at(&old, &matches);
            return Err(Refusal(format!(
                "`old_string` occurs {count} times in `{path}` ({lines}); make it unique or set `replace_all`"
            )));
        }
        _ => {}
    }
    // Many short matches with a long replacement could exhaust the memory.
    let grown = to.len().saturating_sub(from.len()).saturating_mul(matches.len());
    if old.len().saturating_add(grown) as u64 > MAX_SIZE_BYTES {
        return Err(Refusal(format!(
            "`{path}` would grow to more than {MAX_SIZE_BYTES} bytes; replace less at a time"
        )));
    }
    let text = old.replace(&from, &to);
    // Each earlier replacement shifts the offset of the nth match by the same amount.
    let moved = to.len() as i64 - from.len() as i64;
    let starts: Vec<usize> =
        matches.iter().enumerate().map(|(nth, at)| (*at as i64 + moved * nth as i64) as usize).collect();
    Ok(Edited { path, text, to, starts })
}

/// Converts the line endings of both texts to those of the file, because models always write `\n`.
fn line_ends_like(file: &str, old: &str, new: &str) -> (String, String) {
    if file.contains("\r\n") && !old.contains('\r') && !file.contains(old) {
        (old.replace('\n', "\r\n"), new.replace("\r\n", "\n").replace('\n', "\r\n"))
    } else {
        (old.to_owned(), new.to_owned())
    }
}

fn span(text: &str, start: usize, replacement: &str) -> String {
    let first = 1 + count_lines(&text[..start]);
    let last = first + count_lines(replacement.strip_suffix('\n').unwrap_or(replacement));
    if first == last { format!("line {first}") } else { format!("lines {first}–{last}") }
}

fn lines_at(text: &str, starts: &[usize]) -> String {
    let (mut line, mut counted) = (1, 0);
    let mut numbers = Vec::new();
    for start in starts.iter().take(MAX_REPORTED) {
        line += count_lines(&text[counted..*start]);
        counted = *start;
        numbers.push(line.to_string());
    }
    let rest = if starts.len() > MAX_REPORTED { " and more" } else { "" };
    format!("lines {}{rest}", numbers.join(", "))
}

fn count_lines(text: &str) -> usize {
    text.bytes().filter(|byte| *byte == b'\n').count()
}
