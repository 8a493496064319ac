//! Robots: an executor as that of ROS 2, with `libtracetools.so` preloaded in the place of another
//! one, beside what it has counted itself.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tests::dist::{self, Linkage};
use tests::{rights, tools};

/// Names that the original exports.
const EXPORTS: &str = include_str!("../../../tracer-posix/tracetools/exports.txt");

/// Events and fields as the original declares them.
const UPSTREAM: &str = include_str!("../../../tracer-posix/tracetools/upstream.txt");

/// Messages that are published; every tenth callback is late.
const MESSAGES: u64 = 100;

/// Compiles a library that has the original's names and does nothing, and an executor that is
/// linked with it.
fn executor(folder: &Path) -> PathBuf {
    let mut c = String::from("int ros_trace_compile_status(void) { return 1; }\n");
    for name in EXPORTS
        .lines()
        .filter(|name| *name != "ros_trace_compile_status")
    {
        c += &format!("void {name}(void) {{}}\n");
    }
    let source = folder.join("original.c");
    fs::write(&source, c).unwrap();
    let library = folder.join("libtracetools.so");
    let options = ["-shared", "-fPIC", "-Wl,-soname,libtracetools.so"];
    dist::compile_file("cc", &source, &library, &options, Linkage::Shared).unwrap();

    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs");
    let program = folder.join("executor");
    let here = folder.display();
    let options = [
        "-Wall",
        "-Wextra",
        "-Werror",
        "-Wl,--no-as-needed",
        &format!("-L{here}"),
        "-ltracetools",
        &format!("-Wl,-rpath,{here}"),
    ];
    let source = programs.join("robots/executor.c");
    dist::compile_file("cc", &source, &program, &options, Linkage::Shared).unwrap();
    program
}

fn tool(folder: &Path, arguments: &[&str]) -> String {
    let mut tool = Command::new(dist::tracer_user().unwrap());
    let output = tool.current_dir(folder).args(arguments).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {told}");
    String::from_utf8(output.stdout).unwrap()
}

fn json(folder: &Path, arguments: &[&str]) -> Value {
    serde_json::from_str(&tool(folder, arguments)).unwrap()
}

/// Returns each event of robots in the text of babeltrace2: its name, and the names of its context
/// and of its fields.
fn parse_babeltrace(printed: &str) -> Vec<(String, Vec<String>, Vec<String>)> {
    let names = |braces: &str| -> Vec<String> {
        let inner = braces.trim().trim_start_matches('{').trim_end_matches('}');
        let parts = inner
            .split(", ")
            .filter(|part| !part.trim().starts_with('['));
        let names = parts.filter_map(|part| Some(part.split_once(" = ")?.0.trim().to_owned()));
        names.collect()
    };
    let lines = printed.lines().filter(|line| line.contains(" ros2:"));
    lines
        .map(|line| {
            let (head, data) = line.split_once(": { ").unwrap();
            let (_, name) = head.rsplit_once(" ros2:").unwrap();
            let parts: Vec<&str> = data.split(" }, {").collect();
            let fields = parts.get(2).map(|fields| names(fields));
            (name.to_owned(), names(parts[1]), fields.unwrap_or_default())
        })
        .collect()
}

