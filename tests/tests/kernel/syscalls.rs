//! System calls against what strace counts for the same program.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use tests::event::Event;
use tests::rights::missing_right;
use tests::target::values_after;
use tests::tracer::Tracer;
use tests::{dist, mount, strace};

const ROUNDS: i64 = 200;

pub fn program(folder: &tempfile::TempDir) -> anyhow::Result<[String; 2]> {
    let program = dist::compile("calls", folder.path())?;
    Ok([program.display().to_string(), ROUNDS.to_string()])
}

fn traced(command: &[String], options: &[&str]) -> anyhow::Result<Vec<Event>> {
    let words = options.iter().copied().chain(["--"]);
    let words = words.chain(command.iter().map(String::as_str));
    let trace = Tracer::start("run", words)?.finish()?;
    let summary = trace.summary()?;
    assert_eq!(summary.all_lost(), 0, "{:?}", summary.lost);
    trace.events()
}

#[test]
#[ignore = "loads eBPF"]
fn every_call_is_there_as_often_as_strace_counts_it_and_fails_as_often() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let command = program(&folder).unwrap();
    let expected = strace::table(&command).unwrap();
    assert!(expected["getppid"].0 == 3 * 200 && expected["openat"].1 >= 3 * 200);

    let events = traced(&command, &["--events", "syscall"]).unwrap();
    strace::assert_as_counted(&events, expected);
}

#[test]
#[ignore = "loads eBPF"]
fn only_the_calls_that_are_named_are_there_with_arguments_results_and_errors() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let command = program(&folder).unwrap();
    let options = ["--events", "exit", "--syscalls", "close,getppid"];
    let events = traced(&command, &options).unwrap();

    let is_call = |event: &&Event| event.event_type.starts_with("syscall_");
    let names = strace::counts(events.iter().filter(is_call));
    assert_eq!(names.keys().collect::<Vec<_>>(), ["close", "getppid"]);
    let of = |name, event_type| {
        let events = events.iter();
        events.filter(move |e| e.is_system(event_type) && e.word("name") == Some(name))
    };
    assert_eq!(of("getppid", "syscall_enter").count(), 600);
    assert_eq!(of("getppid", "syscall_exit").count(), 600);
    // Every file is closed twice, of which the second time fails.
    let failed = of("close", "syscall_exit").filter(|e| e.word("error") == Some("EBADF"));
    assert_eq!(failed.count(), 600);
    for event in of("close", "syscall_enter") {
        let arguments = event.data["args"].as_array().unwrap();
        assert_eq!(arguments.len(), 1);
        assert!(arguments[0].as_i64().unwrap() < 10, "{}", event.line);
        assert!(event.prog_address.is_some(), "{}", event.line);
    }
    // The child's parent is the program.
    let exits: Vec<i32> = events
        .iter()
        .filter(|e| e.is_system("exit"))
        .map(|e| e.pid)
        .collect();
    assert_eq!(exits.len(), 2);
    let parents = of("getppid", "syscall_exit").filter(|e| e.pid == exits[0]);
    for event in parents {
        assert_eq!(
            event.integer("ret"),
            Some(i64::from(exits[1])),
            "{}",
            event.line
        );
    }
}

