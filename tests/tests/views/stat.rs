//! `tracer-user stat` beside what the kernel counts of each thread.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tests::bpftrace::Counted as CountedByOthers;
use tests::rights::missing_right;
use tests::target::{Target, values_after};
use tests::{dist, mount, terminal};

/// Counters of a thread in the kernel (`/proc/thread-self/schedstat`): times in nanoseconds.
struct Counted {
    ran: u64,
    waited: u64,
    slices: u64,
}

/// Runs the program under the tracer: what its threads say, and the statistics of the log.
fn traced(threads: &str) -> (HashMap<u64, Counted>, Value) {
    traced_with(threads, &["--syscalls", "fchdir"])
}

/// Runs the program under the tracer with these options: what its threads say, and the statistics
/// of the log.
fn traced_with(threads: &str, options: &[&str]) -> (HashMap<u64, Counted>, Value) {
    let folder = tempfile::tempdir().unwrap();
    let program = dist::compile("schedstat", folder.path()).unwrap();
    let log = folder.path().join("log");
    let mut run = Command::new(dist::tracer_user().unwrap());
    run.arg("run").args(options).arg("--log").arg(&log);
    let output = run.arg("--").arg(program).arg(threads).output().unwrap();
    assert_ne!(output.status.code(), Some(2), "{output:?}");

    let said = String::from_utf8(output.stdout).unwrap();
    let counted = said.lines().map(|line| {
        let values: Vec<u64> = line.split(' ').map(|word| word.parse().unwrap()).collect();
        let [tid, ran, waited, slices] = values[..] else {
            panic!("{line}");
        };
        let counted = Counted {
            ran,
            waited,
            slices,
        };
        (tid, counted)
    });
    (counted.collect(), stat_of(&log))
}

/// The statistics of a log.
fn stat_of(log: &Path) -> Value {
    let mut stat = Command::new(dist::tracer_user().unwrap());
    let stat = stat.args(["stat", "--format", "json"]).arg(log).output();
    serde_json::from_slice(&stat.unwrap().stdout).unwrap()
}

/// Runs a program that talks by `handshake.h` under the tracer: what it said, and the statistics of
/// the log.
fn talked(program: &str, argument: &str, events: &str) -> (Vec<String>, Value) {
    let folder = tempfile::tempdir().unwrap();
    let program = dist::compile(program, folder.path()).unwrap();
    let log = folder.path().join("log");
    let mut run = Command::new(dist::tracer_user().unwrap());
    run.args(["run", "--events", events, "--log"]).arg(&log);
    let (mut target, mut said) = Target::start(run.arg("--").arg(program).arg(argument)).unwrap();
    target.go().unwrap();
    said.extend(target.wait_until_done().unwrap());
    assert!(target.end().unwrap().success());
    let stat = stat_of(&log);
    assert_eq!(stat["lost"], 0, "{stat}");
    (said, stat)
}

/// The rows of a list of the statistics of which a key has this value.
fn rows<'a>(stat: &'a Value, list: &str, key: &str, value: &str) -> Vec<&'a Value> {
    let all = stat[list].as_array().unwrap().iter();
    all.filter(|row| row[key] == value).collect()
}

#[test]
#[ignore = "needs root"]
fn times_of_threads_are_those_that_the_kernel_counts() {
    if missing_right().is_some() {
        return;
    }
    let before = taken_off();
    let (counted, stat) = traced("4");
    let taken = taken_off() - before;

    assert_eq!(counted.len(), 4);
    assert_eq!(stat["lost"], 0, "{stat}");
    assert_eq!(
        (&stat["has_switches"], &stat["has_wakeups"]),
        (&true.into(), &true.into())
    );
    for (tid, counted) in counted {
        let threads = stat["threads"].as_array().unwrap();
        let thread = threads.iter().find(|thread| thread["tid"] == tid).unwrap();
        let ns = |name: &str| thread[name].as_u64().unwrap();
        // What it ran from the kernel's count to its end is in the milliseconds.
        let (least, most) = near(counted.ran, taken);
        let ran = ns("running_ns");
        assert!(
            ran <= most && ran + ns("unknown_ns") >= least,
            "{}: {thread}",
            counted.ran
        );
        // From there to its end it may wait once more.
        let waited = ns("runnable_ns");
        let is_near = waited.abs_diff(counted.waited) < counted.waited / 10 + 20_000_000;
        assert!(is_near, "{}: {thread}", counted.waited);
        // Each wait ends with a CPU; between the question and its end it may have waited again.
        let waits = thread["waits"]["count"].as_u64().unwrap();
        // In a virtual machine the kernel does not report each switch.
        let not_reported = stat["not_reported"].as_u64().unwrap();
        assert!(not_reported < 20, "{stat}");
        let more = (waits + not_reported).checked_sub(counted.slices).unwrap();
        assert!(more <= 20 + not_reported, "{waits} of {}", counted.slices);
        assert_eq!(ns("stopped_ns"), 0, "{thread}");
        assert!(ns("unknown_ns") == 0 || not_reported > 0, "{thread}");
        // It slept 30 times a millisecond at least.
        assert!(ns("blocked_ns") >= 30_000_000, "{thread}");
        let parts = ["running_ns", "runnable_ns", "blocked_ns"].map(ns);
        assert!(parts.iter().sum::<u64>() <= stat["span_ns"].as_u64().unwrap());
    }
}

