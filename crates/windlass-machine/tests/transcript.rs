//! Golden transcripts in `golden/*.txt`; their listing is the list of behaviours.
//!
//! A line that starts with `> ` is an input. The lines after it are the recorded events (`+`), rejects (`!`), wanted
//! commands (`*`) and deadlines (`~`). `UPDATE=1` rewrites these lines. A `#` line is a comment.

mod answer;
mod driver;
mod tool;

use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use windlass_machine::*;

use crate::fixture::{self, failure, reply};
use crate::script::{has, json, key, number, option, words};
use crate::seen::{Flags, mark, rule_of, seen};
use crate::told::{START, block, shown, text, time, told};

/// Returns the sender of an input: Ann, who owns the thread, unless the line names another.
fn sender(words: &[String]) -> Principal {
    option(words, "as").unwrap_or("ann").into()
}

/// One thread, driven by a script.
struct Stage {
    machine: Machine,
    journal: Vec<Event>,
    agent: Agent,
    options: RunOptions,
    /// The current policy, and the number of its changes.
    policy: Policy,
    version: u64,
    /// Current view of the step's calls.
    calls: Vec<CallView>,
    now: u64,
    messages: u32,
    ids: u32,
}

impl Stage {
    fn new() -> Self {
        let machine = Machine::restore("t".into(), None, []).unwrap();
        Self {
            machine,
            journal: Vec::new(),
            agent: fixture::agent(),
            options: RunOptions::default(),
            policy: Policy::default(),
            version: 1,
            calls: Vec::new(),
            now: START,
            messages: 0,
            ids: 0,
        }
    }

    fn run(&self) -> Option<&Run> {
        self.machine.state().run.as_ref()
    }

    fn attempt(&self, words: &[String]) -> Attempt {
        match option(words, "at").and_then(|at| at.split_once('.')) {
            Some((step, attempt)) => {
                Attempt { step: step.parse().unwrap(), attempt: attempt.parse().unwrap() }
            }
            None => self.run().map(|run| run.attempt).unwrap_or_default(),
        }
    }

    /// Plays one line. Returns the lines to write below it.
    fn play(&mut self, line: &str) -> String {
        let words = words(line);
        let mut out = String::new();
        for input in self.inputs(&words, &mut out) {
            let mut decided = self.machine.clone();
            match decided.handle(&input, Timestamp(self.now)) {
                Ok(events) => {
                    self.learn(&input);
                    for event in events {
                        writeln!(out, "+ {}", told(&event.fact)).unwrap();
                        if let Fact::GrantUsed { grant, .. } = &event.fact {
                            self.use_grant(grant);
                        }
                        self.machine.apply(&event);
                        self.journal.push(event);
                    }
                    assert_eq!(decided, self.machine, "the state after a decision is the fold of its events");
                }
                Err(reject) => {
                    assert_eq!(decided, self.machine, "a reject changes nothing");
                    writeln!(out, "! {reject}").unwrap();
                }
            }
        }
        if words[0] != "request" && words[0] != "many" {
            self.standing(&mut out);
        }
        out
    }

