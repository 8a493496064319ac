//! The tests that load eBPF, on other kernels than this machine's.
//!
//! Each kernel is Debian's own package, booted with a root file system that holds the distribution,
//! the test executables and what they compare with. The eBPF object is the one inside the
//! `tracer-user` that is distributed.

mod archive;
mod console;
mod initramfs;
mod kernels;
mod libraries;
mod machine;
mod selection;

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

use crate::tasks::{dist, setup};
use crate::workspace;
use kernels::{KERNELS, Kernel};
use machine::Processors;
use selection::Selection;

/// Which kernels to boot.
#[derive(clap::Args)]
pub struct Args {
    /// Kernel to boot: 6.1, 6.12, 6.1-rt, 6.12-rt, or all; may be given more than once
    #[arg(long, value_name = "KERNEL", default_value = "all", value_parser = names())]
    kernel: Vec<String>,
    /// End a virtual machine that runs for longer
    #[arg(long, value_name = "SECONDS", default_value = "7200")]
    limit: u64,
    /// Only tests whose name contains this
    filter: Option<String>,
}

fn names() -> Vec<&'static str> {
    let names = KERNELS.iter().map(|(name, _)| *name);
    names.chain(["all"]).collect()
}

/// How one kernel went.
struct Outcome {
    name: &'static str,
    package: String,
    clock: String,
    passed: u64,
    seconds: u64,
    fault: Option<String>,
}

/// Builds, boots one kernel after the other, and says how each went.
pub fn run(args: &Args) -> anyhow::Result<()> {
    setup::for_virtual_machines()?;
    dist::run()?;
    let processors = Processors::of_this_machine();
    let tests = Selection::build(processors, args.filter.as_deref())?;
    let initramfs = workspace::target("vm/initramfs.cpio");
    fs::create_dir_all(workspace::target("vm"))?;
    fs::write(&initramfs, initramfs::build(&tests)?)
        .with_context(|| initramfs.display().to_string())?;

    let mut outcomes = Vec::new();
    for (name, kernel) in chosen(&args.kernel) {
        let outcome = boot(
            name,
            kernel,
            &tests,
            processors,
            Duration::from_secs(args.limit),
        );
        outcomes.push(outcome.with_context(|| format!("kernel {name}"))?);
    }
    println!();
    tests.say_left_out();
    for outcome in &outcomes {
        say(outcome);
    }
    let failed = outcomes
        .iter()
        .filter(|outcome| outcome.fault.is_some())
        .count();
    ensure!(failed == 0, "{failed} of {} kernels failed", outcomes.len());
    Ok(())
}

fn chosen(typed: &[String]) -> impl Iterator<Item = (&'static str, Kernel)> {
    KERNELS
        .into_iter()
        .filter(|(name, _)| typed.iter().any(|typed| typed == name || typed == "all"))
}

fn boot(
    name: &'static str,
    kernel: Kernel,
    tests: &Selection,
    processors: Processors,
    limit: Duration,
) -> anyhow::Result<Outcome> {
    let image = kernel.fetch()?;
    println!("\nBooting {}, {}", image.package, processors.for_people());
    let log = workspace::target("vm").join(format!("{name}.log"));
    let begin = Instant::now();
    let console = machine::run(
        &image.path,
        &workspace::target("vm/initramfs.cpio"),
        processors,
        &log,
        limit,
    )?;
    Ok(Outcome {
        name,
        package: image.package,
        clock: console.clock.clone().unwrap_or_default(),
        passed: console.totals.passed,
        seconds: begin.elapsed().as_secs(),
        fault: console.fault(u64::try_from(tests.count())?),
    })
}

fn say(outcome: &Outcome) {
    let Outcome {
        name,
        package,
        clock,
        passed,
        seconds,
        fault,
    } = outcome;
    let verdict = match fault {
        None => "ok".to_owned(),
        Some(fault) => format!("FAILED: {fault}"),
    };
    println!("{name} ({package}, clock {clock}): {passed} tests passed in {seconds} s: {verdict}");
}
