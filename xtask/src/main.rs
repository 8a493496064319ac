//! `cargo xtask`: builds, tests and installs the project.
//!
//! Every task sets up its prerequisites first, so each of them works on a machine that has only the
//! toolchain.

use std::process::ExitCode;

use clap::Parser;
use xtask::{tasks, workspace};

/// Builds, tests and installs the project.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Task {
    /// Installs what building needs and is missing (the other tasks do so too)
    Setup(tasks::setup::Args),
    /// Builds only the eBPF object, which is a part of the repository
    BuildEbpf(tasks::build_ebpf::Args),
    /// Builds everything: the eBPF object, then the workspace
    Build,
    /// Builds, and puts library, header, pkg-config file and binary into target/dist
    Dist,
    /// Installs library, header, pkg-config file and binary
    Install(tasks::install::Args),
    /// Removes what was installed
    Uninstall(tasks::install::Args),
    /// Makes packages for Debian and for systems with rpm, and checks them
    Package(tasks::package::Args),
    /// Attaches to a small instrumented program and prints its timeline
    Demo(tasks::demo::Args),
    /// Runs the tests, those that load eBPF included
    Test(tasks::test::Args),
    /// Runs what continuous integration leaves out, for hours, and sums up
    Nightly(tasks::nightly::Args),
    /// Runs the tests that load eBPF on older kernels, in virtual machines
    Vmtest(tasks::vmtest::Args),
    /// Runs the tests that can in an interpreter that finds undefined behaviour
    Miri(tasks::miri::Args),
    /// Runs a fuzz target, or packs its seeds
    Fuzz(tasks::fuzz::Args),
    /// Stresses the trace area at random, and counts what was sent
    Stress(tasks::stress::Args),
    /// Measures the project beside the tools that people use today
    Bench(tasks::bench::Args),
    /// Checks formatting, lints, and what is generated
    Lint(tasks::lint::Args),
    /// Writes docs/conformance.md from the clauses of the standard and the tests that show them
    Conformance(tasks::conformance::Args),
    /// Writes the part of trace.h that is made from the code
    Header(tasks::header::Args),
    /// Writes the manual pages that are made from the code
    Man(tasks::man::Args),
    /// Makes the wheel of the Python package, and tests it
    Wheel(tasks::wheel::Args),
    /// Asks the questions of docs/fleet.md of each engine, and compares the answers
    Fleet(tasks::fleet::Args),
    /// Builds the shipper, and tests it with real servers
    Ship(tasks::ship::Args),
    /// Makes the pictures of the documents anew, from what real programs show
    Pictures(tasks::pictures::Args),
    /// Writes docs/json-members.md, and the list of members of JSON that its version has
    Json(tasks::json::Args),
    /// Writes the lists of what the Rust crates make public
    Interface(tasks::interface::Args),
}

fn main() -> ExitCode {
    let task = Task::parse();
    let result = workspace::settle().and_then(|()| perform(task));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn perform(task: Task) -> anyhow::Result<()> {
    match task {
        Task::Setup(args) => tasks::setup::run(&args),
        Task::BuildEbpf(args) => tasks::build_ebpf::asked(&args),
        Task::Build => tasks::build::run(),
        Task::Dist => tasks::dist::run().map(drop),
        Task::Install(args) => tasks::install::run(&args),
        Task::Uninstall(args) => tasks::install::remove(&args),
        Task::Package(args) => tasks::package::run(&args),
        Task::Demo(args) => tasks::demo::run(&args),
        Task::Test(args) => tasks::test::run(&args),
        Task::Nightly(args) => tasks::nightly::run(&args),
        Task::Vmtest(args) => tasks::vmtest::run(&args),
        Task::Miri(args) => tasks::miri::run(&args),
        Task::Fuzz(args) => tasks::fuzz::run(&args),
        Task::Stress(args) => tasks::stress::run(&args),
        Task::Bench(args) => tasks::bench::run(&args),
        Task::Lint(args) => tasks::lint::run(&args),
        Task::Conformance(args) => tasks::conformance::run(&args),
        Task::Header(args) => tasks::header::run(&args),
        Task::Man(args) => tasks::man::run(&args),
        Task::Wheel(args) => tasks::wheel::run(&args),
        Task::Fleet(args) => tasks::fleet::run(&args),
        Task::Ship(args) => tasks::ship::run(&args),
        Task::Pictures(args) => tasks::pictures::run(&args),
        Task::Json(args) => tasks::json::run(&args),
        Task::Interface(args) => tasks::interface::run(&args),
    }
}