#[test]
#[ignore = "needs root"]
fn an_execveat_that_is_recorded_alone_has_its_return() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = dist::compile("exec_by_thread", folder.path()).unwrap();
    let log = folder.path().join("log");
    let mut run = Command::new(dist::tracer_user().unwrap());
    run.args(["run", "--syscalls", "execveat", "--log"]);
    let output = run.arg(&log).arg("--").arg(program).output().unwrap();
    assert!(output.status.success(), "{output:?}");

    let stat = stat_of(&log);
    let [call] = rows(&stat, "syscalls", "name", "execveat")[..] else {
        panic!("{stat}");
    };
    assert_eq!(
        (&call["count"], &call["took"]["count"]),
        (&1.into(), &1.into())
    );
}

#[test]
#[ignore = "needs root"]
fn a_thread_that_goes_on_as_its_process_is_followed_through_its_exec() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = dist::compile("exec_by_thread", folder.path()).unwrap();
    let log = folder.path().join("log");
    let mut run = Command::new(dist::tracer_user().unwrap());
    run.args(["run", "--syscalls", "execve,execveat", "--log"]);
    let output = run.arg(&log).arg("--").arg(program).output().unwrap();
    assert!(output.status.success(), "{output:?}");

    let stat = stat_of(&log);
    assert_eq!(stat["lost"], 0, "{stat}");
    let of_call = |name: &str| {
        let [call] = rows(&stat, "syscalls", "name", name)[..] else {
            panic!("{stat}");
        };
        (call["count"].as_u64(), call["took"]["count"].as_u64())
    };
    // That of the tracer, and that of the thread.
    assert_eq!(of_call("execve").0, Some(1));
    assert_eq!(of_call("execveat"), (Some(1), Some(1)));

    let mut why = Command::new(dist::tracer_user().unwrap());
    why.args(["why", "--whole", "--format", "json"]).arg(&log);
    let why: Value = serde_json::from_slice(&why.output().unwrap().stdout).unwrap();
    let of_process = &why["slowest"][0];
    // The thread slept for 5 ms, and the program that it ran for 50.
    let ns = of_process["ns"].as_u64().unwrap();
    assert!(ns >= 55_000_000, "{why}");
    let slept = of_process["parts"].as_array().unwrap().iter();
    let slept = slept.filter(|part| part["in"] == "clock_nanosleep");
    let slept: u64 = slept.map(|part| part["ns"].as_u64().unwrap()).sum();
    assert!(slept >= 55_000_000, "{why}");
    assert_eq!(of_process["begun_by"]["tid"], of_process["pid"], "{why}");
}

#[test]
#[ignore = "needs root"]
fn processes_that_have_one_pid_one_after_the_other_are_told_apart() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = dist::compile("reused_pid", folder.path()).unwrap();
    let log = folder.path().join("log");
    let mut run = Command::new(dist::tracer_user().unwrap());
    let output = run.args(["run", "--log"]).arg(&log).arg("--").arg(program);
    let output = output.output().unwrap();
    assert!(output.status.success(), "{output:?}");

    let stat = stat_of(&log);
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(said.lines().count(), 3, "{said}");
    for line in said.lines() {
        let [name, pid, least, most] = line.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{line}");
        };
        let [thread] = rows(&stat, "threads", "comm", name)[..] else {
            panic!("{line}: {stat}");
        };
        assert_eq!(thread["pid"].to_string(), pid);
        let ns = thread["running_ns"].as_u64().unwrap();
        let [least, most] = [least, most].map(|ns| ns.parse::<u64>().unwrap());
        // Beside what the kernel takes off, and its end.
        let near = least - least / 10 - 5_000_000..most + 5_000_000;
        assert!(near.contains(&ns), "{line}: {thread}");
    }
    let mut top = Command::new(dist::tracer_user().unwrap());
    top.args(["top", "--once", "--window", "all"]).arg(&log);
    let text = String::from_utf8(top.output().unwrap().stdout).unwrap();
    for name in ["first", "second", "third"] {
        assert!(text.contains(name), "{text}");
    }
}

#[test]
#[ignore = "needs root"]
fn moments_are_those_at_which_read_shows_what_happened() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = dist::compile("schedstat", folder.path()).unwrap();
    let log = folder.path().join("log");
    let mut run = Command::new(dist::tracer_user().unwrap());
    run.args(["run", "--log"]).arg(&log).arg("--");
    assert_ne!(
        run.arg(program).arg("2").output().unwrap().status.code(),
        Some(2)
    );

    let stat = stat_of(&log);
    let mut compared = 0;
    for thread in stat["threads"].as_array().unwrap() {
        let Some(at) = thread["waits"]["max_at_ns"].as_u64() else {
            continue;
        };
        let mut read = Command::new(dist::tracer_user().unwrap());
        let moment = format!("{}.{:09}s", at / 1_000_000_000, at % 1_000_000_000);
        read.args(["read", "--from", &moment, "--until", &moment]);
        let shown = read.arg(&log).output().unwrap();
        let shown = String::from_utf8(shown.stdout).unwrap();
        let tid = thread["tid"].to_string();
        let is_it = |line: &str| line.contains("switch-in") && line.contains(&tid);
        assert!(shown.lines().any(is_it), "{thread}: {shown}");
        compared += 1;
    }
    assert!(compared > 2, "{stat}");
}

