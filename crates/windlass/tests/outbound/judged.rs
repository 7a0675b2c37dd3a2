//! Which addresses may be called: each row is an address and its outcome.

use std::sync::Arc;

use windlass::outbound::{Host, Outbound, Ports, Reach};

use super::{Far, Names, Reply, get, inside, way};

/// Host names with misleading addresses.
pub const NAMES: &[(&str, &[&str])] = &[
    ("localhost", &["127.0.0.1 ::1"]),
    ("sub.localhost", &["127.0.0.1"]),
    ("meta.test", &["169.254.169.254"]),
    ("metadata.google.internal", &["169.254.169.254"]),
    ("private.test", &["10.1.2.3"]),
    ("mapped.test", &["::ffff:10.1.2.3"]),
    ("ula.test", &["fd12:3456::1"]),
    ("nat64.test", &["64:ff9b::7f00:1"]),
    ("six.test", &["2002:7f00:1::1"]),
    ("zero.test", &["0.0.0.0"]),
    ("nothing.test", &[""]),
];

/// Asserts the outcomes under the default rules. No request is sent.
async fn check(rows: &[(&str, &str)]) {
    let way = super::world();
    for (url, expected) in rows {
        let answer = get(&way, url).await.map(|response| response.status).map_err(|error| error.to_string());
        let said = answer.expect_err(url);
        assert!(said.contains(expected), "{url}: {said}");
    }
}

#[tokio::test]
async fn addresses_inside_are_refused_however_they_are_written() {
    check(&[
        ("http://127.0.0.1/", "loopback address 127.0.0.1"),
        ("http://127.1/", "loopback address 127.0.0.1"),
        ("http://127.255.255.254/", "loopback"),
        ("http://0177.0.0.1/", "loopback address 127.0.0.1"),
        ("http://2130706433/", "loopback address 127.0.0.1"),
        ("http://0x7f.1/", "loopback address 127.0.0.1"),
        ("http://0x7f000001/", "loopback address 127.0.0.1"),
        ("http://0x7F.0.0.0x1/", "loopback address 127.0.0.1"),
        ("http://127.0.0.1./", "loopback"),
        ("http://%31%32%37.0.0.1/", "loopback"),
        ("http://①②⑦.⓪.⓪.①/", "loopback"),
        ("http://127。0。0。1/", "loopback"),
        ("http://0/", "unspecified"),
        ("http://0.0.0.0/", "unspecified"),
        ("http://10.0.0.1/", "private"),
        ("http://172.16.0.1/", "private"),
        ("http://172.31.255.255/", "private"),
        ("http://192.168.1.1:8080/", "private"),
        ("http://169.254.169.254/latest/meta-data/", "link-local"),
        ("http://2852039166/", "link-local address 169.254.169.254"),
        ("http://0xa9.0xfe.0xa9.0xfe/", "link-local address 169.254.169.254"),
        ("http://100.64.0.1/", "shared"),
        ("http://100.127.255.255/", "shared"),
        ("http://192.0.0.170/", "special"),
        ("http://192.0.2.1/", "documentation"),
        ("http://192.88.99.1/", "special"),
        ("http://198.18.0.1/", "special"),
        ("http://224.0.0.1/", "multicast"),
        ("http://240.0.0.1/", "reserved"),
        ("http://255.255.255.255/", "reserved"),
        ("http://[::1]/", "loopback address ::1"),
        ("http://[0:0:0:0:0:0:0:1]/", "loopback"),
        ("http://[::]/", "unspecified"),
        ("http://[::ffff:127.0.0.1]/", "loopback"),
        ("http://[::ffff:7f00:1]/", "loopback"),
        ("http://[::ffff:169.254.169.254]/", "link-local"),
        ("http://[::127.0.0.1]/", "special"),
        ("http://[64:ff9b::127.0.0.1]/", "NAT64"),
        ("http://[64:ff9b:1::a00:1]/", "NAT64"),
        ("http://[2002:7f00:1::]/", "6to4"),
        ("http://[2002:a9fe:a9fe::]/", "6to4"),
        ("http://[2001:0:4136:e378::1]/", "Teredo"),
        ("http://[2001:db8::1]/", "documentation"),
        ("http://[3fff::1]/", "documentation"),
        ("http://[fc00::1]/", "private"),
        ("http://[fd00:ec2::254]/", "private"),
        ("http://[fe80::1]/", "link-local"),
        ("http://[fec0::1]/", "site-local"),
        ("http://[ff02::1]/", "multicast"),
        ("http://[100::1]/", "reserved"),
        ("http://[4000::1]/", "reserved"),
    ])
    .await;
}

#[tokio::test]
async fn names_of_addresses_inside_are_refused() {
    check(&[
        ("http://localhost/", "`localhost` is not allowed: it resolves to the loopback address"),
        ("http://LOCALHOST/", "loopback"),
        ("http://localhost./", "loopback"),
        ("http://sub.localhost/", "loopback"),
        ("http://meta.test/", "link-local address 169.254.169.254"),
        ("http://metadata.google.internal/computeMetadata/v1/", "link-local"),
        ("https://private.test/", "private address 10.1.2.3"),
        ("http://mapped.test/", "private address"),
        ("http://ula.test/", "private"),
        ("http://nat64.test/", "NAT64"),
        ("http://six.test/", "6to4"),
        ("http://zero.test/", "unspecified"),
        ("http://unknown.test/", "cannot reach `unknown.test`: no such name"),
    ])
    .await;
}

