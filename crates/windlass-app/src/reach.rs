//! Which systems elsewhere the server calls for people: public ones by https, and those inside that its operator names.
//!
//! A name is resolved here and the connection is pinned to what was found, so that it cannot mean another address a
//! moment later. Nothing goes by a proxy: that would resolve the name again.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use reqwest::Url;
use reqwest::redirect::Policy;

use crate::config::Internal;

/// Which systems may be called.
#[derive(Clone, Debug, Default)]
pub struct Reach {
    inside: Vec<Internal>,
}

impl Reach {
    /// Public systems, and these.
    pub fn new(inside: Vec<Internal>) -> Self {
        Self { inside }
    }

    /// Reads a system's address; says why where it cannot be one.
    pub fn target(&self, text: &str) -> Result<Url, &'static str> {
        let url = Url::parse(text).map_err(|_| "is no address")?;
        let Some(host) = host(&url) else { return Err("names no host") };
        if !url.username().is_empty() || url.password().is_some() {
            return Err("has credentials in it; send them as `credentials`");
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err("has a query or a fragment");
        }
        let listed = match host.parse::<IpAddr>() {
            Ok(address) => self.has(address),
            Err(_) => self.names(&host),
        };
        match url.scheme() {
            "https" => Ok(url),
            "http" if listed => Ok(url),
            "http" => Err("is no https address, and `[server] internal_hosts` does not name its host"),
            _ => Err("is no https address"),
        }
    }

    /// A client that reaches this system and nothing else; `None` where it may not be reached, or cannot.
    pub async fn client(&self, url: &Url, within: Duration) -> Option<reqwest::Client> {
        let (host, port) = (host(url)?, url.port_or_known_default()?);
        let found: Vec<SocketAddr> = match host.parse::<IpAddr>() {
            Ok(address) => vec![SocketAddr::new(address, port)],
            Err(_) => {
                let asked = tokio::time::timeout(within, tokio::net::lookup_host((&*host, port))).await;
                asked.ok()?.ok()?.collect()
            }
        };
        let listed = self.names(&host);
        let may = |address: IpAddr| listed || self.has(address) || is_public(address.to_canonical());
        let addresses: Vec<_> = found.into_iter().filter(|found| may(found.ip())).collect();
        if addresses.is_empty() {
            return None;
        }
        // A redirect would take the credentials elsewhere.
        let client = reqwest::Client::builder().redirect(Policy::none()).no_proxy().timeout(within);
        client.resolve_to_addrs(&host, &addresses).build().ok()
    }

    fn names(&self, host: &str) -> bool {
        let host = host.trim_end_matches('.');
        self.inside.iter().any(|inside| match inside {
            Internal::Name(name) => name == host,
            Internal::Range(_) => false,
        })
    }

    fn has(&self, address: IpAddr) -> bool {
        self.inside.iter().any(|inside| match inside {
            Internal::Range(range) => range.has(address),
            Internal::Name(_) => false,
        })
    }
}

/// The host in lower case; an IPv6 address without its brackets.
fn host(url: &Url) -> Option<String> {
    let host = url.host_str()?.trim_start_matches('[').trim_end_matches(']');
    (!host.is_empty()).then(|| host.to_ascii_lowercase())
}

/// Whether an address is one of the public Internet, by the special-purpose registries of RFC 6890.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            let [a, b, c, _] = address.octets();
            let shared = a == 100 && (64..128).contains(&b);
            let special =
                a == 0 || (a, b, c) == (192, 0, 0) || (a == 198 && (b == 18 || b == 19)) || a >= 224;
            !(shared
                || special
                || address.is_private()
                || address.is_loopback()
                || address.is_link_local()
                || address.is_documentation())
        }
        IpAddr::V6(address) => is_public_v6(address),
    }
}

/// Global unicast, without those ranges of it that lead to addresses of version 4 or to none.
fn is_public_v6(address: Ipv6Addr) -> bool {
    let [first, second, ..] = address.segments();
    let global = first & 0xe000 == 0x2000;
    let special = (first == 0x2001 && (second < 0x0200 || second == 0x0db8)) || first == 0x2002;
    global && !special
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reach(hosts: &str) -> Reach {
        #[derive(serde::Deserialize)]
        struct File {
            hosts: Vec<Internal>,
        }
        let file: File = toml::from_str(&format!("hosts = {hosts}")).unwrap();
        Reach::new(file.hosts)
    }

    #[test]
    fn only_plain_https_addresses_are_taken_and_those_that_are_named() {
        let reach = reach("[\"10.0.0.0/8\", \"Jenkins.local\"]");
        for good in
            ["https://ci.example.com/a", "http://10.1.2.3", "http://JENKINS.local:8080", "https://[::1]"]
        {
            assert!(reach.target(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "ci.example.com",
            "file:///etc/passwd",
            "ftp://10.1.2.3",
            "http://ci.example.com",
            "http://127.0.0.1",
            "http://0x7f.1",
            "https://bot:x@ci.example.com",
            "https://ci.example.com/?",
            "https://ci.example.com/#x",
        ] {
            assert!(reach.target(bad).is_err(), "{bad}");
        }
    }

    #[tokio::test]
    async fn nothing_inside_is_reached_that_is_not_named() {
        let within = Duration::from_secs(10);
        let reached =
            async |reach: &Reach, url: &str| reach.client(&Url::parse(url).unwrap(), within).await.is_some();
        let (none, some) = (Reach::default(), reach("[\"127.0.0.0/8\", \"::1\"]"));
        for url in
            ["https://127.0.0.1", "https://2130706433", "https://[::ffff:127.0.0.1]", "https://localhost"]
        {
            assert!(!reached(&none, url).await, "{url}");
            assert!(reached(&some, url).await, "{url}");
        }
        for url in [
            "https://169.254.169.254",
            "https://192.168.1.1",
            "https://100.64.0.1",
            "https://0.0.0.0",
            "https://[fd00::1]",
            "https://[fe80::1]",
            "https://[64:ff9b::7f00:1]",
            "https://[2002:7f00:1::]",
        ] {
            assert!(!reached(&some, url).await, "{url}");
        }
        assert!(reached(&none, "https://93.184.215.14").await);
        assert!(reached(&none, "https://[2606:2800:21f::1]").await);
    }
}
