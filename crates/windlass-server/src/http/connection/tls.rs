//! The server's certificate: TLS 1.2 and newer by rustls on aws-lc-rs. The server reloads the certificate when its
//! files change.
//!
//! If a changed file cannot be used, the server keeps the previous certificate.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use windlass::clock::SystemClock;
use windlass::port::clock::Clock;

use crate::config::TlsFile;
use crate::trouble::Trouble;

/// Minimum interval between checks for changed files. A check costs two system calls.
const LOOK_EVERY_MS: u64 = 1_000;

/// A certificate that can be renewed while the server runs.
pub struct Certificate {
    files: TlsFile,
    clock: SystemClock,
    now: Mutex<Loaded>,
}

struct Loaded {
    config: Arc<ServerConfig>,
    stamp: Stamp,
    looked_ms: u64,
}

/// Modification times of the two files.
type Stamp = [Option<SystemTime>; 2];

impl Certificate {
    /// Loads a certificate and its key.
    pub fn load(files: &TlsFile) -> Result<Self, Trouble> {
        let clock = SystemClock::new();
        let stamp = stamp(files);
        let config = read(files).map_err(|why| {
            Trouble::usage(why).hint("set `certificate` and `key` of `[server.tls]` to PEM files")
        })?;
        let now = Loaded { config: Arc::new(config), stamp, looked_ms: clock.monotonic_ms() };
        Ok(Self { files: files.clone(), clock, now: Mutex::new(now) })
    }

    /// Performs the TLS handshake on a connection.
    pub async fn accept<S: AsyncRead + AsyncWrite + Unpin>(&self, stream: S) -> io::Result<TlsStream<S>> {
        TlsAcceptor::from(self.now()).accept(stream).await
    }

    fn now(&self) -> Arc<ServerConfig> {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        let at_ms = self.clock.monotonic_ms();
        if at_ms.saturating_sub(now.looked_ms) >= LOOK_EVERY_MS {
            now.looked_ms = at_ms;
            let found = stamp(&self.files);
            if found != now.stamp {
                now.stamp = found;
                match read(&self.files) {
                    Ok(config) => {
                        now.config = Arc::new(config);
                        tracing::info!("the certificate was reloaded");
                    }
                    Err(error) => {
                        tracing::warn!(error, "the changed certificate cannot be used; keeping the old one")
                    }
                }
            }
        }
        now.config.clone()
    }
}

fn stamp(files: &TlsFile) -> Stamp {
    let written = |path: &Path| std::fs::metadata(path).and_then(|found| found.modified()).ok();
    [written(&files.certificate), written(&files.key)]
}

fn read(files: &TlsFile) -> Result<ServerConfig, String> {
    let TlsFile { certificate, key } = files;
    let unreadable = |path: &Path, error| format!("`{}` cannot be used for TLS: {error}", path.display());
    let chain: Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(certificate).map_err(|error| unreadable(certificate, error))?.collect();
    let chain = chain.map_err(|error| unreadable(certificate, error))?;
    let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| unreadable(key, error))?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, secret));
    let mut config = config.map_err(|error| {
        format!("`{}` and `{}` cannot be used for TLS: {error}", certificate.display(), key.display())
    })?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}