#[tokio::test]
async fn what_settings_name_is_called_and_nothing_beside_it() {
    let far = Far::start(|_| Reply::ok("text/plain", "hello")).await;
    let port = far.address.port();
    let hosts = |hosts: &[&str]| -> Vec<Host> { hosts.iter().map(|host| host.parse().unwrap()).collect() };
    let names: &[(&str, &[&str])] =
        &[("a.test", &["127.0.0.1"]), ("b.test", &["127.0.0.1"]), ("x.a.test", &["127.0.0.1"])];
    let loopback = inside(&["127.0.0.0/8"]);
    let only = |allowed: &[&str]| Reach { allow_hosts: hosts(allowed), ..loopback.clone() };
    let but = |denied: &[&str]| Reach { deny_hosts: hosts(denied), ..loopback.clone() };
    let ports = |ports: &[u16]| Reach { ports: Ports::Only(ports.to_vec()), ..loopback.clone() };
    let rows: Vec<(Reach, &str, &str)> = vec![
        (loopback.clone(), "127.0.0.1", "200 OK"),
        (loopback.clone(), "a.test", "200 OK"),
        (loopback.clone(), "[::1]", "internal_hosts"),
        (inside(&["a.test"]), "a.test", "200 OK"),
        (inside(&["a.test"]), "A.TEST", "200 OK"),
        (inside(&["a.test"]), "a.test.", "200 OK"),
        (inside(&["a.test"]), "b.test", "internal_hosts"),
        (inside(&["a.test"]), "127.0.0.1", "internal_hosts"),
        (inside(&["*.a.test"]), "x.a.test", "200 OK"),
        (inside(&["*.a.test"]), "a.test", "internal_hosts"),
        (only(&["a.test"]), "a.test", "200 OK"),
        (only(&["a.test"]), "b.test", "`allow_hosts` does not contain it"),
        (only(&["a.test"]), "127.0.0.1", "`allow_hosts` does not contain it"),
        (only(&["127.0.0.1"]), "b.test", "200 OK"),
        (only(&["10.0.0.0/8"]), "b.test", "`allow_hosts` does not contain it"),
        (but(&["a.test"]), "a.test", "`deny_hosts` contains it"),
        (but(&["a.test"]), "A.test.", "`deny_hosts` contains it"),
        (but(&["*.test"]), "b.test", "`deny_hosts` contains it"),
        (but(&["127.0.0.1"]), "b.test", "`deny_hosts` contains it"),
        (but(&["127.0.0.1"]), "0x7f.1", "`deny_hosts` contains it"),
        (ports(&[port]), "a.test", "200 OK"),
        (ports(&[80, 443]), "a.test", "the setting `ports`"),
        (Reach { ports: Ports::Usual, ..loopback.clone() }, "a.test", "the setting `ports`"),
    ];
    for (reach, host, expected) in rows {
        let answer = get(&way(reach, names), &far.named(host, "/")).await;
        let said = answer.map_or_else(|error| error.to_string(), |response| response.status.to_string());
        assert!(said.contains(expected), "{host}: {said}");
    }
}

#[tokio::test]
async fn a_name_cannot_mean_something_else_once_it_was_judged() {
    let far = Far::start(|_| Reply::ok("text/plain", "inside")).await;
    let url = far.named("turn.test", "/");
    // Public and internal at once: only the public ones would be called; here there is none.
    let names: &[(&str, &[&str])] = &[("turn.test", &["127.0.0.1 10.0.0.1 ::1", "127.0.0.1"])];
    let reach = Reach { ports: Ports::Any, ..Reach::default() };
    let turning = way(reach, names);
    for _ in 0..3 {
        let said = get(&turning, &url).await.unwrap_err().to_string();
        assert!(said.contains("internal_hosts"), "{said}");
    }
    assert!(far.asked().is_empty());
    // Of two addresses, only the allowed one is called; nothing listens there.
    let names: &[(&str, &[&str])] = &[("turn.test", &["127.0.0.1 127.0.0.2", "127.0.0.2 127.0.0.1"])];
    let mixed = way(inside(&["127.0.0.2"]), names);
    for _ in 0..2 {
        let said = get(&mixed, &url).await.unwrap_err().to_string();
        assert!(said.contains("cannot reach"), "{said}");
    }
    assert!(far.asked().is_empty());
    // One connection makes one lookup: there is none between the judgement and the call.
    let names = Arc::new(Names::new(&[("turn.test", &["127.0.0.1", "10.0.0.1"])]));
    let once = Outbound::with_resolver(inside(&["127.0.0.1"]), names.clone());
    assert_eq!(get(&once, &url).await.unwrap().body.bytes, b"inside");
    assert_eq!(names.asked(), ["turn.test"]);
    let said = get(&once, &url).await.unwrap_err().to_string();
    assert!(said.contains("10.0.0.1"), "{said}");
}