    fn standing(&self, out: &mut String) {
        let at = |call: CallKey| format!("{}/{}", call.step, call.index);
        for command in self.machine.wants() {
            let line = match command {
                Command::CallModel { attempt, model } => {
                    format!("model {}.{} {model}", attempt.step, attempt.attempt)
                }
                Command::CallTool { call, start, tool, class, arguments, reply, resumed, .. } => {
                    let class = match class {
                        EffectClass::Reconcile { .. } => "reconcile".into(),
                        class => text(&class),
                    };
                    let reply = reply.map(|reply| serde_json::to_string(&reply).unwrap());
                    let reply = reply.map(|reply| format!(" replied {reply}")).unwrap_or_default();
                    let resumed = resumed.map(|resumed| serde_json::to_string(&resumed).unwrap());
                    let resumed = resumed.map(|it| format!(" resumed {it}")).unwrap_or_default();
                    let sent = shown(&arguments);
                    format!("tool {} start {start} {tool} {class} {sent}{reply}{resumed}", at(call))
                }
                Command::PreviewTool { call, round, tool, arguments, .. } => {
                    format!("preview {} round {round} {tool} {}", at(call), shown(&arguments))
                }
                Command::Reconcile { call, attempt, tool, arguments, .. } => {
                    format!("read {} for {} attempt {attempt} {tool}", at(call), shown(&arguments))
                }
            };
            writeln!(out, "* {line}").unwrap();
        }
        if self.run().is_some_and(Run::is_waiting) {
            writeln!(out, "~ waits for people").unwrap();
        }
        if self.run().is_some_and(Run::is_sleeping) {
            writeln!(out, "~ sleeps").unwrap();
        }
        if let Some(deadline) = self.machine.deadline() {
            writeln!(out, "~ due at {}", time(deadline)).unwrap();
        }
    }

    /// Counts a grant's use, as the store does in the append that records it.
    fn use_grant(&mut self, id: &str) {
        let grant = self.policy.grants.iter_mut().find(|grant| grant.id == id).expect("a grant");
        grant.remaining = grant.remaining.map(|count| count.checked_sub(1).expect("a use that is left"));
    }

    /// Updates the driver's view after an input was accepted: edited calls get their new arguments.
    fn learn(&mut self, input: &Input) {
        let view = match input {
            Input::ModelReplied(replied) => &replied.view,
            Input::Rejudge { view }
            | Input::Lost { view, .. }
            | Input::NotDispatched { view, .. }
            | Input::ToolStopped { view, .. }
            | Input::Answered { view, .. } => view,
            _ => return, // tidy: the others bring no view
        };
        self.calls.clone_from(&view.calls);
    }

    /// Returns a view with the policy and the open calls.
    fn view(&self) -> View {
        let (version, policy) = (self.version, Arc::new(self.policy.clone()));
        View { version, policy, ..fixture::view(self.calls.clone()) }
    }

    /// Returns a view after changes, with one word for each call: `ask`, `allow`, `deny`, `schema`, `gone`, `-`.
    fn changed(&self, words: &[String]) -> View {
        let mut view = View { version: self.version + 1, ..self.view() };
        for (call, word) in view.calls.iter_mut().zip(words) {
            mark(call, word);
        }
        view
    }

    fn inputs(&mut self, words: &[String], out: &mut String) -> Vec<Input> {
        let by = Principal::from("ann");
        let input = match words[0].as_str() {
            "agent" => {
                self.set_agent(words);
                return Vec::new();
            }
            "rule" | "unrule" | "grant" | "revoke" | "mode" => {
                self.change_policy(words);
                return Vec::new();
            }
            "clock" => {
                self.now += 1000 * words[1].parse::<u64>().unwrap();
                return Vec::new();
            }
            "crash" => {
                let restored = Machine::restore("t".into(), None, self.journal.iter().cloned()).unwrap();
                assert_eq!(restored, self.machine, "state is the fold of the journal");
                let view = self.changed(&words[1..]);
                let lost = |command| Input::Lost { command, view: view.clone() };
                return self.machine.unfinished().into_iter().map(lost).collect();
            }
            "undispatched" => self.undispatched(words),
            "request" => {
                self.request(out);
                return Vec::new();
            }
            "message" => self.message(words),
            "withdraw" => Input::Withdraw { id: words[1].as_str().into(), by: sender(words) },
            "edit" => Input::EditQueued {
                id: words[1].as_str().into(),
                message: Arc::new(Message::text(Role::User, words[2].as_str())),
                by: sender(words),
            },
            "now" => Input::SendNow { id: words[1].as_str().into(), by: sender(words) },
            "cancel" => Input::Cancel { run: words.get(1).map(|run| run.as_str().into()), by },
            "title" => Input::Title { title: words[1].clone(), by },
            "title-made" => {
                Input::TitleMade { title: words[1].clone(), made: Box::new(fixture::title_made()) }
            }
            "switch" => Input::SwitchModel { model: words[1].as_str().into(), by },
            "note" => Input::Note { name: words[1].clone(), data: serde_json::json!({}) },
            "tick" | "jump" => self.ticked(words),
            "model" | "many" => self.model(words),
            "fail" => self.fail(words),
            "stopped" => {
                let partial =
                    words.get(1).filter(|word| !word.contains('=')).map(|text| text.as_str().into());
                Input::ModelStopped { attempt: self.attempt(words), partial }
            }
            "tool" => tool::returned(words, self.run()),
            "killed" | "lost" => {
                let (call, changed) = (key(&words[1], self.run()), words.get(3..).unwrap_or_default());
                let view = if changed.is_empty() { self.view() } else { self.changed(changed) };
                Input::ToolStopped { call, reason: words[2].clone(), by_tool: words[0] == "lost", view }
            }
            "answer" => self.answer(words),
            "rejudge" => {
                let view = self.changed(&words[1..]);
                self.version = view.version;
                Input::Rejudge { view }
            }
            _ => self.reported(words),
        };
        vec![input]
    }

