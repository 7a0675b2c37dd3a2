//! The measured samples, and medians of them.
//!
//! The median of a few repetitions is the value that an idle machine would show most often; a
//! mean would include every disturbance.

use std::collections::BTreeMap;

use super::workload::Workload;
use crate::drive::{Figures, Found, Opened, Program};
use crate::http::{Restarted, Rested, Served};
use crate::pages::PageFigures;

/// One repetition.
pub(super) struct Sample {
    pub(super) figures: Figures,
    /// Time from the start of the process to its first request, in milliseconds.
    pub(super) first_request_ms: Option<f64>,
    /// The cost of opening the engine on an empty store, and on the store that the runs have left.
    pub(super) opened: Option<(Opened, Opened)>,
    /// Figures of a server on the store that the runs have left.
    pub(super) restarted: Option<Restarted>,
    /// The cost of serving.
    pub(super) served: Option<Served>,
    /// Figures of an idle server, and of commands.
    pub(super) rested: Option<Rested>,
    /// The cost of searching for tools.
    pub(super) found: Option<Found>,
    /// Figures of the web UI.
    pub(super) page: Option<PageFigures>,
    /// The share of the machine used by other processes.
    pub(super) others_share: Option<f64>,
}

/// All samples.
#[derive(Default)]
pub(super) struct Samples(BTreeMap<(Workload, Program), Vec<Sample>>);

impl Samples {
    pub(super) fn add(&mut self, workload: Workload, program: Program, sample: Sample) {
        self.0.entry((workload, program)).or_default().push(sample);
    }

    /// Returns the median share of other processes, over all samples.
    pub(super) fn others_share(&self) -> Option<f64> {
        median(self.0.values().flatten().filter_map(|sample| sample.others_share).collect())
    }

    /// Returns the median of a figure over the samples that have it.
    pub(super) fn median(
        &self,
        workload: Workload,
        program: Program,
        figure: impl Fn(&Sample) -> Option<f64>,
    ) -> Option<f64> {
        median(self.0.get(&(workload, program))?.iter().filter_map(figure).collect())
    }
}

impl Sample {
    /// Returns a sample of a measurement without runs; the caller adds its figures.
    pub(super) fn without_runs() -> Self {
        Self {
            figures: Figures::default(),
            first_request_ms: None,
            opened: None,
            restarted: None,
            served: None,
            rested: None,
            found: None,
            page: None,
            others_share: None,
        }
    }

    /// Returns the CPU time per step in milliseconds.
    pub(super) fn cpu_ms_per_step(&self) -> Option<f64> {
        self.per_step(self.figures.cpu_s * 1e3)
    }

    /// Returns the duration of a step in the median run, in milliseconds.
    pub(super) fn wall_ms_per_step(&self) -> Option<f64> {
        self.per_step(self.figures.run_ms * self.figures.runs as f64)
    }

    /// Returns the size of the journal per step, in bytes.
    pub(super) fn journal_bytes_per_step(&self) -> Option<f64> {
        self.per_step(self.figures.journal_bytes? as f64)
    }

    /// Returns the amount written to the disk per step, in thousands of bytes.
    pub(super) fn written_kb_per_step(&self) -> Option<f64> {
        self.per_step(self.figures.written_bytes? as f64 / 1e3)
    }

    fn per_step(&self, sum: f64) -> Option<f64> {
        (self.figures.steps > 0).then(|| sum / self.figures.steps as f64)
    }

    /// Returns one line of progress output.
    pub(super) fn summary(&self) -> String {
        let Figures { runs, completed, wall_s, cpu_s, resident_peak_kib, error, .. } = &self.figures;
        let error = error.as_ref().map(|error| format!(", first failure: {error}")).unwrap_or_default();
        let peak_mib = resident_peak_kib / 1024;
        let others =
            self.others_share.map_or(String::new(), |share| format!(", others {:.0} %", share * 100.0));
        let cost = format!("wall {wall_s:.2} s, CPU {cpu_s:.2} s, {peak_mib} MiB");
        format!("{completed} of {runs} runs, {cost}{others}{error}")
    }
}

/// Returns the median of the values.
pub(super) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let upper = values.get(middle)?;
    Some(if values.len() % 2 == 1 { *upper } else { (upper + values[middle - 1]) / 2.0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![3.0, 1.0, 9.0]), Some(3.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0, 9.0]), Some(3.0));
    }
}
