//! `tracer-user stat --count` beside strace, the kernel's own counters, and a recording of the same
//! run.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tests::processes::switches_at_rest;
use tests::rights::missing_right;
use tests::target::{Target, values_after};
use tests::{dist, strace};

/// A command of `tracer-user` that traces a process.
struct Running(Child);

impl Running {
    /// Starts it, and returns as it traces the process.
    fn attach(options: &[&str], pid: i32) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("ready");
        let ready = UnixDatagram::bind(&socket).unwrap();
        let limit = tests::timeout(Duration::from_secs(60));
        ready.set_read_timeout(Some(limit)).unwrap();
        let mut command = Command::new(dist::tracer_user().unwrap());
        command.args(options).arg("-p").arg(pid.to_string());
        command.env("NOTIFY_SOCKET", &socket).stdout(Stdio::piped());
        let running = Self(command.spawn().unwrap());
        ready.recv(&mut [0; 16]).unwrap();
        running
    }

    /// Stops it, and returns what it has written.
    fn stop(self) -> String {
        let pid = self.0.id().to_string();
        assert!(
            Command::new("kill")
                .args(["-INT", &pid])
                .status()
                .unwrap()
                .success()
        );
        let output = self.0.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }
}

/// Counts what a command does: the object with the counts.
fn counted(options: &[&str], command: &[&str]) -> Value {
    let mut stat = Command::new(dist::tracer_user().unwrap());
    stat.args(["stat", "--format", "json"])
        .args(options)
        .arg("--");
    let output = stat.args(command).output().unwrap();
    let shown = String::from_utf8(output.stderr.clone()).unwrap();
    // The command has the standard output.
    let start = shown.find("{\n").unwrap();
    let mut objects = serde_json::Deserializer::from_str(&shown[start..]).into_iter();
    let object: Value = objects.next().unwrap().unwrap();
    let is_short = object["without_space"]["events"] != 0;
    assert_eq!(
        output.status.code(),
        Some(i32::from(is_short)),
        "{output:?}"
    );
    object
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

/// The rows of a list.
fn list<'a>(object: &'a Value, name: &str) -> &'a [Value] {
    object[name].as_array().unwrap()
}

/// A program that makes known calls, with its arguments, and what strace counts of it.
struct Work {
    command: [String; 2],
    expected: BTreeMap<String, (u64, u64)>,
    _folder: tempfile::TempDir,
}

impl Work {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let command = super::syscalls::program(&folder).unwrap();
        Self {
            expected: strace::table(&command).unwrap(),
            command,
            _folder: folder,
        }
    }

    /// Counts what it does.
    fn counted(&self, options: &[&str]) -> Value {
        counted(options, &self.command.each_ref().map(String::as_str))
    }
}

/// Calls and errors by name, over all rows.
fn calls<'a>(rows: impl IntoIterator<Item = &'a Value>) -> BTreeMap<String, (u64, u64)> {
    let mut calls = BTreeMap::new();
    for call in rows.into_iter().flat_map(|row| list(row, "syscalls")) {
        let name = call["name"].as_str().unwrap().to_owned();
        let (count, errors): &mut (u64, u64) = calls.entry(name).or_default();
        *count += number(&call["count"]);
        *errors += number(&call["errors"]);
    }
    calls
}

fn assert_whole(object: &Value) {
    let nothing = serde_json::json!({ "events": 0, "threads": 0 });
    assert_eq!(object["without_space"], nothing, "{object}");
    assert_eq!(object["lost"], 0, "{object}");
}

#[test]
#[ignore = "loads eBPF"]
fn calls_are_counted_as_often_as_strace_counts_them_and_fail_as_often() {
    if missing_right().is_some() {
        return;
    }
    let work = Work::new();
    for by in [&["--count"][..], &["--count=syscalls", "--by", "process"]] {
        let object = work.counted(by);
        assert_whole(&object);
        assert_eq!(calls(list(&object, "sums")), work.expected);
        // Of a command, the exec that starts it has begun before.
        let all = list(&object, "sums")
            .iter()
            .flat_map(|row| list(row, "syscalls"));
        for call in all {
            let timed = number(&call["took"]["count"]);
            let is_exec = call["name"] == "execve";
            assert_eq!(timed, number(&call["count"]) - u64::from(is_exec), "{call}");
            let ranges = list(&call["took"], "ranges").iter();
            let in_ranges: u64 = ranges.map(|range| number(&range["count"])).sum();
            assert_eq!(in_ranges, timed, "{call}");
        }
    }
    let object = work.counted(&["--count", "--syscalls", "getppid,close"]);
    let mut expected = work.expected;
    expected.retain(|name, _| ["getppid", "close"].contains(&&**name));
    assert_eq!(calls(list(&object, "sums")), expected);
}

