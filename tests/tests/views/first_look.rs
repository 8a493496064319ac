//! The first look at a program that never moves: beside what the kernel says
//! of it in `/proc`, and what strace shows.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::process::{Command, Output};
use std::time::Duration;

use serde_json::Value;
use tests::dist;
use tests::processes::Killed;
use tests::rights::missing_right;
use tests::target::Target;

/// The deadlock, once none of its threads moves any more.
fn stuck() -> Target {
    let folder = tempfile::tempdir().unwrap();
    let program = dist::compile("stuck", folder.path()).unwrap();
    let (target, _) = Target::start(&mut Command::new(program)).unwrap();
    tests::wait_until("the deadlock", Duration::from_secs(60), || {
        let calls = calls(target.pid());
        let is_stuck = calls.len() == 3 && calls.values().all(|line| !line.contains("running"));
        let futexes = calls
            .values()
            .filter(|line| line.starts_with("202 ") || line.starts_with("98 "));
        Ok((is_stuck && futexes.count() == 2).then_some(()))
    })
    .unwrap();
    target
}

/// The system call of each thread, as `/proc` says.
fn calls(pid: i32) -> BTreeMap<i64, String> {
    let mut calls = BTreeMap::new();
    for entry in std::fs::read_dir(format!("/proc/{pid}/task")).unwrap() {
        let entry = entry.unwrap();
        let tid = entry.file_name().to_str().unwrap().parse().unwrap();
        let line = std::fs::read_to_string(entry.path().join("syscall")).unwrap_or_default();
        calls.insert(tid, line);
    }
    calls
}

