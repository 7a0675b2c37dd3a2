//! The rows of the table: one for each figure with a budget, and a few for context.
//!
//! A row computes medians from the samples and compares Windlass with its budget. This module measures nothing.

use super::budget::{Budget, grouped};
use super::samples::{Sample, Samples};
use super::workload::{SLOW_IDEAL_S, SLOW_RUNS, SLOW_TOKEN_MS, Workload};
use crate::drive::{Found, Program};
use crate::http::{Rested, Served};
use crate::pages::PageFigures;

/// The cell of a missing figure.
const NOTHING: &str = "–";

/// One row.
struct Row {
    measure: String,
    /// The figures in the order of [`Program::ALL`].
    figures: [Option<f64>; 3],
    decimals: usize,
    budget: Option<Budget>,
}

/// Returns the table in Markdown. If only part of it was measured, rows without any figure are omitted.
pub(super) fn markdown(samples: &Samples, sync_ms: f64, is_whole: bool) -> String {
    let mut text = String::from("| measure | bare | rig | windlass | budget | met? |\n");
    text += "|---|---:|---:|---:|---|---|\n";
    text += &format!("| disk: `fdatasync` after an append of 4 KiB, ms | | | | {sync_ms:.2} | |\n");
    let others = samples.others_share().map_or(NOTHING.to_owned(), |share| format!("{:.0}", share * 100.0));
    text += &format!("| machine: share that other processes used meanwhile, % | | | | {others} | |\n");
    let rows = [
        steps(samples, sync_ms),
        long(samples),
        loads(samples),
        process(samples),
        slow(samples),
        serve(samples),
        idle(samples),
        find(samples),
        pages(samples),
    ];
    for row in rows.into_iter().flatten() {
        if is_whole || row.figures.iter().any(Option::is_some) {
            text += &row.markdown();
        }
    }
    text
}

fn steps(samples: &Samples, sync_ms: f64) -> Vec<Row> {
    let wall_budget = Budget::OverRigWithSyncs { add: 0.3, syncs: 2.0, sync_ms };
    let of = |figure: fn(&Sample) -> Option<f64>| medians(samples, Workload::Steps, figure);
    vec![
        Row::new("CPU of a step, run of 20 steps, ms", of(Sample::cpu_ms_per_step), 3)
            .budget(Budget::OverRig(0.25)),
        Row::new("wall time of a step, run of 20 steps, ms", of(Sample::wall_ms_per_step), 3)
            .budget(wall_budget),
        Row::new("runs of 20 steps, one after another, per second", of(runs_per_second), 1),
        Row::new("journal of a step, run of 20, bytes", of(Sample::journal_bytes_per_step), 0)
            .budget(Budget::AtMost(1_000.0)),
        Row::new("written to the disk for a step, run of 20, KB", of(Sample::written_kb_per_step), 1)
            .budget(Budget::AtMost(20.0)),
    ]
}

fn long(samples: &Samples) -> Vec<Row> {
    let ratio = |long: Workload, figure: fn(&Sample) -> Option<f64>| {
        by_program(|program| {
            Some(samples.median(long, program, figure)? / samples.median(Workload::Steps, program, figure)?)
        })
    };
    let cpu: fn(&Sample) -> Option<f64> = Sample::cpu_ms_per_step;
    let wall: fn(&Sample) -> Option<f64> = Sample::wall_ms_per_step;
    let journal: fn(&Sample) -> Option<f64> = Sample::journal_bytes_per_step;
    let name =
        |what: &str, window: &str| format!("{what} of a step, run of 200 ÷ run of 20, {window} window");
    vec![
        Row::new(name("CPU", "default"), ratio(Workload::Long, cpu), 2).budget(Budget::AtMost(1.5)),
        Row::new(name("wall time", "default"), ratio(Workload::Long, wall), 2).budget(Budget::AtMost(1.5)),
        Row::new(name("CPU", "no"), ratio(Workload::LongUnwindowed, cpu), 2).budget(Budget::OverRig(0.2)),
        Row::new(name("wall time", "no"), ratio(Workload::LongUnwindowed, wall), 2)
            .budget(Budget::OverRig(0.2)),
        Row::new("journal of a step, run of 200, bytes", medians(samples, Workload::Long, journal), 0),
        Row::new("journal of a step, run of 200 ÷ run of 20", ratio(Workload::Long, journal), 2)
            .budget(Budget::Between(0.9, 1.1)),
    ]
}

