//! Context switches against the kernel's own counters.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::Context as _;
use tests::event::Event;
use tests::processes::{switches, switches_at_rest};
use tests::rights::missing_right;
use tests::target::{Target, numbers_after};
use tests::tracer::Tracer;
use tests::{dist, wait_until};

fn is_switch(event: &Event) -> bool {
    event.is_system("switch_out") || event.is_system("switch_in")
}

/// The program of `switches.c`, and its threads but for the main one.
fn start(folder: &tempfile::TempDir, arguments: &[&str]) -> anyhow::Result<(Target, Vec<i32>)> {
    let program = dist::compile("switches", folder.path())?;
    let (target, said) = Target::start(Command::new(program).args(arguments))?;
    let threads = numbers_after(&said, "thread")?.concat();
    let threads = threads.into_iter().map(i32::try_from);
    Ok((target, threads.collect::<Result<_, _>>()?))
}

fn growth(before: &BTreeMap<i32, u64>, after: &BTreeMap<i32, u64>) -> BTreeMap<i32, u64> {
    let of_thread = |(tid, count): (&i32, &u64)| (*tid, count - before[tid]);
    after.iter().map(of_thread).collect()
}

#[test]
#[ignore = "loads eBPF"]
fn each_threads_switches_are_as_many_as_the_kernel_counted() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (mut target, threads) = start(&folder, &["300", "200"]).unwrap();
    let pid = target.pid();
    let mut tracer = Tracer::attach(pid, &[]).unwrap();
    tracer.wait_for(is_switch).unwrap();

    // The workers have been blocked since before the tracer came, and are again at the end.
    let before = switches_at_rest(pid, &threads).unwrap();
    target.go().unwrap();
    target.wait_until_done().unwrap();
    let after = switches_at_rest(pid, &threads).unwrap();
    let trace = tracer.stop().unwrap();

    assert_eq!(trace.summary().unwrap().all_lost(), 0);
    let mut seen: BTreeMap<i32, u64> = threads.iter().map(|tid| (*tid, 0)).collect();
    for event in trace.events().unwrap() {
        if event.is_system("switch_out")
            && let Some(count) = seen.get_mut(&event.tid)
        {
            *count += 1;
        }
    }
    assert_eq!(seen, growth(&before, &after));
    assert!(seen.values().all(|count| *count > 300), "{seen:?}");
    assert_eq!(trace.status.code(), Some(0));
}

/// Nanoseconds that each thread has run, as the kernel counts them for its scheduler.
fn run_times(pid: i32, threads: &[i32]) -> anyhow::Result<BTreeMap<i32, u64>> {
    let of_thread = |tid: &i32| {
        let path = format!("/proc/{pid}/task/{tid}/schedstat");
        let text = fs::read_to_string(&path).with_context(|| path.clone())?;
        let ran = text.split_whitespace().next().context(path)?;
        anyhow::Ok((*tid, ran.parse()?))
    };
    threads.iter().map(of_thread).collect()
}

/// What the host and interrupts have taken of all CPUs so far, in nanoseconds.
fn taken() -> anyhow::Result<u64> {
    const TICK_NS: u64 = 10_000_000;
    let text = fs::read_to_string("/proc/stat")?;
    let line = text.lines().next().context("no line")?;
    // user nice system idle iowait irq softirq steal
    let taken = line.split_whitespace().skip(6).take(3);
    let ticks = taken.map(str::parse::<u64>).sum::<Result<u64, _>>()?;
    Ok(ticks * TICK_NS)
}

#[test]
#[ignore = "loads eBPF"]
fn the_time_on_the_cpu_is_what_the_scheduler_counts() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (mut target, threads) = start(&folder, &["300", "200"]).unwrap();
    let pid = target.pid();
    let mut tracer = Tracer::attach(pid, &["--events", "switch"]).unwrap();
    tracer.wait_for(is_switch).unwrap();

    switches_at_rest(pid, &threads).unwrap();
    let (before, taken_before) = (run_times(pid, &threads).unwrap(), taken().unwrap());
    target.go().unwrap();
    target.wait_until_done().unwrap();
    switches_at_rest(pid, &threads).unwrap();
    let (after, taken_after) = (run_times(pid, &threads).unwrap(), taken().unwrap());
    let trace = tracer.stop().unwrap();

    let summary = trace.summary().unwrap();
    assert_eq!(summary.all_lost(), 0);
    // Runs of which the beginning was not told, or of which two were told as one.
    let untold = summary.lost["kernel_not_told"];
    let mut seen: BTreeMap<i32, (u64, u64)> = BTreeMap::new();
    for event in trace.events().unwrap() {
        if event.is_system("switch_out") {
            let (runs, ran) = seen.entry(event.tid).or_default();
            *runs += 1;
            *ran += u64::try_from(event.number("ran_ns").unwrap()).unwrap();
        }
    }
    for (tid, counted) in growth(&before, &after) {
        let (runs, ran) = seen[&tid];
        // The scheduler reads its clock a little before the tracepoint, each time, and more so before a thread gets a busy
        // CPU than before it leaves it: bpftrace at the same tracepoint is short of as much.
        let margin = counted / 50 + runs * 1_000 + untold * 4_000_000;
        assert!(ran + margin >= counted, "{ran} in {runs} runs, {counted}");
        // Its clock stands while the host or an interrupt has the CPU, where the kernel knows.
        let most = counted + margin + (taken_after - taken_before);
        assert!(ran <= most, "{ran} in {runs} runs, {counted}");
    }
}

#[test]
#[ignore = "loads eBPF"]
fn a_stopped_reader_counts_the_switches_that_the_kernel_could_not_record() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // Some 25,000 switches of each thread, in a second or two: far more than the ring holds.
    let (mut target, threads) = start(&folder, &["3000", "1"]).unwrap();
    let pid = target.pid();
    // Only one side of each switch, the one that the kernel counts as well.
    let only = ["--events", "linux_trace_switch_out", "--ring-size", "1M"];
    let mut tracer = Tracer::attach(pid, &only).unwrap();
    tracer.wait_for(is_switch).unwrap();

    let before = switches_at_rest(pid, &threads).unwrap();
    tracer.signal(libc::SIGSTOP).unwrap();
    target.go().unwrap();
    // Most of it while nobody reads, and the end of it while somebody does again: what the main
    // thread does then is not lost, so all that is lost is the workers'.
    let most = |now: &BTreeMap<i32, u64>| now.values().all(|count| *count > 15_000);
    wait_until("most of the switches", Duration::from_secs(60), || {
        let mut now = switches(pid)?;
        now.retain(|tid, _| threads.contains(tid));
        Ok(most(&now).then_some(()))
    })
    .unwrap();
    tracer.signal(libc::SIGCONT).unwrap();
    target.wait_until_done().unwrap();
    let after = switches_at_rest(pid, &threads).unwrap();
    let trace = tracer.stop().unwrap();

    let events = trace.events().unwrap();
    let seen = events
        .iter()
        .filter(|event| event.is_system("switch_out") && threads.contains(&event.tid));
    let seen = u64::try_from(seen.count()).unwrap();
    let lost = trace.summary().unwrap().all_lost();
    assert!(lost > 0, "the ring was never full: seen {seen}");
    let summary = trace.summary().unwrap();
    let by_cpu = summary.ring_full_by_cpu.values().sum::<u64>();
    assert_eq!(summary.lost.get("kernel_ring_full"), Some(&by_cpu));
    assert_eq!(seen + lost, growth(&before, &after).values().sum::<u64>());
    assert_eq!(trace.status.code(), Some(1), "events were lost");
}
