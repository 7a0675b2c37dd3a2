//! `/usage`: tokens and cost of runs: total, over time, and by model, agent and user.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use windlass::machine::{Principal, Seq, ThreadId, Timestamp};
use windlass::port::journal::{Usage, UsageQuery, UsageRow};

use crate::http::Shared;
use crate::http::api::{ApiRouter, routes};
use crate::http::caller::Caller;
use crate::http::input::Query;
use crate::http::page::time;
use crate::http::problem::Problem;

const HOUR_MS: u64 = 3_600_000;
const DAY_MS: u64 = 24 * HOUR_MS;

/// Default time range, in milliseconds: one week.
const SPAN_MS: u64 = 7 * DAY_MS;
/// Maximum time range, in milliseconds: about ten years.
const SPAN_MAX_MS: u64 = 3_660 * DAY_MS;
/// Maximum number of points of a series.
const POINTS_MAX: u64 = 5_000;

/// Default step by time range: pairs of maximum range and step. Longer ranges use weeks. (SK-P16)
const STEPS: &[(u64, u64)] = &[
    (2 * HOUR_MS, HOUR_MS / 12),
    (12 * HOUR_MS, HOUR_MS / 4),
    (48 * HOUR_MS, HOUR_MS),
    (14 * DAY_MS, 6 * HOUR_MS),
    (90 * DAY_MS, DAY_MS),
];

/// Returns the default step of a series for a time range. (SK-P16)
pub fn step_of(span_ms: u64) -> u64 {
    STEPS.iter().find(|(up_to_ms, _)| span_ms <= *up_to_ms).map_or(7 * DAY_MS, |(_, step_ms)| *step_ms)
}

pub fn routes() -> ApiRouter {
    ApiRouter::new().routes(routes!(usage))
}

/// Which runs to include.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct Which {
    /// Runs that started at or after this time, in milliseconds since the Unix epoch. Default: a week, ending with the
    /// step that contains `until`; with `thread`, the start of the thread. Queries are fast if all steps begin at
    /// multiples of six hours.
    from: Option<u64>,
    /// Runs that started before this time. Default: now.
    until: Option<u64>,
    /// Step of the series, in milliseconds. Default: depends on the time range.
    #[param(minimum = 1)]
    step_ms: Option<u64>,
    /// Only runs in threads of this user. Administrators may name any user, and see all users by default.
    user: Option<String>,
    /// Only runs in this thread. Requires permission to read the thread.
    thread: Option<String>,
}

/// Usage of runs.
#[derive(Debug, Serialize, ToSchema)]
struct UsageAnswer {
    /// Start of the time range.
    from: u64,
    /// End of the time range.
    until: u64,
    /// Step of the series, in milliseconds.
    step_ms: u64,
    /// Totals.
    totals: Figures,
    /// Usage by start time of the runs, including empty steps.
    series: Vec<Point>,
    /// Usage by model.
    by_model: Vec<Share>,
    /// Usage by agent.
    by_agent: Vec<Share>,
    /// Usage by user id; only for administrators.
    #[serde(skip_serializing_if = "Option::is_none")]
    by_user: Option<Vec<Share>>,
}

/// A step of the series.
#[derive(Debug, Serialize, ToSchema)]
struct Point {
    /// Start of the step.
    at: u64,
    #[serde(flatten)]
    figures: Figures,
}

/// Usage of one model, agent or user.
#[derive(Debug, Serialize, ToSchema)]
struct Share {
    /// Name or id.
    name: String,
    #[serde(flatten)]
    figures: Figures,
}

/// Figures of a set of runs. (SK-P15)
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
struct Figures {
    /// Number of runs.
    runs: u64,
    /// Number of threads with such runs.
    threads: u64,
    /// Prompt tokens, including cached ones.
    prompt_tokens: u64,
    /// Generated tokens.
    completion_tokens: u64,
    /// Prompt tokens read from a cache.
    cached_tokens: u64,
    /// Fraction of prompt tokens read from a cache, at most 1; absent without prompts.
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_hit_rate: Option<f64>,
    /// Cost in US dollars, as far as prices are known.
    cost_usd: f64,
    /// Number of runs with unknown cost.
    cost_unknown: u64,
    /// Number of calls that people approved.
    approvals: u64,
    /// Number of calls that people denied.
    rejections: u64,
    /// Fraction of decided approvals that were approved; absent without decisions.
    #[serde(skip_serializing_if = "Option::is_none")]
    approval_acceptance_rate: Option<f64>,
    /// Mean time to the first delta of a run, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    avg_ttft_ms: Option<f64>,
    /// Mean duration of a run, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    avg_duration_ms: Option<f64>,
}

/// Sums from which the figures are computed.
#[derive(Clone, Debug, Default)]
struct Sums {
    figures: Figures,
    cost_micro_usd: u64,
    ttft: (u64, u64),
    duration: (u64, u64),
}

impl Sums {
    fn add(&mut self, row: &UsageRow) {
        let figures = &mut self.figures;
        figures.runs += row.runs;
        figures.threads += row.threads;
        figures.prompt_tokens += row.input;
        figures.completion_tokens += row.output;
        figures.cached_tokens += row.cached;
        figures.cost_unknown += row.cost_unknown;
        figures.approvals += row.approved;
        figures.rejections += row.denied;
        self.cost_micro_usd += row.cost.0;
        self.ttft = (self.ttft.0 + row.ttft_ms, self.ttft.1 + row.ttft_runs);
        self.duration = (self.duration.0 + row.duration_ms, self.duration.1 + row.ended);
    }

