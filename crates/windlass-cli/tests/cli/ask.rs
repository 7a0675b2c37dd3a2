//! Prompts on a terminal: every kind of interrupt is displayed and answered inline.

use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use super::model::{Model, Turn};
use super::terminal::{APPROVE, Terminal};
use super::{INSIGHTS, TASK, User, count, mode};

fn write(path: &str, content: &str) -> (&'static str, Value) {
    ("Write", json!({ "file_path": path, "content": content }))
}

/// Starts `run` on a terminal with a scripted model.
fn start(user: &User, turns: Vec<Turn>) -> Terminal {
    Terminal::open(Model::start(turns).command(user, &["run", "go"]))
}

/// Creates an editor: a script that gets the file's path as its first argument.
fn editor(user: &User, script: &str) -> String {
    let path = user.home().join("editor");
    std::fs::create_dir_all(user.home()).unwrap();
    std::fs::write(&path, format!("#!/bin/sh\nset -e\n{script}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
    path.display().to_string()
}

fn result(user: &User) -> String {
    let events = user.events();
    let finished = events.iter().find(|event| event["type"] == "tool.finished").unwrap();
    finished["content"][0]["text"].as_str().unwrap().to_owned()
}

// rows: ZE-H6, OV-2
#[test]
fn a_person_edits_the_arguments_and_what_they_left_is_sent() {
    let user = User::new();
    let editor =
        editor(&user, "stat -c %a \"$1\" > seen; cp \"$1\" before; sed -i s/insights.md/other.md/ \"$1\"");
    let mut command = user.command(&["run", TASK]);
    command.env("EDITOR", editor).env("PATH", "/usr/bin:/bin");
    let mut terminal = Terminal::open(command);
    terminal.until(APPROVE).enter("e\n").until("edited");
    // The preview for the edited arguments must be approved first.
    terminal.until("+++ b/other.md").until(APPROVE).enter("a\n").until("approved once").until("Done.");
    assert_eq!(terminal.end().0, Some(0));
    assert_eq!((user.read("insights.md"), user.read("other.md")), (String::new(), INSIGHTS.to_owned()));
    assert_eq!(user.read("seen"), "600\n");
    assert!(
        user.read("before").starts_with("{\n  \"file_path\": \"insights.md\",\n"),
        "{}",
        user.read("before")
    );
    let left = std::fs::read_dir(user.home().join("data/windlass")).unwrap();
    let left: Vec<_> = left.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert!(!left.iter().any(|name| name.starts_with("edit-")), "{left:?}");
    let events = user.events();
    let edited = events.iter().find(|event| event["type"] == "call.edited").unwrap();
    assert_eq!(edited["by"], "local");
}

#[test]
fn an_invalid_edit_is_reported_and_can_be_repeated_or_discarded() {
    let user = User::new();
    // First invalid JSON, then JSON that the tool's schema rejects, then the original text.
    let script = "n=$(cat tries 2>/dev/null || echo 0); echo $((n + 1)) > tries\n\
        case $n in 0) cp \"$1\" first; echo '{ nonsense' > \"$1\";; 1) echo '{\"file_path\": 5}' > \"$1\";;\n\
        2) cp first \"$1\";; 3) exit 1;; esac";
    let mut command = user.command(&["run", TASK]);
    command.env("VISUAL", editor(&user, script)).env("EDITOR", "false").env("PATH", "/usr/bin:/bin");
    let mut terminal = Terminal::open(command);
    let again = "[e]dit again, or Enter to discard the edit: ";
    terminal.until(APPROVE).enter("e\n").until("not valid JSON: ").until(again);
    terminal.enter("e\n").until("the edited arguments do not fit: ").until(again);
    assert_eq!(count(&user.events(), "interrupt.closed"), 0);
    terminal.enter("e\n").until("nothing was changed").until(APPROVE);
    terminal.enter("e\n").until("ended with exit status: 1; nothing was changed").until(again);
    terminal
        .enter("\n")
        .until(APPROVE)
        .enter("d\n")
        .until("reason (optional")
        .enter("no\n")
        .until("denied: no");
    assert_eq!(terminal.end().0, Some(0));
    assert_eq!((user.read("insights.md"), count(&user.events(), "call.edited")), (String::new(), 0));
}

// rows: ZE-H5
#[test]
fn a_grant_lets_the_next_calls_run_until_it_is_used_up() {
    let user = User::new();
    let calls = ["a", "b", "c"].map(|name| Turn::Call(vec![write(name, "x")]));
    let mut terminal = start(&user, calls.into());
    terminal.until("Write a (new file").until(APPROVE).enter("g\n");
    terminal.until("how many calls, including this one? [unlimited]: ").enter("0\n");
    terminal.until("[unlimited]: ").enter("2\n").until("[no expiry]: ").enter("soon\n");
    terminal.until("[no expiry]: ").enter("8h\n").until("[e]: ").enter("a\n");
    terminal.until("granted: 2 calls of `Write`, for 8 h, any arguments (grt_");
    terminal.until("• Write a  ").until("• Write b  ").until("Write c (new file").until(APPROVE);
    terminal.enter("a\n").until("Done.");
    assert_eq!(terminal.end().0, Some(0));
    // The answer itself approved the first call.
    assert_eq!(count(&user.events(), "grant.used"), 1);
    let listed = user.run(&["grants", "list"]).exits(0).out;
    assert!(
        listed.contains("Write") && listed.contains("0 left") && listed.contains("any arguments"),
        "{listed}"
    );
}

#[test]
fn a_grant_for_exactly_these_arguments_is_for_no_others() {
    let user = User::new();
    let calls = vec![Turn::Call(vec![write("a", "x")]), Turn::Call(vec![write("a", "y")])];
    let mut terminal = start(&user, calls);
    terminal
        .until(APPROVE)
        .enter("g\n")
        .until("[unlimited]: ")
        .enter("\n")
        .until("[no expiry]: ")
        .enter("\n");
    terminal
        .until("[e]: ")
        .enter("\n")
        .until("unlimited calls of `Write`, no expiry, exactly these arguments");
    terminal
        .until("? approve")
        .until(APPROVE)
        .enter("d\n")
        .until("reason (optional")
        .enter("\n")
        .until("Done.");
    assert_eq!(terminal.end().0, Some(0));
    assert_eq!(user.read("a"), "x");
}

// rows: OV-2
#[test]
fn several_calls_are_answered_together() {
    let user = User::new();
    let calls = || vec![Turn::Call(vec![write("a", "1"), write("b", "2"), write("c", "3")])];
    let mut terminal = start(&user, calls());
    let all = "1 to 3: select one, [a]pprove all, [d]eny all, [v]iew all, [s]top the run: ";
    terminal.until("? 1 approve").until("Write a").until("+1").until("? 3 approve").until(all);
    terminal.enter("2\n").until("Write b").until("[b]ack, [s]top the run: ").enter("b\n").until(all);
    terminal.enter("a\n").until("3 calls approved once").until("Done.");
    assert_eq!(terminal.end().0, Some(0));
    assert_eq!(["a", "b", "c"].map(|name| user.read(name)), ["1", "2", "3"]);
    let events = user.events();
    let closed: Vec<u64> = events
        .iter()
        .filter(|event| event["type"] == "interrupt.closed")
        .map(|event| event["seq"].as_u64().unwrap())
        .collect();
    assert_eq!((closed[1] - closed[0], closed[2] - closed[1]), (1, 1), "one batch: {events:#?}");
    // One call is denied separately, the others together with a reason.
    let user = User::new();
    let mut terminal = start(&user, calls());
    terminal.until(all).enter("3\n").until("Write c").until(": ").enter("a\n").until("approved once");
    let rest = "1 to 2: select one, [a]pprove all, [d]eny all, [v]iew all, [s]top the run: ";
    // The result of the first call is printed before the prompt for the others.
    terminal.until("? 1 approve").until(rest).enter("d\n").until("reason (optional").enter("not these\n");
    terminal.until("2 calls denied: not these").until("Done.");
    assert_eq!(terminal.end().0, Some(0));
    assert_eq!(["a", "b", "c"].map(|name| user.read(name)), ["", "", "3"]);
}

fn question(more: Value) -> Vec<Turn> {
    let mut arguments = json!({ "checkpoint": "send-invoice", "summary": "Send it now?" });
    arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    vec![Turn::Call(vec![("request_human_approval", arguments), write("after", "x")])]
}

// rows: WT-H8, WT-H12, WT-H13
#[test]
fn a_question_is_answered_by_an_option_and_the_steps_other_calls_still_run() {
    let user = User::new();
    user.run(&["auto-run", "everything"]).exits(0);
    let mut terminal =
        start(&user, question(json!({ "options": ["now", "later"], "params": { "to": "ann" } })));
    terminal.until("? question").until("send-invoice").until("Send it now?").until("\"to\": \"ann\"");
    terminal.until("1  now").until("2  later").until("1 to 2: choose an option");
    let choices = "[a]pprove, [e]dit the values, [d]ecline, [v]iew all, [s]top the run: ";
    terminal.until(choices).enter("3\n").until(choices).enter("2\n").until("chosen: later").until("Done.");
    assert_eq!(terminal.end().0, Some(0));
    let later = r#"{"approved":true,"overrides":null,"selected":"later","free_input":null}"#;
    assert_eq!(result(&user), later);
    assert_eq!(user.read("after"), "x");
}

#[test]
fn a_question_is_answered_in_free_words_with_other_values_or_declined() {
    let ask = |more: Value, answer: &dyn Fn(&mut Terminal)| {
        let user = User::new();
        user.run(&["auto-run", "everything"]).exits(0);
        let editor = editor(&user, "sed -i s/ann/eve/ \"$1\"");
        let mut command = Model::start(question(more)).command(&user, &["run", "go"]);
        command.env("EDITOR", editor).env("PATH", "/usr/bin:/bin");
        let mut terminal = Terminal::open(command);
        terminal.until("[s]top the run: ");
        answer(&mut terminal);
        terminal.until("Done.");
        assert_eq!(terminal.end().0, Some(0));
        result(&user)
    };
    let words = ask(json!({ "allow_free_input": true }), &|terminal| {
        terminal
            .enter("t\n")
            .until("your answer (the model sees it): ")
            .enter("\n")
            .until("[s]top the run: ");
        terminal.enter("t\n").until("your answer").enter("twice\n").until("answered: twice");
    });
    assert_eq!(words, r#"{"approved":true,"overrides":null,"selected":null,"free_input":"twice"}"#);
    let values = ask(json!({ "params": { "to": "ann", "sum": 1.50 } }), &|terminal| {
        terminal.enter("e\n").until("edited");
    });
    let edited = r#"{"approved":true,"overrides":{"to":"eve"},"selected":null,"free_input":null}"#;
    assert_eq!(values, edited);
    let declined = ask(json!({}), &|terminal| {
        terminal
            .enter("t\n")
            .until("[s]top the run: ")
            .enter("d\n")
            .until("reason (optional")
            .enter("too soon\n");
        terminal.until("denied: too soon");
    });
    assert_eq!(declined, r#"{"approved":false,"cancelled":true,"reason":"too soon"}"#);
}

// rows: CF-4
#[test]
fn at_a_limit_a_person_raises_it_or_stops() {
    let user = User::new();
    let mut command = user.command(&["run", "--yes", "--max-steps", "2", TASK]);
    command.env("PATH", "/usr/bin:/bin");
    let mut terminal = Terminal::open(command);
    terminal.until("? limit").until("`max_steps`: 2 of 2 used");
    terminal.until("[r]aise, [s]top the run: ").enter("r\n");
    terminal.until("new limit [4]: ").enter("1\n").until("not accepted: raise `max_steps` above 2");
    terminal
        .until("[s]top the run: ")
        .enter("r\n")
        .until("[4]: ")
        .enter("\n")
        .until("raised to 4")
        .until("Done.");
    assert_eq!(terminal.end().0, Some(0));
    assert_eq!(user.read("insights.md"), INSIGHTS);
    let mut terminal = Terminal::start(&user, &["run", "--yes", "--max-steps", "1", TASK]);
    terminal.until("[s]top the run: ").enter("s\n").until("limit kept").until("ERR_MAX_TURNS");
    assert_eq!(terminal.end().0, Some(1));
}

#[test]
fn without_a_terminal_a_limit_is_a_typed_failure() {
    let user = User::new();
    let said = user.run(&["run", "--yes", "--max-steps", "1", TASK]).exits(1);
    assert!(said.err.contains("`ERR_MAX_TURNS`"), "{said:#?}");
}

#[test]
fn what_a_rule_asks_of_others_is_said_and_not_offered() {
    let user = User::new();
    user.configure("");
    let policy = user.home().join("config/windlass/policy.toml");
    let rule = "[[rule]]\nname = 'four eyes'\nverdict = 'ask'\ntools = ['Write']\n";
    std::fs::write(&policy, format!("{rule}approvers = ['user:ann']\ntimeout = '3h'\n")).unwrap();
    let mut terminal = Terminal::start(&user, &["run", TASK]);
    terminal.until("asked by: four eyes").until("needs 1 approval from user:ann");
    terminal.until("denied automatically in ").until("  [d]eny, [v]iew all, [s]top the run: ");
    terminal.enter("a\n").until("[s]top the run: ").enter("\x04");
    assert_eq!(terminal.end().0, Some(3));
    std::fs::write(&policy, format!("{rule}quorum = 2\n")).unwrap();
    let mut terminal = Terminal::start(&user, &["resume"]);
    terminal
        .until("needs 2 approvals")
        .until("[a]pprove once, [e]dit, [d]eny, [v]iew all, [s]top")
        .enter("a\n");
    terminal.until("approved; more approvals are required").until("the run waits for an answer");
    terminal.until("needs 2 approvals; approved by: local").until("windlass approvals deny run_");
    assert_eq!(terminal.end().0, Some(3));
    assert_eq!(user.read("insights.md"), "");
    assert_eq!(mode(&user.store()), 0o700);
}

#[test]
fn an_answer_to_a_run_that_another_process_holds_is_taken_there() {
    let user = User::new();
    user.configure("");
    let policy = user.home().join("config/windlass/policy.toml");
    // With a timer to wait for, the prompting process keeps driving the run.
    std::fs::write(&policy, "[[rule]]\nverdict = 'ask'\ntools = ['Write']\ntimeout = '3h'\n").unwrap();
    let mut terminal = Terminal::start(&user, &["run", TASK]);
    terminal.until("[s]top the run: ");
    let id = user.run(&["approvals", "list", "--json"]).exits(0).json();
    let said = user.run(&["approvals", "approve", id["interrupt"].as_str().unwrap()]).exits(0);
    assert!(
        said.err.contains("the answer was accepted; another process drives the run\nhint: "),
        "{said:#?}"
    );
    terminal.until("answered elsewhere").until("Done.");
    assert_eq!(terminal.end().0, Some(0));
    assert_eq!(user.read("insights.md"), INSIGHTS);
}
