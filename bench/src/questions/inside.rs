//! Time of the tracer's eBPF programs while they record system calls, as the kernel counts it: the
//! cost that a stack and a text add to a call.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context as _, ensure};

use super::super::contest::{Contest, Goal, Run};
use super::super::outcome::{Measure, Unit};
use super::super::programs;
use super::super::spread::Spread;
use super::super::tools::program_time::{Counted, ProgramTimes};
use super::super::tools::{as_float, attach_with};
use super::super::workbench::Workbench;
use xtask::{interpreters, workspace};

/// Greatest cost of a stack that reaches the goal.
const MOST_OF_A_STACK_NS: f64 = 1500.0;

/// Greatest cost of a stack of [`PYTHON_FUNCTIONS`] functions of Python that reaches the goal.
const MOST_OF_A_PYTHON_STACK_NS: f64 = 3000.0;

/// Functions of Python in each stack.
const PYTHON_FUNCTIONS: u32 = 20;

/// Versions of CPython that are known, and their names here: 3.8 is 8.
const PYTHONS: [(u32, &str); 7] = [
    (8, "CPython 3.8"),
    (9, "CPython 3.9"),
    (10, "CPython 3.10"),
    (11, "CPython 3.11"),
    (12, "CPython 3.12"),
    (13, "CPython 3.13"),
    (14, "CPython 3.14"),
];

/// The distribution's own interpreter.
const OF_DISTRIBUTION: &str = "/usr/bin/python3";

/// Greatest cost of a text read at the start of a call that reaches the goal.
const MOST_OF_A_TEXT_NS: f64 = 150.0;

/// Rounds of calls that one program makes.
const TIMES: usize = 5;

const USER: &str = "user, 5 functions deep";
const KERNEL: &str = "kernel";
const BOTH: &str = "user and kernel, 5 deep";
const UNWOUND: &str = "user, unwound in 2 KiB";
const UNWOUND_MORE: &str = "user, unwound in 8 KiB";

/// Compares the costs of stacks.
pub fn stacks(bench: &Workbench) -> anyhow::Result<Contest<'_>> {
    let mut contest = Contest::new(
        "How much longer do our programs run for a system call whose stack is recorded, by the kernel's own \
         count of their time? getppid() with frame pointers; the first has no stack.",
        Unit::Ns,
    )
    .showing(Measure::Added);
    let calls = bench.work(20_000);
    let getppid = |depth, options: &'static [&'static str]| {
        move || inside(&Work::Getppid(depth), calls, options)
    };
    contest.peer("without a stack", getppid(5, &[]));
    contest.ours(USER, getppid(5, &["--stack", "user"]));
    contest.ours("user, 20 deep", getppid(20, &["--stack", "user"]));
    contest.ours(KERNEL, getppid(5, &["--stack", "kernel"]));
    contest.ours(BOTH, getppid(5, &["--stack", "user,kernel"]));
    // Each brings its piece of the stack along: so many fit the ring, even while another thread
    // delays its reader.
    let few = bench.work(1_000);
    let unwound =
        |options: &'static [&'static str]| move || inside(&Work::Getppid(5), few, options);
    contest.ours(
        UNWOUND,
        unwound(&["--stack", "user", "--unwind", "dwarf,2K"]),
    );
    contest.ours(
        UNWOUND_MORE,
        unwound(&["--stack", "user", "--unwind", "dwarf,8K"]),
    );
    contest.goal(UNWOUND, Goal::Below(MOST_OF_A_STACK_NS));
    contest.goal(UNWOUND_MORE, Goal::Below(MOST_OF_A_STACK_NS));
    contest.goal(USER, Goal::Below(MOST_OF_A_STACK_NS));
    contest.goal(KERNEL, Goal::Below(MOST_OF_A_STACK_NS));
    contest.goal(BOTH, Goal::Below(2.0 * MOST_OF_A_STACK_NS));
    Ok(contest)
}

