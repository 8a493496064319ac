//! The kernel source against the counts of the kernel itself: needs the eBPF object and the rights
//! to load it.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on fails, in its helpers too"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tracer_common::event_type::EventTypeId;
use tracer_engine::event::{EventHeader, MonotonicNs, Truncation};
use tracer_engine::source::{Batch, Control, Loss, LossCause, Pending, Source};
use tracer_engine::{EventSet, EventTypes};
use tracer_kernel::{KernelOptions, KernelSource, KernelTracer, LoadError, checks};
use tracer_syscalls::choice::SyscallSet;

use tests::timeout;

const SWITCHES: &[EventTypeId] = &[EventTypeId::SWITCH_IN, EventTypeId::SWITCH_OUT];
const ALL: &[EventTypeId] = &[
    EventTypeId::SWITCH_IN,
    EventTypeId::SWITCH_OUT,
    EventTypeId::WAKEUP,
];
const CALLS: &[EventTypeId] = &[EventTypeId::SYSCALL_ENTER, EventTypeId::SYSCALL_EXIT];
const MIB: u32 = 1 << 20;

/// Lock that runs one test at a time: they look at what this process has loaded, and at exact
/// counts.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// A loaded tracer and everything that it brought so far.
struct Tracing {
    tracer: KernelTracer,
    source: KernelSource,
    types: EventTypes,
    events: Vec<Pending>,
    data: Vec<u8>,
    losses: Vec<Loss>,
    _turn: MutexGuard<'static, ()>,
}

impl Tracing {
    /// Loads, or returns `None` where this test may not run.
    ///
    /// With `TRACER_REQUIRE_PRIVILEGED=1` a missing right fails the test: a skipped test must
    /// not look like a passed one.
    fn load(ring_bytes: u32, wanted: &[EventTypeId]) -> Option<Self> {
        Self::load_with(&KernelOptions {
            ring_bytes,
            wanted: wanted.to_vec(),
            wakes_at_exec: true,
            ..KernelOptions::default()
        })
    }

    fn load_with(options: &KernelOptions) -> Option<Self> {
        let turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        match KernelTracer::load(options) {
            Ok((tracer, source)) => Some(Self {
                tracer,
                source,
                types: EventTypes::default(),
                events: Vec::new(),
                data: Vec::new(),
                losses: Vec::new(),
                _turn: turn,
            }),
            Err(error @ LoadError::Unmet { .. }) => {
                let is_required =
                    std::env::var_os("TRACER_REQUIRE_PRIVILEGED").is_some_and(|v| v == "1");
                assert!(!is_required, "privileged test cannot run: {error}");
                eprintln!("skipped: {error}");
                None
            }
            Err(error) => panic!("{error}: {:?}", error),
        }
    }

    fn collect(&mut self) -> MonotonicNs {
        self.source.collect(&mut Batch::new(
            &mut self.types,
            &mut self.events,
            &mut self.data,
            &mut self.losses,
        ))
    }

    /// Collects until everything up to now is there.
    fn collect_all(&mut self) {
        let now = monotonic_now();
        wait_for("a watermark", || self.collect() >= now);
    }

    fn headers(&self) -> impl Iterator<Item = &EventHeader> {
        self.events.iter().map(|event| &event.header)
    }

    fn count(&self, id: EventTypeId) -> u64 {
        let count = self.headers().filter(|header| header.event_type == id);
        count.count() as u64
    }

    fn lost(&self, cause: LossCause) -> u64 {
        let losses = self.losses.iter().filter(|loss| loss.cause == cause);
        losses.map(|loss| loss.count).sum()
    }

    /// Checks that nothing was lost. Events that the kernel did not report are no loss of the
    /// trace.
    fn assert_nothing_lost(&self) {
        let losses = self.losses.iter();
        let ours = losses.filter(|loss| loss.cause != LossCause::KernelNotReported);
        assert_eq!(ours.collect::<Vec<_>>(), Vec::<&Loss>::new());
    }

    /// Returns each event with its data, in order of time: each ring brings its own in one piece.
    fn with_data(&self) -> Vec<(EventHeader, &[u8])> {
        let events = self.events.iter();
        let mut events: Vec<_> = events
            .map(|event| (event.header, event.data(&self.data)))
            .collect();
        events.sort_by_key(|(header, _)| header.time);
        events
    }
}

