//! Usage of the caller's runs, in total and over time. (SK-R10, SK-P15)
//!
//! The figures are computed from the rows of runs. Each run is reported as one message of the assistant.

use std::collections::{BTreeMap, BTreeSet};

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use serde_json::{Value, json};
use windlass::machine::{MicroUsd, RunId, Timestamp};
use windlass::port::journal::{RunQuery, RunRow};
use windlass_server::http::Shared;
use windlass_server::http::caller::Caller;
use windlass_server::http::input::Query;
use windlass_server::http::problem::Problem;

use super::reply::dollars;
use crate::date::{DAY_MS, iso, read};

/// Number of days reported if the request names none.
const DAYS: u64 = 7;
/// Maximum number of days in a request.
const DAYS_MAX: u64 = 365;
/// Number of rows per read.
const PAGE: usize = 500;

const MINUTE_MS: u64 = 60_000;
const HOUR_MS: u64 = 60 * MINUTE_MS;

/// Resolution of the breakdown: the maximum span and its step, in milliseconds. Longer
/// spans use steps of a week. (SK-P16)
const STEPS: &[(u64, u64)] = &[
    (2 * HOUR_MS, 5 * MINUTE_MS),
    (12 * HOUR_MS, 15 * MINUTE_MS),
    (48 * HOUR_MS, HOUR_MS),
    (14 * DAY_MS, 6 * HOUR_MS),
    (90 * DAY_MS, DAY_MS),
];
const WEEK_MS: u64 = 7 * DAY_MS;

/// Maximum number of steps in a breakdown: ten years of days.
const STEPS_MAX: u64 = 3_660;

/// The requested span. If several members are set, the one declared last takes precedence.
#[derive(Debug, Default, Deserialize)]
pub struct Which {
    last_n_days: Option<u64>,
    start_date: Option<String>,
    end_date: Option<String>,
    start_datetime: Option<String>,
    end_datetime: Option<String>,
}

/// A time span and its resolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    from: Timestamp,
    /// The last timestamp, inclusive.
    to: Timestamp,
    step_ms: u64,
}

impl Which {
    fn span(&self, now: Timestamp) -> Result<Span, Problem> {
        let days = self.last_n_days.unwrap_or(DAYS);
        if !(1..=DAYS_MAX).contains(&days) {
            return Err(Problem::invalid(format!("`last_n_days` is {days}; it must be 1 to {DAYS_MAX}")));
        }
        let start = moment("start_datetime", self.start_datetime.as_deref())?;
        let end = moment("end_datetime", self.end_datetime.as_deref())?;
        if start.is_some() || end.is_some() {
            let to = end.unwrap_or(now);
            let from = start.unwrap_or(Timestamp(now.0.saturating_sub(days * DAY_MS)));
            ordered(from, to, "start_datetime must be before end_datetime")?;
            let span_ms = to.since(from);
            let step = STEPS.iter().find(|(up_to_ms, _)| span_ms <= *up_to_ms);
            return Ok(Span { from, to, step_ms: step.map_or(WEEK_MS, |(_, step_ms)| *step_ms) });
        }
        let today = floor(now, DAY_MS);
        let Some(first) = moment("start_date", self.start_date.as_deref())? else {
            let from = Timestamp(today.0.saturating_sub((days - 1) * DAY_MS));
            return Ok(Span { from, to: now, step_ms: DAY_MS });
        };
        let last = moment("end_date", self.end_date.as_deref())?.unwrap_or(today);
        let (from, last) = (floor(first, DAY_MS), floor(last, DAY_MS));
        ordered(from, last, "start_date must be before end_date")?;
        Ok(Span { from, to: last.plus_ms(DAY_MS - 1), step_ms: DAY_MS })
    }
}

fn moment(name: &str, text: Option<&str>) -> Result<Option<Timestamp>, Problem> {
    let Some(text) = text.filter(|text| !text.is_empty()) else { return Ok(None) };
    let wrong = || Problem::invalid(format!("`{name}` is `{text}`, which is not a date"));
    read(text).map(Some).ok_or_else(|| wrong().hint("write it as 2026-12-31 or 2026-12-31T18:00:00Z"))
}

