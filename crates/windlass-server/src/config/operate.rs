//! `[server.limits]` and `[server.tls]`: what the server bears, and by which certificate it is known.
//!
//! Every figure has a default; the names say the unit.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use serde::{Deserialize, Deserializer};

/// `[server.limits]`. Where a figure is absent, the default counts.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServerLimits {
    connections: Option<usize>,
    connections_per_address: Option<usize>,
    head_timeout_s: Option<u64>,
    body_grace_s: Option<u64>,
    stall_timeout_s: Option<u64>,
    stop_timeout_s: Option<u64>,
    heartbeat_s: Option<u64>,
    look_again_s: Option<u64>,
    requests_per_minute: Option<u32>,
    anonymous_requests_per_minute: Option<u32>,
    runs_per_user: Option<u32>,
    streams_per_user: Option<u32>,
}

/// A second, or how long was said.
fn seconds(said: Option<u64>, default: u64) -> Duration {
    Duration::from_secs(said.unwrap_or(default).max(1))
}

impl ServerLimits {
    /// This layer over a weaker one, key by key.
    pub fn over(self, weaker: Self) -> Self {
        Self {
            connections: self.connections.or(weaker.connections),
            connections_per_address: self.connections_per_address.or(weaker.connections_per_address),
            head_timeout_s: self.head_timeout_s.or(weaker.head_timeout_s),
            body_grace_s: self.body_grace_s.or(weaker.body_grace_s),
            stall_timeout_s: self.stall_timeout_s.or(weaker.stall_timeout_s),
            stop_timeout_s: self.stop_timeout_s.or(weaker.stop_timeout_s),
            heartbeat_s: self.heartbeat_s.or(weaker.heartbeat_s),
            look_again_s: self.look_again_s.or(weaker.look_again_s),
            requests_per_minute: self.requests_per_minute.or(weaker.requests_per_minute),
            anonymous_requests_per_minute: self
                .anonymous_requests_per_minute
                .or(weaker.anonymous_requests_per_minute),
            runs_per_user: self.runs_per_user.or(weaker.runs_per_user),
            streams_per_user: self.streams_per_user.or(weaker.streams_per_user),
        }
    }

    /// Connections at a time: each costs some KiB and a descriptor, of which systems give 1,024 to 1,048,576.
    pub fn connections(&self) -> usize {
        self.connections.unwrap_or(10_000).clamp(1, 1_000_000)
    }

    /// Connections of one address at a time: a tenth of all, so that one client cannot take them from the others.
    pub fn connections_per_address(&self) -> usize {
        self.connections_per_address.unwrap_or(1_000).max(1)
    }

    /// How long a connection may take to bring a request's whole head, counted from the end of the answer before it:
    /// what a slow client and an idle one are cut off by.
    pub fn head_timeout(&self) -> Duration {
        seconds(self.head_timeout_s, 30)
    }

    /// How long a body may keep the server waiting beside what its bytes pay for.
    pub fn body_grace(&self) -> Duration {
        seconds(self.body_grace_s, 15)
    }

    /// How long a client may take no byte of an answer that is ready.
    pub fn stall_timeout(&self) -> Duration {
        seconds(self.stall_timeout_s, 30)
    }

    /// How long requests and tools may take to end once the server is told to stop.
    pub fn stop_timeout(&self) -> Duration {
        seconds(self.stop_timeout_s, 20)
    }

    /// How long a stream is silent at most. Proxies close a silent connection after 30 to 60 s.
    pub fn heartbeat(&self) -> Duration {
        seconds(self.heartbeat_s, 15)
    }

    /// How often it is looked again whether whoever reads a stream still may: a key that was taken back, an account
    /// that was deactivated, a thread that is gone.
    pub fn look_again(&self) -> Duration {
        seconds(self.look_again_s, 60)
    }

    /// Requests of one user, and of one key, in a minute; 0: any number.
    pub fn requests_per_minute(&self) -> u32 {
        self.requests_per_minute.unwrap_or(1_200)
    }

    /// Requests without a credential from one address in a minute; 0: any number.
    pub fn anonymous_requests_per_minute(&self) -> u32 {
        self.anonymous_requests_per_minute.unwrap_or(300)
    }

    /// Runs of one user that are active at a time; 0: any number.
    pub fn runs_per_user(&self) -> u32 {
        self.runs_per_user.unwrap_or(50)
    }

    /// Streams of one user that are open at a time; 0: any number. A proxy in front hides whose connections there are, so
    /// the default is what one address may have.
    pub fn streams_per_user(&self) -> usize {
        self.streams_per_user.map_or_else(|| self.connections_per_address(), |said| said as usize)
    }
}

/// `[server.tls]`.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct TlsFile {
    /// The certificate and those that vouch for it, as PEM.
    pub certificate: PathBuf,
    /// Its private key, as PEM.
    pub key: PathBuf,
}

/// An address or a range of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range(IpNet);

impl Range {
    /// Whether an address lies in it.
    pub fn has(&self, address: IpAddr) -> bool {
        self.0.contains(&address.to_canonical())
    }
}

impl<'de> Deserialize<'de> for Range {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let range = text.parse::<IpNet>().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
        range.map(Self).map_err(|_| {
            let wanted = "write an address such as `10.0.0.7` or a range such as `10.0.0.0/8`";
            serde::de::Error::custom(format!("`{text}` is no address; {wanted}"))
        })
    }
}