/// Returns the file of an exec, without the arguments of the program.
fn executed(data: &[u8]) -> &[u8] {
    data[20..].split(|byte| *byte == 0).next().unwrap()
}

fn monotonic_now() -> MonotonicNs {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `now` is a `timespec` to write to; this clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    MonotonicNs(
        u64::try_from(now.tv_sec).unwrap() * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap(),
    )
}

fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(
            start.elapsed() < timeout(Duration::from_secs(20)),
            "no {what}"
        );
        thread::sleep(Duration::from_millis(2));
    }
}

fn word(data: &[u8], at: usize) -> i32 {
    i32::from_ne_bytes(data[at..at + 4].try_into().unwrap())
}

fn comm(data: &[u8]) -> &str {
    let end = data.iter().position(|byte| *byte == 0).unwrap_or(16);
    std::str::from_utf8(&data[..end]).unwrap()
}

/// This test binary again, as a process with several threads that switch a lot when asked to.
struct Workload {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

const WORKLOAD: &str = "TRACER_TEST_WORKLOAD";
const WORKLOAD_TEST: &str = "kernel_source::workload";

impl Workload {
    fn start() -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", WORKLOAD_TEST, "--nocapture"])
            .env(WORKLOAD, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut workload = Self {
            input: child.stdin.take().unwrap(),
            output: BufReader::new(child.stdout.take().unwrap()),
            child,
        };
        workload.wait_line("ready");
        workload
    }

    fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    /// Lets each thread go through this many rounds, without waiting for it. It sleeps in every
    /// fourth; whether it switches in the others too depends on the other threads of its CPU.
    fn begin(&mut self, rounds: u32) {
        writeln!(self.input, "{rounds}").unwrap();
    }

    fn wait_done(&mut self) {
        self.wait_line("done");
    }

