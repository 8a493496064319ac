//! Slow programs with a cause that was put in on purpose: one command, or two, and what it says.
//! `tests/programs/slow/README.md` has them in a table.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use tests::cgroup::Cgroup;
use tests::dist::{self, Linkage};
use tests::rights::missing_right;
use tests::target::Target;

/// One of the programs, and a folder on a disk for what it writes.
struct Slow {
    folder: TempDir,
    command: Vec<PathBuf>,
}

impl Slow {
    fn new(name: &str) -> Self {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/slow");
        let source = sources.join(name);
        let command = match source.extension().and_then(OsStr::to_str) {
            Some("py") => vec!["python3".into(), source],
            Some("sh") => vec!["sh".into(), source],
            _ => {
                let options = ["-g", "-lresolv"];
                let into = folder.path();
                vec![dist::compile_from(&sources, name, into, &options, Linkage::Shared).unwrap()]
            }
        };
        Self { folder, command }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// The answer of `tracer-user` with these options, of the program with these arguments.
    fn ask<A: AsRef<OsStr>>(&self, options: &[&str], arguments: &[A]) -> String {
        let output = Command::new(dist::tracer_user().unwrap())
            .args(options)
            .arg("--")
            .args(&self.command)
            .args(arguments)
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    }

    fn why<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Why {
        Why(self.ask(&["why", "--whole", "--brief"], arguments))
    }
}

/// An answer of `why`.
struct Why(String);

impl Why {
    /// The share of all time that lines with these words have, in percent.
    fn share(&self, words: &str) -> f64 {
        let with_words = self.0.lines().filter(|line| line.contains(words));
        let shares = with_words.filter_map(|line| {
            let before = line.split_once(" %")?.0;
            before.rsplit(' ').next()?.parse::<f64>().ok()
        });
        shares.sum()
    }

    fn has_most(&self, words: &str) {
        self.has(words, 50.0);
    }