fn loads(samples: &Samples) -> Vec<Row> {
    let at_once_cpu = |sample: &Sample| Some(sample.figures.cpu_s);
    let chunks = |sample: &Sample| Some(sample.figures.chunks as f64 / sample.figures.wall_s);
    let at_once = |figure: fn(&Sample) -> Option<f64>| medians(samples, Workload::AtOnce, figure);
    vec![
        Row::new(
            "streams of 2,000 chunks on one core, chunks/s",
            medians(samples, Workload::Chunks, chunks),
            0,
        )
        .budget(Budget::AtLeast(60_000.0)),
        Row::new("200 runs of 20 steps at once, completed", at_once(completed), 0)
            .budget(Budget::AtLeast(200.0)),
        Row::new("200 runs of 20 steps at once, CPU, s", at_once(at_once_cpu), 2)
            .budget(Budget::TimesRig(1.5)),
        Row::new("200 runs of 20 steps at once, per second", at_once(runs_per_second), 1),
    ]
}

fn process(samples: &Samples) -> Vec<Row> {
    let cold = medians(samples, Workload::Cold, |sample| sample.first_request_ms);
    let waiting = |sample: &Sample| {
        let kib = sample.figures.resident_after_kib.saturating_sub(sample.figures.resident_kib);
        Some(kib as f64 / sample.figures.runs as f64)
    };
    let open = |sample: &Sample| Some(sample.opened?.1.open_ms);
    let later = |sample: &Sample| sample.opened.map(|(empty, full)| full.open_ms - empty.open_ms);
    let growth = |sample: &Sample| {
        let (empty, full) = sample.opened?;
        Some((full.resident_kib as f64 - empty.resident_kib as f64) * 1024.0 / 1e6)
    };
    let listens = |sample: &Sample| Some(sample.restarted?.listen_ms);
    let text = |sample: &Sample| Some(sample.restarted?.slowest_text_ms);
    let more = |figure: fn(&Sample) -> Option<f64>| medians(samples, Workload::Waiting, figure);
    let idle = |sample: &Sample| Some(sample.figures.resident_kib as f64 * 1024.0 / 1e6);
    vec![
        Row::new("start of the process to its first request, ms", cold, 1).budget(Budget::AtMost(50.0)),
        Row::new("resident when idle, MB", medians(samples, Workload::Steps, idle), 1)
            .budget(Budget::AtMost(40.0)),
        Row::new("resident for each waiting run, KiB", medians(samples, Workload::Waiting, waiting), 1),
        Row::new("10,000 waiting runs: opening the engine, ms", medians(samples, Workload::Waiting, open), 1)
            .budget(Budget::AtMost(100.0)),
        Row::new("10,000 waiting runs: the same, more than on an empty store, ms", more(later), 1),
        Row::new("10,000 waiting runs: resident beyond an empty store, MB", more(growth), 1)
            .budget(Budget::AtMost(10.0)),
        Row::new("10,000 waiting runs: start of the server until it listens, ms", more(listens), 0)
            .budget(Budget::AtMost(1_000.0)),
        Row::new(
            "10,000 waiting runs: first text of a new run just after that, slowest of 200, ms",
            more(text),
            0,
        )
        .budget(Budget::AtMost(200.0)),
    ]
}

fn slow(samples: &Samples) -> Vec<Row> {
    let of = |figure: fn(&Sample) -> Option<f64>| medians(samples, Workload::Slow, figure);
    let wall = |sample: &Sample| Some(sample.figures.wall_s / SLOW_IDEAL_S);
    let resident = |sample: &Sample| {
        let kib = sample.figures.resident_peak_kib.checked_sub(sample.figures.resident_kib)?;
        Some(kib as f64 / SLOW_RUNS as f64)
    };
    let ttft = |sample: &Sample| Some(sample.figures.ttft_ms? - SLOW_TOKEN_MS);
    let ttft_p99 = |sample: &Sample| Some(sample.figures.ttft_p99_ms? - SLOW_TOKEN_MS);
    let name = |what: &str| format!("1,000 slow streams at once: {what}");
    vec![
        Row::new(name("completed"), of(completed), 0).budget(Budget::AtLeast(SLOW_RUNS as f64)),
        Row::new(name("wall time ÷ ideal"), of(wall), 2).budget(Budget::AtMost(1.15)),
        Row::new(name("CPU, s"), of(|sample| Some(sample.figures.cpu_s)), 2),
        Row::new(name("resident for each, KiB"), of(resident), 0).budget(Budget::AtMost(130.0)),
        Row::new(name("added time to first token, p50, ms"), of(ttft), 0).budget(Budget::AtMost(250.0)),
        Row::new(name("added time to first token, p99, ms"), of(ttft_p99), 0),
        Row::new(name("journal of a step, bytes"), of(Sample::journal_bytes_per_step), 0)
            .budget(Budget::AtMost(3000.0)),
    ]
}

