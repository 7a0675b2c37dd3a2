//! `approvals`: an inbox over all threads, answered by other processes and at any later time.

use serde_json::{Value, json};

use super::model::{Model, Turn};
use super::{INSIGHTS, TASK, User, count, lines};

/// The ids of the open requests, in the list's order.
fn waiting(user: &User) -> Vec<String> {
    let listed = lines(&user.run(&["approvals", "list", "--json"]).exits(0).out);
    listed.iter().map(|row| row["interrupt"].as_str().unwrap().to_owned()).collect()
}

/// Replaces the parts that differ between runs.
fn plain(text: &str, ids: &[&str]) -> String {
    let mut plain = text.to_owned();
    for (nth, id) in ids.iter().enumerate() {
        let run = id.split_once('.').map_or(*id, |(run, _)| run);
        plain = plain.replace(run, &format!("run_{}", nth + 1));
    }
    for seconds in 1..60 {
        plain = plain.replace(&format!(" {seconds} s"), " 0 s");
    }
    plain.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

fn write(path: &str) -> (&'static str, Value) {
    ("Write", json!({ "file_path": path, "content": "x" }))
}

#[test]
fn what_waits_is_listed_and_shown() {
    let user = User::new();
    let none = user.run(&["approvals", "list"]).exits(0);
    assert_eq!(none.err, "no open requests\n");
    user.run(&["run", TASK]).exits(3);
    user.configure("[approvals]\nquestion_timeout = '30m'\n");
    let ask = json!({ "checkpoint": "plan", "summary": "Which one?", "options": ["this", "that"] });
    Model::start(vec![Turn::Call(vec![("request_human_approval", ask)])]).run(&user, &["run", "go"]).exits(3);
    let ids = waiting(&user);
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let listed = user.run(&["approvals", "list"]).exits(0).out.replace("in 29 min", "in 30 min");
    insta::assert_snapshot!(plain(&listed, &ids), @r"
    ASKS     WHAT                                                   AGE     EXPIRES  ID
    question plan                                                   0 s   in 30 min  run_1.1.0.0
    approve  Write insights.md                                      0 s           -  run_2.3.0.0
    ");
    let shown = user.run(&["approvals", "show", ids[1]]).exits(0);
    insta::assert_snapshot!(plain(&format!("{}{}", shown.out, shown.err), &ids), @r"
    approve Write insights.md (new file, 5 lines, 168 bytes)
      open for 0 s (run run_2)
      │ --- /dev/null
      │ +++ b/insights.md (168 bytes)
      │ @@ -0,0 +1,5 @@
      │ +# Insights from data.csv
      │ +
      │ +- `data.csv` has 2 rows and 2 columns: city, people
      │ +- `people` goes from 1 to 3, with a mean of 2
      │ +- the largest `people` is in the row `Rome`
    hint: `windlass approvals approve run_2.3.0.0` (or `edit`, `deny`)
    ");
    let shown = user.run(&["approvals", "show", ids[0]]).exits(0);
    assert!(shown.out.contains("declined automatically in "), "{shown:#?}");
    let row = user.run(&["approvals", "show", ids[1], "--json"]).exits(0).json();
    assert_eq!((&row["tool"], &row["terms"]), (&json!("Write"), &json!({})));
    let first = user.run(&["approvals", "list", "-n", "1"]).exits(0);
    assert!(first.err.contains("showing the newest 1"), "{first:#?}");
}

#[test]
fn an_approval_on_another_day_drives_the_run_to_its_end() {
    let user = User::new();
    user.run(&["run", TASK]).exits(3);
    let ids = waiting(&user);
    // An ending without part of the run's id is rejected.
    user.run(&["approvals", "approve", &ids[0][ids[0].len() - 6..]]).exits(2);
    let end = &ids[0][ids[0].len() - 10..];
    let said = user.run(&["approvals", "approve", end]).exits(0);
    assert!(said.out.contains("Done. `insights.md` now holds"), "{said:#?}");
    assert_eq!(user.read("insights.md"), INSIGHTS);
    assert_eq!(waiting(&user), Vec::<String>::new());
}

/// The audit log's entries on answers: verdict, tool, and source of the actor.
pub fn audited(user: &User) -> Value {
    let log = lines(&user.run(&["admin", "audit", "export"]).exits(0).out);
    let answered = log.iter().filter(|entry| entry["action"] == "interrupt.answered");
    let known = |entry: &Value| {
        let details = &entry["details"];
        assert!(details["approval"].is_string() && details["run"].is_string(), "{entry}");
        json!([entry["actor"], entry["via"], details["verdict"], details["tool"]])
    };
    answered.map(known).collect()
}

#[test]
fn answers_on_the_command_line_are_in_the_audit_log() {
    let user = User::new();
    user.run(&["run", TASK]).exits(3);
    user.run(&["approvals", "deny", "--no-drive"]).exits(0);
    assert_eq!(audited(&user), json!([["local", "terminal", "deny", "Write"]]));
    user.run(&["run", TASK]).exits(3);
    let mine = waiting(&user).remove(0);
    user.run(&["approvals", "approve", &mine]).exits(0);
    let entries = json!([["local", "terminal", "deny", "Write"], ["local", "terminal", "approve", "Write"]]);
    assert_eq!(audited(&user), entries);
}

#[test]
fn without_an_id_the_only_one_that_waits_is_meant() {
    let user = User::new();
    let nothing = user.run(&["approvals", "approve"]).exits(2);
    assert!(nothing.err.contains("error: no open requests\n"), "{nothing:#?}");
    user.run(&["run", TASK]).exits(3);
    let id = waiting(&user).remove(0);
    assert!(user.run(&["approvals", "show"]).exits(0).out.contains("Write insights.md"));
    let model = Model::start(vec![Turn::Call(vec![write("a")])]);
    model.run(&user, &["run", "go"]).exits(3);
    let several = user.run(&["approvals", "approve"]).exits(2);
    assert!(several.err.contains("error: 2 requests are open; name one by its id\n"), "{several:#?}");
    for waits in [format!("hint: `{id}`: approve Write insights.md\n"), ": approve Write a\n".to_owned()] {
        assert!(several.err.contains(&waits), "{several:#?}");
    }
    assert_eq!(waiting(&user).len(), 2, "nothing was answered");
    user.run(&["approvals", "deny", &waiting(&user)[0]]).exits(0);
    let said = user.run(&["approvals", "approve"]).exits(0);
    assert!(said.err.contains(&format!("approve Write insights.md ({id})\n")), "{said:#?}");
    assert_eq!((user.read("insights.md"), user.read("a")), (INSIGHTS.to_owned(), String::new()));
}

// rows: OV-2
#[test]
fn several_are_one_batch_and_all_or_none() {
    let user = User::new();
    let model = Model::start(vec![Turn::Call(vec![write("a"), write("b"), write("c")])]);
    model.run(&user, &["run", "go"]).exits(3);
    let ids = waiting(&user);
    let twice = model.run(&user, &["approvals", "approve", &ids[0], &ids[0]]).exits(2);
    assert!(twice.err.contains("is given twice"), "{twice:#?}");
    let one_is_wrong = model.run(&user, &["approvals", "approve", &ids[0], "run_x.1"]).exits(2);
    assert!(one_is_wrong.err.contains("no open request `run_x.1`"), "{one_is_wrong:#?}");
    assert_eq!(count(&user.events(), "interrupt.closed"), 0, "nothing was changed");
    model.run(&user, &["approvals", "approve", &ids[0], &ids[2]]).exits(3);
    assert_eq!(waiting(&user), [ids[1].clone()]);
    model.run(&user, &["approvals", "deny", &ids[1], "--reason", "not b"]).exits(0);
    assert_eq!(["a", "b", "c"].map(|name| user.read(name)), ["x", "", "x"]);
}

#[test]
fn answers_of_several_threads_are_given_to_each() {
    let user = User::new();
    let model = Model::start(vec![Turn::Call(vec![write("a")])]);
    model.run(&user, &["run", "go"]).exits(3);
    // A different file, because the first write changes the preview of a second one.
    Model::start(vec![Turn::Call(vec![write("b")])]).run(&user, &["run", "go"]).exits(3);
    let ids = waiting(&user);
    let said = model.run(&user, &["approvals", "approve", &ids[0], &ids[1]]).exits(0);
    assert_eq!(said.out, "Done.\nDone.\n");
}

#[test]
fn arguments_are_edited_from_the_command_line() {
    let user = User::new();
    user.run(&["run", TASK]).exits(3);
    let id = waiting(&user).remove(0);
    let edit = |arguments: &str| user.run(&["approvals", "edit", &id, "--arguments", arguments]);
    let said = edit("{ nonsense").exits(2);
    assert!(said.err.contains("not valid JSON: "), "{said:#?}");
    let said = edit(r#"{"file_path": 5}"#).exits(2);
    assert!(said.err.contains("the edited arguments do not fit: "), "{said:#?}");
    let said = user.run(&["approvals", "edit", &id]).exits(2);
    assert!(
        said.err.contains(
            "editing requires a terminal\nhint: without one, pass the arguments with `--arguments JSON`"
        ),
        "{said:#?}"
    );
    assert_eq!(count(&user.events(), "interrupt.closed"), 0);
    std::fs::write(user.folder().join("new.json"), r#"{"file_path": "mine.md", "content": "own"}"#).unwrap();
    edit("@new.json").exits(3);
    // The preview for the edited arguments must be approved first.
    user.run(&["approvals", "approve", &waiting(&user).remove(0)]).exits(0);
    assert_eq!((user.read("mine.md"), user.read("insights.md")), ("own".into(), String::new()));
}

#[test]
fn questions_and_limits_are_answered_from_the_command_line() {
    let user = User::new();
    let ask = json!({ "checkpoint": "plan", "summary": "Which?", "options": ["this", "that"],
        "params": { "n": 1 }, "allow_free_input": true });
    let model = Model::start(vec![Turn::Call(vec![("request_human_approval", ask)])]);
    let answered = |arguments: &[&str]| {
        model.run(&user, &["run", "go"]).exits(3);
        let id = waiting(&user).remove(0);
        let mut all = vec!["approvals", arguments[0], &id];
        all.extend(&arguments[1..]);
        model.run(&user, &all).exits(0);
        let events = user.events();
        let finished = events.iter().find(|event| event["type"] == "tool.finished").unwrap();
        finished["content"][0]["text"].as_str().unwrap().to_owned()
    };
    let yes = |overrides: &str, selected: &str, free_input: &str| {
        format!(
            r#"{{"approved":true,"overrides":{overrides},"selected":{selected},"free_input":{free_input}}}"#
        )
    };
    assert_eq!(answered(&["answer", "--select", "2"]), yes("null", r#""that""#, "null"));
    assert_eq!(answered(&["answer", "--select", "this"]), yes("null", r#""this""#, "null"));
    assert_eq!(answered(&["answer", "--text", "both"]), yes("null", "null", r#""both""#));
    assert_eq!(answered(&["answer", "--values", r#"{"n":2}"#]), yes(r#"{"n":2}"#, "null", "null"));
    assert_eq!(answered(&["approve"]), yes("null", "null", "null"));
    assert_eq!(answered(&["deny"]), r#"{"approved":false,"cancelled":true}"#);
}

#[test]
fn a_limit_is_raised_from_another_process() {
    let user = User::new();
    let model = Model::start(vec![Turn::Call(vec![("Glob", json!({ "pattern": "*" }))])]);
    let chat = || {
        let mut command = model.command(&user, &["chat", "--max-steps", "1"]);
        let mut child = command.stdin(std::process::Stdio::piped()).spawn().unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"go\n").unwrap();
        super::said(child.wait_with_output().unwrap()).exits(3)
    };
    let said = chat();
    assert!(said.err.contains("  limit `max_steps`: 1 of 1 used\n"), "{said:#?}");
    let id = waiting(&user).remove(0);
    let hint = format!("hint: `windlass approvals answer {id} --raise N` (or `--stop`)\n");
    assert!(said.err.contains(&hint), "{said:#?}");
    let low = model.run(&user, &["approvals", "answer", &id, "--raise", "1"]).exits(2);
    assert!(low.err.contains("raise `max_steps` above 1"), "{low:#?}");
    model.run(&user, &["approvals", "answer", &id, "--raise", "5"]).exits(0);
    chat();
    let id = waiting(&user).remove(0);
    let said = model.run(&user, &["approvals", "answer", &id, "--stop"]).exits(1);
    assert!(said.err.contains("`ERR_MAX_TURNS`"), "{said:#?}");
}

#[test]
fn a_thread_that_cannot_be_read_hides_no_other() {
    let user = User::new();
    user.run(&["run", TASK]).exits(3);
    user.run(&["run", TASK]).exits(3);
    let all = waiting(&user);
    crate::fault::newer::execute(
        &user.store(),
        "UPDATE events SET checksum = NULL, body = '{' WHERE position = (SELECT max(position) FROM events)",
    );
    // The list reads requests from rows, not from journals.
    assert_eq!(waiting(&user), all);
    crate::fault::newer::execute(&user.store(), "UPDATE threads SET asks = NULL");
    let said = user.run(&["approvals", "list", "--json"]).exits(0);
    assert!(said.err.starts_with("warning: thread `"), "{said:#?}");
    assert_eq!(lines(&said.out)[0]["interrupt"], *all[1]);
}

#[test]
fn what_is_malformed_late_double_or_for_a_finished_run_changes_nothing() {
    let user = User::new();
    let ask = json!({ "checkpoint": "plan", "summary": "Which?", "options": ["this"] });
    let model = Model::start(vec![Turn::Call(vec![("request_human_approval", ask), write("a")])]);
    model.run(&user, &["run", "go"]).exits(3);
    let ids = waiting(&user);
    let (question, call) = (ids[0].as_str(), ids[1].as_str());
    let refused = |arguments: &[&str], words: &str| {
        let before = user.events().len();
        let said = model.run(&user, &[&["approvals"], arguments].concat()).exits(2);
        assert!(said.err.contains(words), "`{words}` is not said: {said:#?}");
        assert_eq!(user.events().len(), before, "{said:#?}");
    };
    refused(&["answer", question, "--select", "those"], "`those` is no option\nhint: choose `this`");
    refused(&["answer", question, "--text", "x"], "the question takes no answer in free words");
    refused(&["answer", question, "--values", "{"], "`--values`: not valid JSON");
    refused(&["answer", question, "--retry"], "accepts `approve`, `deny` or `answer` with `--select`");
    refused(&["answer", question, "--select", "this", "--retry"], "cannot be used with");
    refused(&["answer", question], "no answer given");
    refused(&["answer", call, "--raise", "many"], "`--raise many` is not a number");
    refused(&["answer", call, "--raise", "9"], "accepts `approve`, `edit` or `deny`");
    model.run(&user, &["approvals", "deny", call]).exits(3);
    refused(&["approve", call], &format!("too late: `{call}` was denied by local"));
    refused(&["approve", call, question], &format!("too late: `{call}` was denied by local"));
    model.run(&user, &["approvals", "approve", question]).exits(0);
    refused(&["approve", question], "was answered by local, and the run has ended (done)");
    let run = question.split_once('.').unwrap().0;
    refused(&["approve", &format!("{run}.7.0")], &format!("too late: run `{run}` has ended (done)"));
}

#[cfg(unix)]
#[test]
fn a_run_whose_process_is_gone_is_answered_by_another() {
    let user = User::new();
    let mut child = user.start(&["run", "--stream-json", TASK]);
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    assert!(lines.any(|line| line.unwrap().contains("interrupt.opened")));
    child.kill().unwrap();
    child.wait().unwrap();
    let id = waiting(&user).remove(0);
    user.run(&["approvals", "approve", &id]).exits(0);
    assert_eq!(user.read("insights.md"), INSIGHTS);
}
