//! Moves between control groups, compared with those that the test makes and with those that the
//! kernel's own tracer reports.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Command;

use anyhow::Context as _;
use tests::cgroup::Cgroup;
use tests::dist;
use tests::event::Event;
use tests::ftrace::Ftrace;
use tests::mount::{self, Mount};
use tests::rights::missing_right;
use tests::target::{Target, values_after};
use tests::tracer::Tracer;

/// Moves the process or thread with this id, through the file `procs` or `threads` of the group.
fn put(group: &Path, what: &str, id: i64) -> anyhow::Result<()> {
    let file = group.join(format!("cgroup.{what}"));
    fs::write(&file, id.to_string()).with_context(|| file.display().to_string())
}

/// Starts a program that waits, and has a second thread. Returns it, its pid and that thread's tid.
fn start(folder: &Path) -> anyhow::Result<(Target, i64, i64)> {
    let program = dist::compile("wakers", folder)?;
    let (target, said) = Target::start(Command::new(program).arg("1"))?;
    let thread = values_after(&said, "sleeper").context("a thread")?[0][0];
    let pid = target.pid().into();
    Ok((target, pid, i64::try_from(thread)?))
}

/// Traces the processes that `options` choose, of which `pid` is one, during `work`; returns the
/// moves.
fn moves(
    options: &[&str],
    pid: i64,
    work: impl FnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<Vec<Event>> {
    let events = ["--events", "cgroup,switch"];
    let mut tracer = Tracer::start("attach", options.iter().chain(&events))?;
    tracer.wait_for(|event| event.is_system("switch_in") && i64::from(event.pid) == pid)?;
    work()?;
    let trace = tracer.stop()?;
    assert_eq!(trace.summary()?.all_lost(), 0);
    let mut events = trace.events()?;
    events.retain(|event| event.is_system("cgroup_attach"));
    Ok(events)
}

/// Traces this process alone during `work`, as [`moves`] does; returns the moves.
fn traced(pid: i64, work: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<Vec<Event>> {
    moves(&[&pid.to_string()], pid, work)
}

/// Returns the kernel's name of the group of a process: its path in the hierarchy, as `/proc` shows
/// it.
fn name_by_the_kernel(pid: i64) -> anyhow::Result<String> {
    let groups = fs::read_to_string(format!("/proc/{pid}/cgroup"))?;
    let name = groups.lines().find_map(|line| line.strip_prefix("0::"));
    Ok(name.context("no group of version 2")?.to_owned())
}

#[test]
#[ignore = "loads eBPF"]
fn each_move_of_a_traced_process_says_what_moved_and_where_it_is_now() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let ((target, pid, _), (other, stranger, _)) =
        (start(folder.path()).unwrap(), start(folder.path()).unwrap());
    let (outer, elsewhere) = (Cgroup::new().unwrap(), Cgroup::new().unwrap());
    let long = "long-".repeat(40);
    let [inner, deep] = ["inner", &long].map(|name| outer.child(name).unwrap());
    let deepest = deep.child(&long).unwrap();
    let order = [&outer, &inner, &elsewhere, &deep, &deepest, &outer];
    let mut names = Vec::new();
    let events = traced(pid, || {
        for group in order {
            put(group.path(), "procs", stranger)?;
            put(group.path(), "procs", pid)?;
            names.push(name_by_the_kernel(pid)?);
        }
        Ok(())
    });
    let events = events.unwrap();
    drop((target, other));

    assert_eq!(events.len(), order.len(), "{events:?}");
    for ((event, group), name) in events.iter().zip(order).zip(&names) {
        let line = &event.line;
        let inode = fs::metadata(group.path()).unwrap().ino().cast_signed();
        assert_eq!(
            (i64::from(event.pid), i64::from(event.tid)),
            (pid, pid),
            "{line}"
        );
        assert_eq!(event.integer("target_pid"), Some(pid), "{line}");
        assert_eq!(event.integer("target_tid"), Some(pid), "{line}");
        assert_eq!(event.word("target_comm"), Some("wakers"), "{line}");
        assert_eq!(event.integer("id"), Some(inode), "{line}");
        assert_eq!(event.integer("version"), Some(2), "{line}");
        assert_eq!(event.integer("whole_process"), Some(1), "{line}");
        let depth = i64::try_from(name.matches('/').count()).unwrap();
        assert_eq!(event.integer("level"), Some(depth), "{line}");
        // 256 bytes are recorded, of which the last is a null.
        assert_eq!(
            event.word("path"),
            name.get(..name.len().min(255)),
            "{line}"
        );
        let is_truncated = line.contains("\"truncated\":true");
        assert_eq!(is_truncated, name.len() > 255, "{line}");
    }
    assert!(names.iter().any(|name| name.len() > 255));
}

#[test]
#[ignore = "loads eBPF"]
fn a_thread_that_is_moved_alone_is_distinguished_from_its_process() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (target, pid, thread) = start(folder.path()).unwrap();
    let group = Cgroup::new().unwrap();
    let threads = group.child("threads").unwrap();
    fs::write(threads.path().join("cgroup.type"), "threaded").unwrap();
    let events = traced(pid, || {
        put(group.path(), "procs", pid)?;
        put(threads.path(), "threads", thread)
    });
    let events = events.unwrap();
    drop(target);

    let shown: Vec<_> = events
        .iter()
        .map(|event| {
            let of = ["target_pid", "target_tid", "whole_process", "level"];
            (
                event.pid,
                event.tid,
                of.map(|name| event.integer(name).unwrap()),
            )
        })
        .collect();
    let [process, tid] = [pid, thread].map(|id| i32::try_from(id).unwrap());
    let level = shown[0].2[3];
    assert_eq!(
        shown,
        [
            (process, process, [pid, pid, 1, level]),
            (process, tid, [pid, thread, 0, level + 1]),
        ]
    );
}