    /// Binds all its threads to one CPU.
    fn run_only_on(&self, cpu: u32) {
        let mask = format!("{:x}", 1_u64 << cpu);
        let pid = self.pid().to_string();
        let mut taskset = Command::new("taskset");
        let output = taskset.args(["-a", "-p", &mask, &pid]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }

    fn wait_line(&mut self, expected: &str) {
        let mut line = String::new();
        while line.trim() != expected {
            line.clear();
            assert_ne!(self.output.read_line(&mut line).unwrap(), 0);
        }
    }

    /// Counts switches of each thread since it began, as the kernel counts them, once all are
    /// blocked.
    fn settled_switches(&self) -> BTreeMap<i32, u64> {
        let mut last = BTreeMap::new();
        let mut since = Instant::now();
        wait_for("rest", || {
            // One that is ready to run and has no CPU does not run either.
            let is_blocked = threads_are_blocked(self.pid());
            let now = switches(self.pid());
            if !is_blocked || now != last {
                last = now;
                since = Instant::now();
            }
            since.elapsed() > Duration::from_millis(100)
        });
        last
    }
}

impl Drop for Workload {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Tells whether each thread sleeps.
fn threads_are_blocked(pid: i32) -> bool {
    let mut threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    threads.all(|entry| {
        let stat = fs::read_to_string(entry.unwrap().path().join("stat")).unwrap();
        stat.rsplit_once(") ").unwrap().1.starts_with('S')
    })
}

/// Counts voluntary and involuntary switches of each thread.
fn switches(pid: i32) -> BTreeMap<i32, u64> {
    fs::read_dir(format!("/proc/{pid}/task"))
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let tid = path.file_name().unwrap().to_str().unwrap().parse().unwrap();
            let status = fs::read_to_string(path.join("status")).unwrap();
            let count = status
                .lines()
                .filter(|line| line.contains("ctxt_switches:"))
                .map(|line| line.rsplit('\t').next().unwrap().parse::<u64>().unwrap())
                .sum();
            (tid, count)
        })
        .collect()
}

fn growth(before: &BTreeMap<i32, u64>, after: &BTreeMap<i32, u64>) -> BTreeMap<i32, u64> {
    let grown = after.iter().map(|(tid, count)| (*tid, count - before[tid]));
    grown.filter(|(_, count)| *count > 0).collect()
}

/// Runs the program that [`Workload`] starts; it is not a test.
#[test]
#[ignore = "a process for the other tests"]
fn workload() {
    if std::env::var_os(WORKLOAD).is_none() {
        return;
    }
    let (done, is_done) = std::sync::mpsc::channel();
    let threads: Vec<_> = (0..4_u32)
        .map(|i| {
            let (go, orders) = std::sync::mpsc::channel::<u32>();
            let done = done.clone();
            thread::spawn(move || {
                for rounds in orders {
                    for round in 0..rounds {
                        if (round + i) % 4 == 0 {
                            thread::sleep(Duration::from_micros(20));
                        } else {
                            thread::yield_now();
                        }
                    }
                    done.send(()).unwrap();
                }
            });
            go
        })
        .collect();
    println!("\nready");
    for line in std::io::stdin().lines() {
        let rounds = line.unwrap().trim().parse().unwrap();
        for go in &threads {
            go.send(rounds).unwrap();
        }
        for _ in &threads {
            is_done.recv().unwrap();
        }
        println!("done");
    }
}

#[test]
#[ignore = "loads eBPF: run by cargo xtask test"]
fn switch_outs_of_each_thread_equal_what_the_kernel_counts() {
    let Some(mut tracing) = Tracing::load(16 * MIB, SWITCHES) else {
        return;
    };
    let mut workload = Workload::start();
    let before = workload.settled_switches();
    tracing.tracer.trace(workload.pid(), false).unwrap();

    workload.begin(8000);
    workload.wait_done();
    let expected = growth(&before, &workload.settled_switches());
    tracing.collect_all();

    let mut seen = BTreeMap::new();
    for header in tracing.headers() {
        assert_eq!(header.pid, workload.pid());
        if header.event_type == EventTypeId::SWITCH_OUT {
            *seen.entry(header.tid).or_default() += 1;
        }
    }
    assert_eq!(seen, expected);
    assert!(expected.values().sum::<u64>() > 4000);
    tracing.assert_nothing_lost();
}

#[test]
#[ignore = "loads eBPF: run by cargo xtask test"]
fn switches_of_a_thread_alternate_and_name_the_other_side() {
    let Some(mut tracing) = Tracing::load(16 * MIB, SWITCHES) else {
        return;
    };
    let mut workload = Workload::start();
    workload.settled_switches();
    tracing.tracer.trace(workload.pid(), false).unwrap();
    workload.begin(200);
    workload.wait_done();
    workload.settled_switches();
    tracing.collect_all();

    let mut is_running = BTreeMap::new();
    let (mut outs, mut outs_in_a_row) = (0, 0);
    for (header, data) in tracing.with_data() {
        let is_in = header.event_type == EventTypeId::SWITCH_IN;
        let before = is_running.insert(header.tid, is_in);
        assert!(before != Some(true) || !is_in, "it ran already");
        outs += u32::from(!is_in);
        outs_in_a_row += u32::from(before == Some(false) && !is_in);
        assert_ne!(word(data, 4), header.tid);
        assert!(!comm(&data[8..]).is_empty());
        if !is_in {
            let (state, is_preempted) = (word(data, 24), word(data, 28));
            assert!(is_preempted == 1 || state != 0);
            // Some kernels do not pass every switch to a thread through the tracepoint, and other
            // tracers miss the same ones: then it is not said how long the thread ran. Switches
            // away are exact: they are compared with the kernel's counts.
            let ran_ns = u64::from_ne_bytes(data[32..40].try_into().unwrap());
            assert_eq!(ran_ns == 0, before != Some(true), "{header:?}");
        }
        if cfg!(target_arch = "x86_64") {
            assert_ne!(header.thread_id, 0);
        }
    }
    assert!(is_running.len() >= 4);
    assert!(outs_in_a_row * 4 <= outs, "{outs_in_a_row} of {outs}");
}

#[test]
#[ignore = "loads eBPF: run by cargo xtask test"]
fn a_script_s_forks_execs_and_exits_are_seen_each_once() {
    const COMMANDS: usize = 20;
    let Some(mut tracing) = Tracing::load(MIB, &[]) else {
        return;
    };
    let own = i32::try_from(std::process::id()).unwrap();
    tracing.tracer.trace(own, true).unwrap();
    let script =
        format!("i=0; while [ $i -lt {COMMANDS} ]; do /bin/true; i=$((i+1)); done; exit 3");
    let mut shell = Command::new("/bin/sh")
        .args(["-c", &script])
        .spawn()
        .unwrap();
    tracing.tracer.untrace(own).unwrap();
    let shell_pid = i32::try_from(shell.id()).unwrap();
    assert_eq!(shell.wait().unwrap().code(), Some(3));
    tracing.collect_all();

    let events = tracing.with_data();
    let of = |id: EventTypeId| {
        events
            .iter()
            .filter(move |(header, _)| header.event_type == id)
    };
    let mut children: BTreeSet<i32> = BTreeSet::new();
    for (header, data) in of(EventTypeId::FORK).filter(|(header, _)| header.pid == shell_pid) {
        assert_eq!(word(data, 0), word(data, 4));
        assert_eq!(comm(&data[8..]), "sh");
        assert_ne!(header.program_address, 0);
        children.insert(word(data, 0));
    }
    assert_eq!(children.len(), COMMANDS);
    let forks_of_test = of(EventTypeId::FORK)
        .filter(|(header, data)| header.pid == own && word(data, 0) == shell_pid);
    assert_eq!(forks_of_test.count(), 1);

    for (file, pids) in [
        ("/bin/sh", BTreeSet::from([shell_pid])),
        ("/bin/true", children.clone()),
    ] {
        let execs: Vec<_> = of(EventTypeId::EXEC)
            .filter(|(header, _)| pids.contains(&header.pid))
            .collect();
        assert_eq!(execs.len(), pids.len());
        for (header, data) in execs {
            assert_eq!(word(data, 16), header.tid);
            assert_eq!(executed(data), file.as_bytes());
            assert!(file.ends_with(comm(data)));
        }
    }
    for (status, pids) in [(3, BTreeSet::from([shell_pid])), (0, children)] {
        let exits: Vec<_> = of(EventTypeId::EXIT)
            .filter(|(header, _)| pids.contains(&header.pid))
            .collect();
        assert_eq!(exits.len(), pids.len());
        for (_, data) in exits {
            assert_eq!((word(data, 0), word(data, 4)), (status, 0));
        }
    }
    tracing.assert_nothing_lost();
}

#[test]
#[ignore = "loads eBPF: run by cargo xtask test"]
fn a_process_that_is_killed_exits_once_and_its_other_threads_too() {
    let Some(mut tracing) = Tracing::load(MIB, &[]) else {
        return;
    };
    let mut workload = Workload::start();
    let threads = workload.settled_switches().len() as u64;
    let pid = workload.pid();
    tracing.tracer.trace(pid, true).unwrap();

    workload.child.kill().unwrap();
    workload.child.wait().unwrap();
    tracing.collect_all();

    assert_eq!(tracing.count(EventTypeId::EXIT), 1);
    assert_eq!(tracing.count(EventTypeId::THREAD_EXIT), threads - 1);
    for (_, data) in tracing.with_data() {
        assert_eq!((word(data, 0), word(data, 4)), (0, libc::SIGKILL));
    }
}

#[test]
#[ignore = "loads eBPF: run by cargo xtask test"]
fn nothing_is_older_than_a_watermark_stated_before() {
    // At most some 750 bytes a round: all of it fits into one ring, however slow its reader.
    let Some(mut tracing) = Tracing::load(64 * MIB, ALL) else {
        return;
    };
    let mut workload = Workload::start();
    tracing.tracer.trace(workload.pid(), true).unwrap();
    workload.begin(80_000);

    let mut watermark = MonotonicNs(0);
    let (mut seen, mut advances) = (0, 0);
    let start = Instant::now();
    // Two seconds, and as long as a busy machine needs for enough of it.
    let is_enough = |seen, advances| seen > 10_000 && advances > 100;
    while start.elapsed() < Duration::from_secs(2)
        || !is_enough(seen, advances) && start.elapsed() < timeout(Duration::from_secs(30))
    {
        tracing.events.clear();
        tracing.data.clear();
        let next = tracing.collect();
        for header in tracing.headers() {
            assert!(header.time >= watermark, "{header:?} after {watermark:?}");
        }
        seen += tracing.events.len();
        assert!(next >= watermark);
        advances += u32::from(next > watermark);
        watermark = next;
    }
    assert!(is_enough(seen, advances), "{seen} {advances}");
    // It comes to be now.
    tracing.collect_all();
    tracing.assert_nothing_lost();
}

#[test]
#[ignore = "loads eBPF: run by cargo xtask test"]
fn what_a_full_ring_refuses_is_counted_exactly() {
    let Some(mut tracing) = Tracing::load(1, &[EventTypeId::SWITCH_OUT]) else {
        return;
    };
    let mut workload = Workload::start();
    let before = workload.settled_switches();
    tracing.collect_all();
    tracing.tracer.trace(workload.pid(), false).unwrap();

    workload.begin(8000);
    workload.wait_done();
    let expected: u64 = growth(&before, &workload.settled_switches()).values().sum();
    tracing.collect_all();

    let lost = tracing.lost(LossCause::KernelRingFull);
    assert!(lost > 1000, "{lost}");
    assert_eq!(tracing.count(EventTypeId::SWITCH_OUT) + lost, expected);
    // One for each CPU; what is in the CPU's ring happened before the ring was full.
    let cpus = thread::available_parallelism().unwrap().get();
    // What the kernel itself did not report has no ring.
    let full: Vec<_> = tracing
        .losses
        .iter()
        .filter(|loss| loss.cause == LossCause::KernelRingFull)
        .collect();
    assert!(full.len() <= cpus, "{full:?}");
    for loss in full {
        let is_of = |cpu| {
            let mut on_cpu = tracing.headers().filter(|h| h.cpu == Some(cpu));
            on_cpu.all(|header| header.time <= loss.since)
        };
        let cpus = u32::try_from(cpus).unwrap();
        assert!((0..cpus).any(is_of), "{loss:?}");
    }
}

/// Loads for the calls of `getppid` of this process alone.
fn load_for_calls(ring_bytes: u32) -> Option<Tracing> {
    let mut tracing = Tracing::load_with(&KernelOptions {
        ring_bytes,
        wanted: CALLS.to_vec(),
        syscalls: SyscallSet::of_names(["getppid"]).unwrap(),
        string_bytes: 64,
        ..KernelOptions::default()
    })?;
    let own = i32::try_from(std::process::id()).unwrap();
    tracing.tracer.trace(own, false).unwrap();
    tracing.collect_all();
    Some(tracing)
}

/// Makes so many calls that a loop in the program counts.
fn call(count: u64) {
    for _ in 0..count {
        // SAFETY: the call has no arguments.
        unsafe { libc::syscall(libc::SYS_getppid) };
    }
}

#[test]
#[ignore = "loads eBPF: run by cargo xtask test"]
fn calls_that_found_no_space_are_counted_exactly() {
    let Some(mut tracing) = load_for_calls(1) else {
        return;
    };

    thread::scope(|scope| scope.spawn(|| call(5000)).join().unwrap());
    tracing.collect_all();

    let (entries, exits) = (tracing.count(CALLS[0]), tracing.count(CALLS[1]));
    let lost = tracing.lost(LossCause::KernelRingFull);
    assert!(lost > 1000 && entries > 0, "{lost} {entries}");
    assert_eq!(entries + exits + lost, 2 * 5000);

    // There is space again.
    tracing.events.clear();
    thread::scope(|scope| scope.spawn(|| call(5)).join().unwrap());
    tracing.collect_all();
    assert_eq!((tracing.count(CALLS[0]), tracing.count(CALLS[1])), (5, 5));
}

#[test]
#[ignore = "loads eBPF: run by cargo xtask test"]
fn calls_on_several_cpus_are_all_there_in_order_and_never_behind_a_watermark() {
    const THREADS: u64 = 3;
    const ROUNDS: u64 = 40;
    let Some(mut tracing) = load_for_calls(MIB) else {
        return;
    };
    let mut watermark = MonotonicNs(0);
    let mut of_threads: BTreeMap<i32, Vec<(MonotonicNs, EventTypeId)>> = BTreeMap::new();

    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|_| {
                scope.spawn(|| {
                    for _ in 0..ROUNDS {
                        call(1000);
                        thread::sleep(Duration::from_millis(4));
                    }
                })
            })
            .collect();
        loop {
            // In this order: what has ended has made its calls.
            let have_ended = threads.iter().all(thread::ScopedJoinHandle::is_finished);
            tracing.events.clear();
            tracing.data.clear();
            let until = monotonic_now();
            let next = tracing.collect();
            for header in tracing.headers() {
                assert!(header.time >= watermark, "{header:?} after {watermark:?}");
                if CALLS.contains(&header.event_type) {
                    let calls = of_threads.entry(header.tid).or_default();
                    calls.push((header.time, header.event_type));
                }
            }
            assert!(next >= watermark);
            watermark = next;
            if have_ended && watermark >= until {
                break;
            }
        }
    });

    let seen: usize = of_threads.values().map(Vec::len).sum();
    let lost = tracing.lost(LossCause::KernelRingFull);
    assert_eq!(seen as u64 + lost, 2 * THREADS * ROUNDS * 1000);
    assert_eq!(of_threads.len() as u64, THREADS);
    for calls in of_threads.values_mut() {
        calls.sort();
        let alternate = |pair: &[(MonotonicNs, EventTypeId)]| {
            pair[0].0 < pair[1].0 && (lost > 0 || pair[0].1 != pair[1].1)
        };
        assert!(calls.windows(2).all(alternate));
    }
}

