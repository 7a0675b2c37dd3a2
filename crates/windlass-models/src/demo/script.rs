//! Decides the demo model's next text and tool call.
//!
//! The script keeps no state: the request contains the whole conversation.

use serde_json::{Value, json};
use windlass_engine::port::model::ModelCall;
use windlass_machine::{Block, Message, Role, ToolResult};

use super::insight;

const INTRODUCTION: &str = "I am the demo model, a script, not an AI: I follow fixed steps so that you can watch \
the engine work. Set ANTHROPIC_API_KEY (or another provider's key) and pick a model for real answers.";

/// One reply: a text and at most one call.
#[derive(Debug, PartialEq)]
pub(super) struct Turn {
    pub text: String,
    /// The tool and its arguments.
    pub call: Option<(&'static str, Value)>,
}

impl Turn {
    fn say(text: impl Into<String>) -> Self {
        Self { text: text.into(), call: None }
    }
    fn call(text: impl Into<String>, tool: &'static str, arguments: Value) -> Self {
        Self { text: text.into(), call: Some((tool, arguments)) }
    }
}

/// Decides the next reply from the messages.
pub(super) fn next(call: &ModelCall) -> Turn {
    let messages = &call.request.messages;
    let asked_at = messages.iter().rposition(|message| message.role == Role::User && is_said(message));
    let task = asked_at.map(|at| said(call, &messages[at])).unwrap_or_default();
    let since = &messages[asked_at.map_or(messages.len(), |at| at + 1)..];
    let done = |tool: &str| {
        let mut blocks = since.iter().flat_map(|message| &message.blocks).rev();
        blocks.find_map(|block| {
            if let Block::ToolResult(result) = block {
                Some(result).filter(|result| result.name.as_str() == tool)
            } else {
                None
            }
        })
    };
    let has = |tool: &str| call.tools.iter().any(|spec| spec.name.as_str() == tool);
    let files = file_names(&task);
    if files.is_empty() {
        return Turn::say(abilities());
    }
    let Some(found) = done("Glob") else {
        if !has("Glob") {
            return Turn::say(format!(
                "{INTRODUCTION} I see no `Glob` tool here, so I cannot look for files."
            ));
        }
        return Turn::call(
            format!("{INTRODUCTION} First I look at the files here."),
            "Glob",
            json!({"pattern": "*"}),
        );
    };
    if found.error {
        return Turn::say(format!("I could not list the files: {}", why(call, found)));
    }
    let listing = shown(call, found);
    let Some((input, path)) = files.iter().find_map(|name| Some((name, existing(&listing, name)?))) else {
        let begins = has("Write") && task.to_lowercase().contains("write");
        return absent(call, &files, begins, done("Write"));
    };
    let Some(read) = done("Read") else {
        if !has("Read") {
            return Turn::say(format!("`{input}` is here, but I have no `Read` tool to open it."));
        }
        return Turn::call(format!("Now I read `{input}`."), "Read", json!({"file_path": path}));
    };
    if read.error {
        return Turn::say(format!("I could not read `{input}`: {}", why(call, read)));
    }
    let insights = insight::about(input, &insight::without_line_numbers(&shown(call, read)));
    let list: String = insights.iter().map(|insight| format!("- {insight}\n")).collect();
    let Some(output) = files.iter().find(|name| *name != input) else {
        return Turn::say(format!(
            "What I found in `{input}`:\n{list}I am a script; a real model would see more."
        ));
    };
    match done("Write") {
        None if has("Write") => {
            let content = format!("# Insights from {input}\n\n{list}");
            let arguments = json!({"file_path": output, "content": content});
            Turn::call(format!("I computed three facts and write them to `{output}`."), "Write", arguments)
        }
        None => Turn::say(format!("I have no `Write` tool, so here is what `{output}` would say:\n{list}")),
        Some(written) if written.error => Turn::say(format!(
            "`{output}` was not written: {}\nThis is what it would have said:\n{list}",
            why(call, written)
        )),
        Some(_) => Turn::say(format!("Done. `{output}` now holds three facts about `{input}`:\n{list}")),
    }
}

/// Returns the reply if none of the files exists. If the task names a single file to write, the reply writes
/// it, so that the user has a change to approve.
fn absent(call: &ModelCall, files: &[String], begins: bool, written: Option<&ToolResult>) -> Turn {
    let new = &files[0];
    if !begins || files.len() > 1 {
        return Turn::say(format!(
            "I found no file named `{new}` in this folder, and I cannot see attachments, so my script ends. \
I can create one: \"Write a plan to plan.md\"."
        ));
    }
    match written {
        None => {
            let content = format!("# {new}\n\n1. Look.\n2. Act.\n3. Say what was done.\n");
            let text = format!("There is no `{new}` yet, so I begin it with three lines.");
            Turn::call(text, "Write", json!({"file_path": new, "content": content}))
        }
        Some(written) if written.error => {
            Turn::say(format!("`{new}` was not written: {}", why(call, written)))
        }
        Some(_) => Turn::say(format!("Done. `{new}` is there now, with three lines of a script.")),
    }
}

fn abilities() -> String {
    format!(
        "{INTRODUCTION} Until then, name a file and I find and read it; name a second one and I write three \
facts into it. For example: \"Read data.csv and write three insights to insights.md\"."
    )
}

fn is_said(message: &Message) -> bool {
    message.blocks.iter().any(|block| matches!(block, Block::Text { .. }))
}

fn said(call: &ModelCall, message: &Message) -> String {
    texts(call, &message.blocks)
}

fn shown(call: &ModelCall, result: &ToolResult) -> String {
    texts(call, &result.content)
}

/// Returns why a call failed. Failures that the engine reports are JSON objects.
fn why(call: &ModelCall, result: &ToolResult) -> String {
    let text = shown(call, result);
    let said: Option<Value> = serde_json::from_str(&text).ok();
    first_line(said.as_ref().and_then(|said| said["error"].as_str()).unwrap_or(&text)).to_owned()
}

fn texts(call: &ModelCall, blocks: &[Block]) -> String {
    let mut all = String::new();
    for block in blocks {
        if let Block::Text { text, .. } = block {
            all.push_str(call.text(text).unwrap_or_default());
        }
    }
    all
}

/// Returns the file names in a text, such as `data.csv`, in order and without duplicates.
fn file_names(task: &str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let inside = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | '/');
    for word in task.split(|c: char| !inside(c)) {
        let word = word.trim_end_matches('.');
        let Some((stem, extension)) = word.rsplit_once('.') else { continue };
        let plausible = (1..=8).contains(&extension.len())
            && extension.chars().all(|c| c.is_ascii_alphanumeric())
            && extension.chars().any(|c| c.is_ascii_alphabetic())
            && stem.chars().any(char::is_alphanumeric);
        // `e.g` and `i.e` are not file names.
        if plausible && stem.len() + extension.len() > 2 && !names.iter().any(|name| name == word) {
            names.push(word.to_owned());
        }
    }
    names
}

