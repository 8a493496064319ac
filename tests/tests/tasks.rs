//! Spans of asynchronous functions, which move between threads.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::HashSet;
use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;
use tests::dist;
use tests::rights::missing_right;
use tracing::Instrument;
use tracing_subscriber::fmt::format::FmtSpan;
use tracing_subscriber::prelude::*;

const TASKS: usize = 64;

/// Output of a third-party layer.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Computes for this time.
fn compute(time: Duration) {
    let since = Instant::now();
    while since.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// Computes, waits twice, and computes in between and at the end.
async fn task() {
    let part = Duration::from_micros(300);
    for _ in 0..2 {
        compute(part);
        tokio::time::sleep(Duration::from_millis(4)).await;
    }
    compute(part);
}

/// `3.45ms` in nanoseconds.
fn nanoseconds(written: &str) -> f64 {
    let digits = written
        .trim_end_matches(char::is_alphabetic)
        .trim_end_matches('µ');
    let unit = match written.trim_start_matches(digits) {
        "ns" => 1.0,
        "µs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        other => panic!("{other} in {written}"),
    };
    digits.parse::<f64>().unwrap() * unit
}

/// The times after this key, in the order in which spans were closed.
fn times(written: &str, key: &str) -> Vec<f64> {
    let lines = written.lines().filter_map(|line| line.split_once(key));
    lines
        .map(|(_, rest)| nanoseconds(rest.split_whitespace().next().unwrap()))
        .collect()
}

#[test]
#[ignore = "needs root"]
fn a_task_is_one_span_from_when_it_is_made_until_it_is_over() {
    if missing_right().is_some() {
        return;
    }
    let written = Written::default();
    let theirs = written.clone();
    tracing_subscriber::registry()
        .with(tracer_posix::layer())
        .with(
            tracing_subscriber::fmt::layer()
                .with_ansi(false)
                .with_span_events(FmtSpan::CLOSE)
                .with_writer(move || theirs.clone()),
        )
        .init();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let mut tracer = Command::new(dist::tracer_user().unwrap())
        .args(["attach", "--events", "switch,wakeup,user", "--log"])
        .arg(&log)
        .arg(std::process::id().to_string())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let is_traced = || Ok(tracer_area::emitter::is_traced().then_some(()));
    tests::wait_until("traced", Duration::from_secs(20), is_traced).unwrap();

    runtime.block_on(async {
        let mut all = tokio::task::JoinSet::new();
        for nth in 0..TASKS {
            all.spawn(task().instrument(tracing::info_span!("job", nth)));
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        while let Some(ended) = all.join_next().await {
            ended.unwrap();
        }
        tracing::info_span!("at once").in_scope(|| compute(Duration::from_millis(1)));
    });
    drop(runtime);
    // SAFETY: a signal is sent to our child.
    let sent = unsafe { libc::kill(tracer.id().cast_signed(), libc::SIGINT) };
    assert_eq!(sent, 0);
    assert!(tracer.wait().unwrap().success());

    let mut why = Command::new(dist::tracer_user().unwrap());
    why.args(["why", "--format", "json", "--slowest", "1000"]);
    let output = why.arg(&log).output().unwrap();
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let spans = answer["spans"].as_array().unwrap();
    let of = |name: &str| spans.iter().find(|kind| kind["name"] == name).unwrap();
    let ns = |kind: &Value, key: &str| kind[key].as_f64().unwrap();
    let jobs = of("tasks::job");
    assert_eq!(jobs["took"]["count"], TASKS);
    // Nothing is unknown but where the kernel did not run a program of the tracer, which shows.
    let is_told = answer["not_reported"].as_u64().unwrap() == 0;
    assert!(!is_told || ns(jobs, "unknown_ns") == 0.0, "{answer:#}");

    // Busy and idle, as the other layer has measured them.
    let written = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
    let job_lines: Vec<&str> = written
        .lines()
        .filter(|line| line.contains("job{"))
        .collect();
    let job_lines = job_lines.join("\n");
    let (busy, idle) = (
        times(&job_lines, "time.busy="),
        times(&job_lines, "time.idle="),
    );
    assert_eq!((busy.len(), idle.len()), (TASKS, TASKS), "{written}");
    let is_about = |ours: f64, theirs: f64| (ours - theirs).abs() < theirs * 0.03;
    let worked = ns(jobs, "running_ns") + ns(jobs, "runnable_ns") + ns(jobs, "blocked_ns");
    assert!(is_about(worked, busy.iter().sum()), "{jobs}\n{written}");
    let unpolled = ns(jobs, "unpolled_ns");
    assert!(is_about(unpolled, idle.iter().sum()), "{jobs}\n{written}");

    // Each of them.
    let slowest = answer["slowest"].as_array().unwrap();
    let mut ours: Vec<f64> = slowest
        .iter()
        .filter(|span| span["name"] == "tasks::job")
        .map(|span| ns(span, "ns"))
        .collect();
    let mut theirs: Vec<f64> = busy
        .iter()
        .zip(&idle)
        .map(|(busy, idle)| busy + idle)
        .collect();
    ours.sort_by(f64::total_cmp);
    theirs.sort_by(f64::total_cmp);
    assert_eq!(ours.len(), TASKS);
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert!(is_about(*ours, *theirs), "{ours} {theirs}\n{written}");
    }
    // Runs on two threads at least, or nothing was tried.
    let threads: HashSet<i64> = slowest
        .iter()
        .filter(|span| span["name"] == "tasks::job")
        .map(|span| span["tid"].as_i64().unwrap())
        .collect();
    assert!(threads.len() > 1, "{threads:?}");

    // What was entered once is that.
    let at_once = of("tasks::at once");
    assert!(ns(at_once, "unpolled_ns") == 0.0, "{at_once}");
    assert!(ns(at_once, "running_ns") > 900e3, "{at_once}");
}