#[test]
#[ignore = "loads eBPF: run by cargo xtask test"]
fn each_cpu_has_its_ring_and_loses_for_itself() {
    let Some(mut tracing) = Tracing::load(1, &[EventTypeId::SWITCH_OUT]) else {
        return;
    };
    let cpus = thread::available_parallelism().unwrap().get();
    assert!(cpus >= 2, "one CPU is too few for this test");
    let mut workload = Workload::start();
    // A page of switches on the first CPU, and then some on the second: its ring has space.
    workload.run_only_on(0);
    let before = workload.settled_switches();
    tracing.collect_all();
    tracing.tracer.trace(workload.pid(), false).unwrap();
    workload.begin(500);
    workload.wait_done();
    let first: u64 = growth(&before, &workload.settled_switches()).values().sum();
    tracing.collect_all();
    let lost_on_first = tracing.lost(LossCause::KernelRingFull);
    let recorded: Vec<_> = tracing.headers().map(|header| header.cpu).collect();
    assert!(lost_on_first > 100, "{lost_on_first} of {first}");
    assert!(recorded.contains(&Some(0)));
    assert_eq!(recorded.len() as u64 + lost_on_first, first);

    // What is lost is lost on both: neither counts for the other.
    workload.run_only_on(1);
    let before = workload.settled_switches();
    tracing.collect_all();
    tracing.events.clear();
    tracing.losses.clear();
    workload.begin(500);
    workload.wait_done();
    let second: u64 = growth(&before, &workload.settled_switches()).values().sum();
    tracing.collect_all();
    let recorded = tracing
        .headers()
        .filter(|header| header.cpu == Some(1))
        .count() as u64;
    assert!(recorded > 0);
    assert_eq!(recorded + tracing.lost(LossCause::KernelRingFull), second);
}

