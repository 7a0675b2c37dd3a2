//! Responses of hostile and broken systems: bounded in bytes and time, and never misinterpreted.

use std::io::Write;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use windlass::outbound::{End, Limits, OutboundError, Request, Sent};

use super::{Far, Reply, inside, request, way};

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn raw(text: &str) -> Reply {
    Reply::Bytes(text.as_bytes().to_vec())
}

fn reply(row: &str) -> Reply {
    let head = "HTTP/1.1 200 OK\r\n";
    let packed = |body: Vec<u8>| Reply::with(200, &[("content-encoding", "gzip")], body);
    match row {
        "plain" => Reply::ok("text/plain", "hello"),
        "pieces" => Reply::Pieces(format!("{head}content-length: 5\r\n\r\nhello").into_bytes(), 1),
        "zip bomb" => packed(gzip(&vec![0; 20_000_000])),
        "zip bomb in a zip bomb" => {
            Reply::with(200, &[("content-encoding", "gzip, gzip")], gzip(&gzip(&vec![0; 20_000_000])))
        }
        "cut zip" => packed(gzip(b"hello, hello, hello")[..20].to_vec()),
        "no zip" => packed(b"hello".to_vec()),
        "brotli" => Reply::with(200, &[("content-encoding", "br")], "hello"),
        "a gigabyte" => Reply::Endless(
            format!("{head}content-length: 1000000000\r\n\r\n").into_bytes(),
            vec![b'x'; 65536],
        ),
        "no end" => Reply::Endless(format!("{head}\r\n").into_bytes(), vec![b'x'; 65536]),
        "chunks without end" => Reply::Endless(
            format!("{head}transfer-encoding: chunked\r\n\r\n").into_bytes(),
            b"1\r\nx\r\n".to_vec(),
        ),
        "headers without end" => Reply::Endless(head.as_bytes().to_vec(), b"x-more: and more\r\n".to_vec()),
        "informational answers without end" => {
            Reply::Endless(Vec::new(), b"HTTP/1.1 103 Early Hints\r\n\r\n".to_vec())
        }
        "less than announced" => raw(&format!("{head}content-length: 50\r\n\r\nhello")),
        "more than announced" => raw(&format!("{head}content-length: 2\r\nconnection: close\r\n\r\nhello")),
        "two lengths" => raw(&format!("{head}content-length: 2\r\ncontent-length: 5\r\n\r\nhello")),
        "negative length" => raw(&format!("{head}content-length: -5\r\n\r\nhello")),
        "broken chunks" => raw(&format!("{head}transfer-encoding: chunked\r\n\r\nZZ\r\nhello")),
        "half a chunk" => raw(&format!("{head}transfer-encoding: chunked\r\n\r\nff\r\nhello")),
        "huge chunk" => raw(&format!("{head}transfer-encoding: chunked\r\n\r\nffffffffffffffff\r\nhello")),
        "no HTTP" => raw("SSH-2.0-OpenSSH_9.6\r\n"),
        "old HTTP" => raw("hello"),
        "nothing" => raw(""),
        "half a head" => raw("HTTP/1.1 200 OK\r\ncontent-"),
        "odd header" => raw("HTTP/1.1 200 OK\r\nbad header: x\r\n\r\n"),
        "silence" => Reply::Silence(Vec::new()),
        "silence in the head" => Reply::Silence(head.as_bytes().to_vec()),
        "silence in the body" => Reply::Silence(format!("{head}content-length: 9\r\n\r\nhell").into_bytes()),
        other => panic!("{other}"),
    }
}

/// The outcome of a request that gets this response.
pub async fn told_of(row: String) -> String {
    let slow = row.contains("silence") || row.contains("informational");
    let far = Far::start(move |_| reply(&row)).await;
    let mut request: Request = request(&far.url("/")).unwrap();
    if slow {
        request.limits = Limits { within: Duration::from_millis(400), ..request.limits };
    }
    match way(inside(&["127.0.0.1"]), &[]).send(request).await {
        Ok(response) => {
            let end = match &response.body.end {
                End::Whole => "whole".to_owned(),
                End::Cut => "cut".to_owned(),
                End::Broken(why) => format!("broken: {why}"),
            };
            format!("{} bytes, {end}", response.body.bytes.len())
        }
        Err(error) => told(&error),
    }
}

fn told(error: &OutboundError) -> String {
    match error.sent() {
        Sent::Nothing => format!("not sent: {error}"),
        Sent::Perhaps => format!("perhaps sent: {error}"),
    }
}

#[tokio::test]
async fn errors_say_whether_the_request_was_sent() {
    let closed = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    let way = way(inside(&["127.0.0.1"]), &[]);
    let said = told(&way.send(request(&format!("http://{closed}/?q=SECRET")).unwrap()).await.unwrap_err());
    assert!(said.starts_with("not sent: cannot reach `127.0.0.1`: "), "{said}");
    assert!(!said.contains("SECRET"));
    let said = told(&way.send(request("http://10.0.0.1/").unwrap()).await.unwrap_err());
    assert!(said.starts_with("not sent: `10.0.0.1` is not allowed"), "{said}");
}
