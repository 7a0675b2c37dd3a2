//! A model that says what a test tells it to: a server on the chat wire, which plays one list of replies to everybody.
//!
//! It remembers nothing: which reply comes next is told by the replies that stand in the request.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;

use serde_json::{Value, json};

use super::{Said, User};

/// A server that runs until the test's process ends.
pub struct Model {
    url: String,
}

/// What the model says at one turn.
pub enum Turn {
    Say(&'static str),
    /// Calls of tools, by name, with their arguments.
    Call(Vec<(&'static str, Value)>),
}

impl Model {
    pub fn start(turns: Vec<Turn>) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let turns = Arc::new(turns);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let turns = turns.clone();
                // A client that was killed ends its connection with an error.
                std::thread::spawn(move || serve(&stream, &turns).ok());
            }
        });
        Self { url }
    }

    /// A command that asks this model.
    pub fn command(&self, user: &User, arguments: &[&str]) -> Command {
        let mut command = user.command(arguments);
        command.env("WINDLASS_MODEL", "openai-compatible/scripted").env("WINDLASS_BASE_URL", &self.url);
        command
    }

    pub fn run(&self, user: &User, arguments: &[&str]) -> Said {
        super::said(self.command(user, arguments).output().unwrap())
    }
}

fn serve(stream: &TcpStream, turns: &[Turn]) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if line == "\r\n" {
                break;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let request: Value = serde_json::from_slice(&body).unwrap();
        let messages = request["messages"].as_array().unwrap();
        let turn = messages.iter().filter(|message| message["role"] == "assistant").count();
        let frames = frames(turns.get(turn).unwrap_or(&Turn::Say("Done.")), turn);
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n";
        let mut out = stream;
        out.write_all(format!("{head}content-length: {}\r\n\r\n{frames}", frames.len()).as_bytes())?;
    }
}

fn frames(turn: &Turn, number: usize) -> String {
    let (delta, reason) = match turn {
        Turn::Say(text) => (json!({ "role": "assistant", "content": text }), "stop"),
        Turn::Call(calls) => {
            let call = |(index, (name, arguments)): (usize, &(&str, Value))| {
                let function = json!({ "name": name, "arguments": arguments.to_string() });
                let id = format!("call_{number}_{index}");
                json!({ "index": index, "id": id, "type": "function", "function": function })
            };
            let calls: Vec<Value> = calls.iter().enumerate().map(call).collect();
            (json!({ "role": "assistant", "tool_calls": calls }), "tool_calls")
        }
    };
    let chunk = |choice: Value, usage: Value| {
        let chunk = json!({ "id": "c", "object": "chat.completion.chunk", "created": 1, "model": "scripted",
            "choices": [choice], "usage": usage });
        format!("data: {chunk}\n\n")
    };
    let first = chunk(json!({ "index": 0, "delta": delta, "finish_reason": null }), Value::Null);
    let usage = json!({ "prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15 });
    let last = chunk(json!({ "index": 0, "delta": {}, "finish_reason": reason }), usage);
    format!("{first}{last}data: [DONE]\n\n")
}
