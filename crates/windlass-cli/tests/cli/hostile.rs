//! The rows of the table of hostile inputs (`docs/security.md`) about the program itself: untrusted folders, and output
//! to a terminal.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;
use std::time::Duration;

use super::User;
use super::model::{Model, Turn};
use super::terminal::Terminal;

const TABLE: &str = include_str!("../../../../docs/security.md");

/// The rows of a section: the input and the expected result.
fn rows(section: &str) -> Vec<(String, String)> {
    let start = TABLE.find(&format!("### {section}\n")).unwrap_or_else(|| panic!("no section `{section}`"));
    let rest = &TABLE[start + 4..];
    let section = &rest[..rest.find("\n#").unwrap_or(rest.len())];
    let rows = section.lines().filter_map(|line| {
        let (fed, expected) = line.strip_prefix("| `")?.strip_suffix(" |")?.split_once("` | ")?;
        Some((fed.to_owned(), expected.to_owned()))
    });
    rows.collect()
}

/// Creates a row's input in a folder: a file with its text, a pipe, a link or a directory.
fn put(user: &User, fed: &str) {
    let at = |name: &str| user.folder().join(name);
    match fed.split_once(' ') {
        Some(("pipe", name)) => assert!(Command::new("mkfifo").arg(at(name)).status().unwrap().success()),
        Some(("directory", name)) => fs::create_dir(at(name)).unwrap(),
        Some(("link", rest)) => {
            let (name, target) = rest.split_once(" to ").unwrap();
            symlink(target, at(name)).unwrap();
        }
        _ => {
            let (name, text) = fed.split_once(": ").unwrap();
            let text = text.replace("\\n", "\n");
            let text = match text.split_once('×') {
                Some((part, times)) => part.repeat(times.parse().unwrap()),
                None => text,
            };
            fs::create_dir_all(at(name).parent().unwrap()).unwrap();
            fs::write(at(name), text).unwrap();
        }
    }
}

/// Maximum polls for the end of a process that reads hostile input: 30 s in total.
const LOOKS: u32 = 1_500;
const LOOK_EVERY: Duration = Duration::from_millis(20);

#[test]
fn an_untrusted_folder_configures_nothing() {
    let rows = rows("Folders");
    assert!(rows.len() >= 10, "{}", rows.len());
    let mut wrong = String::new();
    for (fed, expected) in rows {
        let user = User::new();
        put(&user, &fed);
        let mut child = user.start(&["run", "hello"]);
        let ended = (0..LOOKS).any(|_| {
            let ended = child.try_wait().unwrap().is_some();
            if !ended {
                std::thread::sleep(LOOK_EVERY); // tidy: sleep the end of a process sends no notification
            }
            ended
        });
        if !ended {
            child.kill().unwrap();
        }
        let said = super::said(child.wait_with_output().unwrap());
        let ran = if user.folder().join("ran").exists() { "something ran" } else { "nothing ran" };
        let code = if ended { format!("{:?}", said.code) } else { "it hangs".to_owned() };
        let out = format!("{code} {} {}", said.err.replace('\n', " "), ran);
        let mut rest = out.as_str();
        let fits = expected.split('…').all(|piece| match rest.find(piece) {
            Some(found) => {
                rest = &rest[found + piece.len()..];
                true
            }
            None => false,
        });
        if !fits || expected == "…nothing ran" {
            wrong.push_str(&format!("| `{fed}` | {expected} |\n  came out as: {out:.600}\n"));
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn what_a_model_says_moves_no_terminal() {
    let rows = rows("Terminals");
    assert!(rows.len() >= 6, "{}", rows.len());
    let mut wrong = String::new();
    for (fed, expected) in rows {
        let text: String = serde_json::from_str(&format!("\"{fed}\"")).unwrap();
        let user = User::new();
        let model = Model::start(vec![Turn::Say(text.clone().leak())]);
        let (_, said) = Terminal::open(model.command(&user, &["run", "go"])).end();
        let (_, shown) = Terminal::start(&user, &["threads", "show"]).end();
        let is_tame = |out: &str| out.contains(&expected) && !out.contains(&text);
        if !is_tame(&said) || !is_tame(&shown) {
            wrong.push_str(&format!("| `{fed}` | {expected} |\n  came out as: {said:?}\n{shown:?}\n"));
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}
