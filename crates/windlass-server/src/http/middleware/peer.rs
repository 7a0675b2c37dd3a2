//! Determines the client address: the connection's peer, or the client named by a trusted proxy.
//!
//! The server ignores forwarding headers of untrusted peers, because any client can send them.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::{HeaderMap, HeaderName, header};

use crate::config::Range;
use crate::http::Shared;

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// The peer of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    pub address: SocketAddr,
    /// Whether the connection uses TLS.
    pub secure: bool,
}

/// The client that made a request. Handlers find it in the request's extensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Client {
    pub address: IpAddr,
    /// Whether the client reached the server, or a trusted proxy, over TLS.
    pub secure: bool,
    /// Whether the client is a program on this machine that connected without a proxy.
    pub local: bool,
}

/// Determines the client and stores it in the request's extensions.
pub async fn find(State(app): State<Shared>, mut request: Request, next: Next) -> Response {
    if let Some(peer) = request.extensions().get::<Peer>().copied() {
        let proxies = app.config.settings.server.proxies.as_deref().unwrap_or_default();
        let client = client(peer, request.headers(), proxies);
        request.extensions_mut().insert(client);
    }
    next.run(request).await
}

fn client(peer: Peer, headers: &HeaderMap, proxies: &[Range]) -> Client {
    let trusted = |address: IpAddr| proxies.iter().any(|range| range.has(address));
    let direct = peer.address.ip().to_canonical();
    let is_forwarded =
        [FORWARDED_FOR, header::FORWARDED, header::VIA].iter().any(|name| headers.contains_key(name));
    if !trusted(direct) {
        let local = direct.is_loopback() && !is_forwarded;
        return Client { address: direct, secure: peer.secure, local };
    }
    // Each proxy appends the address of its peer. The last address that is not a trusted proxy is the client.
    let named = headers.get_all(FORWARDED_FOR).iter().filter_map(|value| value.to_str().ok());
    let mut chain: Vec<&str> = named.flat_map(|value| value.split(',')).collect();
    let mut address = direct;
    while let Some(before) = chain.pop().and_then(address_in) {
        address = before;
        if !trusted(before) {
            break;
        }
    }
    let proto = headers.get_all(FORWARDED_PROTO).iter().next_back().and_then(|value| value.to_str().ok());
    let proto = proto.and_then(|value| value.rsplit(',').next()).map(str::trim);
    let secure = proto.map_or(peer.secure, |proto| proto.eq_ignore_ascii_case("https"));
    Client { address, secure, local: false }
}

/// Parses an address of a forwarding header, with or without a port.
pub fn address_in(text: &str) -> Option<IpAddr> {
    let text = text.trim();
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    let address = bare.parse().ok().or_else(|| text.parse::<SocketAddr>().ok().map(|found| found.ip()));
    address.map(|address: IpAddr| address.to_canonical())
}

/// Returns the address to count requests by. For IPv6, this is the address of the /64 network, which one customer
/// controls.
pub fn address_of(address: IpAddr) -> IpAddr {
    const NETWORK: u128 = !0 << 64;
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & NETWORK).into(),
        address @ IpAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(peer: &str, headers: &[(&str, &str)]) -> String {
        let proxies: Vec<Range> = serde_json::from_str(r#"["10.0.0.0/8", "127.0.0.2", "fd00::/8"]"#).unwrap();
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
        }
        let peer = Peer { address: peer.parse().unwrap(), secure: false };
        let Client { address, secure, local } = client(peer, &map, &proxies);
        format!("{address}{}{}", if secure { " tls" } else { "" }, if local { " local" } else { "" })
    }

    #[test]
    fn only_proxies_that_are_trusted_are_believed() {
        let named = ("x-forwarded-for", "203.0.113.9");
        assert_eq!(seen("127.0.0.1:1", &[]), "127.0.0.1 local");
        assert_eq!(seen("127.0.0.1:1", &[named]), "127.0.0.1");
        assert_eq!(seen("198.51.100.1:1", &[named, ("x-forwarded-proto", "https")]), "198.51.100.1");
        assert_eq!(seen("10.1.1.1:1", &[named, ("x-forwarded-proto", "https")]), "203.0.113.9 tls");
        assert_eq!(seen("127.0.0.2:1", &[]), "127.0.0.2");
        // Entries that the client wrote precede those of the proxies.
        let forged = ("x-forwarded-for", "127.0.0.1, 203.0.113.9, 10.0.0.3");
        assert_eq!(seen("10.1.1.1:1", &[forged]), "203.0.113.9");
        assert_eq!(seen("[fd00::1]:1", &[named, ("x-forwarded-for", "[2001:db8::5]:99")]), "2001:db8::5");
        assert_eq!(seen("10.1.1.1:1", &[("x-forwarded-for", "203.0.113.9, nonsense")]), "10.1.1.1");
        assert_eq!(seen("[::ffff:10.0.0.1]:1", &[named]), "203.0.113.9");
    }

    #[test]
    fn a_network_of_the_sixth_version_is_one_address() {
        let counted = |text: &str| address_of(text.parse().unwrap()).to_string();
        assert_eq!(counted("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
        assert_eq!((counted("::ffff:1.2.3.4"), counted("1.2.3.4")), ("1.2.3.4".into(), "1.2.3.4".into()));
    }
}