#[test]
#[ignore = "loads eBPF"]
fn calls_without_times_are_as_many_and_fail_as_often() {
    if missing_right().is_some() {
        return;
    }
    let work = Work::new();
    let object = work.counted(&["--count=syscalls", "--no-times"]);
    assert_whole(&object);
    let rows = list(&object, "sums");
    assert_eq!(calls(rows), work.expected);
    let took = rows.iter().flat_map(|row| list(row, "syscalls"));
    let took: Vec<&Value> = took.map(|call| &call["took"]["count"]).collect();
    assert!(took.iter().all(|count| **count == 0), "{object}");
    // Each process's fork is counted once, and an exec by its own name.
    let script = "n=0; while [ $n -lt 10 ]; do /bin/true; n=$((n+1)); done; exit 0";
    let object = counted(&["--count=syscalls", "--no-times"], &["sh", "-c", script]);
    let all = calls(list(&object, "sums"));
    let forks = ["clone", "clone3", "fork", "vfork"];
    let forks = forks.iter().filter_map(|name| all.get(*name));
    assert_eq!(forks.map(|(count, _)| count).sum::<u64>(), 10, "{all:?}");
    assert_eq!(all["execve"], (11, 0), "{all:?}");
}

#[test]
#[ignore = "loads eBPF"]
fn probes_and_tracepoints_are_passed_as_often_as_strace_counts_their_calls() {
    if missing_right().is_some() {
        return;
    }
    let work = Work::new();
    let options = [
        "--tracepoint",
        "syscalls:sys_enter_getppid",
        "--probe",
        "libc:write",
    ];
    for by in [&["--count=points"][..], &["--count=points", "--by", "comm"]] {
        let object = work.counted(&[by, &options].concat());
        assert_whole(&object);
        let points: Vec<(&str, u64)> = list(&object, "sums")
            .iter()
            .flat_map(|row| list(row, "points"))
            .map(|point| (point["name"].as_str().unwrap(), number(&point["count"])))
            .collect();
        let expected = [
            ("probe:write", work.expected["write"].0),
            (
                "tracepoint:syscalls:sys_enter_getppid",
                work.expected["getppid"].0,
            ),
        ];
        assert_eq!(points, expected, "{object}");
        assert!(calls(list(&object, "sums")).is_empty(), "{object}");
    }
}

