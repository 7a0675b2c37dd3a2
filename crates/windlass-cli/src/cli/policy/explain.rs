//! `windlass policy explain`: prints the journal's record of why each call of a run was
//! allowed or denied, and who answered.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use windlass::EngineError;
use windlass::machine::{Answer, CallKey, Event, Fact, InterruptId, RunId, Timestamp, Verdict};
use windlass::port::journal::RunRow;
use windlass_server::policy::word;
use windlass_server::text::shown_line;
use windlass_server::trouble::{Exit, Trouble};

use crate::console::Console;
use crate::place::Place;
use crate::view::call::{label, moment, span};
use crate::view::card::word as kind_word;
use crate::view::transcript::{answered, ended, events};

/// Explains the calls of a run, or one of them.
pub async fn run(
    console: &Console,
    place: &Place,
    run: Option<&str>,
    call: Option<&str>,
    json: bool,
) -> anyhow::Result<Exit> {
    let row = place.find_any_run(run).await?;
    if run.is_none() && !json {
        console.note(&console.paint.dim(&format!("run {}", row.view.run)));
    }
    let mut calls = read(place, &row).await?;
    if let Some(wanted) = call {
        calls.retain(|key, _| name(*key) == wanted);
        if calls.is_empty() {
            return Err(Trouble::usage(format!("run `{}` has no call `{wanted}`", row.view.run))
                .hint("name a call by its step and its position there, such as `2.1`")
                .into());
        }
    }
    if json {
        let all: Vec<Value> = calls.iter().map(|(key, call)| call.json(*key)).collect();
        console.out_json(&json!({ "run": row.view.run, "calls": all }).to_string());
        return Ok(Exit::Done);
    }
    if calls.is_empty() {
        console.note(&format!("run {} has made no tool calls", row.view.run));
    }
    for (key, call) in &calls {
        call.print(console, *key);
    }
    Ok(Exit::Done)
}

/// Returns a call's displayed name: its step and its position in the step, from 1.
fn name(key: CallKey) -> String {
    format!("{}.{}", key.step, key.index + 1)
}

/// The recorded decisions about a call, in the journal's order.
#[derive(Default)]
struct Told {
    label: String,
    tool: String,
    happened: Vec<(Timestamp, Happened)>,
}

