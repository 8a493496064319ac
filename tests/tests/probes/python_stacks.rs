//! Frames of Python, beside what `sys._getframe` and faulthandler say at the same points, in each
//! version that is installed.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use tests::command;
use tests::python_says::{recorded, said, source};
use tests::rights::missing_right;
use tests::target::Target;
use tests::tracer::Tracer;
use tests::{dist, is_whole, tools};

/// Frames that are recorded of a thread at most.
const MOST: usize = 64;

/// The call that the maker of an interpreter makes while another thread runs that: see
/// `says_within.py`. Their numbers begin at 1 << 20.
const BESIDE: i64 = ((1 << 20) + 13) % 1000;

/// Options for Python frames of calls. The first looks at threads say that the trace has begun.
const STACKS: [&str; 6] = [
    "--events",
    "syscall-enter,thread-state",
    "--stack",
    "python",
    "--stack-for",
    "syscall-enter",
];

/// The interpreter of the distribution, which is the same in CI wherever that runs.
const OF_DISTRIBUTION: &str = "/usr/bin/python3";

/// Versions that are compared where nothing is left out: 3.8 is 8.
const VERSIONS: RangeInclusive<u32> = 8..=14;

/// Returns that of the distribution; where nothing is left out, one of each version, which have to
/// be there: those that `TRACER_PYTHONS` lists.
pub fn interpreters() -> Vec<PathBuf> {
    let mut all = vec![PathBuf::from(OF_DISTRIBUTION)];
    if !is_whole() {
        return all;
    }
    let listed = std::env::var_os("TRACER_PYTHONS").unwrap_or_default();
    all.extend(std::env::split_paths(&listed));
    all.sort();
    let minors: Vec<_> = all.iter().map(|one| minor(one).unwrap_or(0)).collect();
    for version in VERSIONS {
        assert!(
            minors.contains(&version),
            "CPython 3.{version} is needed in TRACER_PYTHONS (`cargo xtask test` lists those of \
             pyenv): `pyenv install 3.{version}`"
        );
    }
    let known = all.into_iter().zip(minors);
    let known = known.filter(|(_, minor)| VERSIONS.contains(minor));
    known.map(|(interpreter, _)| interpreter).collect()
}

/// Returns the version of an interpreter: 3.8 is 8.
pub fn minor(interpreter: &Path) -> Option<u32> {
    let mut said = Command::new(interpreter);
    let said = said.args(["-c", "import sys; print(sys.version_info[1])"]);
    command::text(said).ok()?.trim().parse().ok()
}

fn say(interpreter: &Path, truth: &Path, index: usize) -> Target {
    let mut says = Command::new(interpreter);
    says.arg(source("says.py"))
        .arg(truth)
        .arg(index.to_string());
    Target::start(&mut says).unwrap().0
}

/// Lets programs run to their ends while their calls are recorded, of which none is lost. Returns
/// the lines.
fn traced(mut targets: Vec<Target>) -> String {
    let pids = targets.iter().map(|target| target.pid().to_string());
    let options = [&STACKS[..], &["--syscalls", "fadvise64"]].concat();
    let options = options.into_iter().map(str::to_owned).chain(pids);
    let mut tracer = Tracer::start("attach", options).unwrap();
    tracer
        .wait_for(|event| event.is_system("thread_state"))
        .unwrap();
    for target in &mut targets {
        target.go().unwrap();
    }
    for target in targets {
        target.wait_until_done().unwrap();
        target.end().unwrap();
    }
    let trace = tracer.finish().unwrap();
    assert_eq!(trace.summary().unwrap().all_lost(), 0);
    let lines: Vec<_> = trace.lines().unwrap().map(Result::unwrap).collect();
    lines.join("\n")
}

/// Compares what was recorded with what was said.
fn compare(truth: &Path, lines: &str, what: &str) {
    let recorded = recorded(lines);
    let all = said(truth).unwrap();
    assert!(all.len() > 90, "{what}: {}", all.len());
    for (number, said) in all {
        let (frames, ends) = recorded.get(&number).expect(what);
        let (most, end) = if said.len() > MOST {
            (MOST, "count")
        } else {
            (said.len(), "beginning")
        };
        assert_eq!(frames, &said[..most], "{what} {number}");
        assert_eq!(ends, end, "{what} {number}");
    }
}

