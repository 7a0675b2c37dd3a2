//! Between the decision about a call and its dispatch, its tool is replaced or the run is cancelled.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use windlass::machine::{Answer, AutoRun, EffectClass, Fact, Input, Outcome, ThreadId};
use windlass::port::journal::Journal;
use windlass::port::observe::{Measure, Observer};
use windlass::port::tool::{CallContext, Tool, ToolSource};
use windlass::tool::FunctionTool;
use windlass::{Builder, Status};

use super::{asking, facts, given, open, plan, put_down, store, task_in};
use crate::drive::{Counter, Text, party, registry, task};

/// The newer tool's arguments.
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Newer {
    text: String,
    #[serde(default)]
    to: String,
}

/// A source whose tool `pay` is replaced during an append: after it is written, before any call starts.
struct Shop {
    tools: Mutex<Arc<[Arc<dyn Tool>]>>,
    newer: Arc<dyn Tool>,
    version: AtomicU64,
    /// Which of the coming appends replaces the tool; 0: none.
    changes_in: AtomicU64,
}

impl Shop {
    fn new(older: &Counter, newer: &Counter) -> Arc<Self> {
        let older = older.tool("pay", EffectClass::Once);
        let count = newer.clone();
        let newer = FunctionTool::new("pay", "pays", move |_: CallContext, newer: Newer| {
            count.0.fetch_add(1, Ordering::SeqCst);
            async move { format!("paid {}{}", newer.text, newer.to) }
        });
        Arc::new(Self {
            tools: Mutex::new(Arc::new([Arc::new(older) as Arc<dyn Tool>])),
            newer: Arc::new(newer.effect_class(EffectClass::Once)),
            version: AtomicU64::new(1),
            changes_in: AtomicU64::new(0),
        })
    }
}

impl ToolSource for Shop {
    fn tools(&self) -> Arc<[Arc<dyn Tool>]> {
        self.tools.lock().unwrap().clone()
    }

    fn version(&self) -> u64 {
        self.version.load(Ordering::SeqCst)
    }
}

impl Observer for Shop {
    fn observe(&self, measure: &Measure) {
        if !matches!(measure, Measure::Appended { written: true, .. }) {
            return;
        }
        let before = self.changes_in.load(Ordering::SeqCst);
        self.changes_in.store(before.saturating_sub(1), Ordering::SeqCst);
        if before == 1 {
            *self.tools.lock().unwrap() = Arc::new([self.newer.clone()]);
            self.version.fetch_add(1, Ordering::SeqCst);
        }
    }
}

fn engine(shop: &Arc<Shop>) -> Builder {
    let models = plan(&[&[("pay", "a")]]);
    asking(&store(), &models, windlass::registry()).tool_source(shop.clone()).observer(shop.clone())
}

#[tokio::test]
async fn an_approved_call_of_a_tool_that_changed_in_the_append_of_its_start_is_asked_about_again() {
    let (older, newer) = (Counter::default(), Counter::default());
    let shop = Shop::new(&older, &newer);
    let engine = engine(&shop).build().await.unwrap();
    let waits = engine.run_task(task("go")).await.unwrap();
    let thread = &waits.thread;
    let first = open(&waits).remove(0);
    shop.changes_in.store(1, Ordering::SeqCst);
    engine.thread(thread).answer(&first, Answer::Approve, party("ann")).await.unwrap();
    let waits = engine.run(&waits.run).wait().await.unwrap();
    let second = open(&waits).remove(0);
    assert_ne!(first, second);
    assert_eq!((older.count(), newer.count()), (0, 0), "the new tool is not approved yet");
    engine.thread(thread).answer(&second, Answer::Approve, party("ann")).await.unwrap();
    let ended = engine.run(&waits.run).wait().await.unwrap();
    assert_eq!((ended.status, ended.text.as_deref()), (Status::Done, Some("paid a")));
    assert_eq!((older.count(), newer.count()), (0, 1));
}

