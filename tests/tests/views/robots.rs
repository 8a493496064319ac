//! Robots: an executor as that of ROS 2, with `libtracetools.so` preloaded in the place of another
//! one, beside what it has counted itself.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use tests::cgroup::Cgroup;
use tests::dist::{self, Linkage};
use tests::terminal::Terminal;
use tests::{rights, tools};

/// Names that the original exports.
const EXPORTS: &str = include_str!("../../../tracer-posix/tracetools/exports.txt");

/// Events and fields as the original declares them.
const UPSTREAM: &str = include_str!("../../../tracer-posix/tracetools/upstream.txt");

/// Messages that are published; every tenth callback is late.
const MESSAGES: u64 = 100;

/// Compiles a library that has the original's names and does nothing, and a program of
/// `programs/robots` that is linked with it.
fn executor(folder: &Path, name: &str) -> PathBuf {
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
    let program = folder.join(name);
    let here = folder.display();
    let options = [
        "-Wall",
        "-Wextra",
        "-Werror",
        "-Wl,--no-as-needed",
        &format!("-L{here}"),
        "-ltracetools",
        &format!("-Wl,-rpath,{here}"),
        "-pthread",
    ];
    let source = programs.join("robots").join(format!("{name}.c"));
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
    let program = executor(folder, "executor");
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
    the_second_version_has_what_the_first_has(folder);
    callbacks_are_spans(folder);
    top_has_each_callback_with_its_figures(folder, late);
    the_page_has_a_lane_for_each_node(folder);
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

/// Compares CTF 2, as a reader that goes by its description alone shows it, with CTF 1.8, as
/// babeltrace2 does: each event with its time, and those of robots with contexts and fields. (Of
/// others babeltrace2 shows a text that is empty as that of the event before.)
fn the_second_version_has_what_the_first_has(folder: &Path) {
    tool(folder, &["export", "log", "--to", "ctf2", "-o", "ctf2"]);
    let reader = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/robots/ctf2.py");
    let mut read = Command::new("python3");
    let read = read.arg(reader).arg(folder.join("ctf2")).output().unwrap();
    let told = String::from_utf8_lossy(&read.stderr);
    assert!(read.status.success(), "{told}");
    let second = String::from_utf8(read.stdout).unwrap();

    let options = ["--clock-seconds", "--no-delta", "--fields=trace:hostname"];
    let (first, _) = tools::babeltrace2(&options, &folder.join("ctf")).unwrap();
    // `[1764230400.123456789] NAME: { … }, { … }`.
    let first: Vec<String> = first
        .lines()
        .map(|line| {
            let (time, rest) = line.trim_start_matches('[').split_once("] ").unwrap();
            format!("{} {rest}", time.replace('.', ""))
        })
        .collect();
    let second: Vec<&str> = second.lines().collect();
    assert_eq!(first.len(), second.len());
    let mut robots = 0;
    for (one, other) in first.iter().zip(&second) {
        if one.contains(" ros2:") {
            assert_eq!(one, other);
            robots += 1;
        } else {
            let head = |line: &str| line.split(": ").next().map(str::to_owned);
            assert_eq!(head(one), head(other));
        }
    }
    assert!(robots > 10 * MESSAGES, "{robots}");
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

/// Returns the figures of a span in the text of `top`: how many, how many a second, and in
/// nanoseconds p50, p99 and the longest.
fn figures(screen: &str, span: &str) -> Option<(u64, f64, [f64; 3])> {
    let mut lines = screen.lines();
    let figures = lines.find_map(|line| line.strip_prefix(span)?.strip_prefix(' '))?;
    let words: Vec<&str> = figures.split_whitespace().collect();
    let time = |at: usize| -> Option<f64> {
        let units = [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];
        let (_, unit) = units
            .iter()
            .find(|(unit, _)| words.get(at + 1) == Some(unit))?;
        Some(words.get(at)?.parse::<f64>().ok()? * unit)
    };
    let (count, rate) = (words.first()?.parse().ok()?, words.get(1)?.parse().ok()?);
    Some((count, rate, [time(2)?, time(4)?, time(6)?]))
}

/// Checks `top` by what the program counts and does: each tenth callback of the subscription waits
/// for 20 ms of another thread's work.
fn check_top(screen: &str, late: u64, seconds: std::ops::Range<f64>) {
    for span in ["/listener /chatter", "/talker timer 500us"] {
        let (count, rate, [p50, p99, longest]) =
            figures(screen, span).unwrap_or_else(|| panic!("{span}: {screen}"));
        assert_eq!(count, MESSAGES, "{span}: {screen}");
        let all = seconds.clone();
        #[expect(clippy::cast_precision_loss, reason = "a hundred")]
        let times = [all.end, all.start].map(|seconds| MESSAGES as f64 / seconds);
        assert!((times[0]..=times[1]).contains(&rate), "{times:?}: {screen}");
        assert!(p50 <= p99 && p99 <= longest, "{screen}");
        if span == "/listener /chatter" {
            assert_eq!(late * 10, MESSAGES);
            assert!(p50 < 20e6 && p99 >= 20e6 && longest < 2e9, "{screen}");
        }
    }
}

fn top_has_each_callback_with_its_figures(folder: &Path, late: u64) {
    let screen = tool(folder, &["top", "log", "--once", "--window", "all"]);
    // Waiting for the time between two messages, and for each late one, takes that long at least.
    check_top(&screen, late, 0.2..60.0);

    let object = json(
        folder,
        &[
            "top", "log", "--once", "--window", "all", "--format", "json",
        ],
    );
    let spans = object["spans"].as_array().unwrap();
    let found = spans.iter().find(|of| of["name"] == "/listener /chatter");
    let took = &found.unwrap()["took"];
    assert_eq!(took["count"], MESSAGES, "{took}");
    let total = took["total_ns"].as_u64().unwrap();
    assert!(
        (late * 20_000_000..60_000_000_000).contains(&total),
        "{took}"
    );
}

/// Returns each callback and message of a node, and how many there are.
fn counted(node: &Value) -> BTreeMap<&str, u64> {
    let mut counts = BTreeMap::new();
    for callback in node["callbacks"].as_array().unwrap() {
        *counts.entry(callback[0].as_str().unwrap()).or_default() += 1;
    }
    for message in node["messages"].as_array().unwrap() {
        *counts.entry(message.as_str().unwrap()).or_default() += 1;
    }
    counts
}

fn the_page_has_a_lane_for_each_node(folder: &Path) {
    tool(folder, &["report", "log", "-o", "page.html"]);
    let page = tools::report(&folder.join("page.html")).unwrap();
    let lanes: BTreeSet<&str> = page["lanes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|lane| lane.as_str().unwrap())
        .collect();
    assert_eq!(lanes, BTreeSet::from(["/listener", "/talker"]));
    let nodes = page["nodes"].as_array().unwrap();
    assert_eq!(nodes.len(), lanes.len());
    let of = |label: &str| {
        let node = nodes.iter().find(|node| node["label"] == label);
        counted(node.unwrap())
    };
    assert_eq!(
        of("/listener"),
        BTreeMap::from([
            ("/listener /chatter", MESSAGES),
            ("ros2 taken /chatter", MESSAGES)
        ])
    );
    assert_eq!(
        of("/talker"),
        BTreeMap::from([
            ("/talker timer 500us", MESSAGES),
            ("ros2 published /chatter", MESSAGES)
        ])
    );
    // What a message carries is in words, though its event has another name here.
    let threads = page["threads"].as_array().unwrap().iter();
    let mut marks = threads.flat_map(|thread| thread["marks"].as_array().unwrap());
    let carries = marks.find(|mark| mark[1] == "ros2 taken /chatter").unwrap();
    let carries = carries[2].as_str().unwrap();
    assert!(carries.contains("rmw_subscription_handle=0x"), "{carries}");
}

#[test]
#[ignore = "needs root"]
fn callbacks_are_watched_while_they_run() {
    if let Some(missing) = rights::missing_right() {
        println!("skipped: {missing}");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = executor(folder.path(), "executor");
    let preloaded = dist::folder()
        .unwrap()
        .join("lib/posixtrace/libtracetools.so");
    let mut robot = Command::new(program)
        .args([&MESSAGES.to_string(), "500", "late", "lock"])
        .env("LD_PRELOAD", preloaded)
        .env("WAITS", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let terminal = Terminal::start((200, 40), &[]).unwrap();
    let pid = robot.id().to_string();
    terminal
        .command(&dist::tracer_user().unwrap(), &["top", &pid])
        .unwrap();
    terminal
        .wait_for("the program", |screen| {
            screen.contains(&format!("executor {pid} "))
        })
        .unwrap();
    terminal.keys(&["s"]).unwrap();
    terminal
        .wait_for("the view of spans", |screen| screen.contains("no span has"))
        .unwrap();
    std::io::Write::write_all(&mut robot.stdin.take().unwrap(), b"go\n").unwrap();
    let said = robot.wait_with_output().unwrap();
    let said = String::from_utf8(said.stdout).unwrap();
    let late = MESSAGES / 10;
    assert!(
        said.contains(&format!("taken {MESSAGES} late {late}")),
        "{said}"
    );
    let screen = terminal
        .wait_for("the end", |screen| screen.contains("the trace has ended"))
        .unwrap();
    check_top(&screen, late, 0.2..11.0);
    assert!(screen.contains("slowest /"), "{screen}");
    terminal.keys(&["q"]).unwrap();
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
            // It may have had to wait for a CPU.
            let ran =
                ran.filter(|within| within["state"] == "running" || within["state"] == "runnable");
            let ran: u64 = ran.filter_map(|within| within["ns"].as_u64()).sum();
            part["in"] == "futex" && part["state"] == "blocked" && ran > 10_000_000
        })
    });
    let waited = u64::try_from(waited.count()).unwrap();
    // In a virtual machine the kernel does not report each switch: what the holder did is unknown
    // then.
    let stat = json(folder, &["stat", "log", "--json"]);
    let not_reported = stat["not_reported"].as_u64().unwrap();
    assert!(
        waited <= late && waited + not_reported >= late,
        "{waited} of {late}, {not_reported} not reported: {answer}"
    );
}

/// A cause that is injected into a late callback, and how `why` is to say it.
struct Injected {
    /// Row of the program's table.
    cause: &'static str,
    /// How long, in milliseconds.
    ms: u64,
    /// Span that is asked about.
    span: &'static str,
    /// Words of the first line of the answer, with `{NAME}` for the thread of that name.
    first: &'static [&'static str],
    /// Words of the line below it, where what the first one names did something itself.
    below: &'static [&'static str],
    how: How,
}

