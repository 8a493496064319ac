//! Processes with pids that were not possible when the trace began.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::process::Command;

use tests::dist;
use tests::event::Event;
use tests::rights::missing_right;
use tests::target::Target;
use tests::tracer::Tracer;

/// The last pid that a 64-bit kernel gives, with the most that it lets one set.
const LAST: i32 = 4 * 1024 * 1024 - 1;

/// The kernel's limit, which is restored when this is dropped.
struct PidMax(String);

impl PidMax {
    const PATH: &str = "/proc/sys/kernel/pid_max";

    fn set(value: i32) -> Self {
        let before = fs::read_to_string(Self::PATH).unwrap();
        fs::write(Self::PATH, value.to_string()).unwrap();
        Self(before)
    }
}

impl Drop for PidMax {
    fn drop(&mut self) {
        let _ = fs::write(Self::PATH, &self.0);
    }
}

#[test]
#[ignore = "loads eBPF"]
fn a_pid_that_a_raised_limit_makes_possible_is_traced() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = dist::compile("high", folder.path()).unwrap();
    let (mut target, _) = Target::start(Command::new(program).arg(LAST.to_string())).unwrap();
    let events = "user,fork,exit,switch,wakeup";
    let mut tracer = Tracer::attach(target.pid(), &["--events", events]).unwrap();
    tracer.wait_for(|event| event.is_user("marker")).unwrap();

    let limit = PidMax::set(LAST + 1);
    target.go().unwrap();
    target.wait_for("made").unwrap();
    drop(limit);
    // One that is there already is attached to as any other.
    let mut second = Tracer::attach(LAST, &["--events", events]).unwrap();
    second
        .wait_for(|event| event.is_system("switch_in"))
        .unwrap();
    target.go().unwrap();
    target.wait_until_done().unwrap();
    target.end().unwrap();
    let (first, second) = (tracer.finish().unwrap(), second.finish().unwrap());

    let of_child = |event: &&Event| event.pid == LAST && event.tid == LAST;
    let has = |events: &[Event], is_it: &dyn Fn(&Event) -> bool| {
        events.iter().filter(of_child).any(is_it)
    };
    let events = first.events().unwrap();
    let is_made = |event: &Event| event.integer("child_pid") == Some(LAST.into());
    assert!(events.iter().any(is_made), "{}", first.stderr);
    assert!(has(&events, &|event| event.is_user("here")));
    for events in [events, second.events().unwrap()] {
        for name in ["switch_in", "switch_out", "wakeup"] {
            assert!(has(&events, &|event| event.is_system(name)), "{name}");
        }
        let is_end = |event: &Event| event.is_system("exit") && event.integer("status") == Some(5);
        assert!(has(&events, &is_end));
    }
}
