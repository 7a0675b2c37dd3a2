//! Authorization: every route of the API against every kind of caller. A route that is missing here fails the test.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU32, Ordering};

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use windlass::clock::SystemClock;
use windlass::machine::Digest;
use windlass::port::clock::Clock;

use super::pictures::DOT;
use super::{Answer, Server, answer};
use crate::cli::User;

/// Each route with its required caller, and a valid body.
///
/// `open`: any caller. `token`: a caller with a token of the route's own kind. `login`: a signed-in user, but no API
/// key. `any`: any authenticated caller. `member`, `admin`: that role or a higher one. `operator`: an administrator of
/// the first workspace. `ann's`: Ann and administrators of her workspace; for others the object does not exist.
const ROUTES: &str = r#"
get    /health                                  open
get    /health/ready                            open
get    /version                                 open
get    /auth/options                            open
get    /auth/link                               open
post   /auth/link                               open   {"token": "x"}
post   /auth/login                              open   {"email": "a@example.com", "password": "12345678"}
post   /auth/register                           open   {"email": "z@example.com", "password": "12345678"}
post   /auth/password/reset                     open   {"token": "x", "password": "12345678"}
post   /auth/refresh                            token  {}
get    /auth/oidc/{provider}                    open
get    /auth/oidc/{provider}/callback           open
post   /auth/logout                             open   {}
get    /auth/me                                 any
patch  /auth/me                                 any    {"name": "x"}
put    /auth/password                           login  {"current_password": "12345678", "new_password": "12345679"}
get    /auth/sessions                           any
delete /auth/sessions                           any
delete /auth/sessions/{session}                 any
get    /agents                                  any
get    /agents/{agent}                          any
get    /models                                  any
get    /tools                                   any
get    /tools/{tool}                            any
post   /tools/{tool}/call                       member {"arguments": {"file_path": "data.csv"}}
get    /toolsets                                any
get    /toolsets/{toolset}                      any
get    /usage                                   any
get    /limits                                  any
get    /files                                   any
get    /files/{name}                            any    ann's
put    /files/{name}                            member
delete /files/{name}                            member
get    /allowlist                               any
put    /allowlist/{tool}                        member
delete /allowlist/{tool}                        member
get    /auto-run                                any
put    /auto-run                                member {"auto_run": "ask"}
delete /auto-run                                member
get    /grants                                  any
post   /grants                                  member {"tool": "Read"}
get    /grants/{grant}                          any    ann's
delete /grants/{grant}                          member ann's
get    /integrations                            any
post   /integrations                            admin  {"provider": "fax", "name": "x"}
patch  /integrations/{integration}              admin  {"name": "x"}
delete /integrations/{integration}              admin
post   /integrations/{integration}/check        admin  {}
get    /interrupts                              any
post   /interrupts/answers                      member {"answers": [{"interrupt": "none", "answer": {"kind": "approve"}}]}
get    /interrupts/{interrupt}                  any    ann's
post   /interrupts/{interrupt}/answer           member ann's {"answer": {"kind": "raise", "to": 1}}
get    /keys                                    any
post   /keys                                    any    {"name": "x"}
delete /keys/{key}                              any    ann's
get    /mcp/callback                            operator
post   /mcp/callback                            operator {"code": "x", "state": "y"}
get    /mcp/servers                             any
post   /mcp/servers                             operator {"name": "a"}
get    /mcp/servers/{server}                    any
delete /mcp/servers/{server}                    operator
get    /mcp/servers/{server}/log                operator
get    /mcp/servers/{server}/prompts            any
post   /mcp/servers/{server}/prompts/{prompt}   any    {}
post   /mcp/servers/{server}/reconnect          operator {}
post   /mcp/servers/{server}/sign-in            operator {}
delete /mcp/servers/{server}/sign-in            operator
get    /policy                                  operator
post   /policy/check                            member {"text": ""}
post   /policy/test                             member {"tool": "Read"}
get    /runs                                    any
post   /runs                                    member {"message": "x", "thread": "thr_none"}
get    /runs/{run}                              any    ann's
post   /runs/{run}/cancel                       member ann's {}
get    /runs/{run}/stream                       any    ann's
get    /runs/{run}/wait                         any    ann's
get    /team/members                            admin
post   /team/members                            admin  {"email": "nobody", "password": "12345678"}
get    /team/members/{member}                   admin
patch  /team/members/{member}                   admin  {"name": "x"}
delete /team/members/{member}                   admin
post   /team/members/{member}/reset             admin  {}
get    /team/members/{member}/sessions          admin
delete /team/members/{member}/sessions          admin
delete /team/members/{member}/sessions/{session} admin
get    /team/invites                            admin
post   /team/invites                            admin  {"role": "viewer"}
delete /team/invites/{link}                     admin
get    /audit                                   admin
get    /audit/export                            admin
get    /shares                                  any
get    /threads                                 any
get    /threads/{thread}                        any    ann's
patch  /threads/{thread}                        member ann's {"title": "x"}
delete /threads/{thread}                        member ann's
get    /threads/{thread}/commands               any    ann's
delete /threads/{thread}/commands/{command}     member ann's
get    /threads/{thread}/events                 any    ann's
get    /threads/{thread}/export                 any    ann's
get    /threads/{thread}/files                  any    ann's
get    /threads/{thread}/files/content          any    ann's
put    /threads/{thread}/files/content          member ann's
post   /threads/{thread}/files/restore          member ann's {"at": 4000000000, "mode": "preview"}
post   /threads/{thread}/fork                   member ann's {"at": 0}
get    /threads/{thread}/messages               any    ann's
post   /threads/{thread}/messages               member ann's {"message": "x", "when_busy": "reject"}
get    /threads/{thread}/pictures/{digest}      any    ann's
get    /threads/{thread}/auto-run               any    ann's
put    /threads/{thread}/auto-run               member ann's {"auto_run": "ask"}
delete /threads/{thread}/auto-run               member ann's
get    /threads/{thread}/share                  any    ann's
put    /threads/{thread}/share                  member ann's
delete /threads/{thread}/share                  member ann's
get    /threads/{thread}/queue                  any    ann's
get    /threads/{thread}/queue/{message}        any    ann's
patch  /threads/{thread}/queue/{message}        member ann's {"message": "y"}
delete /threads/{thread}/queue/{message}        member ann's
post   /threads/{thread}/queue/{message}/send   member ann's {}
get    /threads/{thread}/steps/{seq}/prompt     any    ann's
get    /threads/{thread}/stream                 any    ann's
get    /threads/{thread}/updates                any    ann's
"#;

