//! The script in a model's name, and the model's reply at each turn of a conversation.
//!
//! No state is kept between requests: the same conversation always gets the same reply. A run that was killed and
//! resumed can therefore be compared with one that was not.

use std::borrow::Cow;
use std::time::Duration;

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

/// Number of tokens in the text that ends a script with tool calls.
const LAST_TEXT_TOKENS: usize = 50;

/// Interval in turns at which the script with files writes a new file instead of a line of the log.
const FILE_EVERY_TURNS: u64 = 3;

/// A section of the Markdown text. `№` is replaced by its number.
const SECTION: &str = "## Part №\n\nSome words about `thing_№`, with **weight** and a [link](https://example.com/№), \
    long enough for a paragraph that breaks over several lines of the window, as answers of models usually do.\n\n\
    - first of №\n- second of №\n- third, with `code`\n\n\
    | name | value |\n|---|---|\n| a | № |\n| b | 2 |\n\n\
    ```rust\nfn part_№() -> usize {\n    let value = №;\n    value + 1\n}\n```\n\n";

/// Number of characters per token of the Markdown text.
const MARKDOWN_TOKEN: usize = 6;

/// Prefix of a message with which a client states the time after the results. The script ignores it.
const TELLS_TIME: &str = "Current date and time: ";

/// Maximum number of bytes of JSON before the prefix: `[{"type":"input_text","text":"`.
const BEFORE_TEXT_BYTES: usize = 32;

/// The behaviour of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Script {
    /// The kind of replies.
    pub kind: Kind,
    /// Delay before each token of text and each fragment of a call's arguments.
    pub token_delay: Duration,
    /// Delay before the first output.
    pub first_delay: Duration,
}

/// The kind of a script's replies.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// One text of this many tokens.
    Text(usize),
    /// One text of this many tokens that uses every construct of Markdown.
    Markdown(usize),
    /// A number of turns, all of which except the last call a tool.
    Loop {
        /// Number of turns, including the last, which has the text.
        turns: u64,
        /// Number of calls in each turn.
        calls: u64,
    },
    /// Number of turns; each except the last writes files.
    Files(u64),
}

/// The parts of a request that the script uses, independent of the wire.
#[derive(Debug, Default)]
pub struct Ask<'a> {
    /// The model's name.
    pub model: Cow<'a, str>,
    /// Whether the reply is a stream of events.
    pub is_streamed: bool,
    /// Whether the stream reports usage, on a wire where that is optional.
    pub wants_usage: bool,
    /// The progress after the last message of the user.
    pub progress: Progress,
    /// The tools, in the order offered.
    pub tools: Vec<Tool<'a>>,
}

/// A tool that the request offers.
#[derive(Debug)]
pub struct Tool<'a> {
    /// The tool's name.
    pub name: Cow<'a, str>,
    /// The JSON schema of the tool's arguments.
    pub schema: Option<&'a RawValue>,
}

/// The progress of a script.
#[derive(Debug, Default, PartialEq)]
pub struct Progress {
    /// Number of tool results after the last message of the user.
    pub results: u64,
    /// The latest turn named by the ids of those results. The value stays correct if a client drops
    /// old results because of its window.
    pub latest_turn: Option<u64>,
    /// Mark that distinguishes the user's messages, so that ids differ between the runs of a thread.
    pub user_mark: u32,
}

/// The model's reply.
#[derive(Debug, PartialEq)]
pub enum Reply {
    /// A text.
    Text(Text),
    /// Calls of tools.
    Calls(Vec<Call>),
}

/// A text, by its number of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Text {
    /// Number of tokens.
    pub tokens: usize,
    /// The style of each token.
    pub style: Style,
}

/// The kind of a text's tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Style {
    /// Numbered words.
    Counted,
    /// The word `done`, then numbered words.
    Done,
    /// Pieces of sections in Markdown.
    Markdown,
}

/// One call of a tool.
#[derive(Debug, PartialEq)]
pub struct Call {
    /// The call's id: `call_{turn}_{index}_{mark}`, with the turn and the index in the turn.
    pub id: String,
    /// The tool.
    pub name: String,
    /// The arguments, as JSON text.
    pub arguments: String,
}

impl Script {
    /// Parses a model's name. Segments are joined with `-`; a prefix before `/` is ignored.
    pub fn parse(model: &str) -> Script {
        let name = model.rsplit('/').next().unwrap_or(model);
        let (mut number, mut calls, mut shape) = (None, 1, "");
        let (mut token_delay, mut first_delay) = (Duration::ZERO, Duration::ZERO);
        for segment in name.split('-') {
            if let Some(delay) = microseconds(segment, "delay").or(milliseconds(segment, "delay")) {
                token_delay = delay;
            } else if let Some(delay) = milliseconds(segment, "ttft") {
                first_delay = delay;
            } else if let Some(count) = segment.strip_prefix("par").and_then(|count| count.parse().ok()) {
                calls = std::cmp::max(count, 1);
            } else if let Ok(count) = segment.parse::<u64>() {
                number = Some(count);
            } else if matches!(segment, "loop" | "files" | "markdown") {
                shape = segment;
            }
        }
        let kind = match shape {
            "loop" => Kind::Loop { turns: number.unwrap_or(1), calls },
            "files" => Kind::Files(number.unwrap_or(1)),
            "markdown" => Kind::Markdown(number.map_or(LAST_TEXT_TOKENS, |count| count as usize)),
            _ => Kind::Text(number.map_or(LAST_TEXT_TOKENS, |count| count as usize)),
        };
        Script { kind, token_delay, first_delay }
    }

