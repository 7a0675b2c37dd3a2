//! `windlass policy`: checks policy files, tests them with hypothetical calls, and explains past decisions.
//! Starts no tool and changes no data.

mod explain;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use windlass::machine::Rule;
use windlass_server::policy::{CaseFile, PolicyText, Problem, word};
use windlass_server::text::shown_line;
use windlass_server::trouble::{Exit, Trouble};

use crate::cli::flags::{ModelFlags, PlaceFlags};
use crate::console::Console;
use crate::paths::{POLICY_FILE, UserPaths};
use crate::place::{Ask, Ground};

#[derive(Args, Debug)]
pub struct PolicyArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Check policy files for errors
    #[command(after_help = CHECK_CODES)]
    Check {
        /// The files [default: the user's and the folder's]
        #[arg(value_name = "FILE")]
        files: Vec<PathBuf>,
        /// Print the problems as JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        place: PlaceFlags,
    },
    /// Explain what decided about a run's calls, and who answered
    Explain {
        /// The run's id, or the end of it [default: the newest run]
        #[arg(value_name = "RUN")]
        run: Option<String>,
        /// One call, by its step and its position there, such as `2.1`
        #[arg(value_name = "CALL")]
        call: Option<String>,
        /// Print the calls as JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        place: PlaceFlags,
    },
    /// Evaluate the calls of a file and compare with the expected verdicts
    Test {
        /// A file of `[[case]]`
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// A policy file to use instead of those in force [repeatable]
        #[arg(long, value_name = "FILE")]
        policy: Vec<PathBuf>,
        /// Print the results as JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        place: PlaceFlags,
    },
}

/// The exit codes in `check --help`.
const CHECK_CODES: &str = "Exit codes: 0 no problems, 1 warnings, 2 errors";

pub async fn run(console: &Console, args: &PolicyArgs) -> anyhow::Result<Exit> {
    match &args.command {
        Command::Check { files, json, place } => check(console, files, place, *json),
        Command::Explain { run, call, json, place } => {
            let ground = Ground::find(console, place, &ModelFlags::default(), Ask::Never)?;
            let place = ground.open_store().await?;
            explain::run(console, &place, run.as_deref(), call.as_deref(), *json).await
        }
        Command::Test { file, policy, json, place } => test(console, file, policy, place, *json),
    }
}

fn check(console: &Console, files: &[PathBuf], place: &PlaceFlags, json: bool) -> anyhow::Result<Exit> {
    let mut texts = Vec::new();
    for path in files {
        texts.push(PolicyText::read_named(path)?);
    }
    if files.is_empty() {
        for path in [UserPaths::find()?.policy(), place.folder().join(POLICY_FILE)] {
            texts.extend(PolicyText::read(&path)?);
        }
    }
    let (errors, warnings) = texts
        .iter()
        .map(PolicyText::count)
        .fold((0, 0), |(errors, warnings), of| (errors + of.0, warnings + of.1));
    if json {
        let of = |text: &PolicyText| {
            let path = text.path.display().to_string();
            json!({ "path": path, "rules": text.rules.len(), "problems": text.problems })
        };
        let files: Vec<Value> = texts.iter().map(of).collect();
        console.out_json(&json!({ "ok": errors + warnings == 0, "files": files }).to_string());
    } else {
        texts.iter().for_each(|text| print(console, text));
        if texts.is_empty() {
            console.note("no policy file found");
            console.hint(&format!(
                "rules are read from a folder's `{POLICY_FILE}` and the user's `policy.toml`"
            ));
        }
    }
    Ok(match (errors, warnings) {
        (0, 0) => Exit::Done,
        (0, _) => Exit::Failed,
        _ => Exit::Usage,
    })
}

fn print(console: &Console, text: &PolicyText) {
    let path = text.path.display().to_string();
    for problem in &text.problems {
        console.out(&problem.print(&path, |part, text| console.out_paint.highlight(part, text)));
    }
    let said = match text.count() {
        (0, 0) => format!("{}, no problems", counted(text.rules.len(), "rule")),
        (0, warnings) => format!("{}, {}", counted(text.rules.len(), "rule"), counted(warnings, "warning")),
        (errors, warnings) => format!("{}, {}", counted(errors, "error"), counted(warnings, "warning")),
    };
    console.out_line(&format!("{}: {said}", shown_line(&path)));
}

fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

fn test(
    console: &Console,
    path: &Path,
    named: &[PathBuf],
    place: &PlaceFlags,
    json: bool,
) -> anyhow::Result<Exit> {
    let shown_path = path.display().to_string();
    let text = std::fs::read_to_string(path)
        .map_err(|error| Trouble::usage(format!("cannot read `{shown_path}`: {error}")))?;
    let file = CaseFile::parse(&text).map_err(|problem| refused(&shown_path, problem))?;
    let rules = rules(console, path, &file, named, place)?;
    let mut results = Vec::new();
    for (index, case) in file.cases.iter().enumerate() {
        let judgement = case.judge(&rules);
        let (label, complaint) = (case.label(index), case.complaint(&judgement));
        if !json {
            let paint = console.out_paint;
            console.out_line(&match &complaint {
                None => format!("{}  {}", paint.green("✓ pass"), shown_line(&label)),
                Some(complaint) => {
                    format!("{}  {}: {}", paint.red("✗ fail"), shown_line(&label), shown_line(complaint))
                }
            });
        }
        let verdict = word(judgement.verdict);
        results.push(
            json!({ "case": label, "ok": complaint.is_none(), "verdict": verdict, "by": judgement.by }),
        );
    }
    let failed = results.iter().filter(|result| result["ok"] == false).count();
    if json {
        console.out_json(&json!({ "ok": failed == 0, "cases": results }).to_string());
    } else {
        console.out_line(&format!("{}, {failed} failed", counted(results.len(), "case")));
    }
    Ok(if failed == 0 { Exit::Done } else { Exit::Failed })
}

fn refused(path: &str, problem: Problem) -> Trouble {
    let trouble = Trouble::usage(problem.brief(path));
    problem.hint.into_iter().fold(trouble, Trouble::hint)
}

/// Returns the rules to test: those of the flags, otherwise those named in the file,
/// otherwise those in force in the folder.
fn rules(
    console: &Console,
    path: &Path,
    file: &CaseFile,
    named: &[PathBuf],
    place: &PlaceFlags,
) -> Result<Vec<Rule>, Trouble> {
    let beside = path.parent().unwrap_or(Path::new(""));
    let paths: Vec<PathBuf> = match &file.policy {
        _ if !named.is_empty() => named.to_vec(),
        Some(paths) => paths.iter().map(|path| beside.join(path)).collect(),
        None => return Ground::find(console, place, &ModelFlags::default(), Ask::Never).map(|it| it.rules()),
    };
    let mut rules = Vec::new();
    for path in paths {
        rules.extend(PolicyText::read_named(&path)?.whole()?);
    }
    Ok(rules)
}
