//! The server's own TLS, with certificates that are renewed while it runs.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::Server;
use crate::cli::User;

fn fixture(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/http/tls").join(name)
}

fn certificate(name: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_file(fixture(name)).unwrap()
}

/// Returns the server's certificate, the negotiated protocol and the response.
async fn visit(
    server: &Server,
    versions: &[&'static SupportedProtocolVersion],
) -> std::io::Result<(CertificateDer<'static>, Option<Vec<u8>>, String)> {
    let mut roots = RootCertStore::empty();
    roots.add(certificate("authority.pem")).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(versions).unwrap();
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let address = server.address.split_once("//").unwrap().1;
    let stream = TcpStream::connect(address).await?;
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
    let seen = stream.get_ref().1.peer_certificates().unwrap()[0].clone().into_owned();
    let agreed = stream.get_ref().1.alpn_protocol().map(<[u8]>::to_vec);
    let ask = format!("GET /api/v1/health HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(ask.as_bytes()).await?;
    let mut answer = Vec::new();
    // A response may be complete although the connection ends with an error.
    let _ = stream.read_to_end(&mut answer).await;
    Ok((seen, agreed, String::from_utf8(answer).unwrap()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_is_renewed_without_a_restart() {
    let user = User::new();
    let (pem, key) = (user.home().join("own.pem"), user.home().join("own.key"));
    std::fs::create_dir_all(user.home()).unwrap();
    let install = |name: &str| {
        std::fs::copy(fixture(&format!("{name}.pem")), &pem).unwrap();
        std::fs::copy(fixture(&format!("{name}.key")), &key).unwrap();
    };
    install("one");
    user.configure(&format!("[server.tls]\ncertificate = '{}'\nkey = '{}'\n", pem.display(), key.display()));
    let server = Server::start_tls(user);
    let all = [&rustls::version::TLS12, &rustls::version::TLS13];
    for version in all {
        let (seen, agreed, answer) = visit(&server, &[version]).await.unwrap();
        assert_eq!((seen, agreed.as_deref()), (certificate("one.pem"), Some(&b"http/1.1"[..])));
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    }
    // Invalid files are ignored.
    std::fs::write(&pem, "rubbish").unwrap();
    tokio::time::sleep(std::time::Duration::from_millis(1_100)).await; // tidy: sleep files are checked once a second
    assert_eq!(visit(&server, &all).await.unwrap().0, certificate("one.pem"));
    install("two");
    let mut renewed = false;
    for _ in 0..100 {
        renewed = visit(&server, &all).await.unwrap().0 == certificate("two.pem");
        if renewed {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await; // tidy: sleep it waits for the thing itself
    }
    assert!(renewed);
    // A client without TLS is disconnected.
    let mut clear = TcpStream::connect(server.address.split_once("//").unwrap().1).await.unwrap();
    clear.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    let mut said = Vec::new();
    let _ = clear.read_to_end(&mut said).await;
    assert!(!said.starts_with(b"HTTP"), "{said:?}");
}

#[test]
fn a_certificate_that_cannot_be_used_is_said_at_the_start() {
    let user = User::new();
    user.configure("[server.tls]\ncertificate = '/nowhere.pem'\nkey = '/nowhere.key'\n");
    let said = user.run(&["serve", "--listen", "127.0.0.1:0"]).exits(2);
    assert!(said.err.contains("`/nowhere.pem` cannot be used for TLS"), "{said:#?}");
}