    fn told(mut self) -> Figures {
        let part = |some: u64, all: u64| (all > 0).then(|| (some as f64 / all as f64).min(1.0));
        let mean = |(sum, count): (u64, u64)| (count > 0).then(|| sum as f64 / count as f64);
        let figures = &mut self.figures;
        figures.cost_usd = self.cost_micro_usd as f64 / 1e6;
        figures.cache_hit_rate = part(figures.cached_tokens, figures.prompt_tokens);
        figures.approval_acceptance_rate = part(figures.approvals, figures.approvals + figures.rejections);
        figures.avg_ttft_ms = mean(self.ttft);
        figures.avg_duration_ms = mean(self.duration);
        self.figures
    }

    /// Completes the figures with the number of distinct threads. The caller passes this number, because summing rows
    /// would count a thread with several models more than once.
    fn with_threads(mut self, threads: u64) -> Figures {
        self.figures.threads = threads;
        self.told()
    }
}

/// Get the usage and cost of runs
#[utoipa::path(get, path = "/usage", tag = "usage", params(Which),
    responses((status = 200, body = UsageAnswer), (status = 400, body = Problem), (status = 401, body = Problem),
        (status = 403, body = Problem), (status = 404, body = Problem)))]
async fn usage(
    State(app): State<Shared>,
    caller: Caller,
    Query(which): Query<Which>,
) -> Result<Json<UsageAnswer>, Problem> {
    caller.reads()?;
    let thread = which.thread.map(ThreadId::from);
    let begun = match &thread {
        Some(thread) => {
            caller.reads_thread(&app, thread).await?;
            // Use the time of the first event: the store creates the thread's row shortly after its first run has
            // started.
            app.engine.thread(thread).events(Seq(0), 1).await?.first().map(|recorded| recorded.event.at)
        }
        None => None,
    };
    let owner = match (which.user, caller.is_admin() || thread.is_some()) {
        (Some(user), true) => Some(Principal::from(user.as_str())),
        (None, true) => None,
        (Some(user), false) if user != caller.user().as_str() => {
            return Err(Problem::forbidden(format!("only administrators may read the usage of `{user}`")));
        }
        (_, false) => Some(caller.user().clone()),
    };
    let until = time("until", which.until)?.unwrap_or_else(crate::clock::now).0;
    let usual = match begun {
        Some(begun) => begun.0.min(until.saturating_sub(1)),
        // The store has precomputed sums for ranges that are aligned to round times.
        None => {
            let step_ms = step_of(SPAN_MS);
            until.div_ceil(step_ms).saturating_mul(step_ms).saturating_sub(SPAN_MS)
        }
    };
    let from = time("from", which.from)?.map_or(usual, |from| from.0);
    let span_ms = until.checked_sub(from).filter(|span_ms| (1..=SPAN_MAX_MS).contains(span_ms));
    let span_ms = span_ms.ok_or_else(|| {
        Problem::bad_request(format!("`from` is {from} and `until` is {until}"))
            .hint("`until` must be later than `from`, by at most ten years")
    })?;
    let step_ms = which.step_ms.unwrap_or_else(|| step_of(span_ms));
    if !(1..=SPAN_MAX_MS).contains(&step_ms) || span_ms.div_ceil(step_ms) > POINTS_MAX {
        let detail = format!("`step_ms` is {step_ms}; it must give 1 to {POINTS_MAX} steps");
        return Err(Problem::bad_request(detail));
    }
    let query = UsageQuery {
        workspace: Some(caller.workspace().to_owned()),
        owner,
        thread,
        from: Timestamp(from),
        until: Timestamp(until),
        bucket_ms: step_ms,
    };
    let found = app.engine.usage(&query).await?;
    let mut answer = answer(&found, from, until, step_ms);
    answer.by_user = answer.by_user.filter(|_| caller.is_admin());
    Ok(Json(answer))
}

fn answer(found: &Usage, from: u64, until: u64, step_ms: u64) -> UsageAnswer {
    let mut totals = Sums::default();
    let mut steps: BTreeMap<u64, Sums> = BTreeMap::new();
    let mut models: BTreeMap<&str, Sums> = BTreeMap::new();
    let mut agents: BTreeMap<&str, Sums> = BTreeMap::new();
    let mut users: BTreeMap<&str, Sums> = BTreeMap::new();
    for row in &found.rows {
        totals.add(row);
        steps.entry(row.bucket.0).or_default().add(row);
        models.entry(row.model.as_str()).or_default().add(row);
        agents.entry(&row.agent).or_default().add(row);
        users.entry(row.owner.as_str()).or_default().add(row);
    }
    let threads: BTreeMap<u64, u64> =
        found.threads_by_bucket.iter().map(|(at, count)| (at.0, *count)).collect();
    let points = (0..).map(|step| from + step * step_ms).take_while(|at| *at < until).map(|at| Point {
        at,
        figures: steps.remove(&at).unwrap_or_default().with_threads(threads.get(&at).copied().unwrap_or(0)),
    });
    let series = points.collect();
    let shares = |shares: BTreeMap<&str, Sums>| {
        shares.into_iter().map(|(name, sums)| Share { name: name.to_owned(), figures: sums.told() }).collect()
    };
    UsageAnswer {
        from,
        until,
        step_ms,
        totals: totals.with_threads(found.threads),
        series,
        by_model: shares(models),
        by_agent: shares(agents),
        by_user: Some(shares(users)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longer_the_time_the_longer_the_steps() {
        // rows: SK-P16
        let minutes = |span_ms| step_of(span_ms) / 60_000;
        let spans = [2, 3, 12, 13, 48, 49, 14 * 24, 14 * 24 + 1, 90 * 24, 90 * 24 + 1];
        let steps = spans.map(|hours| minutes(hours * HOUR_MS));
        assert_eq!(steps, [5, 15, 15, 60, 60, 360, 360, 1440, 1440, 10_080]);
    }
}