#[test]
#[ignore = "loads eBPF: run by cargo xtask test"]
fn a_stopped_stream_gets_no_switches_and_a_started_one_does_again() {
    let Some(mut tracing) = Tracing::load(MIB, SWITCHES) else {
        return;
    };
    let mut workload = Workload::start();
    tracing.tracer.trace(workload.pid(), false).unwrap();
    let mut switches_while = |is_running| {
        tracing.source.control(&Control {
            running: is_running,
            filter: EventSet::EMPTY,
        });
        workload.settled_switches();
        tracing.collect_all();
        tracing.events.clear();
        workload.begin(100);
        workload.wait_done();
        tracing.collect_all();
        tracing.events.len()
    };

    assert_eq!(switches_while(false), 0);
    assert!(switches_while(true) > 100);
    assert_eq!(switches_while(false), 0);
}

#[test]
#[ignore = "loads eBPF: run by cargo xtask test"]
fn wakeups_name_the_thread_that_is_woken() {
    let Some(mut tracing) = Tracing::load(MIB, &[EventTypeId::WAKEUP]) else {
        return;
    };
    let mut workload = Workload::start();
    workload.settled_switches();
    tracing.tracer.trace(workload.pid(), false).unwrap();
    workload.begin(40);
    workload.wait_done();
    let threads = workload.settled_switches();
    tracing.collect_all();

    let cpus = thread::available_parallelism().unwrap().get();
    for (header, data) in tracing.with_data() {
        assert_eq!(header.event_type, EventTypeId::WAKEUP);
        assert_eq!(header.pid, workload.pid());
        assert!(threads.contains_key(&header.tid));
        assert!(usize::try_from(word(data, 0)).unwrap() < cpus);
    }
    // Each of the four threads sleeps in one round of four.
    assert!(tracing.count(EventTypeId::WAKEUP) >= 40);
}