    /// Parses a driver's report about tools and budgets.
    fn reported(&mut self, words: &[String]) -> Input {
        match words[0].as_str() {
            "asks" => {
                let flags = Flags::of(&words[2]);
                Input::ToolAsked {
                    call: key(&words[1], self.run()),
                    kind: Box::new(flags.asks(words[2].split(',').next().unwrap_or_default())),
                    terms: flags.terms.clone(),
                    state: option(words, "keeps").map(Into::into),
                }
            }
            "defers" => Input::ToolDeferred {
                call: key(&words[1], self.run()),
                after_ms: 1000 * words[2].parse::<u64>().unwrap(),
                state: option(words, "keeps").map(Into::into),
                rest: if has(words, "repeatable") { Rest::Repeatable } else { Rest::AsTheCall },
            },
            "preview" => {
                let call = key(&words[1], self.run());
                let round = number(words, "round")
                    .unwrap_or_else(|| self.call(call).map_or(0, |call| call.looks.into()));
                let digest = Digest::of(words[2].as_bytes());
                Input::Previewed { call, round: round as u32, preview: words[2].as_str().into(), digest }
            }
            "read" => {
                let call = key(&words[1], self.run());
                let attempt = match self.call(call).map(|call| &call.status) {
                    Some(CallStatus::Reconciling { attempt, .. }) => *attempt,
                    _ => 1, // tidy: no read is on its way
                };
                let attempt = number(words, "attempt").map_or(attempt, |attempt| attempt as u32);
                let found = has(words, "found").then(|| vec![Block::text(words[2].as_str())]);
                Input::Reconciled { call, attempt, found, reason: words[2].clone() }
            }
            "refused" => Input::LimitRefused {
                limit: words[1].clone(),
                figure: words[2].parse().unwrap(),
                refused: Refused {
                    taken: number(words, "taken").unwrap_or(90),
                    wanted: number(words, "wanted").unwrap_or(20),
                    approvers: fixture::approvers(option(words, "by").as_slice()),
                },
                message: option(words, "message").map(|text| {
                    match self.message(&["message".to_owned(), text.to_owned()]) {
                        Input::Message(message) => message,
                        other => panic!("{other:?} is no message"),
                    }
                }),
            },
            other => panic!("`{other}` is no input"),
        }
    }