    fn has(&self, words: &str, least: f64) {
        let share = self.share(words);
        assert!(share >= least, "{words}: {share}\n{}", self.0);
    }
}

const NOTHING: [&str; 0] = [];

/// The number in a column of the first line that begins with a word.
fn column(said: &str, word: &str, column: usize) -> u64 {
    let line = said.lines().find(|line| line.starts_with(word));
    let value = line.and_then(|line| line.split_whitespace().nth(column));
    value
        .and_then(|value| value.parse().ok())
        .unwrap_or_else(|| panic!("no {word}: {said}"))
}

#[test]
#[ignore = "loads eBPF"]
fn a_row_that_is_locked_says_who_has_it() {
    if missing_right().is_some() {
        return;
    }
    let said = Slow::new("row_lock").why(&NOTHING);
    said.has_most("blocked in fcntl, woken by holder");
}

#[test]
#[ignore = "loads eBPF"]
fn a_slow_disk_is_waited_for_in_fdatasync() {
    if missing_right().is_some() {
        return;
    }
    let slow = Slow::new("slow_disk");
    let said = slow.ask(&["stat", "--syscalls", "write,fdatasync"], &[slow.file()]);
    assert_eq!(column(&said, "fdatasync", 1), 450, "{said}");
    let line = said.lines().find(|line| line.starts_with("slow_disk"));
    assert!(line.unwrap().contains("fdatasync"), "{said}");
}

#[test]
#[ignore = "loads eBPF"]
fn a_slow_command_of_a_program_has_the_time_that_it_takes() {
    if missing_right().is_some() {
        return;
    }
    let said = Slow::new("slow_command").why(&NOTHING);
    said.has_most("blocked in wait4, woken by sleep");
}

#[test]
#[ignore = "loads eBPF"]
fn a_snapshot_by_fork_costs_a_page_fault_for_each_page_that_is_written_to() {
    if missing_right().is_some() {
        return;
    }
    let said = Slow::new("fork_snapshot").ask(
        &["stat", "--add-events", "fault", "--ring-size", "32M"],
        &NOTHING,
    );
    // Each page is touched once before, and copied once after.
    let faults = said.split("page faults").nth(1).unwrap();
    let count = column(faults, "fork_snapshot", 2);
    assert!((40_000..42_000).contains(&count), "{said}");
}

#[test]
#[ignore = "loads eBPF"]
fn a_name_server_that_does_not_answer_is_waited_for_in_poll() {
    if missing_right().is_some() {
        return;
    }
    let said = Slow::new("dns").why(&NOTHING);
    said.has("blocked in poll, woken by a timer", 90.0);
}

#[test]
#[ignore = "loads eBPF"]
fn a_quota_of_a_control_group_is_told_as_the_kernel_counts_it() {
    if missing_right().is_some() {
        return;
    }
    let group = Cgroup::with("cpu").unwrap();
    let slow = Slow::new("cpu_quota");
    let said = slow.why(&[group.path()]);
    said.has("throttled by its control group", 30.0);
    let (times, ns) = group.throttled().unwrap();
    assert!(times > 0 && ns > 0);

    let said = slow.ask(&["stat", "--format", "json"], &[group.path()]);
    // What the tracer says comes behind it.
    let mut values = serde_json::Deserializer::from_str(&said).into_iter::<serde_json::Value>();
    let value = values.next().unwrap().unwrap();
    let told = value["threads"][0]["throttled_ns"].as_u64().unwrap();
    let (_, both) = group.throttled().unwrap();
    let counted = both - ns;
    // Told is until the thread has a CPU again, counted until it may have one.
    assert!(told.abs_diff(counted) < counted / 5, "{told} {counted}");
}

/// The path of a group from the root of its hierarchy, as JSON has it.
fn path_from_root(group: &Cgroup, within: &str) -> serde_json::Value {
    let name = group.path().file_name().unwrap().to_str().unwrap();
    format!("/{name}{within}").into()
}

/// The groups by which the threads of an answer of `stat` were throttled, the longest first.
fn throttled_by(answer: &serde_json::Value) -> Vec<serde_json::Value> {
    let groups = answer["throttled_by"].as_array().unwrap().iter();
    groups.map(|of| of["group"].clone()).collect()
}

#[test]
#[ignore = "loads eBPF"]
fn the_group_is_named_that_has_the_quota_and_not_one_within_it() {
    if missing_right().is_some() {
        return;
    }
    let outer = Cgroup::with("cpu").unwrap();
    let inner = outer.child("inner").unwrap();
    let innermost = inner.child("most").unwrap();
    let slow = Slow::new("cpu_quota");
    let groups = [outer.path(), innermost.path()];

    let said = slow.why(&groups);
    let path = path_from_root(&outer, "");
    let name = path.as_str().unwrap();
    let words = format!("throttled by its control group {name} (cpu.max)");
    said.has(&words, 30.0);
    assert!(outer.throttled().unwrap().0 > 0);

    let said = slow.ask(&["stat"], &groups);
    let (_, table) = said.split_once("by control group (cpu.max)\n").unwrap();
    let row = table.lines().next().unwrap();
    assert_eq!(row.split_whitespace().last(), Some(name), "{said}");
    // A quota of its own, that is used up first.
    let groups = [inner.path(), innermost.path()];
    let said = slow.ask(&["stat", "--format", "json"], &groups);
    let mut values = serde_json::Deserializer::from_str(&said).into_iter::<serde_json::Value>();
    let value = values.next().unwrap().unwrap();
    let of_inner = path_from_root(&outer, "/inner");
    assert!(throttled_by(&value).contains(&of_inner), "{value}");
}

#[test]
#[ignore = "loads eBPF"]
fn each_of_two_groups_with_quotas_is_named_for_its_own_processes_in_a_log_and_on_its_page() {
    if missing_right().is_some() {
        return;
    }
    let groups = [Cgroup::with("cpu").unwrap(), Cgroup::with("cpu").unwrap()];
    let slow = Slow::new("cpu_quota");
    let log = slow.file();
    let script = r#""$0" "$1" & "$0" "$2" & wait"#;
    let run = Command::new(dist::tracer_user().unwrap())
        .args(["run", "--log"])
        .arg(&log)
        .args(["--", "sh", "-c", script])
        .arg(&slow.command[0])
        .args(groups.iter().map(Cgroup::path))
        .output()
        .unwrap();
    assert!(run.status.success(), "{run:?}");
    let paths = groups.each_ref().map(|group| path_from_root(group, ""));
    let mut counted = [0, 0];
    for (count, group) in counted.iter_mut().zip(&groups) {
        *count = group.throttled().unwrap().0;
    }
    // The log is read elsewhere, where these groups are not.
    drop(groups);

    let of_log = |options: &[&str]| {
        let said = Command::new(dist::tracer_user().unwrap())
            .args(options)
            .arg(&log)
            .output()
            .unwrap();
        assert!(said.status.success(), "{said:?}");
        String::from_utf8(said.stdout).unwrap()
    };
    let value: serde_json::Value =
        serde_json::from_str(&of_log(&["stat", "--format", "json"])).unwrap();
    let threads = value["threads"].as_array().unwrap().iter();
    let mut named: Vec<_> = threads
        .map(throttled_by)
        .filter(|by| !by.is_empty())
        .collect();
    named.sort_by_key(|by| paths.iter().position(|path| *path == by[0]));
    assert_eq!(named, [[paths[0].clone()], [paths[1].clone()]], "{value}");

    // As often as the kernel counts it: a thread is throttled at once, or has left its CPU before.
    let events = of_log(&["read", "--format", "json"]);
    let events = events
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    let events: Vec<serde_json::Value> = events.collect();
    for (path, counted) in paths.iter().zip(counted) {
        let of_path = events.iter().filter(|event| {
            event["type"] == "linux_trace_throttle" && event["data"]["path"] == *path
        });
        let times = of_path.count() as u64;
        assert!(times > counted / 2 && times <= counted, "{times} {counted}");
    }
    let page = slow.folder.path().join("page.html");
    let report = Command::new(dist::tracer_user().unwrap())
        .arg("report")
        .arg(&log)
        .arg("-o")
        .arg(&page)
        .output()
        .unwrap();
    assert!(report.status.success(), "{report:?}");
    let page = tests::tools::report(&page).unwrap();
    let codes = page.pointer("/header/codes").unwrap().as_array().unwrap();
    for path in &paths {
        assert!(codes.iter().any(|code| code["group"] == *path), "{codes:?}");
    }
}

#[test]
#[ignore = "loads eBPF"]
fn top_names_the_group_for_which_a_thread_waits_now() {
    if missing_right().is_some() {
        return;
    }
    let group = Cgroup::with("cpu").unwrap();
    let slow = Slow::new("cpu_quota");
    let path = path_from_root(&group, "");
    let mut again_and_again = Command::new("sh")
        .args(["-c", r#"while "$0" "$1"; do :; done"#])
        .arg(&slow.command[0])
        .arg(group.path())
        .spawn()
        .unwrap();
    // It waits for four fifths of the time: any look may find it running.
    let is_named = (0..20).any(|_| {
        let said = Command::new(dist::tracer_user().unwrap())
            .args(["top", "--once", "--duration", "500ms", "--format", "json"])
            .args(["--pid", &again_and_again.id().to_string()])
            .output()
            .unwrap();
        let value: serde_json::Value = serde_json::from_slice(&said.stdout).unwrap();
        let threads = value["threads"].as_array().unwrap();
        let now = threads.iter().map(|thread| &thread["now"]);
        now.into_iter()
            .any(|now| now["wait"] == "throttled" && now["group"] == path)
    });
    again_and_again.kill().unwrap();
    again_and_again.wait().unwrap();
    assert!(is_named);
}

#[test]
#[ignore = "loads eBPF"]
fn a_budget_that_is_used_up_is_told_as_long_as_the_program_had_no_cpu() {
    if missing_right().is_some() {
        return;
    }
    let slow = Slow::new("deadline");
    let output = Command::new(dist::tracer_user().unwrap())
        .args(["stat", "--format", "json", "--"])
        .args(&slow.command)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let without: u64 = String::from_utf8(output.stdout)
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    let mut values = serde_json::Deserializer::from_str(&said).into_iter::<serde_json::Value>();
    let value = values.next().unwrap().unwrap();
    let told = value["threads"][0]["throttled_ns"].as_u64().unwrap();
    assert!(told.abs_diff(without) < without / 5, "{told} {without}");
    assert!(throttled_by(&value).is_empty(), "{value}");

    let said = slow.why(&NOTHING);
    said.has_most("throttled, its deadline budget used up");
}

#[test]
#[ignore = "loads eBPF"]
fn a_noisy_neighbour_is_named() {
    if missing_right().is_some() {
        return;
    }
    let said = Slow::new("noisy_neighbour").why(&NOTHING);
    // Both have a half of what others leave of the CPU.
    let (ran, gave_way) = (
        said.share("  ran "),
        said.share("had to give way to neighbour"),
    );
    assert!(gave_way > ran / 2.0, "{gave_way} {ran}\n{}", said.0);
}

#[test]
#[ignore = "loads eBPF"]
fn major_page_faults_wait_for_a_device() {
    if missing_right().is_some() {
        return;
    }
    let slow = Slow::new("major_faults");
    let said = slow.why(&[slow.file()]);
    said.has("blocked in page fault for a device", 15.0);
}

#[test]
#[ignore = "loads eBPF"]
fn a_lock_that_all_need_is_waited_for_in_futex_behind_each_other() {
    if missing_right().is_some() {
        return;
    }
    let said = Slow::new("lock_convoy").ask(&["stat"], &NOTHING);
    let mostly = said.lines().filter(|line| line.starts_with("convoy"));
    assert!(mostly.clone().count() == 8, "{said}");
    assert!(mostly.clone().all(|line| line.contains("futex")), "{said}");
}

#[test]
#[ignore = "loads eBPF"]
fn io_uring_waits_for_its_workers_which_wait_for_a_device() {
    if missing_right().is_some() {
        return;
    }
    let slow = Slow::new("uring");
    let said = slow.why(&[slow.file()]);
    said.has("blocked in io_uring_enter, woken by iou-wrk", 80.0);
}

#[test]
#[ignore = "loads eBPF"]
fn the_slack_of_timers_is_seen_in_how_long_a_sleep_takes() {
    if missing_right().is_some() {
        return;
    }
    let slow = Slow::new("timer_slack");
    slow.why(&NOTHING)
        .has("blocked in clock_nanosleep, woken by a timer", 80.0);
    let said = slow.ask(&["stat", "--syscalls", "clock_nanosleep"], &NOTHING);
    assert_eq!(column(&said, "clock_nanosleep", 1), 60, "{said}");
    // 50 us were asked for.
    let line = said
        .lines()
        .find(|line| line.starts_with("clock_nanosleep"));
    assert!(line.unwrap().contains(" ms"), "{said}");
}

#[test]
#[ignore = "loads eBPF"]
fn a_busy_event_loop_runs_and_asks_again_and_again() {
    if missing_right().is_some() {
        return;
    }
    let slow = Slow::new("busy_loop");
    slow.why(&["2000000"]).has("  ran ", 20.0);
    let options = ["stat", "--syscalls", "epoll_wait", "--ring-size", "32M"];
    let said = slow.ask(&options, &["50000"]);
    assert_eq!(column(&said, "epoll_wait", 1), 50_000, "{said}");
}

#[test]
#[ignore = "loads eBPF"]
fn the_interpreters_lock_is_waited_for_behind_the_thread_that_computes() {
    if missing_right().is_some() {
        return;
    }
    let said = Slow::new("gil.py").why(&["one-cpu"]);
    // Timeouts after which the interpreter asks again end no wait.
    let timers = said.share("blocked in futex, woken by a timer");
    let computes = said.share("blocked in futex, woken by computes");
    assert!(timers < computes / 4.0, "{}", said.0);
}

#[test]
#[ignore = "loads eBPF"]
fn a_storm_of_processes_is_summed_up_by_their_names() {
    if missing_right().is_some() {
        return;
    }
    let slow = Slow::new("fork_storm.sh");
    let why = slow.why(&NOTHING).0;
    let mut rest = why
        .lines()
        .filter(|line| line.contains("others, each shorter, mostly"));
    assert!(rest.any(|line| line.contains(" processes)")), "{why}");
    assert!(why.lines().count() <= 40, "{why}");
    let stat = slow.ask(&["stat"], &NOTHING);
    assert!(
        stat.contains("\nsed (150) ") && stat.contains("\ntr (150) "),
        "{stat}"
    );
}

#[test]
#[ignore = "loads eBPF"]
fn a_deadlock_is_seen_though_nothing_happens() {
    if missing_right().is_some() {
        return;
    }
    let slow = Slow::new("deadlock");
    let (target, _) = Target::start(&mut Command::new(&slow.command[0])).unwrap();
    let pid = target.pid().to_string();
    let output = Command::new(dist::tracer_user().unwrap())
        .args(["stat", "--duration", "1s", "-p", &pid])
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(
        said.contains("None of its 2 threads ran in this second; they wait in futex (2)."),
        "{said}"
    );
}
