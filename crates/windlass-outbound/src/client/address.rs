//! Classifies IP addresses by the special-purpose registries of RFC 6890 and its updates.
//!
//! An address is public only if the registries assign its range for public use.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Returns the kind of a non-public address, as text for users; `None` for a public address.
pub fn not_public(address: IpAddr) -> Option<&'static str> {
    match address.to_canonical() {
        IpAddr::V4(address) => not_public_v4(address),
        IpAddr::V6(address) => not_public_v6(address),
    }
}

fn not_public_v4(address: Ipv4Addr) -> Option<&'static str> {
    let [a, b, c, _] = address.octets();
    Some(match (a, b, c) {
        (0, ..) => "unspecified",
        (10, ..) | (172, 16..=31, _) | (192, 168, _) => "private",
        (127, ..) => "loopback",
        // Most clouds serve instance metadata at 169.254.169.254.
        (169, 254, _) => "link-local",
        (100, 64..=127, _) => "shared (carrier-grade NAT)",
        (192, 0, 0) | (192, 88, 99) | (198, 18..=19, _) => "special",
        (192, 0, 2) | (198, 51, 100) | (203, 0, 113) => "documentation",
        (224..=239, ..) => "multicast",
        (240..=255, ..) => "reserved",
        _ => return None,
    })
}

fn not_public_v6(address: Ipv6Addr) -> Option<&'static str> {
    let [first, second, third, ..] = address.segments();
    Some(match first {
        _ if address.is_unspecified() => "unspecified",
        _ if address.is_loopback() => "loopback",
        0x0064 if second == 0xff9b => "NAT64 (embedded IPv4)",
        // The rest of `::/8` contains IPv4 addresses in obsolete notations.
        0x0000..=0x00ff => "special",
        0xfc00..=0xfdff => "private (unique local)",
        0xfe80..=0xfebf => "link-local",
        0xfec0..=0xfeff => "site-local",
        0xff00..=0xffff => "multicast",
        0x2001 if second == 0 => "Teredo (embedded IPv4)",
        0x2001 if second < 0x0200 => "special",
        0x2001 if second == 0x0db8 => "documentation",
        0x2002 => "6to4 (embedded IPv4)",
        0x3fff if second < 0x1000 => "documentation",
        // AS112 redirects names of private addresses to this range.
        0x2620 if (second, third) == (0x004f, 0x8000) => "special",
        0x2000..=0x3fff => return None,
        _ => "reserved",
    })
}
