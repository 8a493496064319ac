//! Processes that are chosen by what they are, against what the test itself started.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use tests::cgroup::Cgroup;
use tests::event::Event;
use tests::rights::missing_right;
use tests::tracer::Tracer;

/// Time to wait for a process that should do something every 20 ms.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A program of this name: a shell in a file of its own.
fn program(folder: &Path, name: &str) -> anyhow::Result<PathBuf> {
    let program = folder.join(name);
    fs::copy("/bin/sh", &program)?;
    Ok(program)
}

/// Starts a shell that runs `true` every 20 ms until it is killed.
fn start(program: &Path) -> anyhow::Result<Child> {
    let script = "while :; do /bin/true; sleep 0.02; done";
    let mut command = Command::new(program);
    command.args(["-c", script]).stdin(Stdio::null());
    command.spawn().context("cannot start a shell")
}

fn pid_of(child: &Child) -> i32 {
    i32::try_from(child.id()).expect("a pid")
}

fn end(children: impl IntoIterator<Item = Child>) -> anyhow::Result<()> {
    for mut child in children {
        child.kill()?;
        child.wait()?;
    }
    Ok(())
}

/// Waits until a process has made this many more children.
fn made_by(pid: i32, count: usize) -> anyhow::Result<()> {
    let children = format!("/proc/{pid}/task/{pid}/children");
    let mut seen = BTreeSet::new();
    tests::wait_until("children of a process", TIMEOUT, || {
        seen.insert(fs::read_to_string(&children)?);
        // The first may have been made before, and at times there is none.
        Ok((seen.len() > count + 2).then_some(()))
    })
}

/// The processes that forked.
fn forking(events: &[Event]) -> BTreeSet<i32> {
    let forks = events.iter().filter(|event| event.is_system("fork"));
    forks.map(|event| event.pid).collect()
}

#[test]
#[ignore = "loads eBPF"]
fn processes_of_a_name_are_traced_those_that_begin_later_too() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let chosen = program(folder.path(), "tracer-chosen").unwrap();
    let other = program(folder.path(), "tracer-other").unwrap();
    let early = start(&chosen).unwrap();
    let stranger = start(&other).unwrap();
    let options = [
        "--comm",
        "tracer-chosen",
        "--events",
        "fork,exec,exit,rename",
    ];
    let mut tracer = Tracer::start("attach", options).unwrap();
    let is_fork_of = |pid| move |event: &Event| event.is_system("fork") && event.pid == pid;
    tracer.wait_for(is_fork_of(pid_of(&early))).unwrap();
    let late = start(&chosen).unwrap();
    let fork = tracer.wait_for(is_fork_of(pid_of(&late))).unwrap();
    // The children run their program a moment after they were made.
    let child = fork.integer("child_pid");
    let is_exec_of_child =
        |event: &Event| event.is_system("exec") && Some(i64::from(event.pid)) == child;
    tracer.wait_for(is_exec_of_child).unwrap();
    let is_exec_of_true =
        |event: &Event| event.is_system("exec") && event.word("comm") == Some("true");
    tracer.wait_for_some(2, "exec", is_exec_of_true).unwrap();
    let (early_pid, late_pid) = (pid_of(&early), pid_of(&late));
    end([early, late, stranger]).unwrap();
    let trace = tracer.stop().unwrap();

    assert_eq!(trace.summary().unwrap().all_lost(), 0);
    let events = trace.events().unwrap();
    assert_eq!(forking(&events), BTreeSet::from([early_pid, late_pid]));
    // The late one from its exec on, by which it got its name; and what it made.
    let exec = events
        .iter()
        .find(|e| e.is_system("exec") && e.pid == late_pid)
        .unwrap();
    assert_eq!(exec.word("file"), chosen.to_str());
    let children = events.iter().filter(|event| is_exec_of_true(event));
    assert!(children.count() >= 2);
}

#[test]
#[ignore = "loads eBPF"]
fn a_pattern_chooses_every_process_whose_name_is_like_it() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let names = ["likeable-early", "likeable-late", "unlikeable"];
    let [early, late, other] = names.map(|name| program(folder.path(), name).unwrap());
    let (early, stranger) = (start(&early).unwrap(), start(&other).unwrap());
    let options = ["--comm", "like?ble-*", "--events", "fork"];
    let mut tracer = Tracer::start("attach", options).unwrap();
    let is_fork_of = |pid| move |event: &Event| event.is_system("fork") && event.pid == pid;
    tracer.wait_for(is_fork_of(pid_of(&early))).unwrap();
    let late = start(&late).unwrap();
    tracer.wait_for(is_fork_of(pid_of(&late))).unwrap();
    made_by(pid_of(&stranger), 3).unwrap();
    let pids = BTreeSet::from([pid_of(&early), pid_of(&late)]);
    end([early, late, stranger]).unwrap();
    let trace = tracer.stop().unwrap();

    assert_eq!(trace.summary().unwrap().all_lost(), 0);
    assert_eq!(forking(&trace.events().unwrap()), pids);
}

