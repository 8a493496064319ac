//! Waits for locks, and who had them, beside what programs write down themselves.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tests::dist;
use tests::rights::missing_right;

/// Time that a thread had a lock at most, with the thread.
type Hold = (u64, u64, u64);

/// Facts that a program has written down.
#[derive(Default)]
struct Truth {
    /// Locks: address, bytes, and who had it when.
    locks: Vec<(u64, u64, Vec<Hold>)>,
    /// Times of each lock, by its address, in which it may have been no thread's: from a thread's
    /// word that it gives it back to the next one's that it has it.
    free: BTreeMap<u64, Vec<(u64, u64)>>,
    /// Address and bytes of what has no owner.
    others: Vec<(u64, u64)>,
    /// How long threads waited, in nanoseconds.
    waited: u64,
    /// Times that they did.
    waits: u64,
}

impl Truth {
    fn read(file: &Path) -> Self {
        let mut truth = Self::default();
        // Between a thread's words for it lies when it got a lock, and when it had it no more; and
        // it was no other thread's then.
        let mut written: BTreeMap<usize, Vec<[u64; 5]>> = BTreeMap::new();
        for line in fs::read_to_string(file).unwrap().lines() {
            let (word, numbers) = line.split_once(' ').unwrap();
            let numbers = numbers.split(' ').map(|number| number.parse().unwrap());
            let numbers: Vec<u64> = numbers.collect();
            match (word, &numbers[..]) {
                ("lock", [_, address, bytes]) => truth.locks.push((*address, *bytes, Vec::new())),
                ("other", [address, bytes]) => truth.others.push((*address, *bytes)),
                ("hold", [index, hold @ ..]) => {
                    let of_lock = written.entry(usize::try_from(*index).unwrap()).or_default();
                    of_lock.push(hold.try_into().unwrap());
                }
                ("wait", [_, _, from, until]) => {
                    truth.waited += until - from;
                    truth.waits += 1;
                }
                _ => panic!("{line}"),
            }
        }
        for (index, holds) in written {
            for (nth, [tid, before, _, _, left]) in holds.iter().enumerate() {
                let last = nth.checked_sub(1).map_or(0, |last| holds[last][3]);
                let next = holds.get(nth + 1).map_or(u64::MAX, |next| next[2]);
                let hold = (*before.max(&last), *left.min(&next), *tid);
                truth.locks[index].2.push(hold);
            }
            let pairs = holds.windows(2);
            let free = pairs.map(|both| (both[0][3], both[1][2])).collect();
            truth.free.insert(truth.locks[index].0, free);
        }
        truth
    }

    fn lock_at(&self, at: u64) -> Option<&[Hold]> {
        let mut locks = self.locks.iter();
        let found = locks.find(|(address, bytes, _)| (*address..address + bytes).contains(&at));
        found.map(|(.., holds)| &holds[..])
    }

    fn may_be_free(&self, at: u64, time: u64) -> bool {
        let mut locks = self.locks.iter();
        let found = locks.find(|(address, bytes, _)| (*address..address + bytes).contains(&at));
        let free = found.and_then(|(address, ..)| self.free.get(address));
        free.is_some_and(|free| {
            let mut free = free.iter();
            free.any(|(from, until)| (*from..=*until).contains(&time))
        })
    }

    fn is_of_other(&self, at: u64) -> bool {
        let mut others = self.others.iter();
        others.any(|(address, bytes)| (*address..address + bytes).contains(&at))
    }
}

/// Time around an event whose holders a failure shows.
const NEAR_NS: u64 = 1_000_000;

/// Time within which the memory of a lock is read, after the time of the event was taken: who is
/// named may have got the lock in between.
const READ_WITHIN_NS: u64 = 20_000;

/// A trace of a program that writes down what it did.
struct Traced {
    _folder: tempfile::TempDir,
    log: PathBuf,
    truth: Truth,
    events: Vec<Value>,
}

fn tracer_user(args: &[&str], file: &Path) -> Output {
    let mut command = Command::new("timeout");
    command.arg("120").arg(dist::tracer_user().unwrap());
    let output = command.args(args).arg(file).output().unwrap();
    assert!(output.status.success(), "{args:?}: {output:?}");
    output
}