/// Difference between a count of the kernel and one of the statistics, in nanoseconds, beside one
/// in a hundred: each switch takes some hundred nanoseconds, which only one of them counts.
const SLACK: u64 = 1_000_000;

/// Returns the least and the most time that a thread has run of which the kernel counted `counted`,
/// while it took `taken` off.
fn near(counted: u64, taken: u64) -> (u64, u64) {
    let least = (counted - counted / 100).saturating_sub(SLACK);
    (least, counted + counted / 100 + SLACK + taken)
}

/// Returns the time that the kernel takes off the times of threads, so far: what the host took,
/// and, where the kernel counts them separately, interrupts.
fn taken_off() -> u64 {
    let stat = fs::read_to_string("/proc/stat").unwrap();
    let counts = stat.lines().next().unwrap().split_whitespace().skip(1);
    let counts: Vec<u64> = counts.map(|ticks| ticks.parse().unwrap()).collect();
    // In hundredths of a second: interrupts, soft interrupts, stolen.
    counts[5..8].iter().sum::<u64>() * 10_000_000
}

/// Returns how long each thread has run so far, and waited for a CPU, in nanoseconds.
fn ran_so_far() -> HashMap<u64, [u64; 2]> {
    let mut ran = HashMap::new();
    let tasks = fs::read_dir("/proc").unwrap().flatten();
    let tasks = tasks.filter_map(|process| fs::read_dir(process.path().join("task")).ok());
    for task in tasks.flat_map(|tasks| tasks.flatten()) {
        let tid = task.file_name().to_str().and_then(|tid| tid.parse().ok());
        let counted = fs::read_to_string(task.path().join("schedstat")).ok();
        let counted = counted.and_then(|text| {
            let mut words = text.split(' ').map_while(|word| word.parse().ok());
            Some([words.next()?, words.next()?])
        });
        if let (Some(tid), Some(counted)) = (tid, counted) {
            ran.insert(tid, counted);
        }
    }
    ran
}

/// Time that is longer than between two ticks: the kernel's count of a running thread is that old
/// at most.
const TICK: Duration = Duration::from_millis(50);

/// Returns how long a thread has run from one look to another, and waited for a CPU; `None` where
/// it was not there at both, or its id is another thread's.
fn between(
    before: &HashMap<u64, [u64; 2]>,
    after: &HashMap<u64, [u64; 2]>,
    tid: u64,
) -> Option<(u64, u64)> {
    let ([ran, waited], [ran_before, waited_before]) = (after.get(&tid)?, before.get(&tid)?);
    Some((
        ran.checked_sub(*ran_before)?,
        waited.checked_sub(*waited_before)?,
    ))
}

#[test]
#[ignore = "needs root"]
fn each_thread_of_the_machine_runs_as_long_as_the_kernel_counts() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let (before, taken) = (ran_so_far(), taken_off());
    let mut attach = Command::new(dist::tracer_user().unwrap());
    attach.args(["attach", "--all", "--events", "switch,wakeup", "--duration"]);
    attach.args(["5s", "--ring-size", "16M", "--log"]).arg(&log);
    let mut attach = attach.stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(attach.stderr.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    assert!(line.contains("tracing every process"), "{line}");
    std::thread::sleep(TICK);
    let first = ran_so_far();
    std::thread::sleep(Duration::from_secs(3));
    let last = ran_so_far();
    said.read_to_string(&mut line).unwrap();
    assert_ne!(attach.wait().unwrap().code(), Some(2), "{line}");
    std::thread::sleep(TICK);
    let (after, taken) = (ran_so_far(), taken_off() - taken);
    let stat = stat_of(&log);
    let span = stat["span_ns"].as_u64().unwrap();

    let mut compared = 0;
    for thread in stat["threads"].as_array().unwrap() {
        let tid = thread["tid"].as_u64().unwrap();
        let ns = |name: &str| thread[name].as_u64().unwrap();
        let (ran, unknown) = (ns("running_ns"), ns("unknown_ns"));
        assert!(ran <= span, "{span}: {thread}");
        // From before the trace to after it, and within it.
        let (Some((longer, _)), Some((shorter, waited))) =
            (between(&before, &after, tid), between(&first, &last, tid))
        else {
            continue;
        };
        let (_, most) = near(longer, taken);
        let (least, _) = near(shorter, 0);
        // A thread that is woken for its CPU runs for the kernel from that moment: it does not read
        // its clock again at the switch.
        let woken = thread["wakeups"]["total_ns"].as_u64().unwrap();
        assert!(
            ran <= most && ran + unknown + woken >= least,
            "{shorter} to {longer}: {thread}"
        );
        let (least, _) = near(shorter + waited, 0);
        assert!(
            ran + unknown + ns("runnable_ns") + ns("throttled_ns") >= least,
            "{shorter} and {waited}: {thread}"
        );
        compared += 1;
    }
    assert!(compared > 10, "{stat}");
    for cpu in stat["cpus"].as_array().unwrap() {
        assert!(cpu["used_ns"].as_u64().unwrap() <= span, "{cpu} of {span}");
    }
}