/// How the cause is asked about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    Log,
    /// By the recorder that waits for a late callback.
    When,
    /// With looks at each CPU, a thousand times a second.
    Sampled,
}
use How::{Log, Sampled, When};

const CALLBACK: &str = "/listener /chatter";
const DELIVERY: &str = "/chatter delivery";
const BETWEEN: &str = "between=/listener /chatter end../listener /chatter begin";

/// Percent of the time that the program has measured by which the answer's may be another one.
const MOST_APART: u64 = 25;

/// Such a percentage of hundreds of short waits: the kernel counts some microseconds of each as
/// running.
const MOST_APART_OF_WAITS: u64 = 50;

const INJECTED: [Injected; 20] = {
    const fn injected(
        cause: &'static str,
        ms: u64,
        first: &'static [&'static str],
        below: &'static [&'static str],
        how: How,
    ) -> Injected {
        Injected {
            cause,
            ms,
            span: CALLBACK,
            first,
            below,
            how,
        }
    }
    const LOCK: &[&str] = &["blocked in futex for mutex", "held by {holder}"];
    const PUBLISHER: &[&str] = &["blocked in poll", "woken by {talker}, which meanwhile"];
    const BUSY: &[&str] = &["busy with /listener timer 50ms"];
    const HOG: &[&str] = &["had to give way to {hog}, of a higher priority"];
    [
        Injected {
            span: BETWEEN,
            ..injected("publisher", 60, PUBLISHER, &["ran"], Log)
        },
        Injected {
            span: BETWEEN,
            ..injected("publisher", 100, PUBLISHER, &["ran"], Log)
        },
        Injected {
            span: DELIVERY,
            ..injected("executor", 15, BUSY, &["ran"], Log)
        },
        Injected {
            span: DELIVERY,
            ..injected("executor", 40, BUSY, &["ran"], Log)
        },
        injected("lock", 15, LOCK, &["ran"], When),
        injected("lock", 40, LOCK, &["ran"], Log),
        injected(
            "lock_asleep",
            20,
            LOCK,
            &["blocked in clock_nanosleep, woken by a timer"],
            Log,
        ),
        injected("hog", 15, HOG, &[], Log),
        injected("hog_of_fifo", 15, HOG, &[], When),
        injected("hog_of_fifo", 30, HOG, &[], Log),
        injected(
            "neighbour",
            30,
            &["had to give way to", "{neighbour}"],
            &[],
            Log,
        ),
        injected(
            "inversion",
            15,
            LOCK,
            &["waited for a CPU behind {middle}"],
            When,
        ),
        injected(
            "inversion",
            30,
            LOCK,
            &["waited for a CPU behind {middle}"],
            Log,
        ),
        injected(
            "fault_disk",
            20,
            &["blocked in page fault for a device"],
            &[],
            Log,
        ),
        injected(
            "fault_memory",
            20,
            &["ran from page fault to page fault"],
            &[],
            Log,
        ),
        injected("disk", 20, &["blocked in pread64 for a device"], &[], When),
        injected(
            "quota",
            30,
            &["throttled by its control group {group} (cpu.max)"],
            &[],
            Log,
        ),
        injected(
            "quota_real_time",
            30,
            &["throttled, the time of real-time threads used up"],
            &[],
            Log,
        ),
        injected(
            "packets",
            20,
            &["interrupted by a soft interrupt, NET_RX"],
            &[],
            Log,
        ),
        injected("stop", 20, &["stopped, continued by {stopper}"], &[], When),
    ]
};

