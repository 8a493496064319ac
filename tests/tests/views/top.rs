//! The screen of `tracer-user top` beside `stat`, `why` and `read` of the same log.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tests::dist;
use tests::log_reader::{Log, integer, run, text};
use tests::rights::is_root;
use tests::target::Target;
use tests::{made_ends, made_log, made_slices};

/// Every made-up log: hostile names and losses, slices, threads that end.
fn logs() -> Vec<Log> {
    vec![
        Log::make(7).unwrap(),
        Log::written_by(made_slices::write).unwrap(),
        Log::written_by(made_ends::write).unwrap(),
    ]
}

fn object(log: &Path, command: &str) -> Value {
    let output = run(command, log, &["--format", "json"]).unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The screen of a log, as `top --once` prints it, line by line.
fn screen(log: &Log, options: &[&str]) -> Vec<String> {
    let options = [&["--once"], options].concat();
    let output = log.run("top", &options).unwrap();
    assert_ne!(output.status.code(), Some(2), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(str::to_owned).collect()
}

/// Returns the cell of a line of a screen below a heading.
fn cell(lines: &[String], line: &str, heading: &str) -> String {
    let headings = lines.iter().find(|line| line.starts_with("thread "));
    let end = headings.unwrap().find(&format!(" {heading}")).unwrap() + heading.len() + 1;
    let cell: String = line.chars().take(end).skip(end - 10).collect();
    cell.trim().to_owned()
}

/// A duration with four digits that count, as people are shown them.
fn duration(ns: i64) -> String {
    for (unit, name) in [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")] {
        if ns >= unit {
            let whole = (ns / unit).to_string();
            let part = format!("{:09}", ns % unit * (1_000_000_000 / unit));
            return match 4_usize.saturating_sub(whole.len()) {
                0 => format!("{whole} {name}"),
                digits => format!("{whole}.{} {name}", &part[..digits]),
            };
        }
    }
    format!("{ns} ns")
}

#[test]
fn all_of_a_log_is_what_stat_says_of_it() {
    let mut threads = 0;
    for log in logs() {
        let stat = object(&log.path(), "stat");
        let lines = screen(&log, &["--window", "all"]);
        let lost = format!("{} events lost", stat["lost"]);
        assert!(lines[0].starts_with(&lost), "{lines:?}");
        for of in stat["threads"].as_array().unwrap() {
            let (pid, tid) = (integer(of, "pid"), integer(of, "tid"));
            let is_of = |line: &&String| {
                let label: String = line.chars().take(24).collect();
                let mut words = label.split_whitespace().rev();
                let last = words.next().unwrap_or_default();
                let is_thread = last == tid.to_string() || last == format!("{pid}/{tid}");
                is_thread && !line.contains(" threads") && !line.contains(" lost")
            };
            let states = ["running", "runnable", "blocked", "stopped", "unknown"];
            let mut expected: Vec<String> = states
                .map(|state| duration(integer(of, &format!("{state}_ns"))))
                .into();
            let worst = of["wakeups"]["max_ns"].as_i64();
            expected.push(worst.map_or("-".to_owned(), duration));
            // Threads that had the same ids one after the other have a line each.
            let mut of_it = lines.iter().filter(is_of);
            let is_shown = of_it.any(|line| {
                let columns = states.iter().chain(&["worst"]);
                let shown = columns.map(|column| cell(&lines, line, column));
                shown.collect::<Vec<_>>() == expected
            });
            assert!(is_shown, "{of}: {lines:#?}");
            threads += 1;
        }
        for kind in stat["spans"].as_array().unwrap() {
            let took = kind.get("took").unwrap();
            if integer(took, "count") == 0 {
                continue;
            }
            let name = text(kind, "name");
            let line = lines
                .iter()
                .find(|line| line.starts_with(&format!("{name} ")));
            let words: Vec<&str> = line.unwrap()[name.len()..].split_whitespace().collect();
            assert_eq!(words[0], integer(took, "count").to_string(), "{kind}");
            let expected = ["p50_ns", "p99_ns", "max_ns"].map(|key| duration(integer(took, key)));
            assert_eq!(words[2..8].join(" "), expected.join(" "), "{kind}");
        }
    }
    assert!(threads > 10, "{threads}");
}

#[test]
fn why_the_slowest_took_so_long_is_what_why_says() {
    let log = Log::written_by(made_slices::write).unwrap();
    let lines = screen(&log, &["--window", "all"]);
    let output = log.run("why", &["--slowest", "100"]).unwrap();
    let why = String::from_utf8(output.stdout).unwrap();
    let mut explained = 0;
    for (nth, line) in lines.iter().enumerate() {
        let Some(title) = line.strip_prefix("slowest ") else {
            continue;
        };
        let (name, rest) = title.split_once(": ").unwrap();
        let (took, rest) = rest.split_once(" of ").unwrap();
        let (of, at) = rest.split_once(", at ").unwrap();
        let same = why.lines().position(|line| {
            line.contains(&format!(". {name} {took} of {of}")) && line.contains(&format!("at {at}"))
        });
        let same = same.unwrap_or_else(|| panic!("{title}: {why}"));
        let expected: Vec<&str> = why.lines().skip(same + 1).take(1).collect();
        assert_eq!(lines[nth + 1], expected[0], "{why}");
        explained += 1;
    }
    assert!(explained >= 3, "{lines:#?}");
}

#[test]
fn a_moment_of_a_log_is_that_of_what_was_before() {
    let log = Log::make(0).unwrap();
    let half = screen(&log, &["--at", "1s", "--window", "all"]);
    let whole = screen(&log, &["--window", "all"]);
    assert!(half[0].contains("  1.000 s all of it"), "{}", half[0]);
    assert!(whole[0].contains("  1.999 s all of it"), "{}", whole[0]);
    let lately = screen(&log, &["--window", "100ms"]);
    assert!(lately[0].contains("last 100.0 ms"), "{}", lately[0]);
    assert_eq!(made_log::ROUNDS, 2_000);
    let refused = log.run("top", &["--once", "--at", "soon"]).unwrap();
    assert_eq!(refused.status.code(), Some(2));
}

/// Starts `flood` as a user without rights, and watches it as that user: one screen.
#[test]
fn user_events_of_ones_own_processes_are_watched_without_rights() {
    let folder = tempfile::tempdir().unwrap();
    let everyones = dist::copy_for_everyone(folder.path()).unwrap();
    let program = dist::compile("flood", folder.path()).unwrap();
    let as_nobody = |program: &Path| {
        if !is_root() {
            return Command::new(program);
        }
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
        command.arg(program);
        command
    };
    let mut flood = as_nobody(&program);
    flood.args(["2", "20000", "1"]);
    flood.env("LD_LIBRARY_PATH", everyones.join("lib"));
    let (target, _) = Target::start(&mut flood).unwrap();
    let mut top = as_nobody(&everyones.join("bin/tracer-user"));
    // Its markers come a hundred times a second.
    let output = top.args(["top", "--once"]).arg(target.pid().to_string());
    let output = output.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let line = lines.iter().find(|line| line.starts_with("flood "));
    let line = line.unwrap_or_else(|| panic!("{text}{said}"));
    let rate = cell(&lines, line, "event/s");
    let rate: f64 = rate.split(' ').next_back().unwrap().parse().unwrap();
    assert!((10.0..=110.0).contains(&rate), "{text}");
    assert!(said.contains("user events alone"), "{said}");
}
