//! Wakers of threads, against what the kernel's own tracer says of each wake-up.

use std::collections::BTreeMap;
use std::process::Command;

use anyhow::{Context as _, ensure};
use tests::event::Event;
use tests::ftrace::{Ftrace, Noted, to_us};
use tests::rights::missing_right;
use tests::target::{Target, values_after};
use tests::tracer::Tracer;
use tests::{dist, mount};

const ROUNDS: usize = 200;

/// Tells whether an event names the same waker.
fn is_same_as(asked: &Noted, event: &Event) -> bool {
    let context = event.word("waker_context").unwrap_or_default();
    let waker = event.integer("waker_tid");
    match asked.context {
        'h' | 'H' | 'z' | 'Z' => matches!(context, "irq" | "hrtimer") && waker == Some(0),
        's' => matches!(context, "softirq" | "timer") && waker == Some(0),
        // On real-time kernels before 6.12 ftrace does not see that a thread of the kernel serves
        // them.
        '.' if is_realtime() && serves_softirqs(asked.on_cpu) => {
            matches!(context, "softirq" | "timer") && waker == Some(0)
        }
        _ => context == "thread" && waker == Some(asked.on_cpu),
    }
}

fn is_realtime() -> bool {
    let version = std::fs::read_to_string("/proc/version");
    version.is_ok_and(|version| version.contains("PREEMPT_RT"))
}

/// Tells whether the thread is the kernel's own that serves soft interrupts, or those of timers, on
/// a CPU.
fn serves_softirqs(tid: i64) -> bool {
    let name = std::fs::read_to_string(format!("/proc/{tid}/comm"));
    name.is_ok_and(|name| name.starts_with("ksoftirqd/") || name.starts_with("ktimers/"))
}

struct Run {
    events: Vec<Event>,
    asked: Vec<Noted>,
    sleeper: u64,
    spinner: u64,
    writer: u64,
}

fn run() -> anyhow::Result<Run> {
    let folder = tempfile::tempdir()?;
    let program = dist::compile("wakers", folder.path())?;
    let (mut target, said) = Target::start(Command::new(program).arg(ROUNDS.to_string()))?;
    let tid = |name| -> anyhow::Result<u64> {
        let tids = values_after(&said, name)?.concat();
        tids.first().copied().context("no tid")
    };
    let (sleeper, spinner, writer) = (tid("sleeper")?, tid("spinner")?, tid("writer")?);
    let filter = format!("pid == {sleeper} || pid == {writer}");
    let ftrace = Ftrace::start("wakers", &[("sched/sched_waking", &filter)])?;
    let mut tracer = Tracer::attach(target.pid(), &["--events", "wakeup,rename"])?;
    tracer.wait_for(|event| event.is_system("wakeup"))?;
    target.go()?;
    target.wait_until_done()?;
    let asked = ftrace.noted()?;
    let trace = tracer.stop()?;
    ensure!(trace.summary()?.all_lost() == 0, "events were lost");
    Ok(Run {
        events: trace.events()?,
        asked,
        sleeper,
        spinner,
        writer,
    })
}

/// The wake-ups of the sleeper, by the name that it had.
fn by_way(run: &Run) -> BTreeMap<String, Vec<&Event>> {
    let mut ways: BTreeMap<String, Vec<&Event>> = BTreeMap::new();
    let mut way = String::new();
    let is_sleeper = |event: &&Event| u64::try_from(event.tid).is_ok_and(|tid| tid == run.sleeper);
    for event in run.events.iter().filter(is_sleeper) {
        if event.is_system("rename") {
            way = event.word("comm").unwrap_or_default().to_owned();
        } else if event.is_system("wakeup") {
            ways.entry(way.clone()).or_default().push(event);
        }
    }
    ways
}

#[test]
#[ignore = "loads eBPF"]
fn a_wakeup_names_what_asked_for_it_and_never_who_was_interrupted() {
    if missing_right().is_some() {
        return;
    }
    let _tracefs = mount::tracefs().unwrap();
    let run = run().unwrap();
    let ways = by_way(&run);

    // A real-time kernel puts off the timers of ordinary threads to a soft interrupt.
    let of_sleep = if is_realtime() { "timer" } else { "hrtimer" };
    // The sleeper is woken in each round, if it has not been late.
    for (way, contexts) in [
        ("hrtimer", &[of_sleep][..]),
        ("timer", &["timer"]),
        ("pipe", &["thread"]),
    ] {
        let events = &ways[way];
        assert!(events.len() >= ROUNDS / 2, "{way}: {}", events.len());
        let is_so = |event: &&&Event| {
            let context = event.word("waker_context");
            context.is_some_and(|context| contexts.contains(&context))
        };
        let as_asked = events.iter().filter(is_so).count();
        // A host that stops the machine may let a timer end instead of another.
        assert!(
            as_asked * 100 >= events.len() * 95,
            "{way}: {as_asked} of {}, such as {}",
            events.len(),
            events.last().unwrap().line
        );
    }
    // But at its end, those who wait for that.
    let of_others = run.events.iter().filter(|event| {
        event.is_system("wakeup")
            && u64::try_from(event.tid).is_ok_and(|tid| [run.sleeper, run.writer].contains(&tid))
    });
    let blamed =
        of_others.filter(|event| event.integer("waker_tid") == i64::try_from(run.spinner).ok());
    assert_eq!(blamed.count(), 0, "the spinner wakes no thread");
    let by_writer = ways["pipe"].iter().filter(|event| {
        event.integer("waker_tid") == i64::try_from(run.writer).ok()
            && event.word("waker_comm") == Some("wakers")
    });
    assert!(by_writer.count() >= ROUNDS * 9 / 10);
}

#[test]
#[ignore = "loads eBPF"]
fn the_kernels_own_tracer_says_the_same_of_each_wakeup() {
    if missing_right().is_some() {
        return;
    }
    let _tracefs = mount::tracefs().unwrap();
    let run = run().unwrap();

    let mut compared = 0;
    for event in run.events.iter().filter(|event| event.is_system("wakeup")) {
        let at_us = to_us(event.ns);
        // The last time that a waker asked for it before it was runnable.
        let asked = run.asked.iter().rfind(|asked| {
            let is_its = asked.value("pid=") == Some(&event.tid.to_string());
            is_its && asked.us <= at_us && at_us - asked.us < 1000
        });
        let Some(asked) = asked else { continue };
        assert!(is_same_as(asked, event), "{asked:?}\n{}", event.line);
        compared += 1;
    }
    assert!(compared >= 4 * ROUNDS * 9 / 10, "{compared} compared");
}
