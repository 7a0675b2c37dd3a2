//! A scripted model: a server for the chat-completions API that plays one list of replies to every client.
//!
//! It is stateless: the number of replies in the request selects the next one.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Said, User};

/// A server that runs until the test's process ends.
pub struct Model {
    url: String,
    heard: Arc<Mutex<Vec<Heard>>>,
}

/// A received request.
#[derive(Clone, Debug)]
pub struct Heard {
    /// The header `authorization`; empty if it is missing.
    pub authorization: String,
    pub body: Value,
}

/// The model's reply in one step.
pub enum Turn {
    Say(&'static str),
    /// Tool calls, by name, with their arguments.
    Call(Vec<(&'static str, Value)>),
    /// Deltas in the wire format with a fixed interval. A late client receives the overdue ones at once.
    Slowly(Duration, Vec<Value>),
    /// Deltas, the last of which is sent after the test releases it.
    Held(Arc<OnceLock<()>>, Vec<Value>),
    /// A non-retryable error with this message.
    Refuse(&'static str),
}

impl Turn {
    /// Streams a text in chunks of `characters` characters.
    pub fn spoken(apart: Duration, text: &str, characters: usize) -> Self {
        let all: Vec<char> = text.chars().collect();
        let said = all.chunks(characters).map(|some| json!({ "content": String::from_iter(some) }));
        Self::Slowly(apart, said.collect())
    }
}

impl Model {
    pub fn start(turns: Vec<Turn>) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let (turns, heard) = (Arc::new(turns), Arc::<Mutex<Vec<Heard>>>::default());
        let hears = heard.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (turns, hears) = (turns.clone(), hears.clone());
                // A killed client closes its connection with an error.
                std::thread::spawn(move || serve(&stream, &turns, &hears).ok());
            }
        });
        Self { url, heard }
    }

    /// The received requests for steps. Requests for titles have no tools and are excluded.
    pub fn steps(&self) -> Vec<Heard> {
        let heard = self.heard.lock().unwrap();
        heard.iter().filter(|heard| heard.body["tools"].is_array()).cloned().collect()
    }

    /// The API keys of all requests, in lower case.
    pub fn keys(&self) -> Vec<String> {
        let heard = self.heard.lock().unwrap();
        let key = |heard: &Heard| {
            heard.authorization.to_ascii_lowercase().strip_prefix("bearer ").map(str::to_owned)
        };
        heard.iter().filter_map(key).collect()
    }

    /// The base URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// A command that uses this model.
    pub fn command(&self, user: &User, arguments: &[&str]) -> Command {
        let mut command = user.command(arguments);
        command.env("WINDLASS_MODEL", "openai-compatible/scripted").env("WINDLASS_BASE_URL", &self.url);
        command
    }

    pub fn run(&self, user: &User, arguments: &[&str]) -> Said {
        super::said(self.command(user, arguments).output().unwrap())
    }
}

fn serve(stream: &TcpStream, turns: &[Turn], heard: &Mutex<Vec<Heard>>) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let (mut length, mut authorization) = (0, String::new());
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("authorization")
            {
                authorization = value.trim().to_owned();
            }
            if line == "\r\n" {
                break;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let request: Value = serde_json::from_slice(&body).unwrap();
        heard.lock().unwrap().push(Heard { authorization, body: request.clone() });
        let messages = request["messages"].as_array().unwrap();
        let turn = messages.iter().filter(|message| message["role"] == "assistant").count();
        let turn_of = turns.get(turn).unwrap_or(&Turn::Say("Done."));
        let frames = frames(turn_of, turn);
        let length: usize = frames.all.iter().map(String::len).sum();
        let head = match turn_of {
            Turn::Refuse(_) => "HTTP/1.1 401 Unauthorized\r\ncontent-type: application/json\r\n",
            Turn::Say(_) | Turn::Call(_) | Turn::Slowly(..) | Turn::Held(..) => {
                "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
            }
        };
        let mut out = stream;
        out.write_all(format!("{head}content-length: {length}\r\n\r\n").as_bytes())?;
        frames.play(&mut out)?;
    }
}

/// A reply as frames of the wire format.
struct Frames<'a> {
    apart: Duration,
    /// The release that the end waits for: the last delta and the two frames after it.
    held: Option<&'a OnceLock<()>>,
    all: Vec<String>,
}

impl Frames<'_> {
    // Timing toward another process needs the real clock.
    #[allow(clippy::disallowed_methods)]
    fn play(&self, out: &mut impl Write) -> std::io::Result<()> {
        let begin = Instant::now();
        for (index, frame) in self.all.iter().enumerate() {
            let due = self.apart * u32::try_from(index).unwrap();
            std::thread::sleep(due.saturating_sub(begin.elapsed())); // tidy: sleep a model speaks slowly
            if let Some(held) = self.held.filter(|_| index + 3 == self.all.len()) {
                held.wait();
            }
            out.write_all(frame.as_bytes())?;
        }
        Ok(())
    }
}

fn frames(turn: &Turn, number: usize) -> Frames<'_> {
    let (mut apart, mut held) = (Duration::ZERO, None);
    let (deltas, reason) = match turn {
        Turn::Refuse(why) => {
            let error = json!({"error": {"message": why, "type": "requests", "code": "invalid_api_key"}});
            return Frames { apart, held, all: vec![error.to_string()] };
        }
        Turn::Say(text) => (vec![json!({ "role": "assistant", "content": text })], "stop"),
        Turn::Slowly(wait, deltas) => {
            apart = *wait;
            let calls = deltas.iter().any(|delta| delta.get("tool_calls").is_some());
            (deltas.clone(), if calls { "tool_calls" } else { "stop" })
        }
        Turn::Held(until, deltas) => {
            held = Some(until.as_ref());
            (deltas.clone(), "stop")
        }
        Turn::Call(calls) => {
            let call = |(index, (name, arguments)): (usize, &(&str, Value))| {
                let function = json!({ "name": name, "arguments": arguments.to_string() });
                let id = format!("call_{number}_{index}");
                json!({ "index": index, "id": id, "type": "function", "function": function })
            };
            let calls: Vec<Value> = calls.iter().enumerate().map(call).collect();
            (vec![json!({ "role": "assistant", "tool_calls": calls })], "tool_calls")
        }
    };
    let chunk = |choice: Value, usage: Value| {
        let chunk = json!({ "id": "c", "object": "chat.completion.chunk", "created": 1, "model": "scripted",
            "choices": [choice], "usage": usage });
        format!("data: {chunk}\n\n")
    };
    let mut all: Vec<String> = deltas
        .iter()
        .map(|delta| chunk(json!({ "index": 0, "delta": delta, "finish_reason": null }), Value::Null))
        .collect();
    let usage = json!({ "prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15 });
    all.push(chunk(json!({ "index": 0, "delta": {}, "finish_reason": reason }), usage));
    all.push("data: [DONE]\n\n".to_owned());
    Frames { apart, held, all }
}