fn serve(samples: &Samples) -> Vec<Row> {
    let of = |figure: fn(&Served) -> f64| {
        medians(samples, Workload::Serve, |sample| sample.served.as_ref().map(figure))
    };
    let name = |what: &str| format!("server: {what}");
    vec![
        Row::new(name("resident when idle, MB"), of(|served| served.resident_kib as f64 * 1024.0 / 1e6), 1)
            .budget(Budget::AtMost(40.0)),
        Row::new(name("`GET /threads/{id}`, per second"), of(|served| served.requests_per_s), 0)
            .budget(Budget::AtLeast(2_000.0)),
        Row::new(
            name("200 streams, added time to first token, p50, ms"),
            of(|served| served.added_ttft_ms),
            1,
        ),
        Row::new(
            name("200 streams, added time to first token, p99, ms"),
            of(|served| served.added_ttft_p99_ms),
            1,
        )
        .budget(Budget::AtMost(50.0)),
        Row::new(name("1,000 runs at once, completed"), of(|served| served.completed as f64), 0)
            .budget(Budget::AtLeast(SLOW_RUNS as f64)),
        Row::new(name("1,000 runs at once, wall time ÷ ideal"), of(|served| served.wall_s / SLOW_IDEAL_S), 2)
            .budget(Budget::AtMost(1.5)),
        Row::new(
            name("1,000 runs at once, resident for each with its reader, KiB"),
            of(|served| served.run_kib),
            0,
        )
        .budget(Budget::AtMost(130.0)),
        Row::new(
            name("1,000 readers of one run, completed"),
            of(|served| served.readers_completed as f64),
            0,
        )
        .budget(Budget::AtLeast(SLOW_RUNS as f64)),
        Row::new(name("1,000 readers of one run, resident for each, KiB"), of(|served| served.reader_kib), 1)
            .budget(Budget::AtMost(30.0)),
        Row::new(
            name("1,000 readers who come at once, until the head of the answer, p99, ms"),
            of(|served| served.attach_p99_ms),
            0,
        ),
    ]
}

fn idle(samples: &Samples) -> Vec<Row> {
    let of = |figure: fn(&Rested) -> f64| {
        medians(samples, Workload::Idle, |sample| sample.rested.as_ref().map(figure))
    };
    let name = |what: &str| format!("server, idle for 60 s after 100 runs: {what}");
    let command = |command: &str, figure: fn(&Rested) -> f64| {
        Row::new(format!("`windlass {command}`, ms"), of(figure), 1).budget(Budget::AtMost(25.0))
    };
    vec![
        Row::new(name("private memory, MB"), of(|rested| megabytes(rested.private_kib)), 1)
            .budget(Budget::AtMost(14.0)),
        Row::new(name("resident, MB"), of(|rested| megabytes(rested.resident_kib)), 1)
            .budget(Budget::AtMost(35.0)),
        Row::new(name("first run after it, ms"), of(|rested| rested.first_run_ms), 1)
            .budget(Budget::AtMost(5.0)),
        command("--help", |rested| rested.help_ms),
        command("threads list", |rested| rested.threads_ms),
        command("approvals list", |rested| rested.approvals_ms),
    ]
}

fn megabytes(kib: u64) -> f64 {
    kib as f64 * 1024.0 / 1e6
}

fn find(samples: &Samples) -> Vec<Row> {
    let of = |figure: fn(&Found) -> f64| {
        medians(samples, Workload::Find, |sample| sample.found.as_ref().map(figure))
    };
    vec![
        Row::new("`tool_search` among 5,000 tools, p50, ms", of(|found| found.search_ms), 2)
            .budget(Budget::AtMost(5.0)),
        Row::new("`tool_search` among 5,000 tools, p99, ms", of(|found| found.search_p99_ms), 2),
        Row::new("sorting 5,000 tools when they come, ms", of(|found| found.index_ms), 0),
    ]
}

