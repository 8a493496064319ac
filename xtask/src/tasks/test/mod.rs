//! Whole test suite.

mod arm64;
pub mod binaries;
mod coarse_clock;
mod lanes;
mod long;
mod namespace;
pub mod totals;
mod without_rights;

use std::env;
use std::ffi::OsString;
use std::panic::resume_unwind;
use std::path::Path;
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use anyhow::ensure;

use crate::tasks::{dist, lint, man, recorder, setup, wheel};
use crate::{interpreters, node, packages, privilege, python, workspace};
use binaries::{Setting, TestBinary, own_name};
use totals::{Failure, Totals};

/// Selection of tests.
#[derive(clap::Args)]
pub struct Args {
    /// Leave out the tests that load eBPF
    #[arg(long)]
    unprivileged: bool,
    /// Also the test that traces PostgreSQL, which is installed for it
    #[arg(long, conflicts_with = "unprivileged")]
    postgresql: bool,
    /// Also the tests that trace ROS 2, which is installed for them with LTTng, where there is
    /// Python 3.11
    #[arg(long, conflicts_with = "unprivileged")]
    ros: bool,
    /// Only those that run as programs for this kind of machine, by emulation
    #[arg(long, value_name = "KIND", conflicts_with_all = ["unprivileged", "postgresql", "ros"])]
    arch: Option<Arch>,
    /// Only those of order, with a clock as coarse as that of some machines
    #[arg(long, conflicts_with_all = ["unprivileged", "postgresql", "ros", "arch"])]
    coarse_clock: bool,
    /// Also what takes long and seldom finds more: the model of the area, all families in a pid
    /// namespace, each way to compile, ten times the cases of properties, long tests; with the
    /// tool as it is shipped
    #[arg(long, conflicts_with_all = ["arch", "coarse_clock"])]
    whole: bool,
    /// Also the lint: clippy as the tests' compiler, and the rest of `cargo xtask lint` beside
    /// the tests that need no rights
    #[arg(long, conflicts_with_all = ["arch", "coarse_clock"])]
    lint: bool,
    /// Only tests whose name contains this
    filter: Option<String>,
}

/// A kind of machine that this one is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Arch {
    /// arm64
    Aarch64,
}

/// Builds everything, runs everything, and prints the totals in the last line.
///
/// A test that loads eBPF is marked `#[ignore]`, so that a plain `cargo test` works without rights;
/// here they run as root. In CI (`CI=true`) it is a failure when they cannot.
pub fn run(args: &Args) -> anyhow::Result<()> {
    if let Some(Arch::Aarch64) = args.arch {
        return arm64::run(args.filter.as_deref());
    }
    if args.coarse_clock {
        setup::for_tests()?;
        return coarse_clock::run(args.filter.as_deref());
    }
    if args.lint {
        workspace::lint_tests();
    }
    setup::for_c_programs()?;
    if args.whole {
        packages::install_missing(packages::TO_TEST_WHOLE)?;
        python::install_ddtrace()?;
        // The tests that need it say so.
        if let Err(error) = interpreters::install_newest() {
            eprintln!("no interpreter of the newest version: {error:#}");
        }
    }
    if args.postgresql {
        packages::install_missing(packages::TO_TEST_POSTGRESQL)?;
    }
    if args.ros {
        packages::install_missing(packages::TO_TEST_ROS)?;
        python::install_ros()?;
    }
    let started = Instant::now();
    let variables = thread::scope(|scope| {
        // The network is slower than the compiler.
        let tools = scope.spawn(setup::tools_of_tests);
        let variables = build(args.whole)?;
        joined(tools).map(|()| variables)
    })?;

    took("the build", started);

    if args.whole {
        wheel::for_tests()?;
    }
    let started = Instant::now();
    let ((mut totals, mut failed), lint) = thread::scope(|scope| {
        let lint = args.lint.then(|| scope.spawn(lint::run_beside));
        let (mut totals, mut failed) = without_rights::run(&binaries::SELECTION, args, &variables)?;
        if args.whole {
            let (more, also) = without_rights::run(&binaries::MODEL, args, &variables)?;
            totals.add(more);
            failed.extend(also);
        }
        // The tests that follow need the processors.
        anyhow::Ok(((totals, failed), lint.map_or(Ok(()), joined)))
    })?;
    took("tests without rights", started);
    if !args.unprivileged {
        let (more, also) = privileged(args, &variables)?;
        totals.add(more);
        failed.extend(also);
    }
    // Again, where the last lines of a long output are all that is at hand.
    for failure in &failed {
        println!("\n{failure}");
    }
    println!("\n{totals}");
    ensure!(totals.failed == 0, "{} tests failed", totals.failed);
    lint
}

