//! `Write`: writes a whole file. The tool neither reads the previous content nor merges with it.
//!
//! If the write fails, the old file is unchanged.

use schemars::JsonSchema;
use serde::Deserialize;
use windlass_engine::port::tool::ToolOutput;
use windlass_engine::tool::Written;
use windlass_machine::Annotations;
use windlass_schema::FunctionTool;

use super::{change, difference, foresee};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WriteArguments {
    /// Path relative to the working folder, or absolute inside it.
    file_path: String,
    /// The complete new content.
    content: String,
}

/// Creates the tool `Write`, which creates or replaces a file. (LM-T3)
pub fn write() -> FunctionTool {
    FunctionTool::new("Write", DESCRIPTION, |context, arguments: WriteArguments| {
        change(context, move |folder| {
            let path = folder.resolve(&arguments.file_path)?;
            let written = folder.write(&path, arguments.content.as_bytes())?;
            let done = match written {
                Written::Created => "Created",
                Written::Overwritten => "Overwrote",
            };
            Ok(ToolOutput::text(format!("{done} `{path}`: {} bytes", arguments.content.len())))
        })
    })
    .preview(|context, arguments: WriteArguments| {
        foresee(context, move |folder| {
            let path = folder.resolve(&arguments.file_path)?;
            let found = difference::find(folder, &path)?;
            Ok(difference::unified(&path, found.as_ref(), &arguments.content))
        })
    })
    .records_changes()
    .path_argument("/file_path")
    .annotations(Annotations { idempotent_hint: true, ..Annotations::default() })
}

const DESCRIPTION: &str = "Write a file, replacing its content, and create missing directories. Windlass \
configuration, git's own files and shell start-up files are protected. Prefer Edit for small changes.";