fn ordered(from: Timestamp, to: Timestamp, otherwise: &str) -> Result<(), Problem> {
    if from <= to { Ok(()) } else { Err(Problem::bad_request(otherwise)) }
}

fn floor(at: Timestamp, step_ms: u64) -> Timestamp {
    Timestamp(at.0 / step_ms * step_ms)
}

#[derive(Clone, Debug, Default)]
struct Sums {
    cost: MicroUsd,
    prompt: u64,
    completion: u64,
    cached: u64,
    approved: u64,
    denied: u64,
    ttft: Mean,
    ttr: Mean,
}

#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    sum: u64,
    count: u64,
}

impl Mean {
    fn add(&mut self, value: Option<u64>) {
        if let Some(value) = value {
            (self.sum, self.count) = (self.sum.saturating_add(value), self.count + 1);
        }
    }

    fn told(self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }
}

impl Sums {
    fn add(&mut self, run: &RunRow) {
        let totals = &run.view.totals;
        let add = |sum: &mut u64, more: Option<u64>| *sum = sum.saturating_add(more.unwrap_or(0));
        add(&mut self.cost.0, totals.cost.map(|cost| cost.0));
        add(&mut self.prompt, totals.usage.input);
        add(&mut self.completion, totals.usage.output);
        add(&mut self.cached, totals.usage.cached);
        self.approved += u64::from(totals.approved);
        self.denied += u64::from(totals.denied);
        self.ttft.add(totals.ttft_ms);
        self.ttr.add(run.view.finished_at.map(|_| totals.duration_ms));
    }

    fn tokens(&self) -> u64 {
        self.prompt.saturating_add(self.completion)
    }
}

pub async fn metrics(
    State(app): State<Shared>,
    caller: Caller,
    Query(which): Query<Which>,
) -> Result<Json<Value>, Problem> {
    caller.reads()?;
    let span = which.span(windlass_server::clock::clock().now())?;
    let steps = span.to.since(span.from) / span.step_ms;
    if steps > STEPS_MAX {
        return Err(Problem::invalid(format!("the span has {steps} steps; at most {STEPS_MAX} are allowed")));
    }
    let mut query = RunQuery {
        workspace: Some(caller.workspace().to_owned()),
        owner: Some(caller.user().clone()),
        from: Some(span.from),
        until: Some(span.to.plus_ms(1)),
        ..RunQuery::newest(PAGE)
    };
    let mut count = Count::default();
    loop {
        let page = app.engine.runs(&query).await?;
        page.iter().for_each(|run| count.add(run, span));
        let last = page.last().filter(|_| page.len() == PAGE);
        let Some(last) = last else { return Ok(Json(count.told(span))) };
        query.before = Some((last.view.started_at, RunId::clone(&last.view.run)));
    }
}

#[derive(Debug, Default)]
struct Count {
    all: Sums,
    steps: BTreeMap<Timestamp, Sums>,
    conversations: BTreeSet<String>,
}

impl Count {
    fn add(&mut self, run: &RunRow, span: Span) {
        self.all.add(run);
        self.steps.entry(floor(run.view.started_at, span.step_ms)).or_default().add(run);
        self.conversations.insert(run.thread.to_string());
    }

