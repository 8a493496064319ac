//! Context switches against the kernel's own counters.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::Context as _;
use tests::bpftrace::Counted;
use tests::event::Event;
use tests::processes::{switches, switches_at_rest};
use tests::rights::missing_right;
use tests::target::{Target, values_after};
use tests::tracer::Tracer;
use tests::{dist, mount, wait_until};

fn is_switch(event: &Event) -> bool {
    event.is_system("switch_out") || event.is_system("switch_in")
}

/// The program of `switches`, and its threads but for the main one.
fn start(folder: &tempfile::TempDir, arguments: &[&str]) -> anyhow::Result<(Target, Vec<i32>)> {
    let program = dist::compile("switches", folder.path())?;
    let (target, said) = Target::start(Command::new(program).args(arguments))?;
    let threads = values_after(&said, "thread")?.concat();
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

    // The workers were blocked before the tracer attached, and are blocked again at the end.
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

/// Returns the time that the host and interrupts have taken of all CPUs so far, in nanoseconds.
fn taken() -> anyhow::Result<u64> {
    const TICK_NS: u64 = 10_000_000;
    let text = fs::read_to_string("/proc/stat")?;
    let line = text.lines().next().context("no line")?;
    // user nice system idle iowait irq softirq steal
    let taken = line.split_whitespace().skip(6).take(3);
    let ticks = taken.map(str::parse::<u64>).sum::<Result<u64, _>>()?;
    Ok(ticks * TICK_NS)
}

/// A run of `switches` and what was recorded of it.
struct Run {
    /// Time that each thread ran, by `/proc`.
    counted: BTreeMap<i32, u64>,
    /// Number of times that each thread left its CPU, and the time that it had run, as recorded.
    recorded: BTreeMap<i32, (u64, u64)>,
    /// Time that the host and interrupts took meanwhile.
    taken: u64,
    /// Runs of which the beginning was not recorded, or of which two were recorded as one.
    unreported: u64,
    /// The program, whose threads are at rest until it is dropped.
    _target: Target,
}

impl Run {
    /// `beside` may start something when the threads are at rest.
    fn trace<B>(
        arguments: &[&str],
        beside: impl FnOnce(&[i32]) -> anyhow::Result<B>,
    ) -> anyhow::Result<(Self, B)> {
        let folder = tempfile::tempdir()?;
        let (mut target, threads) = start(&folder, arguments)?;
        let pid = target.pid();
        let mut tracer = Tracer::attach(pid, &["--events", "switch"])?;
        tracer.wait_for(is_switch)?;

        switches_at_rest(pid, &threads)?;
        let beside = beside(&threads)?;
        let (before, taken_before) = (run_times(pid, &threads)?, taken()?);
        target.go()?;
        target.wait_until_done()?;
        switches_at_rest(pid, &threads)?;
        let (after, taken_after) = (run_times(pid, &threads)?, taken()?);
        let trace = tracer.stop()?;

        let summary = trace.summary()?;
        assert_eq!(summary.all_lost(), 0);
        let mut recorded: BTreeMap<i32, (u64, u64)> = BTreeMap::new();
        for event in trace.events()? {
            if event.is_system("switch_out") && threads.contains(&event.tid) {
                let (runs, ran) = recorded.entry(event.tid).or_default();
                *runs += 1;
                *ran += u64::try_from(event.integer("ran_ns").context("ran_ns")?)?;
            }
        }
        let run = Self {
            counted: growth(&before, &after),
            recorded,
            taken: taken_after - taken_before,
            unreported: summary.lost["kernel_not_told"],
            _target: target,
        };
        Ok((run, beside))
    }
}

#[test]
#[ignore = "loads eBPF"]
fn the_time_on_the_cpu_is_what_the_scheduler_counts() {
    /// A run whose beginning was not recorded is a time slice at most.
    const UNREPORTED_NS: u64 = 4_000_000;
    if missing_right().is_some() {
        return;
    }
    // Runs of milliseconds, beside some short ones: the scheduler reads its clock one to three
    // microseconds before the tracepoint, depending on the machine.
    let (run, ()) = Run::trace(&["50", "200", "20000000", "0"], |_| Ok(())).unwrap();
    for (tid, counted) in run.counted {
        let (runs, ran) = run.recorded[&tid];
        let margin = counted / 50 + run.unreported * UNREPORTED_NS;
        // The scheduler's clock stops while the host or an interrupt has the CPU, where the kernel
        // knows that.
        let most = counted + margin + run.taken;
        assert!(
            ran + margin >= counted && ran <= most,
            "{ran} ns in {runs} runs, {counted} counted"
        );
    }
}

#[test]
#[ignore = "loads eBPF"]
fn bpftrace_at_the_same_tracepoint_sees_as_long_runs() {
    if missing_right().is_some() {
        return;
    }
    let _tracefs = mount::tracefs().unwrap();
    // One program and one look at the clock, as in the tracer's: a second program would count the
    // time of the first. A run counts only where its beginning was reported: some guests' kernels
    // miss a few.
    let script = "
        tracepoint:sched:sched_switch {
            $now = nsecs;
            if (@out[args->prev_pid] && @since[args->prev_pid]) {
                @runs = count();
                @ran = sum($now - @since[args->prev_pid]);
                delete(@since[args->prev_pid]);
            }
            if (@out[args->next_pid]) { @since[args->next_pid] = $now; }
        }
        END { clear(@out); clear(@since); }";
    // Runs of some tens of microseconds.
    let (run, bpftrace) = Run::trace(&["300", "200", "40000", "0"], |threads| {
        let known: String = threads
            .iter()
            .map(|tid| format!("@out[{tid}] = 1; "))
            .collect();
        Counted::others(&format!("BEGIN {{ {known} }} {script}"))
    })
    .unwrap();
    let seen = bpftrace.end().unwrap();
    let (runs, ran) = run
        .recorded
        .values()
        .fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    let [seen_runs, seen_ran] = ["runs", "ran"].map(|name| u64::try_from(seen[name]).unwrap());
    assert!(runs >= 4 * 300, "{runs}");
    let unreported = runs.abs_diff(seen_runs);
    assert!(
        unreported <= run.unreported,
        "{runs} runs, {seen_runs} by bpftrace"
    );
    // Of the two programs one runs after the other, about a microsecond later.
    let margin = seen_ran / 5;
    assert!(
        ran.abs_diff(seen_ran) <= margin,
        "{ran} ns, {seen_ran} by bpftrace, in {runs} runs; {:?} by the scheduler",
        run.counted
    );
}

#[test]
#[ignore = "loads eBPF"]
fn a_stopped_reader_counts_the_switches_that_the_kernel_could_not_record() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // At least one switch of each thread in each round, on any machine: far more than the ring
    // holds.
    let (mut target, threads) = start(&folder, &["20000", "1", "0", "0"]).unwrap();
    let pid = target.pid();
    // Only one side of each switch, the one that the kernel counts as well.
    let only = ["--events", "linux_trace_switch_out", "--ring-size", "1M"];
    let mut tracer = Tracer::attach(pid, &only).unwrap();
    tracer.wait_for(is_switch).unwrap();

    let before = switches_at_rest(pid, &threads).unwrap();
    tracer.signal(libc::SIGSTOP).unwrap();
    target.go().unwrap();
    // Most switches happen while the tracer is stopped, and the last while it reads again. So those
    // of the main thread are not lost, and all lost ones are the workers'.
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