/// A run with a cause: what the program says of it, and the first lines of the answer.
struct Explained {
    /// Nanoseconds that the cause took by the program's own measure.
    took: u64,
    /// Threads by their names, as answers show them.
    names: BTreeMap<String, String>,
    /// The answer in text, from the slowest span on.
    text: String,
    /// The slowest span.
    slowest: Value,
}

/// Tells whether this is a virtual machine of `cargo xtask vmtest`, which can be paused. It has no
/// disk.
fn is_virtual_machine() -> bool {
    std::env::var_os("TRACER_MACHINE_PAUSES").is_some()
}

/// Returns the events around the longest time without one, for who looks into a failure.
fn around_longest_pause(folder: &Path) -> String {
    let read = tool(folder, &["read", "log", "--time", "relative"]);
    let lines: Vec<(f64, &str)> = read
        .lines()
        .filter_map(|line| Some((line.split_whitespace().next()?.parse().ok()?, line)))
        .collect();
    let pairs = lines.windows(2).map(|pair| pair[1].0 - pair[0].0);
    let longest = pairs.enumerate().max_by(|a, b| a.1.total_cmp(&b.1));
    let at = longest.map_or(0, |(at, _)| at);
    let around = lines.iter().skip(at.saturating_sub(4)).take(12);
    around.map(|(_, line)| format!("{line}\n")).collect()
}

