//! Lanes of tests that run as root. Most look at processes of their own and wait most of the time,
//! so that two of them run side by side; a third lane made some fail that compare times. Those that
//! count what the whole machine does, or need its processors, run alone after them.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use super::binaries::own_name;
use super::totals::Outcome;
use super::{Run, Variables, joined, took};

/// Lanes side by side.
const LANES: usize = 2;

/// Executable whose tests share users, so that all of it is in one lane.
const IN_ONE_LANE: &str = "security";

/// Files of tests that run alone: they measure how long something takes, need all processors, or
/// have processes that keep whatever asks after them waiting.
const FILES_ALONE: [&str; 7] = [
    "compare",
    "explain",
    "machine",
    "python_stacks",
    "real_time",
    "served",
    "slow",
];

/// Tests of other files that run alone: they count what all processes of the machine do, or when
/// threads get a processor.
pub const TESTS_ALONE: [&str; 18] = [
    "a_live_trace_of_all_has_interrupts_and_of_a_command_what_is_named_too",
    "a_slow_span_is_explained_and_its_log_has_what_led_to_it",
    "a_thread_that_does_not_block_is_in_nothing_and_one_that_ends_in_its_exit",
    "a_wait_that_ended_in_vain_is_of_who_ended_it_in_the_end",
    "an_elf_file_serves_and_so_does_each_command",
    "calls_and_errors_are_those_that_strace_counts_in_the_same_run",
    "chains_of_many_areas_take_no_memory_of_others",
    "ctrl_c_ends_the_trace_and_the_page_is_made",
    "each_event_wakes_a_real_time_reader",
    "each_thread_of_the_machine_runs_as_long_as_the_kernel_counts",
    "interrupts_of_each_cpu_are_as_many_as_the_kernel_counted_and_as_long_as_bpftrace_measured",
    "of_the_whole_machine_every_process_that_is_made_is_there_but_the_tracers_own",
    "requests_are_explained_by_what_delayed_them",
    "time_without_a_cpu_is_where_the_program_slept",
    "what_cannot_match_is_not_recorded",
    "where_events_are_lost_no_thread_is_blamed_wrongly",
    "windows_in_which_calls_are_recorded_without_root_have_all_of_them",
    "windows_that_are_written_to_hold_no_tracer_up",
];

/// Tells whether a test runs alone.
pub fn is_alone(file: &str, test: &str) -> bool {
    FILES_ALONE.contains(&file) || TESTS_ALONE.contains(&own_name(test))
}

/// Run and its outcome.
type Ended<'a> = (&'a Run<'a>, Outcome);

/// Runs all tests, first those of the lanes.
pub fn run<'a>(runs: &'a [Run<'a>], variables: &Variables) -> anyhow::Result<Vec<Ended<'a>>> {
    let (alone, beside): (Vec<_>, Vec<_>) = runs.iter().partition(|run| run.is_alone);
    let started = Instant::now();
    let ended = side_by_side(lots(beside), LANES, |lot, show| {
        let all = lot.into_iter().map(|run| perform(run, variables, show));
        all.collect::<anyhow::Result<Vec<_>>>()
    })?;
    let mut ended: Vec<_> = ended.into_iter().flatten().collect();
    took("tests as root, side by side", started);
    let started = Instant::now();
    for run in alone {
        ended.push(perform(run, variables, &mut |line| println!("{line}"))?);
    }
    took("tests as root, alone", started);
    Ok(ended)
}

/// Divides runs into lots that stay in a lane, the longest one first and then those with the most
/// tests: one that takes long must not be the last.
fn lots<'a>(runs: Vec<&'a Run<'a>>) -> VecDeque<Vec<&'a Run<'a>>> {
    let is_in_one = |run: &&Run<'_>| run.binary.name() == IN_ONE_LANE;
    let (together, mut others): (Vec<_>, Vec<_>) = runs.into_iter().partition(is_in_one);
    others.sort_by_key(|run| Reverse(run.names.len()));
    let others = others.into_iter().map(|run| vec![run]);
    std::iter::once(together).chain(others).collect()
}

/// Performs each of `all`, so many at a time, in their order, and shows the output of each at its
/// end.
///
/// # Errors
///
/// One could not be performed: its lane ends.
pub fn side_by_side<T: Send, R: Send>(
    all: VecDeque<T>,
    lanes: usize,
    perform: impl Fn(T, &mut dyn FnMut(&str)) -> anyhow::Result<R> + Sync,
) -> anyhow::Result<Vec<R>> {
    let all = Mutex::new(all);
    let next = || {
        all.lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop_front()
    };
    let lane = || {
        let mut ended = Vec::new();
        while let Some(one) = next() {
            let mut held = String::new();
            let outcome = perform(one, &mut |line| {
                held.push_str(line);
                held.push('\n');
            });
            print!("{held}");
            ended.push(outcome?);
        }
        anyhow::Ok(ended)
    };
    thread::scope(|scope| {
        let lanes: Vec<_> = (0..lanes).map(|_| scope.spawn(lane)).collect();
        let ended: anyhow::Result<Vec<_>> = lanes.into_iter().map(joined).collect();
        Ok(ended?.into_iter().flatten().collect())
    })
}

fn perform<'a>(
    run: &'a Run<'a>,
    variables: &Variables,
    show: &mut dyn FnMut(&str),
) -> anyhow::Result<Ended<'a>> {
    let outcome = run
        .binary
        .run_privileged(&run.names, variables, run.setting, show)?;
    Ok((run, outcome))
}
