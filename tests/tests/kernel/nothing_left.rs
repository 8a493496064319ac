//! A tracer that was killed leaves nothing behind.

use std::collections::BTreeSet;
use std::process::Command;
use std::time::Duration;

use tests::bpf::{self, Kind};
use tests::event::{Event, two_integers};
use tests::rights::missing_right;
use tests::target::Target;
use tests::tracer::Tracer;
use tests::{dist, wait_until};

fn is_marker(event: &Event) -> bool {
    event.is_user("marker")
}

fn pinned() -> BTreeSet<String> {
    let entries = std::fs::read_dir("/sys/fs/bpf").into_iter().flatten();
    entries
        .flatten()
        .map(|entry| entry.path().display().to_string())
        .collect()
}

#[test]
#[ignore = "loads eBPF"]
fn a_killed_tracer_leaves_nothing_in_the_kernel_and_the_target_can_be_traced_again() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = dist::compile("flood", folder.path()).unwrap();
    let (mut target, _) = Target::start(Command::new(program).args(["2", "20000", "1"])).unwrap();
    let pinned_before = pinned();

    const EVERYTHING: &str = "user,fork,exec,exit,switch,wakeup,rename,signal,fault,migrate,irq,\
                              softirq,idle,oom,block,cgroup";
    let everything = [
        "--events",
        EVERYTHING,
        "--syscalls",
        "all",
        "--probe",
        "libc.so.6:malloc",
    ];
    // More often than an area has slots for streams: a killed tracer's are freed.
    for round in 0..10 {
        let options: &[&str] = if round % 2 == 0 { &[] } else { &everything };
        let mut tracer = Tracer::attach(target.pid(), options).unwrap();
        tracer.wait_for(is_marker).unwrap();
        let objects = bpf::all_because_of(tracer.pid()).unwrap();
        for kind in [Kind::Program, Kind::Map, Kind::Link] {
            assert!(objects.iter().any(|object| object.kind == kind));
        }
        tracer.signal(libc::SIGKILL).unwrap();
        let status = tracer.wait_for_death().unwrap();
        assert!(!status.success());
        // The kernel frees them a little later than the process.
        wait_until("the kernel to let go", Duration::from_secs(60), || {
            let mut still = Vec::new();
            for object in &objects {
                if object.exists()? {
                    still.push(object);
                }
            }
            Ok(still.is_empty().then_some(()))
        })
        .unwrap();
        assert!(target.is_running().unwrap());
    }
    assert_eq!(pinned(), pinned_before);

    let mut tracer = Tracer::attach(target.pid(), &[]).unwrap();
    tracer.wait_for(is_marker).unwrap();
    target.go().unwrap();
    target.wait_until_done().unwrap();
    let trace = tracer.stop().unwrap();
    let events = trace.events().unwrap();
    assert_eq!(trace.summary().unwrap().all_lost(), 0);
    let flood = events.iter().filter(|event| event.is_user("flood"));
    assert_eq!(flood.count(), 20_000);
    // The markers since the first that was seen, without a gap.
    let markers: Vec<_> = events.iter().filter(|event| is_marker(event)).collect();
    let pairs: Vec<_> = markers.iter().map(|e| two_integers(&e.line)).collect();
    let first = pairs[0].unwrap().1;
    for (pair, expected) in pairs.into_iter().zip(first..) {
        assert_eq!(pair, Some((0, expected)));
    }
    assert!(target.end().unwrap().success());
}

#[test]
#[ignore = "loads eBPF"]
fn the_target_runs_on_when_the_tracer_ends_by_itself() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = dist::compile("flood", folder.path()).unwrap();
    let (mut target, _) = Target::start(Command::new(program).args(["2", "20000", "1"])).unwrap();
    let descriptors = || {
        let folder = format!("/proc/{}/fd", target.pid());
        std::fs::read_dir(folder).map(Iterator::count)
    };
    let before = descriptors().unwrap();
    let trace = Tracer::attach(target.pid(), &["--duration", "1"])
        .and_then(Tracer::finish)
        .unwrap();
    assert_eq!(trace.status.code(), Some(0), "{}", trace.stderr);
    assert!(trace.events().unwrap().iter().any(is_marker));
    assert_eq!(descriptors().unwrap(), before);
    target.go().unwrap();
    target.wait_until_done().unwrap();
    assert!(target.end().unwrap().success());
}
