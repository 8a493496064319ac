//! `tracer-user compare`, of runs into which one thing was put on purpose, and of runs of the same
//! program.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;
use tests::cgroup::Cgroup;
use tests::rights::missing_right;
use tests::{dist, is_whole};

/// A fault, the cause that is to be found, and the system call that goes with it.
type Fault = (&'static str, &'static str, Option<&'static str>);

const FAULTS: [Fault; 10] = [
    ("reads", "ran", Some("pread64")),
    ("cold", "blocked in pread64 for a device", Some("pread64")),
    (
        "disk",
        "blocked in fdatasync for a device",
        Some("fdatasync"),
    ),
    ("compute", "ran", None),
    (
        "lock",
        "blocked in futex, for another thread",
        Some("futex"),
    ),
    (
        "timer",
        "blocked in clock_nanosleep, for a timer",
        Some("clock_nanosleep"),
    ),
    (
        "command",
        "blocked in wait4, for another thread",
        Some("wait4"),
    ),
    ("pipe", "blocked in read, for another thread", Some("read")),
    ("quota", "throttled by its control group", None),
    ("crowd", "waited for a CPU", None),
];

/// Returns a fault of each cause, whatever the call in which it is.
fn one_of_each_cause() -> Vec<Fault> {
    let kind = |(_, cause, _): &Fault| {
        let in_call = cause.strip_prefix("blocked in ");
        let kind = in_call.and_then(|rest| rest.split_once(" for "));
        kind.map_or(*cause, |(_, kind)| kind)
    };
    let mut kinds = BTreeSet::new();
    let mut faults = FAULTS.to_vec();
    faults.retain(|fault| kinds.insert(kind(fault)));
    faults
}

/// The program, and a folder on a disk for its files and logs.
struct Lab {
    folder: TempDir,
    program: PathBuf,
}

impl Lab {
    fn new() -> Self {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let program = dist::compile("regression", folder.path()).unwrap();
        Self { folder, program }
    }

    /// Records a run with a fault.
    fn record(&self, fault: &str, log: &str) -> PathBuf {
        let log = self.folder.path().join(log);
        let group = (fault == "quota").then(|| Cgroup::with("cpu").unwrap());
        let mut run = Command::new(dist::tracer_user().unwrap());
        run.args(["run", "--syscalls", "all", "--ring-size", "32M"]);
        run.args(["--stream-size", "64M", "--log"]);
        run.arg(&log).arg("--").arg(&self.program).arg(fault);
        run.arg(self.folder.path());
        run.args(group.iter().map(Cgroup::path));
        let output = run.output().unwrap();
        assert!(output.status.success(), "{fault}: {output:?}");
        log
    }

    fn record_some(&self, fault: &str, kind: &str) {
        for nth in 0..3 {
            self.record(fault, &format!("{kind}{nth}.log"));
        }
    }

    /// The pattern of the logs of a kind.
    fn pattern(&self, kind: &str) -> String {
        format!("{}/{kind}*.log", self.folder.path().display())
    }
}

fn compare<A: AsRef<std::ffi::OsStr>>(arguments: &[A]) -> Value {
    let output = Command::new(dist::tracer_user().unwrap())
        .args(["compare", "--format", "json"])
        .args(arguments)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Returns the subject that differs: spans, or the process as a whole.
fn subject<'a>(answer: &'a Value, kind: &str) -> &'a Value {
    let mut subjects = answer["subjects"].as_array().unwrap().iter();
    subjects.find(|subject| subject["kind"] == kind).unwrap()
}

/// Whether the subject is slower, and that for this cause first, with this call. Who waits more
/// often waits for a CPU more often too, where others want the CPUs.
fn is_found(subject: &Value, cause: &str, call: Option<&str>) -> bool {
    const FOR_CPU: &str = "waited for a CPU";
    let mut causes = subject["causes"].as_array().unwrap().iter();
    let first = causes.find(|of| cause == FOR_CPU || of["cause"] != FOR_CPU);
    let Some(first) = first else {
        return false;
    };
    let mut calls = first["syscalls"].as_array().unwrap().iter();
    subject["verdict"] == "slower"
        && first["cause"] == cause
        && call.is_none_or(|call| calls.any(|of| of["name"] == call))
}