fn tracer(pid: i32, subcommand: &str, options: &[&str]) -> Output {
    let mut command = Command::new(dist::tracer_user().unwrap());
    command
        .arg(subcommand)
        .args(options)
        .args(["-p", &pid.to_string()]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    output
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// The looks among lines of JSON, by thread.
fn looks(lines: &str) -> BTreeMap<i64, Value> {
    let mut looks = BTreeMap::new();
    for line in lines.lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        if event["type"] == "linux_trace_thread_state" {
            let tid = event["tid"].as_i64().unwrap();
            assert!(looks.insert(tid, event).is_none(), "{line}");
        }
    }
    looks
}

const SECOND: [&str; 3] = ["--no-user", "--duration", "1s"];

#[test]
#[ignore = "loads eBPF"]
fn each_thread_is_shown_in_the_call_that_the_kernel_says() {
    if missing_right().is_some() {
        return;
    }
    let target = stuck();
    let options = [&SECOND[..], &["--syscalls", "all", "--format", "json"]].concat();
    let looks = looks(&text(&tracer(target.pid(), "attach", &options)));
    let calls = calls(target.pid());
    assert_eq!(
        looks.keys().collect::<Vec<_>>(),
        calls.keys().collect::<Vec<_>>()
    );
    for (tid, look) in &looks {
        let data = &look["data"];
        assert_eq!(
            (&data["state"], &data["kernel_state"]),
            (&"blocked".into(), &"S".into())
        );
        let words: Vec<&str> = calls[tid].split_ascii_whitespace().collect();
        assert_eq!(data["number"].to_string(), words[0], "{look}");
        let hex = |word: &str| u64::from_str_radix(&word[2..], 16).unwrap();
        let args = data["args"].as_array().unwrap();
        assert!(args.len() >= 3, "{look}");
        for (arg, word) in args.iter().zip(&words[1..7]) {
            assert_eq!(arg.as_u64().unwrap(), hex(word), "{look}");
        }
        assert_eq!(
            look["prog_address"].as_u64().unwrap(),
            hex(words[8]),
            "{look}"
        );
    }
}

/// The calls that strace shows of a process that it attaches to, as far as their arguments go.
fn straced(pid: i32) -> Vec<String> {
    let mut strace = Command::new("timeout");
    strace.args(["--signal=INT", "1", "strace", "-f", "-p", &pid.to_string()]);
    let said = String::from_utf8(strace.output().unwrap().stderr).unwrap();
    let calls = said.lines().filter_map(|line| {
        let line = line.split_once("] ").map_or(line, |(_, call)| call);
        // What is said of the call, or of strace's own end, comes behind it.
        let call = line.split(" <").next()?.split("strace: ").next()?;
        call.contains('(').then(|| call.trim_end().to_owned())
    });
    calls.collect()
}

#[test]
#[ignore = "loads eBPF"]
fn text_reads_as_the_lines_of_strace() {
    if missing_right().is_some() {
        return;
    }
    let target = stuck();
    let shown = text(&tracer(
        target.pid(),
        "attach",
        &[&SECOND[..], &["--syscalls", "all"]].concat(),
    ));
    let straced = straced(target.pid());
    let futexes = straced.iter().filter(|call| call.starts_with("futex("));
    assert_eq!((straced.len(), futexes.count()), (3, 2), "{straced:?}");
    for call in &straced {
        let line = format!("thread-state     blocked in {call}");
        assert!(shown.contains(&line), "{line}: {shown}");
    }
    assert_eq!(shown.matches("thread-state").count(), 3, "{shown}");
}

#[test]
#[ignore = "loads eBPF"]
fn stacks_are_those_of_the_kernel_and_of_the_program() {
    if missing_right().is_some() {
        return;
    }
    let target = stuck();
    let options = [
        "--events",
        "switch",
        "--stack",
        "user,kernel",
        "--unwind",
        "dwarf",
    ];
    let shown = text(&tracer(
        target.pid(),
        "attach",
        &[&SECOND[..], &options].concat(),
    ));
    let looks: Vec<&str> = shown.split("thread-state").skip(1).collect();
    assert_eq!(looks.len(), 3, "{shown}");
    let locking = looks.iter().filter(|look| look.contains("lock_both+"));
    assert_eq!(locking.count(), 2, "{shown}");
    let reading: Vec<_> = looks.iter().filter(|look| look.contains("main+")).collect();
    assert_eq!(reading.len(), 1, "{shown}");
    // The first function of the kernel is where it sleeps, which every kernel's `/proc` says too.
    for (tid, _) in calls(target.pid()) {
        let path = format!("/proc/{}/task/{tid}/stack", target.pid());
        let stack = std::fs::read_to_string(path).unwrap();
        let first = stack
            .lines()
            .next()
            .unwrap()
            .split_ascii_whitespace()
            .nth(1)
            .unwrap();
        let function = first.split('+').next().unwrap();
        assert!(
            shown.contains(&format!("{function}+")),
            "{function}: {shown}"
        );
    }
}

#[test]
#[ignore = "loads eBPF"]
fn one_that_runs_and_one_that_was_stopped_are_shown_so() {
    if missing_right().is_some() {
        return;
    }
    let shell = |script| Killed(Command::new("sh").args(["-c", script]).spawn().unwrap());
    let state_of = |pid: i32| {
        let options = [
            &SECOND[..],
            &["--events", "thread-state", "--format", "json"],
        ]
        .concat();
        let looks = looks(&text(&tracer(pid, "attach", &options)));
        let look = looks.into_values().next().unwrap();
        assert!(
            look["data"]["name"].is_null() || look["data"]["state"] == "stopped",
            "{look}"
        );
        look["data"]["state"].as_str().unwrap().to_owned()
    };
    let spinning = shell("while :; do :; done");
    let state = state_of(i32::try_from(spinning.0.id()).unwrap());
    // Others may have its CPU.
    assert!(["running", "runnable"].contains(&&*state), "{state}");
    let stopped = shell("kill -STOP $$; exit");
    let pid = i32::try_from(stopped.0.id()).unwrap();
    tests::wait_until("a process that is stopped", Duration::from_secs(60), || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
        Ok(stat.contains(") T ").then_some(()))
    })
    .unwrap();
    assert_eq!(state_of(pid), "stopped");
}

const STILL: &str = "None of its 3 threads ran in";

#[test]
#[ignore = "loads eBPF"]
fn stat_and_why_say_that_nothing_moves_and_where_it_waits() {
    if missing_right().is_some() {
        return;
    }
    let target = stuck();
    for subcommand in ["stat", "why"] {
        let shown = text(&tracer(target.pid(), subcommand, &["--duration", "1s"]));
        let line = shown.lines().find(|line| line.starts_with(STILL));
        let line = line.unwrap_or_else(|| panic!("{shown}"));
        assert!(
            line.ends_with("; they wait in futex (2), in read (1)."),
            "{line}"
        );
        assert!(!shown.contains("were recorded"), "{shown}");
    }
    let shown = text(&tracer(
        target.pid(),
        "stat",
        &["--duration", "1s", "--format", "json"],
    ));
    let statistics: Value = serde_json::from_str(&shown).unwrap();
    let threads = statistics["threads"].as_array().unwrap();
    assert_eq!(threads.len(), 3, "{shown}");
    for thread in threads {
        assert_eq!(
            (&thread["unknown_ns"], &thread["running_ns"]),
            (&0.into(), &0.into())
        );
        // All of its time from the look on, which is most of a second.
        assert!(thread["blocked_ns"].as_u64().unwrap() > 0, "{thread}");
        let number = calls(target.pid())[&thread["tid"].as_i64().unwrap()].clone();
        let name = if number.starts_with("0 ") {
            "read"
        } else {
            "futex"
        };
        assert_eq!(thread["blocked_in"][0]["in"], name, "{thread}");
    }
}

