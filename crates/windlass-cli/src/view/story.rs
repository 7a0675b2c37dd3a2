//! Reads the background of open requests from the journal: the rule that caused each
//! request, and when its call started.

use std::collections::BTreeMap;

use windlass::machine::{CallKey, EffectId, Event, Fact, InterruptId, Seq, ThreadId, Timestamp, ToolName};
use windlass::port::journal::RunQuery;
use windlass::{Engine, EngineError, OfferedTool};

/// Number of events per page.
const PAGE: usize = 512;

/// The background of an interrupt, from the journal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Background {
    /// The reason for the request: a rule's name, or a built-in reason.
    pub rule: Option<String>,
    /// The call's effect, if it was started.
    pub effect: Option<EffectId>,
    pub started_at: Option<Timestamp>,
    /// The tool server of its tool; `None` for the engine's tools.
    pub server: Option<String>,
}

/// Maps each tool of a tool server to that server.
pub fn servers(engine: &Engine) -> BTreeMap<ToolName, String> {
    let of = |tool: OfferedTool| tool.server.map(|server| (tool.spec.name, server));
    engine.tools().list().into_iter().filter_map(of).collect()
}

impl Background {
    /// Returns the rule that asks, which a grant does not override. Returns `None` if the
    /// tool's annotations caused the request.
    pub fn asking_rule(&self) -> Option<&str> {
        self.rule.as_deref().filter(|rule| *rule != "annotations")
    }
}

/// Reads the backgrounds of the interrupts of the thread's newest run.
pub async fn backgrounds(
    engine: &Engine,
    thread: &ThreadId,
) -> Result<BTreeMap<InterruptId, Background>, EngineError> {
    let newest = engine.runs(&RunQuery::of(thread, 1)).await?;
    let (calls, asked) = (BTreeMap::new(), BTreeMap::new());
    let mut story = Story { thread: thread.clone(), servers: servers(engine), calls, asked };
    let Some(row) = newest.first() else { return Ok(story.asked) };
    let mut after = Seq(row.view.from.0.saturating_sub(1));
    loop {
        let page = engine.thread(thread).events(after, PAGE).await?;
        let Some(last) = page.last() else { return Ok(story.asked) };
        after = last.seq;
        page.iter().for_each(|recorded| story.see(&recorded.event));
    }
}

struct Story {
    thread: ThreadId,
    servers: BTreeMap<ToolName, String>,
    calls: BTreeMap<CallKey, Background>,
    asked: BTreeMap<InterruptId, Background>,
}

impl Story {
    fn see(&mut self, event: &Event) {
        match &event.fact {
            Fact::StepReplied { attempt, message, .. } => {
                for (index, asked) in message.calls().enumerate() {
                    let call = CallKey { step: attempt.step, index: index as u32 };
                    self.calls.entry(call).or_default().server = self.servers.get(&asked.name).cloned();
                }
            }
            Fact::CallJudged { call, rule, .. } => {
                self.calls.entry(*call).or_default().rule = Some(rule.clone());
            }
            Fact::ToolStarted { call } => {
                let effect = event.run.as_ref().map(|run| EffectId::derive(&self.thread, run, *call));
                let known = self.calls.entry(*call).or_default();
                (known.effect, known.started_at) = (effect, Some(event.at));
            }
            Fact::InterruptOpened { interrupt, call, .. } => {
                let known = call.and_then(|call| self.calls.get(&call)).cloned().unwrap_or_default();
                self.asked.insert(interrupt.clone(), known);
            }
            _ => {} // tidy: the other kinds do not explain a request
        }
    }
}
