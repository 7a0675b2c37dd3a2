//! Redirects: each hop is judged, and credentials stay with their origin.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{AUTHORIZATION, COOKIE};
use http::{HeaderMap, HeaderValue, Method};
use windlass::outbound::{HopCheck, Outbound, Redirects, Request};

use super::{Far, Reply, inside, request, way};

fn everywhere() -> Redirects {
    let check: Arc<HopCheck> = Arc::new(|_, _| true);
    Redirects::Follow(check)
}

fn by(outbound: &Outbound, method: Method, url: &str) -> impl Future<Output = String> {
    let request = Request { method, redirects: everywhere(), ..request(url).unwrap() };
    let outbound = outbound.clone();
    async move {
        match outbound.send(request).await {
            Ok(response) => format!("{} {}", response.status.as_u16(), response.url.path()),
            Err(error) => error.to_string(),
        }
    }
}

#[tokio::test]
async fn each_hop_is_judged_as_the_first_address_was() {
    // The first ones stay on this machine, in case they are followed.
    let targets = [
        ("http://0x7f.2/", "loopback address 127.0.0.2"),
        ("http://169.254.169.254/latest/", "link-local"),
        ("http://[::1]/", "loopback"),
        ("//[::ffff:10.0.0.1]/", "private"),
        ("http://2130706434/", "loopback address 127.0.0.2"),
        ("http://private.test/", "private address 10.1.2.3"),
        ("file:///etc/passwd", "`file` URLs"),
        ("ftp://a.test/", "`ftp` URLs"),
        ("http://u:p@a.test/", "a user name or password"),
        ("http://[64:ff9b::1]/", "NAT64"),
        // An invalid URL is not a redirect.
        ("http://[bad", "302 /0"),
    ];
    let far = Far::start(move |asked| {
        let path = asked.line().split_once(' ').unwrap().1.to_owned();
        let index: usize = path[1..].parse().unwrap_or_default();
        Reply::to(302, targets[index].0)
    })
    .await;
    let way =
        way(inside(&["a.test", "127.0.0.1"]), &[("private.test", &["10.1.2.3"]), ("a.test", &["127.0.0.1"])]);
    for (index, (to, expected)) in targets.iter().enumerate() {
        let expected = expected.replace("/0", &format!("/{index}"));
        let said = by(&way, Method::GET, &far.named("a.test", &format!("/{index}"))).await;
        assert!(said.contains(&expected), "{to}: {said}");
    }
    assert_eq!(far.asked().len(), targets.len());
}

#[tokio::test]
async fn redirects_have_an_end() {
    let far = Far::start(|asked| {
        let path = asked.line().split_once(' ').unwrap().1.to_owned();
        match path.as_str() {
            "/5" => Reply::ok("text/plain", "there"),
            "/round" => Reply::to(302, "/round"),
            path => Reply::to(302, &format!("/{}", path[1..].parse::<u32>().unwrap() + 1)),
        }
    })
    .await;
    let way = way(inside(&["127.0.0.1"]), &[]);
    assert_eq!(by(&way, Method::GET, &far.url("/0")).await, "200 /5");
    let said = by(&way, Method::GET, &far.url("/round")).await;
    assert!(said.starts_with("more than 5 redirects, the last one to `http://127.0.0.1:"), "{said}");
    assert_eq!(far.lines().iter().filter(|line| line.ends_with("/round")).count(), 6);
    // By default, none is followed.
    let response = way.send(request(&far.url("/0")).unwrap()).await.unwrap();
    assert_eq!((response.status.as_u16(), response.leads_to().unwrap().path()), (302, "/1"));
}

#[tokio::test]
async fn credentials_are_sent_only_to_the_first_origin() {
    let other = Far::start(|_| Reply::ok("text/plain", "")).await;
    let to = other.url("/there");
    let far = Far::start(move |asked| match asked.line().as_str() {
        "GET /here" => Reply::to(307, "/same"),
        "GET /same" => Reply::to(307, &to),
        line => panic!("{line}"),
    })
    .await;
    let header = |name, value| HeaderMap::from_iter([(name, HeaderValue::from_static(value))]);
    let request = Request {
        headers: header(COOKIE, "a=SECRET-COOKIE"),
        credentials: header(AUTHORIZATION, "Bearer SECRET"),
        redirects: everywhere(),
        ..request(&far.url("/here")).unwrap()
    };
    way(inside(&["127.0.0.1"]), &[]).send(request).await.unwrap();
    let told = |far: &Far| far.asked().iter().filter(|asked| asked.head.contains("SECRET")).count();
    assert_eq!((far.asked().len(), told(&far)), (2, 2));
    assert_eq!((other.asked().len(), told(&other)), (1, 0));
}

#[tokio::test]
async fn what_was_sent_is_sent_again_only_where_the_answer_says_so() {
    let far = Far::start(|asked| {
        let path = asked.line().split_once(' ').unwrap().1.to_owned();
        match path[1..].parse::<u16>() {
            Ok(status) => Reply::to(status, "/end"),
            Err(_) => Reply::ok("text/plain", ""),
        }
    })
    .await;
    let way = way(inside(&["127.0.0.1"]), &[]);
    for (method, status, expected) in [
        (Method::POST, 301, "GET /end ''"),
        (Method::POST, 302, "GET /end ''"),
        (Method::PUT, 302, "PUT /end 'x'"),
        (Method::POST, 303, "GET /end ''"),
        (Method::PUT, 303, "GET /end ''"),
        (Method::POST, 307, "POST /end 'x'"),
        (Method::DELETE, 308, "DELETE /end 'x'"),
    ] {
        let url = far.url(&format!("/{status}"));
        let body = Some(Bytes::from_static(b"x"));
        let request =
            Request { method: method.clone(), body, redirects: everywhere(), ..request(&url).unwrap() };
        way.send(request).await.unwrap();
        let asked = far.asked().pop().unwrap();
        assert_eq!(format!("{} '{}'", asked.line(), asked.body), expected, "{method} {status}");
    }
}

#[tokio::test]
async fn credentials_do_not_go_over_the_network_in_clear() {
    let way = way(inside(&["127.0.0.1"]), &[("a.test", &["127.0.0.1"])]);
    let credentials = HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_static("Bearer SECRET"))]);
    let far = Far::start(|_| Reply::ok("text/plain", "")).await;
    let send = async |url: &str| {
        let request = Request { credentials: credentials.clone(), ..request(url).unwrap() };
        way.send(request).await.map(|response| response.status).map_err(|error| error.to_string())
    };
    assert!(send(&far.url("/")).await.is_ok());
    // Only the resolved address reveals that it is internal, which is known too late.
    let said = send(&far.named("a.test", "/")).await.unwrap_err();
    assert!(said.starts_with("credentials are not sent to `a.test` unencrypted"), "{said}");
    assert_eq!(far.asked().len(), 1);
}
