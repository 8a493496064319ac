//! Answers as JSON: of `doctor`, `info`, `events`, `probes` and `top --once`, beside what others
//! say of the same machine, file or program.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use serde_json::Value;
use tests::log_reader::{Log, integer, text};
use tests::rights::{is_root, missing_right};
use tests::target::Target;
use tests::{command, dist, made_slices, tools, wait_until};

fn tracer_user(arguments: &[&str]) -> Output {
    let mut command = Command::new(dist::tracer_user().unwrap());
    command.args(arguments).output().unwrap()
}

fn document(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap()
}

fn lines(output: &Output) -> Vec<Value> {
    let text = std::str::from_utf8(&output.stdout).unwrap();
    let lines = text.lines().map(serde_json::from_str);
    lines.collect::<Result<_, _>>().unwrap()
}

/// A command that runs a program as a user without rights.
fn without_rights(program: &Path) -> Command {
    if !is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    command.arg(program);
    command
}

/// Asks the kernel whether a process of this program would have any capability.
fn has_capabilities(program: &mut Command) -> bool {
    let status = command::text(program.args(["/proc/self/status"])).unwrap();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    u64::from_str_radix(effective.unwrap().trim(), 16).unwrap() != 0
}

#[test]
fn the_doctors_answer_is_that_of_its_exit_code_and_of_the_kernel() {
    let folder = tempfile::tempdir().unwrap();
    let everyones = dist::copy_for_everyone(folder.path()).unwrap();
    let release = command::text(Command::new("uname").arg("-r")).unwrap();
    let arguments = ["doctor", "--format", "json"];
    let with_all = tracer_user(&arguments);
    let mut with_none = without_rights(&everyones.join("bin/tracer-user"));
    let with_none = with_none.args(arguments).output().unwrap();
    for (output, mut cat) in [
        (with_all, Command::new("cat")),
        (with_none, without_rights(Path::new("cat"))),
    ] {
        let doctor = document(&output);
        let checks = doctor["checks"].as_array().unwrap();
        let of =
            |status: &'static str| checks.iter().filter(move |check| check["status"] == status);
        let missing = of("missing").count();
        assert_eq!(doctor["missing"], missing, "{doctor}");
        assert_eq!(output.status.code(), Some(if missing == 0 { 0 } else { 2 }));
        assert!(output.stderr.is_empty(), "{output:?}");
        assert!(of("ok").all(|check| check["remedy"].is_null()), "{doctor}");
        assert!(of("missing").all(|check| check["remedy"].is_string()));
        let found = |name: &str| checks.iter().find(|check| check["name"] == name).unwrap();
        assert!(text(found("kernel"), "found").contains(release.trim()));
        let is_allowed = found("capabilities")["status"] == "ok";
        assert_eq!(is_allowed, has_capabilities(&mut cat), "{doctor}");
        let library = text(found("user events: libposixtrace"), "found");
        let mut pkg_config = Command::new("pkg-config");
        if let Ok(version) = command::text(pkg_config.args(["--modversion", "posixtrace"])) {
            assert!(library.contains(version.trim()), "{library}");
        }
    }
}