#[test]
#[ignore = "loads eBPF"]
fn a_call_that_a_filter_refuses_has_its_end_and_no_beginning() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = dist::compile("refused", folder.path()).unwrap();
    let command = [program.display().to_string(), ROUNDS.to_string()];

    // What the program says itself, and strace, which stops it before the filter is asked.
    let said = Command::new(&program).arg(&command[1]).output().unwrap();
    let said = String::from_utf8(said.stdout).unwrap();
    assert_eq!(said, format!("refused {ROUNDS}\n"));
    let times = u64::try_from(ROUNDS).unwrap();
    let strace = strace::table(&command).unwrap();
    assert_eq!(strace["getppid"], (times, times));
    assert_eq!(strace["getsid"], (times + 1, 0));

    let calls = ["--syscalls", "getppid,getsid"];
    let events = traced(&command, &calls).unwrap();
    let ends = events
        .iter()
        .filter(|event| event.is_system("syscall_exit"));
    let begins = events
        .iter()
        .filter(|event| event.is_system("syscall_enter"));
    let ends: Vec<_> = ends.collect();
    assert_eq!(strace::counts(ends.iter().copied())["getppid"], times);
    assert_eq!(strace::counts(ends.iter().copied())["getsid"], times + 1);
    assert_eq!(
        strace::counts(begins),
        BTreeMap::from([("getsid".to_owned(), times + 1)])
    );
    let of_refused = |event: &&&Event| event.word("name") == Some("getppid");
    for end in ends.iter().filter(of_refused) {
        assert_eq!(
            end.integer("ret"),
            Some(-i64::from(libc::EPERM)),
            "{}",
            end.line
        );
    }
}

#[test]
#[ignore = "loads eBPF"]
fn the_end_of_a_signal_handler_is_shown_as_the_call_that_it_is() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = dist::compile("signals", folder.path()).unwrap();
    let said = folder.path().join("said");
    let line = format!("printf g | {} 50 >{}", program.display(), said.display());
    let command = ["/bin/sh", "-c", &line].map(str::to_owned);
    for options in [
        &[
            "--events",
            "linux_trace_syscall_enter,linux_trace_syscall_exit",
        ][..],
        &["--events", "syscall", "--syscalls", "rt_sigreturn"],
        // Exits alone: the entries are not asked for.
        &["--events", "linux_trace_syscall_exit"],
    ] {
        let events = traced(&command, options).unwrap();

        // What its handlers counted.
        let said = std::fs::read_to_string(&said).unwrap();
        let said: Vec<String> = said.lines().map(str::to_owned).collect();
        let got = values_after(&said, "got").unwrap();
        let handled: u64 = got.iter().map(|values| values[1]).sum();
        assert!(handled > 150, "{said:?}");
        let of_program = |event: &&Event| event.line.contains("\"comm\":\"signals\"");
        let of = |event_type, name| {
            let events = events.iter().filter(of_program);
            let events = events.filter(move |event| event.is_system(event_type));
            let events = events.filter(move |event| event.word("name") == Some(name));
            u64::try_from(events.count()).unwrap()
        };
        assert_eq!(of("syscall_exit", "rt_sigreturn"), handled, "{options:?}");
        let entered = if options[1] == "linux_trace_syscall_exit" {
            0
        } else {
            handled
        };
        assert_eq!(of("syscall_enter", "rt_sigreturn"), entered, "{options:?}");
        let without_call = events
            .iter()
            .filter(|event| event.integer("number") == Some(-1));
        assert_eq!(without_call.count(), 0);
    }
}

#[test]
#[ignore = "loads eBPF"]
#[cfg(target_arch = "x86_64")]
fn calls_of_32_bit_programs_are_chosen_and_shown_by_their_own_table() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = dist::compile("compat", folder.path()).unwrap();
    let command = [program.display().to_string()];
    let events = traced(&command, &["--events", "exit", "--syscalls", "getpid"]).unwrap();

    let entered = |compat| {
        let events = events.iter();
        events.filter(move |event| {
            event.is_system("syscall_enter") && event.integer("compat") == Some(compat)
        })
    };
    // The same call in both ways, by two system call numbers.
    assert_eq!(entered(1).count(), 50);
    assert_eq!(entered(0).count(), 50);
    for event in entered(1) {
        assert_eq!(
            (event.word("name"), event.integer("number")),
            (Some("getpid"), Some(20))
        );
        // It takes none, whatever is in the registers; `strings` has calls that do.
        let arguments = event.data["args"].as_array().unwrap();
        assert!(arguments.is_empty(), "{}", event.line);
    }
    let exit = events.iter().find(|event| event.is_system("exit")).unwrap();
    assert_eq!(exit.integer("status"), Some(0));
}