    fn set_agent(&mut self, words: &[String]) {
        let limits = &mut self.agent.limits;
        let set = |name: &str, figure: &mut u32| {
            if let Some(value) = number(words, name) {
                *figure = value as u32;
            }
        };
        set("steps", &mut limits.max_steps);
        set("window", &mut limits.window_messages);
        set("calls", &mut limits.max_calls_per_step);
        set("parallel", &mut limits.max_parallel_calls);
        set("queued", &mut limits.max_queued);
        set("starts", &mut limits.max_call_starts);
        set("same", &mut limits.max_same_calls);
        if let Some((tool, most)) = option(words, "most").and_then(|most| most.split_once(':')) {
            limits.max_calls.insert(tool.into(), most.parse().unwrap());
        }
        self.options.at_limit = option(words, "at_limit").map(json).or(self.options.at_limit);
        if let Some(seconds) = number(words, "timeout") {
            limits.run_timeout_ms = seconds * 1000;
        }
        if let Some(models) = option(words, "models") {
            self.agent.models = models.split(',').map(ModelName::from).collect();
        }
        if has(words, "chat") {
            self.options.surface = Surface::Chat;
        }
        self.options.serialized |= has(words, "serialized");
    }

    /// `rule ask Pay quorum:2 when={…}`, `unrule ask Pay`, `grant g1 Pay count=2 until=60`, `revoke g1`, `mode everything`
    fn change_policy(&mut self, words: &[String]) {
        let after = |seconds: u64| Timestamp(START).plus_ms(1000 * seconds);
        let when = || option(words, "when").map(|when| serde_json::from_str(when).unwrap());
        self.version += 1;
        let named = words[1..].join(" ");
        match words[0].as_str() {
            "rule" => {
                let terms = Flags::of(&format!("ask,{}", words.get(3).map_or("", String::as_str))).terms;
                let rule = fixture::rule(json(&words[1]), &words[2], terms);
                self.set_rule(Rule {
                    until: number(words, "until").map(after),
                    when: when().into_iter().collect(),
                    ..rule
                });
            }
            "unrule" => self.policy.rules.retain(|rule| rule.name.as_ref() != Some(&named)),
            "grant" => self.policy.grants.push(Grant {
                id: words[1].clone(),
                tool: words[2].as_str().into(),
                server: None,
                schema: None,
                arguments: when().into_iter().collect(),
                remaining: number(words, "count").map(|count| count as u32),
                expires_at: number(words, "until").map(after),
                by: "ann".into(),
            }),
            "revoke" => self.policy.grants.retain(|grant| grant.id != words[1]),
            _ => self.policy.auto_run = json(&words[1]), // tidy: the caller has named them all
        }
    }

    /// Replaces the rule of the same name.
    fn set_rule(&mut self, rule: Rule) {
        self.policy.rules.retain(|other| other.name != rule.name);
        self.policy.rules.push(rule);
    }

    fn message(&mut self, words: &[String]) -> Input {
        self.messages += 1;
        let id = option(words, "id").map_or_else(|| format!("m{}", self.messages), Into::into);
        let run = option(words, "run").map_or_else(|| format!("r{}", self.messages), Into::into);
        let mut new = fixture::new_message(&id, &words[1], &run, Arc::new(self.agent.clone()));
        new.options = self.options.clone();
        new.by = sender(words);
        new.when_busy = match words.last().map(String::as_str) {
            Some("steer") => WhenBusy::Steer,
            Some("replace") => WhenBusy::Replace,
            Some("rollback") => WhenBusy::Rollback,
            Some("reject") => WhenBusy::Reject,
            Some(_) | None => WhenBusy::Queue,
        };
        Input::Message(Box::new(new))
    }

