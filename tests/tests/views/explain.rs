//! Programs that are slow for a reason that was put in on purpose: what `explain` names first, and
//! of the same programs without that reason, nothing. `docs/explain.md` has the rules.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use serde_json::Value;
use tempfile::TempDir;
use tests::cgroup::Cgroup;
use tests::dist::{self, Linkage};
use tests::rights::missing_right;
use tests::target::Target;

/// A program, and a folder on a disk for what it writes.
struct Program {
    folder: TempDir,
    command: Vec<PathBuf>,
}

/// Whether the reason is in it.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Slow,
    Fixed,
}

impl Program {
    fn new(name: &str, kind: Kind) -> Self {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/slow");
        let source = sources.join(name);
        let mut command: Vec<PathBuf> = match source.extension().and_then(OsStr::to_str) {
            // Not what stands before it in the path, which may be a script.
            Some("py") => vec!["/usr/bin/python3".into(), source],
            Some("sh") => vec!["sh".into(), source],
            _ => {
                let mut options = vec!["-g", "-lresolv"];
                if kind == Kind::Fixed {
                    options.push("-DFIXED");
                }
                let into = folder.path();
                let program = dist::compile_from(&sources, name, into, &options, Linkage::Shared);
                return Self {
                    folder,
                    command: vec![program.unwrap()],
                };
            }
        };
        if kind == Kind::Fixed {
            command.push("fixed".into());
        }
        Self { folder, command }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn explain<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Explanation {
        self.explain_with(&[], arguments)
    }

    fn explain_with<A: AsRef<OsStr>>(&self, options: &[&str], arguments: &[A]) -> Explanation {
        let output = Command::new(dist::tracer_user().unwrap())
            .args(["explain", "--format", "json"])
            .args(options)
            .arg("--")
            .args(&self.command)
            .args(arguments)
            .output()
            .unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        // What the tracer says comes behind it.
        let mut values = serde_json::Deserializer::from_str(&said).into_iter::<Value>();
        match values.next() {
            Some(Ok(value)) => Explanation(value),
            other => panic!("{other:?}: {said}"),
        }
    }
}

/// An answer of `explain`.
struct Explanation(Value);

impl Explanation {
    /// The findings, without those that a busy machine makes: a lack of CPUs, and children that
    /// begin and end late for want of one. Tests share the machine.
    fn findings(&self) -> Vec<&Value> {
        const LATE_NS: u64 = 200_000_000;
        let all = self.0["findings"].as_array().unwrap().iter();
        let is_late = |found: &Value| {
            found["rule"] == "child" && found["ns"].as_u64().is_some_and(|ns| ns < LATE_NS)
        };
        all.filter(|found| found["rule"] != "cpu" && !is_late(found))
            .collect()
    }

    /// Checks that the first finding is of this rule, and that what it says has these words.
    fn names_first(&self, rule: &str, words: &[&str]) {
        let findings = self.findings();
        let first = findings
            .first()
            .unwrap_or_else(|| panic!("nothing: {}", self.0));
        assert_eq!(first["rule"], rule, "{:#}", self.0);
        let said = format!(
            "{} {} {} {}",
            text(&first["who"]),
            text(&first["what"]),
            text(&first["where"]),
            text(&first["object"])
        );
        for word in words {
            assert!(said.contains(word), "{word}: {said}");
        }
    }

    fn names_nothing(&self) {
        assert!(self.findings().is_empty(), "{:#}", self.0);
    }