#[test]
#[ignore = "loads eBPF"]
fn a_group_of_an_old_hierarchy_is_distinguished_from_one_of_version_2() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (target, pid, _) = start(folder.path()).unwrap();
    let name = format!("none,name=tracer-{}", std::process::id());
    let old = Mount::new("cgroup", &name).unwrap();
    let group = old.path().join("group");
    fs::create_dir(&group).unwrap();
    let new = Cgroup::new().unwrap();
    let events = traced(pid, || {
        put(&group, "procs", pid)?;
        put(new.path(), "procs", pid)?;
        put(old.path(), "procs", pid)
    });
    let events = events.unwrap();
    fs::remove_dir(&group).unwrap();
    drop(target);

    let shown = |event: &Event| {
        (
            event.integer("version").unwrap(),
            event.integer("level").unwrap(),
        )
    };
    let shown: Vec<_> = events.iter().map(shown).collect();
    let level = shown[1].1;
    assert_eq!(shown, [(1, 1), (2, level), (1, 0)]);
    assert_eq!(events[0].word("path"), Some("/group"));
    assert_eq!(events[2].word("path"), Some("/"));
}

#[test]
#[ignore = "loads eBPF"]
fn a_process_is_shown_to_come_into_a_chosen_group_and_to_leave_it() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let ((inside, stays, _), (target, pid, _)) =
        (start(folder.path()).unwrap(), start(folder.path()).unwrap());
    let [chosen, elsewhere, other] = [(); 3].map(|()| Cgroup::new().unwrap());
    put(chosen.path(), "procs", stays).unwrap();
    let name = chosen.path().file_name().unwrap().to_str().unwrap();
    let events = moves(&["--cgroup", name], stays, || {
        for group in [&other, &chosen, &elsewhere, &other] {
            put(group.path(), "procs", pid)?;
        }
        Ok(())
    });
    let events = events.unwrap();
    drop((inside, target));

    let shown: Vec<_> = events
        .iter()
        .map(|event| event.integer("id").unwrap())
        .collect();
    let inode = |group: &Cgroup| fs::metadata(group.path()).unwrap().ino().cast_signed();
    assert_eq!(shown, [inode(&chosen), inode(&elsewhere)]);
    assert!(events.iter().all(|event| i64::from(event.pid) == pid));
}

#[test]
#[ignore = "loads eBPF"]
fn a_process_that_was_chosen_by_its_name_is_traced_whatever_its_group() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (target, pid, _) = start(folder.path()).unwrap();
    let groups = [Cgroup::new().unwrap(), Cgroup::new().unwrap()];
    let events = moves(&["--comm", "wakers"], pid, || {
        for group in [&groups[0], &groups[1], &groups[0]] {
            put(group.path(), "procs", pid)?;
        }
        Ok(())
    });
    let events = events.unwrap();
    drop(target);

    assert_eq!(events.len(), 3, "{events:?}");
}

