//! The table: every workload, for every program, with repetitions, against one model server.
//!
//! Repetitions are the outer loop, so that temporary load on the machine affects all programs alike. A slow program is
//! no failure; the table states whether it meets its budget.

mod budget;
mod child;
mod disk;
mod rows;
mod samples;
mod workload;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;

use self::child::Server;
use self::samples::{Sample, Samples};
use self::workload::Workload;
use crate::drive::{Opened, Program};
use crate::growth;
use crate::http::{Restarted, Rested};
use crate::machine;

/// Maximum duration of a workload. The longest takes half a minute on a slow machine.
const TIME_LIMIT: Duration = Duration::from_secs(180);

/// Minimum duration of a measurement in seconds. For a shorter one, the CPU share of other processes is not computed.
const SHARE_WALL_MIN_S: f64 = 0.3;

/// What to measure.
#[derive(Debug, Args)]
pub struct Options {
    /// Few repetitions: checks that everything works, with rough figures
    #[arg(long)]
    quick: bool,
    /// Only these workloads
    #[arg(long, value_enum, value_delimiter = ',', value_name = "WORKLOAD")]
    only: Vec<Workload>,
    /// Only these programs
    #[arg(long, value_enum, value_delimiter = ',', value_name = "PROGRAM")]
    programs: Vec<Program>,
    /// Repetitions of each workload, instead of its default
    #[arg(long)]
    repetitions: Option<usize>,
    /// Folder for the stores; its disk is the measured one
    #[arg(long, default_value = "target/bench")]
    folder: PathBuf,
}

/// Measures, and prints the table on standard output. Progress is printed on standard error.
///
/// # Errors
/// If the server or a program cannot be started. A program that fails at a workload leaves its cells empty.
pub fn run(options: &Options) -> Result<()> {
    std::fs::create_dir_all(&options.folder)
        .with_context(|| format!("cannot create the folder {}", options.folder.display()))?;
    let sync_ms = disk::sync_ms(&options.folder)?;
    let server = Server::start()?;
    let mut samples = Samples::default();
    let workloads: Vec<Workload> = Workload::ALL
        .into_iter()
        .filter(|one| options.only.is_empty() || options.only.contains(one))
        .collect();
    let repetitions =
        |workload: &Workload| options.repetitions.unwrap_or(workload.repetitions(options.quick));
    for repetition in 0..workloads.iter().map(repetitions).max().unwrap_or_default() {
        for workload in workloads.iter().filter(|workload| repetition < repetitions(workload)) {
            for program in options.programs().filter(|program| workload.concerns(*program)) {
                let folder = options.folder.join(format!("store-{}", std::process::id()));
                measure(&server, *workload, program, options.quick, &folder, &mut samples)?;
            }
        }
    }
    println!("{}", rows::markdown(&samples, sync_ms, options.only.is_empty()));
    if options.only.is_empty() && options.programs.is_empty() {
        let sizes = if options.quick { growth::QUICK_SIZES } else { growth::SIZES };
        println!("{}", growth::run(&options.folder, sizes)?);
    }
    Ok(())
}

impl Options {
    fn programs(&self) -> impl Iterator<Item = Program> {
        let is_wanted = |program: &Program| self.programs.is_empty() || self.programs.contains(program);
        Program::ALL.into_iter().filter(|program| program.is_written()).filter(is_wanted)
    }
}

