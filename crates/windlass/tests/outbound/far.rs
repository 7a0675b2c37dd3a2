//! A remote system that responds byte for byte as a test defines, including invalid responses.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A received request.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// The request line and the headers, as received.
    pub head: String,
    /// The body.
    pub body: String,
}

impl Asked {
    /// The method and the path.
    pub fn line(&self) -> String {
        self.head.lines().next().unwrap_or_default().trim_end_matches(" HTTP/1.1").to_owned()
    }

    /// A header's value.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (known, value) = line.split_once(':')?;
            known.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }
}

/// A response.
pub enum Reply {
    /// These bytes, then the end.
    Bytes(Vec<u8>),
    /// These bytes, then the others repeated.
    Endless(Vec<u8>, Vec<u8>),
    /// These bytes in chunks of this size.
    Pieces(Vec<u8>, usize),
    /// These bytes, then silence without an end.
    Silence(Vec<u8>),
}

impl Reply {
    /// A complete response.
    pub fn ok(media_type: &str, body: impl AsRef<[u8]>) -> Self {
        Self::with(200, &[("content-type", media_type)], body)
    }

    /// A complete response with this status and these headers.
    pub fn with(status: u16, headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> Self {
        let body = body.as_ref();
        let mut bytes = format!("HTTP/1.1 {status} Said\r\ncontent-length: {}\r\n", body.len());
        for (name, value) in headers {
            bytes.push_str(&format!("{name}: {value}\r\n"));
        }
        bytes.push_str("connection: close\r\n\r\n");
        Self::Bytes([bytes.as_bytes(), body].concat())
    }

    /// A redirect.
    pub fn to(status: u16, location: &str) -> Self {
        Self::with(status, &[("location", location)], "")
    }
}

/// A system on its own port.
pub struct Far {
    pub address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Far {
    /// Starts one.
    pub async fn start(answer: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (asked, answer) = (Arc::new(Mutex::new(Vec::new())), Arc::new(answer));
        let noted: Arc<Mutex<Vec<Asked>>> = asked.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (answer, noted) = (answer.clone(), noted.clone());
                tokio::spawn(async move {
                    let mut stream = stream;
                    let Some(request) = read(&mut stream).await else { return };
                    noted.lock().unwrap().push(request.clone());
                    let reply = answer(&request);
                    write(stream, reply).await;
                });
            }
        });
        Self { address, asked }
    }

    /// A URL of this system.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The same URL with another host name.
    pub fn named(&self, host: &str, path: &str) -> String {
        format!("http://{host}:{}{path}", self.address.port())
    }

    /// The received requests.
    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    /// The request lines of the received requests.
    pub fn lines(&self) -> Vec<String> {
        self.asked().iter().map(Asked::line).collect()
    }
}

async fn read(stream: &mut TcpStream) -> Option<Asked> {
    let mut bytes = Vec::new();
    loop {
        let mut buffer = [0; 4096];
        let count = stream.read(&mut buffer).await.ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(&buffer[..count]);
        let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let asked = Asked { head, body: String::new() };
        let length: usize = asked.header("content-length").map_or(0, |length| length.parse().unwrap());
        let body = &bytes[end + 4..];
        if body.len() >= length {
            let body = String::from_utf8_lossy(body).into_owned();
            return Some(Asked { body, ..asked });
        }
    }
}

/// Writing fails if the client has stopped reading.
async fn write(mut stream: TcpStream, reply: Reply) {
    match reply {
        Reply::Bytes(bytes) => {
            let _ = stream.write_all(&bytes).await;
        }
        Reply::Pieces(bytes, size) => {
            for piece in bytes.chunks(size) {
                if stream.write_all(piece).await.is_err() || stream.flush().await.is_err() {
                    return;
                }
                tokio::task::yield_now().await;
            }
        }
        Reply::Endless(bytes, more) => {
            let mut written = stream.write_all(&bytes).await;
            while written.is_ok() {
                written = stream.write_all(&more).await;
            }
        }
        Reply::Silence(bytes) => {
            let _ = stream.write_all(&bytes).await;
            // Until the client disconnects.
            let _ = stream.read(&mut [0; 16]).await;
        }
    }
}