#[test]
fn a_log_holds_what_babeltrace2_and_the_file_system_say() {
    let log = Log::written_by(made_slices::write).unwrap();
    let output = log.run("info", &["--format", "json"]).unwrap();
    let info = document(&output);
    let bytes = command::text(Command::new("stat").args(["-c", "%s"]).arg(log.path())).unwrap();
    assert_eq!(info["bytes"].to_string(), bytes.trim());

    let folder = log.export("ctf", &[]).unwrap();
    let (printed, _) = tools::babeltrace2(&["--no-delta", "--clock-seconds"], &folder).unwrap();
    let mut types: BTreeMap<String, u64> = BTreeMap::new();
    let mut threads: BTreeMap<(i64, i64), u64> = BTreeMap::new();
    for line in printed.lines() {
        let (name, rest) = line.split_once("] ").unwrap().1.split_once(": ").unwrap();
        *types.entry(name.to_owned()).or_default() += 1;
        let number = |key: &str| -> i64 {
            let value = rest.split_once(&format!(" {key} = ")).unwrap().1;
            value.split([',', ' ']).next().unwrap().parse().unwrap()
        };
        *threads.entry((number("pid"), number("tid"))).or_default() += 1;
    }
    let counted = info["events"].as_object().unwrap().iter();
    let counted: BTreeMap<String, u64> = counted
        .map(|(name, count)| (name.clone(), count.as_u64().unwrap()))
        .collect();
    assert_eq!(counted, types);
    assert_eq!(info["event_count"], types.values().sum::<u64>());
    let of_threads = info["threads"].as_array().unwrap().iter();
    let of_threads: BTreeMap<(i64, i64), u64> = of_threads
        .map(|thread| {
            let ids = (integer(thread, "pid"), integer(thread, "tid"));
            (ids, thread["events"].as_u64().unwrap())
        })
        .collect();
    threads.retain(|_, count| *count > 0);
    assert_eq!(of_threads, threads);
}

#[test]
#[ignore = "needs root"]
fn tracepoints_are_those_that_bpftrace_lists() {
    if missing_right().is_some() {
        return;
    }
    let output = tracer_user(&["events", "--tracepoints", "sched:*", "--format", "json"]);
    let listed: BTreeSet<String> = lines(&output)
        .iter()
        .map(|line| {
            format!(
                "tracepoint:{}:{}",
                text(line, "category"),
                text(line, "name")
            )
        })
        .collect();
    let known = command::text(Command::new("bpftrace").args(["-l", "tracepoint:sched:*"]));
    let known: BTreeSet<String> = known.unwrap().lines().map(str::to_owned).collect();
    assert!(known.len() > 10, "{known:?}");
    assert_eq!(listed, known);

    let known = command::text(Command::new("bpftrace").args(["-l", "tracepoint:*"])).unwrap();
    for line in lines(&tracer_user(&["events", "--format", "json"])) {
        let is_there = |name: &str| {
            known
                .lines()
                .any(|line| line.ends_with(&format!(":{name}")))
        };
        match line["available"].as_bool() {
            Some(true) => assert!(line.get("missing").is_none(), "{line}"),
            Some(false) => assert!(!is_there(text(&line, "missing")), "{line}"),
            None => panic!("root knows: {line}"),
        }
        let family = text(&line, "family");
        if ["fork", "exec", "exit", "switch"].contains(&family) {
            assert_eq!(line["available"], is_there("sched_switch"), "{line}");
        }
    }
}

#[test]
fn a_file_is_stripped_where_readelf_finds_no_table_of_symbols() {
    let folder = tempfile::tempdir().unwrap();
    let program = dist::compile("probed", folder.path()).unwrap();
    let stripped = folder.path().join("stripped");
    let mut strip = Command::new("strip");
    strip.arg("-o").arg(&stripped).arg(&program);
    assert!(strip.status().unwrap().success());
    let mut found = BTreeSet::new();
    for file in [&program, &stripped] {
        let sections = command::text(Command::new("readelf").args(["-S", "-W"]).arg(file));
        let is_stripped = !sections.unwrap().contains(".symtab");
        let output = tracer_user(&["probes", "--format", "json", file.to_str().unwrap()]);
        let points = lines(&output);
        assert!(points.iter().any(|point| point["kind"] == "usdt"));
        for point in points {
            assert_eq!(point["stripped"], is_stripped, "{point}");
        }
        found.insert(is_stripped);
    }
    assert_eq!(found.len(), 2);
    // The word that some commands had before all had a format.
    let path = program.to_str().unwrap();
    let (old, new) = (
        ["probes", "--json", path],
        ["probes", "--format=json", path],
    );
    assert_eq!(tracer_user(&old).stdout, tracer_user(&new).stdout);
}

