//! Measures how work grows with a store: SQLite's work for fifteen operations on a small and on a large store.
//!
//! SQLite counts its steps and pages, so these figures do not depend on the machine, unlike times.

mod fill;
mod operation;

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use windlass::sqlite::Work;

use self::fill::World;
use self::operation::Operation;
use crate::drive::quantile;
use crate::machine;
use crate::server::ModelServer;

/// Number of threads in the small and in the large store.
pub const SIZES: [u64; 2] = [1_000, 100_000];
/// Number of threads in the two stores for a quick table.
pub const QUICK_SIZES: [u64; 2] = [200, 4_000];

/// Number of repetitions of an operation before the measurement, and during it.
const WARM_UP: usize = 3;
const TIMES: usize = 20;

/// Maximum growth of steps and pages: the large store's count as a multiple of the small store's. Up to `PAGES_MORE`
/// extra pages are allowed, because an index of a hundred times as many rows is a level deeper.
const WORK_MAX: f64 = 1.3;
const PAGES_MORE: f64 = 4.0;
/// Maximum growth of the time, and the difference that is always allowed.
const TIME_MAX: f64 = 1.5;
const TIME_MORE_MS: f64 = 0.3;

/// The cost of one call of an operation.
#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    statements: f64,
    steps: f64,
    pages: f64,
    p50_ms: f64,
}

/// An operation on both stores.
#[derive(Clone, Copy, Debug)]
struct Line {
    operation: Operation,
    costs: [Cost; 2],
}

/// Measures every operation on stores of two sizes, and returns the table in Markdown. The stores are created in
/// `folder` and deleted.
///
/// # Errors
/// If a store cannot be created or an operation fails.
pub fn run(folder: &Path, sizes: [u64; 2]) -> Result<String> {
    machine::raise_open_files_limit();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let lines = runtime.block_on(measure(folder, sizes))?;
    Ok(markdown(&lines, sizes))
}

async fn measure(folder: &Path, sizes: [u64; 2]) -> Result<Vec<Line>> {
    let server = ModelServer::start(0).await?;
    let empty = |operation| Line { operation, costs: [Cost::default(); 2] };
    let mut lines: Vec<Line> = Operation::ALL.map(empty).into();
    for (nth, threads) in sizes.into_iter().enumerate() {
        let folder = folder.join(format!("growth-{}-{threads}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        eprintln!("growth           a store with {threads} threads");
        let world = World::make(&folder, &server.base_url(), threads).await?;
        for line in &mut lines {
            line.costs[nth] = cost(&world, line.operation).await?;
        }
        drop(world);
        std::fs::remove_dir_all(&folder)?;
    }
    Ok(lines)
}

async fn cost(world: &World, operation: Operation) -> Result<Cost> {
    let times = if operation.is_linear() { 1 } else { TIMES };
    for _ in 0..WARM_UP.min(times) {
        operation.play(world).await?;
    }
    world.store.take_work().await?;
    let mut took_ms = Vec::with_capacity(times);
    for _ in 0..times {
        let from_ns = machine::monotonic_ns();
        operation.play(world).await?;
        took_ms.push((machine::monotonic_ns() - from_ns) as f64 / 1e6);
    }
    let Work { statements, steps, pages } = world.store.take_work().await?;
    let of_one = |count: u64| count as f64 / times as f64;
    let p50_ms = quantile(&mut took_ms, 0.5).unwrap_or_default();
    Ok(Cost { statements: of_one(statements), steps: of_one(steps), pages: of_one(pages), p50_ms })
}

impl Line {
    /// Returns the growth of steps and pages as ratios. A count below 1 in the small store is treated as 1.
    fn work(&self) -> [f64; 2] {
        let [small, large] = self.costs;
        let ratio = |small: f64, large: f64| large / small.max(1.0);
        [ratio(small.steps, large.steps), ratio(small.pages, large.pages)]
    }

    fn is_flat(&self) -> bool {
        let [small, large] = self.costs;
        let [steps, pages] = self.work();
        steps <= WORK_MAX && (pages <= WORK_MAX || large.pages <= small.pages + PAGES_MORE)
    }

    fn is_met(&self) -> bool {
        let [small, large] = self.costs;
        let is_quick = large.p50_ms <= (small.p50_ms * TIME_MAX).max(small.p50_ms + TIME_MORE_MS);
        self.is_flat() && is_quick
    }
}

fn markdown(lines: &[Line], [small, large]: [u64; 2]) -> String {
    let mut text = format!(
        "| operation, {small} and {large} threads | statements | steps | × | pages | × | p50, ms | × | met? |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|---|\n"
    );
    for line in lines {
        let [one, two] = line.costs;
        let [steps, pages] = line.work();
        let time = two.p50_ms / one.p50_ms.max(0.001);
        let met = match (line.operation.is_linear(), line.is_met()) {
            (true, _) => "linear",
            (false, true) => "yes",
            (false, false) => "**no**",
        };
        text += &format!(
            "| {} | {:.0} | {:.0} → {:.0} | {steps:.2} | {:.0} → {:.0} | {pages:.2} | {:.2} → {:.2} | {time:.2} | {met} |\n",
            line.operation.name(),
            two.statements,
            one.steps,
            two.steps,
            one.pages,
            two.pages,
            one.p50_ms,
            two.p50_ms,
        );
    }
    text
}

/// The store that the engine and the measurement share.
type Store = Arc<windlass::sqlite::SqliteStore>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_operation_does_more_on_a_store_with_many_threads() {
        let folder = tempfile::tempdir().unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let lines = runtime.block_on(measure(folder.path(), QUICK_SIZES)).unwrap();
        // A run writes a dozen indexes, each of which may be a level deeper.
        let is_bounded = |line: &Line| match line.operation {
            Operation::Run => line.work().into_iter().all(|ratio| ratio <= 1.6),
            _ => line.operation.is_linear() || line.is_flat(), // tidy: the others read a few
        };
        assert!(lines.iter().all(is_bounded), "{}", markdown(&lines, QUICK_SIZES));
        // Reading a list takes one statement, for any number of rows.
        for (operation, statements) in [
            (Operation::Thread, 1.0),
            (Operation::Threads, 1.0),
            (Operation::WorkspaceThreads, 1.0),
            (Operation::Runs, 1.0),
            (Operation::ActiveRuns, 1.0),
            (Operation::Metrics, 1.0),
            (Operation::Interrupts, 2.0),
        ] {
            let line = lines.iter().find(|line| line.operation == operation).unwrap();
            assert_eq!(line.costs.map(|cost| cost.statements), [statements; 2], "{operation:?}");
        }
    }
}
