//! Processes in namespaces that a hostile user makes: other clocks, other users, other mounts,
//! other pids.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::time::Instant;

use tests::attacker::{ATTACKER, VICTIM, as_user, command_as, delay_limit, stage};
use tests::event::Event;
use tests::monotonic_ns;
use tests::rights::missing_right;
use tests::target::Target;
use tests::tracer::{Trace, Tracer};

/// Events of each program.
const EVENTS: usize = 500;

/// The program in namespaces of its own, as the attacker; and its pid here.
fn inside(stage: &Path, options: &[&str], script: &str) -> (Target, i32) {
    let mut command = command_as(ATTACKER, "unshare");
    command
        .args(["--user", "--map-root-user", "--kill-child"])
        .args(options);
    command.args(["sh", "-c", script]).arg(stage.join("flood"));
    command.env("LD_LIBRARY_PATH", stage.join("dist/lib"));
    let (target, _) = Target::start(&mut command).unwrap();
    let pid = flood_below(target.pid());
    (target, pid)
}

/// The process that runs the program: this one, or one that descends from it.
fn flood_below(pid: i32) -> i32 {
    let comm = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap();
    if comm.trim() == "flood" {
        return pid;
    }
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    flood_below(children.split_whitespace().next().unwrap().parse().unwrap())
}

/// Traces the program in its namespaces and a victim outside of them, which take turns; what was
/// traced.
fn beside(options: &[&str], script: &str) -> Option<(Trace, i32, i32)> {
    if missing_right().is_some() {
        return None;
    }
    let stage = stage(&["flood"]).unwrap();
    let (mut hostile, theirs) = inside(stage.path(), options, script);
    let mut victim = as_user(VICTIM, stage.path(), "flood");
    let (mut victim, _) = Target::start(victim.args(["1", "500", "1"])).unwrap();
    let own = victim.pid();
    let pids = [theirs, own].map(|pid| pid.to_string());
    let all = ["--syscalls", "clock_nanosleep"].into_iter();
    let start = Instant::now();
    let mut tracer = Tracer::start("attach", all.chain(pids.iter().map(String::as_str))).unwrap();
    for pid in [own, theirs] {
        tracer
            .wait_for(|event| event.is_user("marker") && event.pid == pid)
            .unwrap();
    }
    assert!(start.elapsed() < delay_limit(), "{:?}", start.elapsed());
    let before = monotonic_ns();
    hostile.go().unwrap();
    victim.go().unwrap();
    victim.wait_until_done().unwrap();
    hostile.wait_until_done().unwrap();
    let after = monotonic_ns();
    let start = Instant::now();
    let trace = tracer.stop().unwrap();
    assert!(start.elapsed() < delay_limit(), "{:?}", start.elapsed());
    victim.end().unwrap();
    hostile.end().unwrap();

    let events = trace.events().unwrap();
    for pid in [own, theirs] {
        let floods: Vec<&Event> = events
            .iter()
            .filter(|event| event.is_user("flood") && event.pid == pid)
            .collect();
        assert_eq!(floods.len(), EVENTS, "{pid}: {}", trace.stderr);
        // At the time when it was, by our clock.
        for event in floods {
            assert!(
                (before..=after).contains(&event.ns),
                "{pid}: {}",
                event.line
            );
        }
        turns(&events, pid);
    }
    assert_eq!(trace.summary().unwrap().all_lost(), 0, "{}", trace.stderr);
    Some((trace, theirs, own))
}

/// Checks the order of the program's events and the kernel's events of it: in turn, an event of the
/// program, and the call by which it sleeps.
fn turns(events: &[Event], pid: i32) {
    let of_process = events.iter().filter(|event| event.pid == pid);
    let kinds: Vec<&str> = of_process
        .map(|event| event.event_type.as_str())
        .filter(|kind| ["flood", "syscall_enter", "syscall_exit"].contains(kind))
        .skip_while(|kind| *kind != "flood")
        .collect();
    let rounds = kinds.chunks_exact(3);
    let wrong = rounds
        .clone()
        .filter(|round| *round != ["flood", "syscall_enter", "syscall_exit"]);
    assert_eq!(wrong.count(), 0, "{pid}: {kinds:?}");
    assert!(rounds.len() >= EVENTS - 1, "{pid}: {}", rounds.len());
}

#[test]
#[ignore = "needs root: traces kernel events of other users' processes"]
fn a_process_with_other_clocks_has_its_events_where_they_were() {
    for offset in ["500000", "-500"] {
        let monotonic = format!("--monotonic={offset}");
        let boottime = format!("--boottime={offset}");
        beside(&["--time", &monotonic, &boottime], "exec \"$0\" 1 500 1");
    }
}

#[test]
#[ignore = "needs root: traces kernel events of other users' processes"]
fn root_in_namespaces_of_its_own_changes_nothing_for_others() {
    // It sees an empty /proc, and other files under the names of the library and of what shows
    // processes.
    let script = "mount -t tmpfs none /run && mount -t tmpfs none /proc && mount -t tmpfs none /sys && exec \"$0\" 1 500 1";
    let options = ["--mount", "--pid", "--fork", "--ipc", "--net", "--uts"];
    let Some((trace, theirs, own)) = beside(&options, script) else {
        return;
    };
    // By the tracer's pids, and not by its own, which other processes may have here.
    let events = trace.events().unwrap();
    // The stream's own events have pid 0.
    let strangers = events
        .iter()
        .filter(|event| ![theirs, own, 0].contains(&event.pid));
    let strangers: Vec<&str> = strangers.map(|event| event.line.as_str()).collect();
    assert!(strangers.is_empty(), "{strangers:#?}");
}