#[test]
#[ignore = "needs root"]
fn system_calls_are_as_many_as_were_made_with_their_errors() {
    if missing_right().is_some() {
        return;
    }
    let (_, stat) = traced("3");

    let calls = stat["syscalls"].as_array().unwrap();
    let [call] = &calls[..] else {
        panic!("{stat}");
    };
    assert_eq!(call["name"], "fchdir");
    assert_eq!(
        (&call["count"], &call["errors"]),
        (&300.into(), &300.into())
    );
    assert_eq!(call["took"]["count"], 300);
}

#[test]
#[ignore = "needs root"]
fn what_was_not_recorded_is_said_to_be_unknown() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let mut run = Command::new(dist::tracer_user().unwrap());
    run.args(["run", "--events", "exec,exit", "--log"]);
    let output = run.arg(&log).args(["--", "true"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");

    let mut stat = Command::new(dist::tracer_user().unwrap());
    let output = stat.arg("stat").arg(&log).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("no switches were recorded"), "{text}");
}

#[test]
#[ignore = "needs root"]
fn where_events_were_lost_nothing_is_claimed_that_the_kernel_did_not_count() {
    if missing_right().is_some() {
        return;
    }
    let (counted, stat) = traced_with("4", &["--syscalls", "all", "--ring-size", "4K"]);

    assert!(stat["lost"].as_u64().unwrap() > 0, "{stat}");
    let threads = stat["threads"].as_array().unwrap();
    for thread in threads {
        let Some(counted) = thread["tid"].as_u64().and_then(|tid| counted.get(&tid)) else {
            continue;
        };
        let ns = |name: &str| thread[name].as_u64().unwrap();
        assert!(
            ns("running_ns") <= counted.ran + counted.ran / 10 + 20_000_000,
            "{thread}"
        );
        assert!(ns("runnable_ns") <= counted.waited + 20_000_000, "{thread}");
        assert!(ns("unknown_ns") > 0, "{thread}");
    }
}

#[test]
#[ignore = "needs root"]
fn what_gave_way_at_the_beginning_of_a_log_leaves_no_gap_in_the_rest() {
    if missing_right().is_some() {
        return;
    }
    let options = ["--syscalls", "all", "--log-size", "128K"];
    let (counted, stat) = traced_with("64", &options);

    assert_eq!(stat["lost"], 0, "{stat}");
    let threads = stat["threads"].as_array().unwrap();
    let waited = |thread: &Value| thread["runnable_ns"].as_u64().unwrap();
    assert!(threads.iter().any(|thread| waited(thread) > 0), "{stat}");
    // It is the end of the trace alone.
    let longest = counted.values().map(|one| one.ran + one.waited).max();
    assert!(stat["span_ns"].as_u64() < longest, "{stat}");
}

#[test]
#[ignore = "needs root"]
fn calls_and_errors_are_those_that_strace_counts_in_the_same_run() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = dist::compile("schedstat", folder.path()).unwrap();
    let counts = folder.path().join("counts");
    // Its pid stays, and by then it is traced.
    let untraced = tests::timeout(Duration::from_secs(2)).as_secs();
    let waits = format!("sleep {untraced}; exec {} 3", program.display());
    let mut strace = Command::new("strace");
    strace
        .args(["-f", "-c", "-w", "-S", "name", "-o"])
        .arg(&counts);
    let mut strace = strace
        .args(["--", "sh", "-c", &waits])
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let children = format!("/proc/{0}/task/{0}/children", strace.id());
    let traced = tests::wait_until("a child", Duration::from_secs(10), || {
        let children = std::fs::read_to_string(&children).unwrap_or_default();
        // It has tried what it can do on children of its own before.
        let is_shell = |pid: &&str| {
            let comm = std::fs::read_to_string(format!("/proc/{pid}/comm"));
            comm.is_ok_and(|comm| comm == "sh\n")
        };
        Ok(children
            .split_whitespace()
            .find(is_shell)
            .map(str::to_owned))
    });
    let traced = traced.unwrap();
    let mut stat = Command::new(dist::tracer_user().unwrap());
    let stat = stat.args([
        "stat",
        "--format",
        "json",
        "--syscalls",
        "all",
        "-p",
        &traced,
    ]);
    let stat: Value = serde_json::from_slice(&stat.output().unwrap().stdout).unwrap();
    assert!(strace.wait().unwrap().success());

    assert_eq!(stat["lost"], 0, "{stat}");
    let counts = std::fs::read_to_string(counts).unwrap();
    // Calls that only the program makes, and not the shell before it was traced.
    for name in ["fchdir", "clock_nanosleep", "clone3", "sched_setaffinity"] {
        let line = counts
            .lines()
            .find(|line| line.split_whitespace().last() == Some(name));
        let words: Vec<&str> = line.unwrap().split_whitespace().collect();
        // Share, seconds, microseconds a call, calls, and errors if there are any.
        let theirs: u64 = words[3].parse().unwrap();
        let errors: u64 = words[4].parse().unwrap_or(0);
        let calls = stat["syscalls"].as_array().unwrap();
        let ours = calls.iter().find(|call| call["name"] == name).unwrap();
        // The shell's own `sleep` began before.
        let began_before = u64::from(name == "clock_nanosleep");
        let count = ours["count"].as_u64().unwrap();
        assert!(
            count <= theirs && theirs <= count + began_before,
            "{name}: {ours}, {line:?}"
        );
        assert_eq!(ours["errors"], errors, "{name}: {ours}, {line:?}");
    }
}

