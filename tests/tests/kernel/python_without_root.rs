//! Frames of Python without root: the user finds the interpreters, and the service records.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use tests::attacker::{VICTIM, command_as};
use tests::python_says::{recorded, said, source};
use tests::rights::missing_right;
use tests::target::Target;
use tests::tracer::{Trace, Tracer};
use tests::wait_until;

use crate::without_root::Scene;

const PYTHON: &str = "/usr/bin/python3";

/// Options for Python frames of calls. The first looks at threads say that the trace has begun.
const STACKS: [&str; 10] = [
    "--format",
    "json",
    "--syscalls",
    "fadvise64",
    "--events",
    "syscall-enter,thread-state,fork,exec",
    "--stack",
    "python",
    "--stack-for",
    "syscall-enter",
];

/// Frames that are recorded of a thread at most.
const MOST: usize = 64;

fn lines(trace: &Trace) -> String {
    let lines: Vec<_> = trace.lines().unwrap().map(Result::unwrap).collect();
    lines.join("\n")
}

fn script(scene: &Scene, name: &str, text: &str) -> PathBuf {
    let path = scene.stage.path().join(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    path
}

fn attach(scene: &Scene, pid: i32) -> Tracer {
    begun(pid, || {
        let mut tool = scene.tool();
        tool.arg("attach");
        tool
    })
}

/// Begins to trace a process, by this command and the options: again where the service, which loads
/// its programs, does not answer in time.
fn begun(pid: i32, command: impl Fn() -> Command) -> Tracer {
    let mut tries = 0..10;
    loop {
        let mut command = command();
        command.args(STACKS).arg("-p").arg(pid.to_string());
        let mut tracer = Tracer::start_command(&mut command).unwrap();
        match tracer.wait_for(|event| event.is_system("thread_state")) {
            Ok(_) => return tracer,
            Err(error) if error.to_string().contains("not in time") && tries.next().is_some() => {}
            Err(error) => panic!("{error:?}"),
        }
    }
}

#[test]
#[ignore = "needs root: loads eBPF"]
fn frames_of_python_are_those_that_it_says_without_root_too() {
    if missing_right().is_some() {
        return;
    }
    let scene = Scene::new();
    let says = script(
        &scene,
        "says.py",
        &fs::read_to_string(source("says.py")).unwrap(),
    );
    let truth = scene.made("truth");
    let mut program = command_as(VICTIM, PYTHON);
    program.arg(&says).arg(&truth).arg("0");
    let (mut target, _) = Target::start(&mut program).unwrap();
    let tracer = attach(&scene, target.pid());
    target.go().unwrap();
    target.wait_until_done().unwrap();
    target.end().unwrap();
    let trace = tracer.finish().unwrap();
    assert_eq!(trace.summary().unwrap().all_lost(), 0);
    let recorded = recorded(&lines(&trace));
    let said = said(&truth).unwrap();
    let mut known = 0;
    for (number, said) in &said {
        let (frames, ends) = &recorded[number];
        if ends == "interpreter" {
            // The interpreter was not found yet.
            assert!(known == 0 && frames.is_empty(), "{number} {frames:?}");
            continue;
        }
        let (most, end) = if said.len() > MOST {
            (MOST, "count")
        } else {
            (said.len(), "beginning")
        };
        assert_eq!(frames, &said[..most], "{number}");
        assert_eq!(ends, end, "{number}");
        known += 1;
    }
    assert!(known > 30, "{known} {}", said.len());
}

/// Script that makes a call for each empty line on its input, and runs the command in another line.
const CALLS: &str = "import os, sys
file = os.open(sys.argv[0], os.O_RDONLY)
def inner(n): os.posix_fadvise(file, n, 1, 0)
def outer(n): inner(n)
print('ready', flush=True)
for n, line in enumerate(sys.stdin):
    outer(n)
    if line.strip(): os.execv(line.split()[0], line.split())
    print('ready', flush=True)
";

fn calling(scene: &Scene) -> Target {
    let calls = script(scene, "calls.py", CALLS);
    let mut program = command_as(VICTIM, PYTHON);
    Target::start(program.arg(calls)).unwrap().0
}

/// Has programs make calls until the last event of each of them that the tracer has printed since
/// it had so many names the functions that made it.
fn wait_for_names(targets: &mut [&mut Target], tracer: &Tracer, since: usize) {
    wait_until("names", Duration::from_secs(60), || {
        for target in &mut *targets {
            target.ask("")?;
        }
        let events = tracer.so_far()?;
        let is_named = |pid| {
            let new = events.iter().skip(since);
            let mut calls =
                new.filter(|event| event.pid == pid && event.is_system("syscall_enter"));
            let last = calls.next_back().map_or("", |event| &event.line);
            last.contains(r#""outer""#) && last.contains(r#""inner""#)
        };
        let are_named = targets.iter().all(|target| is_named(target.pid()));
        Ok(are_named.then_some(()))
    })
    .unwrap();
}

/// Makes sure that no stack has a frame without a name, and none is without frames but where the
/// interpreter was not known yet.
fn assert_named(trace: &Trace) {
    for (number, (frames, ends)) in recorded(&lines(trace)) {
        let is_named = frames.iter().all(|frame| !frame.starts_with("[python]"));
        let is_there = frames.len() == 3 || ends == "interpreter";
        assert!(is_named && is_there, "{number} {ends} {frames:?}");
    }
}

#[test]
#[ignore = "needs root: loads eBPF"]
fn each_of_several_traces_of_one_user_has_the_names_of_its_functions() {
    if missing_right().is_some() {
        return;
    }
    let scene = Scene::new();
    let (mut one, mut other) = (calling(&scene), calling(&scene));
    let first = attach(&scene, one.pid());
    wait_for_names(&mut [&mut one], &first, 0);
    // A later trace of a process whose functions were recorded already, and one of another process
    // with the same functions.
    let second = attach(&scene, one.pid());
    let third = attach(&scene, other.pid());
    wait_for_names(&mut [&mut one], &second, 0);
    wait_for_names(&mut [&mut other], &third, 0);
    for target in [one, other] {
        target.end().unwrap();
    }
    for tracer in [first, second, third] {
        let trace = tracer.finish().unwrap();
        assert_eq!(trace.summary().unwrap().all_lost(), 0);
        assert_named(&trace);
    }
}

#[test]
#[ignore = "needs root: loads eBPF"]
fn frames_of_python_are_there_again_where_the_service_is() {
    if missing_right().is_some() {
        return;
    }
    let mut scene = Scene::new();
    let mut target = calling(&scene);
    let tracer = attach(&scene, target.pid());
    wait_for_names(&mut [&mut target], &tracer, 0);
    scene.service.kill();
    target.ask("").unwrap();
    scene.service.begin();
    let before = tracer.so_far().unwrap().len();
    wait_for_names(&mut [&mut target], &tracer, before);
    target.end().unwrap();
    assert_named(&tracer.finish().unwrap());
}

/// Script of a program with special rights.
const SPECIAL: &str = "import os, sys
file = os.open(sys.argv[0], os.O_RDONLY)
def secret_function():
    for n in range(100): os.posix_fadvise(file, n, 1, 0)
secret_function()
if os.fork() == 0:
    secret_function()
    os._exit(0)
os.wait()
os.write(1, b'as %d\\nready\\n' % os.geteuid())
";

#[test]
#[ignore = "needs root: loads eBPF"]
fn nothing_is_told_of_the_functions_of_a_program_with_special_rights() {
    if missing_right().is_some() {
        return;
    }
    let scene = Scene::new();
    let special = script(&scene, "special.py", SPECIAL);
    let program = scene.stage.path().join("python3-special");
    fs::copy(PYTHON, &program).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).unwrap();
    let mut target = calling(&scene);
    // All that the client is sent, as strace sees it.
    let received = scene.made("received");
    let tracer = begun(target.pid(), || {
        let tool = scene.tool();
        let mut strace = command_as(VICTIM, "strace");
        strace.args(["-f", "-e", "trace=recvfrom,recvmsg,read"]);
        strace.args(["-s", "2000000", "-o"]).arg(&received);
        strace.arg(scene.stage.path().join("dist/bin/tracer-user"));
        strace.arg("attach");
        for (name, value) in tool.get_envs() {
            strace.env(name, value.unwrap_or_default());
        }
        strace
    });
    wait_for_names(&mut [&mut target], &tracer, 0);
    let run = format!("{} {}", program.display(), special.display());
    assert_eq!(target.ask(&run).unwrap(), ["as 0"]);
    target.end().unwrap();
    tracer.finish().unwrap();
    let received = fs::read_to_string(&received).unwrap();
    assert!(received.contains("outer"));
    assert!(!received.contains("secret_function"));
}