/// The words in the first columns of the tables below headings of the page of members.
fn described(headings: &[&str]) -> BTreeSet<String> {
    let page = include_str!("../../../docs/json-members.md");
    let rows_below = |heading: &&str| {
        let (_, below) = page.split_once(&format!("\n## {heading}\n")).unwrap();
        let section = below.split("\n## ").next().unwrap_or_default();
        // Those that may not be there are slanted.
        let rows = section.lines().filter_map(|line| line.strip_prefix("| "));
        rows.filter(|row| row.starts_with(['`', '*']))
    };
    let cells = headings
        .iter()
        .flat_map(rows_below)
        .filter_map(|row| row.split(" | ").next());
    cells
        .map(|cell| cell.trim_matches(['`', '*']).to_owned())
        .collect()
}

fn members(object: &Value) -> BTreeSet<String> {
    object.as_object().unwrap().keys().cloned().collect()
}

/// The objects that a command writes: one, or one a line.
fn objects(output: &Output) -> Vec<Value> {
    match serde_json::from_slice(&output.stdout) {
        Ok(one) => vec![one],
        Err(_) => lines(output),
    }
}

#[test]
fn every_object_has_the_version_and_no_member_is_not_described() {
    let folder = tempfile::tempdir().unwrap();
    let program = dist::compile("probed", folder.path()).unwrap();
    let program = program.to_str().unwrap();
    let log = Log::written_by(made_slices::write).unwrap();
    let path = log.path();
    let path = path.to_str().unwrap();
    for (arguments, headings) in [
        (&["doctor"][..], &["machine"][..]),
        (&["events"], &["event_type"]),
        (&["events", "--tracepoints"], &["tracepoint"]),
        (&["probes", program], &["probe"]),
        (&["info", path], &["log"]),
        (&["explain", path], &["explanation"]),
        (&["read", path], &["event", "end_of_events", "summary"]),
        (&["stat", path], &["statistics"]),
        (&["why", path], &["reasons"]),
        (&["top", "--once", path], &["screen"]),
    ] {
        let output = tracer_user(&[arguments, &["--format", "json"]].concat());
        // Without rights the tool cannot list tracepoints.
        if arguments.contains(&"--tracepoints") && output.status.code() == Some(2) {
            continue;
        }
        let mut described = described(headings);
        described.insert("schema".to_owned());
        let mut written = BTreeSet::new();
        for object in objects(&output) {
            assert_eq!(object["schema"], 1, "{arguments:?}: {object}");
            let mut members = members(&object);
            if let Some(summary) = object.get("summary") {
                members.remove("summary");
                members.extend(self::members(summary));
            }
            assert!(members.is_subset(&described), "{arguments:?}: {members:?}");
            written.extend(members);
        }
        assert!(written.len() >= 3, "{arguments:?}: {written:?}");
    }
    let page = include_str!("../../../docs/json.md");
    assert!(page.contains("\n| 1 | JSON has a version |\n"));
}

/// Counters of a thread in `/proc`: its name, how long it has run, and how often it left its CPU.
struct Counted {
    comm: String,
    ran_ns: u64,
    switches: u64,
}

/// The threads of a process, as `/proc` has them now.
fn in_proc(pid: i32) -> BTreeMap<i64, Counted> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let threads = threads.map(|thread| {
        let path = thread.unwrap().path();
        let read = |file: &str| std::fs::read_to_string(path.join(file)).unwrap();
        let ran = read("schedstat");
        let status = read("status");
        let switches = status
            .lines()
            .filter_map(|line| line.split_once("_ctxt_switches:"));
        let counted = Counted {
            comm: read("comm").trim_end().to_owned(),
            ran_ns: ran.split(' ').next().unwrap().parse().unwrap(),
            switches: switches
                .map(|(_, count)| count.trim().parse::<u64>().unwrap())
                .sum(),
        };
        let tid = path.file_name().unwrap().to_str().unwrap();
        (tid.parse().unwrap(), counted)
    });
    threads.collect()
}