    fn told(&self, span: Span) -> Value {
        let all = &self.all;
        let conversations = self.conversations.len();
        let per = |sum: f64, count: u64| if count > 0 { sum / count as f64 } else { 0.0 };
        let answered = all.approved + all.denied;
        let accepted = (answered > 0).then(|| all.approved as f64 / answered as f64);
        json!({
            "period_start": iso(span.from),
            "period_end": iso(span.to),
            "total_cost": dollars(all.cost),
            "total_tokens": all.tokens(),
            "total_prompt_tokens": all.prompt,
            "total_completion_tokens": all.completion,
            "total_cached_tokens": all.cached,
            "total_conversations": conversations,
            "total_approvals": all.approved,
            "total_rejections": all.denied,
            "avg_ttft_ms": all.ttft.told(),
            "avg_ttr_ms": all.ttr.told(),
            "avg_cost_per_conversation": per(dollars(all.cost), conversations as u64),
            "avg_tokens_per_conversation": per(all.tokens() as f64, conversations as u64),
            "cache_hit_rate": per(all.cached as f64, all.prompt).min(1.0),
            "approval_acceptance_rate": accepted,
            "daily_breakdown": self.breakdown(span),
        })
    }

    /// Returns all steps of the span, including those without usage.
    fn breakdown(&self, span: Span) -> Vec<Value> {
        let first = floor(span.from, span.step_ms);
        let steps = (first.0..=span.to.0).step_by(usize::try_from(span.step_ms).unwrap_or(usize::MAX));
        let none = Sums::default();
        steps
            .map(|at| {
                let sums = self.steps.get(&Timestamp(at)).unwrap_or(&none);
                json!({
                    "date": iso(Timestamp(at)),
                    "cost": dollars(sums.cost),
                    "prompt_tokens": sums.prompt,
                    "completion_tokens": sums.completion,
                    "cached_tokens": sums.cached,
                    "total_tokens": sums.tokens(),
                    "avg_ttft_ms": sums.ttft.told(),
                    "avg_ttr_ms": sums.ttr.told(),
                })
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(1_795_236_180_000);

    fn span(which: &Which) -> Result<(String, String, u64), u16> {
        let span = which.span(NOW).map_err(|problem| problem.status.as_u16())?;
        Ok((iso(span.from), iso(span.to), span.step_ms / MINUTE_MS))
    }

    // rows: SK-R10
    #[test]
    fn spans() {
        let text = |text: &str| Some(text.to_owned());
        let found = |from: &str, to: &str, minutes| Ok((from.to_owned(), to.to_owned(), minutes));
        let now = "2026-11-21T04:43:00.000Z";
        assert_eq!(span(&Which::default()), found("2026-11-15T00:00:00.000Z", now, 1_440));
        let one = Which { last_n_days: Some(1), ..Which::default() };
        assert_eq!(span(&one), found("2026-11-21T00:00:00.000Z", now, 1_440));
        for days in [0, 366] {
            assert_eq!(span(&Which { last_n_days: Some(days), ..Which::default() }), Err(422));
        }
        let dates = |start: &str, end: &str| Which {
            start_date: text(start),
            end_date: text(end),
            ..Which::default()
        };
        let march = found("2026-03-01T00:00:00.000Z", "2026-03-02T23:59:59.999Z", 1_440);
        assert_eq!(span(&dates("2026-03-01", "2026-03-02")), march);
        assert_eq!(span(&dates("2026-03-02", "2026-03-01")), Err(400));
        assert_eq!(span(&dates("soon", "")), Err(422));
    }

    // rows: SK-P16
    #[test]
    fn the_longer_the_window_the_longer_its_steps() {
        let cases = [
            ("2026-03-01T02:00:00Z", 5),
            ("2026-03-01T02:00:01Z", 15),
            ("2026-03-01T12:00:00Z", 15),
            ("2026-03-01T12:00:01Z", 60),
            ("2026-03-03T00:00:00Z", 60),
            ("2026-03-03T00:00:01Z", 360),
            ("2026-03-15T00:00:00Z", 360),
            ("2026-03-15T00:00:01Z", 1_440),
            ("2026-05-30T00:00:00Z", 1_440),
            ("2026-05-30T00:00:01Z", 10_080),
        ];
        for (end, minutes) in cases {
            let which = Which {
                start_datetime: Some("2026-03-01T00:00:00Z".into()),
                end_datetime: Some(end.into()),
                ..Which::default()
            };
            assert_eq!(span(&which).unwrap().2, minutes, "{end}");
        }
    }
}