#[tokio::test]
async fn an_allowed_call_of_a_tool_that_changed_in_the_append_of_its_start_is_judged_again() {
    let (older, newer) = (Counter::default(), Counter::default());
    let shop = Shop::new(&older, &newer);
    let engine = engine(&shop).auto_run(AutoRun::Everything).build().await.unwrap();
    // The second append contains the reply, its verdict and its start.
    shop.changes_in.store(2, Ordering::SeqCst);
    let ended = engine.run_task(task("go")).await.unwrap();
    assert_eq!((ended.status, ended.text.as_deref()), (Status::Done, Some("paid a")));
    assert_eq!((older.count(), newer.count()), (0, 1));
    let facts = facts(&engine, &ended.thread).await;
    let judged = facts.iter().filter(|fact| matches!(fact, Fact::CallJudged { .. })).count();
    let taken_back = facts.iter().filter(|fact| matches!(fact, Fact::ToolUndispatched { .. })).count();
    assert_eq!((judged, taken_back), (2, 1));
    let Some(Fact::RunFinished { totals, .. }) = facts.last() else { panic!("{facts:?}") };
    assert_eq!(totals.calls, 1);
}

#[tokio::test]
async fn a_call_that_is_approved_and_cancelled_in_one_round_is_cancelled_and_not_in_doubt() {
    let (store, paid, thread) = (store(), Counter::default(), ThreadId::from("t"));
    let tools = registry([paid.tool("pay", EffectClass::Once)]);
    let engine = asking(&store, &plan(&[&[("pay", "a")]]), tools).build().await.unwrap();
    let waits = engine.run_task(task_in("t", "go")).await.unwrap();
    put_down(&engine, &thread).await;
    let approves = vec![given(&open(&waits)[0], Answer::Approve)];
    engine.thread(&thread).leave_answers(approves, party("ann")).await.unwrap();
    let cancel = Input::Cancel { run: None, by: "ann".into() };
    store.post(&thread, &"cancel".into(), &cancel).await.unwrap();
    engine.run(&waits.run).resume().await.unwrap();
    let ended = engine.run(&waits.run).wait().await.unwrap();
    let facts = facts(&engine, &thread).await;
    let Some(Fact::RunFinished { totals, .. }) = facts.last() else { panic!("{ended:?}") };
    assert_eq!((paid.count(), totals.calls, totals.approved), (0, 0, 0));
    assert!(!facts.iter().any(|fact| matches!(fact, Fact::ToolInDoubt { .. })), "{facts:#?}");
    let closed = facts.iter().filter_map(|fact| match fact {
        Fact::ToolFinished { outcome, .. } => Some(*outcome),
        _ => None,
    });
    assert_eq!(closed.collect::<Vec<_>>(), [Outcome::Cancelled]);
}

#[tokio::test]
async fn a_preview_is_made_only_by_the_tool_that_was_judged() {
    let (older, newer, looks) = (Counter::default(), Counter::default(), Counter::default());
    let mut shop = Shop::new(&older, &newer);
    let known = Arc::get_mut(&mut shop).unwrap();
    let previewing = older
        .tool("pay", EffectClass::Once)
        .preview(|_: CallContext, text: Text| async move { Ok(format!("pays {}", text.text)) });
    *known.tools.get_mut().unwrap() = Arc::new([Arc::new(previewing) as Arc<dyn Tool>]);
    let count = looks.clone();
    let tool = FunctionTool::new("pay", "pays", |_: CallContext, newer: Newer| async move {
        format!("paid {}", newer.text)
    });
    known.newer = Arc::new(tool.preview(move |_: CallContext, newer: Newer| {
        count.0.fetch_add(1, Ordering::SeqCst);
        async move { Ok(format!("pays {}{}", newer.text, newer.to)) }
    }));
    let engine = engine(&shop).build().await.unwrap();
    // The second append contains the reply and its verdict.
    shop.changes_in.store(2, Ordering::SeqCst);
    let waits = engine.run_task(task("go")).await.unwrap();
    assert_eq!(waits.interrupts[0].preview.as_deref(), Some("pays a"));
    let recorded = facts(&engine, &waits.thread).await;
    let judged = recorded.iter().filter(|fact| matches!(fact, Fact::CallJudged { .. })).count();
    assert_eq!((judged, looks.count()), (2, 1), "{recorded:#?}");
}