#[test]
#[ignore = "loads eBPF: run by cargo xtask test"]
fn a_reader_is_woken_once_the_ring_has_filled_past_its_threshold() {
    let Some(mut tracing) = Tracing::load(MIB, SWITCHES) else {
        return;
    };
    let mut workload = Workload::start();
    workload.settled_switches();
    tracing.tracer.trace(workload.pid(), false).unwrap();
    tracing.collect_all();

    let woken_after = thread::scope(|scope| {
        // The ring is empty when the wait begins. A ring with something in it would end it.
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(200));
            workload.begin(5000);
        });
        let mut ring = libc::pollfd {
            fd: tracing.tracer.ring_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        let start = Instant::now();
        // SAFETY: `ring` is the one descriptor to wait for.
        assert_eq!(unsafe { libc::poll(&raw mut ring, 1, 60_000) }, 1);
        start.elapsed()
    });
    assert!(woken_after < Duration::from_secs(50), "{woken_after:?}");
    tracing.collect();

    let bytes: usize = tracing.events.len() * 72;
    assert!(bytes > (MIB / 8) as usize, "woken at {bytes} bytes");
}

#[test]
#[ignore = "loads eBPF: run by cargo xtask test"]
fn a_reader_is_woken_once_calls_have_filled_a_ring_past_its_threshold() {
    let Some(mut tracing) = load_for_calls(MIB) else {
        return;
    };
    let woken = thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(200));
            call(5000);
        });
        let mut ring = libc::pollfd {
            fd: tracing.tracer.ring_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: `ring` is the one descriptor to wait for.
        unsafe { libc::poll(&raw mut ring, 1, 60_000) }
    });
    assert_eq!(woken, 1);
    tracing.collect_all();
    assert_eq!(tracing.count(CALLS[0]) + tracing.count(CALLS[1]), 10_000);
}

