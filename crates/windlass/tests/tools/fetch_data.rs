//! `FetchData`: parts of an offloaded result.

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use windlass::port::offload::OffloadedResults;
use windlass::port::tool::CallContext;
use windlass::tool::builtin::fetch_data;

use super::{context, run, show};

#[track_caller]
fn check(text: &str, asked: Value, wanted: &str) {
    let mut arguments = asked;
    arguments["ref"] = json!("res_1");
    let results = OffloadedResults::of(vec![("res_1".into(), text.into())]);
    let context = CallContext { results, ..context(None, CancellationToken::new()) };
    assert_eq!(show(&run(&fetch_data(), context, arguments)), wanted);
}

// rows: LM-O4
#[test]
fn a_text_is_read_in_lines() {
    let text = "a\nb\nc\nd";
    check(text, json!({}), "ok: a\nb\nc\nd");
    check(text, json!({"offset": 1, "limit": 2}), "ok: b\nc\n[1 to 3 of 4 lines; continue with offset=3]");
    check(text, json!({"offset": 3}), "ok: d\n[3 to 4 of 4 lines]");
    check(text, json!({"offset": 9}), "ok: \n[4 to 4 of 4 lines]");
    check(text, json!({"pointer": "/a"}), "error: the result is not JSON: omit `pointer`");
}

// rows: LM-O4
#[test]
fn json_is_read_by_its_parts() {
    let text = r#"{"items":[{"a":1},{"a":2},{"a":3}],"name":"x\ny"}"#;
    check(text, json!({"pointer": "/items/1/a"}), "ok: 2");
    check(text, json!({"pointer": "/items"}), "ok: [{\"a\":1},\n{\"a\":2},\n{\"a\":3}]");
    let page = "ok: [{\"a\":2}]\n[1 to 2 of 3 items; continue with offset=2]";
    check(text, json!({"pointer": "/items", "offset": 1, "limit": 1}), page);
    check(text, json!({"pointer": "/name", "offset": 1}), "ok: y\n[1 to 2 of 2 lines]");
    check(text, json!({"limit": 2}), "ok: {\n  \"items\": [\n[0 to 2 of 14 lines; continue with offset=2]");
    check(
        text,
        json!({"pointer": "/no"}),
        "error: the result has nothing at `/no`; its keys are items, name",
    );
    check(
        "[1,2]",
        json!({"pointer": "/7"}),
        "error: the result has nothing at `/7`; it is an array of 2 items",
    );
}

#[test]
fn a_page_is_bounded_and_says_how_to_continue() {
    let text: String = (0..10_000).map(|nth| format!("line {nth}\n")).collect();
    let results = OffloadedResults::of(vec![("res_1".into(), text.clone())]);
    let (mut offset, mut read) = (0, String::new());
    loop {
        let context = CallContext { results: results.clone(), ..context(None, CancellationToken::new()) };
        let said = show(&run(&fetch_data(), context, json!({"ref": "res_1", "offset": offset})));
        assert!(said.len() < 33 * 1024);
        let said = said.strip_prefix("ok: ").unwrap();
        let (page, more) = said.rsplit_once("\n[").unwrap_or((said, ""));
        read.push_str(page);
        read.push('\n');
        match more.split_once("offset=") {
            Some((_, next)) => offset = next.trim_end_matches(']').parse().unwrap(),
            None => break,
        }
    }
    assert!(read == text);
    // An item that is too long for an answer is read in pieces.
    let long = format!("short\n{}\nlast", "é".repeat(20_000));
    check(&long, json!({}), "ok: short\n[0 to 1 of 3 lines; continue with offset=1]");
    let first = "é".repeat(16_384);
    let more = "[characters 0 to 16384 of 20000 in line 1 of 3; continue with offset=1 and from=16384]";
    check(&long, json!({"offset": 1}), &format!("ok: {first}\n{more}"));
    let rest = "é".repeat(3_616);
    check(&long, json!({"offset": 1, "from": 16_384}), &format!("ok: {rest}\nlast\n[1 to 3 of 3 lines]"));
    let none = "error: character 20001 is beyond the end: line 1 has 20000 characters";
    check(&long, json!({"offset": 1, "from": 20_001}), none);
    let json = json!({"all": ["a", "x".repeat(40_000)], "text": "y".repeat(40_000)}).to_string();
    let more = "[characters 0 to 32768 of 40002 in item 1 of 2; continue with offset=1 and from=32768]";
    let piece = format!("ok: \"{}\n{more}", "x".repeat(32_767));
    check(&json, json!({"pointer": "/all", "offset": 1}), &piece);
    let more = "[1 to 2 of 2 items]";
    let piece = format!("ok: {}\"]\n{more}", "x".repeat(7_233));
    check(&json, json!({"pointer": "/all", "offset": 1, "from": 32_768}), &piece);
    let piece = format!("ok: {}", "y".repeat(7_232));
    check(&json, json!({"pointer": "/text", "from": 32_768}), &piece);
}

// rows: LM-O5
#[test]
fn an_unknown_reference_finds_nothing() {
    let context = context(None, CancellationToken::new());
    let said = show(&run(&fetch_data(), context, json!({"ref": "res_2"})));
    assert_eq!(said, "error: there is no result `res_2` in this conversation");
}