#[test]
#[ignore = "needs root"]
fn page_faults_are_as_many_as_the_kernel_counted() {
    const PAGES: u64 = 5000;
    if missing_right().is_some() {
        return;
    }
    let (said, stat) = talked("faults", &PAGES.to_string(), "fault");

    let [row] = rows(&stat, "faults", "comm", "faults")[..] else {
        panic!("{stat}");
    };
    let of = |key: &str| row[key].as_u64().unwrap();
    assert_eq!(of("count"), of("user") + of("kernel"));
    // Half of them are the program's and half the kernel's, all by writes. It also starts, and the
    // kernel does a fault twice when another CPU changes the tables meanwhile.
    let start = PAGES..PAGES + PAGES / 10;
    assert!(start.contains(&of("user")), "{row}");
    assert!(start.contains(&of("kernel")), "{row}");
    assert!(of("write") >= 2 * PAGES, "{row}");
    let counted = values_after(&said, "faults").unwrap()[0][0];
    let more = of("count").checked_sub(counted);
    assert!(more.is_some_and(|more| more < 400), "{counted}: {row}");
}

#[test]
#[ignore = "needs root"]
fn signals_are_as_many_as_the_handlers_of_the_program_counted() {
    if missing_right().is_some() {
        return;
    }
    let (said, stat) = talked("signals", "200", "signal,exec,exit");

    let of_program = rows(&stat, "signals", "comm", "signals");
    let pid = &of_program[0]["pid"];
    let got = values_after(&said, "got").unwrap();
    assert_eq!(got.len(), 5);
    for pair in got {
        let (signal, got) = (pair[0], pair[1]);
        let row = of_program.iter().find(|row| row["signal"] == signal);
        let row = row.unwrap();
        assert_eq!(row["pid"], *pid);
        let is_ignored = u64::from(row["name"] == "SIGWINCH");
        let of = |what: &str, key: &str| row[what][key].as_u64().unwrap();
        assert_eq!(of("sent", "ignored"), is_ignored, "{row}");
        assert_eq!((of("taken", "count"), of("taken", "handled")), (got, got));
        let not_taken = of("sent", "ignored") + of("sent", "pending");
        assert_eq!(of("sent", "count"), got + not_taken, "{row}");
    }
}

/// Reads the rows of `/proc/softirqs`, or those of `/proc/interrupts` that are devices', by CPU and
/// name.
fn kernel_counts(text: &str) -> BTreeMap<(u64, String), u64> {
    let mut lines = text.lines();
    let cpus: Vec<u64> = lines
        .next()
        .unwrap()
        .split_whitespace()
        .map(|cpu| cpu.trim_start_matches("CPU").parse().unwrap())
        .collect();
    let mut counts = BTreeMap::new();
    for (name, row) in lines.filter_map(|line| line.split_once(':')) {
        for (cpu, count) in cpus.iter().zip(row.split_whitespace()) {
            if let Ok(count) = count.parse() {
                counts.insert((*cpu, name.trim().to_owned()), count);
            }
        }
    }
    counts
}