#[test]
#[ignore = "loads eBPF"]
fn frames_are_those_that_python_says_in_each_version() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let interpreters = interpreters();
    assert!(!interpreters.is_empty());
    let truth = |index: usize| folder.path().join(index.to_string());
    let targets = interpreters.iter().enumerate();
    let targets: Vec<_> = targets
        .map(|(index, interpreter)| say(interpreter, &truth(index), index))
        .collect();
    let lines = traced(targets);
    for (index, interpreter) in interpreters.iter().enumerate() {
        compare(&truth(index), &lines, &interpreter.display().to_string());
    }
}

#[test]
#[ignore = "loads eBPF"]
fn a_program_of_another_name_with_an_interpreter_in_it_has_its_frames() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (truth, program) = (folder.path().join("truth"), folder.path().join("worker"));
    fs::copy(OF_DISTRIBUTION, &program).unwrap();
    let mut says = Command::new(&program);
    says.env("PYTHONHOME", "/usr").arg(source("says.py"));
    let (target, _) = Target::start(says.arg(&truth).arg("0")).unwrap();
    compare(&truth, &traced(vec![target]), "worker");
}

#[test]
#[ignore = "loads eBPF"]
fn frames_of_an_interpreter_within_another_are_its_own_or_said_to_be_unknown() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for (index, interpreter) in interpreters().iter().enumerate() {
        let what = interpreter.display();
        let truth = folder.path().join(index.to_string());
        let mut says = Command::new(interpreter);
        says.arg(source("says_within.py")).arg(&truth).arg("0");
        let (target, _) = Target::start(&mut says).unwrap();
        let recorded = recorded(&traced(vec![target]));
        let said = said(&truth).unwrap();
        assert_eq!(said.len(), 10, "{what}");
        // Before 3.10 nothing says which thread runs an interpreter that another one has made, and
        // since 3.13 not which one is called by the other.
        let minor = minor(interpreter).unwrap();
        let are_known = matches!(minor, 10..=12);
        for (number, said) in said {
            let (frames, ends) = &recorded[&number];
            let is_within = number % 2 == 0;
            let is_beside = minor < 10 && number % 1000 == BESIDE;
            if (is_within || is_beside) && !are_known && ends == "interpreter" {
                assert_eq!(frames, &Vec::<String>::new(), "{what} {number}");
                continue;
            }
            assert_eq!(frames, &said, "{what} {number}");
            assert_eq!(ends, "beginning", "{what} {number}");
        }
    }
}

/// Script that makes calls from its beginning on.
const AT_ONCE: &str = "import os
def early(): os.posix_fadvise(0, 77, 1, 0)
for _ in range(200): early()
";

#[test]
#[ignore = "loads eBPF"]
fn stacks_of_an_interpreter_that_is_new_have_its_frames_or_say_that_they_are_unknown() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("a.py"), AT_ONCE).unwrap();
    let mut unknown = 0;
    for round in 0..10 {
        // A file that was not there before.
        let program = at(&format!("python3-{round}"));
        fs::copy(OF_DISTRIBUTION, &program).unwrap();
        let mut run = Command::new(dist::tracer_user().unwrap());
        run.args(["run", "--format", "json", "--events", "syscall-enter"]);
        run.args(["--stack", "python", "--stack-for", "syscall-enter"]);
        run.arg("-o").arg(at("shown")).arg("--").arg(&program);
        command::text(run.env("PYTHONHOME", "/usr").arg(at("a.py"))).unwrap();
        let lines = fs::read_to_string(at("shown")).unwrap();
        let calls = lines.lines().filter_map(|line| {
            let event: Value = serde_json::from_str(line).ok()?;
            (event["type"] == "linux_trace_syscall_enter").then_some(event)
        });
        let mut has_begun = false;
        for call in calls {
            let frames = call["stack"].as_array().cloned().unwrap_or_default();
            has_begun |= call["data"]["args"][1] == 77 && call["data"]["args"][2] == 1;
            let is_early = call["data"]["args"][1] == 77 && call["data"]["args"][2] == 1;
            if is_early
                && frames
                    .first()
                    .is_none_or(|frame| frame["symbol"] != "early")
            {
                assert_eq!(call["stack_ends"], "interpreter", "{call}");
            }
            unknown += usize::from(call["stack_ends"] == "interpreter");
        }
        assert!(has_begun);
    }
    // Reading the file takes longer than the interpreter's first calls.
    assert!(unknown > 0);
}