#[test]
#[ignore = "loads eBPF"]
fn processes_in_a_control_group_are_traced_as_long_as_they_are_in_it() {
    if missing_right().is_some() {
        return;
    }
    let (group, elsewhere) = (Cgroup::new().unwrap(), Cgroup::new().unwrap());
    let inner = group.child("inner").unwrap();
    let shell = Path::new("/bin/sh");
    let [before, within, later, never] = [(); 4].map(|()| start(shell).unwrap());
    let put = |group: &Cgroup, child: &Child| {
        fs::write(group.path().join("cgroup.procs"), child.id().to_string()).unwrap();
    };
    put(&group, &before);
    put(&inner, &within);
    put(&elsewhere, &never);
    let name = group
        .path()
        .file_name()
        .unwrap()
        .to_str()
        .unwrap()
        .to_owned();
    let options = ["--cgroup", &name, "--events", "fork,exec,exit"];
    let mut tracer = Tracer::start("attach", options).unwrap();
    let is_fork_of = |pid| move |event: &Event| event.is_system("fork") && event.pid == pid;
    tracer.wait_for(is_fork_of(pid_of(&before))).unwrap();
    tracer.wait_for(is_fork_of(pid_of(&within))).unwrap();
    put(&inner, &later);
    tracer.wait_for(is_fork_of(pid_of(&later))).unwrap();

    put(&elsewhere, &before);
    let left = tests::monotonic_ns();
    // Some rounds of those that were and are outside, seen by what they have made, and of those
    // inside.
    for outside in [&before, &never] {
        made_by(pid_of(outside), 3).unwrap();
    }
    for inside in [&within, &later].map(pid_of) {
        let is_later = move |event: &Event| is_fork_of(inside)(event) && event.ns > left;
        tracer.wait_for(is_later).unwrap();
    }
    let pids = [&before, &within, &later].map(pid_of);
    end([before, within, later, never]).unwrap();
    let trace = tracer.stop().unwrap();

    assert_eq!(trace.summary().unwrap().all_lost(), 0);
    let events = trace.events().unwrap();
    assert_eq!(forking(&events), BTreeSet::from(pids));
    let after: Vec<Event> = events.into_iter().filter(|event| event.ns > left).collect();
    assert_eq!(forking(&after), BTreeSet::from([pids[1], pids[2]]));
}

/// Processes and threads made since the machine started, as the kernel counts them.
fn made_so_far() -> anyhow::Result<usize> {
    let text = fs::read_to_string("/proc/stat")?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("processes "));
    Ok(line.context("no count of processes")?.trim().parse()?)
}

#[test]
#[ignore = "loads eBPF"]
fn of_the_whole_machine_every_process_that_is_made_is_there_but_the_tracers_own() {
    if missing_right().is_some() {
        return;
    }
    let noise = start(Path::new("/bin/sh")).unwrap();
    let before = made_so_far().unwrap();
    let mut tracer = Tracer::start("attach", ["--all", "--events", "fork,exec,exit"]).unwrap();
    tracer.wait_for(|event| event.is_system("exec")).unwrap();
    let begun = made_so_far().unwrap();
    let mut own = BTreeSet::new();
    for _ in 0..100 {
        let mut child = Command::new("/bin/true").spawn().unwrap();
        own.insert(pid_of(&child));
        child.wait().unwrap();
    }
    let ending = made_so_far().unwrap();
    let tracer_pid = tracer.pid();
    let trace = tracer.stop().unwrap();
    let after = made_so_far().unwrap();
    end([noise]).unwrap();

    assert_eq!(trace.summary().unwrap().all_lost(), 0);
    let events = trace.events().unwrap();
    let of_type = |name: &'static str| events.iter().filter(move |event| event.is_system(name));
    let made = of_type("fork").count() + of_type("thread_create").count();
    let (least, most) = (ending - begun, after - before);
    assert!(
        (least..=most).contains(&made),
        "{made} and not {least} to {most}"
    );
    for name in ["exec", "exit"] {
        let pids: BTreeSet<i32> = of_type(name).map(|event| event.pid).collect();
        assert!(pids.is_superset(&own), "{name}");
    }
    assert!(events.iter().all(|event| event.pid != tracer_pid));
}

#[test]
#[ignore = "loads eBPF"]
fn in_another_pid_namespace_processes_are_shown_by_their_own_pids_as_well() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let said = folder.path().join("said");
    // Each shell says how it sees itself.
    let script = format!(
        "echo $$ >>{0}; /bin/sh -c 'echo $$ >>{0}'; exit 0",
        said.display()
    );
    let unshare = ["unshare", "--pid", "--fork", "/bin/sh", "-c", &script];
    let words = ["--events", "exec,exit", "--"].into_iter().chain(unshare);
    let trace = Tracer::start("run", words)
        .and_then(Tracer::finish)
        .unwrap();
    assert_eq!(trace.status.code(), Some(0), "{}", trace.stderr);

    let said = fs::read_to_string(said).unwrap();
    let events = trace.events().unwrap();
    let inside = |event: &Event, name: &str| {
        let line: serde_json::Value = serde_json::from_str(&event.line).unwrap();
        line.get(name).and_then(serde_json::Value::as_i64)
    };
    let of_shells = events
        .iter()
        .filter(|e| e.is_system("exec") && e.word("comm") == Some("sh"));
    let shells: Vec<_> = of_shells.collect();
    let pids: Vec<i64> = shells
        .iter()
        .map(|e| inside(e, "ns_pid").unwrap())
        .collect();
    let said: Vec<i64> = said.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(pids, said);
    assert_eq!(pids[0], 1);
    for event in shells {
        assert_eq!(inside(event, "ns_tid"), inside(event, "ns_pid"));
        assert_ne!(inside(event, "ns_pid"), Some(event.pid.into()));
    }
    // unshare itself stays in our namespace.
    let outer = events
        .iter()
        .find(|e| e.word("comm") == Some("unshare"))
        .unwrap();
    assert_eq!(inside(outer, "ns_pid"), None);
}