#[test]
#[ignore = "needs root"]
fn interrupts_of_each_cpu_are_as_many_as_the_kernel_counted_and_as_long_as_bpftrace_measured() {
    /// Number of interrupts that may be missing: now and then one passes no tracepoint, nor does
    /// what follows it.
    const FEW: u64 = 8;
    if missing_right().is_some() {
        return;
    }
    let _tracefs = mount::tracefs().unwrap();
    // On a disk.
    let folder = tempfile::tempdir_in(".").unwrap();
    let at = |name: &str| folder.path().join(name);
    let work = "#!/bin/sh
        cd $(dirname $0)
        cat /proc/softirqs /proc/interrupts > begun
        for round in $(seq 40); do
            dd if=/dev/zero of=file bs=4k count=1 conv=fsync 2> /dev/null
            sleep 0.02
        done
        cat /proc/softirqs /proc/interrupts > ending\n";
    let window = at("window");
    fs::write(&window, work).unwrap();
    fs::set_permissions(&window, fs::Permissions::from_mode(0o755)).unwrap();
    let script = "
        tracepoint:sched:sched_process_exec /comm == \"window\"/ { @on = 1; }
        tracepoint:sched:sched_process_exit /comm == \"window\"/ { @on = 0; }
        tracepoint:irq:softirq_entry /@on/ { @since[cpu] = nsecs; }
        tracepoint:irq:softirq_exit /@since[cpu]/ {
            @count = count();
            @took = sum(nsecs - @since[cpu]);
            delete(@since[cpu]);
        }
        END { clear(@since); }";
    let bpftrace = CountedByOthers::others(script).unwrap();
    let now = || {
        let [soft, devices] = ["/proc/softirqs", "/proc/interrupts"];
        fs::read_to_string(soft).unwrap() + &fs::read_to_string(devices).unwrap()
    };
    let before = now();
    let mut run = Command::new(dist::tracer_user().unwrap());
    run.args(["run", "--events", "irq,softirq", "--log"]);
    let run = run.arg(at("log")).arg("--").arg(&window).status().unwrap();
    assert!(run.success());
    let after = now();
    let measured = bpftrace.end().unwrap();
    let stat = stat_of(&at("log"));

    let seen = |kind: &str| {
        let mut seen: BTreeMap<(u64, String), u64> = BTreeMap::new();
        for row in rows(&stat, "interrupts", "kind", kind) {
            let name = match kind {
                "irq" => row["id"].to_string(),
                _ => row["name"].as_str().unwrap().to_owned(),
            };
            let cpu = row["cpu"].as_u64().unwrap();
            let count = row["count"].as_u64().unwrap();
            let ended = row["took"]["count"].as_u64().unwrap();
            // One may be under way at the end, and one that did not end by what the tracer saw.
            assert!(ended <= count && count - ended <= 2, "{row}");
            *seen.entry((cpu, name)).or_default() += count;
        }
        seen
    };
    let begun = fs::read_to_string(at("begun")).unwrap();
    let ending = fs::read_to_string(at("ending")).unwrap();
    let sides = [before, begun, ending, after];
    for (kind, part) in [("softirq", 0), ("irq", 1)] {
        let [before, begun, ending, after] = sides.each_ref().map(|text| {
            // The first line of each file is that of its CPUs.
            let second = text.rfind("   CPU0").unwrap();
            let start = text[..second].rfind('\n').map_or(0, |end| end + 1);
            let (soft, devices) = text.split_at(start);
            kernel_counts([soft, devices][part])
        });
        let seen = seen(kind);
        assert!(seen.values().sum::<u64>() > 40, "{stat}");
        for (key, count) in &after {
            if kind == "irq" && key.1.parse::<u32>().is_err() {
                continue;
            }
            let least = (ending[key] - begun[key]).saturating_sub(FEW);
            let most = count - before[key];
            let seen = seen.get(key).copied().unwrap_or(0);
            assert!(
                (least..=most).contains(&seen),
                "{key:?}: {seen} and not {least} to {most}"
            );
        }
    }

    let soft = rows(&stat, "interrupts", "kind", "softirq");
    let sum = |key: &str| -> u64 {
        let values = soft
            .iter()
            .map(|row| row["took"][key].as_u64().unwrap_or(0));
        values.sum()
    };
    let [count, took] = ["count", "took"].map(|name| u64::try_from(measured[name]).unwrap());
    let (own_count, own_took) = (sum("count"), sum("total_ns"));
    let both = format!("{own_took} ns in {own_count}, {took} ns in {count} by bpftrace");
    assert!(own_count.abs_diff(count) <= FEW + count / 10, "{both}");
    assert!(own_took.abs_diff(took) <= took / 4, "{both}");
}

#[test]
#[ignore = "needs root"]
fn a_live_trace_of_all_has_interrupts_and_of_a_command_what_is_named_too() {
    if missing_right().is_some() {
        return;
    }
    let live = |options: &[&str]| {
        let mut stat = Command::new(dist::tracer_user().unwrap());
        let stat = stat.args(["stat", "--format", "json"]).args(options);
        let output = stat.output().unwrap();
        // The command has the standard output.
        let shown = [output.stdout, output.stderr].concat();
        let shown = String::from_utf8(shown).unwrap();
        let start = shown.find('{').unwrap();
        let mut objects = serde_json::Deserializer::from_str(&shown[start..]).into_iter();
        let stat: Value = objects.next().unwrap().unwrap();
        stat
    };
    let of_all = live(&["--all", "--duration", "1s"]);
    assert!(!rows(&of_all, "interrupts", "kind", "softirq").is_empty());
    assert_eq!(of_all["faults"], serde_json::json!([]));
    let of_command = live(&["--add-events", "fault", "--", "sh", "-c", "kill -TERM $$"]);
    assert_eq!(of_command["interrupts"], serde_json::json!([]));
    let faults = rows(&of_command, "faults", "comm", "sh");
    assert!(faults[0]["user"].as_u64() > Some(10), "{of_command}");
    let term = rows(&of_command, "signals", "name", "SIGTERM");
    assert_eq!(term[0]["sent"]["count"], 1, "{of_command}");
    // What ends a process is taken as the kernel's SIGKILL to all its threads.
    let kill = rows(&of_command, "signals", "name", "SIGKILL");
    let taken = [term, kill].concat();
    let taken = taken.iter().map(|row| row["taken"]["default"].as_u64());
    assert_eq!(taken.sum::<Option<u64>>(), Some(1), "{of_command}");
}

