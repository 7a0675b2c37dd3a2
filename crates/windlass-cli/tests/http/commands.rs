//! Background commands: listed and ended over HTTP and on the command line, and ended with the server.

use std::io::Read;

use reqwest::StatusCode;
use serde_json::json;

use super::Server;
use super::client::each;
use crate::cli::User;
use crate::cli::model::{Model, Turn};

/// Number of processes on this machine whose command line contains a text.
fn alive(marker: &str) -> usize {
    let of = |entry: &std::fs::DirEntry| {
        let mut line = String::new();
        let read =
            std::fs::File::open(entry.path().join("cmdline")).and_then(|mut it| it.read_to_string(&mut line));
        read.is_ok() && line.contains(marker)
    };
    std::fs::read_dir("/proc").unwrap().flatten().filter(of).count()
}

/// Waits until no process has the marker: a killed process takes a moment to disappear.
fn gone(marker: &str) {
    while alive(marker) > 0 {
        std::thread::yield_now();
    }
}

// rows: LM-T1
// The test blocks on commands while the server handles their requests.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_are_seen_and_ended_over_http_on_the_command_line_and_with_the_server() {
    let user = User::new();
    user.configure("[tools.bash]\nenabled = true\n");
    let policy = "[[rule]]\nname = 'commands'\ntools = ['Bash']\nverdict = 'allow'\n";
    std::fs::write(user.home().join("config/windlass/policy.toml"), policy).unwrap();
    let sleeper = |nth: usize| format!("{}.{nth}", 70_000 + std::process::id());
    let begin = |nth: usize| {
        let command = format!("setsid sleep {0} & sleep {0}", sleeper(nth));
        ("Bash", json!({"command": command, "run_in_background": true}))
    };
    let model = Model::start(vec![Turn::Call(vec![begin(1), begin(2), begin(3)]), Turn::Say("They run.")]);
    let command = model.command(&user, &["serve", "--listen", "127.0.0.1:0"]);
    let server = Server::spawn(user, command);
    let (ann, _) = server.member("ann");
    let (bob, _) = server.member("bob");
    let thread = ann.small_talk().await;
    let path = format!("/threads/{thread}/commands");
    let list = async || ann.get(&path).await.is(StatusCode::OK).body["data"].as_array().unwrap().clone();
    let at_work = list().await;
    let [one, two, three] = &each(&at_work, "id")[..] else { panic!("{at_work:#?}") };
    assert!(at_work[1]["command"].as_str().unwrap().contains(&sleeper(2)) && at_work[1]["begun_at"].is_u64());
    bob.get(&path).await.is_problem(404, "not_found");
    bob.delete(&format!("{path}/{one}")).await.is_problem(404, "not_found");
    ann.delete(&format!("{path}/{one}")).await.is(StatusCode::NO_CONTENT);
    assert_eq!(alive(&sleeper(1)), 0);
    ann.delete(&format!("{path}/{one}")).await.is_problem(404, "not_found");
    assert_eq!(each(&list().await, "id"), [*two, *three]);

    // Another process sees the commands after their records are written, once a second.
    let told = loop {
        let told = server.user.run(&["threads", "commands", &thread]).exits(0);
        if told.out.contains(&format!("{two}@")) && told.out.contains(&format!("{three}@")) {
            break told;
        }
    };
    assert!(told.out.starts_with("COMMAND") && told.out.contains("setsid sleep"), "{told:#?}");
    let ended = server.user.run(&["threads", "commands", &thread, "--end", two]).exits(0);
    assert!(ended.err.contains(&format!("ended `{two}@")), "{ended:#?}");
    assert_eq!(alive(&sleeper(2)), 0);
    let unknown = server.user.run(&["threads", "commands", &thread, "--end", two]).exits(2);
    assert!(unknown.err.contains(&format!("no running command `{two}`")), "{unknown:#?}");
    let json = server.user.run(&["threads", "commands", "--json", &thread]).exits(0).out;
    assert!(json.contains(&format!("\"id\":\"{three}@")) && json.lines().count() == 1, "{json}");

    assert!(alive(&sleeper(3)) >= 2);
    let (user, code) = server.end(libc::SIGTERM);
    assert_eq!(code, Some(143));
    gone(&sleeper(3));
    let none = user.run(&["threads", "commands", &thread]).exits(0);
    assert!(none.err.contains("no running commands"), "{none:#?}");
}
