//! Malicious or broken clients: each is limited, gets a problem response if it reads one, and causes one log line.

use std::io::Write;
use std::time::Duration;

use serde_json::Value;

use super::Server;
use super::operate::until;
use super::raw::{connect, head, log, logs, problem, rest, say, with_limits};

/// Maximum memory of a server during these tests, in MiB.
#[cfg(target_os = "linux")]
const MEMORY_MIB: u64 = 200;

#[cfg(target_os = "linux")]
fn check_memory(server: &Server) {
    let resident = super::raw::resident_mib(server);
    assert!(resident < MEMORY_MIB, "{resident} MiB");
}

#[cfg(not(target_os = "linux"))]
fn check_memory(_: &Server) {}

/// Whether a log line reports a request that could not be parsed.
fn refused(code: &'static str) -> impl Fn(&Value) -> bool {
    move |line| line["problem"] == code
}

#[test]
fn a_head_without_end_is_refused() {
    let server = with_limits("");
    let large = format!("{}x-large: {}\r\n\r\n", head(&server, "GET /"), "a".repeat(1 << 20));
    assert_eq!(problem(&say(&server, large.as_bytes())), (431, "head_too_large".into()));
    // The library's buffer would accept this header, in one read or in several.
    let beyond =
        format!("{}x-large: {}\r\nconnection: close\r\n\r\n", head(&server, "GET /"), "a".repeat(70_000));
    assert_eq!(problem(&say(&server, beyond.as_bytes())), (431, "head_too_large".into()));
    let within = format!(
        "{}x-large: {}\r\nconnection: close\r\n\r\n",
        head(&server, "GET /api/v1/version"),
        "a".repeat(60_000)
    );
    assert!(say(&server, within.as_bytes()).starts_with("HTTP/1.1 200"));
    let many = format!("{}{}\r\n", head(&server, "GET /"), "x: y\r\n".repeat(1_000_000));
    assert_eq!(problem(&say(&server, many.as_bytes())), (431, "head_too_large".into()));
    let line = format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(1 << 20));
    assert_eq!(problem(&say(&server, line.as_bytes())).0 / 100, 4);
    logs(&server.user, 2 + 1, |line| line["message"] == "a connection was rejected");
    check_memory(&server);
}

#[test]
fn what_is_no_request_is_refused() {
    let server = with_limits("");
    for bytes in [
        &b"\xff\xfe\x00\x01\r\n\r\n"[..],
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /\xff\xfe HTTP/1.1\r\nhost: a\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 a TLS client in the wrong place\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: a\r\nx: a\x00b\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello",
        b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: -1\r\n\r\n",
    ] {
        let answer = say(&server, bytes);
        assert_eq!(problem(&answer), (400, "bad_request".into()), "{}", String::from_utf8_lossy(bytes));
    }
    logs(&server.user, 7, |line| line["message"] == "a connection was rejected");
    // A foreign host name, and a missing one.
    let foreign = say(&server, b"GET / HTTP/1.1\r\nhost: evil.example.com\r\nconnection: close\r\n\r\n");
    assert_eq!(problem(&foreign), (421, "unknown_host".into()));
    let none = say(&server, b"GET / HTTP/1.1\r\nconnection: close\r\n\r\n");
    assert_eq!(problem(&none), (400, "bad_request".into()));
}

#[test]
fn a_client_that_brings_its_head_slowly_is_cut_off() {
    let server = with_limits("head_timeout_s = 1");
    let mut slow: Vec<_> = (0..50).map(|_| connect(&server)).collect();
    let mut open = 50;
    let begin = head(&server, "GET /api/v1/health");
    slow.iter_mut().for_each(|stream| stream.write_all(begin.as_bytes()).unwrap());
    until("all are cut off", || {
        for stream in &mut slow {
            let _ = stream.write_all(b"x");
        }
        open = 50 - log(&server.user).iter().filter(|line| refused("slow_head")(line)).count();
        open == 0
    });
    for stream in &mut slow {
        assert_eq!(problem(&rest(stream)), (408, "slow_head".into()));
    }
    // An idle connection is closed after the same time, including one that never sent anything.
    let mut idle = connect(&server);
    idle.write_all((begin + "\r\n").as_bytes()).unwrap();
    assert!(rest(&mut idle).starts_with("HTTP/1.1 200 OK"));
    check_memory(&server);
}