#[test]
#[ignore = "loads eBPF"]
fn switches_of_each_thread_are_as_many_as_the_kernel_counted_and_as_a_recording_has() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = dist::compile("switches", folder.path()).unwrap();
    let mut command = Command::new(program);
    let (mut target, said) = Target::start(command.args(["300", "200", "2000", "2"])).unwrap();
    let threads: Vec<i32> = values_after(&said, "thread")
        .unwrap()
        .iter()
        .map(|values| i32::try_from(values[0]).unwrap())
        .collect();
    let pid = target.pid();
    let log = folder.path().join("log");
    // One beside the other.
    let record = [
        "attach",
        "--events",
        "syscall,switch,wakeup",
        "--string-size",
        "0",
        "--log",
    ];
    let recording = Running::attach(&[&record[..], &[log.to_str().unwrap()]].concat(), pid);
    let count = ["stat", "--count", "--by", "thread", "--format", "json"];
    let counting = Running::attach(&count, pid);
    let before = switches_at_rest(pid, &threads).unwrap();
    target.go().unwrap();
    target.wait_until_done().unwrap();
    let after = switches_at_rest(pid, &threads).unwrap();
    let counted: Value = serde_json::from_str(&counting.stop()).unwrap();
    recording.stop();
    let recorded = stat_of(&log);
    assert_whole(&counted);
    assert_eq!(recorded["lost"], 0);

    let rows = list(&counted, "sums");
    // The kernel leaves a program of a tracer out, now and then, which the recording says.
    let unreported = number(&recorded["not_reported"]);
    for tid in &threads {
        let of = |rows: &[Value]| rows.iter().find(|row| row["tid"] == *tid).cloned().unwrap();
        let (counted, recorded) = (of(rows), of(list(&recorded, "threads")));
        assert_eq!(
            (&counted["pid"], &counted["comm"]),
            (&recorded["pid"], &recorded["comm"])
        );
        let running = &counted["running"];
        let grown = after[tid] - before[tid];
        assert_eq!(number(&running["count"]), grown, "{counted}");
        let waits = (&counted["runnable"]["took"], &recorded["waits"]);
        for (count, other) in [
            (&running["forced"], &recorded["preemptions"]),
            (&waits.0["count"], &waits.1["count"]),
        ] {
            let apart = number(count).abs_diff(number(other));
            assert!(apart <= unreported, "{apart}: {counted} {recorded}");
        }
        for (name, took) in [
            ("running_ns", running),
            ("runnable_ns", &counted["runnable"]),
        ] {
            let (own, other) = (number(&took["total_ns"]), number(&recorded[name]));
            // Each of both reads the clock for itself, a few hundred nanoseconds apart.
            let apart = own.abs_diff(other);
            assert!(apart < other / 20 + 2_000_000, "{name}: {own}, {other}");
        }
        assert!(number(&running["took"]["max_ns"]) > 0, "{counted}");
        // It was blocked as it was attached to, and is again.
        let blocked = &counted["blocked"];
        assert_eq!(blocked["open"], 1, "{counted}");
        assert!(number(&blocked["total_ns"]) > number(&blocked["took"]["total_ns"]));
    }
    let of_workers = |row: &&Value| threads.iter().any(|tid| row["tid"] == *tid);
    let own = calls(rows.iter().filter(of_workers));
    assert!(
        own["sched_yield"].0 == 4 * 300 * 2 && own.len() > 2,
        "{own:?}"
    );
    let of_log = calls([&recorded]);
    for name in ["sched_yield", "clock_nanosleep", "futex"] {
        assert_eq!(own[name], of_log[name], "{name}");
    }
}

/// The statistics of a log.
fn stat_of(log: &Path) -> Value {
    let mut stat = Command::new(dist::tracer_user().unwrap());
    let stat = stat.args(["stat", "--format", "json"]).arg(log).output();
    serde_json::from_slice(&stat.unwrap().stdout).unwrap()
}

#[test]
#[ignore = "loads eBPF"]
fn page_faults_are_as_many_as_the_kernel_counted() {
    const PAGES: u64 = 2000;
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = dist::compile("faults", folder.path()).unwrap();
    let (mut target, _) = Target::start(Command::new(program).arg(PAGES.to_string())).unwrap();
    let pid = target.pid();
    let count = [
        "stat",
        "--count=faults",
        "--by",
        "process",
        "--format",
        "json",
    ];
    let counting = Running::attach(&count, pid);
    let before = faults_of(pid);
    target.go().unwrap();
    target.wait_until_done().unwrap();
    let grown = faults_of(pid) - before;
    let counted: Value = serde_json::from_str(&counting.stop()).unwrap();
    let faults = &list(&counted, "sums")[0]["faults"];
    let [user, kernel] = ["user", "kernel"].map(|name| number(&faults[name]["count"]));
    assert!(user >= PAGES && kernel >= PAGES, "{counted}");
    assert!(
        grown >= 2 * PAGES && grown.abs_diff(user + kernel) < PAGES / 100,
        "{counted} {grown}"
    );
    let writes = number(&faults["user"]["write"]) + number(&faults["kernel"]["write"]);
    assert!((2 * PAGES..=user + kernel).contains(&writes), "{counted}");
}