/// Runs the program with a cause, and asks why the slowest span took as long.
fn explain(program: &Path, of: &Injected) -> Explained {
    println!("{} for {} ms", of.cause, of.ms);
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let is_of_group = of.cause.starts_with("quota");
    let group = is_of_group.then(|| Cgroup::with("cpu").unwrap());
    let given = group.as_ref().map_or(folder.path(), Cgroup::path);
    let preloaded = dist::folder()
        .unwrap()
        .join("lib/posixtrace/libtracetools.so");
    let mut run = Command::new(dist::tracer_user().unwrap());
    run.current_dir(folder.path())
        .args(["run", "--log", "log", "--locks"]);
    run.args([
        "--events",
        "fork,exit,switch,wakeup,signal,user,irq,softirq,fault,lock",
        "--ring-size",
        "4M",
    ]);
    // On emulated processors any callback takes that long at times.
    let ms = if is_virtual_machine() { 12 } else { 5 };
    let late = format!("span ros2:callback > {ms}ms");
    match of.how {
        Log => &mut run,
        When => run.args(["--when", &late, "--keep", "10s"]),
        Sampled => run.args(["--sample", "1000"]),
    };
    // Not by `env`: what comes right after an exec of a program without the library is not seen.
    run.arg("--").arg(program).env("LD_PRELOAD", preloaded);
    run.args([of.cause, &of.ms.to_string()]).arg(given);
    let traced = run.output().unwrap();
    let said = String::from_utf8(traced.stdout).unwrap();
    let told = String::from_utf8_lossy(&traced.stderr);
    assert!(traced.status.success(), "{}: {told}", of.cause);
    assert!(told.contains(" 0 lost") || of.how == When, "{told}");

    let mut names = BTreeMap::new();
    let mut took = 0;
    for line in said.lines() {
        let (name, number) = line.split_once(' ').unwrap();
        if name == "took" {
            took = number.parse().unwrap();
        } else {
            names.insert(name.to_owned(), number.to_owned());
        }
    }
    // A thread of the executor is named with its process.
    if let (Some(holder), Some(executor)) = (names.get("holder"), names.get("executor")) {
        let both = format!("{executor}/{holder}");
        names.insert("holder".to_owned(), both);
    }
    let mut shown: BTreeMap<String, String> = names
        .iter()
        .map(|(name, number)| (name.clone(), format!("{name} {number}")))
        .collect();
    if let Some(group) = &group {
        let name = group.path().file_name().unwrap().to_str().unwrap();
        shown.insert("group".to_owned(), format!("/{name}"));
    }
    let log = if of.how == When { "log.1" } else { "log" };
    let asked = ["why", log, "--span", of.span, "--slowest", "1"];
    let text = tool(folder.path(), &asked);
    let (_, text) = text.split_once("\n1. ").unwrap_or(("", &text));
    let mut text = text.to_owned();
    if of.how == Sampled {
        text += &around_longest_pause(folder.path());
    }
    let answer = json(folder.path(), &[&asked[..], &["--json"]].concat());
    Explained {
        took,
        names: shown,
        text,
        slowest: answer["slowest"][0].clone(),
    }
}

