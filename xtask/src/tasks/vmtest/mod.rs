//! Tests that load eBPF, on other kernels than this machine's.
//!
//! Each kernel is Debian's own package, or an image that the user gives. Its guest has the files of
//! this machine, the compiler and the tools among them, and changes only its own memory. The eBPF
//! object is the one inside the `tracer-user` that is distributed. The result of each test is
//! written to the repository as soon as it is known, and `results` makes a document of the results.

mod apt;
mod archive;
pub mod arm64;
mod console;
mod initramfs;
mod kernels;
mod machine;
pub mod results;
mod run;
mod selection;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail, ensure};

use crate::tasks::test::Arch;
use crate::tasks::{dist, setup};
use crate::{packages, workspace};
use console::Console;
use initramfs::Guest;
use kernels::{Image, KERNELS, Kernel, WITHOUT_PACKAGE};
use machine::{Kind, Machine, Processors};
use selection::Case;
use selection::Selection;

/// Selection of kernels and tests.
#[derive(clap::Args)]
pub struct Args {
    /// Kernel to boot, or all; may be given more than once
    #[arg(long, value_name = "KERNEL", default_value = "all", value_parser = names())]
    kernel: Vec<String>,
    /// Boot this image as the kernel that is chosen, instead of Debian's
    #[arg(long, value_name = "FILE", conflicts_with = "arch")]
    image: Option<PathBuf>,
    /// Leave a kernel whose tests take longer than this together
    #[arg(long, value_name = "SECONDS", default_value = "7200")]
    limit: u64,
    /// Boot machines of this architecture, and run the tests that depend on it
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
    names.chain([WITHOUT_PACKAGE, "all"]).collect()
}

/// Builds once, boots one kernel after the other, and prints the result of each.
pub fn run(args: &Args) -> anyhow::Result<()> {
    if args.table {
        return results::write();
    }
    if let Some(Arch::Aarch64) = args.arch {
        return arm64::run(args);
    }
    let chosen = chosen(&args.kernel);
    ensure!(
        args.image.is_none() || chosen.len() == 1,
        "--image is for one kernel, which --kernel names"
    );
    setup::for_virtual_machines()?;
    let processors = Processors::detect();
    let built = if args.as_built {
        selection::read_last_build()?
    } else {
        build(processors)?
    };
    let cases = selection::chosen(&built, args.filter.as_deref(), args.tests.as_deref())?;

    // One test needs rtla: without it, the test is skipped and says so.
    if let Err(error) = apt::fetch_rtla() {
        eprintln!("no rtla: {error:#}");
    }
    let guest = Guest::describe_this_machine();
    let mut outcomes = Vec::new();
    for (name, kernel) in chosen {
        let image = match (&args.image, kernel) {
            (Some(path), _) => Ok(Image::given(path)),
            (None, Some(kernel)) => kernel.fetch(),
            (None, None) => Err(anyhow!(
                "Debian has no package of {name}: give an image, with --image"
            )),
        };
        let outcome = image.and_then(|image| {
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
        outcomes.push((name, outcome));
    }
    say(&outcomes, processors)
}

/// Kernel, and its outcome or why it could not run.
type Ended = (&'static str, anyhow::Result<run::Outcome>);

/// Writes the document, and prints the result of each kernel, also of those that could not run.
fn say(outcomes: &[Ended], processors: Processors) -> anyhow::Result<()> {
    results::write()?;
    println!();
    for (test, why) in selection::impossible(processors) {
        println!("left out: {test}: {why}");
    }
    for (name, outcome) in outcomes {
        match outcome {
            Ok(outcome) => println!("{name} {outcome}"),
            Err(error) => println!("{name} DID NOT RUN: {error:#}"),
        }
    }
    let is_good = |outcome: &anyhow::Result<run::Outcome>| {
        let outcome = outcome.as_ref();
        outcome.is_ok_and(run::Outcome::is_good)
    };
    let failed = outcomes.iter().filter(|(_, outcome)| !is_good(outcome));
    let failed = failed.count();
    ensure!(failed == 0, "{failed} of {} kernels failed", outcomes.len());
    Ok(())
}

/// Lays out the files that all kernels run, and returns the tests.
fn build(processors: Processors) -> anyhow::Result<Vec<Case>> {
    dist::run_without_pages()?;
    let tests = Selection::build(processors)?;
    fs::create_dir_all(workspace::target("vm"))?;
    initramfs::lay_out(&tests)?;
    let cases = tests.cases();
    selection::note_build(&cases)?;
    Ok(cases)
}

/// Returns the kernels that were typed. "all" stands for those that have packages.
fn chosen(typed: &[String]) -> Vec<(&'static str, Option<Kernel>)> {
    let is_typed = |name: &str| typed.iter().any(|typed| typed == name);
    let packaged = KERNELS
        .into_iter()
        .filter(|(name, _)| is_typed(name) || is_typed("all"))
        .map(|(name, kernel)| (name, Some(kernel)));
    let given = is_typed(WITHOUT_PACKAGE).then_some((WITHOUT_PACKAGE, None));
    packaged.chain(given).collect()
}

/// Boots a virtual machine with the system whose files are below `root` on this machine, and with
/// the kernel of `NEWEST`. `first` is the first program, with its arguments. The system's changes
/// stay in its memory, and its console goes to `target/vm/NAME.log`.
///
/// The system has to print `vmtest: done` and end by itself, and its kernel must not have a fault.
pub fn boot(name: &str, root: &Path, first: &str, limit: Duration) -> anyhow::Result<()> {
    packages::install_missing(packages::FOR_VIRTUAL_MACHINES)?;
    fs::create_dir_all(workspace::target("vm"))?;
    let newest = KERNELS.iter().find(|(kernel, _)| *kernel == NEWEST);
    let (_, kernel) = newest.context("no such kernel")?;
    let image = kernel.fetch()?;
    let processors = Processors::detect();
    println!("Booting {}, {}", image.package, processors.for_people());
    let path = workspace::target("vm").join(format!("{name}.initramfs.cpio"));
    let bytes = initramfs::make_for_system(&image, first)?;
    fs::write(&path, bytes).with_context(|| path.display().to_string())?;
    let log = workspace::target("vm").join(format!("{name}.log"));
    fs::write(&log, "").with_context(|| log.display().to_string())?;
    let machine = Machine {
        kind: Kind::X86_64,
        files: root,
        kernel: &image.path,
        initramfs: &path,
        processors,
        is_threaded: true,
    };
    let console: Console = machine::run(&machine, &log, limit, |_| Ok(()))?;
    match console.fault() {
        None => Ok(()),
        Some(fault) => bail!("{fault}"),
    }
}

/// Kernel that today's systems have: not the newest of `KERNELS`.
const NEWEST: &str = "6.12";