/// Page faults of a process so far, as `/proc` has them.
fn faults_of(pid: i32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let behind = stat.rsplit_once(") ").unwrap().1;
    let words: Vec<&str> = behind.split(' ').collect();
    // Of the words from the state on, minflt is the 8th and majflt the 10th.
    words[7].parse::<u64>().unwrap() + words[9].parse::<u64>().unwrap()
}

#[test]
#[ignore = "loads eBPF"]
fn an_exec_by_a_thread_and_calls_that_a_kill_ends_are_borne() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = dist::compile("exec_by_thread", folder.path()).unwrap();
    let object = counted(&["--count"], &[program.to_str().unwrap()]);
    assert_whole(&object);
    let rows = list(&object, "sums");
    let of_all = calls(rows);
    // The thread goes on under the number of the process, and its call is the one that began.
    assert_eq!(
        (of_all["execve"].0, of_all["execveat"].0),
        (1, 1),
        "{of_all:?}"
    );
    let exec = list(&rows[0], "syscalls")
        .iter()
        .find(|call| call["name"] == "execveat");
    assert_eq!(exec.unwrap()["took"]["count"], 1, "{object}");
    // The kernel takes the thread out of its call before it ends it: by an error, where it was in
    // it.
    let script = "sleep 100 & sleep 0.2; kill -9 $!; wait; exit 0";
    let object = counted(&["--count", "--by", "comm"], &["sh", "-c", script]);
    assert_whole(&object);
    let rows = list(&object, "sums").iter();
    let sleeps: Vec<_> = rows.filter(|row| row["comm"] == "sleep").collect();
    assert_eq!(sleeps.len(), 1, "{object}");
    assert_eq!(calls(sleeps)["clock_nanosleep"], (2, 1), "{object}");
}

#[test]
#[ignore = "loads eBPF"]
fn each_interval_has_its_part_and_the_parts_add_up() {
    if missing_right().is_some() {
        return;
    }
    let mut stat = Command::new(dist::tracer_user().unwrap());
    stat.args([
        "stat",
        "--count=syscalls",
        "--interval",
        "200ms",
        "--format",
        "json",
        "--",
    ]);
    let script = "n=0; while [ $n -lt 20 ]; do sleep 0.05; n=$((n+1)); done";
    let output = stat.args(["sh", "-c", script]).output().unwrap();
    let shown = String::from_utf8(output.stderr).unwrap();
    let objects = shown.lines().filter(|line| line.starts_with('{'));
    let objects: Vec<Value> = objects
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let (total, parts) = objects.split_last().unwrap();
    assert!(
        parts.len() >= 4 && parts.iter().all(|part| part["is_interval"] == true),
        "{shown}"
    );
    assert_eq!(total["is_interval"], false);
    let all = calls(list(total, "sums"));
    assert_eq!(all["clock_nanosleep"], (20, 0), "{shown}");
    let of_parts = calls(parts.iter().flat_map(|part| list(part, "sums")));
    // The last part is shown with all.
    for (name, (count, errors)) in of_parts {
        assert!(count <= all[&name].0 && errors <= all[&name].1, "{name}");
        assert!(
            all[&name].0 - count <= all[&name].0 / 2 + 30,
            "{name} {count}"
        );
    }
    for pair in parts.windows(2) {
        assert!(number(&pair[0]["until_ns"]) <= number(&pair[1]["from_ns"]) + 200_000_000);
    }
}

#[test]
#[ignore = "loads eBPF"]
fn of_more_threads_than_there_are_sums_the_rest_is_counted_and_said() {
    const THREADS: u64 = 12_000;
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = dist::compile("short_threads", folder.path()).unwrap();
    let words = [program.to_str().unwrap(), &THREADS.to_string()];
    let object = counted(&["--count", "--by", "thread"], &words);
    assert!(
        number(&object["without_space"]["events"]) > THREADS,
        "no space is said"
    );
    assert_eq!(
        (&object["without_space"]["threads"], &object["lost"]),
        (&0.into(), &0.into())
    );
    // All together there is space, and each thread has its calls.
    let object = counted(&["--count"], &words);
    assert_whole(&object);
    let all = calls(list(&object, "sums"));
    assert_eq!(all["clone3"].0, THREADS, "{all:?}");
    assert!(all["set_robust_list"].0 > THREADS, "{all:?}");
}
