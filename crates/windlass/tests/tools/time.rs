//! The model's view of time, and its sleeps.

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use windlass::machine::{Rest, Timestamp};
use windlass::port::tool::{CallContext, Deferral, ToolOutcome, ToolResumed};
use windlass::tool::builtin;

use super::{context, outcome, show};

/// 2026-11-21 04:43:00 UTC, a Saturday.
const NOW: Timestamp = Timestamp(1_795_236_180_000);

fn call(tool: &str, arguments: Value, change: impl FnOnce(&mut CallContext)) -> String {
    let registry = windlass::registry().add_all(builtin::desk_tools()).unwrap();
    if let Err(problem) = registry.check_arguments(tool, &arguments) {
        return format!("invalid: {problem}");
    }
    let mut context = context(None, CancellationToken::new());
    change(&mut context);
    match outcome(&*registry.get(tool).unwrap(), context, arguments) {
        ToolOutcome::Defer(deferral) => {
            let Deferral { after_ms, state, rest } = *deferral;
            assert_eq!(rest, Rest::Repeatable);
            format!("later: {after_ms} ms, {}", state.unwrap())
        }
        ToolOutcome::Done(output) => show(&output),
        other => panic!("{other:?}"),
    }
}

fn sleep(arguments: Value) -> String {
    call("Sleep", arguments, |_| {})
}

// rows: LM-T11
#[test]
fn a_sleep_ends_at_a_time() {
    assert_eq!(sleep(json!({"seconds": 90})), "later: 90000 ms, 1795236270000");
    assert_eq!(sleep(json!({"seconds": 0.25})), "later: 250 ms, 1795236180250");
    assert_eq!(sleep(json!({"until": "2026-11-21T05:44:00+01:00"})), "later: 60000 ms, 1795236240000");
    let over = "ok: The wait is over: it is 2026-11-21T04:43:00+00:00";
    assert_eq!(sleep(json!({"seconds": 0})), over);
    assert_eq!(sleep(json!({"until": "2026-11-21T04:42:59Z"})), over);
}

#[test]
fn a_resumed_sleep_reads_the_clock_again() {
    let resumed = |end: u64| {
        call("Sleep", json!({"seconds": 90}), move |context| {
            context.resumed = Some(ToolResumed { times: 1, state: Some(end.to_string()) });
            context.utc_offset_minutes = Some(330);
        })
    };
    assert_eq!(resumed(NOW.0), "ok: The wait is over: it is 2026-11-21T10:13:00+05:30");
    assert_eq!(resumed(NOW.0 - 5), resumed(NOW.0));
    // The clock was set back meanwhile.
    assert_eq!(resumed(NOW.0 + 7), "later: 7 ms, 1795236180007");
}

#[test]
fn a_sleep_without_an_end_is_refused() {
    let either = "error: set either `seconds` or `until`";
    assert_eq!(sleep(json!({})), either);
    assert_eq!(sleep(json!({"seconds": 1, "until": "2026-11-21T05:44:00Z"})), either);
    assert!(sleep(json!({"seconds": -1})).starts_with("invalid: "));
    assert!(sleep(json!({"seconds": 31_622_401})).starts_with("invalid: "));
    let far = "error: the wait would end in more than a year; the limit is one year";
    assert_eq!(sleep(json!({"until": "2028-01-01T00:00:00Z"})), far);
    for odd in ["soon", "2026-11-21T05:44:00", "2026-13-01T00:00:00Z"] {
        let said = sleep(json!({"until": odd}));
        assert!(said.starts_with(&format!("error: `until` is `{odd}`, which is not a time")), "{said}");
    }
}

// rows: LM-T11
#[test]
fn the_time_is_returned_in_a_zone() {
    let time = |arguments: Value, offset: Option<i32>| {
        call("CurrentTime", arguments, move |context| context.utc_offset_minutes = offset)
    };
    let told = |time: &str, day: &str, zone: &str| {
        let told = json!({
            "time": time, "weekday": day, "timezone": zone, "unix_seconds": NOW.0 / 1_000,
        });
        format!("ok: {told}")
    };
    assert_eq!(time(json!({}), None), told("2026-11-21T04:43:00+00:00", "Saturday", "UTC"));
    assert_eq!(time(json!({}), Some(-300)), told("2026-11-20T23:43:00-05:00", "Friday", "-05:00"));
    let rome = told("2026-11-21T05:43:00+01:00", "Saturday", "Europe/Rome");
    assert_eq!(time(json!({"timezone": "Europe/Rome"}), Some(-300)), rome);
    let unknown = "error: `Mars/Base` is not a known time zone; use a name such as `Europe/Rome` or `UTC`";
    assert_eq!(time(json!({"timezone": "Mars/Base"}), None), unknown);
    // Offsets beyond any zone and times beyond any calendar do not panic.
    assert!(time(json!({}), Some(i32::MAX)).starts_with("ok: "));
    assert!(
        call("CurrentTime", json!({}), |context| context.now = Timestamp(u64::MAX)).starts_with("error: ")
    );
}
