//! Children of the target that are there already when a trace begins.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::process::Command;
use std::time::Duration;

use tests::dist;
use tests::rights::missing_right;
use tests::target::{Target, values_after};
use tests::tracer::{Trace, Tracer};

/// Starts the server with `lines` lines of workers, `depth` workers each; returns also what it
/// said.
fn server(lines: u32, depth: u32) -> (Target, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let program = dist::compile("prefork", folder.path()).unwrap();
    let mut command = Command::new(program);
    Target::start(command.args([lines, depth].map(|count| count.to_string()))).unwrap()
}

/// The children of a process and theirs, as the kernel lists them.
fn below(pid: i32) -> BTreeSet<i32> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let children = std::fs::read_to_string(path).unwrap_or_default();
    let mut all = BTreeSet::new();
    for child in children.split_ascii_whitespace() {
        let child = child.parse().unwrap();
        all.insert(child);
        all.extend(below(child));
    }
    all
}

/// The processes that the server says it has been.
fn said(lines: &[String]) -> BTreeSet<i32> {
    let all = values_after(lines, "process").unwrap();
    all.iter().map(|of| i32::try_from(of[0]).unwrap()).collect()
}

/// The processes whose exit was seen.
fn ended(trace: &Trace) -> BTreeSet<i32> {
    let events = trace.events().unwrap();
    let exits = events.iter().filter(|event| event.is_system("exit"));
    exits.map(|event| event.pid).collect()
}

/// Attaches, lets the server end, and gives what it says, and the trace.
fn traced(
    (mut server, mut lines): (Target, Vec<String>),
    options: &[&str],
) -> (BTreeSet<i32>, Trace) {
    let usual = ["--no-user", "--events", "exit,rename", "--limit", "100000"];
    let mut tracer = Tracer::attach(server.pid(), &[&usual, options].concat()).unwrap();
    tracer.wait_for(|event| event.is_system("rename")).unwrap();
    server.go().unwrap();
    lines.extend(server.wait_until_done().unwrap());
    server.end().unwrap();
    let trace = tracer.finish().unwrap();
    assert_eq!(trace.summary().unwrap().all_lost(), 0);
    (said(&lines), trace)
}

#[test]
#[ignore = "loads eBPF"]
fn the_children_that_are_there_are_traced_with_who_is_attached_to() {
    if missing_right().is_some() {
        return;
    }
    let server = server(4, 3);
    tests::wait_until("the workers", Duration::from_secs(60), || {
        Ok((below(server.0.pid()).len() == 12).then_some(()))
    })
    .unwrap();
    let mut there = below(server.0.pid());
    there.insert(server.0.pid());
    let (said, trace) = traced(server, &[]);
    assert_eq!(said, there);
    assert_eq!(ended(&trace), there);
    assert!(
        trace.stderr.contains("12 processes that were made before"),
        "{}",
        trace.stderr
    );
}

#[test]
#[ignore = "loads eBPF"]
fn without_inheritance_they_are_not() {
    if missing_right().is_some() {
        return;
    }
    let server = server(2, 1);
    let pid = server.0.pid();
    let (said, trace) = traced(server, &["--no-inherit"]);
    assert_eq!(said.len(), 3);
    assert_eq!(ended(&trace), BTreeSet::from([pid]));
}

#[test]
#[ignore = "loads eBPF"]
fn who_forks_meanwhile_does_not_slip_through() {
    if missing_right().is_some() {
        return;
    }
    // Each line grows by a process a millisecond or two, while the tracer begins.
    let (said, trace) = traced(server(3, 1000), &[]);
    assert!(said.len() > 100, "{}", said.len());
    assert_eq!(ended(&trace), said);
}