/// The statistics of a log as text, with these options.
fn tables(log: &Path, options: &[&str]) -> std::process::Output {
    let mut stat = Command::new(dist::tracer_user().unwrap());
    stat.arg("stat").args(options).arg(log).output().unwrap()
}

#[test]
#[ignore = "needs root"]
fn of_many_processes_each_name_has_a_row_and_parts_of_the_time_add_up() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let script =
        "echo $$; n=0; while [ $n -lt 45 ]; do /bin/true; n=$((n+1)); done; exec sleep 0.1";
    let mut run = Command::new(dist::tracer_user().unwrap());
    run.arg("run").arg("--log").arg(&log);
    let output = run.args(["--", "sh", "-c", script]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    // The shell's own words: its pid, and how often it starts the other program.
    let shell = String::from_utf8(output.stdout).unwrap().trim().to_owned();

    let all = stat_of(&log);
    assert_eq!(
        rows(&all, "by_comm", "comm", "true")[0]["processes"],
        45,
        "{all}"
    );
    let text = String::from_utf8(tables(&log, &[]).stdout).unwrap();
    assert!(
        text.lines().any(|line| line.starts_with("true (45) ")),
        "{text}"
    );
    let by_thread = String::from_utf8(tables(&log, &["--by", "thread"]).stdout).unwrap();
    assert!(!by_thread.contains("true (45)"), "{by_thread}");

    // The one that is the longest blocked waits for the others, or sleeps.
    let blocked = ["--by", "process", "--sort", "blocked"];
    let blocked = String::from_utf8(tables(&log, &blocked).stdout).unwrap();
    let mut lines = blocked
        .lines()
        .skip_while(|line| !line.starts_with("process "));
    let first = lines.nth(1).unwrap();
    assert!(first.starts_with(&format!("sleep {shell} ")), "{blocked}");

    // One process alone, before a moment and after it.
    let json = |options: &[&str]| {
        let options = [&["--format", "json", "--pid", &shell], options].concat();
        serde_json::from_slice::<Value>(&tables(&log, &options).stdout).unwrap()
    };
    let whole = json(&[]);
    let threads = whole["threads"].as_array().unwrap();
    assert_eq!(threads.len(), 1, "{whole}");
    let read = Command::new(dist::tracer_user().unwrap())
        .args(["read", "--limit", "1"])
        .arg(&log)
        .output()
        .unwrap();
    let read = String::from_utf8(read.stdout).unwrap();
    let line = read.lines().find(|line| !line.starts_with('#')).unwrap();
    let first: f64 = line.split_whitespace().next().unwrap().parse().unwrap();
    let middle = format!("{:.6}s", first + 0.03);
    let (before, after) = (json(&["--until", &middle]), json(&["--from", &middle]));
    for state in ["running_ns", "runnable_ns", "blocked_ns"] {
        let of = |stat: &Value| stat["threads"][0][state].as_u64().unwrap();
        assert_eq!(of(&before) + of(&after), of(&whole), "{state}");
        assert!(of(&before) < of(&whole), "{state}");
    }
    let spans = [&before, &after, &whole].map(|stat| stat["span_ns"].as_u64().unwrap());
    assert_eq!(spans[0] + spans[1], spans[2]);

    // Nothing is no answer.
    let none = tables(&log, &["--until", "0"]);
    assert_eq!(none.status.code(), Some(2), "{none:?}");
    let none = tables(&log, &["--pid", "1"]);
    assert_eq!(none.status.code(), Some(2), "{none:?}");
}

#[test]
#[ignore = "needs root"]
fn requests_to_a_disk_are_as_many_bytes_as_the_kernel_counts_for_the_process() {
    if missing_right().is_some() {
        return;
    }
    // The folder for temporary files need not be on a disk.
    let folder = tempfile::tempdir_in(".").unwrap();
    let file = folder.path().join("file");
    fs::write(&file, vec![0x5a_u8; 32 * 64 * 1024]).unwrap();
    fs::File::open(&file).unwrap().sync_all().unwrap();
    let program = dist::compile("direct", folder.path()).unwrap();
    let log = folder.path().join("log");
    let mut run = Command::new(dist::tracer_user().unwrap());
    run.args(["run", "--events", "block,switch", "--log"])
        .arg(&log);
    let command = run.arg("--").arg(program).arg(&file).arg("32");
    let (mut target, mut said) = Target::start(command).unwrap();
    target.go().unwrap();
    said.extend(target.wait_until_done().unwrap());
    assert!(target.end().unwrap().success());

    let counted = values_after(&said, "read").unwrap()[0][0];
    let stat = stat_of(&log);
    let reads = rows(&stat, "requests", "operation", "read");
    let sum = |key: &str| -> u64 { reads.iter().map(|row| row[key].as_u64().unwrap()).sum() };
    assert_eq!(sum("bytes"), counted, "{stat}");
    let lost = stat["not_reported"].as_u64().unwrap();
    let took: u64 = reads
        .iter()
        .map(|row| row["took"]["count"].as_u64().unwrap())
        .sum();
    assert!(took + lost >= sum("count") && took > 0, "{stat}");
    let text = String::from_utf8(tables(&log, &[]).stdout).unwrap();
    assert!(text.contains("requests to a device "), "{text}");
}