#[test]
#[ignore = "loads eBPF"]
fn top_shows_what_each_thread_is_blocked_in() {
    if missing_right().is_some() {
        return;
    }
    let target = stuck();
    let shown = text(&tracer(target.pid(), "top", &["--once"]));
    assert!(shown.contains("3 threads of 1 processes"), "{shown}");
    for (tid, call) in calls(target.pid()) {
        let name = if call.starts_with("0 ") {
            "read"
        } else {
            "futex"
        };
        let line = shown
            .lines()
            .rfind(|line| line.contains(&format!("stuck {tid} ")));
        let line = line.unwrap_or_else(|| panic!("{tid}: {shown}"));
        assert!(line.contains(&format!(" {name} ")), "{line}");
        assert!(!shown.contains("were recorded"), "{shown}");
    }
}

#[test]
#[ignore = "loads eBPF"]
fn a_log_has_them_with_names_and_stacks() {
    if missing_right().is_some() {
        return;
    }
    let target = stuck();
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let page = folder.path().join("page.html");
    let options = [
        "--events",
        "switch,wakeup",
        "--stack",
        "user",
        "--unwind",
        "dwarf",
    ];
    let to = [
        "--log",
        log.to_str().unwrap(),
        "--report",
        page.to_str().unwrap(),
    ];
    tracer(
        target.pid(),
        "attach",
        &[&SECOND[..], &options, &to].concat(),
    );
    let read = |arguments: &[&str]| {
        let mut command = Command::new(dist::tracer_user().unwrap());
        let output = command.args(arguments).arg(&log).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        text(&output)
    };
    let shown = read(&["read"]);
    assert_eq!(
        shown.matches("thread-state     blocked in").count(),
        3,
        "{shown}"
    );
    assert_eq!(shown.matches("lock_both+").count(), 2, "{shown}");
    let of_log = looks(
        &read(&["read", "--format", "json"])
            .lines()
            .filter(|line| !line.contains("\"summary\""))
            .collect::<Vec<_>>()
            .join("\n"),
    );
    assert!(of_log.keys().eq(calls(target.pid()).keys()));
    assert!(of_log.values().all(|look| look["comm"] == "stuck"));
    let shown = read(&["stat"]);
    assert!(shown.contains(STILL), "{shown}");
    assert!(std::fs::read_to_string(page).unwrap().contains("futex"));
}

/// Returns the kernel's counts of each thread so far: how long it ran, how long it waited, and how
/// often it ran.
fn counted(pid: i32) -> BTreeMap<i64, String> {
    let tids = calls(pid).into_keys();
    let of = |tid: i64| std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/schedstat"));
    tids.map(|tid| (tid, of(tid).unwrap())).collect()
}