#[test]
fn a_reader_that_never_reads_is_dropped() {
    let server = with_limits("stall_timeout_s = 1");
    let ask = head(&server, "GET /api/v1/openapi.json") + "\r\n";
    let mut streams: Vec<_> = (0..20).map(|_| connect(&server)).collect();
    for stream in &mut streams {
        stream.set_write_timeout(Some(Duration::from_millis(100))).unwrap();
        while stream.write_all(ask.as_bytes()).is_ok() {}
    }
    logs(&server.user, 20, |line| {
        let error = line["error"].as_str().unwrap_or_default();
        line["message"] == "a connection was dropped" && error.contains("error writing")
    });
    check_memory(&server);
    // Other clients are still served.
    let close = head(&server, "GET /api/v1/health") + "connection: close\r\n\r\n";
    assert!(say(&server, close.as_bytes()).starts_with("HTTP/1.1 200"));
}

#[test]
fn encoded_bodies_are_refused() {
    let server = with_limits("");
    let post = head(&server, "POST /api/v1/health")
        + "content-type: application/json\r\ncontent-encoding: gzip\r\ncontent-length: 100000000\r\n\r\n";
    assert_eq!(problem(&say(&server, post.as_bytes())), (415, "unsupported_encoding".into()));
    logs(&server.user, 1, refused("unsupported_encoding"));
}

#[test]
fn an_unexpected_body_is_not_read_to_its_end() {
    let server = with_limits("");
    // 100 MB to a route without a body: the server responds at once, and ignores the rest.
    let post = head(&server, "POST /api/v1/health") + "content-length: 100000000\r\n\r\n";
    let mut stream = connect(&server);
    stream.write_all(post.as_bytes()).unwrap();
    let (mut sent, part) = (0_usize, vec![b'a'; 65536]);
    while sent < 100_000_000 && stream.write_all(&part).is_ok() {
        sent += part.len();
    }
    assert!(sent < 50_000_000, "{sent}");
    logs(&server.user, 1, refused("method_not_allowed"));
    check_memory(&server);
}

#[test]
fn cross_site_posts_do_nothing() {
    let server = with_limits("");
    for origin in ["https://evil.example.com", "null", "http://127.0.0.1:1"] {
        let post = format!(
            "{}origin: {origin}\r\ncontent-type: text/plain\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{{}}",
            head(&server, "POST /api/v1/threads")
        );
        assert_eq!(problem(&say(&server, post.as_bytes())), (403, "forbidden".into()), "{origin}");
    }
    logs(&server.user, 3, refused("forbidden"));
}

/// The head of an authorized post, up to its body.
fn post(server: &Server, more: &str) -> String {
    let key = server.key(&[]);
    format!(
        "{}authorization: Bearer {key}\r\ncontent-type: application/json\r\nconnection: close\r\n{more}\r\n",
        head(server, "POST /api/v1/runs")
    )
}

#[test]
fn bodies_that_are_no_json_to_be_read_are_refused() {
    let server = with_limits("");
    let deep = format!("{{\"message\":{}1{}}}", "[".repeat(10_000), "]".repeat(10_000));
    let bodies: [&[u8]; 5] = [
        deep.as_bytes(),
        b"{\"message\":\"a\",\"message\":\"b\"}",
        b"{\"message\":[{\"kind\":\"text\",\"text\":\"a\",\"x\":{\"k\":1,\"k\":2}}]}",
        b"{\"message\":\"\xff\xfe\"}",
        b"{\"message\":\"\\ud800\"}",
    ];
    for body in bodies {
        let mut request = post(&server, &format!("content-length: {}\r\n", body.len())).into_bytes();
        request.extend_from_slice(body);
        let answer = say(&server, &request);
        assert_eq!(problem(&answer), (400, "bad_request".into()), "{answer}");
    }
    logs(&server.user, bodies.len(), refused("bad_request"));
    assert_eq!(server.user.run(&["threads", "list", "--json"]).exits(0).out, "", "nothing was begun");
    check_memory(&server);
}

#[test]
fn a_hundred_megabytes_are_refused_before_they_are_read() {
    let server = with_limits("");
    let told = post(&server, "content-length: 100000000\r\n");
    assert_eq!(problem(&say(&server, told.as_bytes())), (413, "too_large".into()));
    // Without a declared length, the body is read up to the limit.
    let mut untold = post(&server, "transfer-encoding: chunked\r\n").into_bytes();
    for _ in 0..1_600 {
        untold.extend_from_slice(b"10000\r\n");
        untold.extend_from_slice(&[b' '; 0x10000]);
        untold.extend_from_slice(b"\r\n");
    }
    assert_eq!(problem(&say(&server, &untold)), (413, "too_large".into()));
    logs(&server.user, 2, refused("too_large"));
    check_memory(&server);
}

#[test]
fn a_body_that_comes_too_slowly_is_given_up() {
    let server = with_limits("body_grace_s = 1");
    let mut slow = connect(&server);
    slow.write_all(post(&server, "content-length: 1000\r\n").as_bytes()).unwrap();
    slow.write_all(b"{").unwrap();
    assert_eq!(problem(&rest(&mut slow)), (408, "slow_body".into()));
    logs(&server.user, 1, refused("slow_body"));
}
