//! Watchers that disconnect and reconnect: in the middle of a reply, too late for its fragments, or too slow for them.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use proptest::prelude::*;
use windlass::bus::LocalBus;
use windlass::machine::{Attempt, EffectClass, Fact, Principal, Seq, ThreadId, WhenBusy};
use windlass::port::bus::{Bus, Signal};
use windlass::port::journal::{StoreError, ThreadStatus};
use windlass::port::model::Delta;
use windlass::testing::scripted::{Line, ScriptedModels, results};
use windlass::{Backlog, Position, Task, Update};

use super::{Counter, memory, registry, task};

type Updates = BoxStream<'static, Result<Update, StoreError>>;

/// The state that a client builds from the updates, across reconnects.
#[derive(Default)]
struct Client {
    position: Position,
    events: u64,
    /// The blocks of the running reply.
    reply: BTreeMap<u32, String>,
    snapshots: u64,
}

impl Client {
    fn take(&mut self, update: &Update) {
        let before = self.position;
        self.position.advance(update);
        let is_placed =
            !matches!(update, Update::Status(_) | Update::Progress { .. } | Update::Stopped { .. });
        assert_eq!(self.position > before, is_placed, "each update has its own position: {update:?}");
        match update {
            Update::Event(recorded) => {
                self.events += 1;
                assert_eq!(recorded.seq.0, self.events, "each event once, in order");
                match &recorded.event.fact {
                    Fact::StepStarted { .. } => self.reply.clear(),
                    Fact::StepReplied { message, .. } => {
                        let said: String = self.reply.values().map(String::as_str).collect();
                        let recorded = message.plain_text();
                        // The client has the beginning of a reply that ended meanwhile; a long reply is offloaded.
                        assert!(
                            recorded.is_empty() || recorded.starts_with(&said),
                            "{said:?} of {message:?}"
                        );
                    }
                    _ => {}
                }
            }
            Update::Delta { number, delta, .. } => {
                assert_eq!((before.delta + 1, self.position.seq), (*number, before.seq));
                self.put(delta);
            }
            Update::Snapshot { parts, .. } => {
                self.snapshots += 1;
                self.reply.clear();
                parts.iter().for_each(|part| self.put(part));
            }
            Update::Status(_) | Update::Progress { .. } | Update::Stopped { .. } => {}
        }
    }

    fn put(&mut self, delta: &Delta) {
        let Delta::Text { part, text } = delta else { panic!("the script has no {delta:?}") };
        self.reply.entry(*part).or_default().push_str(text);
    }

    async fn read(&mut self, updates: &mut Updates, until: impl Fn(&Self) -> bool) {
        while !until(self) {
            let update = updates.next().await.unwrap().unwrap();
            self.take(&update);
        }
    }
}

#[tokio::test]
async fn a_watcher_resumes_in_the_middle_of_a_reply() {
    let models = ScriptedModels::new(|_| Line::Hang("one two three four ".into()));
    let engine = memory(&models, windlass::registry()).build().await.unwrap();
    let started = engine.start(task("go")).await.unwrap();
    let mut client = Client::default();
    let mut updates = engine.thread(&started.thread).watch(Seq(0));
    client.read(&mut updates, |client| client.position.delta == 2).await;
    // Another event is recorded during the reply.
    let other = Task { thread: Some(started.thread.clone()), ..task("later") };
    engine.start(Task { when_busy: WhenBusy::Queue, ..other }).await.unwrap();
    let mut updates = engine.thread(&started.thread).watch_from(client.position, Backlog::Fragments);
    client.read(&mut updates, |client| client.position.delta == 4).await;
    // Reconnects after the event in the middle: the fragments before it are not repeated.
    let mut again = engine.thread(&started.thread).watch_from(client.position, Backlog::Fragments);
    engine.run(&started.run).cancel(Principal::from("ann")).await.unwrap();
    client.read(&mut again, |client| client.position.delta == 0).await;
    assert_eq!(client.reply, BTreeMap::from([(0, "one two three four ".to_owned())]));
    assert_eq!(client.snapshots, 0);
}