#[test]
#[ignore = "loads eBPF"]
fn the_cause_that_was_put_in_is_first() {
    if missing_right().is_some() {
        return;
    }
    let lab = Lab::new();
    let (rounds, faults) = if is_whole() {
        (2, FAULTS.to_vec())
    } else {
        (1, one_of_each_cause())
    };
    let mut missed = Vec::new();
    for round in 0..rounds {
        let before = lab.record("none", &format!("before{round}.log"));
        for &(fault, cause, call) in &faults {
            let after = lab.record(fault, &format!("{fault}{round}.log"));
            let answer = compare(&[&before, &after]);
            for kind in ["span", "whole"] {
                let subject = subject(&answer, kind);
                if !is_found(subject, cause, call) {
                    missed.push(format!("{fault} of the {kind}: {subject:#}"));
                }
            }
        }
    }
    // Of each, the spans and the whole.
    assert!(missed.len() <= 2 * rounds, "{}", missed.join("\n"));
}

#[test]
#[ignore = "loads eBPF"]
fn runs_of_the_same_program_raise_no_alarm() {
    if missing_right().is_some() {
        return;
    }
    let lab = Lab::new();
    let pairs = if is_whole() { 20 } else { 4 };
    let mut alarms = Vec::new();
    for pair in 0..pairs {
        let logs = ["a", "b"].map(|side| lab.record("none", &format!("{side}{pair}.log")));
        let answer = compare(&logs);
        let subjects = answer["subjects"].as_array().unwrap();
        let is_alarm = |subject: &&Value| subject["verdict"] == "slower";
        alarms.extend(subjects.iter().find(is_alarm).cloned());
    }
    assert!(alarms.len() <= 1, "{alarms:#?}");
}

/// Makes a page, and compares its timelines with the answer: of each subject one of each side, by
/// the same scale.
fn look_at_page(lab: &Lab, patterns: [&str; 2], answer: &Value) {
    let page = lab.folder.path().join("page.html");
    let words = [
        "compare",
        "--a",
        patterns[0],
        "--b",
        patterns[1],
        "--output",
    ];
    let make = |more: &[&str]| {
        let mut command = Command::new(dist::tracer_user().unwrap());
        command.args(words).arg(&page).args(more).output().unwrap()
    };
    assert!(make(&[]).status.success());
    // Nothing is replaced unasked.
    assert_eq!(make(&[]).status.code(), Some(2));
    assert!(make(&["--force"]).status.success());
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("default-src 'none'") && !page.contains("<script"));
    let lanes: Vec<&str> = page.split("<svg ").skip(1).collect();
    let subjects = answer["subjects"].as_array().unwrap();
    assert_eq!(lanes.len(), 2 * subjects.len());
    for (subject, lanes) in subjects.iter().zip(lanes.chunks(2)) {
        let ends = [lanes[0], lanes[1]].map(|lane| {
            let lane = lane.split("</svg>").next().unwrap();
            let number = |name: &str| {
                let last = lane.rsplit(&format!(" {name}=\"")).next().unwrap();
                last.split('"').next().unwrap().parse::<f64>().unwrap()
            };
            number("x") + number("width")
        });
        // The longer one has the whole width, and of the other one as much as it took.
        let p50 = ["a", "b"].map(|side| subject[side]["p50_ns"].as_f64().unwrap());
        assert!((ends[0].max(ends[1]) - 100_000.0).abs() < 200.0, "{ends:?}");
        let ratio = (ends[0] / ends[1]) / (p50[0] / p50[1]);
        assert!((0.5..2.0).contains(&ratio), "{ends:?} {p50:?}");
    }
}