struct Route {
    method: Method,
    path: String,
    role: String,
    is_anns: bool,
    body: Option<Value>,
}

fn routes() -> Vec<Route> {
    let mut routes = Vec::new();
    for line in ROUTES.lines().filter(|line| !line.is_empty()) {
        let (head, body) = line.find('{').map_or((line, None), |_| {
            // A body begins after a space; the path contains braces too.
            let at = line.find(" {").map_or(line.len(), |at| at + 1);
            (&line[..at], Some(&line[at..]).filter(|body| !body.is_empty()))
        });
        let words: Vec<&str> = head.split_whitespace().collect();
        let [method, path, role, rest @ ..] = &words[..] else { panic!("no route: {line}") };
        routes.push(Route {
            method: method.to_uppercase().parse().unwrap(),
            path: (*path).to_owned(),
            role: (*role).to_owned(),
            is_anns: rest.contains(&"ann's"),
            body: body
                .map(|body| serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {line}"))),
        });
    }
    routes
}

#[tokio::test]
async fn every_route_is_in_the_table() {
    let server = Server::start(&[]);
    let document = answer(server.request(Method::GET, "/api/v1/openapi.json")).await.is(StatusCode::OK).body;
    let mut found = BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        let methods =
            item.as_object().unwrap().keys().filter(|key| !["parameters", "summary"].contains(&key.as_str()));
        found.extend(methods.map(|method| format!("{method} {}", path.trim_start_matches("/api/v1"))));
    }
    let known: BTreeSet<String> =
        routes().iter().map(|it| format!("{} {}", it.method.as_str().to_lowercase(), it.path)).collect();
    assert_eq!(known, found);
}

/// A server on which every object in a route belongs to Ann.
struct World {
    server: Server,
    /// The API key of each caller, by name.
    keys: BTreeMap<&'static str, Option<String>>,
    /// The values of path parameters.
    parts: BTreeMap<&'static str, String>,
    asked: AtomicU32,
}