#[test]
#[ignore = "loads eBPF"]
fn bpftrace_counts_as_many_calls_of_the_same_run() {
    if missing_right().is_some() {
        return;
    }
    let _tracefs = mount::tracefs().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let command = program(&folder).unwrap();
    let program = format!("{} {}", command[0], command[1]);
    // The program and the child that it makes; other users may run programs of this name meanwhile.
    let script = "tracepoint:sched:sched_process_fork /pid == cpid/ { @child[args->child_pid] = 1; } \
                  tracepoint:syscalls:sys_enter_getppid \
                      /comm == \"calls\" && (pid == cpid || @child[pid])/ { @ = count(); } \
                  tracepoint:syscalls:sys_enter_openat \
                      /comm == \"calls\" && (pid == cpid || @child[pid])/ { @opened = count(); }";
    let report = folder.path().join("report");
    let said = folder.path().join("said");
    // It says something on the standard output, which is the trace's.
    let line = format!(
        "bpftrace -q -o {} -e '{script}' -c '{program}' >{said} 2>&1; echo \"status $?\" >>{said}",
        report.display(),
        said = said.display()
    );
    let bpftrace = ["/bin/sh", "-c", &line].map(str::to_owned);

    let events = traced(&bpftrace, &["--events", "syscall,exec"]).unwrap();
    let said = std::fs::read_to_string(said).unwrap();
    assert!(said.ends_with("status 0\n"), "bpftrace failed: {said}");
    let report = std::fs::read_to_string(report).unwrap();
    let count = |name: &str| -> u64 {
        let line = report.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_else(|| panic!("no {name} in {report}"))
            .trim()
            .parse()
            .unwrap()
    };
    // The program alone, from its exec on: bpftrace itself is traced as well.
    let exec = events.iter().find(|event| {
        event.is_system("exec") && event.word("file").is_some_and(|file| *file == command[0])
    });
    let exec = exec.expect("its exec");
    let of_program = |event: &&Event| {
        event.is_system("syscall_enter")
            && event.ns > exec.ns
            && event.line.contains("\"comm\":\"calls\"")
    };
    let seen = strace::counts(events.iter().filter(of_program));
    assert_eq!(seen["getppid"], count("@:"));
    assert_eq!(seen["getppid"], 600);
    assert_eq!(seen["openat"], count("@opened:"));
}

#[test]
#[ignore = "loads eBPF"]
fn a_call_in_json_says_how_long_it_took() {
    if missing_right().is_some() {
        return;
    }
    // From the call on, and not until a time: the kernel promises not to sleep for less.
    const SLEEPS_MS: [u64; 3] = [20, 1, 40];
    let sleeps = SLEEPS_MS
        .map(|ms| format!("usleep({ms} * 1000)"))
        .join("; ");
    let folder = tempfile::tempdir().unwrap();
    let shown = folder.path().join("shown");
    let status = Command::new(dist::tracer_user().unwrap())
        .args([
            "run",
            "--syscalls",
            "clock_nanosleep",
            "--format",
            "json",
            "-o",
        ])
        .arg(&shown)
        .args(["--", "/usr/bin/python3", "-c"])
        .arg(format!(
            "import ctypes; usleep = ctypes.CDLL(None).usleep; {sleeps}"
        ))
        .status()
        .unwrap();
    assert!(status.success(), "{status}");
    let lines = std::fs::read_to_string(&shown).unwrap();
    let events = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    let of_calls = |kind: &str| -> Vec<serde_json::Value> {
        let events = events.clone();
        events
            .filter(|event: &serde_json::Value| event["type"] == kind)
            .collect()
    };
    let (begun, ended) = (
        of_calls("linux_trace_syscall_enter"),
        of_calls("linux_trace_syscall_exit"),
    );
    assert_eq!((begun.len(), ended.len()), (3, 3), "{lines}");
    for ((begun, ended), ms) in begun.iter().zip(&ended).zip(SLEEPS_MS) {
        let took = ended["duration_ns"].as_u64().unwrap();
        let between = ended["ns"].as_u64().unwrap() - begun["ns"].as_u64().unwrap();
        assert!(
            took == between && took >= ms * 1_000_000,
            "{took} of {ms} ms"
        );
        assert_eq!(begun.get("duration_ns"), None);
    }
}

