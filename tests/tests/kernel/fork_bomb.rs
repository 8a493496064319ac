//! Twenty thousand processes that live a millisecond: each one is there, and nothing of them stays.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::Context as _;
use tests::event::Event;
use tests::rights::missing_right;
use tests::target::{Target, values_after};
use tests::tracer::Tracer;
use tests::{bpf, dist, wait_until};

const COUNT: usize = 20_000;

/// Memory that the tracer may take more after all of them than after a quarter. Memory that grows
/// with processes would be three times as large.
const MORE_KIB: u64 = 8 * 1024;

/// Resident memory of a process, in KiB.
fn resident(pid: i32) -> anyhow::Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next());
    Ok(kib.context("no VmRSS")?.parse()?)
}

struct Run {
    pid: i32,
    events: Vec<Event>,
    /// Resident memory of the tracer after a quarter of the processes and after all, in KiB.
    memory: [u64; 2],
    /// Entries left in the maps that hold something of a process.
    left: usize,
}

fn run() -> anyhow::Result<Run> {
    let folder = tempfile::tempdir()?;
    let program = dist::compile("bomb", folder.path())?;
    for digit in 0..10 {
        fs::hard_link(&program, folder.path().join(format!("bomb-{digit}")))?;
    }
    let mut command = Command::new(program);
    let (mut target, _) = Target::start(command.arg(COUNT.to_string()).arg(folder.path()))?;
    let options = [
        "--events",
        "fork,exec,exit,rename,switch",
        "--ring-size",
        "16M",
    ];
    let mut tracer = Tracer::attach(target.pid(), &options)?;
    tracer.wait_for(|event| event.is_system("switch_in"))?;
    target.go()?;
    target.wait_for("quarter")?;
    let quarter = resident(tracer.pid())?;
    let said = target.wait_until_done()?;
    assert_eq!(values_after(&said, "ended")?, [[u64::try_from(COUNT)?]]);
    // What it has not printed yet takes memory too.
    let mut all = resident(tracer.pid())?;
    let _ = wait_until("the memory back", Duration::from_secs(10), || {
        all = resident(tracer.pid())?;
        Ok((all < quarter + MORE_KIB).then_some(()))
    });
    // No process of it lives, but for the program itself, which was never renamed.
    let left = bpf::entries(tracer.pid(), "CALLS")? + bpf::entries(tracer.pid(), "ISSUERS")?;
    let pid = target.pid();
    let trace = tracer.stop()?;
    assert_eq!(trace.summary()?.all_lost(), 0, "{}", trace.stderr);
    // Only what is looked at: switches are many.
    let is_switch = |line: &str| line.contains("\"linux_trace_switch_");
    let mut events = Vec::new();
    for line in trace.lines()? {
        let line = line?;
        if !is_switch(&line)
            && let tests::event::Line::Event(event) = tests::event::Line::parse(&line)?
        {
            events.push(event);
        }
    }
    Ok(Run {
        pid,
        events,
        memory: [quarter, all],
        left,
    })
}

#[test]
#[ignore = "loads eBPF"]
fn of_twenty_thousand_short_lived_processes_each_is_there_and_none_is_left() {
    if missing_right().is_some() {
        return;
    }
    let run = run().unwrap();
    let of = |name: &'static str| run.events.iter().filter(move |e| e.is_system(name));

    // In order: a pid may be used again once its process has ended.
    let mut alive: BTreeMap<i32, Option<String>> = BTreeMap::new();
    let mut ended = 0;
    for event in &run.events {
        let comm = |event: &Event| {
            let line: serde_json::Value = serde_json::from_str(&event.line).unwrap();
            line["comm"].as_str().unwrap().to_owned()
        };
        if event.is_system("fork") {
            assert_eq!(
                (event.pid, event.word("child_comm")),
                (run.pid, Some("bomb"))
            );
            let child = i32::try_from(event.integer("child_pid").unwrap()).unwrap();
            assert_eq!(alive.insert(child, None), None, "{}", event.line);
        } else if event.is_system("exec") {
            let name = event.word("comm").unwrap().to_owned();
            assert!(name.starts_with("bomb-"), "{}", event.line);
            let before = alive.insert(event.pid, Some(name));
            assert_eq!(before, Some(None), "{}", event.line);
        } else if event.is_system("exit") && event.pid != run.pid {
            // It ends under the name that its exec gave it, with the status that it was given.
            let name = alive.remove(&event.pid).flatten().unwrap();
            assert_eq!(comm(event), name);
            let digit = event.integer("status").unwrap() % 10;
            assert_eq!(name, format!("bomb-{digit}"), "{}", event.line);
            ended += 1;
        }
    }
    assert_eq!(ended, COUNT);
    for name in ["fork", "exec"] {
        assert_eq!(of(name).count(), COUNT, "{name}");
    }
    assert!(alive.is_empty(), "{alive:?}");
    let times: BTreeSet<u64> = run.events.iter().map(|event| event.ns).collect();
    assert!(times.len() > 2 * COUNT);

    assert_eq!(run.left, 0, "entries in maps");
    let [quarter, all] = run.memory;
    assert!(all < quarter + MORE_KIB, "{quarter} KiB, then {all} KiB");
}
