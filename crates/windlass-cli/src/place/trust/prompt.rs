//! The terminal prompt that asks whether to trust a folder's files.

use std::io::BufRead;

use windlass_server::text::{shown, shown_line};

use crate::console::Console;
use crate::place::trust::FolderFiles;
use crate::place::trust::Standing;

/// Prints the files in full and prompts the user. Any input other than `y` means no.
pub fn ask(console: &Console, files: &FolderFiles, standing: Standing) -> bool {
    let why = match standing {
        Standing::Changed if files.iter().count() > 1 => {
            "or the other file has changed since they were trusted"
        }
        Standing::Changed => "has changed since it was trusted",
        Standing::Unknown | Standing::Trusted => "configures Windlass in this folder",
    };
    for file in files.iter() {
        console.note(&format!("`{}` {why}:\n", shown_line(&file.path.display().to_string())));
        for line in shown(&file.text).lines() {
            console.note(&format!("  {} {line}", console.paint.dim("│")));
        }
        console.note("");
    }
    if files.config.is_some() {
        console.note("It can choose models, redirect requests to other addresses and refer to secrets");
    }
    let found = files.programs.iter().filter(|program| program.digest.is_some());
    let names: Vec<String> = found.map(|program| format!("`{}`", shown_line(&program.name))).collect();
    if !names.is_empty() {
        console.note(&format!(
            "It executes or reads {}. Trust covers the current content of these files, so review them too. It does not \
             cover files that they load",
            names.join(", ")
        ));
    }
    if files.policy.is_some() {
        console.note("Its rules can allow tool calls without approval");
    }
    console.err("Trust the current content? [y/N] ");
    let mut line = String::new();
    let read = std::io::stdin().lock().read_line(&mut line);
    read.is_ok() && matches!(line.trim(), "y" | "Y" | "yes")
}
