//! Programs without a free file descriptor, without that of their trace area, or without a file for
//! it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::Command;

use tests::attacker::{VICTIM, as_user, command_as, stage};
use tests::rights::missing_right;
use tests::target::Target;
use tests::tracer::{Trace, Tracer};

/// Number of events that a program emits.
const EVENTS: usize = 1000;

/// Starts the program, of this kind, as a user without rights.
fn start(stage: &std::path::Path, kind: &str) -> Target {
    let mut command = as_user(VICTIM, stage, "descriptors");
    command.args([kind, &EVENTS.to_string()]);
    Target::start(&mut command).unwrap().0
}

/// Returns the command of a tracer that attaches to these targets: as their user, or as root.
fn attach(stage: &std::path::Path, user: u32, targets: &[&Target]) -> Command {
    let mut command = match user {
        0 => Command::new(stage.join("dist/bin/tracer-user")),
        user => command_as(user, stage.join("dist/bin/tracer-user")),
    };
    command.args(["attach", "--no-system", "--format", "json"]);
    command.args(targets.iter().map(|target| target.pid().to_string()));
    command
}

/// Lets a process emit, ends the trace, and checks that the trace has all events of the process.
fn all_events_of(target: &mut Target, mut tracer: Tracer) -> Trace {
    let own = target.pid();
    let is_own = |event: &tests::event::Event| event.pid == own;
    tracer
        .wait_for(|event| event.is_user("marker") && is_own(event))
        .unwrap();
    target.go().unwrap();
    target.wait_until_done().unwrap();
    let trace = tracer.stop().unwrap();
    let events = trace.events().unwrap();
    let of_sequence = events
        .iter()
        .filter(|event| event.is_user("sequence") && is_own(event));
    assert_eq!(of_sequence.count(), EVENTS, "{}", trace.stderr);
    assert_eq!(trace.summary().unwrap().all_lost(), 0, "{}", trace.stderr);
    trace
}

#[test]
#[ignore = "needs root: makes processes of other users"]
fn a_program_without_a_free_descriptor_is_traced() {
    if missing_right().is_some() {
        return;
    }
    let stage = stage(&["descriptors"]).unwrap();
    for user in [0, VICTIM] {
        let mut target = start(stage.path(), "full");
        let tracer = Tracer::start_command(&mut attach(stage.path(), user, &[&target])).unwrap();
        let trace = all_events_of(&mut target, tracer);
        assert_eq!(trace.status.code(), Some(0), "{}", trace.stderr);
        target.end().unwrap();
    }
}

#[test]
#[ignore = "needs root: makes processes of other users"]
fn an_area_that_its_program_has_closed_is_reported_to_who_cannot_see_it() {
    const REPORTED: &str = "has a trace area, of which it has closed the descriptor";
    if missing_right().is_some() {
        return;
    }
    let stage = stage(&["descriptors"]).unwrap();
    // A tracer of root has the capability, and sees the area.
    let mut closed = start(stage.path(), "closed");
    let tracer = Tracer::start_command(&mut attach(stage.path(), 0, &[&closed])).unwrap();
    all_events_of(&mut closed, tracer);
    closed.end().unwrap();

    let closed = start(stage.path(), "closed");
    let mut alone = attach(stage.path(), VICTIM, &[&closed]);
    let alone = alone.args(["--duration", "1s"]).output().unwrap();
    let errors = String::from_utf8_lossy(&alone.stderr);
    assert_eq!(alone.status.code(), Some(2), "{errors}");
    // The message says what has happened, why, and what the user can do.
    for part in [REPORTED, "CAP_CHECKPOINT_RESTORE", "run with sudo"] {
        assert!(errors.contains(part), "{errors}");
    }

    // The tracer still traces another process.
    let mut other = start(stage.path(), "full");
    let both = &mut attach(stage.path(), VICTIM, &[&closed, &other]);
    let trace = all_events_of(&mut other, Tracer::start_command(both).unwrap());
    assert_eq!(trace.status.code(), Some(1), "{}", trace.stderr);
    assert!(trace.stderr.contains(REPORTED), "{}", trace.stderr);
    other.end().unwrap();
    closed.end().unwrap();
}

#[test]
#[ignore = "needs root: makes processes of other users"]
fn a_program_whose_area_cannot_be_opened_is_reported() {
    if missing_right().is_some() {
        return;
    }
    let stage = stage(&["descriptors"]).unwrap();
    let plain = as_user(VICTIM, stage.path(), "descriptors");
    let mut command = Command::new("prlimit");
    command.arg("--fsize=0").arg(plain.get_program());
    command.args(plain.get_args()).args(["full", "0"]);
    command.env("LD_LIBRARY_PATH", stage.path().join("dist/lib"));
    let (target, _) = Target::start(&mut command).unwrap();
    let mut other = start(stage.path(), "full");
    // The tracer reports this process, and still traces the other one.
    let both = &mut attach(stage.path(), 0, &[&target, &other]);
    let trace = all_events_of(&mut other, Tracer::start_command(both).unwrap());
    let reported = format!(
        "the trace area of process {} is memory of its own",
        target.pid()
    );
    assert!(trace.stderr.contains(&reported), "{}", trace.stderr);
    assert_eq!(trace.status.code(), Some(1), "{}", trace.stderr);
    other.end().unwrap();
    target.end().unwrap();
}
