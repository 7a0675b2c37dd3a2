//! Offloaded results: the summary for the model, reading the rest, and who may read it.

use std::sync::Arc;

use windlass::machine::{EffectClass, Fact, Offload, Outcome, Role, RunOptions, Seq};
use windlass::port::offload::SummaryOf;
use windlass::port::tool::{CallContext, ToolOutput};
use windlass::testing::scripted::{Line, ScriptedModels, results};
use windlass::tool::builtin::fetch_data;
use windlass::tool::{FunctionTool, Registry};
use windlass::{Builder, Engine, Task};

use super::{Text, registry, stored, task};

/// A tool that returns this many bytes; `error` before the number makes it an error.
fn tools() -> Registry {
    let tool = FunctionTool::new("list", "lists", |_: CallContext, text: Text| async move {
        let (error, size) = match text.text.strip_prefix("error ") {
            Some(size) => (true, size),
            None => (false, text.text.as_str()),
        };
        let text = "x".repeat(size.parse().unwrap());
        ToolOutput { error, ..ToolOutput::text(text) }
    });
    registry([tool.effect_class(EffectClass::Pure)]).add(Arc::new(fetch_data())).unwrap()
}

/// A model that lists, fetches the result named in the summary, and reports the size of each result it read.
fn models(size: &'static str) -> ScriptedModels {
    ScriptedModels::new(move |call| {
        let seen = crate::gate::told(call);
        match results(call) {
            0 => Line::tool("list", &format!(r#"{{"text":"{size}"}}"#)),
            1 => match seen.split_once("ref=\"") {
                Some((_, rest)) => {
                    let reference = rest.split('"').next().unwrap();
                    Line::tool("FetchData", &format!(r#"{{"ref":"{reference}"}}"#))
                }
                None => Line::Say(format!("saw {}", seen.len())),
            },
            _ => Line::Say(format!("fetched {}", seen.len())),
        }
    })
}

const SMALL: Offload = Offload { enabled: true, threshold_bytes: 100, max_preview_chars: 10 };

async fn said(change: impl FnOnce(Builder) -> Builder, options: RunOptions, size: &'static str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let engine = change(stored(folder.path(), &models(size), tools())).build().await.unwrap();
    engine.run_task(Task { options, ..task("go") }).await.unwrap().text.unwrap()
}

fn wants(offload: Offload) -> RunOptions {
    RunOptions { offload: Some(offload), ..RunOptions::default() }
}

// rows: LM-O1, LM-O4, LM-O5
#[tokio::test]
async fn a_result_over_the_threshold_is_summed_up_and_fetched() {
    let plain = RunOptions::default;
    assert_eq!(said(|it| it, plain(), "5000").await, "saw 5000", "off by default");
    assert_eq!(said(|it| it.offload(SMALL), plain(), "101").await, "fetched 101");
    assert_eq!(
        said(|it| it.offload(SMALL), plain(), "100").await,
        "saw 100",
        "as long as that is not longer"
    );
    // A run may override the setting, in both directions.
    let off = Offload { enabled: false, ..SMALL };
    assert_eq!(said(|it| it.offload(SMALL), wants(off), "101").await, "saw 101");
    assert_eq!(said(|it| it, wants(SMALL), "101").await, "fetched 101");
    let usual = Offload::default();
    assert_eq!((usual.threshold_bytes, usual.max_preview_chars), (2_048, 500));
    assert_eq!(
        said(|it| it.offload(SMALL), plain(), "error 5000").await,
        "saw 5000",
        "an error is read whole"
    );
    // A fetched result exceeds the threshold and is returned whole.
    assert_eq!(said(|it| it.offload(SMALL), plain(), "15000").await, "fetched 15000");
}

// rows: CF-3
#[tokio::test]
async fn a_result_is_summed_up_whole_before_it_would_be_cut() {
    const SIZE: u64 = 150_000;
    let cut = said(|it| it, RunOptions::default(), "150000").await;
    let cut: u64 = cut.strip_prefix("saw ").unwrap().parse().unwrap();
    assert!(cut < SIZE, "without offload it is cut: {cut}");
    let folder = tempfile::tempdir().unwrap();
    let engine = stored(folder.path(), &models("150000"), tools()).offload(SMALL).build().await.unwrap();
    let outcome = engine.run_task(task("go")).await.unwrap();
    let events = engine.thread(&outcome.thread).events(Seq(0), 1_000).await.unwrap();
    let (payload, summary) = events
        .iter()
        .find_map(|it| match &it.event.fact {
            Fact::ResultOffloaded { payload, summary, .. } => Some((payload, summary)),
            _ => None,
        })
        .unwrap();
    assert_eq!(payload.size_bytes, SIZE, "what is kept to be fetched is all of it");
    assert_eq!(engine.blob(&payload.digest).await.unwrap().len() as u64, SIZE);
    assert!(engine.text(summary).await.unwrap().contains("FetchData with ref="));
}

// rows: LM-O2, LM-O5
#[tokio::test]
async fn what_was_summed_up_is_there_after_a_restart_and_in_its_own_thread_alone() {
    let folder = tempfile::tempdir().unwrap();
    let models = ScriptedModels::new(|call| {
        let asked = call.request.messages.iter().rev().find(|message| message.role == Role::User);
        let asked = asked.map(|message| message.plain_text()).unwrap_or_default();
        let is_new = call.request.messages.last().is_some_and(|last| last.role == Role::User);
        match (is_new, asked.as_str()) {
            (true, "list") => Line::tool("list", r#"{"text":"9000"}"#),
            (true, reference) => Line::tool("FetchData", &format!(r#"{{"ref":"{reference}","limit":1}}"#)),
            (false, _) => Line::Say(crate::gate::told(call)),
        }
    });
    let built = async || {
        let engine = stored(folder.path(), &models, tools()).offload(SMALL);
        engine.build().await.unwrap()
    };
    let ask = async |engine: &Engine, thread: &str, text: &str| {
        engine.run_task(Task { thread: Some(thread.into()), ..task(text) }).await.unwrap().text.unwrap()
    };
    let engine = built().await;
    let summary = ask(&engine, "t", "list").await;
    assert!(summary.starts_with(
        "[list] Text of 1 lines (8.8 KB).\nPreview: xxxxxxxxxx…\nUse FetchData with ref=\"res_"
    ));
    let reference = summary.split('"').nth(1).unwrap().to_owned();
    // The journal has the whole result.
    let events = engine.thread(&"t".into()).events(Seq(0), 1_000).await.unwrap();
    let whole = events.iter().find_map(|it| match &it.event.fact {
        Fact::ResultOffloaded { payload, .. } => Some(payload.size_bytes),
        _ => None,
    });
    assert_eq!(whole, Some(9_000));
    let finished = events.iter().any(|it| {
        matches!(&it.event.fact, Fact::ToolFinished { outcome: Outcome::Returned, error: false, .. })
    });
    assert!(finished);
    drop(engine);
    let engine = built().await;
    assert_eq!(ask(&engine, "t", &reference).await, "x".repeat(9_000));
    let foreign = format!("there is no result `{reference}` in this conversation");
    assert_eq!(ask(&engine, "other", &reference).await, foreign);
}

// rows: LM-O6
#[tokio::test]
async fn a_program_sums_up_in_its_own_words_where_they_name_the_reference() {
    let summed = async |words: fn(&SummaryOf<'_>) -> String| {
        let folder = tempfile::tempdir().unwrap();
        let script = ScriptedModels::new(|call| match results(call) {
            0 => Line::tool("list", r#"{"text":"200"}"#),
            _ => Line::Say(crate::gate::told(call)),
        });
        let built = stored(folder.path(), &script, tools()).offload(SMALL).summarizer(Arc::new(words));
        built.build().await.unwrap().run_task(task("go")).await.unwrap().text.unwrap()
    };
    let own = summed(|of| {
        let SummaryOf { tool, arguments, text, reference, fetcher, max_preview_chars } = *of;
        format!("{tool} {arguments} {} {max_preview_chars} {fetcher} {}", text.len(), &reference[..4])
            + &reference[4..]
    });
    let own = own.await;
    assert!(own.starts_with("list {\"text\":\"200\"} 200 10 FetchData res_"), "{own}");
    // A summary without a reference, and a summarizer that panics, are ignored.
    for words in [|_: &SummaryOf<'_>| "no reference".to_owned(), |_: &SummaryOf<'_>| panic!("no words")] {
        assert!(summed(words).await.starts_with("[list] Text of 1 lines (200 B)."));
    }
}
