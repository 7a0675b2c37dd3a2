//! One run, killed repeatedly until it ends, and its invariants.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::journal::{Journal, key};
use super::watcher::Watcher;
use super::{Dice, MODEL, Setting, Tally};
use crate::cli::User;

/// Kills after which a run may finish: on a very slow machine no process might live long enough for a step.
const LIVES: u64 = 40;

/// Additional lifetime of a process that must not be killed yet.
const REPRIEVE: Duration = Duration::from_millis(20);
/// Time-out of a process.
const LIFE: Duration = Duration::from_secs(60);

/// Counts of replies that a watcher followed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Watched {
    /// Replies whose deltas were all received.
    pub whole: u64,
    /// Replies with missed deltas, whose text came from the event.
    pub supplied: u64,
}

/// A run and the state of its trial.
pub struct Trial<'a> {
    setting: &'a Setting,
    user: User,
    dice: Dice,
    pub kills: u64,
    /// Calls in doubt, and the call of each question.
    doubts: Vec<(u64, u64)>,
    questions: BTreeMap<String, (u64, u64)>,
    watches: bool,
    watcher: Option<Watcher>,
    /// Kills since the last observed reply of the model.
    fruitless: u32,
    /// Position of the newest observed reply.
    replied: u64,
}

/// How a process ended.
enum Life {
    Killed,
    Ended { code: Option<i32>, last: Value, errors: String },
}

/// A command that uses the local model server.
pub fn command(user: &User, base_url: &str, arguments: &[&str]) -> Command {
    let mut command = user.command(arguments);
    command.env("OPENAI_API_KEY", "none");
    // The address applies to the model named beside it, also when a run is resumed.
    command.env("WINDLASS_MODEL", MODEL).env("WINDLASS_BASE_URL", base_url);
    command
}

/// Sends SIGKILL and waits for the process to end.
pub fn kill(child: &mut Child) {
    // SAFETY: a plain system call about a child that has not been waited for.
    let sent = unsafe { libc::kill(i32::try_from(child.id()).unwrap(), libc::SIGKILL) };
    assert_eq!(sent, 0);
    child.wait().unwrap();
}

/// A process's lines as they arrive. A truncated last line is dropped.
pub fn lines_of(child: &mut Child) -> Receiver<Value> {
    let (sender, lines) = channel();
    let mut reader = BufReader::new(child.stdout.take().unwrap());
    std::thread::spawn(move || {
        let mut line = String::new();
        while reader.read_line(&mut line).is_ok_and(|size| size > 0) && line.ends_with('\n') {
            let value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
            if sender.send(value).is_err() {
                return;
            }
            line.clear();
        }
    });
    lines
}

/// The journal of a run without a crash.
pub fn undisturbed(base_url: &str) -> Journal {
    let user = User::new();
    let output = command(&user, base_url, &["run", "--yes", "-m", MODEL, "go"]).output().unwrap();
    crate::cli::said(output).exits(0);
    let journal = Journal::of(&user);
    journal.check(&[]);
    check_files(&user);
    journal
}

impl<'a> Trial<'a> {
    pub fn new(setting: &'a Setting, dice: Dice, watches: bool) -> Self {
        let (user, doubts, questions) = (User::new(), Vec::new(), BTreeMap::new());
        Self {
            setting,
            user,
            dice,
            kills: 0,
            doubts,
            questions,
            watches,
            watcher: None,
            fruitless: 0,
            replied: 0,
        }
    }

    /// Kills processes until the run has ended.
    pub fn run(&mut self) {
        let begin = ["run", "--yes", "--stream-json", "-m", MODEL, "go"].map(str::to_owned);
        let resume = ["resume", "--yes", "--stream-json"].map(str::to_owned);
        let mut next = begin.to_vec();
        for life in 0.. {
            assert!(life < 3 * LIVES, "the run does not end");
            match self.live(&next, life < LIVES) {
                Life::Killed => {
                    self.kills += 1;
                    let threads = self.user.run(&["threads", "list", "--json"]).exits(0);
                    let Some(thread) = threads.out.lines().next() else { continue };
                    let thread: Value = serde_json::from_str(thread).unwrap();
                    if thread["status"] == "idle" {
                        return;
                    }
                    next = resume.to_vec();
                }
                Life::Ended { code: Some(0), .. } if next[0] == "approvals" => next = resume.to_vec(),
                Life::Ended { code: Some(0), .. } => return,
                Life::Ended { code: Some(3), last, .. } => next = self.judge(&last),
                Life::Ended { code, last, errors } => panic!("exit code {code:?}: {last}\n{errors}"),
            }
        }
    }

