//! Tests that need no rights. Most executables run side by side; the examples in comments, which
//! cargo compiles, are the last.

use std::cmp::Reverse;
use std::thread;

use anyhow::ensure;

use super::binaries::{self, TestBinary};
use super::lanes::side_by_side;
use super::totals::{self, Failure, Totals};
use super::{Args, MOST_UNSTEADY, Variables, count_if_unsteady, long};
use crate::workspace;

/// Executable whose cases make all streams that a user may have: those of others would fail
/// meanwhile.
const ALONE: &str = "standard";

/// Executables side by side.
const LANES: usize = 2;

/// Executables that take longest, which begin first.
const LONG: [&str; 4] = ["views", "tools", "exports", "tracer_output"];

/// Runs the tests of these crates, and returns their results and those that failed.
pub fn run(
    selection: &[&str],
    args: &Args,
    variables: &Variables,
) -> anyhow::Result<(Totals, Vec<Failure>)> {
    let binaries = binaries::build_by(workspace::cargo_for_tests("test").args(selection))?;
    let (alone, mut beside): (Vec<_>, Vec<_>) =
        binaries.iter().partition(|binary| binary.name() == ALONE);
    beside.sort_by_key(|binary| Reverse(LONG.contains(&binary.name())));
    let mut totals = Totals::default();
    let mut failed = Vec::new();
    // Many wait for programs that wait, so there are more at once than processors.
    let processors = thread::available_parallelism()?.get();
    let names = match &args.filter {
        Some(filter) => vec![filter.into()],
        None if args.whole => Vec::new(),
        None => long::left_out().collect(),
    };
    for (together, lanes) in [(alone, 1), (beside, LANES)] {
        let threads = (2 * processors).div_ceil(lanes);
        let outcomes = side_by_side(together.into(), lanes, |binary: &TestBinary, show| {
            binary.run_as_it_is(&names, variables, threads, show)
        })?;
        for outcome in outcomes {
            totals.add(outcome.totals);
            failed.extend(outcome.failed);
        }
    }
    let outcome = totals::run(
        workspace::cargo_for_tests("test")
            .args(selection)
            .arg("--doc")
            .args(&args.filter)
            .envs(variables.iter().map(|(name, value)| (name, value))),
    )?;
    ensure!(
        outcome.is_success || outcome.totals.failed > 0,
        "the examples in comments cannot be built"
    );
    totals.add(outcome.totals);
    failed.extend(outcome.failed);
    // Those are the privileged ones: they are counted where they run, or do not.
    totals.ignored = 0;
    try_again(&mut totals, &failed, &binaries, variables)?;
    Ok((totals, failed))
}

/// Runs a few failed tests again, and counts those that pass as unsteady.
fn try_again(
    totals: &mut Totals,
    failed: &[Failure],
    binaries: &[TestBinary],
    variables: &Variables,
) -> anyhow::Result<()> {
    if failed.len() > MOST_UNSTEADY {
        return Ok(());
    }
    for Failure { name, .. } in failed {
        // Several may have one of this name; a test in a comment has no executable.
        let those = binaries.iter().filter(|binary| binary.has(name));
        let those: Vec<_> = those.collect();
        if those.is_empty() {
            continue;
        }
        count_if_unsteady(totals, name, || {
            for binary in &those {
                if !binary.passes_as_it_is(name, variables)? {
                    return Ok(false);
                }
            }
            Ok(true)
        })?;
    }
    Ok(())
}
