//! Invariants of a run's exported journal, regardless of crashes of the processes that drove it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::cli::{User, count};

/// Steps of the script.
const STEPS: usize = 20;

/// The events of a thread.
#[derive(Debug, PartialEq)]
pub struct Journal(pub Vec<Value>);

type Key = (u64, u64);

/// The call that an event refers to.
pub fn key(event: &Value) -> Key {
    // An interrupt has its call in a separate field, because it may have none.
    let at = if event["call"].is_object() { &event["call"] } else { event };
    (at["step"].as_u64().unwrap(), at["index"].as_u64().unwrap())
}

impl Journal {
    /// The newest thread's journal, from `threads export`.
    pub fn of(user: &User) -> Self {
        Self(user.events())
    }

    fn kind<'a>(&'a self, kind: &'static str) -> impl Iterator<Item = &'a Value> + 'a {
        self.0.iter().filter(move |event| event["type"] == kind)
    }

    /// The text of a call's result.
    pub fn result(&self, of: Key) -> String {
        let finished = self.kind("tool.finished").find(|event| key(event) == of).unwrap();
        finished["content"][0]["text"].as_str().unwrap().to_owned()
    }

    /// Checks the invariants of every finished run of the script. Returns the number of lost model calls.
    pub fn check(&self, doubts: &[Key]) -> u64 {
        let events = &self.0;
        for (event, seq) in events.iter().zip(1_u64..) {
            assert_eq!(event["seq"], seq);
        }
        assert_eq!((count(events, "run.started"), count(events, "run.finished")), (1, 1));
        assert_eq!(self.kind("run.finished").next().unwrap()["status"], "done");
        let steps: Vec<_> = self.kind("step.replied").map(|event| event["step"].as_u64().unwrap()).collect();
        assert_eq!(steps, (1..=STEPS as u64).collect::<Vec<_>>(), "each step has one reply");
        let finished: Vec<_> = self.kind("tool.finished").map(key).collect();
        assert_eq!(
            finished,
            (1..STEPS as u64).map(|step| (step, 0)).collect::<Vec<_>>(),
            "one result a call"
        );
        let in_doubt: BTreeSet<_> = self.kind("tool.in_doubt").map(key).collect();
        assert_eq!(in_doubt, doubts.iter().copied().collect(), "each doubt was a person's to judge");
        self.check_starts();
        self.check_attempts()
    }

    /// Checks that every dispatch has a recorded cause, and that a non-repeatable call was retried only on a person's
    /// answer.
    fn check_starts(&self) {
        let mut judged: BTreeMap<Key, &Value> = BTreeMap::new();
        let mut open: BTreeMap<&str, Key> = BTreeMap::new();
        let mut allowed: BTreeMap<Key, u32> = BTreeMap::new();
        let mut started: BTreeSet<Key> = BTreeSet::new();
        let mut replied = 0;
        for event in &self.0 {
            match event["type"].as_str().unwrap() {
                "step.replied" => replied = event["step"].as_u64().unwrap(),
                "call.judged" => {
                    assert_eq!((key(event).0, &event["verdict"]), (replied, &json!("allow")), "{event}");
                    let repeats = event["class"] != "once";
                    judged.insert(key(event), event);
                    allowed.entry(key(event)).or_insert(if repeats { 3 } else { 1 });
                }
                "interrupt.opened" => {
                    open.insert(event["interrupt"].as_str().unwrap(), key(event));
                }
                "interrupt.closed" => {
                    let call = open.remove(event["interrupt"].as_str().unwrap()).unwrap();
                    if event["answer"]["answer"] == "retry" {
                        *allowed.get_mut(&call).unwrap() += 1;
                    }
                }
                "tool.started" => {
                    assert!(judged.contains_key(&key(event)), "no cause: {event}");
                    let left = allowed.get_mut(&key(event)).unwrap();
                    *left = left.checked_sub(1).unwrap_or_else(|| panic!("started too often: {event}"));
                    started.insert(key(event));
                }
                "tool.finished" => {
                    assert!(started.contains(&key(event)), "a result of nothing: {event}");
                    allowed.insert(key(event), 0);
                }
                _ => {}
            }
        }
        assert!(open.is_empty(), "a question was left open");
    }

    /// Checks that each attempt ends once: with its reply, or as lost with its process.
    fn check_attempts(&self) -> u64 {
        let mut running = None;
        let mut lost = 0;
        for event in &self.0 {
            let attempt = (event["step"].as_u64(), event["attempt"].as_u64());
            match event["type"].as_str().unwrap() {
                "step.started" => assert_eq!(running.replace(attempt), None, "{event}"),
                "step.replied" => assert_eq!(running.take(), Some(attempt), "{event}"),
                "step.failed" => {
                    assert_eq!(running.take(), Some(attempt), "{event}");
                    assert_eq!(event["class"], "lost", "{event}");
                    lost += 1;
                }
                _ => {}
            }
        }
        lost
    }

    /// The messages and results, without ids and times. A person supplied the results of calls in doubt.
    pub fn conversation(&self, doubts: &[Key]) -> Vec<Value> {
        let mut said = Vec::new();
        for event in &self.0 {
            match event["type"].as_str().unwrap() {
                "message.received" => said.push(json!({"message": event["message"]})),
                "step.replied" => {
                    let mut message = event["message"].clone();
                    for block in message["blocks"].as_array_mut().unwrap() {
                        block.as_object_mut().unwrap().remove("id");
                    }
                    said.push(json!({"step": event["step"], "message": message, "stop": event["stop"]}));
                }
                "tool.finished" if doubts.contains(&key(event)) => said.push(json!({"doubt": key(event)})),
                "tool.finished" => {
                    let mut content = event["content"].to_string();
                    // A repeated `Write` finds the file of the lost one and reports that.
                    if self.kind("tool.started").filter(|start| key(start) == key(event)).count() > 1 {
                        content = content.replace("Overwrote", "Created");
                    }
                    let told = json!([event["outcome"], content, event["error"]]);
                    said.push(json!({"call": key(event), "told": told}));
                }
                "run.finished" => said.push(json!({"status": event["status"], "output": event["output"]})),
                _ => {}
            }
        }
        said
    }
}