impl World {
    async fn new() -> Self {
        // Each request uses a different client address, because addresses with failed attempts are throttled.
        let user = User::new();
        user.configure("[server]\nproxies = [\"127.0.0.0/8\"]\n");
        let server = Server::start_for(user, &[]);
        let boss = server.key(&[]);
        let user = |email: &str, arguments: &[&str]| server.add_user(email, arguments);
        let key = |user: &str| server.key(&["--user", user]);
        let ann_id = user("ann@example.com", &[]);
        let ann = key(&ann_id);
        let reader = server.key(&["--user", &ann_id, "--scope", "read"]);
        let expiring = json!({"name": "soon", "expires_at": now_ms() + 400});
        let expired = server.post("/api/v1/keys", &ann, &expiring).await.is(StatusCode::CREATED).body;
        let taken_back = server.post("/api/v1/keys", &ann, &json!({"name": "gone"})).await.body;
        let kept = server.post("/api/v1/keys", &ann, &json!({"name": "kept"})).await.body;
        let secret = |made: &Value| made["secret"].as_str().unwrap_or_else(|| panic!("{made:#}")).to_owned();
        let gone = format!(
            "/api/v1/keys/{}",
            taken_back["key"]["id"].as_str().or(taken_back["id"].as_str()).unwrap()
        );
        answer(server.request(Method::DELETE, &gone).bearer_auth(&ann)).await.is(StatusCode::NO_CONTENT);
        let keys = BTreeMap::from([
            ("nobody", None),
            ("garbage", Some("wls_garbage".to_owned())),
            ("revoked", Some(secret(&taken_back))),
            ("expired", Some(secret(&expired))),
            ("viewer", Some(key(&user("v@example.com", &["--role", "viewer"])))),
            ("bob", Some(key(&user("bob@example.com", &[])))),
            ("elsewhere", Some(key(&user("e@example.com", &["--role", "admin", "--workspace", "b"])))),
            ("reader", Some(reader)),
            ("ann", Some(ann.clone())),
            ("boss", Some(boss)),
        ]);
        let mut world = Self { server, keys, parts: BTreeMap::new(), asked: AtomicU32::default() };
        world.fill(&ann, &ann_id, kept["key"]["id"].as_str().or(kept["id"].as_str()).unwrap()).await;
        world
    }

    async fn fill(&mut self, ann: &str, ann_id: &str, key: &str) {
        let server = &self.server;
        let upload = server.request(Method::PUT, "/api/v1/files/data.csv").bearer_auth(ann);
        answer(upload.body("city,people\nRome,3\n")).await.is(StatusCode::CREATED);
        // The folder of the conversation is empty; the agent looks and asks before it writes.
        let picture = server.request(Method::PUT, "/api/v1/files/dot.png").bearer_auth(ann);
        answer(picture.body(DOT)).await.is(StatusCode::CREATED);
        let sent = json!({"message": "Remember insights.md", "attachments": [{"upload": "dot.png"}]});
        let run = server.post("/api/v1/runs", ann, &sent).await.is(StatusCode::CREATED).body;
        let (thread, run) = (run["thread"].as_str().unwrap(), run["run"].as_str().unwrap());
        let grant =
            server.post("/api/v1/grants", ann, &json!({"tool": "Read"})).await.is(StatusCode::CREATED).body;
        self.parts = BTreeMap::from([
            ("thread", thread.to_owned()),
            ("run", run.to_owned()),
            ("grant", grant["id"].as_str().unwrap().to_owned()),
            ("key", key.to_owned()),
            ("name", "data.csv".to_owned()),
            ("member", ann_id.to_owned()),
            ("interrupt", format!("{run}.none")),
            ("message", "msg_none".to_owned()),
            ("command", "bash_none".to_owned()),
            ("session", "none".to_owned()),
            ("integration", "int_none".to_owned()),
            ("link", "none".to_owned()),
            ("provider", "none".to_owned()),
            ("server", "none".to_owned()),
            ("prompt", "none".to_owned()),
            ("agent", "default".to_owned()),
            ("tool", "Read".to_owned()),
            ("toolset", "planning".to_owned()),
            ("seq", "1".to_owned()),
            ("digest", Digest::of(DOT).to_string()),
        ]);
    }

    async fn ask(&self, route: &Route, who: &str) -> Answer {
        let mut path = format!("/api/v1{}", route.path);
        for (part, value) in &self.parts {
            path = path.replace(&format!("{{{part}}}"), value);
        }
        assert!(!path.contains('{'), "{path}");
        if path.ends_with("/files/content") {
            path.push_str("?path=a.txt");
        }
        let asked = self.asked.fetch_add(1, Ordering::Relaxed);
        let address = format!("10.0.{}.{}", asked / 250, asked % 250);
        let mut request = self.server.request(route.method.clone(), &path).header("x-forwarded-for", address);
        if let Some(key) = &self.keys[who] {
            request = request.bearer_auth(key);
        }
        if let Some(body) = &route.body {
            request = request.json(body);
        }
        // An authorized stream does not end by itself.
        if route.path.ends_with("/stream") {
            let response = request.send().await.unwrap();
            let (status, headers) = (response.status().as_u16(), response.headers().clone());
            let is_problem = headers["content-type"] == "application/problem+json";
            let body = if is_problem { response.json().await.unwrap() } else { Value::Null };
            return Answer { status, headers, body };
        }
        answer(request).await
    }
}