/// Returns the path of a listed file with this name.
fn existing(listing: &str, name: &str) -> Option<String> {
    listing
        .lines()
        .map(str::trim)
        .find(|line| *line == name || line.ends_with(&format!("/{name}")))
        .map(str::to_owned)
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or("no reason given")
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::sync::Arc;

    use windlass_machine::{Annotations, Mode, ModelName, ModelRequest, ModelSettings, ToolSpec};

    use super::*;

    const TASK: &str = "Read data.csv and write three insights to insights.md.";

    fn result(name: &str, text: &str, error: bool) -> Message {
        let result =
            ToolResult { call_id: "x".into(), name: name.into(), content: vec![Block::text(text)], error };
        Message { role: Role::Tool, blocks: vec![Block::ToolResult(result)] }
    }

    /// Runs the script with these tools, task and results.
    fn check(tools: &[&str], task: &str, results: &[(&str, &str, bool)]) -> Turn {
        let mut messages = vec![Arc::new(Message::text(Role::User, task))];
        for (name, text, error) in results {
            messages.push(Arc::new(Message::text(Role::Assistant, "…")));
            messages.push(Arc::new(result(name, text, *error)));
        }
        let tools: Vec<ToolSpec> = tools
            .iter()
            .map(|name| ToolSpec {
                name: (*name).into(),
                description: String::new(),
                input_schema: json!({"type": "object"}),
                annotations: Annotations::default(),
                withheld: Vec::new(),
            })
            .collect();
        next(&ModelCall {
            request: ModelRequest {
                model: ModelName::from("demo/script"),
                system: Vec::new(),
                tools: None,
                loaded: None,
                messages,
                tail: Vec::new(),
                mode: Mode::Agent,
                settings: ModelSettings::default(),
            },
            tools: tools.into(),
            blobs: HashMap::new(),
        })
    }

    #[test]
    fn a_file_that_is_not_there_is_begun_where_that_is_asked_for() {
        let (all, task) = (["Glob", "Read", "Write"], "Write a plan to plan.md");
        let none = ("Glob", "No files match `*`.", false);
        let (tool, arguments) = check(&all, task, &[none]).call.unwrap();
        assert_eq!((tool, &arguments["file_path"]), ("Write", &json!("plan.md")));
        let done = check(&all, task, &[none, ("Write", "Wrote it", false)]);
        assert!(done.call.is_none() && done.text.starts_with("Done."), "{done:?}");
        let denied = check(&all, task, &[none, ("Write", "Denied: no", true)]);
        assert!(denied.text.contains("was not written: Denied: no"), "{denied:?}");
        // The model reports a file that cannot be read, and invents no facts about it.
        for task in ["Read plan.md", TASK] {
            let ends = check(&all, task, &[none]);
            assert!(ends.call.is_none() && ends.text.contains("Write a plan to plan.md"), "{ends:?}");
        }
    }

    #[test]
    fn the_whole_script() {
        let all = ["Glob", "Read", "Write"];
        let listing = ("Glob", "data.csv\nnotes.txt", false);
        let content = ("Read", "     1\tcity,people\n     2\tRome,3\n     3\tOslo,1\n", false);

        let first = check(&all, TASK, &[]);
        assert!(first.text.contains("a script, not an AI") && first.text.contains("ANTHROPIC_API_KEY"));
        assert_eq!(first.call, Some(("Glob", json!({"pattern": "*"}))));

        let second = check(&all, TASK, &[listing]);
        assert_eq!(second.call, Some(("Read", json!({"file_path": "data.csv"}))));

        let facts = "- `data.csv` has 2 rows and 2 columns: city, people\n\
                     - `people` goes from 1 to 3, with a mean of 2\n\
                     - the largest `people` is in the row `Rome`\n";
        let third = check(&all, TASK, &[listing, content]);
        let written = format!("# Insights from data.csv\n\n{facts}");
        assert_eq!(third.call, Some(("Write", json!({"file_path": "insights.md", "content": written}))));

        let last = check(&all, TASK, &[listing, content, ("Write", "ok", false)]);
        assert_eq!(last.call, None);
        assert!(last.text.contains(facts), "{}", last.text);

        let refused = check(&all, TASK, &[listing, content, ("Write", "denied by the user", true)]);
        assert!(refused.call.is_none() && refused.text.contains("denied by the user"));
    }

    #[test]
    fn absent_tools_and_files_end_the_script() {
        assert_eq!(check(&[], TASK, &[]).call, None);
        assert_eq!(check(&["Glob"], TASK, &[("Glob", "other.csv", false)]).call, None);
        assert_eq!(check(&["Glob"], TASK, &[("Glob", "data.csv", false)]).call, None);
        assert_eq!(check(&["Glob", "Read"], TASK, &[("Glob", "no access", true)]).call, None);
        assert_eq!(check(&["Glob", "Read", "Write"], "hello, e.g. you", &[]).call, None);
    }
}