    /// Returns the model's reply to this request.
    pub fn reply(&self, ask: &Ask<'_>) -> Reply {
        let last_text = |style| Reply::Text(Text { tokens: LAST_TEXT_TOKENS, style });
        match self.kind {
            Kind::Text(tokens) => Reply::Text(Text { tokens, style: Style::Counted }),
            Kind::Markdown(tokens) => Reply::Text(Text { tokens, style: Style::Markdown }),
            Kind::Loop { turns, calls } => {
                let turn = ask.progress.turn(calls);
                // Use the benchmark's own tool, or a tool that every agent with a folder
                // has, or the first tool offered.
                let named = |name: &str| ask.tools.iter().find(|tool| tool.name == name);
                let tool = named("echo").or_else(|| named("Edit")).or(ask.tools.first());
                match tool {
                    Some(tool) if turn + 1 < turns => Reply::Calls(loop_calls(ask, tool, turn, calls)),
                    _ => last_text(Style::Counted),
                }
            }
            Kind::Files(turns) => {
                let turn = ask.progress.turn(1);
                if turn + 1 < turns {
                    Reply::Calls(vec![file_call(ask, turn)])
                } else {
                    last_text(Style::Done)
                }
            }
        }
    }
}

impl Progress {
    /// Returns the next turn, counted from 0, if each turn makes this many calls.
    fn turn(&self, calls: u64) -> u64 {
        self.latest_turn.map_or(0, |turn| turn + 1).max(self.results / calls)
    }

    /// Records a tool result by the id of its call.
    pub fn add_result(&mut self, call_id: &str) {
        self.results += 1;
        let turn = call_id.strip_prefix("call_").and_then(|rest| rest.split('_').next()?.parse().ok());
        self.latest_turn = self.latest_turn.max(turn);
    }

    /// Restarts the script at a user message, given as the JSON of its content.
    pub fn add_user_message(&mut self, content: &str) {
        if content.find(TELLS_TIME).is_some_and(|at| at <= BEFORE_TEXT_BYTES) {
            return;
        }
        let mark = content.bytes().chain([0]).fold(self.user_mark ^ 0x811c_9dc5, |hash, byte| {
            // FNV-1a: small and equal in every build, unlike the standard hasher.
            (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
        });
        *self = Progress { user_mark: mark, ..Progress::default() };
    }
}

impl Text {
    /// Returns the token at this index.
    pub fn token(&self, index: usize) -> String {
        match self.style {
            Style::Done if index == 0 => "done".to_owned(),
            Style::Counted | Style::Done => format!(" tok{index:04}"),
            Style::Markdown => {
                let pieces = SECTION.chars().count().div_ceil(MARKDOWN_TOKEN);
                let (section, piece) = (index / pieces, index % pieces);
                let piece: String =
                    SECTION.chars().skip(piece * MARKDOWN_TOKEN).take(MARKDOWN_TOKEN).collect();
                piece.replace('№', &section.to_string())
            }
        }
    }

    /// Returns the whole text.
    pub fn whole(&self) -> String {
        (0..self.tokens).map(|index| self.token(index)).collect()
    }
}

impl Reply {
    /// Returns the number of tokens in the reported usage.
    pub fn tokens(&self) -> usize {
        match self {
            Reply::Text(text) => text.tokens,
            Reply::Calls(calls) => 10 * calls.len(),
        }
    }
}

fn microseconds(segment: &str, name: &str) -> Option<Duration> {
    segment.strip_prefix(name)?.strip_suffix("us")?.parse().ok().map(Duration::from_micros)
}

fn milliseconds(segment: &str, name: &str) -> Option<Duration> {
    segment.strip_prefix(name)?.strip_suffix("ms")?.parse().ok().map(Duration::from_millis)
}

fn call_id(ask: &Ask<'_>, turn: u64, index: u64) -> String {
    format!("call_{turn}_{index}_{:08x}", ask.progress.user_mark)
}

fn loop_calls(ask: &Ask<'_>, tool: &Tool<'_>, turn: u64, calls: u64) -> Vec<Call> {
    let call = |index| Call {
        id: call_id(ask, turn, index),
        name: tool.name.clone().into_owned(),
        arguments: arguments_for(tool.schema, turn),
    };
    (0..calls).map(call).collect()
}

/// Returns minimal arguments that satisfy the required properties of a schema.
fn arguments_for(schema: Option<&RawValue>, turn: u64) -> String {
    let schema: Value = schema.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
    let mut arguments = Map::new();
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        let property = &schema["properties"][name];
        let value = match (property["enum"].get(0), property["type"].as_str()) {
            (Some(first), _) => first.clone(),
            (None, Some("integer" | "number")) => json!(turn),
            (None, Some("boolean")) => json!(true),
            (None, Some("array")) => json!([]),
            (None, Some("object")) => json!({}),
            (None, _) => json!(format!("ping-{turn}")),
        };
        arguments.insert(name.to_owned(), value);
    }
    Value::Object(arguments).to_string()
}

/// Returns a call that writes a file. Turn 0 starts the log; each later turn adds a line to the log or writes a new
/// file. A test can count all of these writes.
fn file_call(ask: &Ask<'_>, turn: u64) -> Call {
    let (name, arguments) = if turn == 0 {
        ("Write", json!({"file_path": "log.txt", "content": "END\n"}))
    } else if turn.is_multiple_of(FILE_EVERY_TURNS) {
        ("Write", json!({"file_path": format!("out-{turn}.txt"), "content": turn.to_string()}))
    } else {
        let line = format!("line {turn}\nEND");
        ("Edit", json!({"file_path": "log.txt", "old_string": "END", "new_string": line}))
    };
    Call { id: call_id(ask, turn, 0), name: name.to_owned(), arguments: arguments.to_string() }
}
