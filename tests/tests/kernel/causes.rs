//! Causes of the delays of requests, beside what the threads that delayed them say.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::HashMap;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use tests::dist;
use tests::rights::missing_right;

/// Tolerance, added to a tenth of the time that the delaying thread measured: time beyond both has
/// another cause. On an emulated machine it is longer, as each event takes longer.
const MARGIN: Duration = Duration::from_micros(40);

/// Time of a request beside that of its cause, from which on something else delayed it, like a
/// guest's CPU that stood still: it tells nothing of what is tested.
const BESIDE: Duration = Duration::from_micros(200);

/// Runs of the program until one is explained: with what the machine does meanwhile, one may not
/// be, but a fault is in each.
const RUNS: usize = 5;

/// A request, as described by the threads that delayed it. Times in nanoseconds.
struct Delayed {
    cause: String,
    /// Time that the cause took, at least and at most.
    least: u64,
    most: u64,
    /// Time of the request as a whole.
    whole: u64,
    /// Time that the worker ran where it has nothing to do but to wait for others: where it is
    /// long, like that of waking a CPU which the host has taken away, the others may be done first.
    own: u64,
}

/// Runs the program's requests under the tracer, with these options. Returns what is known of them,
/// the threads by their roles, and the answer of `why`.
fn requests(
    count: u32,
    seed: u32,
    options: &[&str],
) -> (Vec<Delayed>, HashMap<String, u64>, Value) {
    // On a disk: memory is never waited for.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let program = dist::compile("causes", folder.path()).unwrap();
    let log = folder.path().join("log");
    let mut run = Command::new(dist::tracer_user().unwrap());
    run.args(["run", "--events", "switch,wakeup,user"]);
    run.args(options)
        .arg("--log")
        .arg(&log)
        .arg("--")
        .arg(program);
    run.args([count.to_string(), seed.to_string()]);
    let output = run.arg(folder.path()).output().unwrap();
    assert_ne!(output.status.code(), Some(2), "{output:?}");
    let said = String::from_utf8(output.stdout).unwrap();
    let (said, tids) = said.split_once("threads ").unwrap();
    let delayed = said.lines().map(|line| {
        let [cause, least, most, whole, own] = line.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{line}");
        };
        Delayed {
            cause: cause.to_owned(),
            least: least.parse().unwrap(),
            most: most.parse().unwrap(),
            whole: whole.parse().unwrap(),
            own: own.parse().unwrap(),
        }
    });
    let roles = [
        "worker", "helper", "third", "hog", "spinner", "server", "stopper",
    ];
    let tids = tids.split_whitespace().map(|tid| tid.parse().unwrap());
    let roles = roles.map(str::to_owned).into_iter().zip(tids).collect();

    let mut why = Command::new(dist::tracer_user().unwrap());
    why.args(["why", "--format", "json", "--span", "request"]);
    let output = why.args(["--slowest", "1000000"]).arg(&log).output();
    let why = serde_json::from_slice(&output.unwrap().stdout).unwrap();
    (delayed.collect(), roles, why)
}

/// Tells whether a segment of a path is of this cause.
fn is_of(cause: &str, segment: &Value, tids: &HashMap<String, u64>) -> bool {
    let is = |state: &str, who: &str| segment["state"] == state && segment["tid"] == tids[who];
    let is_in = |call: &str| segment["in"] == call;
    let by_timer = segment["waker"]["kind"] == "timer";
    match cause {
        "compute" => is("running", "worker"),
        "mutex_compute" | "pipe" | "condition" => is("running", "helper"),
        "mutex_sleep" => is("blocked", "helper") && is_in("clock_nanosleep") && by_timer,
        "mutex_third" => is("running", "third"),
        "socket" => is("running", "server"),
        "fsync" => is("blocked", "worker") && is_in("fsync"),
        "fault" => is("blocked", "worker") && is_in("page fault") && segment["io_wait"] == true,
        "hog" => is("runnable", "worker") && segment["behind"]["tid"] == tids["hog"],
        "timer" => is("blocked", "worker") && is_in("clock_nanosleep") && by_timer,
        "stop" => is("stopped", "worker") && segment["waker"]["thread"]["tid"] == tids["stopper"],
        _ => panic!("{cause}"),
    }
}

/// Tells whether in a segment of a path an idle CPU wakes up for the worker. The kernel counts that
/// as sleep, as the worker comes into a queue of the CPU by its interrupt.
fn is_idle_cpu_waking(segment: &Value, tids: &HashMap<String, u64>) -> bool {
    let behind = segment["behind"]["comm"].as_str().unwrap_or_default();
    segment["state"] == "runnable"
        && segment["tid"] == tids["worker"]
        && behind.starts_with("swapper/")
}

/// Returns the answer of `why` to that many requests, of which not more than one in a hundred is
/// explained differently from what is known of it. Beside other work something is measured wrong
/// now and then, and a guest's kernel does not report each switch.
fn explained(count: u32, seed: u32, options: &[&str]) -> Value {
    let mut of_runs = Vec::new();
    for _ in 0..RUNS {
        let (told, wrong, why) = wrong(count, seed, options);
        if told >= count as usize / 4 && wrong.len() <= told / 100 {
            return why;
        }
        of_runs.push((told, wrong));
    }
    let shown = of_runs.iter().map(|(told, wrong)| (wrong.len(), told));
    panic!("{:?}: {:#?}", shown.collect::<Vec<_>>(), of_runs[0].1);
}

