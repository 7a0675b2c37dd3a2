//! Output on terminals of several widths: no word and no id is broken.

use super::terminal::Terminal;
use super::{TASK, User};

/// A command's output on a terminal of this width, without colours.
fn shown(user: &User, arguments: &[&str], columns: u16) -> Vec<String> {
    let (_, seen) = Terminal::sized(user.command(arguments), columns, 40).end();
    let mut plain = String::new();
    let mut rest = seen.as_str();
    while let Some((before, after)) = rest.split_once('\x1b') {
        plain.push_str(before);
        rest = after.split_once('m').map_or("", |(_, rest)| rest);
    }
    plain.push_str(rest);
    plain.lines().map(|line| line.trim_end().to_owned()).collect()
}

#[test]
fn ids_of_what_waits_are_whole_at_every_width() {
    let user = User::new();
    user.run(&["run", TASK]).exits(3);
    let id = user.run(&["approvals", "list", "--json"]).exits(0).json()["interrupt"].take();
    let id = id.as_str().unwrap();
    for columns in [60, 80, 100] {
        let lines = shown(&user, &["approvals", "list"], columns);
        assert!(lines.iter().any(|line| line.ends_with(id)), "{columns}: {lines:#?}");
        let fits = |line: &String| line.chars().count() <= columns.into();
        assert!(lines.iter().all(fits), "{columns}: {lines:#?}");
        assert!(lines.iter().any(|line| line.contains("Write insights.md")), "{columns}: {lines:#?}");
    }
}

#[test]
fn words_of_hints_and_checks_are_not_broken_at_the_edge() {
    let user = User::new();
    for columns in [60, 80, 100] {
        let lines = shown(&user, &["doctor", "--offline"], columns);
        let keys = "set ANTHROPIC_API_KEY, OPENAI_API_KEY, GEMINI_API_KEY or another provider's key";
        let all = lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ");
        assert!(all.contains(keys), "{columns}: {lines:#?}");
        let within = |line: &&String| line.contains("API_KEY") && line.chars().count() > columns.into();
        assert_eq!(lines.iter().find(within), None, "{columns}");
        let lines = shown(&user, &["run", "hello"], columns);
        let hint = "GEMINI_API_KEY, or name a model with";
        let all = lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ");
        assert!(all.contains(hint), "{columns}: {lines:#?}");
        // The reply also names a variable, but it is streamed without wrapping.
        let hints = lines.iter().filter(|line| !line.contains("the demo model"));
        assert_eq!(hints.clone().find(within), None, "{columns}");
    }
}