/// Compares the costs of stacks of Python.
pub fn python_stacks(bench: &Workbench) -> anyhow::Result<Contest<'_>> {
    let mut contest = Contest::new(
        "How much longer do our programs run for a system call with a stack of 20 functions of Python, by the \
         kernel's own count of their time? getppid(); the first has no stack.",
        Unit::Ns,
    )
    .showing(Measure::Added);
    // All of them with their frames fit the ring, even while another thread delays its reader.
    let calls = bench.work(10_000);
    let own = PathBuf::from(OF_DISTRIBUTION);
    let of_stack: &[&str] = &["--stack", "python"];
    let getppid = |interpreter: PathBuf, options: &'static [&'static str]| {
        move || inside(&Work::Python(interpreter.clone()), calls, options)
    };
    contest.peer("without a stack", getppid(own.clone(), &[]));
    let all = std::iter::once(own).chain(interpreters::at_hand());
    let all: Vec<_> = all
        .map(|interpreter| (interpreters::minor(&interpreter), interpreter))
        .collect();
    for (minor, name) in PYTHONS {
        let Some((_, found)) = all.iter().find(|(of, _)| *of == Some(minor)) else {
            contest.missing(format!("{name}: none is at hand"));
            continue;
        };
        contest.ours(name, getppid(found.clone(), of_stack));
        contest.goal(name, Goal::Below(MOST_OF_A_PYTHON_STACK_NS));
    }
    Ok(contest)
}

/// Compares the costs of texts.
pub fn texts(bench: &Workbench) -> anyhow::Result<Contest<'_>> {
    let mut contest = Contest::new(
        "How much longer do our programs run for an openat() whose path of 30 bytes is read, by the kernel's own \
         count of their time? The first reads none.",
        Unit::Ns,
    )
    .showing(Measure::Added);
    let calls = bench.work(20_000);
    let open = |options: &'static [&'static str]| move || inside(&Work::Open, calls, options);
    contest.peer("no text", open(&["--string-size", "0"]));
    contest.ours("a path", open(&["--string-size", "32"]));
    contest.goal("a path", Goal::Below(MOST_OF_A_TEXT_NS));
    Ok(contest)
}

/// Work of the traced program.
enum Work {
    /// `getppid()`, at this depth of nested functions.
    Getppid(u32),
    /// `getppid()`, by this interpreter, at the depth of [`PYTHON_FUNCTIONS`].
    Python(PathBuf),
    /// `openat()` of a file that does not exist.
    Open,
}

/// Program that makes its calls on request. Killed when dropped.
struct Calls {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Calls {
    fn start(work: &Work, calls: u64) -> anyhow::Result<Self> {
        let (depth, what) = match work {
            Work::Getppid(depth) => (*depth, "getppid"),
            Work::Python(_) => (PYTHON_FUNCTIONS, "getppid"),
            Work::Open => (1, "open"),
        };
        let arguments = [depth.to_string(), calls.to_string(), what.to_owned()];
        let mut command = match work {
            Work::Python(interpreter) => {
                let mut command = Command::new(interpreter);
                command.arg(workspace::root().join("bench/programs/calls.py"));
                command
            }
            Work::Getppid(_) | Work::Open => programs::command("calls", &[]),
        };
        let mut child = command
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start calls")?;
        let input = child.stdin.take().context("no input")?;
        let output = BufReader::new(child.stdout.take().context("no output")?);
        let mut calls = Self {
            child,
            input,
            output,
        };
        calls.wait_for("ready")?;
        Ok(calls)
    }

    fn wait_for(&mut self, word: &str) -> anyhow::Result<()> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        ensure!(line.trim_end() == word, "calls says {line:?}");
        Ok(())
    }

    fn make(&mut self) -> anyhow::Result<()> {
        self.input.write_all(b"\n")?;
        self.wait_for("done")
    }
}

impl Drop for Calls {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Measures how many nanoseconds the eBPF programs run for each call of a program that is traced
/// with these options: the median of several rounds.
fn inside(work: &Work, calls: u64, options: &[&str]) -> anyhow::Result<Run> {
    let times = ProgramTimes::counted()?;
    let mut program = Calls::start(work, calls)?;
    let call = match work {
        Work::Getppid(_) | Work::Python(_) => "getppid",
        Work::Open => "openat",
    };
    let all = [
        &[
            "--events",
            "syscall",
            "--syscalls",
            call,
            "--ring-size",
            "64M",
        ],
        options,
    ]
    .concat();
    let attached = attach_with(program.child.id(), &all)?;
    let programs = times.programs_of(attached.pid())?;
    let mut each = Vec::new();
    for _ in 0..TIMES {
        let before: Counted = times.read(&programs)?;
        program.make()?;
        let after = times.read(&programs)?;
        ensure!(
            after.runs - before.runs >= 2 * calls,
            "our programs have run {} times for {calls} calls",
            after.runs - before.runs
        );
        each.push(as_float(after.ns - before.ns) / as_float(calls));
    }
    drop(program);
    let said = attached.stop()?.err;
    ensure!(!said.contains("kernel_ring_full"), "{said}");
    let middle = Spread::compute(each).context("no times")?.median;
    Ok(Run::new(middle))
}
