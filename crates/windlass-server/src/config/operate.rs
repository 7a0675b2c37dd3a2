//! `[server.limits]` and `[server.tls]`: limits, timeouts and the certificate of the server.
//!
//! Every limit has a default. The names contain the unit.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use serde::{Deserialize, Deserializer};

/// `[server.limits]`. Absent keys use the default.
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

/// Returns the configured duration or the default, at least one second.
fn seconds(said: Option<u64>, default: u64) -> Duration {
    Duration::from_secs(said.unwrap_or(default).max(1))
}

impl ServerLimits {
    /// Merges two layers, key by key; `self` takes precedence.
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

    /// Returns the maximum number of connections. Each connection uses a few KiB and a file descriptor; systems allow
    /// 1,024 to 1,048,576 descriptors.
    pub fn connections(&self) -> usize {
        self.connections.unwrap_or(10_000).clamp(1, 1_000_000)
    }

    /// Returns the maximum number of connections from one address: by default a tenth of all connections, so that one
    /// client cannot use them all.
    pub fn connections_per_address(&self) -> usize {
        self.connections_per_address.unwrap_or(1_000).max(1)
    }

    /// Returns the maximum time to receive a request's complete head, from the end of the previous response. The
    /// timeout disconnects slow and idle clients.
    pub fn head_timeout(&self) -> Duration {
        seconds(self.head_timeout_s, 30)
    }

    /// Returns the time that a request body may pause, in addition to the time that the received bytes allow.
    pub fn body_grace(&self) -> Duration {
        seconds(self.body_grace_s, 15)
    }

    /// Returns the maximum time in which a client accepts no byte of a pending response.
    pub fn stall_timeout(&self) -> Duration {
        seconds(self.stall_timeout_s, 30)
    }

    /// Returns the maximum time for requests and tools to finish at shutdown.
    pub fn stop_timeout(&self) -> Duration {
        seconds(self.stop_timeout_s, 20)
    }

    /// Returns the maximum silence of a stream. Proxies close silent connections after 30 to 60 s.
    pub fn heartbeat(&self) -> Duration {
        seconds(self.heartbeat_s, 15)
    }

    /// Returns the interval at which a stream checks that its reader still has access. A reader loses access if the key
    /// is revoked, the account is deactivated, or the thread is deleted.
    pub fn look_again(&self) -> Duration {
        seconds(self.look_again_s, 60)
    }

    /// Returns the maximum number of requests per minute of one user, and of one key; 0 means no limit.
    pub fn requests_per_minute(&self) -> u32 {
        self.requests_per_minute.unwrap_or(1_200)
    }

    /// Returns the maximum number of requests per minute without a credential from one address; 0 means no limit.
    pub fn anonymous_requests_per_minute(&self) -> u32 {
        self.anonymous_requests_per_minute.unwrap_or(300)
    }

    /// Returns the maximum number of active runs of one user; 0 means no limit.
    pub fn runs_per_user(&self) -> u32 {
        self.runs_per_user.unwrap_or(50)
    }

    /// Returns the maximum number of open streams of one user; 0 means no limit. The default is the maximum number of
    /// connections from one address, because the server cannot count connections by client address behind a proxy.
    pub fn streams_per_user(&self) -> usize {
        self.streams_per_user.map_or_else(|| self.connections_per_address(), |said| said as usize)
    }
}

/// `[server.tls]`.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct TlsFile {
    /// Path of the certificate chain, as PEM.
    pub certificate: PathBuf,
    /// Path of the private key, as PEM.
    pub key: PathBuf,
}

/// An IP address or a range of IP addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range(IpNet);

impl Range {
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
            serde::de::Error::custom(format!("`{text}` is not an IP address; {wanted}"))
        })
    }
}