#[test]
#[ignore = "loads eBPF"]
fn frames_stand_where_the_interpreter_runs_them_also_in_a_log() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (truth, log) = (folder.path().join("truth"), folder.path().join("log"));
    let mut run = Command::new(dist::tracer_user().unwrap());
    run.args([
        "run",
        "--syscalls",
        "fadvise64",
        "--events",
        "syscall-enter",
    ]);
    run.args([
        "--stack",
        "user,python",
        "--unwind",
        "dwarf,32K",
        "--ring-size",
        "64M",
    ]);
    run.arg("--log").arg(&log).args(["--", "/usr/bin/python3"]);
    run.arg(source("says.py")).arg(&truth).arg("0");
    let (mut target, _) = Target::start(&mut run).unwrap();
    target.go().unwrap();
    target.wait_until_done().unwrap();
    target.end().unwrap();
    let mut read = Command::new(dist::tracer_user().unwrap());
    let lines = command::text(read.args(["read", "--format", "json"]).arg(&log)).unwrap();
    let calls = lines.lines().filter_map(|line| {
        let event: Value = serde_json::from_str(line).ok()?;
        (event["type"] == "linux_trace_syscall_enter").then_some(event)
    });
    let truth = said(&truth).unwrap();
    let mut inside = 0;
    for call in calls {
        let number = call["data"]["args"][1].as_i64().unwrap();
        let Some(said) = truth.get(&number).filter(|said| said.len() < MOST) else {
            continue;
        };
        let frames = call["stack"].as_array().unwrap();
        let names: Vec<_> = frames
            .iter()
            .map(|frame| frame["symbol"].as_str().unwrap_or_default())
            .collect();
        let of_python = frames.iter().filter(|frame| frame["module"] == "[python]");
        assert_eq!(of_python.count(), said.len(), "{names:?}");
        assert!(!names.contains(&"_PyEval_EvalFrameDefault"), "{names:?}");
        // The C library's function is called by the innermost one.
        assert!(names[0].contains("fadvise"), "{names:?}");
        let mark = names.iter().position(|name| *name == "mark").unwrap();
        assert!(mark > 0 && mark < 6, "{names:?}");
        // Between functions of Python are those of C that called them.
        let last = frames
            .iter()
            .rposition(|frame| frame["module"] == "[python]");
        inside += usize::from(last.unwrap() - mark + 1 > said.len());
        assert_ne!(frames.last().unwrap()["module"], "[python]", "{names:?}");
    }
    assert!(inside > 3, "{inside}");
}

/// Script that waits in a function of Python that a function of C has called, which another one of
/// Python calls.
const CALLED_BACK: &str = "import ctypes, sys, time
libc = ctypes.CDLL(None)
Compare = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
def compare(one, other):
    time.sleep(0.3)
    return 0
def outer():
    libc.qsort((ctypes.c_int * 2)(), 2, 4, Compare(compare))
class Animal:
    def speak(self):
        outer()
print('ready', flush=True)
while True:
    Animal().speak()
";

fn last_part(path: &str, by: char) -> &str {
    path.rsplit(by).next().unwrap()
}

/// Returns the frames that `py-spy` shows: the function of Python with its line, or the file of one
/// of C, with its address where that is shown.
fn frames_of_py_spy(dump: &str) -> Vec<(String, Option<u64>)> {
    let lines = dump.lines().filter_map(|line| line.strip_prefix("    "));
    let frames = lines.map(|line| {
        let (name, place) = line.strip_suffix(')').unwrap().rsplit_once(" (").unwrap();
        if place.contains(':') {
            return (line.to_owned(), None);
        }
        let address = name.strip_prefix("0x");
        let address = address.map(|digits| u64::from_str_radix(digits, 16).unwrap());
        (place.to_owned(), address)
    });
    frames.collect()
}

