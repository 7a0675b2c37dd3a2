//! `NotebookEdit`: replaces, inserts or deletes one cell of a Jupyter notebook. (LM-T15; nbformat 4)
//!
//! The tool changes the bytes of that cell only: parsing and rewriting the notebook would
//! change every line in a diff. It runs no code, and clears the outputs of a changed
//! cell, because they belong to the old source.

mod text;

use std::io::Read;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use windlass_engine::port::tool::ToolOutput;
use windlass_engine::tool::{FolderPath, WorkingFolder};
use windlass_machine::{Digest, EffectClass, EffectId};
use windlass_schema::FunctionTool;

use self::text::{Cells, Splice, Style};
use super::{Refusal, change, difference, foresee};

/// The edit of a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Mode {
    #[default]
    Replace,
    Insert,
    Delete,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum CellType {
    Code,
    Markdown,
    Raw,
}

impl CellType {
    fn word(self) -> &'static str {
        match self {
            Self::Code => "code",
            Self::Markdown => "markdown",
            Self::Raw => "raw",
        }
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct EditArguments {
    /// The notebook, an `.ipynb` file: relative to the working folder, or an absolute path inside it.
    notebook_path: String,
    /// The id of the cell. With `insert`, the new cell is placed after it.
    #[serde(default)]
    cell_id: Option<String>,
    /// The position of the cell instead, counted from 0. With `insert`, the position of the new cell.
    #[serde(default)]
    cell_number: Option<usize>,
    /// The new source of the cell.
    #[serde(default)]
    new_source: Option<String>,
    /// The cell type. Required to insert a cell or to change its type.
    #[serde(default)]
    cell_type: Option<CellType>,
    /// The edit to make.
    #[serde(default)]
    edit_mode: Mode,
}

/// Creates the tool `NotebookEdit`.
pub fn notebook_edit() -> FunctionTool {
    FunctionTool::new("NotebookEdit", DESCRIPTION, |context, arguments: EditArguments| {
        let effect = context.effect_id.clone();
        change(context, move |folder| {
            let edited = edited(folder, &arguments, &effect)?;
            folder.write(&edited.path, edited.new.as_bytes())?;
            Ok(ToolOutput::text(format!("Edited `{}`: {}", edited.path, edited.done)))
        })
    })
    .preview(|context, arguments: EditArguments| {
        let effect = context.effect_id.clone();
        foresee(context, move |folder| {
            let edited = edited(folder, &arguments, &effect)?;
            let found = difference::find(folder, &edited.path)?;
            Ok(difference::unified(&edited.path, found.as_ref(), &edited.new))
        })
    })
    .records_changes()
    .path_argument("/notebook_path")
    .effect_class(EffectClass::Once)
}

const DESCRIPTION: &str = "Edit one cell of a Jupyter notebook (`.ipynb`): `replace` its source (default), \
`insert` a new cell, or `delete` a cell. Select the cell with `cell_id` or `cell_number`. Changing the \
source of a code cell clears its outputs. Does not run code.";

/// Maximum size of a notebook, in bytes. An edit holds the notebook twice in memory.
const MAX_SIZE_BYTES: u64 = 50 * 1024 * 1024;

/// A notebook with the change applied, not yet written.
struct Edited {
    path: FolderPath,
    new: String,
    done: String,
}

fn edited(folder: &WorkingFolder, arguments: &EditArguments, effect: &EffectId) -> Result<Edited, Refusal> {
    let path = folder.resolve(&arguments.notebook_path)?;
    if path.as_path().extension().is_none_or(|extension| extension != "ipynb") {
        return Err(Refusal(format!("`{path}` is not an `.ipynb` file; use Edit for other files")));
    }
    folder.refuse_protected(&path)?;
    let old = read(folder, &path)?;
    let cells = Cells::read(&old).map_err(|why| Refusal(format!("`{path}` {why}")))?;
    let style = Style::of(&old);
    let (splices, done) = match arguments.edit_mode {
        Mode::Replace => replaced(&cells, &style, arguments)?,
        Mode::Insert => inserted(&cells, &style, arguments, effect)?,
        Mode::Delete => deleted(&cells, arguments)?,
    };
    let new = text::apply(&old, splices);
    // Parse the new notebook, to detect an invalid one before it is written.
    Cells::read(&new).map_err(|why| Refusal(format!("the edit would produce a file that {why}")))?;
    Ok(Edited { path, new, done })
}

fn read(folder: &WorkingFolder, path: &FolderPath) -> Result<String, Refusal> {
    let mut bytes = Vec::new();
    let file = folder.open_file(path)?;
    file.take(MAX_SIZE_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| Refusal::io("read", path, error))?;
    if bytes.len() as u64 > MAX_SIZE_BYTES {
        return Err(Refusal(format!("`{path}` is too large to edit; the limit is {MAX_SIZE_BYTES} bytes")));
    }
    String::from_utf8(bytes).map_err(|_| Refusal(format!("`{path}` is not a notebook: it is not UTF-8")))
}

/// Returns the index of the cell that the arguments name.
fn place(cells: &Cells<'_>, arguments: &EditArguments) -> Result<usize, Refusal> {
    let count = cells.cells.len();
    match (&arguments.cell_id, arguments.cell_number) {
        (Some(id), None) => {
            cells.cells.iter().position(|cell| cell.id.as_deref() == Some(id.as_str())).ok_or_else(|| {
                Refusal(format!(
                    "no cell has the id `{id}`; select one of the {count} cells with `cell_number`"
                ))
            })
        }
        (None, Some(number)) if number < count => Ok(number),
        (None, Some(number)) => {
            Err(Refusal(format!("cell {number} does not exist; number of cells: {count}, counted from 0")))
        }
        (Some(_), Some(_)) | (None, None) => {
            Err(Refusal::new("select the cell with either `cell_id` or `cell_number`"))
        }
    }
}

fn replaced(
    cells: &Cells<'_>,
    style: &Style,
    arguments: &EditArguments,
) -> Result<(Vec<Splice>, String), Refusal> {
    let at = place(cells, arguments)?;
    let cell = &cells.cells[at];
    let Some(source) = &arguments.new_source else {
        return Err(Refusal::new("`new_source` is missing; to remove a cell, set `edit_mode` to `delete`"));
    };
    let done = format!("cell {at} replaced");
    let kind: &str = match arguments.cell_type {
        Some(kind) => kind.word(),
        None => &cell.kind,
    };
    if kind == cell.kind {
        let lined = style.source(source, cell.source.starts_with('"'));
        let mut splices = vec![style.splice(cells, cell.source, &lined)];
        if kind == "code" {
            let cleared = [(cell.outputs, json!([])), (cell.execution_count, Value::Null)];
            for (raw, value) in cleared {
                splices.extend(raw.map(|raw| style.splice(cells, raw, &value)));
            }
        }
        return Ok((splices, done));
    }
    // A different cell type has other members, so the cell is rewritten as a whole.
    // Members that both types have are kept; those of code cells are removed or reset.
    let mut whole: Value = serde_json::from_str(cell.raw).map_err(|error| Refusal(error.to_string()))?;
    let Some(members) = whole.as_object_mut() else { return Err(Refusal::new("the cell is not an object")) };
    members.insert("cell_type".into(), kind.into());
    members.insert("source".into(), style.source(source, cell.source.starts_with('"')));
    members.shift_remove("outputs");
    members.shift_remove("execution_count");
    if kind == "code" {
        members.insert("outputs".into(), json!([]));
        members.insert("execution_count".into(), Value::Null);
    }
    Ok((vec![style.splice(cells, cell.raw, &whole)], format!("{done}, now {kind}")))
}

fn inserted(
    cells: &Cells<'_>,
    style: &Style,
    arguments: &EditArguments,
    effect: &EffectId,
) -> Result<(Vec<Splice>, String), Refusal> {
    let count = cells.cells.len();
    let at = match (&arguments.cell_id, arguments.cell_number) {
        (Some(_), None) => place(cells, arguments)? + 1,
        (None, Some(number)) if number <= count => number,
        (None, Some(number)) => {
            return Err(Refusal(format!("a cell cannot be inserted at {number}; number of cells: {count}")));
        }
        (None, None) => {
            return Err(Refusal::new("set the position: `cell_id` of the preceding cell, or `cell_number`"));
        }
        (Some(_), Some(_)) => return Err(Refusal::new("set either `cell_id` or `cell_number`")),
    };
    let (Some(kind), Some(source)) = (arguments.cell_type, &arguments.new_source) else {
        return Err(Refusal::new("a new cell requires `cell_type` and `new_source`"));
    };
    let mut members = serde_json::Map::new();
    members.insert("cell_type".into(), kind.word().into());
    if kind == CellType::Code {
        members.insert("execution_count".into(), Value::Null);
    }
    if cells.has_ids {
        members.insert("id".into(), fresh_id(cells, effect).into());
    }
    members.insert("metadata".into(), json!({}));
    if kind == CellType::Code {
        members.insert("outputs".into(), json!([]));
    }
    members.insert("source".into(), style.source(source, false));
    let splice = style.insert(cells, at, &Value::Object(members));
    Ok((vec![splice], format!("{} cell inserted at {at}", kind.word())))
}

/// Returns an unused cell id. The id is derived from the call, so that the
/// approved and the written notebook are identical.
fn fresh_id(cells: &Cells<'_>, effect: &EffectId) -> String {
    let taken = |id: &str| cells.cells.iter().any(|cell| cell.id.as_deref() == Some(id));
    let mut digest = Digest::of(effect.as_str().as_bytes());
    loop {
        let id = digest.to_string()[..8].to_owned();
        if !taken(&id) {
            return id;
        }
        digest = Digest::of(digest.to_string().as_bytes());
    }
}

fn deleted(cells: &Cells<'_>, arguments: &EditArguments) -> Result<(Vec<Splice>, String), Refusal> {
    let at = place(cells, arguments)?;
    Ok((vec![cells.without(at)], format!("cell {at} deleted")))
}
