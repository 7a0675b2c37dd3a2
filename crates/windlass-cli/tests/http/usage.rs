//! Usage of runs, for authorized users.

use reqwest::StatusCode;
use serde_json::json;

use super::Server;

// rows: OV-21
#[tokio::test]
async fn usage_is_visible_to_the_owner_and_to_administrators() {
    let server = Server::start(&[]);
    server.user.run(&["run", "--yes", crate::cli::TASK]).exits(0);
    let key = server.key(&[]);
    let told = server.get("/api/v1/usage", &key).await.is(StatusCode::OK).body;
    // rows: SK-P15
    let totals = &told["totals"];
    assert_eq!((&totals["runs"], &totals["threads"]), (&json!(1), &json!(1)), "{told:#}");
    assert_eq!(told["step_ms"], json!(6 * 3_600_000));
    let points = told["series"].as_array().unwrap();
    assert_eq!(points.len(), 28);
    let runs: u64 = points.iter().map(|point| point["runs"].as_u64().unwrap()).sum();
    assert_eq!(runs, 1);
    assert_eq!(told["by_model"][0]["runs"], json!(1));
    let member = server.add_user("m@example.com", &[]);
    let member = server.key(&["--user", &member]);
    let none = server.get("/api/v1/usage", &member).await.is(StatusCode::OK).body;
    assert_eq!(none["totals"]["runs"], json!(0));
    server.get("/api/v1/usage?user=local", &member).await.is_problem(403, "forbidden");
    let threads = server.get("/api/v1/threads", &key).await.is(StatusCode::OK).body;
    let thread = threads["data"][0]["id"].as_str().unwrap();
    let begun = &threads["data"][0]["created_at"];
    let of = format!("/api/v1/usage?thread={thread}");
    let own = server.get(&of, &key).await.is(StatusCode::OK).body;
    assert_eq!(&own["totals"], totals);
    // The conversation is listed a moment after its first event, by the wall clock. Rounding may put the thread's own
    // time a millisecond ahead of it.
    assert!(own["from"].as_u64().unwrap() <= begun.as_u64().unwrap() + 1, "{own:#} {begun}");
    let begun = own["from"].as_u64().unwrap();
    let before = format!("{of}&from={}&until={begun}", begun - 1);
    assert_eq!(server.get(&before, &key).await.is(StatusCode::OK).body["totals"]["runs"], json!(0));
    server.get(&of, &member).await.is_problem(404, "not_found");
    // Every reader of a conversation may see its cost.
    let share = server.request(reqwest::Method::PUT, &format!("/api/v1/threads/{thread}/share"));
    super::answer(share.bearer_auth(&key).json(&json!({}))).await.is(StatusCode::OK);
    let shared = server.get(&of, &member).await.is(StatusCode::OK).body;
    assert_eq!((&shared["totals"], shared.get("by_user")), (totals, None));
    for bad in ["from=5&until=5", "from=9&until=5", "step_ms=1", "step_ms=0", "from=x"] {
        server.get(&format!("/api/v1/usage?{bad}"), &key).await.is_problem(400, "bad_request");
    }
}

#[tokio::test]
async fn without_credit_nothing_is_begun_and_more_counts_at_once() {
    let server = Server::start(&[]);
    let boss = server.key(&[]);
    let member = server.add_user("m@example.com", &[]);
    let key = server.key(&["--user", &member]);
    assert_eq!(server.get("/api/v1/limits", &key).await.body, json!({"data": []}));
    let place = format!("/api/v1/team/members/{member}");
    let credit = async |usd: serde_json::Value| {
        let request = server.request(reqwest::Method::PATCH, &place).bearer_auth(&boss);
        super::answer(request.json(&json!({"credit_usd": usd}))).await
    };
    credit(json!(-1)).await.is_problem(422, "invalid");
    assert_eq!(credit(json!(0)).await.is(StatusCode::OK).body["credit_usd"], json!(0.0));
    // rows: ZE-E4, ZE-O1, ZE-X5
    let ask = json!({"message": "hello"});
    server.post("/api/v1/runs", &key, &ask).await.is_problem(403, "insufficient_credit");
    credit(json!(2.5)).await.is(StatusCode::OK);
    let limits = server.get("/api/v1/limits", &key).await.is(StatusCode::OK).body;
    let wanted = json!({"per": "user", "unit": "usd", "window": "total", "cap": 2_500_000, "used": 0,
        "reserved": 0, "left": 2_500_000});
    assert_eq!(limits["data"], json!([wanted]));
    server.post("/api/v1/runs", &key, &ask).await.is(StatusCode::CREATED);
    credit(serde_json::Value::Null).await.is(StatusCode::OK);
    assert_eq!(server.get("/api/v1/limits", &key).await.body, json!({"data": []}));
}

#[tokio::test]
async fn administrators_see_usage_by_user() {
    let server = Server::start(&[]);
    server.user.run(&["run", "--yes", crate::cli::TASK]).exits(0);
    let boss = server.key(&[]);
    let member = server.add_user("m@example.com", &[]);
    let key = server.key(&["--user", &member]);
    server.post("/api/v1/runs", &key, &json!({"message": "hello"})).await.is(StatusCode::CREATED);
    let told = server.get("/api/v1/usage", &boss).await.is(StatusCode::OK).body;
    let names: Vec<_> =
        told["by_user"].as_array().unwrap().iter().map(|one| (&one["name"], &one["runs"])).collect();
    let mut wanted = [(json!("local"), json!(1)), (json!(member), json!(1))];
    wanted.sort_by_key(|(name, _)| name.to_string());
    assert_eq!(names, wanted.iter().map(|(name, runs)| (name, runs)).collect::<Vec<_>>(), "{told:#}");
    assert_eq!(told["totals"]["threads"], json!(2));
    let own = server.get("/api/v1/usage", &key).await.is(StatusCode::OK).body;
    assert_eq!((own.get("by_user"), &own["totals"]["runs"]), (None, &json!(1)));
}
