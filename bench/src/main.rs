//! Benchmark: the project beside the tools that a user would take instead, on the same work, in
//! turn, in one run.
//!
//! - [`questions`]: the questions, one file per subject. Each gives a [`contest::Contest`].
//! - [`tools`]: how the peers, and our own command line, are started and stopped.
//! - [`contest`]: runs contestants in turn; [`spread`] is the arithmetic.
//! - [`results`]: the JSON output; [`text`] and [`document`] make it readable.

mod contest;
mod document;
mod growth;
mod machine;
mod meanwhile;
mod micro;
mod outcome;
mod plot;
mod programs;
mod questions;
mod results;
mod spread;
mod text;
mod tools;
mod workbench;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, ensure};

use clap::Parser;
use results::Results;
use workbench::Workbench;
use xtask::tasks::{dist, setup};
use xtask::{interpreters, packages, privilege, tracefs, workspace};

/// Measures the project beside the tools that people use today.
#[derive(Parser)]
#[command(name = "cargo xtask bench", bin_name = "cargo xtask bench")]
struct Args {
    /// Only questions whose name contains one of these (see the names in docs/performance.md)
    filters: Vec<String>,
    /// Less work in each run
    #[arg(long)]
    quick: bool,
    /// Ask also how memory grows over so many seconds: 3600 for an hour
    #[arg(long, value_name = "SECONDS")]
    long: Option<u64>,
    /// Rounds of each question, instead of seven, or five of a quick run
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u8).range(1..))]
    rounds: Option<u8>,
    /// Install the peers from the system's packages, and the newest interpreter of Python that is
    /// known, and measure nothing
    #[arg(long)]
    setup: bool,
    /// Write docs/performance.md anew from the last results, and measure nothing
    #[arg(long)]
    document: bool,
    /// Keep the results of a quick run in the repository too, or those of a filtered one instead of
    /// the same questions' there
    #[arg(long, conflicts_with = "beside")]
    keep: bool,
    /// Have another build of tracer-user take part in the questions about switches and calls: this
    /// one may cost 2 % more at most
    #[arg(long, value_name = "FILE")]
    beside: Option<PathBuf>,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Measures, prints, and writes the results.
///
/// A whole run goes to `bench/results/` and `docs/performance.md`; a part of it, or a quick one,
/// only to `target/bench/`, so that it does not replace better figures.
fn run(args: &Args) -> anyhow::Result<()> {
    if args.setup {
        packages::install_missing(packages::TO_BENCHMARK)?;
        return interpreters::install_newest();
    }
    let latest = workspace::root().join("bench/results/latest.json");
    if args.document {
        return document::write(&Results::load(&latest)?);
    }
    ensure!(
        privilege::is_root(),
        "root is needed to run the tracers that are compared: run this task as root"
    );
    tracefs::mount()?;
    setup::for_c_programs()?;
    dist::run()?;
    let results = measure(args)?;
    let is_whole = args.filters.is_empty() && !args.quick && args.beside.is_none();
    if is_whole || args.keep {
        let mut results = if args.filters.is_empty() {
            let mut all = results;
            if let Ok(before) = Results::load(&latest) {
                all.keep(before, questions::LONG);
            }
            all
        } else {
            let mut all = Results::load(&latest)?;
            all.take_again(results);
            all
        };
        results.sort_by(&names());
        results.save(&latest)?;
        document::write(&results)?;
        println!("Written: bench/results/, docs/performance.md");
    } else {
        let other = workspace::target("bench/latest.json");
        results.save(&other)?;
        text::save_beside(&results, &other)?;
        println!("Written: {}", other.display());
    }
    Ok(())
}

fn measure(args: &Args) -> anyhow::Result<Results> {
    let mut bench = Workbench::prepare(args.quick, args.long.unwrap_or_default())?;
    if let Some(rounds) = args.rounds {
        bench.rounds = rounds.into();
    }
    bench.beside.clone_from(&args.beside);
    let is_wanted = |name: &str| {
        let is_chosen =
            args.filters.is_empty() || args.filters.iter().any(|part| name.contains(part));
        is_chosen && (name != questions::LONG || args.long.is_some())
    };
    let mut results = Results::new(machine::look()?, args.quick);
    for question in questions::ALL {
        if is_wanted(question.name) {
            println!("\n== {}", question.name);
            let contest = (question.ask)(&bench)
                .with_context(|| format!("{} cannot be asked", question.name))?;
            let outcome = contest.run(question.name, bench.rounds);
            print!("{}", text::outcome(&outcome));
            results.outcomes.push(outcome);
        }
    }
    for series in growth::ALL {
        if is_wanted(series.name) {
            println!("\n== {}", series.name);
            let curve = series.measure(&bench)?;
            print!("{}", text::curve(&curve));
            results.curves.push(curve);
        }
    }
    if is_wanted(results::MICRO) {
        println!("\n== {}", results::MICRO);
        results.micro = micro::measure(args.quick)?;
        print!("{}", text::micro(&results.micro));
    }
    ensure!(
        !results.is_empty(),
        "no question's name contains any of {:?}, or only one that --long asks; there are: {}",
        args.filters,
        names().join(", ")
    );
    Ok(results)
}

fn names() -> Vec<&'static str> {
    let questions = questions::ALL.iter().map(|question| question.name);
    let curves = growth::ALL.iter().map(|series| series.name);
    questions.chain(curves).chain([results::MICRO]).collect()
}

/// Returns the folder for programs and traces of the benchmark.
fn folder() -> PathBuf {
    workspace::target("bench")
}
