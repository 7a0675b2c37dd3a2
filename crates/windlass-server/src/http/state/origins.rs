//! The addresses of the server, and the web origins of other pages that may use it.

use std::net::SocketAddr;

use http::uri::Authority;
use http::{HeaderMap, Uri, header};

/// The addresses of the server, and the other origins that it allows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origins {
    /// Loopback hosts of the listener. Empty if the server has a public address.
    loopback: Vec<String>,
    /// Hosts with ports in lower case, as in the `Host` header.
    hosts: Vec<String>,
    /// The server's own origins.
    own: Vec<String>,
    /// Other origins that the configuration allows.
    listed: Vec<String>,
}

impl Origins {
    /// Collects the addresses of the listener and the public URLs, and the other allowed origins.
    pub fn new(scheme: &str, listener: SocketAddr, public: &[Uri], listed: &[String]) -> Self {
        let port = listener.port();
        let mut hosts = vec![listener.to_string()];
        if listener.ip().is_loopback() {
            hosts.extend(["localhost", "127.0.0.1", "[::1]"].map(|host| format!("{host}:{port}")));
        }
        // A server with a public address is behind a proxy, and some proxies send the listener's address as `Host`.
        let is_here_alone = listener.ip().is_loopback() && public.is_empty();
        let loopback = if is_here_alone { hosts.clone() } else { Vec::new() };
        let mut own: Vec<String> = hosts.iter().map(|host| format!("{scheme}://{host}")).collect();
        for uri in public {
            let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else { continue };
            hosts.push(authority.as_str().to_ascii_lowercase());
            own.push(format!("{scheme}://{}", authority.as_str().to_ascii_lowercase()));
        }
        let listed = listed.iter().map(|origin| origin.trim_end_matches('/').to_ascii_lowercase()).collect();
        Self { loopback, hosts, own, listed }
    }

    pub fn knows_host(&self, host: &str) -> bool {
        self.hosts.iter().any(|known| known.eq_ignore_ascii_case(host))
    }

    /// Returns whether a host is a loopback name of a listener that only this machine can reach.
    pub fn is_loopback(&self, host: &str) -> bool {
        self.loopback.iter().any(|known| known.eq_ignore_ascii_case(host))
    }

    /// Returns whether an origin is one of the server's own.
    pub fn is_own(&self, origin: &str) -> bool {
        self.own.iter().any(|known| known.eq_ignore_ascii_case(origin))
    }

    /// Returns the server's own origin for a host. Prefers `https` if both schemes exist.
    pub fn of_host(&self, host: &str) -> Option<&str> {
        let at = |own: &&String| {
            own.split_once("://").is_some_and(|(_, authority)| authority.eq_ignore_ascii_case(host))
        };
        self.own.iter().filter(at).max_by_key(|own| own.starts_with("https://")).map(String::as_str)
    }

    /// Returns whether the configuration allows an origin of another site.
    pub fn is_listed(&self, origin: &str) -> bool {
        self.listed.iter().any(|known| known.eq_ignore_ascii_case(origin))
    }
}

/// Returns the host that a request names, in lower case, or `None` if the request names no host or several hosts. The
/// host of an absolute request target is equivalent to `Host` (RFC 9112, section 3.2.2).
pub fn host(uri: &Uri, headers: &HeaderMap) -> Option<String> {
    let mut named = headers.get_all(header::HOST).iter();
    let host = match (named.next(), named.next(), uri.authority()) {
        (Some(host), None, None) => host.to_str().ok()?.to_ascii_lowercase(),
        (Some(host), None, Some(authority)) => {
            // If the two hosts differ, a proxy may have routed the request by the other host.
            let same = host.to_str().is_ok_and(|host| host.eq_ignore_ascii_case(authority.as_str()));
            same.then(|| authority.as_str().to_ascii_lowercase())?
        }
        (Some(_), Some(_), _) => return None,
        (None, _, authority) => authority?.as_str().to_ascii_lowercase(),
    };
    host.parse::<Authority>().ok().map(|_| host)
}