#[test]
#[ignore = "loads eBPF"]
fn the_threads_of_a_screen_are_those_of_proc_and_did_no_more_than_it_says() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = dist::compile("named_threads", folder.path()).unwrap();
    let (target, _) = Target::start(Command::new(program).arg("5")).unwrap();
    let pid = target.pid().to_string();
    let all_have_names = || {
        let threads = in_proc(target.pid()).into_values();
        Ok(threads
            .filter(|thread| thread.comm.starts_with("row "))
            .nth(4))
    };
    wait_until("their names", Duration::from_secs(60), all_have_names).unwrap();
    let before = in_proc(target.pid());
    let mut options = vec!["top", "--once", "--format", "json", "--window", "all"];
    options.extend(["--duration", "1s", "-p", &pid]);
    let output = tracer_user(&options);
    let after = in_proc(target.pid());
    let screen = document(&output);

    let rows = screen["threads"].as_array().unwrap();
    let of_rows = rows
        .iter()
        .map(|row| (integer(row, "tid"), text(row, "comm").to_owned()));
    let of_proc = after
        .iter()
        .map(|(tid, counted)| (*tid, counted.comm.clone()));
    // By their numbers, which is the order of the rows too.
    assert_eq!(
        of_rows.collect::<Vec<_>>(),
        of_proc.collect::<Vec<_>>(),
        "{screen}"
    );
    let mut running = 0;
    for row in rows {
        let (before, after) = (&before[&integer(row, "tid")], &after[&integer(row, "tid")]);
        assert_eq!(row["pid"].to_string(), pid);
        let number = |key: &str| row[key].as_u64().unwrap();
        assert!(number("switches") <= after.switches - before.switches);
        assert!(number("wakeups") <= number("switches") + 1, "{row}");
        running += number("running_ns");
        let states = ["running", "runnable", "blocked", "stopped", "unknown"];
        let all: u64 = states
            .map(|state| number(&format!("{state}_ns")))
            .iter()
            .sum();
        assert!(all <= screen["window_ns"].as_u64().unwrap(), "{row}");
        let is_row = text(row, "comm").starts_with("row ");
        assert_eq!(is_row, number("switches") > 0, "{row}");
        assert!(row["now"]["state"].is_string(), "{row}");
    }
    let ran = |of: &BTreeMap<i64, Counted>| of.values().map(|thread| thread.ran_ns).sum::<u64>();
    // A run is longer by the tracer's clock than by that of `/proc`, by the choice of the next
    // thread.
    let most = (ran(&after) - ran(&before)) * 3 / 2;
    assert!(0 < running && running <= most, "{running} {most}");
    target.end().unwrap();
}

#[test]
fn a_screen_of_a_log_has_the_figures_of_stat() {
    let log = Log::written_by(made_slices::write).unwrap();
    let options = ["--once", "--window", "all", "--format", "json"];
    let screen = document(&log.run("top", &options).unwrap());
    let stat = document(&log.run("stat", &["--format", "json"]).unwrap());
    for key in ["lost", "not_reported", "has_switches", "has_wakeups"] {
        assert_eq!(screen[key], stat[key], "{key}");
    }
    let rows = screen["threads"].as_array().unwrap();
    let mut compared = 0;
    for of in stat["threads"].as_array().unwrap() {
        let is_it = |row: &&Value| {
            let times = ["running_ns", "runnable_ns", "blocked_ns", "stopped_ns"];
            ["pid", "tid", "comm"]
                .iter()
                .chain(&times)
                .all(|key| row[*key] == of[*key])
        };
        let row = rows
            .iter()
            .find(is_it)
            .unwrap_or_else(|| panic!("{of}: {screen}"));
        assert_eq!(row["longest_wakeup_ns"], of["wakeups"]["max_ns"], "{of}");
        compared += 1;
    }
    assert!(compared > 1, "{compared}");
    let kinds = stat["spans"].as_array().unwrap();
    for (of, row) in kinds.iter().zip(screen["spans"].as_array().unwrap()) {
        for key in ["count", "total_ns", "p50_ns", "p99_ns", "max_ns"] {
            assert_eq!(row["took"][key], of["took"][key], "{of}");
        }
    }
}