enum Happened {
    Judged { verdict: Verdict, rule: String },
    GrantUsed(String),
    Asked { interrupt: InterruptId, kind: &'static str },
    Voted { interrupt: InterruptId, by: String },
    Answered { interrupt: InterruptId, answer: Answer, by: String },
    Edited { by: String },
    Started,
    Finished { outcome: String },
}

async fn read(place: &Place, row: &RunRow) -> Result<BTreeMap<CallKey, Told>, EngineError> {
    let mut story = Story { run: row.view.run.clone(), calls: BTreeMap::new(), asked: BTreeMap::new() };
    for recorded in events(&place.engine, &row.thread).await? {
        let event = &recorded.event;
        if event.run.as_ref() != Some(&story.run) {
            continue;
        }
        if let Fact::StepReplied { attempt, message, .. } = &event.fact {
            for (index, call) in message.calls().enumerate() {
                let arguments = place.engine.text(&call.asked).await?;
                let told = Told {
                    label: label(call.name.as_str(), &arguments),
                    tool: call.name.to_string(),
                    happened: Vec::new(),
                };
                story.calls.insert(CallKey { step: attempt.step, index: index as u32 }, told);
            }
        }
        story.see(event);
    }
    Ok(story.calls)
}

struct Story {
    run: RunId,
    calls: BTreeMap<CallKey, Told>,
    asked: BTreeMap<InterruptId, CallKey>,
}

impl Story {
    fn see(&mut self, event: &Event) {
        let of = |interrupt: &InterruptId| self.asked.get(interrupt).copied();
        let found = match &event.fact {
            Fact::CallJudged { call, verdict, rule, .. } => {
                Some((*call, Happened::Judged { verdict: *verdict, rule: rule.clone() }))
            }
            Fact::GrantUsed { call, grant } => Some((*call, Happened::GrantUsed(grant.clone()))),
            Fact::CallEdited { call, by, .. } => Some((*call, Happened::Edited { by: by.to_string() })),
            Fact::ToolStarted { call, .. } => Some((*call, Happened::Started)),
            Fact::ToolFinished { call, outcome, error, duration_ms, .. } => {
                Some((*call, Happened::Finished { outcome: ended(*outcome, *error, *duration_ms) }))
            }
            Fact::InterruptOpened { interrupt, kind, call: Some(call), .. } => {
                self.asked.insert(interrupt.clone(), *call);
                Some((*call, Happened::Asked { interrupt: interrupt.clone(), kind: kind_word(kind) }))
            }
            Fact::InterruptVoted { interrupt, by, .. } => of(interrupt)
                .map(|call| (call, Happened::Voted { interrupt: interrupt.clone(), by: by.to_string() })),
            Fact::InterruptClosed { interrupt, answer, by, .. } => of(interrupt).map(|call| {
                let (interrupt, answer) = (interrupt.clone(), answer.clone());
                (call, Happened::Answered { interrupt, answer, by: by.to_string() })
            }),
            _ => None, // tidy: the other kinds decide nothing about a call
        };
        if let Some((call, happened)) = found {
            self.calls.entry(call).or_default().happened.push((event.at, happened));
        }
    }
}

impl Told {
    fn print(&self, console: &Console, key: CallKey) {
        let paint = console.out_paint;
        console.out_line(&format!("{:<5} {}", name(key), paint.bold(&self.label)));
        let mut asked_at = None;
        for (at, happened) in &self.happened {
            let (what, how) = match happened {
                Happened::Judged { verdict, rule } => (word(*verdict), format!("by {}", by_rule(rule))),
                Happened::GrantUsed(grant) => ("grant", format!("one use of {grant}")),
                Happened::Asked { interrupt, kind } => {
                    asked_at = Some(*at);
                    ("asked", format!("{kind}, {} ({interrupt})", moment(*at)))
                }
                Happened::Voted { by, .. } => ("vote", format!("approved by {by}")),
                Happened::Answered { answer, by, .. } => {
                    let after = asked_at.map(|asked| format!(", after {}", span(at.since(asked))));
                    let answer = answered(answer).unwrap_or_else(|| "withdrawn".into());
                    ("answer", format!("{answer} by {by}{}", after.unwrap_or_default()))
                }
                Happened::Edited { by } => ("edited", format!("by {by}")),
                Happened::Started => continue,
                Happened::Finished { outcome } => ("end", outcome.clone()),
            };
            console.out_line(&format!("      {} {}", paint.dim(&format!("{what:<7}")), shown_line(&how)));
        }
    }

    fn json(&self, key: CallKey) -> Value {
        let happened = self.happened.iter().map(|(at, happened)| {
            let mut value = match happened {
                Happened::Judged { verdict, rule } => {
                    json!({ "what": "judged", "verdict": verdict, "rule": rule })
                }
                Happened::GrantUsed(grant) => json!({ "what": "grant_used", "grant": grant }),
                Happened::Asked { interrupt, kind } => {
                    json!({ "what": "asked", "interrupt": interrupt, "kind": kind })
                }
                Happened::Voted { interrupt, by } => {
                    json!({ "what": "voted", "interrupt": interrupt, "by": by })
                }
                Happened::Answered { interrupt, answer, by } => {
                    json!({ "what": "answered", "interrupt": interrupt, "answer": answer, "by": by })
                }
                Happened::Edited { by } => json!({ "what": "edited", "by": by }),
                Happened::Started => json!({ "what": "started" }),
                Happened::Finished { outcome } => json!({ "what": "finished", "outcome": outcome }),
            };
            if let Some(members) = value.as_object_mut() {
                members.insert("at".into(), json!(at));
            }
            value
        });
        json!({ "call": name(key), "tool": self.tool, "happened": happened.collect::<Vec<_>>() })
    }
}

/// Formats the name of the deciding rule. Explains a built-in rule.
fn by_rule(rule: &str) -> String {
    match rule {
        "annotations" => "annotations (the tool's own hints; no rule, setting or grant matched)".to_owned(),
        "auto-run" => "auto-run (`everything`)".to_owned(),
        "allowlist" => "allowlist (`windlass allow`)".to_owned(),
        rule if rule.starts_with("grant ") || rule.starts_with("error: ") => rule.to_owned(),
        rule => format!("rule `{rule}`"),
    }
}
