//! Background commands of many calls and threads, and those that take long.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use windlass::clock::ManualClock;
use windlass::machine::Timestamp;
use windlass::port::tool::{CallContext, ProgressSender};
use windlass::tool::builtin::{BashSettings, bash_tools};

use super::super::shown;
use super::Shell;

/// Concurrent calls: a rejected command must not have started, or the model would run it twice.
#[test]
fn a_command_in_the_background_that_has_no_room_never_starts() {
    let shell = Shell::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let said: Vec<String> = runtime.block_on(async {
        let calls: Vec<_> = (0..40)
            .map(|nth| {
                let (tool, context) = (shell.tool("Bash"), shell.context());
                let command = format!("echo x > began.{nth}; sleep 86397");
                let arguments = json!({"command": command, "run_in_background": true});
                tokio::spawn(async move { shown(&tool.call(context, arguments).await) })
            })
            .collect();
        let mut said = Vec::new();
        for call in calls {
            said.push(call.await.unwrap());
        }
        said
    });
    let began = |nth: usize| shell.inside.join(format!("began.{nth}")).exists();
    let runs: Vec<usize> = (0..40).filter(|nth| said[*nth].starts_with("ok: ")).collect();
    assert_eq!(runs.len(), 8);
    while !runs.iter().all(|nth| began(*nth)) {
        std::thread::yield_now();
    }
    assert_eq!((0..40).filter(|nth| began(*nth)).collect::<Vec<_>>(), runs);
}

/// Each remembered command keeps its output, so a server's threads would fill its memory.
#[test]
fn commands_of_many_conversations_are_not_remembered_for_ever() {
    let shell = Shell::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let call = |nth: usize, tool: &str, arguments: Value| {
        let context = CallContext { thread: format!("thread {nth}").as_str().into(), ..shell.context() };
        let tool = shell.tool(tool);
        shown(&runtime.block_on(async move { tool.call(context, arguments).await }))
    };
    let ids: Vec<String> = (0..80)
        .map(|nth| {
            let begun = call(nth, "Bash", json!({"command": "true", "run_in_background": true}));
            let id = begun.split('`').nth(1).unwrap().to_owned();
            while call(nth, "BashOutput", json!({"id": id})).contains("[running") {
                std::thread::yield_now();
            }
            id
        })
        .collect();
    let known = |nth: usize| call(nth, "BashOutput", json!({"id": ids[nth]})).starts_with("ok: ");
    assert!((0..15).all(|nth| !known(nth)), "the oldest are forgotten");
    assert!((17..80).all(known), "the others are not");
}

const QUIET: &str = "[no output for 30 s]\n";

/// A watcher that limits the time without progress would end it.
#[test]
fn a_command_that_says_nothing_shows_that_it_runs() {
    let shell = Shell::new();
    let clock = Arc::new(ManualClock::new(Timestamp(1_000), 1));
    let tools = bash_tools(BashSettings::default(), clock.clone()).unwrap();
    let heard: Arc<Mutex<Vec<String>>> = Arc::default();
    let hears = heard.clone();
    let progress = ProgressSender::new(move |text| hears.lock().unwrap().push(text));
    let context = CallContext { progress, ..shell.context() };
    let (started, end) = (shell.inside.join("started"), shell.inside.join("end"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let said = runtime.block_on(async {
        let arguments =
            json!({"command": "echo begun; touch started; while [ ! -e end ]; do sleep 0.01; done"});
        let tool = tools[0].clone();
        let call = tokio::spawn(async move { tool.call(context, arguments).await });
        let counted = || {
            let heard = heard.lock().unwrap();
            let nothing = heard.iter().filter(|text| *text == QUIET).count();
            (nothing, heard.len() - nothing)
        };
        while !started.exists() || counted().0 < 2 || counted().1 < 1 {
            // New output is reported at the next check, which the clock determines.
            clock.advance_ms(match (started.exists(), counted().0) {
                (false, _) => 0,
                (true, ..2) => 250,
                (true, _) => 1,
            });
            tokio::time::sleep(Duration::from_millis(1)).await; // tidy: sleep waits for a real process
        }
        std::fs::write(end, "").unwrap();
        shown(&call.await.unwrap())
    });
    let heard = heard.lock().unwrap();
    assert_eq!(heard.iter().filter(|text| *text != QUIET).collect::<Vec<_>>(), ["begun\n"]);
    assert_eq!(said, "ok: begun");
}