/// Returns the lines of calls, each without what comes before its name and without its duration.
fn lines_of_calls(text: &str, names: &[&str]) -> Vec<String> {
    let begins = |line: &str| {
        let at = names
            .iter()
            .filter_map(|name| line.find(&format!("{name}(")));
        at.min().map(|at| line[at..].to_owned())
    };
    text.lines().filter_map(begins).collect()
}

#[test]
#[ignore = "loads eBPF"]
fn calls_that_are_recorded_only_as_they_end_are_those_of_strace() {
    const CALLS: [&str; 5] = ["openat", "newfstatat", "readlink", "close", "fadvise64"];
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let theirs = folder.path().join("strace");
    let work = ["/bin/cat", "/etc/passwd", "/nowhere/at/all", "/etc/hosts"];
    let run = |command: &mut Command| {
        // Without those of this test's, by which programs look for libraries.
        let output = command.args(work).env_clear().output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
    };
    run(Command::new("strace")
        .args(["-e", &format!("trace={}", CALLS.join(",")), "-o"])
        .arg(&theirs)
        .arg("--"));
    let log = folder.path().join("log");
    let mut command = Command::new(dist::tracer_user().unwrap());
    let options = [
        "run",
        "--events",
        "syscall",
        "--calls",
        "exit",
        "--syscalls",
    ];
    command.args(options).arg(CALLS.join(","));
    run(command.arg("--log").arg(&log).arg("--"));
    let mut read = Command::new(dist::tracer_user().unwrap());
    let output = read.arg("read").arg(&log).output().unwrap();

    let ours = String::from_utf8(output.stdout).unwrap();
    let theirs = fs::read_to_string(theirs).unwrap();
    let expected = lines_of_calls(&theirs, &CALLS);
    assert!(expected.len() > 10 && expected.iter().any(|line| line.contains("ENOENT")));
    let squeezed = |lines: Vec<String>| -> Vec<String> {
        let words = |line: String| line.split_whitespace().collect::<Vec<_>>().join(" ");
        lines.into_iter().map(words).collect()
    };
    assert_eq!(
        squeezed(lines_of_calls(&ours, &CALLS)),
        squeezed(expected),
        "{ours}"
    );
}

#[test]
#[ignore = "loads eBPF"]
fn of_a_call_that_is_recorded_only_as_it_ends_nothing_is_guessed() {
    if missing_right().is_some() {
        return;
    }
    let command = ["sh", "-c", "exec cat /etc/hosts"].map(str::to_owned);
    let options = ["--events", "syscall", "--calls", "exit", "--syscalls"];
    let options = [&options[..], &["execve,getppid,exit_group,openat"]].concat();
    let events = traced(&command, &options).unwrap();

    assert!(events.iter().all(|event| !event.is_system("syscall_enter")));
    let calls = events
        .iter()
        .filter(|event| event.is_system("syscall_exit"));
    let of = |name| {
        let calls = calls.clone();
        calls.filter(move |event| event.word("name") == Some(name))
    };
    // An exec has replaced its registers, and the memory that they point to.
    let has_succeeded = |event: &&Event| event.integer("ret") == Some(0);
    let execs = || of("execve").filter(has_succeeded);
    let knows = |event: &Event| event.data["filled"] != serde_json::json!({});
    assert!(execs().count() >= 2 && !execs().any(knows), "{events:?}");
    let opened = of("openat").filter(|event| event.line.contains("/etc/hosts"));
    let opened: Vec<_> = opened.collect();
    assert_eq!(opened.len(), 1, "{events:?}");
    assert_eq!(opened[0].data["filled"]["filename"], "/etc/hosts");
    // It does not end, and how long others took is not known.
    assert_eq!(of("exit_group").count(), 0);
    assert!(calls.clone().all(|event| !event.line.contains("duration")));
}