/// Returns the rows of the pages. The budgets are limits that people notice: half a second to open, 45 of 60 frames, no
/// task longer than a tenth of a second. (ZE-S9)
fn pages(samples: &Samples) -> Vec<Row> {
    let of = |figure: fn(&PageFigures) -> f64| {
        medians(samples, Workload::Pages, |sample| sample.page.as_ref().map(figure))
    };
    let long = |what: &str| format!("page of 20,000 messages: {what}");
    let fast = |what: &str| format!("page with a reply of 2,500 fragments/s: {what}");
    vec![
        Row::new("first page: until something is painted, ms".to_owned(), of(|page| page.first_paint_ms), 0)
            .budget(Budget::AtMost(300.0)),
        Row::new(long("until the newest is there, ms"), of(|page| page.opened_ms), 0),
        Row::new(long("frames/s while it is scrolled"), of(|page| page.frames_per_s), 0)
            .budget(Budget::AtLeast(45.0)),
        Row::new(long("entries drawn at once"), of(|page| page.drawn), 0).budget(Budget::AtMost(150.0)),
        Row::new(long("longest task, ms"), of(|page| page.scroll_task_ms), 0).budget(Budget::AtMost(100.0)),
        Row::new(fast("fragments/s that reach it"), of(|page| page.fragments_per_s), 0)
            .budget(Budget::AtLeast(2_000.0)),
        Row::new(fast("longest task, ms"), of(|page| page.stream_task_ms), 0).budget(Budget::AtMost(100.0)),
        Row::new(fast("drawn, for each frame"), of(|page| page.drawn_per_frame), 2)
            .budget(Budget::AtMost(1.5)),
    ]
}

fn completed(sample: &Sample) -> Option<f64> {
    Some(sample.figures.completed as f64)
}

fn runs_per_second(sample: &Sample) -> Option<f64> {
    Some(sample.figures.completed as f64 / sample.figures.wall_s)
}

fn medians(
    samples: &Samples,
    workload: Workload,
    figure: impl Fn(&Sample) -> Option<f64>,
) -> [Option<f64>; 3] {
    by_program(|program| samples.median(workload, program, &figure))
}

fn by_program(figure: impl Fn(Program) -> Option<f64>) -> [Option<f64>; 3] {
    Program::ALL.map(figure)
}

impl Row {
    fn new(measure: impl Into<String>, figures: [Option<f64>; 3], decimals: usize) -> Row {
        Row { measure: measure.into(), figures, decimals, budget: None }
    }

    fn budget(self, budget: Budget) -> Row {
        Row { budget: Some(budget), ..self }
    }

    fn markdown(&self) -> String {
        let [_, rig, windlass] = self.figures;
        let cells = self.figures.map(|figure| figure.map_or(NOTHING.to_owned(), |figure| self.text(figure)));
        let budget = self.budget.map_or(String::new(), Budget::text);
        let is_met = windlass.zip(self.budget).and_then(|(windlass, budget)| budget.is_met(windlass, rig));
        let met = match (is_met, self.budget) {
            (Some(true), _) => "yes",
            (Some(false), _) => "**no**",
            (None, Some(_)) => NOTHING,
            (None, None) => "",
        };
        format!("| {} | {} | {budget} | {met} |\n", self.measure, cells.join(" | "))
    }

    fn text(&self, figure: f64) -> String {
        if self.decimals == 0 { grouped(figure.round()) } else { format!("{figure:.*}", self.decimals) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_compares_windlass_with_its_budget() {
        let line = |windlass| {
            Row::new("wait, ms", [Some(1.0), Some(2.0), windlass], 1).budget(Budget::TimesRig(1.5)).markdown()
        };
        assert_eq!(line(Some(3.0)), "| wait, ms | 1.0 | 2.0 | 3.0 | ≤ 1.5 × rig | yes |\n");
        assert_eq!(line(Some(3.1)), "| wait, ms | 1.0 | 2.0 | 3.1 | ≤ 1.5 × rig | **no** |\n");
        assert_eq!(line(None), "| wait, ms | 1.0 | 2.0 | – | ≤ 1.5 × rig | – |\n");
    }

    #[test]
    fn a_table_without_figures_still_names_what_it_would_measure() {
        let whole = markdown(&Samples::default(), 0.5, true);
        assert!(whole.contains("| CPU of a step, run of 20 steps, ms | – | – | – | ≤ rig + 0.25 | – |\n"));
        assert_eq!(markdown(&Samples::default(), 0.5, false).lines().count(), 4);
    }
}