/// Does the same until a run has all switches: the kernel does not report some, of which the answer
/// says so, and what was about them is unknown.
fn explain_wholly(program: &Path, of: &Injected) -> Explained {
    const TRIES: usize = 5;
    let is_whole =
        |explained: &Explained| !explained.text.contains("that the kernel did not report");
    let mut tries = (1..TRIES).map(|_| explain(program, of));
    tries.find(is_whole).unwrap_or_else(|| explain(program, of))
}

/// Tells whether a line says that the callback computed by itself.
fn is_own_work(line: &str) -> bool {
    let words = line.split_once("%  ").map_or("", |(_, words)| words);
    words == "ran" || words.starts_with("ran (")
}

/// Tells whether something else took a part in which its thread had a CPU.
fn is_not_its_own(part: &Value) -> bool {
    part["interrupt"].is_string() || part["page_faults"] == true || part["cpu_gap"] == true
}

/// Returns what is wrong with the explanation of a cause: nothing where it is right.
fn wrong(of: &Injected, explained: &Explained) -> Option<String> {
    let Explained {
        took,
        names,
        text,
        slowest,
    } = explained;
    let has = |line: Option<&str>, words: &[&str]| {
        words.iter().all(|word| {
            let named = names
                .iter()
                .fold((*word).to_owned(), |word, (name, shown)| {
                    word.replace(&format!("{{{name}}}"), shown)
                });
            line.is_some_and(|line| line.contains(&named))
        })
    };
    // What the callback itself computes is no cause from outside.
    let all = text.lines().skip(1);
    let mut lines = all.filter(|line| !is_own_work(line));
    let is_first = has(lines.next(), of.first);
    let is_below = of.below.is_empty() || has(lines.next(), of.below);
    // As long as the program itself has measured it.
    let parts = slowest["parts"].as_array().unwrap().iter();
    let mut causes = parts.filter(|part| part["state"] != "running" || is_not_its_own(part));
    let first = causes.next().unwrap_or(&Value::Null);
    let innermost = if of.below.is_empty() {
        first
    } else {
        &first["within"][0]
    };
    let first = innermost["ns"].as_u64().unwrap_or(0);
    let most = if of.cause.contains("disk") {
        MOST_APART_OF_WAITS
    } else {
        MOST_APART
    };
    let is_measured = *took == 0 || took.abs_diff(first) * 100 <= took * most;
    let is_right = is_first && is_below && is_measured;
    (!is_right).then(|| format!("{} {} ms: {took} ns: {text}", of.cause, of.ms))
}