#[test]
#[ignore = "loads eBPF: run by cargo xtask test"]
fn an_exec_wakes_the_reader_only_where_that_was_asked_for() {
    for wakes_at_exec in [true, false] {
        let Some(mut tracing) = Tracing::load_with(&KernelOptions {
            ring_bytes: MIB,
            wakes_at_exec,
            ..KernelOptions::default()
        }) else {
            return;
        };
        let own = i32::try_from(std::process::id()).unwrap();
        tracing.tracer.trace(own, true).unwrap();
        assert!(Command::new("/bin/true").status().unwrap().success());

        let mut ring = libc::pollfd {
            fd: tracing.tracer.ring_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        let wait_ms = if wakes_at_exec { 60_000 } else { 0 };
        // SAFETY: `ring` is the one descriptor to wait for.
        let woken = unsafe { libc::poll(&raw mut ring, 1, wait_ms) };
        assert_eq!(woken, i32::from(wakes_at_exec));
        tracing.collect();
        assert_eq!(tracing.count(EventTypeId::EXEC), 1);
    }
}

#[test]
#[ignore = "loads eBPF: run by cargo xtask test"]
fn a_file_name_too_long_for_its_record_is_truncated_and_said_to_be() {
    let Some(mut tracing) = Tracing::load(MIB, &[]) else {
        return;
    };
    let own = i32::try_from(std::process::id()).unwrap();
    tracing.tracer.trace(own, true).unwrap();
    let mut fits = "/".repeat(255 - "bin/true".len());
    fits.push_str("bin/true");
    let too_long = format!("/{fits}");
    for file in [&fits, &too_long] {
        assert!(Command::new(file).status().unwrap().success());
    }
    tracing.collect_all();

    let events = tracing.with_data();
    let execs = events
        .iter()
        .filter(|(header, _)| header.event_type == EventTypeId::EXEC);
    let seen: Vec<_> = execs
        .map(|(header, data)| (header.truncation, executed(data)))
        .collect();
    assert_eq!(
        seen,
        [
            (Truncation::None, fits.as_bytes()),
            (Truncation::Record, &too_long.as_bytes()[..255]),
        ]
    );
}

#[test]
#[ignore = "loads eBPF: run by cargo xtask test"]
fn the_programs_own_diagnostics_reach_tracing() {
    let Some(mut tracing) = Tracing::load_with(&KernelOptions {
        ring_bytes: MIB,
        wakes_at_exec: true,
        verbose: true,
        ..KernelOptions::default()
    }) else {
        return;
    };
    let own = std::process::id();
    tracing
        .tracer
        .trace(i32::try_from(own).unwrap(), true)
        .unwrap();
    let mut child = Command::new("/bin/true").spawn().unwrap();
    child.wait().unwrap();

    let log = tempfile::NamedTempFile::new().unwrap();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::DEBUG)
        .with_writer(Mutex::new(log.reopen().unwrap()))
        .finish();
    tracing::subscriber::with_default(subscriber, || tracing.collect_all());

    let log = fs::read_to_string(log.path()).unwrap();
    let expected = format!("process {} traced as a child of {own}", child.id());
    assert!(log.contains(&expected), "{log}");
}