#[test]
#[ignore = "loads eBPF"]
fn the_kernels_own_tracer_says_the_same_of_each_move() {
    const ROUNDS: usize = 20;
    if missing_right().is_some() {
        return;
    }
    let _tracefs = mount::tracefs().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (target, pid, _) = start(folder.path()).unwrap();
    let filter = format!("pid == {pid}");
    let ftrace = Ftrace::start("cgroups", &[("cgroup/cgroup_attach_task", &filter)]).unwrap();
    let groups = [Cgroup::new().unwrap(), Cgroup::new().unwrap()];
    let inner = groups[1].child("inner").unwrap();
    let events = traced(pid, || {
        for _ in 0..ROUNDS {
            for group in [&groups[0], &groups[1], &inner] {
                put(group.path(), "procs", pid)?;
            }
        }
        Ok(())
    });
    let (events, noted) = (events.unwrap(), ftrace.noted().unwrap());
    drop(target);

    assert_eq!(noted.len(), 3 * ROUNDS);
    assert_eq!(events.len(), noted.len());
    for (event, noted) in events.iter().zip(&noted) {
        let said = |key: &str| noted.value(key).map(str::to_owned);
        let shown = |name: &str| event.integer(name).map(|value| value.to_string());
        assert_eq!(shown("id"), said("dst_id="), "{noted:?}\n{}", event.line);
        assert_eq!(
            shown("level"),
            said("dst_level="),
            "{noted:?}\n{}",
            event.line
        );
        assert_eq!(
            shown("target_tid"),
            said("pid="),
            "{noted:?}\n{}",
            event.line
        );
        let path = event.word("path").map(str::to_owned);
        assert_eq!(path, said("dst_path="), "{noted:?}\n{}", event.line);
        let comm = event.word("target_comm").map(str::to_owned);
        assert_eq!(comm, said("comm="), "{noted:?}\n{}", event.line);
    }
}

#[test]
#[ignore = "loads eBPF"]
fn processes_that_end_as_soon_as_they_are_in_a_chosen_group_have_their_names() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = dist::compile("born_in_group", folder.path()).unwrap();
    let group = Cgroup::new().unwrap();
    // A process that is in the group already shows that the trace has begun.
    let (target, pid, _) = start(folder.path()).unwrap();
    put(group.path(), "procs", pid).unwrap();
    let name = group.path().file_name().unwrap().to_str().unwrap();
    let options = ["--cgroup", name, "--events", "exit,switch"];
    let mut tracer = Tracer::start("attach", options).unwrap();
    let is_there = |event: &Event| i64::from(event.pid) == pid;
    tracer.wait_for(is_there).unwrap();

    let mut work = Command::new(program);
    let said = tests::command::text(work.arg(group.path()).args(["25", "25"])).unwrap();
    let events = tracer.stop().unwrap().events().unwrap();
    drop(target);

    assert_eq!(said.lines().count(), 50, "{said}");
    for line in said.lines() {
        let (pid, name) = line.split_once(' ').unwrap();
        let pid: i32 = pid.parse().unwrap();
        let mut exits = events.iter().filter(|event| event.pid == pid);
        let exit = exits.find(|event| event.is_system("exit")).unwrap();
        let shown: serde_json::Value = serde_json::from_str(&exit.line).unwrap();
        assert_eq!(shown["comm"], name, "{}", exit.line);
    }
}

/// Python that leaves the traced group, sleeps and works outside of it, and comes back, again and
/// again on one CPU. It writes down how much of the CPU it has had.
const COMES_BACK: &str = "
import os, sys, time
inside, outside, begin, said = sys.argv[1:]
os.sched_setaffinity(0, {0})
def go(group):
    with open(group + '/cgroup.procs', 'w') as file:
        file.write(str(os.getpid()))
def work(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass
go(inside)
while not os.path.exists(begin):
    time.sleep(0.01)
for _ in range(100):
    go(outside)
    time.sleep(0.01)
    work(0.001)
    go(inside)
    work(0.0005)
    time.sleep(0.001)
go(outside)
with open(said, 'w') as file:
    file.write(str(time.thread_time_ns()))
";

#[test]
#[ignore = "loads eBPF"]
fn a_thread_that_was_outside_of_its_group_has_not_run_while_it_slept_there() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let [begin, said] = ["begin", "said"].map(|name| folder.path().join(name));
    let (inside, outside) = (Cgroup::new().unwrap(), Cgroup::new().unwrap());
    let mut program = Command::new("python3")
        .args(["-c", COMES_BACK])
        .args([inside.path(), outside.path(), &begin, &said])
        .spawn()
        .unwrap();
    let group = inside.path().to_str().unwrap();
    let mut tracer = Tracer::start("attach", ["--cgroup", group, "--events", "switch"]).unwrap();
    let pid = program.id().cast_signed();
    let is_there = |event: &Event| event.is_system("switch_in") && event.pid == pid;
    tracer.wait_for(is_there).unwrap();
    fs::write(&begin, "").unwrap();
    assert!(program.wait().unwrap().success());
    let trace = tracer.stop().unwrap();
    let summary = trace.summary().unwrap();
    assert_eq!(summary.all_lost(), 0, "{}", trace.stderr);
    let events = trace.events().unwrap();
    let ran = events.iter().filter_map(|event| event.integer("ran_ns"));
    let (count, ran): (i64, i64) = ran.fold((0, 0), |(count, sum), one| (count + 1, sum + one));
    // The kernel's own account has what it did outside, too.
    let by_the_kernel: i64 = fs::read_to_string(said).unwrap().parse().unwrap();
    assert!(count >= 100, "{count}");
    assert!(
        ran <= by_the_kernel,
        "{count} times, {ran} of {by_the_kernel} ns"
    );
}