#[tokio::test]
async fn a_watcher_that_comes_too_late_for_the_fragments_is_given_the_reply_so_far() {
    // More than the bus keeps individually.
    const FRAGMENTS: u64 = 300;
    let models =
        ScriptedModels::new(|_| Line::Hang(format!("{} ", "x".repeat(1_000)).repeat(FRAGMENTS as usize)));
    let engine = memory(&models, windlass::registry()).build().await.unwrap();
    let started = engine.start(task("go")).await.unwrap();
    let (mut first, mut late) = (Client::default(), Client::default());
    let mut updates = engine.thread(&started.thread).watch(Seq(0));
    first.read(&mut updates, |client| client.position.delta == FRAGMENTS).await;
    let mut updates = engine.thread(&started.thread).watch(Seq(0));
    late.read(&mut updates, |client| client.position.delta == FRAGMENTS).await;
    assert_eq!((late.snapshots, &late.reply), (1, &first.reply));
    // A client with the newest fragments receives nothing twice.
    let mut again = engine.thread(&started.thread).watch_from(late.position, Backlog::Fragments);
    engine.run(&started.run).cancel(Principal::from("ann")).await.unwrap();
    late.read(&mut again, |client| client.position.delta == 0).await;
    assert_eq!(late.snapshots, 1);
}

#[test]
fn positions_are_read_as_they_are_written() {
    let position = |seq, delta| Position { seq: Seq(seq), delta };
    for (text, wanted) in [("7", position(7, 0)), ("7.3", position(7, 3)), ("0.0", Position::default())] {
        assert_eq!(text.parse(), Ok(wanted));
        assert_eq!(wanted.to_string().parse(), Ok(wanted));
    }
    for text in ["", ".", "7.", ".3", "-1", "7.3.1", "+7", "7 ", "99999999999999999999"] {
        let error = text.parse::<Position>().unwrap_err();
        assert!(error.to_string().starts_with(&format!("`{text}` is no position")), "{error}");
    }
}

/// The client's next action.
#[derive(Clone, Debug)]
enum Move {
    /// The model emits this many fragments of this many bytes.
    Say(u16, u16),
    /// The client reads at most this many signals.
    Read(u16),
    /// The client disconnects, forgets this many of the last fragments, and reconnects.
    Cut(u16),
    /// The attempt is void, and the next one begins.
    Void,
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let one = prop_oneof![
        4 => (1..400_u16, 0..300_u16).prop_map(|(count, bytes)| Move::Say(count, bytes)),
        4 => (0..300_u16).prop_map(Move::Read),
        2 => (0..400_u16).prop_map(Move::Cut),
        1 => Just(Move::Void),
    ];
    prop::collection::vec(one, 1..60)
}

/// A streaming model, and the text that it has emitted.
struct Talk {
    bus: LocalBus,
    thread: ThreadId,
    generation: u64,
    said: Vec<String>,
}

impl Talk {
    fn say(&mut self, bytes: u16) {
        let number = self.said.len() as u64 + 1;
        let text = format!("{number}:{} ", "x".repeat(usize::from(bytes)));
        let delta = Delta::Text { part: (number % 3) as u32, text: text.as_str().into() };
        let attempt = Attempt { step: 1, attempt: self.generation as u32 };
        self.bus.publish(&self.thread, Signal::Delta { seq: Seq(self.generation), number, attempt, delta });
        self.said.push(text);
    }

    /// The blocks after this many fragments.
    fn blocks(&self, count: u64) -> BTreeMap<u32, String> {
        let mut blocks = BTreeMap::<u32, String>::new();
        for (number, text) in (1..=count).zip(&self.said) {
            blocks.entry((number % 3) as u32).or_default().push_str(text);
        }
        blocks
    }

    fn follow(&self, after: Position) -> BoxStream<'static, Arc<Signal>> {
        self.bus.follow(&self.thread, after, Backlog::Fragments)
    }
}

/// The client's part of the attempt that it follows.
#[derive(Default)]
struct Has {
    position: Position,
    blocks: BTreeMap<u32, String>,
}

