//! Times that threads wait and run, switch by switch, beside `perf sched timehist` of the same run.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;
use tests::command::perf_record;
use tests::event::Event;
use tests::rights::missing_right;
use tests::tracer::Tracer;
use tests::{dist, mount};

/// Largest difference between two times: perf leaves out what is less than a microsecond, and of
/// two tracers at a tracepoint one comes after the other, between which a host may take the CPU
/// away. What is compared takes milliseconds.
const APART_US: u64 = 20;

/// Time that may be missing in a run or a wait that the kernel did not report.
const SLICE_US: u64 = 4_000;

/// Threads that want the same CPU, for 2 ms in each of 30 rounds, and sleep between.
const THREADS: usize = 12;

/// Switch away from a thread. Times are in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Left {
    /// Time of the switch.
    at: u64,
    /// Time that it was away before it got the CPU.
    away: u64,
    /// Part of `away` after it was made or woken; 0 if it was not.
    delay: u64,
    /// Time that it had the CPU.
    ran: u64,
}

impl Left {
    /// Returns the times beside `at`.
    fn times(&self) -> [u64; 3] {
        [self.away, self.delay, self.ran]
    }
}

/// Tells whether two times differ by no more than [`APART_US`].
fn is_near(one: u64, other: u64) -> bool {
    one.abs_diff(other) <= APART_US
}

/// Pairs the switches that both tracers have.
fn pairs<'a>(own: &'a [Left], others: &'a [Left]) -> Vec<(&'a Left, &'a Left)> {
    let other = |left: &Left| {
        let first = others.partition_point(|other| other.at + APART_US < left.at);
        others.get(first).filter(|other| is_near(other.at, left.at))
    };
    let pair = |left| Some((left, other(left)?));
    own.iter().filter_map(pair).collect()
}

/// Each time that each thread left its CPU, in order.
type Switches = BTreeMap<i64, Vec<Left>>;

/// Both tracers' view of a run of `schedstat`.
struct Run {
    threads: Vec<i64>,
    /// Switches by the events of `tracer-user`.
    own: Switches,
    /// Switches by the events of `tracer-user`, after the thread has ended.
    of_ended: Switches,
    /// Switches by perf.
    others: Switches,
    /// Statistics of `tracer-user`.
    stat: Value,
}

impl Run {
    fn new() -> anyhow::Result<Self> {
        let _tracefs = mount::tracefs()?;
        let folder = tempfile::tempdir()?;
        let program = dist::compile("schedstat", folder.path())?;
        let (recorded, log) = (folder.path().join("perf.data"), folder.path().join("log"));
        let mut perf = perf_record();
        // By the clock that our events have.
        perf.args(["-a", "-k", "CLOCK_MONOTONIC", "-m", "4M"]);
        for name in ["sched_switch", "sched_wakeup", "sched_wakeup_new"] {
            perf.args(["-e", &format!("sched:{name}")]);
        }
        perf.arg("-o").arg(&recorded).arg("--");
        perf.arg(dist::tracer_user()?).args(["run", "--log"]);
        perf.arg(&log).arg("--");
        let output = perf.arg(program).arg(THREADS.to_string()).output()?;
        ensure!(output.status.success(), "{output:?}");

        let said = String::from_utf8(output.stdout)?;
        let tids = said.lines().filter_map(|line| line.split(' ').next());
        let threads: Vec<i64> = tids.map(str::parse).collect::<Result<_, _>>()?;
        ensure!(threads.len() == THREADS, "{said}");
        let trace = Tracer::start("read", [&log])?.finish()?;
        ensure!(trace.summary()?.all_lost() == 0, "events were lost");
        let (own, of_ended) = own(&trace.events()?)?;
        Ok(Self {
            own,
            of_ended,
            others: timehist(&recorded)?,
            stat: stat(&log)?,
            threads,
        })
    }
}

/// Reads the switches that `perf sched timehist` prints.
fn timehist(recorded: &Path) -> anyhow::Result<Switches> {
    let mut perf = Command::new("perf");
    let perf = perf.args(["sched", "timehist", "-i"]).arg(recorded);
    let output = perf.output()?;
    ensure!(output.status.success(), "{output:?}");
    let mut switches = Switches::new();
    // "   49972.067789 [0000]  switches[22002/22001]     0.000      1.056      0.028"
    for line in String::from_utf8(output.stdout)?.lines().skip(3) {
        // There may be words on what perf lost.
        let Some((at, rest)) = line.split_once('[') else {
            continue;
        };
        // An idle CPU's task has no identifiers.
        let Some((task, times)) = rest.rsplit_once(']').filter(|(task, _)| task.contains('['))
        else {
            continue;
        };
        let (_, ids) = task.rsplit_once('[').context("no identifiers")?;
        let tid = ids.split('/').next().unwrap_or_default().parse()?;
        // All have as many decimals as make microseconds.
        let us = |text: &str| text.trim().replace('.', "").parse::<u64>();
        let times: Vec<u64> = times.split_whitespace().map(us).collect::<Result<_, _>>()?;
        let [away, delay, ran] = times[..] else {
            bail!("{line}");
        };
        switches.entry(tid).or_default().push(Left {
            at: us(at)?,
            away,
            delay,
            ran,
        });
    }
    Ok(switches)
}