    /// `model text "…" call Read {…} pure call Write {…} ask stop=max_tokens`
    fn model(&mut self, words: &[String]) -> Input {
        let mut blocks = Vec::new();
        let mut calls = Vec::new();
        let mut rest = words[1..].iter().peekable();
        while let Some(word) = rest.next() {
            match word.as_str() {
                "text" => blocks.push(Block::text(rest.next().expect("a text").as_str())),
                "reasoning" => blocks.push(Block::Reasoning {
                    text: rest.next().expect("a text").as_str().into(),
                    native: None,
                }),
                "call" => {
                    let tool = rest.next().expect("a tool");
                    let arguments = rest.next().expect("arguments");
                    let how = rest.next_if(|word| !word.contains('=') && *word != "call" && *word != "text");
                    self.ids += 1;
                    blocks.push(fixture::call(&format!("c{}", self.ids), tool, arguments));
                    let how = how.map_or("", |how| how);
                    calls.push(seen(how, arguments));
                    rule_of(tool, how).into_iter().for_each(|rule| self.set_rule(rule));
                }
                "calls" => {
                    let count: u32 = rest.next().expect("a number").parse().unwrap();
                    for n in 0..count {
                        blocks.push(fixture::call(&format!("n{n}"), "Read", "{}"));
                        calls.push(seen("pure", "{}"));
                    }
                }
                _ => {}
            }
        }
        let stop = match option(words, "stop") {
            Some("max_tokens") => StopReason::MaxTokens,
            Some("refusal") => StopReason::Refusal,
            Some("pause") => StopReason::Pause,
            Some(other) => StopReason::Other(other.into()),
            None => StopReason::End,
        };
        reply(self.attempt(words), blocks, stop, View { calls, ..self.view() })
    }

    fn fail(&mut self, words: &[String]) -> Input {
        let mut failed = failure(self.attempt(words), json(&words[1]));
        failed.retry_after_ms = number(words, "retry_after").map(|seconds| seconds * 1000);
        failed.partial = option(words, "partial").map(Into::into);
        Input::ModelFailed(Box::new(failed))
    }

    fn call(&self, key: CallKey) -> Option<&Call> {
        match &self.run()?.phase {
            Phase::Calls(line) => line.calls.get(key.index as usize),
            Phase::Ready | Phase::Calling | Phase::Retrying(_) | Phase::Parked(_) => None,
        }
    }

    fn request(&self, out: &mut String) {
        let Some(request) = self.machine.request() else {
            return writeln!(out, "= none").unwrap();
        };
        for message in &request.messages {
            let blocks: Vec<String> = message.blocks.iter().map(block).collect();
            writeln!(out, "= {}: {}", text(&message.role), blocks.join(" | ")).unwrap();
        }
        for line in &request.tail {
            writeln!(out, "= tail: {line}").unwrap();
        }
    }
}

/// Plays a script. Returns it with the result of each line.
fn played(script: &str) -> String {
    let mut stage = Stage::new();
    let mut out = String::new();
    for line in script.lines().filter(|line| line.starts_with('#') || line.starts_with("> ")) {
        writeln!(out, "{line}").unwrap();
        if let Some(input) = line.strip_prefix("> ") {
            out.push_str(&stage.play(input));
        }
    }
    let lines: Vec<String> = stage.journal.iter().map(Event::encode).collect();
    let read = lines.iter().map(|line| Event::decode(line).expect("it reads what it wrote"));
    let restored = Machine::restore("t".into(), None, read).unwrap();
    assert_eq!(restored, stage.machine, "the journal's text restores the state");
    out
}

// Each transcript names the rows that it covers.
#[test]
fn golden_transcripts() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let update = std::env::var_os("UPDATE").is_some();
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() > 40, "the golden transcripts are gone");
    let mut wrong = Vec::new();
    for file in files {
        let expected = std::fs::read_to_string(&file).unwrap();
        let actual = played(&expected);
        if actual == expected {
            continue;
        }
        if update {
            std::fs::write(&file, &actual).unwrap();
        }
        let line = actual.lines().zip(expected.lines()).position(|(a, b)| a != b);
        let at = line.unwrap_or(actual.lines().count().min(expected.lines().count()));
        let show = |text: &str| text.lines().nth(at).unwrap_or("(nothing)").to_owned();
        let (is, was) = (show(&actual), show(&expected));
        wrong.push(format!("{}:{}\n  is  {is}\n  was {was}", file.display(), at + 1));
    }
    assert!(update || wrong.is_empty(), "run with UPDATE=1 and review the difference\n{}", wrong.join("\n"));
}
