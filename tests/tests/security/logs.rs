//! Logs that change while they are read, and clocks that are set while one is written.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use tests::attacker::delay_limit;
use tests::dist;
use tests::rights::missing_right;
use tests::target::values_after;

/// Number of times that each kind of reader reads it.
const TIMES: usize = 3;

/// Runs a program under the tracer into a log, and returns how many events it says that it sent.
fn record(folder: &Path, log: &Path, arguments: &str, environment: &[(&str, &Path)]) -> u64 {
    let flood = dist::compile("flood", folder).unwrap();
    let script = format!(
        "(sleep 0.5; printf g; sleep 3) | {} {arguments}",
        flood.display()
    );
    let mut command = Command::new(dist::tracer_user().unwrap());
    command.args(["run", "--no-system", "--log"]).arg(log);
    command.args(["--", "sh", "-c", &script]);
    command.env("LD_LIBRARY_PATH", dist::folder().unwrap().join("lib"));
    command.envs(environment.iter().copied());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stdout);
    let said: Vec<String> = said.lines().map(str::to_owned).collect();
    let sent = values_after(&said, "sent").unwrap();
    sent.iter().map(|values| values[1]).sum()
}

/// Runs a subcommand with limits: 200 MiB of memory beside what it has anyway, and a time.
fn bounded(subcommand: &str, log: &Path, options: &[&str]) -> (Output, Duration) {
    let mut command = Command::new("timeout");
    command.args(["--kill-after=1", "30", "prlimit", "--data=272629760", "--"]);
    command.arg(dist::tracer_user().unwrap());
    command.arg(subcommand).args(options).arg(log);
    let start = Instant::now();
    let output = command.output().unwrap();
    (output, start.elapsed())
}

/// The events in what `read --format json` prints.
fn events(output: &Output) -> Vec<String> {
    let text = String::from_utf8_lossy(&output.stdout);
    let lines = text
        .lines()
        .filter(|line| !line.starts_with("{\"summary\""));
    lines.map(str::to_owned).collect()
}

/// Changes a file until `meanwhile` has returned: `step` is called with an index that grows.
fn changing<T>(step: impl Fn(usize) + Sync, meanwhile: impl FnOnce() -> T) -> T {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for index in 0.. {
                if is_over.load(Relaxed) {
                    return;
                }
                step(index);
            }
        });
        let found = meanwhile();
        is_over.store(true, Relaxed);
        found
    })
}

/// A value that looks random, from a counter.
fn scatter(index: usize) -> usize {
    (index + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 11
}

#[test]
#[ignore = "makes a log with the command line"]
fn a_log_that_changes_while_it_is_read_gives_its_own_events_or_none() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let whole = folder.path().join("whole");
    let sent = record(folder.path(), &whole, "4 20000 1", &[]);
    let bytes = fs::read(&whole).unwrap();
    let all = events(&bounded("read", &whole, &["--format", "json"]).0);
    let of_flood = all
        .iter()
        .filter(|line| line.contains("\"type\":\"flood\""));
    assert_eq!(of_flood.count() as u64, sent);
    let all: HashSet<String> = all.into_iter().collect();
    let log = folder.path().join("log");
    fs::write(&log, &bytes).unwrap();
    let pause = || thread::sleep(Duration::from_micros(200));

    let grow = |index: usize| {
        let part = bytes.len().div_ceil(200);
        let (begin, end) = (index % 200 * part, (index % 200 + 1) * part);
        if begin == 0 {
            File::create(&log).unwrap();
        }
        let mut file = File::options().append(true).open(&log).unwrap();
        file.write_all(&bytes[begin.min(bytes.len())..end.min(bytes.len())])
            .unwrap();
        pause();
    };
    let truncate = |index: usize| {
        let file = File::options().write(true).open(&log).unwrap();
        file.set_len((scatter(index) % bytes.len()) as u64).unwrap();
        pause();
        file.write_all_at(&bytes, 0).unwrap();
        pause();
    };
    let replace = |index: usize| {
        let next = folder.path().join("next");
        let what = match index % 3 {
            0 => &b"no log"[..],
            parts => &bytes[..bytes.len() / parts],
        };
        fs::write(&next, what).unwrap();
        fs::rename(&next, &log).unwrap();
        pause();
    };
    let scribble = |index: usize| {
        let file = File::options().write(true).open(&log).unwrap();
        let offset = scatter(index) % (bytes.len() - 64);
        let nonsense: Vec<u8> = (0..64)
            .map(|byte| scatter(index + byte).to_le_bytes()[0])
            .collect();
        file.write_all_at(&nonsense, offset as u64).unwrap();
        if index.is_multiple_of(50) {
            file.write_all_at(&bytes, 0).unwrap();
        }
        pause();
    };
    let kinds: [(&str, &(dyn Fn(usize) + Sync)); 4] = [
        ("grow", &grow),
        ("truncate", &truncate),
        ("replace", &replace),
        ("scribble", &scribble),
    ];
    let mut all_shown = 0;
    for (kind, step) in kinds {
        fs::write(&log, &bytes).unwrap();
        let (mut shown, mut exported) = (0, 0);
        changing(step, || {
            for _ in 0..TIMES {
                let (output, took) = bounded("read", &log, &["--format", "json"]);
                assert!(took < delay_limit(), "{kind}: {took:?}");
                let errors = String::from_utf8_lossy(&output.stderr);
                // It says what is wrong, and is not ended by a signal.
                assert!(
                    matches!(output.status.code(), Some(0..=2)),
                    "{kind}: {errors}"
                );
                assert!(!errors.contains("panicked"), "{kind}: {errors}");
                let events = events(&output);
                shown += events.len();
                let stranger = events.iter().find(|event| !all.contains(*event));
                assert_eq!(stranger, None, "{kind}");

                let out = folder.path().join("out");
                let options = ["--to", "chrome", "--force", "-o", out.to_str().unwrap()];
                let (output, took) = bounded("export", &log, &options);
                assert!(took < delay_limit(), "{kind}: {took:?}");
                let errors = String::from_utf8_lossy(&output.stderr);
                assert!(
                    matches!(output.status.code(), Some(0..=2)),
                    "{kind}: {errors}"
                );
                assert!(!errors.contains("panicked"), "{kind}: {errors}");
                // What there is of an export is whole.
                if let Ok(text) = fs::read(&out) {
                    serde_json::from_slice::<serde_json::Value>(&text).unwrap();
                    exported += 1;
                    fs::remove_file(&out).unwrap();
                }
            }
        });
        eprintln!("{kind}: {shown} events, {exported} exports");
        all_shown += shown;
    }
    assert!(all_shown > 0, "nothing was read at all");
}