fn measure(
    server: &Server,
    workload: Workload,
    program: Program,
    is_quick: bool,
    folder: &Path,
    samples: &mut Samples,
) -> Result<()> {
    std::fs::create_dir_all(folder)?;
    server.reset()?;
    let arguments = workload.arguments(program, server.base_url(), folder, is_quick);
    if let Some(sample) = without_runs(workload, &arguments) {
        std::fs::remove_dir_all(folder)?;
        match sample {
            Ok(sample) => samples.add(workload, program, sample),
            Err(error) => eprintln!("{:16} {:8} failed: {error:#}", workload.name(), program.name()),
        }
        return Ok(());
    }
    let before = Busy::now(server)?;
    let outcome = child::drive(&arguments, TIME_LIMIT);
    let after = Busy::now(server)?;
    let first_ns = server.first_ns()?;
    let (opened, restarted) = match (&outcome, workload) {
        (Ok(_), Workload::Waiting) => (Some(opened(folder)?), restarted(server, folder)),
        _ => (None, None), // tidy: the others leave nothing that waits
    };
    std::fs::remove_dir_all(folder)?;
    let label = format!("{:16} {:8}", workload.name(), program.name());
    match outcome {
        Ok(driven) => {
            let sample = Sample {
                first_request_ms: first_ns.map(|first| first.saturating_sub(driven.started_ns) as f64 / 1e6),
                others_share: after.others_share_since(&before, driven.figures.cpu_total_s),
                opened,
                restarted,
                served: None,
                rested: None,
                found: None,
                page: None,
                figures: driven.figures,
            };
            eprintln!("{label} {}", sample.summary());
            samples.add(workload, program, sample);
        }
        Err(error) => eprintln!("{label} failed: {error:#}"),
    }
    Ok(())
}

/// Measures a workload without runs; `None` for the other workloads.
fn without_runs(workload: Workload, arguments: &[OsString]) -> Option<Result<Sample>> {
    let empty = Sample::without_runs();
    Some(match workload {
        Workload::Serve => child::serve(arguments, TIME_LIMIT).map(|served| {
            eprintln!("serve            windlass {served}");
            Sample { served: Some(served), ..empty }
        }),
        Workload::Idle => child::idle(arguments, TIME_LIMIT).map(|rested| {
            let Rested { private_kib, resident_kib, first_run_ms, .. } = rested;
            eprintln!(
                "idle             windlass {private_kib} of {resident_kib} KiB private, {first_run_ms:.1} ms"
            );
            Sample { rested: Some(rested), ..empty }
        }),
        Workload::Find => child::find(arguments, TIME_LIMIT).map(|found| {
            eprintln!("find             windlass {:.3} ms a search", found.search_ms);
            Sample { found: Some(found), ..empty }
        }),
        Workload::Pages => child::pages(arguments, TIME_LIMIT).map(|page| {
            eprintln!("pages            windlass opened within {:.0} ms", page.opened_ms);
            Sample { page: Some(page), ..empty }
        }),
        Workload::Steps
        | Workload::Long
        | Workload::LongUnwindowed
        | Workload::Chunks
        | Workload::AtOnce
        | Workload::Slow
        | Workload::Waiting
        | Workload::Cold => return None,
    })
}

/// Returns the cost of opening the engine: on an empty store, and on the store in the folder.
fn opened(folder: &Path) -> Result<(Opened, Opened)> {
    let empty = folder.join("empty");
    std::fs::create_dir_all(&empty)?;
    Ok((child::open(&empty, TIME_LIMIT)?, child::open(folder, TIME_LIMIT)?))
}

/// Returns figures of a server on the store in the folder. Moves the store.
fn restarted(server: &Server, folder: &Path) -> Option<Restarted> {
    match child::restart(&workload::restart_arguments(server.base_url(), folder), TIME_LIMIT) {
        Ok(restarted) => Some(restarted),
        Err(error) => {
            eprintln!("waiting          windlass failed to serve: {error:#}");
            None
        }
    }
}

/// CPU time of the machine and the server up to a point in time.
struct Busy {
    at_ns: u64,
    machine_s: Option<f64>,
    server_s: f64,
}

impl Busy {
    fn now(server: &Server) -> Result<Busy> {
        let server_s = server.cpu_seconds()?;
        Ok(Busy { at_ns: machine::monotonic_ns(), machine_s: machine::busy_seconds(), server_s })
    }

    /// Returns the share of all cores that processes other than the server and the program have used. The kernel counts
    /// in hundredths of a second, so shorter measurements are meaningless.
    fn others_share_since(&self, before: &Busy, program_s: f64) -> Option<f64> {
        let wall_s = (self.at_ns - before.at_ns) as f64 / 1e9;
        let cores = std::thread::available_parallelism().ok()?.get() as f64;
        let busy_s = self.machine_s? - before.machine_s?;
        let others_s = busy_s - program_s - (self.server_s - before.server_s);
        (wall_s >= SHARE_WALL_MIN_S).then(|| (others_s / (wall_s * cores)).max(0.0))
    }
}
