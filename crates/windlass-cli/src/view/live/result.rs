//! The result of a call in a few lines on a chat's screen: the last lines of its output, a diff, or a task list.

use serde_json::Value;
use windlass_server::text::{first_line, shown};

use crate::paint::Paint;
use crate::view::preview::{self, plural};

/// Maximum number of displayed lines of an output. The last lines are displayed, because commands
/// usually report success or failure in them.
const OUTPUT_LINES: usize = 5;

/// Maximum number of displayed lines of a diff.
const DIFFERENCE_LINES: usize = 12;

/// Maximum number of displayed characters of a line.
const LINE_CHARS: usize = 200;

/// Read-only tools, for which displaying the number of lines suffices.
const LOOKING: &[&str] = &["Read", "Glob", "FetchData", "read_todos", "WebFetch", "WebSearch"];

/// A finished call.
pub struct EndedCall<'a> {
    pub tool: &'a str,
    pub arguments: &'a str,
    pub text: &'a str,
    /// The number of the output for `/output`.
    pub number: usize,
    /// Whether the user has already seen the change in a request for approval.
    pub was_asked: bool,
    /// Whether the call failed. The first line of its output is already displayed beside the call.
    pub has_failed: bool,
}

/// Returns the lines below a call.
pub fn lines(call: &EndedCall<'_>, paint: Paint) -> Vec<String> {
    if call.has_failed {
        return if call.text.trim().lines().count() > 1 { output(call, paint) } else { Vec::new() };
    }
    match call.tool {
        "write_todos" => todos(call.arguments, paint),
        // The request for approval has already displayed the change.
        "Write" | "Edit" if call.was_asked => Vec::new(),
        "Write" | "Edit" => difference(call, paint),
        tool if LOOKING.contains(&tool) => {
            let count = call.text.lines().count();
            let line = format!("{count} {} (/output {})", plural(count, "line"), call.number);
            vec![paint.dim(&line).into_owned()]
        }
        _ => output(call, paint), // tidy: every other tool
    }
}

fn difference(call: &EndedCall<'_>, paint: Paint) -> Vec<String> {
    let all = preview::lines(call.tool, call.arguments, paint);
    let hidden = all.len().saturating_sub(DIFFERENCE_LINES);
    let mut lines: Vec<String> = all.into_iter().take(DIFFERENCE_LINES).collect();
    if hidden > 0 {
        lines.push(paint.dim(&format!("… {hidden} more {}", plural(hidden, "line"))).into_owned());
    }
    lines
}

fn output(call: &EndedCall<'_>, paint: Paint) -> Vec<String> {
    let text = shown(call.text.trim_end());
    let all: Vec<&str> = text.lines().collect();
    let hidden = all.len().saturating_sub(OUTPUT_LINES);
    let mut lines = Vec::new();
    if hidden > 0 {
        let more = format!("… {hidden} more {} (/output {})", plural(hidden, "line"), call.number);
        lines.push(paint.dim(&more).into_owned());
    }
    let line = |line: &&str| paint.dim(&first_line_whole(line)).into_owned();
    lines.extend(all[hidden..].iter().map(line));
    lines
}

/// Truncates a long line, and keeps its indentation.
fn first_line_whole(line: &str) -> String {
    let blanks = line.len() - line.trim_start().len();
    format!("{}{}", &line[..blanks], first_line(&line[blanks..], LINE_CHARS))
}

fn todos(arguments: &str, paint: Paint) -> Vec<String> {
    let value = serde_json::from_str::<Value>(arguments).unwrap_or_default();
    let todos = value.get("todos").and_then(Value::as_array).cloned().unwrap_or_default();
    let line = |todo: &Value| {
        let text = |key: &str| todo.get(key).and_then(Value::as_str).unwrap_or_default();
        let content = first_line(&shown(text("content")), LINE_CHARS);
        match text("status") {
            "completed" => paint.dim(&format!("☑ {content}")).into_owned(),
            "in_progress" => paint.bold(&format!("◐ {content}")).into_owned(),
            _ => format!("☐ {content}"), // tidy: pending, and what a newer version may add
        }
    };
    todos.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(tool: &str, arguments: &str, text: &str) -> Vec<String> {
        let was_asked = false;
        lines(&EndedCall { tool, arguments, text, number: 3, was_asked, has_failed: false }, Paint::Plain)
    }

    #[test]
    fn a_failed_call_shows_what_it_wrote() {
        let failed = |tool: &str, text: &str| {
            lines(
                &EndedCall { tool, arguments: "{}", text, number: 3, was_asked: true, has_failed: true },
                Paint::Plain,
            )
        };
        assert_eq!(
            failed("Bash", "Compiling\nerror: x\nExit code 101\n"),
            ["Compiling", "error: x", "Exit code 101"]
        );
        assert_eq!(failed("Edit", "one\ntwo"), ["one", "two"]);
        // A single line is displayed beside the call.
        assert!(failed("Bash", "no such file\n").is_empty());
    }

    #[test]
    fn an_output_shows_its_last_lines() {
        assert_eq!(
            check("Bash", "{}", "1\n2\n3\n  4\n5\n6\x1b[2J\n7\n"),
            ["… 2 more lines (/output 3)", "3", "  4", "5", "6␛[2J", "7"]
        );
        assert_eq!(check("Bash", "{}", "one\n"), ["one"]);
        assert!(check("Bash", "{}", "").is_empty());
    }

    #[test]
    fn a_tool_that_looks_says_how_much_it_found() {
        assert_eq!(check("Glob", "{}", "a\nb\n"), ["2 lines (/output 3)"]);
        assert_eq!(check("Grep", "{}", "a:1:x\nb:2:y\n"), ["a:1:x", "b:2:y"]);
    }

    #[test]
    fn an_edit_shows_its_difference_and_tasks_are_a_checklist() {
        let edit = r#"{"file_path":"a","old_string":"one","new_string":"two"}"#;
        assert_eq!(check("Edit", edit, "edited"), ["- one", "+ two"]);
        let todos = r#"{"todos":[{"content":"a","status":"completed"},{"content":"b","status":"in_progress"},{"content":"c","status":"pending"}]}"#;
        assert_eq!(check("write_todos", todos, "ok"), ["☑ a", "◐ b", "☐ c"]);
    }
}