#[test]
#[ignore = "makes a log with the command line"]
fn a_clock_that_is_set_moves_no_event() {
    const DAY: i64 = 86_400;
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/preloaded/stepped_clock.c");
    let library = folder.path().join("stepped_clock.so");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-Wall", "-Werror", "-o"]);
    assert!(
        compiler
            .arg(&library)
            .arg(source)
            .status()
            .unwrap()
            .success()
    );
    let ahead = folder.path().join("ahead");
    fs::write(&ahead, 0_i64.to_le_bytes()).unwrap();
    let log = folder.path().join("log");
    // Forwards and backwards, before and while the program emits.
    let step = |index: usize| {
        thread::sleep(Duration::from_millis(100));
        let by = [DAY, -DAY, 0, 7, -3 * DAY][index % 5];
        let file = File::options().write(true).open(&ahead).unwrap();
        file.write_all_at(&by.to_le_bytes(), 0).unwrap();
    };
    let environment = [("LD_PRELOAD", &*library), ("STEPPED_BY", &*ahead)];
    let sent = changing(step, || {
        let mut date = Command::new("date");
        date.arg("+%s").envs(environment);
        let dates: HashSet<i64> = (0..20)
            .map(|_| {
                thread::sleep(Duration::from_millis(30));
                let said = date.output().unwrap().stdout;
                String::from_utf8_lossy(&said)
                    .trim()
                    .parse::<i64>()
                    .unwrap()
                    / DAY
            })
            .collect();
        assert!(dates.len() > 1, "the clock does not move: {dates:?}");
        record(folder.path(), &log, "2 5000 2", &environment)
    });
    let (output, _) = bounded("read", &log, &["--format", "json"]);
    assert!(output.status.success(), "{output:?}");
    let lines = events(&output);
    let parsed: Vec<serde_json::Value> = lines
        .iter()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let times: Vec<u64> = parsed
        .iter()
        .map(|event| event["ns"].as_u64().unwrap())
        .collect();
    assert!(times.is_sorted());
    assert!(
        times[times.len() - 1] - times[0] < 60_000_000_000,
        "no longer than it took"
    );
    let of_flood = lines
        .iter()
        .filter(|line| line.contains("\"type\":\"flood\""));
    assert_eq!(of_flood.count() as u64, sent);
    // Dates go forwards too, as the first reading of the clock and the time since say.
    let dates: Vec<&str> = parsed
        .iter()
        .map(|event| event["time"].as_str().unwrap())
        .collect();
    assert!(dates.is_sorted());
}
