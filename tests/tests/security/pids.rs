//! Pids of processes that have ended, given to processes of others: those are not taken for the
//! ones that were traced.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use tests::attacker::{ATTACKER, VICTIM, as_user, command_as, stage};
use tests::event::Event;
use tests::rights::missing_right;
use tests::target::{Target, values_after};
use tests::tracer::Tracer;

/// The pid before that of the next process; root may write it.
const LAST_PID: &str = "/proc/sys/kernel/ns_last_pid";

/// Time in which a process gets the pid: other processes begin meanwhile, and one of another test
/// may have it for a while.
const WITHIN: Duration = Duration::from_secs(60);

/// Time that is longer than a tracer looks for the trace area of a process that has begun.
const ALL_LOOKS: Duration = Duration::from_millis(2500);

/// Starts a command that has this pid, once no other process has been faster.
fn start_as(pid: i32, command: impl Fn() -> Command) -> Target {
    let since = Instant::now();
    while since.elapsed() < WITHIN {
        if Path::new("/proc").join(pid.to_string()).exists() {
            std::thread::sleep(Duration::from_millis(20));
            continue;
        }
        std::fs::write(LAST_PID, (pid - 1).to_string()).unwrap();
        let (target, _) = Target::start(&mut command()).unwrap();
        if target.pid() == pid {
            return target;
        }
        target.end().unwrap();
    }
    panic!("no process got the pid {pid}");
}

/// A shell of the attacker's that has a child again and again, and says which it has when there is
/// a file `go`.
fn parent(go: &Path) -> Target {
    let script = "echo ready; while [ ! -e \"$0\" ]; do sleep 0.05; done; \
                  sleep 0.02 & echo child $!; wait; echo done; cat > /dev/null";
    let mut shell = command_as(ATTACKER, "sh");
    shell.args(["-c", script]).arg(go);
    Target::start(&mut shell).unwrap().0
}

fn flood(stage: &Path) -> Command {
    let mut command = as_user(VICTIM, stage, "flood");
    command.args(["1", "500", "1"]);
    command
}

#[test]
#[ignore = "needs root: gives a process the pid of another"]
fn who_is_given_the_pid_of_an_ended_child_is_not_traced_instead() {
    if missing_right().is_some() {
        return;
    }
    let stage = stage(&["flood"]).unwrap();
    let go = stage.path().join("go");
    let parent = parent(&go);
    let shell = parent.pid();
    let mut tracer = Tracer::attach(shell, &[]).unwrap();
    tracer
        .wait_for(|event| event.is_system("fork") && event.pid == shell)
        .unwrap();
    std::fs::write(&go, "").unwrap();
    let said = parent.wait_until_done().unwrap();
    let child = values_after(&said, "child").unwrap()[0][0];
    let child = i32::try_from(child).unwrap();

    let mut stranger = start_as(child, || flood(stage.path()));
    stranger.go().unwrap();
    stranger.wait_until_done().unwrap();
    std::thread::sleep(ALL_LOOKS);
    let trace = tracer.stop().unwrap();
    stranger.end().unwrap();
    parent.end().unwrap();

    let events = trace.events().unwrap();
    let of_child: Vec<_> = events.iter().filter(|event| event.pid == child).collect();
    let end = of_child.iter().position(|event| event.is_system("exit"));
    let after = &of_child[end.expect("the child was traced to its end") + 1..];
    let after: Vec<_> = after.iter().map(|event| &event.event_type).collect();
    // Once it is ended it leaves its CPU, and on a slow machine may wait for something before;
    // another one would run a program and end.
    let of_its_end = ["switch_out", "wakeup", "switch_in"];
    let after: Vec<_> = after
        .iter()
        .filter(|kind| !of_its_end.contains(&kind.as_str()))
        .collect();
    assert!(after.is_empty(), "of the stranger: {after:?}");
    let is_strangers = |event: &&Event| event.is_user("flood") || event.is_user("marker");
    assert_eq!(events.iter().filter(is_strangers).count(), 0);
}