/// Returns the frames of a stack, without the interpreter's own functions, as those of `py-spy`.
fn frames_beside_py_spy(call: &Value) -> Vec<(String, u64)> {
    let frames = call["stack"].as_array().unwrap().iter();
    let frames = frames.map(|frame| {
        let word = |name: &str| frame[name].as_str().unwrap_or_default();
        let what = if word("module") == "[python]" {
            let (name, file) = (last_part(word("symbol"), '.'), last_part(word("file"), '/'));
            format!("{name} ({file}:{})", frame["line"])
        } else {
            last_part(word("module"), '/').to_owned()
        };
        (what, frame["ip"].as_u64().unwrap())
    });
    let frames = frames.filter(|(what, _)| !what.starts_with("python3"));
    frames.collect()
}

#[test]
#[ignore = "loads eBPF"]
fn functions_of_c_and_of_python_are_among_each_other_as_py_spy_shows_them() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("a.py");
    fs::write(&script, CALLED_BACK).unwrap();
    let mut program = Command::new(OF_DISTRIBUTION);
    let (target, _) = Target::start(program.arg(&script)).unwrap();
    let dump = tests::wait_until("it waits", Duration::from_secs(30), || {
        let dump = tools::py_spy(target.pid())?;
        Ok(dump.contains("    clock_nanosleep").then_some(dump))
    });
    let theirs = frames_of_py_spy(&dump.unwrap());
    let mut tool = Command::new(dist::tracer_user().unwrap());
    tool.args(["attach", "--format", "json", "--duration", "2s", "--events"]);
    tool.args(["syscall-enter", "--syscalls", "clock_nanosleep", "--stack"]);
    tool.args(["user,python", "--unwind", "dwarf,32K", "-p"]);
    let lines = command::text(tool.arg(target.pid().to_string())).unwrap();
    let calls = lines.lines().filter_map(|line| {
        let event: Value = serde_json::from_str(line).ok()?;
        (event["type"] == "linux_trace_syscall_enter").then_some(event)
    });
    let mut count = 0;
    for call in calls {
        let ours = frames_beside_py_spy(&call);
        // They leave out what comes before the program's own first function.
        assert!(ours.len() >= theirs.len(), "{theirs:?} {ours:?}");
        for ((what, address), (our_what, our_address)) in theirs.iter().zip(&ours) {
            let is_there = address.is_none_or(|address| address == *our_address);
            assert!(what == our_what && is_there, "{theirs:?} {ours:?}");
        }
        count += 1;
    }
    assert!(count > 2 && theirs.len() > 12, "{count} {theirs:?}");
}

#[test]
#[ignore = "loads eBPF"]
fn a_program_that_lies_about_its_interpreter_is_traced_to_its_end() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("python3-hostile");
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-rdynamic", "-o"]).arg(&program);
    command::text(compiler.arg(source("hostile.c"))).unwrap();
    let (mut target, _) = Target::start(&mut Command::new(&program)).unwrap();
    let options = [&STACKS[..], &["--syscalls", "dup2"]].concat();
    let mut tracer = Tracer::attach(target.pid(), &options).unwrap();
    tracer
        .wait_for(|event| event.is_system("thread_state"))
        .unwrap();
    target.go().unwrap();
    let calls = target.wait_until_done().unwrap();
    target.end().unwrap();
    let trace = tracer.finish().unwrap();
    assert_eq!(trace.summary().unwrap().all_lost(), 0);
    let lines: Vec<_> = trace.lines().unwrap().map(Result::unwrap).collect();
    let stacks = recorded(&lines.join("\n"));
    // Two frames that call each other are as many as are recorded.
    let whole = (vec!["evil (evil:7)".to_owned(); MOST], "count".to_owned());
    assert_eq!(stacks[&600], whole);
    assert_eq!(stacks[&602], whole);
    let tried = lines.iter().filter(|line| line.contains("[0,601]")).count();
    let said = tests::target::values_after(&calls, "calls").unwrap();
    assert!(tried as u64 >= said[0][0], "{tried} {said:?}");
}