fn now_ms() -> u64 {
    SystemClock::new().now().0
}

/// The verdict on a request: `401`, `403`, `404`, or `in` if the caller was authorized.
fn verdict(answer: &Answer) -> &'static str {
    assert!(answer.status < 500, "{answer:#?}");
    match (answer.status, answer.body["code"].as_str()) {
        (401, Some("unauthenticated")) => "401",
        (403, _) => "403",
        (404, _) => "404",
        _ => "in",
    }
}

fn wanted(route: &Route, who: &str) -> &'static [&'static str] {
    let known = !["nobody", "garbage", "revoked", "expired"].contains(&who);
    // The arguments of a prompt are in a body.
    let reads = route.role == "any" && (route.method == Method::GET || route.path.ends_with("/{prompt}"));
    match (route.role.as_str(), who) {
        ("open", _) => &["in", "404", "403"],
        ("token", _) => &["401"],
        (_, _) if !known => &["401"],
        ("login", _) => &["403"],
        // A read-only key changes nothing, including its user's own settings and keys.
        (_, "reader") if !reads => &["403"],
        ("member", "viewer") => &["403", "404"],
        // Objects shared by all workspaces require an administrator of the first one.
        ("operator", "viewer" | "bob" | "ann" | "reader" | "elsewhere") => &["403"],
        ("admin", "viewer" | "bob" | "ann" | "reader") => &["403"],
        (_, "viewer" | "bob" | "elsewhere") if route.is_anns => &["404"],
        // An account of another workspace does not exist for the caller.
        ("admin", "elsewhere") if route.path.contains('{') => &["404"],
        // The object in the path may be missing even for an authorized caller.
        _ => &["in", "404"],
    }
}

// rows: SK-X7
#[tokio::test]
async fn everybody_gets_what_is_theirs_and_nothing_else() {
    let world = World::new().await;
    let expired = Route {
        method: Method::GET,
        path: "/auth/me".into(),
        role: "any".into(),
        is_anns: false,
        body: None,
    };
    // The key expires within half a second.
    while verdict(&world.ask(&expired, "expired").await) == "in" {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await; // tidy: sleep the key's time has to pass
    }
    let mut wrong = Vec::new();
    // Authorized callers change state, so they come last.
    for who in
        ["nobody", "garbage", "revoked", "expired", "viewer", "bob", "elsewhere", "reader", "ann", "boss"]
    {
        for route in routes() {
            let answer = world.ask(&route, who).await;
            let (found, wanted) = (verdict(&answer), wanted(&route, who));
            if !wanted.contains(&found) {
                let Route { method, path, .. } = &route;
                wrong.push(format!(
                    "{who}: {method} {path}: {found}, wanted {wanted:?}: {}",
                    answer.body["detail"]
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The routes of a shared conversation that its readers may use.
const OF_READERS: &[&str] = &[
    "/threads/{thread}",
    "/threads/{thread}/events",
    "/threads/{thread}/messages",
    "/threads/{thread}/pictures/{digest}",
    "/threads/{thread}/share",
    "/threads/{thread}/stream",
    "/threads/{thread}/updates",
];

#[tokio::test]
async fn what_is_shared_is_read_in_its_workspace_and_nothing_more_of_it() {
    let world = World::new().await;
    let share = |method: Method| {
        routes()
            .into_iter()
            .find(|route| route.method == method && route.path == "/threads/{thread}/share")
            .unwrap()
    };
    assert_eq!(verdict(&world.ask(&share(Method::PUT), "ann").await), "in");
    let mut wrong = Vec::new();
    for shared in [true, false] {
        if !shared {
            assert_eq!(verdict(&world.ask(&share(Method::DELETE), "ann").await), "in");
        }
        for (who, is_here) in [("viewer", true), ("bob", true), ("elsewhere", false), ("nobody", false)] {
            for route in routes().iter().filter(|route| route.is_anns) {
                let of_readers = route.method == Method::GET && OF_READERS.contains(&&*route.path);
                let wanted: &[&str] = match who {
                    "nobody" => &["401"],
                    _ if shared && is_here && of_readers => &["in"],
                    "viewer" => &["403", "404"],
                    _ => &["404"],
                };
                let found = verdict(&world.ask(route, who).await);
                if !wanted.contains(&found) {
                    wrong.push(format!("{who}: {} {}: {found}, wanted {wanted:?}", route.method, route.path));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
