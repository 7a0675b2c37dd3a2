//! The counts of an observer.

use std::sync::{Arc, Mutex};

use windlass::machine::{EffectClass, Outcome, RunStatus};
use windlass::port::observe::{Measure, Observer};
use windlass::testing::scripted::{Line, ScriptedModels, results};

use super::{Counter, memory, registry, task};

#[derive(Default)]
struct Heard(Mutex<Vec<String>>);

impl Observer for Heard {
    fn observe(&self, measure: &Measure) {
        let word = match measure {
            Measure::RunStarted => "run started".to_owned(),
            Measure::RunFinished { status: RunStatus::Done, .. } => "run done".to_owned(),
            Measure::StepReplied { model, .. } => format!("{model} replied"),
            Measure::CallFinished { tool, outcome: Outcome::Returned, error: false, .. } => {
                format!("{tool} returned")
            }
            Measure::Appended { written: true, .. } => return,
            other => format!("{other:?}"),
        };
        self.0.lock().unwrap().push(word);
    }
}

#[tokio::test]
async fn observers_get_each_event_once_and_in_order() {
    let models = ScriptedModels::new(|call| match results(call) {
        turn @ 0..2 => Line::tool(["one", "two"][turn], r#"{"text":"x"}"#),
        _ => Line::Say("done".into()),
    });
    let count = Counter::default();
    let tools = registry(["one", "two"].map(|name| count.tool(name, EffectClass::Pure)));
    let heard = Arc::new(Heard::default());
    let engine = memory(&models, tools).observer(heard.clone()).build().await.unwrap();
    engine.run_task(task("go")).await.unwrap();
    let model = "test/scripted replied";
    let wanted = ["run started", model, "one returned", model, "two returned", model, "run done"];
    assert_eq!(*heard.0.lock().unwrap(), wanted);
}