/// Returns the number of requests that nothing but their cause has delayed, those of them that
/// `why` explains differently from what is known of them, and its answer. Unknown time explains
/// nothing.
fn wrong(count: u32, seed: u32, options: &[&str]) -> (usize, Vec<String>, Value) {
    let (delayed, tids, mut why) = requests(count, seed, options);
    let mut spans = why["slowest"].as_array().unwrap().clone();
    spans.sort_by_key(|span| span["from_ns"].as_u64());
    assert_eq!(
        (spans.len(), delayed.len()),
        (count as usize, count as usize)
    );

    let ns_of = |time| u64::try_from(tests::timeout(time).as_nanos()).unwrap();
    let (margin, beside) = (ns_of(MARGIN), ns_of(BESIDE));
    let (mut told, mut wrong) = (0, Vec::new());
    for (known, span) in delayed.iter().zip(&spans) {
        let ns = |value: &Value| value["ns"].as_u64().unwrap();
        let segments = span["segments"].as_array().unwrap();
        let all: u64 = segments.iter().map(ns).sum();
        assert_eq!(all, ns(span), "{span}");
        if known.whole > known.most + beside || known.own > margin {
            continue;
        }
        told += 1;
        let of = |is_one: &dyn Fn(&Value) -> bool| -> u64 {
            segments.iter().filter(|one| is_one(one)).map(ns).sum()
        };
        let found = of(&|one| is_of(&known.cause, one, &tids));
        let waking = if matches!(&*known.cause, "fsync" | "fault") {
            of(&|one| is_idle_cpu_waking(one, &tids)).min(found / 2)
        } else {
            0
        };
        let found = found + waking;
        let unknown = of(&|one| one["state"] == "unknown");
        let others = all - found - unknown;
        let least = known.least.min(all);
        let is_right = found + unknown + margin >= least - least / 10
            && found <= known.most + known.most / 10 + margin
            && others <= all - least + least / 10 + margin;
        if !is_right {
            let Delayed {
                cause, least, most, ..
            } = known;
            wrong.push(format!(
                "{cause} {least} to {most}: {found} and {others} in {segments:?}"
            ));
        }
    }
    why["slowest"] = Value::Null;
    (told, wrong, why)
}

#[test]
#[ignore = "needs root"]
fn requests_are_explained_by_what_delayed_them() {
    if missing_right().is_some() {
        return;
    }
    let count = 4000;
    let why = explained(count, 1, &[]);

    let [kind] = &why["spans"].as_array().unwrap()[..] else {
        panic!("{why}");
    };
    let ns = |name: &str| kind[name].as_u64().unwrap();
    assert_eq!(kind["took"]["count"], count);
    let parts = [
        "running_ns",
        "runnable_ns",
        "blocked_ns",
        "stopped_ns",
        "unknown_ns",
    ];
    let sum: u64 = parts.map(ns).iter().sum();
    assert_eq!(kind["took"]["total_ns"], sum, "{why}");
    assert!(ns("unknown_ns") < sum / 20, "{why}");
}

#[test]
#[ignore = "needs root"]
fn where_events_are_lost_no_thread_is_blamed_wrongly() {
    if missing_right().is_some() {
        return;
    }
    let why = explained(2000, 2, &["--ring-size", "4K"]);

    assert!(why["lost"].as_u64().unwrap() > 100, "{why}");
    let of_kind = &why["spans"][0];
    assert!(of_kind["unknown_ns"].as_u64().unwrap() > 0, "{why}");
}

/// Runs the program that waits in vain in this mode, with these system calls recorded or none.
/// Returns how long its requests waited as a whole, how long for the culprit, and the answer of
/// `why`.
fn waited_in_vain(mode: &str, calls: Option<&str>) -> (u64, u64, Value) {
    let folder = tempfile::tempdir().unwrap();
    let program = dist::compile("retries", folder.path()).unwrap();
    let log = folder.path().join("log");
    let mut run = Command::new(dist::tracer_user().unwrap());
    run.args(["run", "--log"]).arg(&log);
    if let Some(calls) = calls {
        run.args(["--syscalls", calls]);
    }
    let output = run.arg("--").arg(&program).arg(mode).output().unwrap();
    assert_ne!(output.status.code(), Some(2), "{output:?}");
    let mut why = Command::new(dist::tracer_user().unwrap());
    why.args(["why", "--format", "json", "--span", "request"]);
    let output = why.arg(&log).output().unwrap();
    let why: Value = serde_json::from_slice(&output.stdout).unwrap();

    let parts = why["spans"][0]["parts"].as_array().unwrap().iter();
    let ns_of = |is_of: &dyn Fn(&Value) -> bool| -> u64 {
        let ns = parts.clone().filter(|part| is_of(part));
        ns.map(|part| part["ns"].as_u64().unwrap()).sum()
    };
    let all = ns_of(&|_| true);
    let culprits = ns_of(&|part| part["waker"]["thread"]["comm"] == "culprit");
    (all, culprits, why)
}

#[test]
#[ignore = "needs root"]
fn a_wait_that_ended_in_vain_is_of_who_ended_it_in_the_end() {
    if missing_right().is_some() {
        return;
    }
    for (mode, calls) in [
        ("herd", None),
        ("timeout", None),
        ("poll", None),
        ("herd", Some("futex")),
        ("timeout", Some("futex")),
        ("poll", Some("poll,read,write")),
    ] {
        let of_runs = (0..RUNS).map(|_| {
            let (all, culprits, why) = waited_in_vain(mode, calls);
            // It computed for 6 ms of each.
            assert!(all >= 20 * 6_000_000, "{mode}: {why}");
            // Sometimes the other one wakes at the very end.
            let is_blamed = culprits * 10 >= all * 6;
            (!is_blamed).then(|| format!("{culprits} of {all}: {why}"))
        });
        let wrong: Option<Vec<String>> = of_runs.collect();
        assert!(wrong.is_none(), "{mode} {calls:?}: {wrong:#?}");
    }
}