/// Finds the switches in the events of `tracer-user`, and those of threads that have ended: these
/// no longer have an identifier that perf could say.
fn own(events: &[Event]) -> anyhow::Result<(Switches, Switches)> {
    /// State of a thread.
    #[derive(Default)]
    struct Known {
        left: Option<u64>,
        woken: Option<u64>,
        got: Option<(u64, u64)>,
        has_ended: bool,
    }
    let mut threads: BTreeMap<i64, Known> = BTreeMap::new();
    let (mut switches, mut of_ended) = (Switches::new(), Switches::new());
    for event in events {
        let (tid, at) = (i64::from(event.tid), event.ns);
        let known = threads.entry(tid).or_default();
        known.has_ended |= event.is_system("thread_exit");
        if event.is_system("wakeup") {
            known.woken.get_or_insert(at);
        } else if event.is_system("switch_in") {
            let since = |past: Option<u64>| past.map_or(0, |past| at - past);
            known.got = Some((since(known.left), since(known.woken)));
        } else if event.is_system("switch_out") {
            let ran = u64::try_from(event.integer("ran_ns").context("ran_ns")?)?;
            // Where the kernel has not reported that it got the CPU, nothing is said.
            if let Some((away, delay)) = known.got.take() {
                let of_thread = if known.has_ended {
                    &mut of_ended
                } else {
                    &mut switches
                };
                of_thread.entry(tid).or_default().push(Left {
                    at: at / 1000,
                    away: away / 1000,
                    delay: delay / 1000,
                    ran: ran / 1000,
                });
            }
            (known.left, known.woken) = (Some(at), None);
        }
    }
    Ok((switches, of_ended))
}

fn stat(log: &Path) -> anyhow::Result<Value> {
    let mut stat = Command::new(dist::tracer_user()?);
    let output = stat.args(["stat", "--format", "json"]).arg(log).output()?;
    Ok(serde_json::from_slice(&output.stdout)?)
}

#[test]
#[ignore = "loads eBPF"]
fn perf_sched_timehist_says_of_each_switch_how_long_the_thread_waited_and_ran() {
    if missing_right().is_some() {
        return;
    }
    let run = Run::new().unwrap();

    let (mut most, mut both, mut long, mut same) = (0, 0, [0; 3], [0; 3]);
    let mut of_each = Vec::new();
    for tid in &run.threads {
        let (own, others) = (&run.own[tid], &run.others[tid]);
        let pairs = pairs(own, others);
        most += own.len().max(others.len());
        both += pairs.len();
        of_each.push((own.len(), others.len(), pairs.len()));
        for (own, other) in pairs {
            for (kind, (own, other)) in own.times().into_iter().zip(other.times()).enumerate() {
                same[kind] += usize::from(is_near(own, other));
                long[kind] += usize::from(other > 4 * APART_US);
            }
        }
    }
    // The kernel does not report every switch to every tracer. All threads woke in each round, and
    // many of these times are long.
    let unreported = run.stat["not_reported"].as_u64().unwrap();
    assert!(
        both * 100 >= most * 95,
        "{both} of {most}, {unreported} not reported; own, perf's and pairs by thread: {of_each:?}"
    );
    assert!(both >= THREADS * 30, "{both}");
    assert!(long.iter().all(|count| *count >= THREADS * 15), "{long:?}");
    let is_most = |count: &usize| count * 100 >= both * 95;
    assert!(same.iter().all(is_most), "{same:?} of {both}");

    // What all of them sum up to, by the statistics.
    let sum = |of: fn(&Left) -> u64| -> u64 {
        let both = [&run.others, &run.of_ended];
        let of_thread = |tid| both.into_iter().filter_map(move |by| by.get(tid)).flatten();
        run.threads.iter().flat_map(of_thread).map(of).sum()
    };
    let own_sum = |of: fn(&Value) -> &Value| -> u64 {
        let threads = run.stat["threads"].as_array().unwrap().iter();
        let threads = threads.filter(|one| run.threads.iter().any(|tid| one["tid"] == *tid));
        threads.map(|one| of(one).as_u64().unwrap() / 1000).sum()
    };
    for (own, other) in [
        (own_sum(|one| &one["running_ns"]), sum(|left| left.ran)),
        (
            own_sum(|one| &one["wakeups"]["total_ns"]),
            sum(|left| left.delay),
        ),
    ] {
        let margin = other / 50 + unreported * SLICE_US;
        assert!(
            own.abs_diff(other) <= margin,
            "{own} us, {other} us by perf"
        );
    }
}