/// Says how long a part of the run took that began then.
fn took(part: &str, started: Instant) {
    println!("\n{part}: {} s", started.elapsed().as_secs());
}

/// Number of tests that are shown as the slowest.
const SLOWEST: usize = 25;

/// Shows the tests that took longest.
fn show_slowest(mut took: Vec<(Duration, String)>) {
    took.sort();
    println!("\nthe slowest tests that ran as root:");
    for (time, name) in took.iter().rev().take(SLOWEST) {
        println!("{:6.1} s  {name}", time.as_secs_f64());
    }
}

/// Waits for the end of a thread of this task.
fn joined<T>(thread: ScopedJoinHandle<'_, anyhow::Result<T>>) -> anyhow::Result<T> {
    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
}

/// Builds the programs under test and the tests, and returns the environment of the tests.
fn build(is_whole: bool) -> anyhow::Result<Variables> {
    // The tests have it in them.
    recorder::run()?;
    let dist = thread::scope(|scope| {
        let tests = scope.spawn(binaries::build);
        let dist = if is_whole {
            dist::run_without_pages()?
        } else {
            dist::run_for_tests()?
        };
        joined(tests).map(|_| dist)
    })?;
    // What makes them is built with the tests.
    man::make_for_programs()?;
    Ok(environment(&dist, is_whole))
}

/// Environment variables of the tests, by name.
type Variables = Vec<(&'static str, OsString)>;

/// Tests that trace PostgreSQL: it is more than most people want to install for a test.
const POSTGRESQL: &str = "postgresql";

/// Tests that trace ROS 2: it is a quarter of a gigabyte, and made for one version of Python.
const ROS: &str = "ros";

fn is_ci() -> bool {
    env::var_os("CI").is_some_and(|value| value == "true")
}

/// Further variables of tests that leave nothing out: all ways to compile, ten times the usual
/// cases of properties, and more changes of seeds.
const WHOLE: [(&str, &str); 3] = [
    ("TRACER_WHOLE", "1"),
    ("PROPTEST_CASES", "2560"),
    ("UNTRUSTED_ROUNDS", "5000"),
];

/// Returns the variables of every test: the paths of the programs and libraries under test, the
/// packages of Python and Node.js to compare with, and whether to leave nothing out.
fn environment(dist: &Path, is_whole: bool) -> Variables {
    let mut variables = vec![
        ("TRACER_DIST", dist.into()),
        ("TRACER_PYTHON", python::interpreter().into_os_string()),
        ("TRACER_NODE_MODULES", node::modules().into_os_string()),
    ];
    if is_whole {
        variables.push((interpreters::VARIABLE, interpreters::listed()));
        let with_ddtrace = python::with_ddtrace().into_os_string();
        variables.push(("TRACER_DDTRACE", with_ddtrace));
        let more = WHOLE.iter().map(|(name, value)| (*name, value.into()));
        variables.extend(more);
    }
    if is_ci() {
        variables.push(("TRACER_REQUIRE_PRIVILEGED", "1".into()));
    }
    variables
}

/// Tests of one executable that run as root, and their environment.
struct Run<'a> {
    binary: &'a TestBinary,
    setting: &'a Setting,
    names: Vec<String>,
    /// Whether no other test may run beside them.
    is_alone: bool,
}

