//! What the journal tells about the calls that people are asked about: what asked, and what was started when.

use std::collections::BTreeMap;

use windlass::machine::{CallKey, EffectId, Event, Fact, InterruptId, Seq, ThreadId, Timestamp, ToolName};
use windlass::port::journal::RunQuery;
use windlass::{Engine, EngineError, OfferedTool};

/// Events read at a time.
const PAGE: usize = 512;

/// What the journal tells about an interrupt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Background {
    /// What decided that somebody is asked: a rule's name, or what it was without one.
    pub rule: Option<String>,
    /// The call's effect, where it was started.
    pub effect: Option<EffectId>,
    /// When it was last started.
    pub started_at: Option<Timestamp>,
    /// The tool server that its tool belongs to; absent for the engine's own tools.
    pub server: Option<String>,
}

/// The tool servers of the tools that come from one, by tool.
pub fn servers(engine: &Engine) -> BTreeMap<ToolName, String> {
    let of = |tool: OfferedTool| tool.server.map(|server| (tool.spec.name, server));
    engine.tools().list().into_iter().filter_map(of).collect()
}

impl Background {
    /// The rule that asks; a grant does not change that.
    pub fn asking_rule(&self) -> Option<&str> {
        self.rule.as_deref().filter(|rule| *rule != "annotations")
    }
}

/// Reads what there is to know of what the thread's newest run has asked.
pub async fn backgrounds(
    engine: &Engine,
    thread: &ThreadId,
) -> Result<BTreeMap<InterruptId, Background>, EngineError> {
    let newest = engine.runs(&RunQuery::of(thread, 1)).await?;
    let mut story = Story { servers: servers(engine), ..Story::default() };
    let Some(row) = newest.first() else { return Ok(story.asked) };
    let mut after = Seq(row.view.from.0.saturating_sub(1));
    loop {
        let page = engine.thread(thread).events(after, PAGE).await?;
        let Some(last) = page.last() else { return Ok(story.asked) };
        after = last.seq;
        page.iter().for_each(|recorded| story.see(&recorded.event));
    }
}

#[derive(Default)]
struct Story {
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
            Fact::ToolStarted { call, effect, .. } => {
                let known = self.calls.entry(*call).or_default();
                (known.effect, known.started_at) = (Some(effect.clone()), Some(event.at));
            }
            Fact::InterruptOpened { interrupt, call, .. } => {
                let known = call.and_then(|call| self.calls.get(&call)).cloned().unwrap_or_default();
                self.asked.insert(interrupt.clone(), known);
            }
            _ => {} // tidy: the other kinds say nothing of why somebody is asked
        }
    }
}
