//! The tests that load eBPF, on other kernels than this machine's.
//!
//! Each kernel is Debian's own package. Its guest has the files of this machine, the compiler and
//! the tools among them, and changes only its own memory. The eBPF object is the one inside the
//! `tracer-user` that is distributed. What a kernel said of each test is noted in the repository as
//! soon as it is known, and [`table`] makes a document of it.

mod archive;
mod cases;
mod console;
mod initramfs;
mod kernels;
mod machine;
mod results;
mod run;
mod selection;
pub mod table;

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, ensure};

use crate::tasks::{dist, setup};
use crate::workspace;
use cases::Case;
use kernels::{KERNELS, Kernel};
use machine::Processors;
use selection::Selection;

/// Which kernels to boot.
#[derive(clap::Args)]
pub struct Args {
    /// Kernel to boot: 6.1, 6.12, 6.1-rt, 6.12-rt, or all; may be given more than once
    #[arg(long, value_name = "KERNEL", default_value = "all", value_parser = names())]
    kernel: Vec<String>,
    /// Leave a kernel whose tests take longer than this together
    #[arg(long, value_name = "SECONDS", default_value = "7200")]
    limit: u64,
    /// Only the tests that this file names, one a line, in its order
    #[arg(long, value_name = "FILE")]
    tests: Option<PathBuf>,
    /// Leave out what has passed on the kernel before
    #[arg(long)]
    resume: bool,
    /// Boot what was built last
    #[arg(long)]
    as_built: bool,
    /// Only write the document from the results that are there
    #[arg(long)]
    table: bool,
    /// Only tests whose executable and name contain this
    filter: Option<String>,
}

fn names() -> Vec<&'static str> {
    let names = KERNELS.iter().map(|(name, _)| *name);
    names.chain(["all"]).collect()
}

/// Builds once, boots one kernel after the other, and says how each went.
pub fn run(args: &Args) -> anyhow::Result<()> {
    if args.table {
        return table::write();
    }
    setup::for_virtual_machines()?;
    let processors = Processors::of_this_machine();
    let built = if args.as_built {
        cases::of_last_build()?
    } else {
        build(processors)?
    };
    let cases = cases::chosen(&built, args.filter.as_deref(), args.tests.as_deref())?;

    let mut outcomes = Vec::new();
    for (name, kernel) in chosen(&args.kernel) {
        let outcome = run::all(&run::Order {
            name,
            kernel,
            cases: &cases,
            built: &built,
            resume: args.resume,
            processors,
            limit: Duration::from_secs(args.limit),
        });
        outcomes.push((name, outcome.with_context(|| format!("kernel {name}"))?));
    }
    table::write()?;
    println!();
    for (test, why) in selection::impossible(processors) {
        println!("left out: {test}: {why}");
    }
    for (name, outcome) in &outcomes {
        println!("{name} {outcome}");
    }
    let failed = outcomes.iter().filter(|(_, outcome)| !outcome.is_good());
    let failed = failed.count();
    ensure!(failed == 0, "{failed} of {} kernels failed", outcomes.len());
    Ok(())
}

/// Lays out what all kernels run, and returns the tests.
fn build(processors: Processors) -> anyhow::Result<Vec<Case>> {
    dist::run_without_pages()?;
    let tests = Selection::build(processors)?;
    fs::create_dir_all(workspace::target("vm"))?;
    initramfs::lay_out(&tests)?;
    let cases = tests.cases();
    cases::note_build(&cases)?;
    Ok(cases)
}

fn chosen(typed: &[String]) -> impl Iterator<Item = (&'static str, Kernel)> {
    KERNELS
        .into_iter()
        .filter(|(name, _)| typed.iter().any(|typed| typed == name || typed == "all"))
}