#[test]
#[ignore = "loads eBPF: run by cargo xtask test"]
fn no_program_remains_after_drop() {
    let Some(tracing) = Tracing::load(MIB, ALL) else {
        return;
    };
    let loaded = own_programs();
    // With those that note whose packet is handed over, and in which interrupt a thread is woken,
    // where the kernel does not say that itself.
    assert!([13, 19].contains(&loaded.len()), "{}", loaded.len());
    assert!(loaded.is_subset(&all_programs()));
    let Tracing {
        tracer,
        source,
        _turn,
        ..
    } = tracing;

    drop((tracer, source));

    assert_eq!(own_programs(), BTreeSet::new());
    wait_for("end of the programs", || {
        all_programs().is_disjoint(&loaded)
    });
}

/// Returns the programs that are loaded, by any process.
fn all_programs() -> BTreeSet<u32> {
    aya::programs::loaded_programs()
        .filter_map(Result::ok)
        .map(|program| program.id())
        .collect()
}

/// Returns the programs that this process has descriptors of.
fn own_programs() -> BTreeSet<u32> {
    fs::read_dir("/proc/self/fdinfo")
        .unwrap()
        .filter_map(|entry| fs::read_to_string(entry.unwrap().path()).ok())
        // A link's text names its program too, and not only its own fields.
        .filter(|info| info.contains("prog_jited:"))
        .filter_map(|info| {
            let id = info
                .lines()
                .find_map(|line| line.strip_prefix("prog_id:").map(str::trim))?;
            id.parse().ok()
        })
        .collect()
}

#[test]
#[ignore = "loads eBPF: run by cargo xtask test"]
fn every_check_holds_where_loading_works() {
    if Tracing::load(MIB, ALL).is_none() {
        return;
    }
    for check in checks(None) {
        assert!(check.holds, "{check:?}");
        assert_eq!(check.remedy, None);
    }
}

#[test]
#[ignore = "loads eBPF: run by cargo xtask test"]
fn a_pid_that_no_process_can_have_is_refused() {
    let Some(mut tracing) = Tracing::load(MIB, &[]) else {
        return;
    };
    for pid in [0, -1, i32::MAX] {
        let error = tracing.tracer.trace(pid, false).unwrap_err();
        assert!(matches!(error, LoadError::NoSuchPid { .. }), "{error}");
    }
}
