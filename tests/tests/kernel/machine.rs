//! Events of CPUs, memory and disks, against the kernel's own counters.

use std::collections::BTreeMap;
use std::fs;
use std::process::{Child, Command};

use anyhow::Context as _;
use tests::cgroup::Cgroup;
use tests::event::Event;
use tests::rights::missing_right;
use tests::target::{Target, values_after};
use tests::tracer::{Trace, Tracer};
use tests::{dist, monotonic_ns};

/// A process that does nothing. Killed when dropped.
struct Sleeper(Child);

impl Sleeper {
    fn start() -> anyhow::Result<Self> {
        Ok(Self(Command::new("sleep").arg("1000").spawn()?))
    }

    fn pid(&self) -> anyhow::Result<i32> {
        Ok(i32::try_from(self.0.id())?)
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Counts by name.
type Counts = BTreeMap<String, u64>;

/// The rows of `/proc/softirqs` or `/proc/interrupts`: sums over all CPUs.
fn kernel_counts(file: &str) -> anyhow::Result<Counts> {
    let text = fs::read_to_string(file)?;
    let cpus = text
        .lines()
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .count();
    let row = |line: &str| {
        let (name, counts) = line.split_once(':')?;
        let counts = counts.split_whitespace().take(cpus);
        let sum = counts.map_while(|count| count.parse::<u64>().ok()).sum();
        Some((name.trim().to_owned(), sum))
    };
    Ok(text.lines().skip(1).filter_map(row).collect())
}

/// Traces `events` of the machine for a while. Returns what was traced, and the kernel's counts
/// from a moment before and one within the trace to one within and one after it.
fn bracketed(events: &str, file: &str) -> anyhow::Result<(Vec<Event>, [Counts; 4])> {
    let target = Sleeper::start()?;
    let before = kernel_counts(file)?;
    let mut tracer = Tracer::attach(target.pid()?, &["--events", events])?;
    let family = events.replace('-', "_");
    tracer.wait_for(|event| event.event_type.starts_with(&family))?;
    let begun = kernel_counts(file)?;
    // Work that makes interrupts: the disk, other CPUs, timers.
    let folder = on_a_disk()?;
    for round in 0..30 {
        let file = fs::File::create(folder.path().join(round.to_string()))?;
        file.set_len(4096)?;
        file.sync_all()?;
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let ending = kernel_counts(file)?;
    let trace = tracer.stop()?;
    let after = kernel_counts(file)?;
    assert_eq!(trace.summary()?.all_lost(), 0);
    Ok((trace.events()?, [before, begun, ending, after]))
}

/// Checks that each count is at least what the kernel counted within the trace, and at most what it
/// counted from before to after it. Returns the sum of what was compared.
///
/// A few may be missing: now and then an interrupt and what follows it pass no tracepoint. perf
/// does not see those either.
fn assert_within(seen: &Counts, [before, begun, ending, after]: &[Counts; 4]) -> u64 {
    const FEW: u64 = 8;
    let mut sum = 0;
    for (name, count) in after {
        let of = |counts: &Counts| counts.get(name).copied().unwrap_or(0);
        let (least, most) = (of(ending) - of(begun), count - of(before));
        let seen = of(seen);
        let least = least.saturating_sub(FEW + least / 20);
        assert!(
            (least..=most).contains(&seen),
            "{name}: {seen} and not {least} to {most}"
        );
        sum += seen;
    }
    sum
}

#[test]
#[ignore = "loads eBPF"]
fn soft_interrupts_are_as_many_as_the_kernel_counted() {
    if missing_right().is_some() {
        return;
    }
    let (events, counts) = bracketed("softirq", "/proc/softirqs").unwrap();

    let mut seen = Counts::new();
    for event in events
        .iter()
        .filter(|event| event.is_system("softirq_enter"))
    {
        *seen
            .entry(event.word("name").unwrap().to_owned())
            .or_default() += 1;
        assert_eq!((event.pid, event.tid), (0, 0), "{}", event.line);
    }
    assert!(assert_within(&seen, &counts) > 50);
    assert_pairs(&events, "softirq_enter", "softirq_exit", "vector");
}

#[test]
#[ignore = "loads eBPF"]
fn interrupts_are_as_many_as_the_kernel_counted() {
    if missing_right().is_some() {
        return;
    }
    let (events, mut counts) = bracketed("irq", "/proc/interrupts").unwrap();
    // Those of the processor itself have no IRQ, and no handler of a device.
    for counts in &mut counts {
        counts.retain(|name, _| name.parse::<u32>().is_ok());
    }
    let mut seen = Counts::new();
    for event in events.iter().filter(|event| event.is_system("irq_enter")) {
        *seen
            .entry(event.integer("irq").unwrap().to_string())
            .or_default() += 1;
        assert!(!event.word("name").unwrap().is_empty(), "{}", event.line);
    }
    assert!(assert_within(&seen, &counts) > 10, "{seen:?}");
    assert_pairs(&events, "irq_enter", "irq_exit", "irq");
}

/// Checks that on each CPU each begin has its end before the next begin.
fn assert_pairs(events: &[Event], begin: &str, end: &str, what: &str) {
    let mut open: BTreeMap<u64, Option<i64>> = BTreeMap::new();
    for event in events {
        let cpu = event.cpu.expect("a CPU");
        if event.is_system(begin) {
            let before = open.insert(cpu, event.integer(what));
            assert_eq!(before.flatten(), None, "{}", event.line);
        } else if event.is_system(end) {
            let begun = open.insert(cpu, None).flatten();
            // The very first one may have begun before the trace.
            assert!(
                begun.is_none() || begun == event.integer(what),
                "{}",
                event.line
            );
        }
    }
}

/// Seconds that each CPU has been idle so far.
fn idle_seconds() -> anyhow::Result<BTreeMap<u64, f64>> {
    // SAFETY: `sysconf` has no preconditions.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    let per_second = f64::from(i32::try_from(ticks)?);
    let text = fs::read_to_string("/proc/stat")?;
    let mut seconds = BTreeMap::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let cpu = words
            .next()
            .and_then(|name| name.strip_prefix("cpu")?.parse().ok());
        if let Some(cpu) = cpu {
            // user nice system idle iowait
            let idle = words.skip(3).take(2).map(str::parse::<u32>);
            let idle: u32 = idle.sum::<Result<u32, _>>()?;
            seconds.insert(cpu, f64::from(idle) / per_second);
        }
    }
    Ok(seconds)
}

/// Ends the current period of idleness on each CPU, if there is one.
fn wake_all_cpus() -> anyhow::Result<()> {
    for cpu in idle_seconds()?.keys() {
        let mut taskset = Command::new("taskset");
        taskset.args(["-c", &cpu.to_string(), "true"]).status()?;
    }
    Ok(())
}

#[test]
#[ignore = "loads eBPF"]
fn cpus_idle_as_long_as_the_kernel_says() {
    if missing_right().is_some() {
        return;
    }
    let target = Sleeper::start().unwrap();
    let mut tracer = Tracer::attach(target.pid().unwrap(), &["--events", "idle"]).unwrap();
    tracer
        .wait_for(|event| event.is_system("idle_exit"))
        .unwrap();
    // Of a period that lasts from before the trace or beyond its end only one side would be
    // recorded.
    wake_all_cpus().unwrap();
    let (start, before) = (monotonic_ns(), idle_seconds().unwrap());
    std::thread::sleep(std::time::Duration::from_secs(3));
    let (end, after) = (monotonic_ns(), idle_seconds().unwrap());
    wake_all_cpus().unwrap();
    let trace = tracer.stop().unwrap();
    assert_eq!(trace.summary().unwrap().all_lost(), 0);

    let mut since: BTreeMap<u64, u64> = BTreeMap::new();
    let mut idle: BTreeMap<u64, f64> = BTreeMap::new();
    for event in trace.events().unwrap() {
        let Some(cpu) = event.cpu else { continue };
        if event.is_system("idle_enter") {
            assert_eq!(since.insert(cpu, event.ns), None, "{}", event.line);
        } else if event.is_system("idle_exit")
            && let Some(begun) = since.remove(&cpu)
        {
            let within = event.ns.min(end).saturating_sub(begun.max(start));
            let within = std::time::Duration::from_nanos(within).as_secs_f64();
            *idle.entry(cpu).or_default() += within;
        }
    }
    for (cpu, after) in after {
        let counted = after - before[&cpu];
        let seen = idle.get(&cpu).copied().unwrap_or(0.0);
        // The kernel's clock for it ticks 100 times a second, and may sample.
        assert!(
            (seen - counted).abs() < 0.3 + counted * 0.1,
            "cpu {cpu}: {seen} {counted}"
        );
    }
}

#[test]
#[ignore = "loads eBPF"]
fn a_process_that_takes_too_much_memory_is_seen_to_be_chosen_and_killed() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = dist::compile("hog", folder.path()).unwrap();
    let group = Cgroup::with_memory(16 << 20).unwrap();
    let script = format!(
        "echo $$ >{}/cgroup.procs && {} 200000000; exit 0",
        group.path().display(),
        program.display()
    );
    let words = ["--events", "oom,exit,exec", "--", "/bin/sh", "-c", &script];
    let trace = Tracer::start("run", words)
        .and_then(Tracer::finish)
        .unwrap();

    assert!(
        group.kills().unwrap() > 0,
        "nothing was killed: {}",
        trace.stderr
    );
    let events = trace.events().unwrap();
    let kills: Vec<_> = events.iter().filter(|e| e.is_system("oom_kill")).collect();
    assert_eq!(u64::try_from(kills.len()).unwrap(), group.kills().unwrap());
    let hog = kills.last().unwrap();
    assert_eq!(
        (hog.word("comm"), hog.integer("uid")),
        (Some("hog"), Some(0))
    );
    let end = events
        .iter()
        .find(|e| e.is_system("exit") && e.pid == hog.pid)
        .unwrap();
    assert_eq!(end.integer("signal"), Some(libc::SIGKILL.into()));
    assert!(end.ns > hog.ns);
}

/// A folder on a disk: the one for temporary files need not be.
fn on_a_disk() -> anyhow::Result<tempfile::TempDir> {
    tempfile::tempdir_in(".").context("no folder on a disk")
}

/// A run of `direct` on a file of `blocks` times 64 KiB, and what it said.
fn direct(blocks: u32) -> anyhow::Result<(i32, Trace, Vec<String>)> {
    let folder = on_a_disk()?;
    let file = folder.path().join("file");
    fs::write(&file, vec![0x5a_u8; blocks as usize * 64 * 1024])?;
    fs::File::open(&file)?.sync_all()?;
    let program = dist::compile("direct", folder.path())?;
    let mut command = Command::new(program);
    let (mut target, _) = Target::start(command.arg(&file).arg(blocks.to_string()))?;
    let mut tracer = Tracer::attach(target.pid(), &["--events", "block,switch"])?;
    tracer.wait_for(|event| event.is_system("switch_in"))?;
    target.go()?;
    let said = target.wait_until_done()?;
    Ok((target.pid(), tracer.stop()?, said))
}

#[test]
#[ignore = "loads eBPF"]
fn requests_to_the_disk_are_as_many_bytes_as_the_kernel_counted_for_the_process() {
    if missing_right().is_some() {
        return;
    }
    let (pid, trace, said) = direct(64).unwrap();
    assert_eq!(trace.summary().unwrap().all_lost(), 0);
    let counted = values_after(&said, "read").unwrap()[0][0];
    assert_eq!(counted, 64 * 64 * 1024, "not from a disk");

    let events = trace.events().unwrap();
    let reads = |name| {
        let events = events.iter();
        events.filter(move |e| e.is_system(name) && e.word("operation") == Some("read"))
    };
    let bytes = |name| -> i64 { reads(name).filter_map(|e| e.integer("bytes")).sum() };
    let counted = i64::try_from(counted).unwrap();
    assert_eq!(bytes("block_issue"), counted);
    // While some threads have the CPU, a kernel may run no program at the end of a request; that is
    // counted.
    let missing = reads("block_issue").count() - reads("block_complete").count();
    let unreported = trace.summary().unwrap().lost["kernel_not_told"];
    assert!(
        missing as u64 <= unreported,
        "{missing} ends of {unreported}"
    );
    assert!(missing > 0 || bytes("block_complete") == counted);
    for event in reads("block_complete") {
        assert_eq!(
            (event.pid, event.integer("status")),
            (pid, Some(0)),
            "{}",
            event.line
        );
        let is_its_issue = |issue: &&Event| {
            issue.integer("sector") == event.integer("sector") && issue.ns < event.ns
        };
        assert!(
            reads("block_issue").any(|issue| is_its_issue(&issue)),
            "{}",
            event.line
        );
    }
}
