//! Children of the target that are there already when a trace begins, or are made while it does.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tests::attacker::{VICTIM, command_as};
use tests::dist;
use tests::rights::missing_right;
use tests::target::{Target, values_after};
use tests::tracer::{Trace, Tracer};

use crate::without_root::Scene;

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

/// Loops that make a process after the other without a pause, in a process group of their own.
/// Killed when dropped.
struct Loops(Child);

/// Number of the loops.
const LOOPS: usize = 40;

impl Loops {
    /// Starts them, by a shell that `shell` runs.
    fn start(mut shell: Command) -> Self {
        let script = format!(
            "for i in $(seq {LOOPS}); do (while :; do sleep 0.02; done) & done; wait; true"
        );
        let shell = shell.args(["-c", &script]).process_group(0);
        let loops = Self(shell.stdin(Stdio::null()).spawn().unwrap());
        tests::wait_until("the loops", Duration::from_secs(60), || {
            let has_all = below(loops.pid()).len() >= LOOPS + LOOPS / 2;
            Ok(has_all.then_some(()))
        })
        .unwrap();
        loops
    }

    fn pid(&self) -> i32 {
        i32::try_from(self.0.id()).unwrap()
    }

    fn signal(&self, signal: i32) {
        // SAFETY: takes integers only; the group is that of a child that was not waited for.
        unsafe { libc::kill(-self.pid(), signal) };
    }

    /// Stops them. Returns all processes that they are.
    fn stop(&self) -> BTreeSet<i32> {
        self.signal(libc::SIGSTOP);
        let all = || below(self.pid());
        let mut last = BTreeSet::new();
        tests::wait_until("no new process", Duration::from_secs(60), || {
            std::thread::sleep(Duration::from_millis(50));
            let now = all();
            Ok((std::mem::replace(&mut last, now.clone()) == now).then_some(()))
        })
        .unwrap();
        last.insert(self.pid());
        last
    }
}

impl Drop for Loops {
    fn drop(&mut self) {
        self.signal(libc::SIGKILL);
        let _ = self.0.wait();
    }
}

/// Asserts that each process of the loops is traced once the tracer has begun, and that only those
/// are counted as made before that were.
fn assert_all_are_traced(loops: Loops, mut tracer: Tracer) {
    tracer.wait_for(|event| event.is_system("exec")).unwrap();
    let there = loops.stop();
    drop(loops);
    let trace = tracer.finish().unwrap();
    assert_eq!(trace.summary().unwrap().all_lost(), 0);
    let missed: Vec<_> = there.difference(&ended(&trace)).copied().collect();
    assert!(missed.is_empty(), "{missed:?} of {}", there.len());
    let counted = trace.stderr.split_once(" processes that were made before");
    let counted = counted.and_then(|(before, _)| before.split_ascii_whitespace().last());
    let counted: usize = counted.unwrap().parse().unwrap();
    // They are all the user's own, also those that end just then.
    assert!(!trace.stderr.contains("not traced"), "{}", trace.stderr);
    // A loop has a child at a time, and is traced with all that it makes from then on.
    assert!((LOOPS..=2 * LOOPS).contains(&counted), "{counted}");
}

#[test]
#[ignore = "loads eBPF"]
fn loops_that_make_processes_are_traced_with_these() {
    if missing_right().is_some() {
        return;
    }
    let loops = Loops::start(Command::new("sh"));
    let options = ["--no-user", "--events", "exec,exit"];
    let tracer = Tracer::attach(loops.pid(), &options).unwrap();
    assert_all_are_traced(loops, tracer);
}

#[test]
#[ignore = "needs root: loads eBPF"]
fn loops_that_make_processes_are_traced_with_these_without_root() {
    if missing_right().is_some() {
        return;
    }
    let scene = Scene::new();
    let loops = Loops::start(command_as(VICTIM, "sh"));
    let mut tool = scene.tool();
    let options = ["--no-user", "--format", "json", "--events", "exec,exit"];
    let tool = tool.arg("attach").args(options).arg("-p");
    let tracer = Tracer::start_command(tool.arg(loops.pid().to_string())).unwrap();
    assert_all_are_traced(loops, tracer);
}
