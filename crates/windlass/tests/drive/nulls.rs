//! Nulls among a call's arguments.

use windlass::machine::{Fact, Seq};
use windlass::testing::scripted::{Line, ScriptedModels, results};
use windlass::tool::FunctionTool;

use super::{memory, registry, task};
use crate::gate::told;

/// Models write `null` for optional arguments. It is removed, and an approval covers the arguments without it.
#[tokio::test]
async fn a_null_for_an_optional_argument_is_not_sent() {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Aloud {
        text: String,
        #[serde(default)]
        loud: bool,
    }
    let say =
        FunctionTool::new("say", "says", |_, Aloud { text, loud }| async move { format!("{text} {loud}") });
    let models = ScriptedModels::new(|call| match results(call) {
        0 => Line::tool("say", r#"{"text":"x","loud":null}"#),
        _ => Line::Say(told(call)),
    });
    let engine = memory(&models, registry([say])).build().await.unwrap();
    let outcome = engine.run_task(task("go")).await.unwrap();
    let wanted = r#"x false (The arguments were corrected. What was sent: {"text":"x"})"#;
    assert_eq!(outcome.text.as_deref(), Some(wanted));
    let events = engine.thread(&outcome.thread).events(Seq(0), 100).await.unwrap();
    let sent = events.iter().find_map(|recorded| match &recorded.event.fact {
        Fact::CallJudged { arguments, .. } => arguments.clone(),
        _ => None, // tidy: the verdict has the sent arguments
    });
    assert_eq!(sent.and_then(|sent| sent.inline().map(str::to_owned)).as_deref(), Some(r#"{"text":"x"}"#));
}
