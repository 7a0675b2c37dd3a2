//! `Sleep` and `CurrentTime`: the tools that handle time.
//!
//! A waiting `Sleep` holds no resources: it is a deferred call, and a process started a month later finds it
//! due. The tools read no clock; each call receives its start time.

use jiff::Timestamp as Instant;
use jiff::tz::{Offset, TimeZone};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use windlass_engine::port::tool::{CallContext, Deferral, ToolOutcome, ToolOutput};
use windlass_machine::{Annotations, EffectClass, Rest, Timestamp};
use windlass_schema::FunctionTool;

use super::{Answer, Refusal, read_only};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SleepArguments {
    /// Duration in seconds; fractions are allowed.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 31_622_400.0))]
    seconds: Option<f64>,
    /// End of the wait instead, as RFC 3339 with an offset: `2027-01-31T09:00:00+01:00`.
    #[serde(default)]
    until: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TimeArguments {
    /// The time zone, such as `Europe/Rome` or `UTC` (default: the user's time zone).
    #[serde(default)]
    timezone: Option<String>,
}

/// Creates the tool `Sleep`, which resumes the run after a time between a second and a year. (LM-T11)
pub fn sleep() -> FunctionTool {
    FunctionTool::new("Sleep", SLEEP, |context: CallContext, arguments: SleepArguments| async move {
        slept(&context, &arguments).unwrap_or_else(|Refusal(reason)| ToolOutcome::error(reason))
    })
    .annotations(read_only())
    .effect_class(EffectClass::Pure)
}

/// Creates the tool `CurrentTime`.
pub fn current_time() -> FunctionTool {
    FunctionTool::new("CurrentTime", TIME, |context: CallContext, arguments: TimeArguments| async move {
        told(&context, &arguments).unwrap_or_else(|Refusal(reason)| ToolOutput::error(reason))
    })
    .annotations(Annotations { idempotent_hint: true, ..read_only() })
    .effect_class(EffectClass::Pure)
}

const SLEEP: &str = "Wait for `seconds` or `until` a time, at most one year. Nothing runs meanwhile, and the \
wait survives restarts. Read-only calls in the same step continue; later calls wait. Use it to check \
something again later, not to pause between calls.";

const TIME: &str = "Return the current time in a time zone, with date, weekday and UTC offset.";

/// Maximum duration of a sleep, in milliseconds: the limit of one deferral.
const MAX_MS: u64 = 366 * 24 * 3_600_000;

fn slept(context: &CallContext, arguments: &SleepArguments) -> Result<ToolOutcome, Refusal> {
    let until = match context.resumed.as_ref().and_then(|resumed| resumed.state.as_deref()) {
        Some(state) => state
            .parse()
            .map(Timestamp)
            .map_err(|_| Refusal::new("the recorded end of the wait is invalid"))?,
        None if context.resumed.is_some() => {
            return Err(Refusal::new("the recorded end of the wait is missing"));
        }
        None => until(context.now, arguments)?,
    };
    let left_ms = until.since(context.now);
    if left_ms == 0 {
        let now = shown(context.now, &zone(context, None)?)?;
        return Ok(ToolOutcome::text(format!("The wait is over: it is {now}")));
    }
    // If the clock was set back during the sleep, the call is deferred again.
    Ok(ToolOutcome::defer(Deferral {
        after_ms: left_ms,
        state: Some(until.0.to_string()),
        rest: Rest::Repeatable,
    }))
}

/// Returns the end of a sleep that begins now.
fn until(now: Timestamp, arguments: &SleepArguments) -> Result<Timestamp, Refusal> {
    let ms = match (arguments.seconds, &arguments.until) {
        (Some(seconds), None) if seconds.is_finite() && seconds >= 0.0 => (seconds * 1_000.0).ceil() as u64,
        (Some(seconds), None) => {
            return Err(Refusal(format!("`seconds` is {seconds}; it must be 0 or more")));
        }
        (None, Some(until)) => {
            let until: Instant = until.parse().map_err(|error| {
                Refusal(format!("`until` is `{}`, which is not a time with an offset: {error}", short(until)))
            })?;
            u64::try_from(until.as_millisecond()).unwrap_or_default().saturating_sub(now.0)
        }
        (Some(_), Some(_)) | (None, None) => {
            return Err(Refusal::new("set either `seconds` or `until`"));
        }
    };
    if ms > MAX_MS {
        return Err(Refusal::new("the wait would end in more than a year; the limit is one year"));
    }
    Ok(now.plus_ms(ms))
}

fn told(context: &CallContext, arguments: &TimeArguments) -> Answer {
    let zone = zone(context, arguments.timezone.as_deref())?;
    let zoned = instant(context.now)?.to_zoned(zone.clone());
    let time = json!({
        "time": zoned.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string(),
        "weekday": zoned.strftime("%A").to_string(),
        "timezone": zone.iana_name().map_or_else(|| zoned.strftime("%:z").to_string(), str::to_owned),
        "unix_seconds": context.now.0 / 1_000,
    });
    Ok(ToolOutput::text(time.to_string()))
}

/// Returns the named time zone, or that of the run, or UTC, in this order.
fn zone(context: &CallContext, named: Option<&str>) -> Result<TimeZone, Refusal> {
    let Some(named) = named else {
        let offset = Offset::from_seconds(context.utc_offset_minutes.unwrap_or_default().saturating_mul(60));
        return Ok(TimeZone::fixed(offset.unwrap_or(Offset::UTC)));
    };
    TimeZone::get(named).map_err(|_| {
        Refusal(format!(
            "`{}` is not a known time zone; use a name such as `Europe/Rome` or `UTC`",
            short(named)
        ))
    })
}

fn shown(at: Timestamp, zone: &TimeZone) -> Result<String, Refusal> {
    Ok(instant(at)?.to_zoned(zone.clone()).strftime("%Y-%m-%dT%H:%M:%S%:z").to_string())
}

fn instant(at: Timestamp) -> Result<Instant, Refusal> {
    let ms = i64::try_from(at.0).ok().and_then(|ms| Instant::from_millisecond(ms).ok());
    ms.ok_or_else(|| Refusal(format!("the clock value of {} ms is out of range", at.0)))
}

/// Truncates a text that an error message repeats.
fn short(text: &str) -> String {
    text.chars().take(64).collect()
}