impl Has {
    fn take(&mut self, talk: &Talk, signal: &Signal) {
        let (Signal::Delta { seq, number, .. } | Signal::Snapshot { seq, number, .. }) = signal else {
            return;
        };
        if *seq > self.position.seq {
            *self = Self { position: (*seq).into(), ..Self::default() };
        }
        assert_eq!(*seq, self.position.seq, "an older generation does not come back");
        assert!(*number > self.position.delta, "told twice: {signal:?}");
        match signal {
            Signal::Delta { delta: Delta::Text { part, text }, .. } => {
                assert_eq!(*number, self.position.delta + 1, "a hole before {number}");
                self.blocks.entry(*part).or_default().push_str(text);
            }
            Signal::Snapshot { parts, .. } => {
                let whole = parts.iter().map(|part| match part {
                    Delta::Text { part, text } => (*part, text.to_string()),
                    other => panic!("unexpected text {other:?}"),
                });
                self.blocks = whole.collect();
            }
            other => panic!("unexpected signal {other:?}"),
        }
        self.position.delta = *number;
        if seq.0 == talk.generation {
            assert_eq!(self.blocks, talk.blocks(*number));
        }
    }
}

fn play(moves: Vec<Move>) {
    let mut talk = Talk { bus: LocalBus::new(), thread: "t".into(), generation: 3, said: Vec::new() };
    let mut has = Has::default();
    let mut signals = talk.follow(has.position);
    let read = |talk: &Talk, has: &mut Has, signals: &mut BoxStream<'static, Arc<Signal>>, most: usize| {
        for _ in 0..most {
            let Some(Some(signal)) = signals.next().now_or_never() else { break };
            has.take(talk, &signal);
        }
    };
    for step in moves {
        match step {
            Move::Say(count, bytes) => (0..count).for_each(|_| talk.say(bytes)),
            Move::Read(count) => read(&talk, &mut has, &mut signals, count.into()),
            Move::Cut(back) => {
                // The client lost these fragments, so it is back at its earlier position.
                let delta = has.position.delta.saturating_sub(back.into());
                has.position.delta = delta;
                if has.position.seq.0 == talk.generation {
                    has.blocks = talk.blocks(delta);
                }
                signals = talk.follow(has.position);
            }
            Move::Void => {
                talk.bus.settle(&talk.thread);
                (talk.generation, talk.said) = (talk.generation + 4, Vec::new());
            }
        }
    }
    talk.say(1);
    read(&talk, &mut has, &mut signals, usize::MAX);
    let all = talk.said.len() as u64;
    assert_eq!(
        (has.position, has.blocks),
        (Position { seq: Seq(talk.generation), delta: all }, talk.blocks(all))
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]
    // rows: WT-X5
    #[test]
    fn whatever_is_dropped_and_wherever_it_comes_back_a_client_has_the_same_text(moves in moves()) {
        play(moves);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cut_off_again_and_again_a_watcher_sees_every_event_once_and_the_same_texts() {
    let models = ScriptedModels::new(|call| match results(call) {
        0..5 => Line::Call(
            "let me look at it once more ".repeat(40),
            vec![("note".into(), r#"{"text":"1"}"#.into())],
        ),
        _ => Line::Say("all is well ".repeat(40)),
    });
    let tools = registry([Counter::default().tool("note", EffectClass::Pure)]);
    let engine = memory(&models, tools).build().await.unwrap();
    for cut_after in [1, 2, 3, 7, 40] {
        let thread = ThreadId::from(format!("t{cut_after}"));
        let mut client = Client::default();
        let mut updates = engine.thread(&thread).watch(Seq(0));
        engine.start(Task { thread: Some(thread.clone()), ..task("go") }).await.unwrap();
        let mut is_idle = false;
        while !(is_idle && client.position.seq.0 > 1) {
            for _ in 0..cut_after {
                let update = updates.next().await.unwrap().unwrap();
                client.take(&update);
                is_idle = matches!(update, Update::Status(ThreadStatus::Idle));
                if is_idle {
                    break;
                }
            }
            if !is_idle {
                updates = engine.thread(&thread).watch_from(client.position, Backlog::Fragments);
            }
        }
        assert_eq!(client.events, engine.thread(&thread).events(Seq(0), 1000).await.unwrap().len() as u64);
    }
}
