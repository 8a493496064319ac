//! Lanes of tests that run as root. Nearly all tests run alone: they count the activity of the
//! whole machine, or need its processors at once.

use std::panic::resume_unwind;
use std::thread;

use super::totals::Outcome;
use super::{Run, Variables};

/// Files of tests that neither see other processes nor are seen: a kernel in user space, the
/// verifier's opinion of each program, and the output of strace for single programs, line by line.
const APART: [&str; 7] = [
    "overcommit",
    "tracer_kernel",
    "beside_strace",
    "described",
    "given",
    "modes",
    "strings",
];

/// Executable whose tests run beside those. They attack one tracer each, as users of their own, and
/// wait most of their time.
const BESIDE: &str = "security";

/// Run and its outcome.
type Ended<'a> = (&'a Run<'a>, Outcome);

/// Runs all tests: first two lanes, then the others one by one.
pub fn run<'a>(runs: &'a [Run<'a>], variables: &Variables) -> anyhow::Result<Vec<Ended<'a>>> {
    let (apart, others): (Vec<_>, Vec<_>) = runs
        .iter()
        .partition(|run| run.setting.words.is_empty() && APART.contains(&run.file()));
    let (beside, alone): (Vec<_>, Vec<_>) = others
        .into_iter()
        .partition(|run| run.setting.words.is_empty() && run.binary.name() == BESIDE);
    let mut ended = thread::scope(|scope| {
        let apart = scope.spawn(|| lane(&apart, variables, true));
        let mut ended = lane(&beside, variables, true)?;
        ended.extend(apart.join().unwrap_or_else(|panic| resume_unwind(panic))?);
        anyhow::Ok(ended)
    })?;
    ended.extend(lane(&alone, variables, false)?);
    Ok(ended)
}

/// Runs these one after the other. When another lane prints too, the output of each is shown at its
/// end.
fn lane<'a>(
    runs: &[&'a Run<'a>],
    variables: &Variables,
    has_others: bool,
) -> anyhow::Result<Vec<Ended<'a>>> {
    let mut ended = Vec::new();
    for run in runs {
        let mut held = String::new();
        let mut show = |line: &str| {
            if has_others {
                held.push_str(line);
                held.push('\n');
            } else {
                println!("{line}");
            }
        };
        let binary = run.binary;
        let outcome = binary.run_privileged(&run.names, variables, run.setting, &mut show);
        print!("{held}");
        ended.push((*run, outcome?));
    }
    Ok(ended)
}
