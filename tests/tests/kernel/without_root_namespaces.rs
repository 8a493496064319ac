//! Events of processes in user namespaces of the user's, without root, through the service: beside
//! those of root's trace.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use tests::attacker::{ATTACKER, VICTIM, command_as};
use tests::event::Event;
use tests::rights::missing_right;
use tests::target::Target;
use tests::tracer::{Trace, Tracer};

use crate::without_root::{Scene, is_told, lost, wait_for_begin, words};

/// Types that are compared, each of one process.
const TYPES: &str = "fork,exec,exit,rename,switch,signal";

/// Programs in the user's namespace and in one within, as root of that and as no user of it.
const SCRIPT: &str = "echo ready; read -n 1 go; \
                      for i in 1 2 3 4 5 6 7 8 9 10; do /bin/true; done; \
                      unshare --user /bin/sh -c '/bin/true; /bin/true'; \
                      unshare --user --map-root-user --pid --fork --mount-proc \
                      /bin/sh -c '/bin/true; /bin/true'; \
                      echo done; read end";

/// Counts the events by process and type, from the first fork on: before it an observer may have
/// begun later.
fn counts(trace: &Trace) -> BTreeMap<(i32, String), u64> {
    let events = trace.events().unwrap();
    let first = events.iter().find(|event| event.is_system("fork")).unwrap();
    let of_kernel = |event: &&Event| event.line.contains(r#""type":"linux_trace_"#);
    let mut counts = BTreeMap::new();
    for event in events.iter().filter(of_kernel) {
        if event.ns >= first.ns {
            let key = (event.pid, event.event_type.clone());
            *counts.entry(key).or_default() += 1;
        }
    }
    counts
}

#[test]
#[ignore = "needs root: loads eBPF"]
fn what_a_user_runs_in_a_namespace_of_its_own_is_seen_as_root_sees_it() {
    if missing_right().is_some() {
        return;
    }
    let scene = Scene::new();
    // The kernel may run a program of one observer and not that of the other at a switch, which it
    // says: then there is nothing to compare.
    let (roots, users) = loop {
        let mut unshare = command_as(VICTIM, "unshare");
        unshare.args(["--user", "--map-root-user", "/bin/bash", "-c", SCRIPT]);
        let (mut target, _) = Target::start(&mut unshare).unwrap();
        let pid = target.pid();
        let events = format!("{TYPES},thread-state");
        let mut roots = Tracer::attach(pid, &["--events", &events]).unwrap();
        let mut tool = scene.tool();
        tool.args(["attach", "--format", "json", "--events", &events, "-p"]);
        let mut users = Tracer::start_command(tool.arg(pid.to_string())).unwrap();
        wait_for_begin(&mut roots, pid);
        wait_for_begin(&mut users, pid);
        target.go().unwrap();
        target.wait_until_done().unwrap();
        target.end().unwrap();
        let seen = (roots.finish().unwrap(), users.finish().unwrap());
        if is_told(&seen.0) && is_told(&seen.1) {
            break seen;
        }
    };
    assert_eq!((lost(&roots), lost(&users)), (0, 0), "{}", users.stderr);
    let (seen, there) = (counts(&users), counts(&roots));
    assert_eq!(seen, there);
    // Ten, two and two of them, and the shells and those who make the namespaces.
    let execs = seen.iter().filter(|((_, of), _)| of == "exec");
    let execs: u64 = execs.map(|(_, count)| count).sum();
    assert_eq!(execs, 10 + 2 + 2 + 2 + 2, "{seen:?}");
}

#[test]
#[ignore = "needs root: loads eBPF"]
fn a_command_that_makes_a_namespace_is_traced_within_it_and_no_other_users_is() {
    if missing_right().is_some() {
        return;
    }
    let scene = Scene::new();
    let mut run = scene.tool();
    run.args(["run", "--format", "json", "--events", "exec", "--"]);
    run.args(["unshare", "--user", "--map-root-user", "/bin/sh", "-c"]);
    let output = run.arg("/bin/true; /bin/true; id -u").output().unwrap();
    // What the command says is on the other stream.
    let said = words(&output);
    let events = said.lines().filter(|line| line.starts_with("{\"ns\""));
    assert_eq!(events.count(), 5, "{said}");

    let script = "echo ready; read end";
    let mut unshare = command_as(ATTACKER, "unshare");
    unshare.args(["--user", "--map-root-user", "/bin/sh", "-c", script]);
    let (target, _) = Target::start(&mut unshare).unwrap();
    let mut attach = scene.tool();
    attach.args(["attach", "--duration", "1s", "-p"]);
    let output = attach.arg(target.pid().to_string()).output().unwrap();
    assert!(!output.status.success());
    assert!(
        words(&output).contains("another user"),
        "{}",
        words(&output)
    );
}