#[test]
#[ignore = "needs root"]
fn an_executor_is_traced_and_its_callbacks_are_spans() {
    if let Some(missing) = rights::missing_right() {
        println!("skipped: {missing}");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let program = executor(folder);
    let preloaded = dist::folder()
        .unwrap()
        .join("lib/posixtrace/libtracetools.so");
    let traced = Command::new(dist::tracer_user().unwrap())
        .current_dir(folder)
        .args(["run", "--log", "log", "--"])
        .arg(&program)
        .args([&MESSAGES.to_string(), "500", "late", "lock"])
        .env("LD_PRELOAD", preloaded)
        .output()
        .unwrap();
    let (said, told) = (
        String::from_utf8_lossy(&traced.stdout),
        String::from_utf8_lossy(&traced.stderr),
    );
    assert!(traced.status.success(), "{told}");
    assert!(told.contains(" 0 lost"), "{told}");
    let late = MESSAGES / 10;
    assert_eq!(
        said.lines().collect::<BTreeSet<_>>(),
        BTreeSet::from([
            &*format!("published {MESSAGES}"),
            &*format!("taken {MESSAGES} late {late}")
        ])
    );

    the_export_has_what_the_original_declares(folder);
    callbacks_are_spans(folder);
    late_callbacks_have_their_cause(folder, late);
}

fn the_export_has_what_the_original_declares(folder: &Path) {
    tool(folder, &["export", "log", "--to", "ctf", "-o", "ctf"]);
    // A switch that the kernel did not report is a warning.
    let (printed, _) = tools::babeltrace2(&[], &folder.join("ctf")).unwrap();
    let declared: BTreeMap<&str, Vec<&str>> = UPSTREAM
        .lines()
        .map(|line| {
            let mut words = line.split(' ');
            let name = words.next().unwrap();
            let fields = words.map(|word| word.split_once(':').unwrap().0);
            (name, fields.collect())
        })
        .collect();
    let mut counts = BTreeMap::<String, u64>::new();
    for (name, context, fields) in parse_babeltrace(&printed) {
        assert_eq!(fields, declared[&*name], "{name}");
        assert_eq!(context, ["vpid", "vtid", "cpu_id", "procname"], "{name}");
        *counts.entry(name).or_default() += 1;
    }
    for (name, count) in [
        ("rcl_init", 2),
        ("rcl_publish", MESSAGES),
        ("rmw_publish", MESSAGES),
        ("rmw_take", MESSAGES),
        ("rcl_take", MESSAGES),
        ("callback_start", 2 * MESSAGES),
        ("callback_end", 2 * MESSAGES),
        ("rclcpp_executor_get_next_ready", MESSAGES),
    ] {
        assert_eq!(counts.get(name), Some(&count), "{name}: {counts:?}");
    }
    for part in [
        "node_name = \"listener\", namespace = \"/\"",
        "topic_name = \"/chatter\", queue_depth = 10",
        "gid = [ [0] = 1, [1] = 15, [2] = 2,",
        "version = \"8.6.0\"",
        "period = 500000",
        "symbol = \"Listener::take(std::string const&)\"",
    ] {
        assert!(printed.contains(part), "{part}");
    }
}

fn callbacks_are_spans(folder: &Path) {
    let statistics = json(folder, &["stat", "log", "--json"]);
    let spans = statistics["spans"].as_array().unwrap();
    let counts: BTreeMap<&str, u64> = spans
        .iter()
        .map(|span| {
            let count = span["took"]["count"].as_u64().unwrap();
            (span["name"].as_str().unwrap(), count)
        })
        .filter(|(_, count)| *count > 0)
        .collect();
    let expected = [
        ("/chatter delivery", MESSAGES),
        ("/listener /chatter", MESSAGES),
        ("/talker timer 500us", MESSAGES),
    ];
    assert_eq!(counts, BTreeMap::from(expected));

    tool(folder, &["export", "log", "--to", "chrome", "-o", "json"]);
    let chrome = fs::read_to_string(folder.join("json")).unwrap();
    let slices = chrome.matches("\"name\":\"/listener /chatter\"").count();
    assert!(u64::try_from(slices).unwrap() >= MESSAGES, "{slices}");
}

/// Checks that each late callback, and no other, waited for a lock for the time that its holder
/// worked.
fn late_callbacks_have_their_cause(folder: &Path, late: u64) {
    let answer = json(
        folder,
        &[
            "why",
            "log",
            "--span",
            "/listener /chatter",
            "--slowest",
            &MESSAGES.to_string(),
            "--json",
        ],
    );
    let slowest = answer["slowest"].as_array().unwrap();
    assert_eq!(u64::try_from(slowest.len()).unwrap(), MESSAGES);
    let waited = slowest.iter().filter(|span| {
        let parts = span["parts"].as_array().unwrap();
        parts.iter().any(|part| {
            let ran = part["within"].as_array().into_iter().flatten();
            let ran = ran.filter(|within| within["state"] == "running");
            let ran: u64 = ran.filter_map(|within| within["ns"].as_u64()).sum();
            part["in"] == "futex" && part["state"] == "blocked" && ran > 10_000_000
        })
    });
    assert_eq!(u64::try_from(waited.count()).unwrap(), late);
}
