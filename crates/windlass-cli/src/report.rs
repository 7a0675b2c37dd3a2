//! The report of an error that ends a command.

use windlass_server::text::shown;
use windlass_server::trouble::{About, Exit, explain};

use crate::console::Console;
use crate::place::opened::opened;

/// Prints an error and its hints to standard error, and returns the exit status.
pub fn report(console: &Console, error: &anyhow::Error) -> Exit {
    let trouble = explain(error);
    let (message, hints) = trouble.parts();
    console.error(message);
    for hint in hints.iter().chain(&of_place(trouble.about())) {
        console.hint(&shown(hint));
    }
    trouble.exit()
}

/// Returns hints that name the open store.
fn of_place(about: About) -> Vec<String> {
    let Some(opened) = opened() else { return Vec::new() };
    let named = format!("the store is `{}`", opened.path.display());
    match about {
        About::Anything => Vec::new(),
        About::Store => vec![named],
        About::StoreInRun => {
            vec![
                named,
                format!("nothing recorded was lost; `windlass resume{}` continues the run", opened.flags),
            ]
        }
    }
}