    fn has(&self, rule: &str) -> bool {
        let all = self.0["findings"].as_array().unwrap();
        all.iter().any(|found| found["rule"] == rule)
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

const NOTHING: [&str; 0] = [];

/// Checks the answers about a program and about its fixed twin, which write into a file.
fn check(name: &str, rule: &str, words: &[&str]) {
    if missing_right().is_some() {
        return;
    }
    let slow = Program::new(name, Kind::Slow);
    slow.explain(&[slow.file()]).names_first(rule, words);
    let fixed = Program::new(name, Kind::Fixed);
    // A script has its own first argument.
    let explained = if fixed.command.len() > 1 {
        fixed.explain(&NOTHING)
    } else {
        fixed.explain(&[fixed.file()])
    };
    explained.names_nothing();
}

#[test]
#[ignore = "loads eBPF"]
fn a_lock_of_a_file_is_named_with_its_holder() {
    check(
        "row_lock",
        "lock",
        &["worker", "fcntl", "holder", "set_lock"],
    );
}

#[test]
#[ignore = "loads eBPF"]
fn a_lock_of_threads_is_named_with_the_function_that_waits() {
    check("lock_convoy", "lock", &["convoy", "futex", "work"]);
}

#[test]
#[ignore = "loads eBPF"]
fn where_holders_are_recorded_the_lock_and_who_had_it_are_named() {
    if missing_right().is_some() {
        return;
    }
    let slow = Program::new("lock_convoy", Kind::Slow);
    let explained = slow.explain_with(&["--locks"], &[slow.file()]);
    explained.names_first(
        "lock",
        &["convoy", "futex", "which convoy", " had", "mutex 0x"],
    );
}

#[test]
#[ignore = "loads eBPF"]
fn interrupts_are_named_with_what_they_are_for() {
    if missing_right().is_some() {
        return;
    }
    let options = ["--add-events", "softirq"];
    let slow = Program::new("interrupts", Kind::Slow);
    let explained = slow.explain_with(&options, &NOTHING);
    explained.names_first("interrupts", &["NET_RX"]);
    let fixed = Program::new("interrupts", Kind::Fixed);
    fixed.explain_with(&options, &NOTHING).names_nothing();
}

#[test]
#[ignore = "loads eBPF"]
fn the_lock_of_an_interpreter_is_named_with_who_has_it() {
    check("gil.py", "lock", &["answers", "futex", "computes"]);
}

#[test]
#[ignore = "loads eBPF"]
fn a_disk_is_named_with_the_call_and_the_file() {
    check(
        "slow_disk",
        "disk",
        &["slow_disk", "fdatasync", "main", "data"],
    );
}

#[test]
#[ignore = "loads eBPF"]
fn a_disk_behind_io_uring_is_named() {
    check("uring", "disk", &["io_uring"]);
}

#[test]
#[ignore = "loads eBPF"]
fn a_command_that_takes_long_is_named() {
    check("slow_command", "child", &["wait4", "sleep"]);
}

#[test]
#[ignore = "loads eBPF"]
fn page_faults_of_a_snapshot_are_named_as_copies() {
    check(
        "fork_snapshot",
        "faults",
        &["fork_snapshot", "copy", "main"],
    );
}

#[test]
#[ignore = "loads eBPF"]
fn page_faults_that_wait_for_a_disk_are_named() {
    if missing_right().is_some() {
        return;
    }
    let slow = Program::new("major_faults", Kind::Slow);
    let explained = slow.explain(&[slow.file()]);
    // Where it was is known of waits of a millisecond: a good disk is faster, and a very good one
    // takes less time than the kernel does to ask it.
    explained.names_first("faults", &["major_faults"]);
    let findings = explained.findings();
    let waits = findings
        .iter()
        .find(|found| found["rule"] == "faults" && text(&found["what"]).contains("for a device"));
    assert!(waits.is_some(), "{:#}", explained.0);

    let fixed = Program::new("major_faults", Kind::Fixed);
    fixed.explain(&[fixed.file()]).names_nothing();
}

#[test]
#[ignore = "loads eBPF"]
fn a_name_server_is_named_with_the_name_that_is_asked_for() {
    check("dns", "dns", &["slow.example", "poll", "no answer"]);
}

#[test]
#[ignore = "loads eBPF"]
fn a_connection_that_is_not_accepted_is_named_with_its_address() {
    check(
        "slow_connect",
        "connect",
        // That no answer came is said where a timer ended the wait, and no thread that runs timers.
        &["127.0.0.1:", "connect"],
    );
}

#[test]
#[ignore = "loads eBPF"]
fn a_budget_that_is_used_up_is_named() {
    if missing_right().is_some() {
        return;
    }
    let slow = Program::new("deadline", Kind::Slow).explain(&NOTHING);
    slow.names_first("throttling", &["deadline", "SCHED_DEADLINE"]);
    // It waits for a CPU, as one does that lacks CPUs. No other thread goes before it.
    let ns_of = |rule: &str| {
        let all = slow.0["findings"].as_array().unwrap().iter();
        let of_rule = all.filter(|found| found["rule"] == rule);
        of_rule
            .filter_map(|found| found["ns"].as_u64())
            .sum::<u64>()
    };
    assert!(ns_of("cpu") * 2 < ns_of("throttling"), "{:#}", slow.0);
    Program::new("deadline", Kind::Fixed)
        .explain(&NOTHING)
        .names_nothing();
}

#[test]
#[ignore = "loads eBPF"]
fn a_group_that_has_used_up_its_time_is_named() {
    if missing_right().is_some() {
        return;
    }
    let group = Cgroup::with("cpu").unwrap();
    let name = group
        .path()
        .file_name()
        .unwrap()
        .to_str()
        .unwrap()
        .to_owned();
    let slow = Program::new("cpu_quota", Kind::Slow);
    let explained = slow.explain(&[group.path()]);
    explained.names_first("throttling", &["cpu_quota", &name, "cpu.max"]);
    let fixed = Program::new("cpu_quota", Kind::Fixed);
    fixed.explain(&[group.path()]).names_nothing();
}

#[test]
#[ignore = "loads eBPF"]
fn what_runs_in_a_control_group_is_explained() {
    if missing_right().is_some() {
        return;
    }
    let group = Cgroup::new().unwrap();
    let mut shell = Command::new("sh")
        .args([
            "-c",
            "echo $$ >\"$1/cgroup.procs\" && while :; do sleep 0.3; done",
        ])
        .arg("sh")
        .arg(group.path())
        .spawn()
        .unwrap();
    thread::sleep(std::time::Duration::from_millis(300));
    let output = Command::new(dist::tracer_user().unwrap())
        .args(["explain", "--duration", "1s", "--format", "json"])
        .arg("--cgroup")
        .arg(group.path().file_name().unwrap())
        .output()
        .unwrap();
    shell.kill().unwrap();
    shell.wait().unwrap();
    let explained: Value = serde_json::from_slice(&output.stdout).unwrap();
    Explanation(explained).names_first("child", &["sh ", "wait4", "sleep"]);
}

#[test]
#[ignore = "loads eBPF"]
fn many_short_processes_are_named_with_their_names() {
    check(
        "fork_storm.sh",
        "processes",
        &["sh", "sed (150)", "tr (150)"],
    );
}

#[test]
#[ignore = "loads eBPF"]
fn who_has_the_cpu_is_named() {
    if missing_right().is_some() {
        return;
    }
    let explained = Program::new("noisy_neighbour", Kind::Slow).explain(&NOTHING);
    let first = &explained.0["findings"][0];
    assert_eq!(first["rule"], "cpu", "{:#}", explained.0);
    assert!(text(&first["who"]).starts_with("worker "), "{first}");
    assert!(text(&first["what"]).contains("neighbour "), "{first}");
    // It is not held up by a quota, nor by a debugger.
    assert!(
        !explained.has("throttling") && !explained.has("stopped"),
        "{:#}",
        explained.0
    );
    let fixed = Program::new("noisy_neighbour", Kind::Fixed).explain(&NOTHING);
    fixed.names_nothing();
    assert!(!fixed.0.to_string().contains("neighbour "), "{:#}", fixed.0);
}

#[test]
#[ignore = "loads eBPF"]
fn sleeps_are_named_with_how_long_each_takes() {
    check(
        "timer_slack",
        "sleep",
        &["timer_slack", "nanosleep", "main"],
    );
}

#[test]
#[ignore = "loads eBPF"]
fn a_loop_that_does_not_wait_is_named() {
    if missing_right().is_some() {
        return;
    }
    let slow = Program::new("busy_loop", Kind::Slow).explain(&["300000"]);
    slow.names_first("polling", &["busy_loop", "epoll_wait", "main"]);
    let fixed = Program::new("busy_loop", Kind::Fixed).explain(&["300000"]);
    fixed.names_nothing();
}

#[test]
#[ignore = "loads eBPF"]
fn small_reads_are_named_with_their_size_and_file() {
    check(
        "small_reads",
        "small-io",
        &["read()", "1 bytes each", "data"],
    );
}

#[test]
#[ignore = "loads eBPF"]
fn many_small_files_are_named_with_their_size() {
    check(
        "small_files",
        "small-io",
        &["opened many files", "100 bytes", "read()", "data"],
    );
}

#[test]
#[ignore = "loads eBPF"]
fn of_a_pipeline_the_command_is_named_that_the_others_wait_for() {
    check("pipeline.sh", "child", &["sh ", "wait4", "; gzip "]);
}

#[test]
#[ignore = "loads eBPF"]
fn calls_that_fail_are_named_with_error_and_file() {
    check(
        "failing_opens",
        "failing",
        &["openat", "ENOENT", "/nowhere/slow.conf"],
    );
}

#[test]
#[ignore = "loads eBPF"]
fn a_single_hot_thread_is_named_with_its_function() {
    check("hot_thread", "hot-thread", &["hot ", "compute"]);
}

#[test]
#[ignore = "loads eBPF"]
fn a_herd_that_is_woken_in_vain_is_named() {
    check("herd", "herd", &["herd", "futex", "threads at a time"]);
}

#[test]
#[ignore = "loads eBPF"]
fn a_stop_is_named() {
    check("stopped", "stopped", &["stopped", "SIGSTOP"]);
}

#[test]
#[ignore = "loads eBPF"]
fn an_inverted_priority_is_named_with_all_three_threads() {
    if missing_right().is_some() {
        return;
    }
    let slow = Program::new("priority_inversion", Kind::Slow).explain(&NOTHING);
    slow.names_first("inversion", &["high ", "low ", "middle "]);
    // With inheritance of priorities the lock is there at once; `low` still comes after `middle`.
    let fixed = Program::new("priority_inversion", Kind::Fixed).explain(&NOTHING);
    assert!(!fixed.has("inversion"), "{:#}", fixed.0);
}

#[test]
#[ignore = "loads eBPF"]
fn a_deadlock_is_named_and_the_next_command_finds_its_circle() {
    if missing_right().is_some() {
        return;
    }
    let slow = Program::new("deadlock", Kind::Slow);
    let (target, _) = Target::start(&mut Command::new(&slow.command[0])).unwrap();
    let pid = target.pid().to_string();
    let output = Command::new(dist::tracer_user().unwrap())
        .args([
            "explain",
            "--duration",
            "1s",
            "--format",
            "json",
            "-p",
            &pid,
        ])
        .output()
        .unwrap();
    let explained = Explanation(serde_json::from_slice(&output.stdout).unwrap());
    explained.names_first("hung", &["deadlock", "futex"]);
    let next = text(&explained.0["next"][0]).to_owned();
    assert_eq!(next, format!("tracer-user why --now -p {pid}"));
    let mut words = next.split(' ').skip(1);
    let now = Command::new(dist::tracer_user().unwrap())
        .args(&mut words)
        .output()
        .unwrap();
    let said = String::from_utf8(now.stdout).unwrap();
    assert!(said.contains("circle"), "{said}");
    Program::new("deadlock", Kind::Fixed)
        .explain(&NOTHING)
        .names_nothing();
}

#[test]
#[ignore = "loads eBPF"]
fn threads_that_wait_for_each_other_may_hang_while_others_go_on() {
    if missing_right().is_some() {
        return;
    }
    let explain = |kind| {
        let program = Program::new("deadlock_beside", kind);
        // All calls: of one that is not recorded it is not known whether it has a time limit.
        let options = ["--locks", "--duration", "2s", "--call-cost", "100"];
        program.explain_with(&options, &NOTHING)
    };
    let slow = explain(Kind::Slow);
    slow.names_first("hung", &["deadlock_beside", "wait for each other", "mutex"]);
    let hung = &slow.findings()[0];
    assert_eq!(hung["count"], 2, "{hung:#}");
    let twin = explain(Kind::Fixed);
    assert!(twin.has("lock") && !twin.has("hung"), "{:#}", twin.0);
}

#[test]
#[ignore = "loads eBPF"]
fn a_process_that_waits_for_work_does_not_hang() {
    if missing_right().is_some() {
        return;
    }
    let mut idle = Command::new("sleep").arg("100").spawn().unwrap();
    thread::sleep(std::time::Duration::from_millis(300));
    let output = Command::new(dist::tracer_user().unwrap())
        .args(["explain", "--duration", "500ms", "--format", "json", "-p"])
        .arg(idle.id().to_string())
        .output()
        .unwrap();
    idle.kill().unwrap();
    idle.wait().unwrap();
    Explanation(serde_json::from_slice(&output.stdout).unwrap()).names_nothing();
}

/// Calls that `busy_loop` makes in the tests of estimates.
const MANY_CALLS: u64 = 12_000_000;

/// Checks that the calls of a program that makes very many were recorded for a part of the time,
/// and that what is said of all of them is right.
fn check_estimate(explained: &Explanation) {
    explained.names_first("polling", &["busy_loop", "epoll_wait"]);
    let found = explained.findings()[0];
    let part = explained.0["calls_sampled"].as_u64();
    assert!(part.is_some_and(|part| part < 800), "{:#}", explained.0);
    assert_eq!(found["sure"], "sampled", "{found:#}");
    assert!(found["sampled"].as_u64() < Some(800), "{found:#}");
    // The bounds hold whatever else the machine does, and where events were lost.
    let [least, count, most] =
        ["count_least", "count", "count_most"].map(|key| found[key].as_u64().unwrap());
    assert!(least <= MANY_CALLS && MANY_CALLS <= most, "{found:#}");
    assert!(least <= count && count <= most, "{found:#}");
    // What a recorded call costs is several times as much as such a call, and a log does not have
    // it.
    let is_measured = !explained.0["cost"].is_null();
    if is_measured {
        let near = MANY_CALLS / 4..=MANY_CALLS * 3;
        assert!(near.contains(&count), "{count}: {:#}", explained.0);
        assert!(most < 40 * least, "{found:#}");
    }
}

#[test]
#[ignore = "loads eBPF"]
fn very_many_calls_are_estimated_from_windows_in_a_running_trace_and_in_a_log() {
    if missing_right().is_some() {
        return;
    }
    let calls = MANY_CALLS.to_string();
    let busy = Program::new("busy_loop", Kind::Slow);
    let live = busy.explain_with(&["--call-cost", "2"], &[&calls]);
    check_estimate(&live);
    let said = text(&live.0["cost"]);
    assert!(said.contains("of the program's CPU time"), "{said}");
    // All of them, where that may cost what it costs.
    let whole = busy.explain_with(&["--call-cost", "100"], &["100000"]);
    assert!(whole.0["calls_sampled"].is_null(), "{:#}", whole.0);
    assert!(whole.0["findings"][0]["sampled"].is_null(), "{:#}", whole.0);

    let log = busy.file();
    let run = Command::new(dist::tracer_user().unwrap())
        .args(["run", "--syscalls", "all", "--call-cost", "2"])
        .args(["--ring-size", "64M", "--stream-size", "64M", "--log"])
        .arg(&log)
        .arg("--")
        .args(&busy.command)
        .arg(&calls)
        .output()
        .unwrap();
    // On a busy machine some may be lost, which it says.
    assert!(matches!(run.status.code(), Some(0 | 1)), "{run:?}");
    let ask = |command: &str, options: &[&str]| {
        let mut tool = Command::new(dist::tracer_user().unwrap());
        let output = tool.arg(command).arg(&log).args(options).output().unwrap();
        output.stdout
    };
    let json = ask("explain", &["--format", "json"]);
    check_estimate(&Explanation(serde_json::from_slice(&json).unwrap()));
    assert_eq!(ask("explain", &["--format", "json"]), json);
    assert_eq!(ask("explain", &[]), ask("explain", &[]));

    // The log has the windows, and no call between them.
    let events = ask(
        "read",
        &["--events", "posix_trace_filter,syscall", "--format", "json"],
    );
    let (mut is_open, mut changes) = (true, 0);
    for line in String::from_utf8(events).unwrap().lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        let name = text(&event["type"]);
        if name == "posix_trace_filter" {
            // The identifier of the type with which a call begins.
            const ENTER: u64 = 43;
            let filter = event["data"]["new_filter"].as_array().unwrap();
            let is_filtered = filter.contains(&ENTER.into());
            assert_eq!(is_filtered, is_open, "{event}");
            is_open = !is_filtered;
            changes += 1;
        } else if name.starts_with("linux_trace_syscall") {
            assert!(is_open, "{event}");
        }
    }
    assert!(changes > 0, "no window has closed");
}

/// Returns the lines of the source at the calls of `callee` in `program`, as addr2line has them.
fn lines_of_calls(program: &Path, callee: &str) -> Vec<String> {
    let listed = Command::new("objdump")
        .arg("-d")
        .arg(program)
        .output()
        .unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let calls = listed
        .lines()
        .filter(|line| line.contains("call") && line.contains(&format!("<{callee}@plt>")));
    let addresses = calls.filter_map(|line| Some(line.trim().split_once(':')?.0.to_owned()));
    let found = Command::new("addr2line")
        .arg("-e")
        .arg(program)
        .args(addresses)
        .output()
        .unwrap();
    let found = String::from_utf8(found.stdout).unwrap();
    let short = |line: &str| {
        let line = line.split(' ').next().unwrap_or_default();
        line.rsplit('/').next().unwrap_or_default().to_owned()
    };
    found.lines().map(short).collect()
}

#[test]
#[ignore = "loads eBPF"]
fn the_line_of_the_source_is_that_of_addr2line_where_the_program_has_lines() {
    if missing_right().is_some() {
        return;
    }
    let slow = Program::new("row_lock", Kind::Slow);
    // The compiler may have put the function into its callers.
    let mut lines = lines_of_calls(&slow.command[0], "fcntl");
    lines.dedup();
    assert!(
        lines.len() == 1 && lines[0].starts_with("locks.c:"),
        "{lines:?}"
    );
    let explained = slow.explain(&[slow.file()]);
    explained.names_first("lock", &["set_lock"]);
    assert_eq!(
        explained.findings()[0]["line"],
        lines[0].as_str(),
        "{:#}",
        explained.0
    );

    let stripped = Command::new("strip")
        .arg("--strip-debug")
        .arg(&slow.command[0])
        .status();
    assert!(stripped.unwrap().success());
    let explained = slow.explain(&[slow.file()]);
    explained.names_first("lock", &["set_lock"]);
    assert!(
        explained.findings()[0]["line"].is_null(),
        "{:#}",
        explained.0
    );
}

#[test]
#[ignore = "loads eBPF"]
fn a_log_says_the_same_as_a_running_trace_and_the_same_bytes_each_time() {
    if missing_right().is_some() {
        return;
    }
    let slow = Program::new("lock_convoy", Kind::Slow);
    let log = slow.file();
    let run = Command::new(dist::tracer_user().unwrap())
        .args(["run", "--syscalls", "all", "--string-size", "64"])
        .args(["--off-cpu", "1ms", "--unwind", "dwarf,4K", "--log"])
        .arg(&log)
        .arg("--")
        .args(&slow.command)
        .output()
        .unwrap();
    assert!(run.status.success(), "{run:?}");
    let explain = |options: &[&str]| {
        let output = Command::new(dist::tracer_user().unwrap())
            .arg("explain")
            .arg(&log)
            .args(options)
            .output()
            .unwrap();
        output.stdout
    };
    let json = explain(&["--format", "json"]);
    let explained = Explanation(serde_json::from_slice(&json).unwrap());
    explained.names_first("lock", &["convoy", "futex", "work"]);
    assert_eq!(explained.0["path_of"], "lock_convoy");
    assert!(explained.0["cost"].is_null());
    for _ in 0..5 {
        assert_eq!(explain(&["--format", "json"]), json);
        assert_eq!(explain(&[]), explain(&[]));
    }
    // What it says to type next can be typed.
    let next = explained.0["next"].as_array().unwrap();
    assert_eq!(next.len(), 2, "{next:?}");
    for command in next {
        let words = text(command).strip_prefix("tracer-user ").unwrap();
        let mut typed = Command::new("sh");
        typed.args(["-c", &format!("\"$0\" {words}")]);
        let output = typed.arg(dist::tracer_user().unwrap()).output().unwrap();
        let is_answer = output.status.success() && !output.stdout.is_empty();
        assert!(is_answer, "{words}: {output:?}");
    }
    // A log does not say how the machine was used.
    assert!(explained.0["machine"].is_null());
    // What was not recorded is said, and no rule is said to have found nothing by it.
    let blind = explained.0["blind"].as_array().unwrap();
    assert!(blind.contains(&"faults".into()) && blind.contains(&"interrupts".into()));
    assert!(!blind.contains(&"lock".into()));
}

/// Returns the time that the CPUs of the machine were idle, and all of it, as the kernel counts.
fn idle_time() -> [u64; 2] {
    let stat = std::fs::read_to_string("/proc/stat").unwrap();
    let cpus = stat.lines().next().unwrap().split_whitespace().skip(1);
    let ticks: Vec<u64> = cpus.take(8).map(|tick| tick.parse().unwrap()).collect();
    [ticks[3] + ticks[4], ticks.iter().sum()]
}

#[test]
#[ignore = "loads eBPF"]
fn time_is_divided_as_the_kernel_counts_it() {
    if missing_right().is_some() {
        return;
    }
    // It runs, sleeps, and says how long it had a CPU and waited for one.
    const PROGRAM: &str = "import time\n\
        end = time.monotonic() + 0.6\n\
        while time.monotonic() < end: pass\n\
        time.sleep(0.5)\n\
        print(open('/proc/self/schedstat').read())";
    let before = idle_time();
    let output = Command::new(dist::tracer_user().unwrap())
        .args(["explain", "--format", "json", "--"])
        .args(["/usr/bin/python3", "-c", PROGRAM])
        .output()
        .unwrap();
    let after = idle_time();
    let said = String::from_utf8(output.stdout).unwrap();
    let mut said = said.split_whitespace().map(|word| word.parse().unwrap());
    let [ran, waited]: [u64; 2] = [said.next().unwrap(), said.next().unwrap()];
    let said = String::from_utf8(output.stderr).unwrap();
    let mut values = serde_json::Deserializer::from_str(&said).into_iter::<Value>();
    let explained = values.next().unwrap().unwrap();
    let time = &explained["time"];
    // Time around a switch or a wake-up that the kernel does not report is said to be unknown.
    let unknown = time["unknown_ns"].as_u64().unwrap();
    assert!(unknown <= 20_000_000 || explained["not_reported"] != 0);
    for (key, expected) in [
        ("running_ns", ran),
        ("runnable_ns", waited),
        ("asleep_ns", 500_000_000),
    ] {
        // It began before it was traced, and ended after it has said so.
        let apart = time[key].as_u64().unwrap().abs_diff(expected);
        assert!(
            apart <= 20_000_000 + expected / 20 + unknown,
            "{key} {expected}: {explained:#}"
        );
    }
    let sum = time.as_object().unwrap().values();
    let sum: u64 = sum.map(|ns| ns.as_u64().unwrap()).sum();
    // The trace is a little longer than its program.
    let wall = explained["wall_ns"].as_u64().unwrap();
    assert!(sum <= wall && wall - sum <= 50_000_000, "{explained:#}");

    // The machine was idle as long as the kernel counts, but for what began and ended the trace.
    let machine = &explained["machine"];
    let [idle, all] = [0, 1].map(|index| after[index] - before[index]);
    let apart = machine["idle"]
        .as_u64()
        .unwrap()
        .abs_diff(idle * 1000 / all);
    assert!(apart <= 250, "{idle} of {all}: {machine}");
    assert!(machine["swapped_in_pages"].is_u64());
}

/// Programs of `look_alikes.c`, and the rules that they must not be taken for. Each has the sign by
/// which a simpler rule would go.
const LOOK_ALIKES: [(&str, &[&str]); 14] = [
    ("workers", &["lock", "hung", "herd"]),
    ("no_disk", &["disk", "sleep"]),
    ("datagrams", &["dns", "connect", "sleep"]),
    ("busy_events", &["polling"]),
    ("one_thread", &["hot-thread", "lock"]),
    ("short_threads", &["processes", "sleep"]),
    ("large_reads", &["small-io", "disk"]),
    ("some_fail", &["failing"]),
    ("herd_with_work", &["herd", "inversion"]),
    ("slow_answer", &["connect", "dns", "sleep"]),
    ("signals", &["stopped"]),
    ("touched_again", &["faults"]),
    ("beside_a_command", &["child", "processes"]),
    ("light_packets", &["interrupts", "small-io"]),
];

#[test]
#[ignore = "loads eBPF"]
fn what_looks_alike_is_not_taken_for_it() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let program = dist::compile("look_alikes", folder.path()).unwrap();
    for (name, rules) in LOOK_ALIKES {
        let like = Program {
            folder: tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap(),
            command: vec![program.clone(), name.into()],
        };
        let explained = like.explain_with(&["--add-events", "softirq"], &[like.file()]);
        assert!(explained.0["wall_ns"].as_u64() > Some(20_000_000), "{name}");
        for rule in rules {
            assert!(!explained.has(rule), "{name}: {rule}: {:#}", explained.0);
        }
    }
    // What has its CPU taken by a quota lacks none; a holder that sleeps has lost none.
    let convoy = Program::new("lock_convoy", Kind::Slow).explain(&NOTHING);
    assert!(
        !convoy.has("inversion") && !convoy.has("hung"),
        "{:#}",
        convoy.0
    );
}

/// Threads that compute, twice as many as there are CPUs, as long as this lives.
struct Busy(Arc<AtomicBool>);

impl Busy {
    fn start() -> Self {
        let busy = Self(Arc::new(AtomicBool::new(true)));
        let cpus = thread::available_parallelism().unwrap().get();
        for _ in 0..2 * cpus {
            let is_on = Arc::clone(&busy.0);
            thread::spawn(move || while is_on.load(Ordering::Relaxed) {});
        }
        busy
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

#[test]
#[ignore = "loads eBPF"]
fn where_no_cpu_is_idle_the_reader_has_its_share() {
    /// Messages that two processes send each other, each with two switches and two wake-ups.
    const MESSAGES: u64 = 20_000;
    if missing_right().is_some() {
        return;
    }
    let count = MESSAGES.to_string();
    let words = ["perf", "bench", "sched", "pipe", "--loop", &count];
    let program = Program {
        folder: TempDir::new().unwrap(),
        command: words.map(PathBuf::from).to_vec(),
    };
    let busy = Busy::start();
    let explained = program.explain_with(&["--switch-cost", "100"], &NOTHING).0;
    drop(busy);
    let number = |key: &str| explained[key].as_u64().unwrap();
    assert!(number("events") >= 4 * MESSAGES, "{explained:#}");
    assert_eq!(number("lost"), 0, "{explained:#}");
}
