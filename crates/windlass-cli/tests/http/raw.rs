//! Raw bytes on a socket, for hostile and broken clients, and servers with a readable log and memory usage.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use super::Server;
use crate::cli::User;

/// Longer than any response of a server in these tests.
const PATIENCE: Duration = Duration::from_secs(30);

/// A server that logs to a file.
pub fn logged(user: User, arguments: &[&str], dress: impl FnOnce(&mut Command)) -> Server {
    let mut command = user.command(&["serve", "--listen", "127.0.0.1:0"]);
    command.args(arguments).env("WINDLASS_LOG", "windlass=info").env("WINDLASS_LOG_FORMAT", "json");
    let log = std::fs::File::options().create(true).append(true).open(log_path(&user)).unwrap();
    dress(command.stderr(Stdio::from(log)));
    Server::spawn(user, command)
}

fn log_path(user: &User) -> std::path::PathBuf {
    user.folder().parent().unwrap().join("log")
}

/// The log lines of a server.
pub fn log(user: &User) -> Vec<Value> {
    let text = std::fs::read_to_string(log_path(user)).unwrap();
    let whole = text.lines().filter(|line| line.starts_with('{') && line.ends_with('}'));
    whole.map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Waits for `times` matching log lines, and asserts that there are no more.
pub fn logs(user: &User, times: usize, what: impl Fn(&Value) -> bool) {
    let count = || log(user).iter().filter(|line| what(line)).count();
    super::operate::until("the log has the lines", || count() >= times);
    assert_eq!(count(), times, "{:#?}", log(user));
}

/// A server with settings for limits.
pub fn with_limits(limits: &str) -> Server {
    let user = User::new();
    user.configure(&format!("[server.limits]\n{limits}\n"));
    logged(user, &[], |_| {})
}

pub fn socket_address(server: &Server) -> SocketAddr {
    server.address.split_once("//").unwrap().1.parse().unwrap()
}

pub fn connect(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(socket_address(server)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// The head of a request, without the terminating empty line.
pub fn head(server: &Server, line: &str) -> String {
    format!("{line} HTTP/1.1\r\nhost: {}\r\n", socket_address(server))
}

/// Reads until the server closes the connection. Data lost by a reset is missing.
pub fn rest(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let mut buffer = [0; 65536];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => bytes.extend_from_slice(&buffer[..read]),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => break,
            Err(error) => panic!("the server neither answers nor closes: {error}"),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Sends bytes, as many as the server accepts. Returns its response.
pub fn say(server: &Server, bytes: &[u8]) -> String {
    let mut stream = connect(server);
    // The server may close the connection before it has read everything.
    let _ = stream.write_all(bytes);
    rest(&mut stream)
}

/// Status and code of the only problem in a response.
pub fn problem(answer: &str) -> (u16, String) {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: `{answer}`"));
    assert!(head.to_lowercase().contains("content-type: application/problem+json"), "{answer}");
    let status = head.split_whitespace().nth(1).unwrap().parse().unwrap();
    let body: Value = serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}"));
    assert_eq!(body["status"], status, "{answer}");
    (status, body["code"].as_str().unwrap().to_owned())
}

/// Peak resident memory of a server, in MiB.
#[cfg(target_os = "linux")]
pub fn resident_mib(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}