#[test]
#[ignore = "needs root"]
fn faults_that_wait_for_a_device_are_the_major_ones_that_the_kernel_counts() {
    const PAGES: usize = 40;
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir_in(".").unwrap();
    let file = folder.path().join("file");
    fs::write(&file, vec![0x5a_u8; PAGES * 64 * 4096]).unwrap();
    fs::File::open(&file).unwrap().sync_all().unwrap();
    let program = dist::compile("majors", folder.path()).unwrap();
    let log = folder.path().join("log");
    let mut run = Command::new(dist::tracer_user().unwrap());
    run.args(["run", "--events", "fault,switch,wakeup", "--log"])
        .arg(&log);
    let command = run
        .arg("--")
        .arg(&program)
        .arg(&file)
        .arg(PAGES.to_string());
    let (mut target, mut said) = Target::start(command).unwrap();
    target.go().unwrap();
    said.extend(target.wait_until_done().unwrap());
    assert!(target.end().unwrap().success());

    let major = values_after(&said, "major").unwrap()[0][0];
    let slept = values_after(&said, "slept").unwrap()[0][0];
    assert!(major >= PAGES as u64 / 2, "not from a disk: {said:?}");
    assert!(slept > 0, "the disk is too fast for this test: {said:?}");
    let stat = stat_of(&log);
    let waited = rows(&stat, "faults", "comm", "majors")[0]["from_device"]
        .as_u64()
        .unwrap();
    // Those of its beginning are not among the ones that it counts; some need not wait, as others
    // have asked for the page, or the device is done first.
    let lost = stat["not_reported"].as_u64().unwrap();
    assert!(
        waited + lost + 2 >= slept && waited <= major + 2,
        "{waited} {slept} {major}"
    );
}

#[test]
fn on_a_terminal_the_statistics_of_a_command_fit_with_the_closing_lines() {
    if missing_right().is_some() {
        return;
    }
    for (columns, rows) in [(80, 24), (100, 50)] {
        let mut stat = Command::new(dist::tracer_user().unwrap());
        stat.args(["stat", "--by", "process", "--syscalls", "all", "--"]);
        stat.args(["sh", "-c", "for i in $(seq 50); do /bin/true; done"]);
        let shown = terminal::written_to(stat, (columns, rows)).unwrap();
        assert!(
            terminal::rows_of(&shown, columns) < usize::from(rows),
            "{shown}"
        );
        let of_answer = |start| shown.lines().any(|line| line.starts_with(start));
        assert!(of_answer("truncated: "), "{shown}");
        assert!(of_answer("tracer-user: 0 lost"), "{shown}");
        // To run the program again would not show the rest of this run.
        assert!(shown.contains("; a pipe or a file gets all"), "{shown}");
        assert!(!shown.contains("| less"), "{shown}");
    }
}

#[test]
fn counts_hold_to_their_budget_and_fit_a_terminal() {
    if missing_right().is_some() {
        return;
    }
    let counting = |options: &[&str]| {
        let mut stat = Command::new(dist::tracer_user().unwrap());
        stat.args(["stat", "--count", "--by", "process"])
            .args(options);
        stat.args(["--", "sh", "-c", "for i in $(seq 20); do /bin/true; done"]);
        stat
    };
    let said = counting(&["--budget", "1000"]).output().unwrap().stderr;
    let text = String::from_utf8(said).unwrap();
    let counts = text
        .lines()
        .filter(|line| !line.starts_with("tracer-user: "));
    let bytes: usize = counts.map(|line| line.len() + 1).sum();
    assert!(bytes <= 1000, "{bytes}: {text}");
    assert!(text.contains("\ntruncated: "), "{text}");
    let json = counting(&["--budget", "1000", "--format", "json"]).output();
    let counts: Value = serde_json::from_slice(&json.unwrap().stderr).unwrap();
    assert!(counts["truncated"]["left_out"].is_object(), "{counts}");
    let shown = terminal::written_to(counting(&[]), (80, 24)).unwrap();
    assert!(terminal::rows_of(&shown, 80) < 24, "{shown}");
    // To run the program again would not show the rest of this run.
    assert!(shown.contains("; a pipe or a file gets all"), "{shown}");
    assert!(!shown.contains("| less"), "{shown}");
}