/// Records a command with its waits for locks.
fn record(log: &Path, program: &Path, args: &[&str]) {
    let mut command = Command::new("timeout");
    command.arg("120").arg(dist::tracer_user().unwrap());
    command.args(["run", "--locks", "--ring-size", "32M", "--log"]);
    let output = command.arg(log).arg("--").arg(program).args(args).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains(" 0 lost"), "{said}");
}

/// Returns the waits for locks of a log.
fn lock_waits(log: &Path) -> Vec<Value> {
    let output = tracer_user(&["read", "--format", "json", "--events", "lock"], log);
    let lines = String::from_utf8(output.stdout).unwrap();
    let events = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    let is_wait = |event: &Value| event["type"] == "linux_trace_lock_wait";
    events.filter(is_wait).collect()
}

fn stat(log: &Path) -> Value {
    let output = tracer_user(&["stat", "--locks", "--format", "json"], log);
    serde_json::from_slice(&output.stdout).unwrap()
}

impl Traced {
    fn run(program: &Path, kind: &str, threads: usize, rounds: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (log, file) = (folder.path().join("log"), folder.path().join("truth"));
        let (threads, rounds) = (threads.to_string(), rounds.to_string());
        let args = [kind, &threads, &rounds, "100", file.to_str().unwrap()];
        record(&log, program, &args);
        Self {
            truth: Truth::read(&file),
            events: lock_waits(&log),
            log,
            _folder: folder,
        }
    }

    /// Counts the waits for the program's locks, and those whose owner the memory tells. That
    /// thread had the lock at that time, and what has no owner has none. A wait without an owner
    /// does not count where the lock may have been no thread's: it was given back meanwhile.
    fn count(&self) -> (usize, usize) {
        let (mut waits, mut named) = (0, 0);
        for event in &self.events {
            let (data, at) = (&event["data"], event["ns"].as_u64().unwrap());
            let address = data["address"].as_u64().unwrap();
            let owner = data["owner"].as_u64().filter(|owner| *owner != 0);
            assert!(
                owner.is_none() || !self.truth.is_of_other(address),
                "{event}"
            );
            let Some(holds) = self
                .truth
                .lock_at(address)
                .filter(|holds| !holds.is_empty())
            else {
                continue;
            };
            if owner.is_none() && self.truth.may_be_free(address, at) {
                continue;
            }
            waits += 1;
            if let Some(owner) = owner {
                let had_it = |(from, until, tid): &Hold| {
                    *tid == owner && (from.saturating_sub(READ_WITHIN_NS)..=*until).contains(&at)
                };
                let is_near = |(from, until, _): &&Hold| {
                    (from.saturating_sub(NEAR_NS)..=until + NEAR_NS).contains(&at)
                };
                assert!(
                    holds.iter().any(had_it),
                    "{event}: those who had it within {NEAR_NS} ns: {:?}",
                    holds.iter().filter(is_near).collect::<Vec<_>>()
                );
                named += 1;
            }
        }
        (waits, named)
    }

    /// Checks that the sums of `stat` are those of the events, and returns how long all waited for
    /// the program's locks.
    fn sums(&self) -> u64 {
        let stat = stat(&self.log);
        let locks = stat["locks"].as_array().unwrap().iter();
        let of_program: Vec<&Value> = locks
            .filter(|lock| {
                let address = lock["address"].as_u64().unwrap();
                self.truth.lock_at(address).is_some()
            })
            .collect();
        let mut told: BTreeMap<u64, u64> = BTreeMap::new();
        let sum = |key: &str| -> u64 {
            let each = of_program.iter();
            each.map(|lock| lock[key].as_u64().unwrap()).sum()
        };
        for holder in of_program
            .iter()
            .flat_map(|lock| lock["holders"].as_array().unwrap())
        {
            if let Some(tid) = holder["holder"]["tid"].as_u64() {
                *told.entry(tid).or_default() += holder["waits"].as_u64().unwrap();
            }
        }
        let mut owners: BTreeMap<u64, u64> = BTreeMap::new();
        let mut waits = 0;
        for event in &self.events {
            let address = event["data"]["address"].as_u64().unwrap();
            if self.truth.lock_at(address).is_some() {
                waits += 1;
                let owner = event["data"]["owner"].as_u64().unwrap();
                if owner != 0 {
                    *owners.entry(owner).or_default() += 1;
                }
            }
        }
        assert_eq!(told, owners, "{stat}");
        assert_eq!(sum("waits"), waits, "{stat}");
        assert!(sum("blocked_ns") <= sum("total_ns"), "{stat}");
        sum("total_ns")
    }
}