#[test]
#[ignore = "needs root"]
fn why_names_the_cause_of_each_late_callback_and_none_where_there_is_none() {
    if let Some(missing) = rights::missing_right() {
        println!("skipped: {missing}");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = executor(folder.path(), "deadlines");
    // Control groups of version 2 have no limit of their own for real-time threads.
    let group = Cgroup::with("cpu").unwrap();
    let has_limit = group.path().join("cpu.rt_runtime_us").exists();
    drop(group);
    let injected: Vec<&Injected> = INJECTED
        .iter()
        .filter(|of| has_limit || of.cause != "quota_real_time")
        .filter(|of| !is_virtual_machine() || !of.cause.contains("disk"))
        .collect();
    let wrong: Vec<String> = injected
        .iter()
        .filter_map(|of| wrong(of, &explain_wholly(&program, of)))
        .collect();
    let (wrongs, causes) = (wrong.len(), injected.len());
    assert!(
        wrong.is_empty(),
        "{wrongs} of {causes}: {}",
        wrong.join("\n")
    );
    println!("{causes} of {causes} causes are named");

    // Without a cause nothing takes long, and no thread is named.
    let none = Injected {
        cause: "none",
        ms: 20,
        span: CALLBACK,
        first: &["ran"],
        below: &[],
        how: Log,
    };
    let explained = explain(&program, &none);
    let slowest = &explained.slowest;
    assert!(slowest["ns"].as_u64().unwrap() < 5_000_000, "{slowest}");
    let lines: Vec<&str> = explained.text.lines().skip(1).collect();
    assert!(lines[0].ends_with("ran"), "{lines:?}");
}

/// Time in a callback for which its CPU did nothing, as the answer says it.
fn gaps_of(explained: &Explained) -> u64 {
    let parts = explained.slowest["parts"].as_array().unwrap().iter();
    let gaps = parts.filter(|part| part["cpu_gap"] == true);
    gaps.map(|part| part["ns"].as_u64().unwrap()).sum()
}

/// How long a machine is paused: shorter than readers wait for a thread that is stopped amid an
/// emission, whose event is lost then.
const PAUSE_MS: u64 = 150;

/// Nanoseconds by which the interrupts of emulated processors come late by themselves.
const LATE_BY_EMULATION: u64 = 50_000_000;

/// A hypervisor takes the machine's CPUs away where the test runs in one that it can ask for that
/// (`cargo xtask vmtest`); anywhere else what the callback has noticed itself is the bound.
#[test]
#[ignore = "needs root"]
fn an_unknown_gap_of_the_cpu_is_said_and_is_no_longer_than_the_program_noticed() {
    if let Some(missing) = rights::missing_right() {
        println!("skipped: {missing}");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = executor(folder.path(), "deadlines");
    let of = |cause, ms| Injected {
        cause,
        ms,
        span: CALLBACK,
        first: &["unknown gap of the CPU"],
        below: &[],
        how: Sampled,
    };
    let is_emulated = is_virtual_machine();
    let most = if is_emulated { LATE_BY_EMULATION } else { 0 };
    let none = explain(&program, &of("no_gap", 300));
    let said = gaps_of(&none);
    let noticed = none.took + most;
    assert!(said <= noticed, "{said} of {noticed}: {}", none.text);
    if is_emulated {
        let gap = of("gap", PAUSE_MS);
        let explained = explain(&program, &gap);
        let wrong = wrong(&gap, &explained);
        assert!(wrong.is_none(), "{wrong:?}");
        let said = gaps_of(&explained);
        assert!(said <= explained.took + most, "{}", explained.text);
    }
}

/// Program of the kernel's sources that has the kernel measure its latencies. Ended when dropped.
struct Rtla {
    child: std::process::Child,
    output: PathBuf,
}

impl Rtla {
    /// Starts it, and waits until its tracer runs.
    fn start(folder: &Path, tracer: &str, options: &[&str]) -> Self {
        let output = folder.join("rtla");
        let said = fs::File::create(&output).unwrap();
        let child = rtla()
            .current_dir(folder)
            .args([tracer, "top"])
            .args(options)
            .stdout(said.try_clone().unwrap())
            .stderr(said)
            .spawn();
        let started = Self {
            child: child.unwrap(),
            output,
        };
        let instance = format!("/sys/kernel/tracing/instances/{tracer}_top/current_tracer");
        for _ in 0..1200 {
            let current = fs::read_to_string(&instance).unwrap_or_default();
            if current.trim() == tracer {
                // Its threads have begun by then.
                std::thread::sleep(std::time::Duration::from_secs(2));
                return started;
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        panic!("{}", fs::read_to_string(&started.output).unwrap());
    }

    /// Waits until it ends by itself, or has it end, and returns what it has said.
    fn end(mut self, ends_itself: bool) -> String {
        if !ends_itself {
            let pid = libc::pid_t::try_from(self.child.id()).unwrap();
            // SAFETY: it is a child of this test, which is not reaped yet.
            unsafe { libc::kill(pid, libc::SIGINT) };
        }
        self.child.wait().unwrap();
        fs::read_to_string(&self.output).unwrap()
    }
}

impl Drop for Rtla {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the program: that of the folder of a package that is unpacked there, where one is named.
fn rtla() -> Command {
    let Some(root) = std::env::var_os("TRACER_RTLA").map(PathBuf::from) else {
        return Command::new("rtla");
    };
    let mut command = Command::new(root.join("usr/bin/rtla"));
    let libraries = format!("usr/lib/{}-linux-gnu", std::env::consts::ARCH);
    command.env("LD_LIBRARY_PATH", root.join(libraries));
    command
}

/// Returns why rtla cannot run, or cannot say causes.
fn lacks_rtla() -> Option<String> {
    let tracers = fs::read_to_string("/sys/kernel/tracing/available_tracers").unwrap_or_default();
    if !tracers.contains("timerlat") {
        return Some(format!("the kernel has no timerlat: {}", tracers.trim()));
    }
    let Ok(help) = rtla().args(["timerlat", "top", "--help"]).output() else {
        return Some("no rtla is installed".to_owned());
    };
    let help = [help.stdout, help.stderr].concat();
    let says_causes = String::from_utf8_lossy(&help).contains("--no-aa");
    (!says_causes).then(|| "rtla is older than 6.4, and says no causes".to_owned())
}

#[test]
#[ignore = "needs root, and a kernel with timerlat"]
fn rtla_sees_the_same_hog_and_the_same_gap() {
    let missing = rights::missing_right().map(str::to_owned);
    if let Some(missing) = missing.or_else(lacks_rtla) {
        println!("skipped: {missing}");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let program = executor(folder, "deadlines");

    // A thread of rtla waits for the same CPU, less urgent than the executor. The bound is beyond
    // what emulation does, where threads that sleep for a moment again and again take all time.
    let options = ["-c", "0", "-P", "f:3", "-T", "500000", "-d", "100s", "-q"];
    let rtla = Rtla::start(folder, "timerlat", &options);
    let hog = Injected {
        cause: "hog_of_fifo",
        ms: 600,
        span: CALLBACK,
        first: &["had to give way to {hog}, of a higher priority"],
        below: &[],
        how: Log,
    };
    let explained = explain(&program, &hog);
    let wrong_words = wrong(&hog, &explained);
    assert!(wrong_words.is_none(), "{wrong_words:?}");
    let said = rtla.end(true);
    // `hog:4711   79012.34 us`, for each time that it came between.
    let named = explained.names["hog"].replace(' ', ":");
    let lines = said
        .lines()
        .filter_map(|line| line.trim().strip_prefix(&named));
    let us: f64 = lines
        .map(|line| line.split_whitespace().next().unwrap())
        .map(|us| us.parse::<f64>().unwrap())
        .sum();
    let ms = explained.took / 1_000_000;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "milliseconds"
    )]
    let apart = ms.abs_diff((us / 1000.0) as u64);
    println!("{named}: {us} us\n{}", explained.text);
    assert!(apart * 100 <= ms * MOST_APART, "{said}{us} us, {ms} ms");

    if !is_virtual_machine() {
        return;
    }
    // The other CPU is paused as well, on which a thread of the kernel looks for gaps.
    let rtla = Rtla::start(folder, "osnoise", &["-c", "1", "-q"]);
    let gap = Injected {
        cause: "gap",
        ms: PAUSE_MS,
        span: CALLBACK,
        first: &["unknown gap of the CPU"],
        below: &[],
        how: Sampled,
    };
    let explained = explain(&program, &gap);
    let wrong_words = wrong(&gap, &explained);
    assert!(wrong_words.is_none(), "{wrong_words:?}");
    std::thread::sleep(std::time::Duration::from_secs(3));
    let said = rtla.end(false);
    println!("{said}\n{}", explained.text);
    // CPU, period, runtime, noise, share of the CPU, maximum of noise, of a single one, hardware.
    let mut row = said
        .lines()
        .filter(|line| line.trim_start().starts_with("1 #"));
    let row = row.next_back().unwrap_or_else(|| panic!("{said}"));
    let columns: Vec<&str> = row.split_whitespace().collect();
    let (longest, hardware): (u64, u64) =
        (columns[6].parse().unwrap(), columns[7].parse().unwrap());
    assert!(hardware > 0, "{said}");
    let took = explained.took / 1000;
    assert!(
        longest.abs_diff(took) * 100 <= took * MOST_APART,
        "{took} us: {said}"
    );
}
