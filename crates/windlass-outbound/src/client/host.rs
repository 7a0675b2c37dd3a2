//! Hosts in the notation of settings: a name, all names below a domain, an address, or a range of addresses.
//!
//! This module resolves no names.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::{IpNet, Ipv4Net};
use reqwest::Url;
use serde::{Deserialize, Deserializer};

/// A host or a set of hosts, in the notation of a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host {
    /// `docs.example.com`: exactly this name.
    Name(String),
    /// `*.example.com`: every name below this domain, but not the domain itself.
    Under(String),
    /// `10.0.0.7` or `10.0.0.0/8`: addresses, for any names of their hosts.
    Range(IpNet),
}

impl Host {
    /// Whether a host's name matches. The name must be in the form of `plain`.
    pub fn names(&self, host: &str) -> bool {
        match self {
            Self::Name(name) => name == host,
            Self::Under(name) => {
                host.strip_suffix(name.as_str()).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
            }
            Self::Range(_) => false,
        }
    }

    /// Whether an address matches. An IPv4-mapped IPv6 address is treated as its IPv4 address.
    pub fn has(&self, address: IpAddr) -> bool {
        match self {
            Self::Range(range) => range.contains(&address.to_canonical()),
            Self::Name(_) | Self::Under(_) => false,
        }
    }
}

/// Returns the host of a URL in comparable form: lower case, no brackets
/// around an IPv6 address, no trailing dot.
pub fn plain(url: &Url) -> Option<String> {
    let host = url.host_str()?.trim_start_matches('[').trim_end_matches(']').trim_end_matches('.');
    (!host.is_empty()).then(|| host.to_ascii_lowercase())
}

impl FromStr for Host {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let range = text.parse::<IpNet>().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
        if let Ok(range) = range {
            return of_version_4(range).map(Self::Range).ok_or_else(|| {
                format!("`{text}` contains IPv4 and IPv6 addresses; write an IPv4 range as `10.0.0.0/8`")
            });
        }
        let (is_under, name) = match text.strip_prefix("*.") {
            Some(name) => (true, name),
            None => (false, text),
        };
        // The URL parser validates host names, and normalizes them in the same way as in requests.
        let parsed = Url::parse(&format!("http://{name}/")).ok();
        let known = parsed.filter(|_| !name.contains([':', '/', '\\', '@', '?', '#', '%', '[']));
        let name = known.and_then(|url| plain(&url));
        let is_name = |name: &String| {
            !name.contains('*')
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
        };
        match name.filter(is_name) {
            // Clients interpret `0x7f.1` and similar names as addresses.
            Some(name) if name.parse::<IpAddr>().is_ok() => Err(unreadable(text)),
            Some(name) if is_under => Ok(Self::Under(name)),
            Some(name) => Ok(Self::Name(name)),
            None => Err(unreadable(text)),
        }
    }
}

/// Converts a range of IPv4-mapped addresses to IPv4: see [`Host::has`]. Returns `None` for a range that
/// contains both mapped and other addresses.
fn of_version_4(range: IpNet) -> Option<IpNet> {
    match range {
        IpNet::V6(range) => match (range.addr().to_ipv4_mapped(), range.prefix_len().checked_sub(MAPPED)) {
            (Some(address), Some(prefix)) => Ipv4Net::new(address, prefix).ok().map(IpNet::V4),
            (Some(_), None) => None,
            (None, _) => Some(range.into()),
        },
        IpNet::V4(_) => Some(range),
    }
}

/// Length of the prefix of IPv4-mapped IPv6 addresses (RFC 4291, section 2.5.5.2).
const MAPPED: u8 = 96;

fn unreadable(text: &str) -> String {
    format!(
        "`{text}` is not a valid host; write `docs.example.com`, `*.example.com` or a range such as \
         `10.0.0.0/8`"
    )
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Under(name) => write!(f, "*.{name}"),
            Self::Range(range) => range.fmt(f),
        }
    }
}

impl<'de> Deserialize<'de> for Host {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_names_names_and_ranges() {
        let read = |text: &str| text.parse::<Host>().map(|host| host.to_string());
        for (text, shown) in [
            ("Docs.Example.com", "docs.example.com"),
            ("example.com.", "example.com"),
            ("*.Example.com", "*.example.com"),
            ("bücher.example", "xn--bcher-kva.example"),
            ("10.0.0.0/8", "10.0.0.0/8"),
            ("10.0.0.7", "10.0.0.7/32"),
            ("fd00::/8", "fd00::/8"),
            ("my_host", "my_host"),
        ] {
            assert_eq!(read(text).as_deref(), Ok(shown), "{text}");
        }
        for text in [
            "",
            "*",
            "*.",
            "a.*.b",
            "https://a",
            "a/b",
            "a:80",
            "u@a",
            "a?b",
            "a b",
            "0x7f.1",
            "[::1]",
            "10.0.0.0/33",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn an_address_of_version_4_is_the_same_however_it_is_written() {
        for (range, address, is_meant) in [
            ("::ffff:10.0.0.0/104", "10.1.2.3", true),
            ("::ffff:10.0.0.0/104", "::ffff:10.1.2.3", true),
            ("::ffff:10.0.0.0/104", "11.1.2.3", false),
            ("::ffff:10.0.0.7", "10.0.0.7", true),
            ("::ffff:0:0/96", "192.0.2.1", true),
            ("10.0.0.0/8", "::ffff:10.1.2.3", true),
            ("fd00::/8", "fd12::1", true),
        ] {
            let host: Host = range.parse().unwrap();
            assert_eq!(host.has(address.parse().unwrap()), is_meant, "{range} {address}");
        }
        // This range contains all IPv4-mapped addresses and others, so it is ambiguous.
        let said = "::ffff:0:0/90".parse::<Host>().unwrap_err();
        assert!(said.contains("`::ffff:0:0/90`"), "{said}");
    }

    #[test]
    fn under_a_name_is_not_beside_it() {
        let under: Host = "*.example.com".parse().unwrap();
        assert!(under.names("a.example.com") && under.names("a.b.example.com"));
        for other in ["example.com", "badexample.com", ".example.com", "example.com.evil.org"] {
            assert!(!under.names(other), "{other}");
        }
    }
}
