//! Policy files: checked, tested, and in force only as far as the user trusts them.

#[cfg(unix)]
use super::terminal::Terminal;
use super::{Said, TASK, User};

/// A command's output, with temporary paths replaced by names.
fn shown(user: &User, said: &Said) -> String {
    format!("{}{}", said.out, said.err)
        .replace(&user.folder().canonicalize().unwrap().display().to_string(), "FOLDER")
        .replace(&user.folder().display().to_string(), "FOLDER")
        .replace(&user.home().display().to_string(), "HOME")
}

fn put(user: &User, name: &str, text: &str) {
    std::fs::write(user.folder().join(name), text).unwrap();
}

fn users_policy(user: &User, text: &str) {
    let directory = user.home().join("config/windlass");
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join("policy.toml"), text).unwrap();
}

#[test]
fn a_check_shows_each_problem_with_its_line() {
    let user = User::new();
    put(&user, "good.toml", "[[rule]]\ntools = ['Write']\nverdict = 'deny'\n");
    put(&user, "odd.toml", "[[rule]]\ntools = ['Write']\nverdict = 'allow'\n\n[[rule]]\nverdict = 'deny'\n");
    put(&user, "bad.toml", "[[rule]]\nverdict = 'deny'\n[[rule.when]]\nargument = 'path'\nmatches = '('\n");
    let said = user.run(&["policy", "check", "good.toml"]).exits(0);
    insta::assert_snapshot!(shown(&user, &said), @r#"
    good.toml: 1 rule, no problems
    "#);
    let said = user.run(&["policy", "check", "good.toml", "odd.toml"]).exits(1);
    insta::assert_snapshot!(shown(&user, &said), @r#"
    good.toml: 1 rule, no problems
    warning: odd.toml:3:1: the rule never decides: `rule #2` is stronger wherever it fits
     3 │ verdict = 'allow'
       │ ^
    odd.toml: 2 rules, 1 warning
    "#);
    let said = user.run(&["policy", "check", "odd.toml", "bad.toml"]).exits(2);
    insta::assert_snapshot!(shown(&user, &said), @r#"
    warning: odd.toml:3:1: the rule never decides: `rule #2` is stronger wherever it fits
     3 │ verdict = 'allow'
       │ ^
    odd.toml: 2 rules, 1 warning
    error: bad.toml:4:1: a JSON pointer begins with `/`: write `/path`
     4 │ argument = 'path'
       │ ^
    error: bad.toml:5:1: the expression cannot be used: unclosed group
     5 │ matches = '('
       │ ^
    bad.toml: 2 errors, 0 warnings
    "#);
    let said = user.run(&["policy", "check", "none.toml"]).exits(2);
    insta::assert_snapshot!(shown(&user, &said), @r#"
    error: there is no file `none.toml`
    "#);
    let report = user.run(&["policy", "check", "--json", "good.toml", "bad.toml"]).exits(2).json();
    let problems = &report["files"][1]["problems"];
    assert_eq!(report["ok"], false);
    assert_eq!(report["files"][0], serde_json::json!({ "path": "good.toml", "rules": 1, "problems": [] }));
    assert_eq!((&problems[0]["line"], &problems[0]["column"]), (&4.into(), &1.into()), "{report}");
    assert_eq!(problems[1]["severity"], "error");
}

#[test]
fn without_names_the_users_and_the_folders_files_are_checked() {
    let user = User::new();
    let said = user.run(&["policy", "check"]).exits(0);
    insta::assert_snapshot!(shown(&user, &said), @r#"
    no policy file found
    hint: rules are read from a folder's `windlass.policy.toml` and the user's `policy.toml`
    "#);
    users_policy(&user, "[[rule]]\nverdict = 'ask'\n");
    put(&user, "windlass.policy.toml", "[[rule]]\nverdict = 'deny'\n");
    let said = user.run(&["policy", "check"]).exits(0);
    insta::assert_snapshot!(shown(&user, &said), @r#"
    HOME/config/windlass/policy.toml: 1 rule, no problems
    ./windlass.policy.toml: 1 rule, no problems
    "#);
}

#[test]
fn a_test_judges_calls_and_says_what_is_not_as_expected() {
    let user = User::new();
    put(
        &user,
        "rules.toml",
        "[[rule]]\nname = 'docs'\ntools = ['Write']\nverdict = 'allow'\n[[rule.when]]\nargument = '/path'\nunder = 'docs'\n\
         [[rule]]\nname = 'ops only'\ntools = ['deploy']\nroles = ['ops']\nverdict = 'ask'\n\
         [[rule]]\ntools = ['drop_*']\nverdict = 'deny'\n",
    );
    let cases = "policy = ['rules.toml']\n\
        [[case]]\nname = 'docs are free'\ntool = 'Write'\narguments = { path = 'docs/a.md' }\nexpect = 'allow'\nby = 'docs'\n\
        [[case]]\nname = 'out of the docs'\ntool = 'Write'\narguments = { path = 'docs/../../a' }\nexpect = 'ask'\n\
        [[case]]\nname = 'elsewhere'\ntool = 'Write'\narguments = { path = 'src/a' }\nexpect = 'ask'\nby = 'annotations'\n\
        [[case]]\ntool = 'Read'\nexpect = 'allow'\nby = 'annotations'\n\
        [[case]]\nname = 'another server calls itself Read'\ntool = 'Read'\nserver = 's'\nexpect = 'ask'\n\
        [[case]]\nname = 'believed'\ntool = 'x'\nserver = 's'\ntrusted = true\nannotations = { read_only = true }\nexpect = 'allow'\n\
        [[case]]\ntool = 'deploy'\nuser = 'ann'\nroles = ['ops']\nauto_run = 'everything'\nexpect = 'ask'\nby = 'ops only'\n\
        [[case]]\ntool = 'deploy'\nauto_run = 'everything'\nexpect = 'allow'\nby = 'auto-run'\n\
        [[case]]\ntool = 'deploy'\nauto_run = 'everything'\nannotations = { destructive = true }\nexpect = 'ask'\n\
        [[case]]\ntool = 'deploy'\nauto_run = 'allowlist'\nallowlist = ['deploy']\nexpect = 'allow'\nby = 'allowlist'\n\
        [[case]]\ntool = 'drop_all'\nexpect = 'deny'\nby = 'rules.toml #3'\n";
    put(&user, "good.toml", cases);
    let said = user.run(&["policy", "test", "good.toml"]).exits(0);
    insta::assert_snapshot!(shown(&user, &said), @r#"
    ✓ pass  docs are free
    ✓ pass  out of the docs
    ✓ pass  elsewhere
    ✓ pass  case #4 (`Read`)
    ✓ pass  another server calls itself Read
    ✓ pass  believed
    ✓ pass  case #7 (`deploy`)
    ✓ pass  case #8 (`deploy`)
    ✓ pass  case #9 (`deploy`)
    ✓ pass  case #10 (`deploy`)
    ✓ pass  case #11 (`drop_all`)
    11 cases, 0 failed
    "#);
    put(
        &user,
        "bad.toml",
        "policy = ['rules.toml']\n[[case]]\nname = \"no\\u001b[2J\"\ntool = 'drop_all'\nexpect = 'allow'\n\
         [[case]]\ntool = 'drop_all'\nexpect = 'deny'\nby = 'docs'\n[[case]]\ntool = 'Read'\nexpect = 'allow'\n",
    );
    let said = user.run(&["policy", "test", "bad.toml"]).exits(1);
    insta::assert_snapshot!(shown(&user, &said), @r#"
    ✗ fail  no␛[2J: deny by `rules.toml #3`; expected: allow
    ✗ fail  case #2 (`drop_all`): deny by `rules.toml #3`; expected: by `docs`
    ✓ pass  case #3 (`Read`)
    3 cases, 2 failed
    "#);
    let report = user.run(&["policy", "test", "--json", "bad.toml"]).exits(1).json();
    assert_eq!(
        report["cases"][1],
        serde_json::json!({
            "case": "case #2 (`drop_all`)", "ok": false, "verdict": "deny", "by": "rules.toml #3"
        })
    );
    // Other rules replace those that the file names.
    put(&user, "none.toml", "");
    let said = user.run(&["policy", "test", "bad.toml", "--policy", "none.toml"]).exits(1);
    assert!(said.out.contains("ask by `annotations`; expected: allow"), "{said:#?}");
    put(&user, "odd.toml", "[[case]]\ntool = 'x'\nexpected = 'ask'\n");
    let said = user.run(&["policy", "test", "odd.toml"]).exits(2);
    insta::assert_snapshot!(shown(&user, &said), @r#"
    error: odd.toml:3:1: unknown key `expected`
    hint: did you mean `expect`?
    "#);
}

const LOOSE: &str = "[[rule]]\nname = 'free'\ntools = ['Write']\nverdict = 'allow'\n\
                     [[rule]]\nname = 'stop'\ntools = ['Edit']\nverdict = 'deny'\n";

/// The part of [`LOOSE`] that is in force: the verdicts on `Write` and `Edit`.
fn counts(user: &User) -> (String, Said) {
    put(
        user,
        "cases.toml",
        "[[case]]\ntool = 'Write'\nexpect = 'ask'\n[[case]]\ntool = 'Edit'\nexpect = 'ask'\n",
    );
    let said = user.run(&["policy", "test", "--json", "cases.toml"]);
    let report = said.json();
    let verdict = |index: usize| report["cases"][index]["verdict"].as_str().unwrap().to_owned();
    (format!("{} {}", verdict(0), verdict(1)), said)
}

#[test]
fn a_folders_rules_only_tighten_until_a_person_has_trusted_them() {
    let user = User::new();
    assert_eq!(counts(&user).0, "ask ask");
    put(&user, "windlass.policy.toml", LOOSE);
    let (verdicts, said) = counts(&user);
    assert_eq!(verdicts, "ask deny");
    let warned = "windlass.policy.toml` is not trusted yet: only its rules that deny or ask apply\nhint: review it, then";
    assert!(said.err.contains(warned), "{said:#?}");
    // The user's own policy file is always trusted.
    users_policy(&user, LOOSE);
    assert_eq!(counts(&user).0, "allow deny");
}

#[cfg(unix)]
#[test]
fn a_person_trusts_a_folders_rules_until_they_change() {
    let user = User::new();
    put(&user, "windlass.toml", "[agent]\nname = 'mine'\n");
    put(&user, "windlass.policy.toml", LOOSE);
    let mut terminal = Terminal::start(&user, &["trust"]);
    terminal.until("name = 'mine'").until("name = 'free'").until("can allow tool calls without approval");
    terminal.until("[y/N] ").enter("y\n");
    terminal.until("windlass.toml` is trusted until").until("windlass.policy.toml` is trusted until");
    assert_eq!(terminal.end().0, Some(0));
    assert_eq!(counts(&user).0, "allow deny");
    assert!(user.run(&["doctor"]).out.contains("2 rules in force"));
    // A change of either file revokes the trust in both.
    put(&user, "windlass.toml", "[agent]\nname = 'other'\n");
    let (verdicts, said) = counts(&user);
    assert_eq!(verdicts, "ask deny");
    assert!(said.err.contains("windlass.toml` has changed since it was trusted and is ignored"), "{said:#?}");
    put(&user, "windlass.toml", "[agent]\nname = 'mine'\n");
    assert_eq!(counts(&user).0, "allow deny");
}

#[test]
fn a_policy_that_cannot_be_read_stops_everything() {
    let user = User::new();
    put(&user, "windlass.policy.toml", "[[rule]]\nverdict = 'deny'\ntool = 'Write'\n");
    let said = user.run(&["run", "--yes", TASK]).exits(2);
    let wanted = "error: ./windlass.policy.toml:3:1: unknown key `tool`\nhint: did you mean `tools`?\n\
                  hint: run `windlass policy check ./windlass.policy.toml` to list all problems\n";
    assert!(said.err.ends_with(wanted), "{said:#?}");
    std::fs::remove_file(user.folder().join("windlass.policy.toml")).unwrap();
    users_policy(&user, "[[rule]]\nverdict = 'deny'\nquorum = 2\n");
    let said = user.run(&["run", "--yes", TASK]).exits(2);
    assert!(said.err.contains("policy.toml:2:1: only a rule that asks has a quorum"), "{said:#?}");
}