#[test]
#[ignore = "loads eBPF"]
fn several_runs_of_each_side_tell_chance_from_change() {
    if missing_right().is_some() {
        return;
    }
    let lab = Lab::new();
    lab.record_some("none", "old");
    lab.record_some("timer", "new");
    let (old, new) = (lab.pattern("old"), lab.pattern("new"));
    let answer = compare(&["--a", &old, "--b", &new]);
    let whole = subject(&answer, "whole");
    assert_eq!(whole["a"]["runs"], 3);
    // Two of the twenty ways to deal six runs out to two sides differ as much.
    assert!(
        (whole["chance"].as_f64().unwrap() - 0.1).abs() < 1e-9,
        "{whole}"
    );
    assert!(
        is_found(whole, "blocked in clock_nanosleep, for a timer", None),
        "{whole:#}"
    );
    // The parts add up to the whole, on both sides.
    for side in ["a", "b"] {
        let causes = whole["causes"].as_array().unwrap().iter();
        let key = format!("{side}_ns");
        let sum: u64 = causes.map(|cause| cause[&key].as_u64().unwrap()).sum();
        let mean = whole[side]["mean_ns"].as_u64().unwrap();
        assert!(sum.abs_diff(mean) < 100, "{sum} {mean}");
    }
    let text = Command::new(dist::tracer_user().unwrap())
        .args(["compare", "--a", &old, "--b", &new])
        .output()
        .unwrap();
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("span request: slower"), "{text}");
    assert!(
        text.contains("3 and 3 runs; by chance alone in 100 of 1000 cases"),
        "{text}"
    );
    look_at_page(&lab, [&old, &new], &answer);
    let missing = Command::new(dist::tracer_user().unwrap())
        .args(["compare", "--a", &lab.pattern("none"), "--b", &new])
        .output()
        .unwrap();
    assert_eq!(missing.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&missing.stderr).contains("matches no file"));
    let folder: &Path = lab.folder.path();
    assert!(folder.exists());
}

