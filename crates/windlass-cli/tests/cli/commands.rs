//! Commands of agents: off by default, enabled, sandboxed, and without access to the store.

use serde_json::json;

use super::model::{Model, Turn};
use super::{User, count};

/// A model that runs a command and then ends the run.
fn model(command: &str) -> Model {
    Model::start(vec![Turn::Call(vec![("Bash", json!({"command": command}))]), Turn::Say("done")])
}

fn results(user: &User) -> String {
    let results = user.events().into_iter().filter(|event| event["type"] == "tool.finished");
    results.map(|event| event["content"][0]["text"].as_str().unwrap_or_default().to_owned()).collect()
}

fn configured(user: &User, bash: &str) {
    user.configure(&format!("[tools.bash]\n{bash}\n"));
}

// rows: LM-G12, LM-T1
#[test]
fn commands_are_off_until_the_configuration_turns_them_on() {
    let user = User::new();
    let model = model("cat data.csv");
    configured(&user, "network = true");
    model.run(&user, &["run", "--yes", "look"]).exits(0);
    assert_eq!(results(&user), r#"{"error":"Unknown tool: Bash"}"#);
    let doctor = user.run(&["doctor"]).out;
    assert!(doctor.contains("✓ ok       commands       off; sandbox available: Landlock "), "{doctor}");
}

// rows: LM-T1
#[test]
fn a_command_asks_and_runs_where_it_is_let() {
    let user = User::new();
    let model = model("cat data.csv; cat /etc/shadow; ls ..");
    configured(&user, "enabled = true");
    let asked = model.run(&user, &["run", "look"]).exits(3);
    assert!(asked.err.contains("Bash"), "{asked:#?}");
    assert_eq!(count(&user.events(), "tool.started"), 0);
    let opened = user.events().into_iter().find(|event| event["type"] == "interrupt.opened").unwrap();
    model.run(&user, &["approvals", "approve", opened["interrupt"].as_str().unwrap()]).exits(0);
    let told = results(&user);
    assert!(told.starts_with("city,people\nRome,3\nOslo,1\n"), "{told}");
    assert!(told.contains("/etc/shadow: Permission denied") && told.contains("'..'"), "{told}");
    let doctor = user.run(&["doctor"]).out;
    assert!(doctor.contains("commands       on; sandbox available"), "{doctor}");
}

/// A folder's settings for commands have no effect until the user trusts the folder.
#[test]
fn a_folder_does_not_turn_commands_on_by_itself() {
    let user = User::new();
    let model = model("echo run");
    let own = "[tools.bash]\nenabled = true\nsandbox = 'off'\n";
    std::fs::write(user.folder().join("windlass.toml"), own).unwrap();
    model.run(&user, &["run", "--yes", "look"]).exits(0);
    assert_eq!(results(&user), r#"{"error":"Unknown tool: Bash"}"#);
}

#[test]
fn a_store_that_commands_would_see_is_refused() {
    let user = User::new();
    let model = model("echo run");
    let root = user.home().parent().unwrap().display().to_string();
    configured(&user, &format!("enabled = true\nread = ['{root}']"));
    model.run(&user, &["run", "--yes", "look"]).exits(0);
    let told = results(&user);
    assert!(told.contains("which commands can access; move the store"), "{told}");
}

/// A command of an earlier run may have created the link.
#[test]
fn a_path_that_goes_through_a_link_opens_nothing_and_doctor_says_so() {
    let user = User::new();
    let model = model("cat open/secret.txt");
    let (open, secret) = (user.folder().join("open"), user.home().join("secret"));
    std::fs::create_dir_all(&secret).unwrap();
    std::fs::write(secret.join("secret.txt"), "SECRET").unwrap();
    std::os::unix::fs::symlink(&secret, &open).unwrap();
    configured(&user, &format!("enabled = true\nread = ['{}']", open.display()));
    model.run(&user, &["run", "--yes", "look"]).exits(0);
    let told = results(&user);
    assert!(told.contains("goes through the symbolic link") && !told.contains("SECRET"), "{told}");
    let doctor = user.run(&["doctor"]).out;
    assert!(
        doctor.contains("commands       on, but every command is rejected; sandbox available"),
        "{doctor}"
    );
    assert!(doctor.contains("in `read` of `[tools.bash]` goes through the symbolic link"), "{doctor}");
}

#[test]
fn a_wrong_key_is_named_with_the_likely_one() {
    let user = User::new();
    for (text, wanted) in [
        ("enable = true", "windlass.toml:2: unknown key `enable`\nhint: did you mean `enabled`?\n"),
        (
            "sandbox = 'on'",
            "windlass.toml:2: unknown variant `on`, expected one of `required`, `preferred`, `off`\n",
        ),
        (
            "enabled = true\nread = ['data']",
            "`tools.bash.read` has the path `data`; write a path that begins with `/` or `~/`",
        ),
    ] {
        user.configure(&format!("[tools.bash]\n{text}\n"));
        let said = user.run(&["run", "look"]).exits(2).err;
        assert!(said.contains(wanted), "{said}");
    }
}
