//! The tests that load eBPF, on other kernels than this machine's.
//!
//! Each kernel is Debian's own package. Its guest has the files of this machine, the compiler and
//! the tools among them, and changes only its own memory. The eBPF object is the one inside the
//! `tracer-user` that is distributed. What a kernel said of each test is noted in the repository as
//! soon as it is known, and [`table`] makes a document of it.

mod apt;
mod archive;
pub mod arm64;
mod cases;
mod console;
mod initramfs;
mod kernels;
mod machine;
mod results;
mod run;
mod selection;
mod system;
pub mod table;

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, ensure};

use crate::tasks::test::Arch;
use crate::tasks::{dist, setup};
use crate::workspace;
use cases::Case;
use initramfs::Guest;
use kernels::{KERNELS, Kernel};
use machine::Processors;
use selection::Selection;
pub use system::boot;

/// Which kernels to boot.
#[derive(clap::Args)]
pub struct Args {
    /// Kernel to boot, or all; may be given more than once
    #[arg(long, value_name = "KERNEL", default_value = "all", value_parser = names())]
    kernel: Vec<String>,
    /// Leave a kernel whose tests take longer than this together
    #[arg(long, value_name = "SECONDS", default_value = "7200")]
    limit: u64,
    /// Machines of another kind, with the tests that end there
    #[arg(long, value_name = "KIND")]
    arch: Option<Arch>,
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
    if let Some(Arch::Aarch64) = args.arch {
        return arm64::run(args);
    }
    setup::for_virtual_machines()?;
    let processors = Processors::of_this_machine();
    let built = if args.as_built {
        cases::of_last_build()?
    } else {
        build(processors)?
    };
    let cases = cases::chosen(&built, args.filter.as_deref(), args.tests.as_deref())?;

    let guest = Guest::of_this_machine();
    let mut outcomes = Vec::new();
    for (name, kernel) in chosen(&args.kernel) {
        let outcome = kernel.fetch().and_then(|image| {
            run::all(&run::Order {
                name,
                image,
                guest: &guest,
                cases: &cases,
                built: &built,
                resume: args.resume,
                processors,
                limit: Duration::from_secs(args.limit),
            })
        });
        outcomes.push((name, outcome.with_context(|| format!("kernel {name}"))?));
    }
    say(&outcomes, processors)
}

/// Writes the document, and says how each kernel went.
fn say(outcomes: &[(&'static str, run::Outcome)], processors: Processors) -> anyhow::Result<()> {
    table::write()?;
    println!();
    for (test, why) in selection::impossible(processors) {
        println!("left out: {test}: {why}");
    }
    for (name, outcome) in outcomes {
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