    /// Runs a command until it ends or is killed at a random moment.
    fn live(&mut self, arguments: &[String], mortal: bool) -> Life {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let lifetime = match mortal {
            true => Duration::from_micros(self.dice.below(self.setting.run_ms * 600)),
            false => LIFE,
        };
        let started = Instant::now();
        let mut until = started + lifetime;
        let mut child = command(&self.user, &self.setting.base_url, &arguments).spawn().unwrap();
        let lines = lines_of(&mut child);
        let mut last = Value::Null;
        loop {
            match lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    if line["type"] == "interrupt.opened" {
                        let interrupt = line["interrupt"].as_str().unwrap().to_owned();
                        self.questions.insert(interrupt, key(&line));
                    }
                    // A process that resumes the run also prints replies of earlier processes.
                    if line["type"] == "step.replied" && line["seq"].as_u64() > Some(self.replied) {
                        self.replied = line["seq"].as_u64().unwrap();
                        self.fruitless = 0;
                    }
                    self.watch(&line);
                    last = line;
                }
                // A third lost attempt at one step would fail the run (`ERR_LOST`).
                Err(RecvTimeoutError::Timeout) if mortal && self.fruitless >= 2 => {
                    assert!(started.elapsed() < LIFE, "no reply after {LIFE:?}: {last}");
                    until = Instant::now() + REPRIEVE;
                }
                Err(RecvTimeoutError::Timeout) => {
                    assert!(mortal, "no end after {LIFE:?}: {last}");
                    kill(&mut child);
                    self.fruitless += 1;
                    self.disturb_watcher();
                    return Life::Killed;
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        let mut errors = String::new();
        child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
        Life::Ended { code: child.wait().unwrap().code(), last, errors }
    }

    /// Starts a watcher as soon as a run exists.
    fn watch(&mut self, line: &Value) {
        if self.watches
            && self.watcher.is_none()
            && let Some(run) = line["run"].as_str()
        {
            self.watcher = Some(Watcher::start(&self.user, run));
        }
    }

    /// Kills the watcher in a third of the cases. It restarts after the last event that it received.
    fn disturb_watcher(&mut self) {
        if let Some(watcher) = &mut self.watcher
            && self.dice.below(3) == 0
        {
            watcher.kill_and_restart(&self.user);
        }
    }

    /// Answers a call in doubt as a person would, after inspecting the files. The next `resume` continues the run.
    fn judge(&mut self, outcome: &Value) -> Vec<String> {
        assert_eq!(outcome["type"], "outcome", "{outcome}");
        let outcome = &outcome["outcome"];
        let open = outcome["meta"]["interrupts"].as_array().unwrap();
        assert_eq!(open.len(), 1, "{outcome}");
        let key = self.questions[open[0]["interrupt"].as_str().unwrap()];
        let asked: Value = serde_json::from_str(open[0]["arguments"].as_str().unwrap()).unwrap();
        let text = self.user.read(asked["file_path"].as_str().unwrap());
        let done = match (asked["content"].as_str(), asked["new_string"].as_str()) {
            (Some(content), None) => text == content,
            (None, Some(new)) => text.contains(&format!("{}\n", new.lines().next().unwrap())),
            _ => panic!("a call of another tool: {asked}"),
        };
        let text_of = |value: &Value| value.as_str().unwrap().to_owned();
        let mut answer = vec!["approvals".to_owned(), "answer".to_owned(), text_of(&open[0]["interrupt"])];
        match done {
            true => answer.extend(["--done".to_owned(), self.setting.reference.result(key)]),
            false => answer.push("--retry".to_owned()),
        }
        answer.push("--no-drive".into());
        if !self.doubts.contains(&key) {
            self.doubts.push(key);
        }
        answer
    }

    /// Checks the invariants after the run has ended.
    pub fn check(mut self) -> Tally {
        let journal = Journal::of(&self.user);
        let lost_calls = journal.check(&self.doubts);
        let wanted = self.setting.reference.conversation(&self.doubts);
        for (said, wanted) in journal.conversation(&self.doubts).iter().zip(&wanted) {
            assert_eq!(said, wanted);
        }
        assert_eq!(journal.conversation(&self.doubts).len(), wanted.len());
        check_files(&self.user);
        let mut tally = Tally { doubts: self.doubts.len() as u64, lost_calls, ..Tally::default() };
        if let Some(watcher) = self.watcher.take() {
            tally.watcher_kills = watcher.kills;
            tally.replies = watcher.end(&journal);
        }
        tally
    }
}

/// Checks that every log line exists once and in order, that every file has its content, and that there is no other
/// file. The process that resumes a run deletes temporary files that a killed process did not rename.
fn check_files(user: &User) {
    let lines = (1..19).filter(|turn| turn % 3 != 0).map(|turn| format!("line {turn}\n"));
    assert_eq!(user.read("log.txt"), lines.collect::<String>() + "END\n");
    let outs = (1..19).filter(|turn| turn % 3 == 0).map(|turn| format!("out-{turn}.txt"));
    let mut wanted: Vec<_> = outs.chain(["log.txt".to_owned(), "data.csv".to_owned()]).collect();
    wanted.sort();
    let entries = std::fs::read_dir(user.folder()).unwrap();
    let mut found: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    found.sort();
    assert_eq!(found, wanted);
    for turn in (3..19).step_by(3) {
        assert_eq!(user.read(&format!("out-{turn}.txt")), turn.to_string());
    }
}
