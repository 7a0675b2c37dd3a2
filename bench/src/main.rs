//! `windlass-bench`: serves scripts as a model, drives one program against it, runs the whole table, or plays Windlass
//! for an external harness.
//!
//! The README of this package explains the figures.

use std::io::{Read, Write};

use anyhow::{Context, Result};
use clap::{Args, Parser, Subcommand};
use serde_json::json;
use windlass_bench::drive::{self, Find, Load, Open, Peer, Program, Settings};
use windlass_bench::http::{self, Http, Idle, Restart};
use windlass_bench::pages::{self, Pages};
use windlass_bench::server::ModelServer;
use windlass_bench::{growth, machine, table};

/// The cost of Windlass, compared with a bare client and rig, against a scripted model server
#[derive(Parser)]
#[command(name = "windlass-bench", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve scripts as a model; the first line of output is the address, as JSON
    Serve(Serve),
    /// Play runs with one program in this process and print the figures as a JSON line
    Drive(Drive),
    /// Open the engine on a store in this process and print its cost as a JSON line
    Open(Open),
    /// Search in a large catalogue of tools in this process and print the cost as a JSON line
    Find(Find),
    /// Start `windlass serve`, load it with clients and print the cost as a JSON line
    Http(Http),
    /// Start `windlass serve`, let it idle after work, and print its cost and that of commands as a JSON line
    Idle(Idle),
    /// Start `windlass serve` on a store with waiting runs and print the cost as a JSON line
    Restart(Restart),
    /// Start `windlass serve` and a browser, and print figures of its pages as a JSON line
    Pages(Pages),
    /// Measure how work grows with the store and print the table
    Growth(Growth),
    /// Play Windlass for an external harness, which passes its settings in the environment
    Peer(Peer),
    /// Measure every program with every workload and print the table
    Run(table::Options),
}

#[derive(Args)]
struct Serve {
    /// Port on the loopback interface; 0 selects a free one
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Number of server threads
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// End when standard input ends, so that the server never outlives its parent
    #[arg(long)]
    until_stdin_ends: bool,
}

#[derive(Args)]
struct Growth {
    /// Small stores: checks that everything works
    #[arg(long)]
    quick: bool,
    /// Folder for the stores
    #[arg(long, default_value = "target/bench")]
    folder: std::path::PathBuf,
}

#[derive(Args)]
struct Drive {
    /// The program to measure
    program: Program,
    #[command(flatten)]
    settings: Settings,
    #[command(flatten)]
    load: Load,
}

fn main() -> Result<()> {
    match Cli::parse().command {
        Command::Serve(arguments) => serve(&arguments),
        Command::Drive(arguments) => {
            let figures = drive::drive(arguments.program, &arguments.settings, &arguments.load)?;
            writeln!(std::io::stdout(), "{}", serde_json::to_string(&figures)?)?;
            Ok(())
        }
        Command::Open(open) => {
            writeln!(std::io::stdout(), "{}", serde_json::to_string(&drive::open(&open)?)?)?;
            Ok(())
        }
        Command::Find(find) => {
            writeln!(std::io::stdout(), "{}", serde_json::to_string(&drive::find(&find)?)?)?;
            Ok(())
        }
        Command::Http(options) => {
            let runtime =
                tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
            let served = runtime.block_on(http::measure(&options))?;
            writeln!(std::io::stdout(), "{}", serde_json::to_string(&served)?)?;
            Ok(())
        }
        Command::Idle(options) => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let rested = runtime.block_on(http::idle(&options))?;
            writeln!(std::io::stdout(), "{}", serde_json::to_string(&rested)?)?;
            Ok(())
        }
        Command::Restart(options) => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let restarted = runtime.block_on(http::restart(&options))?;
            writeln!(std::io::stdout(), "{}", serde_json::to_string(&restarted)?)?;
            Ok(())
        }
        Command::Pages(options) => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let page = runtime.block_on(pages::measure(&options))?;
            writeln!(std::io::stdout(), "{}", serde_json::to_string(&page)?)?;
            Ok(())
        }
        Command::Growth(options) => {
            let sizes = if options.quick { growth::QUICK_SIZES } else { growth::SIZES };
            write!(std::io::stdout(), "{}", growth::run(&options.folder, sizes)?)?;
            Ok(())
        }
        Command::Peer(peer) => {
            writeln!(std::io::stdout(), "{}", drive::play_peer(&peer)?)?;
            Ok(())
        }
        Command::Run(options) => table::run(&options),
    }
}

fn serve(arguments: &Serve) -> Result<()> {
    machine::raise_open_files_limit();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(arguments.threads).enable_all().build()?;
    let server = runtime
        .block_on(ModelServer::start(arguments.port))
        .with_context(|| format!("cannot listen on port {}", arguments.port))?;
    let mut out = std::io::stdout();
    let line = json!({"address": server.address().to_string(), "base_url": server.base_url()});
    writeln!(out, "{line}")?;
    out.flush()?;
    if arguments.until_stdin_ends {
        std::io::stdin().read_to_end(&mut Vec::new())?;
    } else {
        runtime.block_on(std::future::pending::<()>());
    }
    Ok(())
}