fn privileged(args: &Args, variables: &Variables) -> anyhow::Result<(Totals, Vec<Failure>)> {
    let filter = args.filter.as_deref();
    let here = Setting::default();
    let in_namespace = namespace::setting(args.whole);
    let mut runs: Vec<Run<'_>> = Vec::new();
    let binaries = binaries::build()?;
    for binary in &binaries {
        let mut names = binary.privileged()?;
        names.retain(|name| match filter {
            Some(filter) => name.contains(filter),
            None => args.whole || !long::TESTS.contains(&own_name(name)),
        });
        for names in names.chunk_by(|one, next| binary.file_of(one) == binary.file_of(next)) {
            let file = binary.file_of(&names[0]);
            if file == POSTGRESQL && !args.postgresql {
                println!("\nleft out: PostgreSQL under pgbench; --postgresql runs it");
                continue;
            }
            if file == ROS && !(args.ros && python::has_ros()) {
                println!("\nleft out: ROS 2; --ros runs it, where there is Python 3.11");
                continue;
            }
            let is_chosen = namespace::FILES.iter().any(|(chosen, _)| *chosen == file);
            for setting in [Some(&here), is_chosen.then_some(&in_namespace)] {
                let Some(setting) = setting else { continue };
                let there = names.iter().filter(|name| setting.takes(name));
                let (alone, beside): (Vec<_>, Vec<_>) =
                    there.cloned().partition(|name| lanes::is_alone(file, name));
                for (is_alone, names) in [(false, beside), (true, alone)] {
                    if !names.is_empty() {
                        runs.push(Run {
                            binary,
                            setting,
                            names,
                            is_alone,
                        });
                    }
                }
            }
        }
    }
    if filter.is_none() {
        check_that_none_is_missing(&runs, args.whole)?;
    }
    let expected: usize = runs.iter().map(|run| run.names.len()).sum();
    let expected = u64::try_from(expected)?;
    if let Err(error) = privilege::check("run the tests that load eBPF") {
        if is_ci() {
            return Err(error.context("in CI the privileged tests must run"));
        }
        println!("\nskipped {expected} tests that load eBPF: {error}");
        let skipped = Totals {
            ignored: expected,
            ..Totals::default()
        };
        return Ok((skipped, Vec::new()));
    }
    // Whatever goes wrong in a namespace goes wrong outside first.
    runs.sort_by_key(|run| run.setting.words.len());
    let mut totals = Totals::default();
    let mut failed = Vec::new();
    let mut slowest = Vec::new();
    for (run, outcome) in lanes::run(&runs, variables)? {
        totals.add(outcome.totals);
        slowest.extend(outcome.took);
        let failures = outcome.failed.into_iter();
        failed.extend(failures.map(|failure| (run.binary, run.setting, failure)));
    }
    if filter.is_none() {
        show_slowest(slowest);
    }
    ensure!(
        totals.passed + totals.failed == expected,
        "{expected} privileged tests were to run and {} did",
        totals.passed + totals.failed
    );
    try_again(&mut totals, &failed, variables)?;
    let failed = failed.into_iter().map(|(_, _, failure)| failure);
    Ok((totals, failed.collect()))
}

/// Most tests of one run that may be unsteady: where a host takes CPUs away, some are at once. More
/// are a fault.
const MOST_UNSTEADY: usize = 4;

/// Number of passes after which a failed test counts as unsteady, and not as wrong.
const PASSES_AFTER: usize = 3;

/// Runs a few failed tests again. These tests trace a whole live machine and compare with others'
/// counts of it; now and then one of a thousand sees activity of the machine that it does not allow
/// for. Such a test is reported by name, to be examined; and it has to pass several times after.
fn try_again(
    totals: &mut Totals,
    failed: &[(&TestBinary, &Setting, Failure)],
    variables: &Variables,
) -> anyhow::Result<()> {
    if failed.len() > MOST_UNSTEADY {
        return Ok(());
    }
    for (binary, setting, failure) in failed {
        let name = &failure.name;
        count_if_unsteady(totals, name, || binary.passes(name, variables, setting))?;
    }
    Ok(())
}

/// Runs a failed test again, by `passes`, and counts it as unsteady if it always passes.
fn count_if_unsteady(
    totals: &mut Totals,
    name: &str,
    mut passes: impl FnMut() -> anyhow::Result<bool>,
) -> anyhow::Result<()> {
    for _ in 0..PASSES_AFTER {
        if !passes()? {
            return Ok(());
        }
    }
    totals.failed -= 1;
    totals.passed += 1;
    totals.unsteady += 1;
    println!("\nunsteady: {name} failed once and then passed {PASSES_AFTER} times");
    Ok(())
}

/// Fails when tests that load eBPF are missing, or those that are to run in a namespace as well.
fn check_that_none_is_missing(runs: &[Run<'_>], is_whole: bool) -> anyhow::Result<()> {
    ensure!(!runs.is_empty(), "no test that loads eBPF was found");
    let (mut names, mut in_namespace) = (Vec::new(), Vec::new());
    for run in runs {
        if run.setting.words.is_empty() {
            names.extend(&run.names);
        } else {
            in_namespace.extend(&run.names);
        }
    }
    for (file, name) in namespace::FILES {
        ensure!(
            in_namespace.iter().any(|there| own_name(there) == name),
            "no test of {file} that loads eBPF is called {name} any more"
        );
    }
    for name in namespace::LEFT_OUT.iter().chain(&lanes::TESTS_ALONE) {
        let is_left_out = !is_whole && long::TESTS.contains(name);
        ensure!(
            is_left_out || names.iter().any(|there| own_name(there) == *name),
            "no test is called {name} any more"
        );
    }
    Ok(())
}