/// Circumstances of a run of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Amid {
    /// Nothing in particular.
    Nothing,
    /// This has been done just before.
    After(&'static str),
    /// This goes on meanwhile.
    Beside(&'static str),
    /// Its control group has a tenth of a CPU.
    Quota,
    /// Its control group reads 30 MB a second.
    SlowDisk,
}

use Amid::{After, Beside, Nothing, Quota, SlowDisk};

/// A program, as it was and as it becomes slower: what it is given, what goes on around it, and the
/// cause that is to be found, with its system call.
struct Regression {
    name: &'static str,
    before: (&'static str, Amid),
    after: (&'static str, Amid),
    cause: &'static str,
    call: Option<&'static str>,
}

/// Files that the programs work with.
const FILES: &str = "
    set -e
    seq 1 1500000 >text
    for nth in $(seq 16); do cat text; done >large
    mkdir some many
    /usr/bin/python3 -c '
import os
for nth in range(20000): open(f\"many/{nth}\", \"w\")
for nth in range(800): open(f\"some/{nth}\", \"w\").write(\"%d\" % nth * 4000)'
    sync large some/*
    git init --quiet repository
    cd repository
    git config user.name tests; git config user.email tests@example.org; git config gc.auto 0
    for nth in $(seq 60); do
        for file in $(seq 20); do echo $nth $file >$file; done
        git add . && git commit --quiet --message $nth
    done
    cd ..
    cp -r repository packed
    git -C packed gc --quiet
    sqlite3 plain.db 'CREATE TABLE t(id INTEGER PRIMARY KEY, key INTEGER, text TEXT);
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60000)
        INSERT INTO t SELECT i, i * 7919 % 60000, printf(\"%0100d\", i) FROM n;'
    cp plain.db indexed.db
    sqlite3 indexed.db 'CREATE INDEX of_key ON t(key)'
    for nth in $(seq 400); do echo \"SELECT text FROM t WHERE key = $nth;\"; done >by_key.sql
    lookups='SELECT count((SELECT length(text) FROM t AS other WHERE other.id = t.id * 7919 % 60000)) FROM t;'
    echo \"PRAGMA cache_size = 10000; $lookups\" >by_id.sql
    echo \"PRAGMA cache_size = 8; $lookups\" >by_id_without_cache.sql
    for nth in $(seq 150); do echo \"INSERT INTO log VALUES($nth);\"; done >commits.sql
    (echo 'BEGIN;'; cat commits.sql; echo 'COMMIT;') >commit.sql
    sqlite3 log.db 'CREATE TABLE log(n INTEGER)'
    mkfifo fifo
";

/// Has the lock of a file for a time, gives it back for a moment, and takes it again.
macro_rules! has_file_lock {
    ($seconds:literal) => {
        concat!(
            "exec perl -e 'use Fcntl q(:flock); open F, q(>lock); for (;;) { flock F, LOCK_EX; \
             select undef, undef, undef, ",
            $seconds,
            "; flock F, LOCK_UN; select undef, undef, undef, 0.001 }'"
        )
    };
}

/// Takes the lock of a file, time and again.
const FILE_LOCK: &str = "exec perl -e 'use Fcntl q(:flock); open F, q(>lock); for (1 .. 12) \
    { flock F, LOCK_EX; flock F, LOCK_UN; select undef, undef, undef, 0.003 }'";

/// Has the lock of a database for a time, and leaves it free for longer than sqlite3 waits between
/// two tries.
macro_rules! has_database {
    ($seconds:literal) => {
        concat!(
            "exec /usr/bin/python3 -c 'import sqlite3, time\nof = sqlite3.connect(\"log.db\", \
             isolation_level=None, timeout=60)\nwhile True:\n of.execute(\"BEGIN IMMEDIATE\")\n \
             time.sleep(",
            $seconds,
            ")\n of.execute(\"ROLLBACK\")\n time.sleep(0.15)'"
        )
    };
}

/// Takes a lock that another thread has for a time.
macro_rules! takes_lock {
    ($seconds:literal) => {
        concat!(
            "exec /usr/bin/python3 -c 'import threading, time\nlock, over = threading.Lock(), []\n\
             def other():\n while not over:\n  with lock: time.sleep(",
            $seconds,
            ")\n  time.sleep(0.0005)\none = threading.Thread(target=other)\none.start()\n\
             for _ in range(20):\n with lock: pass\n time.sleep(0.002)\nover.append(1)'"
        )
    };
}

/// Gives a command to the pipe, line by line.
macro_rules! writes_lines {
    ($seconds:literal) => {
        concat!(
            "for nth in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do echo $nth; sleep ",
            $seconds,
            "; done >fifo"
        )
    };
}

/// Answers to clients that write, and ends.
macro_rules! serves {
    ($fsync:literal) => {
        concat!(
            "exec redis-server --port 0 --unixsocket $PWD/socket --save '' --appendonly yes \
             --appendfsync ",
            $fsync,
            " --dir $PWD/redis >/dev/null"
        )
    };
}

const CLIENT: &str = "rm -rf redis; mkdir redis
    until redis-cli -s socket ping >/dev/null 2>&1; do sleep 0.02; done
    redis-benchmark -s socket -c 1 -n 800 -t set -q >/dev/null; redis-cli -s socket shutdown nosave";

const CROWD: &str = "for nth in 1 2 3 4 5 6 7 8 9 10 11 12; do taskset -c 0 sh -c 'while :; do :; done' & done; wait";

const WARM: Amid = After("cat large >/dev/null; cat some/* >/dev/null");

const COLD: Amid = After(
    "for file in large some/*; do dd of=$file oflag=nocache conv=notrunc,fdatasync count=0 \
     status=none; done",
);

const REGRESSIONS: [Regression; 20] = [
    Regression {
        name: "gzip works harder",
        before: ("exec gzip -1 <text >/dev/null", Nothing),
        after: ("exec gzip -9 <text >/dev/null", Nothing),
        cause: "ran",
        call: None,
    },
    Regression {
        name: "gzip is throttled",
        before: ("exec gzip -1 <text >/dev/null", Nothing),
        after: ("exec gzip -1 <text >/dev/null", Quota),
        cause: "throttled by its control group",
        call: None,
    },
    Regression {
        name: "gzip shares its CPU",
        before: ("exec taskset -c 0 gzip -1 <text >/dev/null", Nothing),
        after: ("exec taskset -c 0 gzip -1 <text >/dev/null", Beside(CROWD)),
        cause: "waited for a CPU",
        call: None,
    },
    Regression {
        name: "dd reads little at a time",
        before: ("exec dd if=text of=/dev/null bs=64k", WARM),
        after: ("exec dd if=text of=/dev/null bs=256", WARM),
        cause: "ran",
        call: Some("read"),
    },
    Regression {
        name: "dd makes each block durable",
        before: ("exec dd if=/dev/zero of=out bs=4k count=100", Nothing),
        after: (
            "exec dd if=/dev/zero of=out bs=4k count=100 oflag=dsync",
            Nothing,
        ),
        cause: "blocked in write for a device",
        call: Some("write"),
    },
    Regression {
        name: "dd has a slower disk",
        before: (
            "exec dd if=large of=/dev/null bs=256k count=96 iflag=direct",
            Nothing,
        ),
        after: (
            "exec dd if=large of=/dev/null bs=256k count=96 iflag=direct",
            SlowDisk,
        ),
        cause: "blocked in read for a device",
        call: Some("read"),
    },
    Regression {
        name: "sqlite3 commits each row",
        before: ("exec sqlite3 log.db <commit.sql", Nothing),
        after: ("exec sqlite3 log.db <commits.sql", Nothing),
        cause: "blocked in fdatasync for a device",
        call: Some("fdatasync"),
    },
    Regression {
        name: "sqlite3 has no cache",
        before: ("exec sqlite3 plain.db <by_id.sql >/dev/null", Nothing),
        after: (
            "exec sqlite3 plain.db <by_id_without_cache.sql >/dev/null",
            Nothing,
        ),
        cause: "ran",
        call: Some("pread64"),
    },
    Regression {
        name: "sqlite3 finds its database locked for longer",
        before: (
            "exec sqlite3 -cmd '.timeout 60000' log.db <commit.sql",
            Beside(has_database!("0.002")),
        ),
        after: (
            "exec sqlite3 -cmd '.timeout 60000' log.db <commit.sql",
            Beside(has_database!("0.9")),
        ),
        cause: "blocked in clock_nanosleep, for a timer",
        call: Some("clock_nanosleep"),
    },
    Regression {
        name: "sqlite3 has no index",
        before: ("exec sqlite3 indexed.db <by_key.sql >/dev/null", Nothing),
        after: ("exec sqlite3 plain.db <by_key.sql >/dev/null", Nothing),
        cause: "ran",
        call: None,
    },
    Regression {
        name: "perl waits for a file's lock",
        before: (FILE_LOCK, Beside(has_file_lock!("0.002"))),
        after: (FILE_LOCK, Beside(has_file_lock!("0.06"))),
        cause: "blocked in flock, for another thread",
        call: Some("flock"),
    },
    Regression {
        name: "grep reads cold files",
        before: ("exec grep -c 11 some/* >/dev/null", WARM),
        after: ("exec grep -c 11 some/* >/dev/null", COLD),
        cause: "blocked in read for a device",
        call: Some("read"),
    },
    Regression {
        name: "tar reads cold files",
        before: ("exec tar -cf out.tar some", WARM),
        after: ("exec tar -cf out.tar some", COLD),
        cause: "blocked in read for a device",
        call: Some("read"),
    },
    Regression {
        name: "git has loose objects",
        before: ("exec git -C packed log --stat >/dev/null", Nothing),
        after: ("exec git -C repository log --stat >/dev/null", Nothing),
        cause: "ran",
        call: Some("openat"),
    },
    Regression {
        name: "find looks at more files",
        before: ("exec find some -newer text", Nothing),
        after: ("exec find some many -newer text", Nothing),
        cause: "ran",
        call: Some("newfstatat"),
    },
    Regression {
        name: "python3 reads byte by byte",
        before: (
            "exec /usr/bin/python3 -c 'open(\"text\", \"rb\").read()'",
            WARM,
        ),
        after: (
            "exec /usr/bin/python3 -c 'of = open(\"text\", \"rb\", buffering=0)\nfor _ in range(100000): of.read(1)'",
            WARM,
        ),
        cause: "ran",
        call: Some("read"),
    },
    Regression {
        name: "python3 waits for a lock",
        before: (takes_lock!("0.001"), Nothing),
        after: (takes_lock!("0.04"), Nothing),
        cause: "blocked in futex, for another thread",
        call: Some("futex"),
    },
    Regression {
        name: "find starts a program for each file",
        before: (
            "exec find some -name '1*' -exec cat {} + >/dev/null",
            Nothing,
        ),
        after: (
            "exec find some -name '1*' -exec cat {} ';' >/dev/null",
            Nothing,
        ),
        cause: "blocked in wait4, for another thread",
        call: Some("wait4"),
    },
    Regression {
        name: "cat waits for what it is given",
        before: ("exec cat fifo >/dev/null", Beside(writes_lines!("0.005"))),
        after: ("exec cat fifo >/dev/null", Beside(writes_lines!("0.06"))),
        cause: "blocked in read, for another thread",
        call: Some("read"),
    },
    Regression {
        name: "redis-server makes each write durable",
        before: (serves!("no"), Beside(CLIENT)),
        after: (serves!("always"), Beside(CLIENT)),
        cause: "blocked in fdatasync for a device",
        call: Some("fdatasync"),
    },
];

/// Programs beside a run. Ended when dropped, with all that it has started.
struct BesideRun(Child);

impl Drop for BesideRun {
    fn drop(&mut self) {
        let group = i32::try_from(self.0.id()).unwrap();
        // SAFETY: it makes no access to memory.
        unsafe { libc::kill(-group, libc::SIGKILL) };
        let _ = self.0.wait();
    }
}

/// A folder on a disk with the files of the programs.
struct RealLab(TempDir);

impl RealLab {
    fn new() -> Self {
        let lab = Self(tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap());
        lab.work(FILES);
        lab
    }

    /// Runs a script in the folder.
    fn script(&self, script: &str) -> Command {
        let mut shell = Command::new("sh");
        shell.args(["-c", script]).current_dir(self.0.path());
        shell
    }

    fn work(&self, script: &str) {
        let output = self.script(script).output().unwrap();
        assert!(output.status.success(), "{script}: {output:?}");
    }

    /// Makes a control group that may read slowly.
    fn group_with_slow_disk(&self) -> Cgroup {
        let device = fs::metadata(self.0.path()).unwrap().dev();
        let device = format!("{}:{}", libc::major(device), libc::minor(device));
        if let Ok(group) = Cgroup::with("blkio") {
            let file = group.path().join("blkio.throttle.read_bps_device");
            fs::write(file, format!("{device} 30000000")).unwrap();
            return group;
        }
        let group = Cgroup::with("io").unwrap();
        fs::write(
            group.path().join("io.max"),
            format!("{device} rbps=30000000"),
        )
        .unwrap();
        group
    }

    /// Makes a control group that has a tenth of a CPU.
    fn group_with_quota() -> Cgroup {
        let group = Cgroup::with("cpu").unwrap();
        let new = group.path().join("cpu.max");
        if new.exists() {
            fs::write(new, "1000 10000").unwrap();
        } else {
            fs::write(group.path().join("cpu.cfs_period_us"), "10000").unwrap();
            fs::write(group.path().join("cpu.cfs_quota_us"), "1000").unwrap();
        }
        group
    }

    /// Records a run.
    fn record(&self, (script, amid): (&str, Amid), log: &str) -> PathBuf {
        let log = self.0.path().join(log);
        let group = match amid {
            Quota => Some(Self::group_with_quota()),
            SlowDisk => Some(self.group_with_slow_disk()),
            Nothing | After(_) | Beside(_) => None,
        };
        let mut beside = None;
        match amid {
            After(first) => self.work(first),
            Beside(other) => {
                let mut other = self.script(other);
                other.process_group(0).stdout(Stdio::null());
                beside = Some(BesideRun(other.spawn().unwrap()));
            }
            Nothing | Quota | SlowDisk => {}
        }
        let join = group.as_ref().map_or_else(String::new, |group| {
            format!("echo 0 >{}/cgroup.procs; ", group.path().display())
        });
        let mut run = Command::new(dist::tracer_user().unwrap());
        run.args(["run", "--syscalls", "all", "--ring-size", "32M"]);
        run.args(["--stream-size", "64M", "--force", "--log"])
            .arg(&log);
        run.args(["--", "sh", "-c", &format!("{join}{script}")]);
        let output = run.current_dir(self.0.path()).output().unwrap();
        assert!(output.status.success(), "{script}: {output:?}");
        drop(beside);
        log
    }
}

#[test]
#[ignore = "loads eBPF"]
fn of_twenty_real_programs_the_cause_that_was_put_in_is_first_and_none_alarms_without() {
    if missing_right().is_some() {
        return;
    }
    let lab = RealLab::new();
    let (mut missed, mut alarms) = (Vec::new(), Vec::new());
    let chosen = std::env::var("TRACER_REGRESSION").unwrap_or_default();
    let chosen = REGRESSIONS.iter().filter(|one| one.name.contains(&chosen));
    for Regression {
        name,
        before,
        after,
        cause,
        call,
    } in chosen
    {
        let first = lab.record(*before, "first.log");
        let second = lab.record(*before, "second.log");
        let slower = lab.record(*after, "slower.log");
        let same = compare(&[&first, &second]);
        let of = subject(&same, "whole");
        if of["verdict"] == "slower" {
            alarms.push(format!("{name}: {of:#}"));
        }
        let answer = compare(&[&first, &slower]);
        let of = subject(&answer, "whole");
        if !is_found(of, cause, *call) {
            missed.push(format!("{name}: {of:#}"));
        }
    }
    let (many, alarming) = (missed.len(), alarms.len());
    println!("{many} missed, {alarming} alarms");
    assert!(
        many <= 2 && alarming <= 1,
        "{many} missed: {}\n{alarming} alarms: {}",
        missed.join("\n"),
        alarms.join("\n")
    );
}