fn program() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let program = dist::compile("lock_holders", folder.path()).unwrap();
    (folder, program)
}

/// Waits of each run: ten thousand in all where tests run in full.
fn rounds(threads: usize) -> usize {
    let all = if tests::is_whole() { 4000 } else { 1600 };
    all / threads
}

#[test]
#[ignore = "loads eBPF"]
fn whoever_has_a_mutex_of_glibc_is_the_thread_that_the_program_wrote_down() {
    if missing_right().is_some() {
        return;
    }
    let (_folder, program) = program();
    let kinds = [
        "normal",
        "recursive",
        "errorcheck",
        "adaptive",
        "shared",
        "robust",
        "pi",
    ];
    let (mut all, mut all_named) = (0, 0);
    for (kind, threads) in kinds.into_iter().zip([2, 4, 8, 3, 16, 6, 5]) {
        let traced = Traced::run(&program, kind, threads, rounds(threads));
        let (waits, named) = traced.count();
        assert!(waits > 300, "{kind}: {waits}");
        assert!(named * 100 >= waits * 99, "{kind}: {named} of {waits}");
        (all, all_named) = (all + waits, all_named + named);
        traced.sums();
    }
    assert!(all_named * 100 >= all * 99, "{all_named} of {all}");
    // A thread alone waits for none.
    let traced = Traced::run(&program, "normal", 1, 300);
    assert_eq!(traced.count(), (0, 0));
}

#[test]
#[ignore = "loads eBPF"]
fn the_waits_of_many_threads_add_up_to_the_time_that_they_measured() {
    if missing_right().is_some() {
        return;
    }
    let (_folder, program) = program();
    for threads in [2, 8, 32] {
        let traced = Traced::run(&program, "normal", threads, rounds(threads));
        let (waits, named) = traced.count();
        assert!(named * 100 >= waits * 99, "{threads}: {named} of {waits}");
        let (told, measured) = (traced.sums(), traced.truth.waited);
        // What it takes to go into a call and out of it, for as many as there were.
        let beside = measured / 20 + traced.truth.waits * 30_000;
        assert!(
            told <= measured && measured - told <= beside,
            "{threads}: {told} of {measured}"
        );
    }
}

#[test]
#[ignore = "loads eBPF"]
fn what_has_no_owner_has_none_and_readers_are_not_named() {
    if missing_right().is_some() {
        return;
    }
    let (_folder, program) = program();
    let traced = Traced::run(&program, "rwlock", 4, rounds(4));
    let (waits, named) = traced.count();
    assert!(waits > 100 && named > 0, "{named} of {waits}");
    let stat = stat(&traced.log);
    let locks = stat["locks"].as_array().unwrap().iter();
    let kinds: Vec<&Value> = locks
        .filter(|lock| {
            traced
                .truth
                .lock_at(lock["address"].as_u64().unwrap())
                .is_some()
        })
        .map(|lock| &lock["kind"])
        .collect();
    assert!(kinds.iter().any(|kind| *kind == "rwlock"), "{stat}");
    for kind in ["condition", "barrier", "semaphore"] {
        let traced = Traced::run(&program, kind, 4, rounds(4));
        traced.count();
        let waits = traced.events.iter().filter(|event| {
            let address = event["data"]["address"].as_u64().unwrap();
            traced.truth.is_of_other(address)
        });
        let waits: Vec<&Value> = waits.collect();
        assert!(waits.len() > 100, "{kind}: {}", waits.len());
        let is_futex = |event: &&Value| event["data"]["lock"] == "futex";
        assert!(waits.iter().all(is_futex), "{kind}");
    }
}

