//! Order: every cause before its effect, and time never goes back.

use std::collections::{HashMap, HashSet};
use std::process::Command;

use tests::dist;
use tests::event::Event;
use tests::rights::missing_right;
use tests::target::Target;
use tests::tracer::Tracer;

const ROUNDS: usize = 1000;

/// The timeline of `family`, from before its first round until after its last.
fn timeline() -> anyhow::Result<Vec<Event>> {
    let folder = tempfile::tempdir()?;
    let program = dist::compile("family", folder.path())?;
    let (mut target, _) = Target::start(Command::new(program).arg(ROUNDS.to_string()))?;
    let mut tracer = Tracer::attach(target.pid(), &[])?;
    tracer.wait_for(|event| event.is_user("marker"))?;
    tracer.wait_for(|event| event.is_system("switch_in"))?;
    target.go()?;
    target.wait_until_done()?;
    let trace = tracer.stop()?;
    let summary = trace.summary()?;
    assert_eq!(summary.all_lost(), 0, "{summary:?}");
    trace.events()
}

/// Returns the positions of the user events `name` in the timeline, by round.
fn positions_of(events: &[Event], name: &str) -> HashMap<usize, usize> {
    let mut positions = HashMap::new();
    for (position, event) in events.iter().enumerate() {
        if event.is_user(name) {
            let round = event.text().and_then(|text| text.parse().ok());
            let earlier = positions.insert(round.expect("a round"), position);
            assert!(earlier.is_none(), "{name} came twice: {}", event.line);
        }
    }
    assert_eq!(positions.len(), ROUNDS, "{name}");
    positions
}

#[test]
#[ignore = "loads eBPF"]
fn every_cause_comes_before_its_effect_a_thousand_times() {
    if missing_right().is_some() {
        return;
    }
    let events = timeline().unwrap();

    let times = events.iter().map(|event| event.ns);
    assert!(times.is_sorted(), "time went back");

    let (before, in_child, after) = (
        positions_of(&events, "before"),
        positions_of(&events, "in child"),
        positions_of(&events, "after"),
    );
    let mut forks = HashMap::new();
    let mut exits = HashMap::new();
    for (position, event) in events.iter().enumerate() {
        if event.is_system("fork") {
            forks.insert(event.integer("child_pid").unwrap(), position);
        } else if event.is_system("exit") {
            exits.insert(i64::from(event.pid), position);
        }
    }
    for round in 0..ROUNDS {
        let child = i64::from(events[in_child[&round]].pid);
        let steps = [
            before[&round],
            forks[&child],
            in_child[&round],
            exits[&child],
            after[&round],
        ];
        let lines = steps.map(|position| events[position].line.as_str());
        assert!(steps.is_sorted(), "round {round}:\n{}", lines.join("\n"));
        let status = i64::try_from(round % 100).unwrap();
        assert_eq!(events[exits[&child]].integer("status"), Some(status));
    }
}

#[test]
#[ignore = "loads eBPF"]
fn a_thread_that_slept_is_woken_before_it_runs_again() {
    if missing_right().is_some() {
        return;
    }
    let events = timeline().unwrap();

    let (mut asleep, mut running) = (HashSet::new(), HashSet::new());
    let mut woken = 0;
    for event in &events {
        if event.is_system("switch_out") {
            running.remove(&event.tid);
            if event.integer("preempted") == Some(0) && !is_runnable(event) {
                asleep.insert(event.tid);
            }
        } else if event.is_system("wakeup") {
            woken += u32::from(asleep.remove(&event.tid));
        } else if event.is_system("switch_in") {
            assert!(!asleep.contains(&event.tid), "not woken: {}", event.line);
            assert!(running.insert(event.tid), "runs already: {}", event.line);
        }
    }
    assert!(woken > 100, "{woken}");
}

/// Tells whether the thread that leaves the CPU is runnable: its state is shown as an integer, or
/// as letters, of which R is running.
fn is_runnable(switch_out: &Event) -> bool {
    let state = &switch_out.data["state"];
    let word = state.as_str().unwrap_or_default();
    state.as_i64() == Some(0) || word.starts_with(['R', 'r'])
}