#[test]
#[ignore = "loads eBPF"]
fn a_log_says_how_long_nothing_moved() {
    const ASKED_NS: u64 = 3_000_000_000;
    if missing_right().is_some() {
        return;
    }
    let target = stuck();
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let page = folder.path().join("page.html");
    let before = counted(target.pid());
    let begun = std::time::Instant::now();
    let options = ["--no-user", "--events", "switch", "--duration", "3s"];
    let to = ["--log", log.to_str().unwrap(), "--report"];
    let to = [&to[..], &[page.to_str().unwrap()]].concat();
    tracer(target.pid(), "attach", &[&options[..], &to].concat());
    let took = u64::try_from(begun.elapsed().as_nanos()).unwrap();
    // None of them ran meanwhile, the kernel says too.
    assert_eq!(before, counted(target.pid()));
    // It is asked for, and over before the command is. The first look takes a moment.
    let is_all = |ns: &Value| (ASKED_NS * 2 / 3..=took).contains(&ns.as_u64().unwrap());

    let read = |arguments: &[&str]| {
        let mut command = Command::new(dist::tracer_user().unwrap());
        let output = command.args(arguments).arg(&log).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        text(&output)
    };
    let stat: Value = serde_json::from_str(&read(&["stat", "--format", "json"])).unwrap();
    assert!(is_all(&stat["span_ns"]), "{took}: {stat}");
    let threads = stat["threads"].as_array().unwrap();
    assert_eq!(threads.len(), 3, "{stat}");
    for thread in threads {
        assert!(is_all(&thread["blocked_ns"]), "{took}: {thread}");
        assert_eq!(
            (&thread["running_ns"], &thread["unknown_ns"]),
            (&0.into(), &0.into())
        );
    }
    let why: Value = serde_json::from_str(&read(&["why", "--whole", "--format", "json"])).unwrap();
    let whole = &why["slowest"][0];
    assert!(is_all(&whole["ns"]), "{took}: {why}");
    assert_eq!(whole["parts"][0]["still_at"], "trace_end", "{why}");
    for command in ["stat", "why"] {
        let shown = read(&[command]);
        assert!(
            shown.contains(&format!("{STILL} these 2."))
                || shown.contains(&format!("{STILL} these 3.")),
            "{shown}"
        );
    }
    let shown = read(&["top", "--once"]);
    assert!(
        shown.contains("futex 2.") || shown.contains("futex 3."),
        "{shown}"
    );
    let info: Value = serde_json::from_str(&read(&["info", "--json"])).unwrap();
    assert!(info["ended"].as_str() > info["last"].as_str(), "{info}");
    // The engine of Perfetto has states up to what it heard of last.
    let trace = folder.path().join("trace");
    let export = ["export", "--to", "perfetto", "--output"];
    read(&[&export[..], &[trace.to_str().unwrap()]].concat());
    let query = ["SELECT end_ts - start_ts AS ns FROM trace_bounds"];
    let bounds = tests::tools::trace_processor(&trace, &query).unwrap();
    let ns = tests::log_reader::integer(&bounds[0][0], "ns");
    assert!(
        ns >= stat["span_ns"].as_i64().unwrap(),
        "{bounds:?}: {stat}"
    );
}

/// The looks at the threads of a process that wakes the command, where wakers are followed or not.
fn looks_at_waker(follows: bool) -> (BTreeMap<i64, Value>, BTreeMap<i64, String>) {
    let folder = tempfile::tempdir().unwrap();
    let program = dist::compile("pulse", folder.path()).unwrap();
    let file = |name: &str| folder.path().join(name);
    let made = Command::new("mkfifo").arg(file("fifo")).status().unwrap();
    assert!(made.success());
    let (pulse, _) = Target::start(Command::new(program).arg(file("fifo"))).unwrap();
    let mut run = Command::new(dist::tracer_user().unwrap());
    run.args([
        "run",
        "--no-user",
        "--events",
        "switch,wakeup",
        "--format",
        "json",
        "-o",
    ]);
    run.arg(file("shown"));
    run.args(follows.then_some("--follow-wakers"));
    run.args(["--", "head", "-c", "9"]).arg(file("fifo"));
    let output = run.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let shown = std::fs::read_to_string(file("shown")).unwrap();
    let events = shown.lines().filter(|line| !line.contains("\"summary\""));
    let looks = looks(&events.collect::<Vec<_>>().join("\n"));
    (looks, calls(pulse.pid()))
}

#[test]
#[ignore = "loads eBPF"]
fn a_waker_that_is_followed_is_looked_at_when_it_is_found_and_a_command_is_not() {
    if missing_right().is_some() {
        return;
    }
    let (looks, calls) = looks_at_waker(true);
    assert!(looks.keys().eq(calls.keys()), "{looks:?} {calls:?}");
    let still = calls
        .iter()
        .filter(|(_, line)| line.starts_with("0 ") || line.starts_with("63 "));
    let still: Vec<_> = still.collect();
    assert_eq!(still.len(), 1, "{calls:?}");
    for (tid, line) in still {
        let data = &looks[tid]["data"];
        assert_eq!(data["state"], "blocked", "{data}");
        assert_eq!(
            Some(&*data["number"].to_string()),
            line.split(' ').next(),
            "{data}"
        );
    }
    // Of a command all is seen, and others are not traced.
    assert_eq!(looks_at_waker(false).0.len(), 0);
}