#[test]
#[ignore = "loads eBPF"]
fn whoever_has_a_mutex_of_musl_is_the_thread_that_the_program_wrote_down() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("musl");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/lock_holders.c");
    let mut compiler = Command::new("musl-gcc");
    compiler.args(["-O2", "-static", "-pthread", "-o"]);
    let compiled = compiler.arg(&program).arg(source).output().unwrap();
    assert!(compiled.status.success(), "{compiled:?}");
    for kind in ["recursive", "errorcheck", "robust"] {
        let traced = Traced::run(&program, kind, 4, rounds(4));
        let (waits, named) = traced.count();
        eprintln!("KIND {kind}: {named} of {waits}");
        assert!(waits > 300, "{kind}: {waits}");
        assert!(named * 100 >= waits * 99, "{kind}: {named} of {waits}");
        traced.sums();
    }
    // One of the plain kind has no owner in its memory.
    let traced = Traced::run(&program, "normal", 4, rounds(4));
    let (waits, named) = traced.count();
    assert!(waits > 300 && named == 0, "{named} of {waits}");
}

#[test]
#[ignore = "loads eBPF"]
fn the_path_of_a_thread_names_whoever_had_the_lock() {
    if missing_right().is_some() {
        return;
    }
    let (_folder, program) = program();
    let traced = Traced::run(&program, "normal", 2, 600);
    let output = tracer_user(&["why", "--whole", "--format", "json"], &traced.log);
    let why: Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut named = 0;
    let mut parts: Vec<&Value> = why["slowest"].as_array().unwrap().iter().collect();
    while let Some(part) = parts.pop() {
        let within = [&part["parts"], &part["within"]];
        parts.extend(within.into_iter().filter_map(Value::as_array).flatten());
        if part["lock"]["kind"] == "mutex" {
            // Of two threads the one waits for the other.
            let holder = part["lock"]["holder"]["tid"].as_u64().unwrap();
            let waker = part["waker"]["thread"]["tid"].as_u64();
            assert!(waker.is_none_or(|waker| waker == holder), "{part}");
            named += part["count"].as_u64().unwrap();
        }
    }
    assert!(named > 50, "{why}");
    let words = tracer_user(&["why", "--whole"], &traced.log).stdout;
    let words = String::from_utf8(words).unwrap();
    assert!(words.contains("blocked in futex for mutex 0x"), "{words}");
    assert!(words.contains(", held by lock_holders "), "{words}");
}

#[test]
#[ignore = "loads eBPF"]
fn memory_that_only_looks_like_locks_has_no_holders() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = dist::compile("lock_liar", folder.path()).unwrap();
    let own = std::process::id().to_string();
    for args in [&["forged", &own][..], &["edges"]] {
        let log = folder.path().join(args[0]);
        record(&log, &program, args);
        let events = lock_waits(&log);
        assert!(events.len() > 20, "{args:?}: {}", events.len());
        let stat = stat(&log);
        for lock in stat["locks"].as_array().unwrap() {
            let holders = lock["holders"].as_array().unwrap().iter();
            let named = holders.filter(|holder| !holder["holder"].is_null());
            // Its end is waited for, as it is.
            assert!(named.count() == 0 || lock["kind"] == "thread_end", "{lock}");
        }
        tracer_user(&["why", "--whole"], &log);
        tracer_user(&["stat", "--locks"], &log);
    }
}

#[test]
#[ignore = "loads eBPF"]
fn of_too_many_locks_the_rest_is_added_up() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = dist::compile("lock_liar", folder.path()).unwrap();
    let log = folder.path().join("many");
    record(&log, &program, &["many", "100000"]);
    let events = lock_waits(&log).len();
    assert!(events > 80_000, "{events}");
    let stat = stat(&log);
    let locks = stat["locks"].as_array().unwrap();
    let waits = locks.iter().map(|lock| lock["waits"].as_u64().unwrap());
    let waits = usize::try_from(waits.sum::<u64>()).unwrap();
    // A wait of which the kernel did not report a switch is none of them.
    let not_reported = usize::try_from(stat["not_reported"].as_u64().unwrap()).unwrap();
    assert!(
        waits <= events && events - waits <= 3 * not_reported,
        "{waits} of {events}, {not_reported}"
    );
    assert_eq!(locks.len(), 65_536 + 1);
    assert!(locks.last().unwrap()["address"].is_null());
    let words = tracer_user(&["stat", "--locks"], &log).stdout;
    let words = String::from_utf8(words).unwrap();
    assert!(words.contains("and others, of which there are too many"));
}
