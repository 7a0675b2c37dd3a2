//! The hosts and addresses that may be called. This module checks addresses as
//! given and as resolved, and sends no request.
//!
//! The default allows every public address at the usual ports.

use std::net::IpAddr;

use reqwest::Url;

use super::address::not_public;
use super::error::Refusal;
use super::host::{Host, plain};

/// The rules for hosts, addresses and ports that may be called. The default allows
/// every public address at the usual ports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    /// The only hosts that may be called. If empty, every host that no other rule rejects may be called.
    pub allow_hosts: Vec<Host>,
    /// Hosts that are never called. This list takes precedence over all other rules.
    pub deny_hosts: Vec<Host>,
    /// Hosts that may be called although their addresses are not public
    /// (private, loopback, link-local and similar).
    pub internal_hosts: Vec<Host>,
    /// The ports that may be called.
    pub ports: Ports,
}

/// Which ports may be called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Ports {
    /// 80 and 443.
    #[default]
    Usual,
    /// Exactly these ports.
    Only(Vec<u16>),
    /// Any port.
    Any,
}

impl Ports {
    fn has(&self, port: u16) -> bool {
        match self {
            Self::Usual => [80, 443].contains(&port),
            Self::Only(ports) => ports.contains(&port),
            Self::Any => true,
        }
    }
}

impl Reach {
    /// Checks a URL before its name is resolved. `named` is a port that the operator configured for this
    /// system; it is allowed in addition to [`Reach::ports`].
    pub fn judge(&self, url: &Url, named: Option<u16>) -> Result<(), Refusal> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(Refusal::Scheme { scheme: url.scheme().to_owned() });
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Refusal::Credentials);
        }
        let (Some(host), Some(port)) = (plain(url), url.port_or_known_default()) else {
            return Err(Refusal::NoHost);
        };
        if named != Some(port) && !self.ports.has(port) {
            return Err(Refusal::Port { host, port });
        }
        if self.deny_hosts.iter().any(|denied| denied.names(&host)) {
            return Err(Refusal::Denied { host });
        }
        match host.parse() {
            Ok(address) => self.judge_address(&host, address),
            // A range may still match the addresses that the name resolves to.
            Err(_) if self.is_listed(&host) || self.allow_hosts.iter().any(is_range) => Ok(()),
            Err(_) => Err(Refusal::NotAllowed { host }),
        }
    }

    /// Checks a resolved address of a host.
    pub fn judge_address(&self, host: &str, address: IpAddr) -> Result<(), Refusal> {
        if self.deny_hosts.iter().any(|denied| denied.has(address)) {
            return Err(Refusal::Denied { host: host.to_owned() });
        }
        if !self.is_listed(host) && !self.allow_hosts.iter().any(|allowed| allowed.has(address)) {
            return Err(Refusal::NotAllowed { host: host.to_owned() });
        }
        match not_public(address) {
            Some(kind) if !self.has_inside(host, Some(address)) => {
                Err(Refusal::Internal { host: host.to_owned(), address, kind })
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Whether the URL's host is configured as internal, so that credentials may be sent to it unencrypted.
    pub fn is_inside(&self, url: &Url) -> bool {
        plain(url).is_some_and(|host| self.has_inside(&host, host.parse().ok()))
    }

    fn has_inside(&self, host: &str, address: Option<IpAddr>) -> bool {
        let mut inside = self.internal_hosts.iter();
        inside.any(|inside| inside.names(host) || address.is_some_and(|address| inside.has(address)))
    }

    /// Whether the allow list permits a name.
    fn is_listed(&self, host: &str) -> bool {
        self.allow_hosts.is_empty() || self.allow_hosts.iter().any(|allowed| allowed.names(host))
    }
}

fn is_range(host: &Host) -> bool {
    matches!(host, Host::Range(_))
}
