//! `read`, `info` and `export`: their refusals and their ends. None of this needs privileges.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tracer_common::event_type::EventTypeId;
use tracer_engine::ClockPair;
use tracer_engine::event::{EventHeader, MonotonicNs, RealtimeNs, Truncation};
use tracer_engine::{Attributes, EventTypes, Ledger, LogFullPolicy};
use tracer_log::{FinalStatus, LogHeader, LogOptions, LogWriter};

/// A log that is being written.
struct Log {
    folder: TempDir,
    writer: LogWriter,
    types: EventTypes,
    events: u64,
    /// Name of the thread.
    name: &'static [u8],
}

impl Log {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let header = LogHeader {
            attributes: Attributes::default(),
            anchor: ClockPair {
                monotonic: MonotonicNs(1_000),
                realtime: RealtimeNs(1_000_000_000_000_000_000),
            },
        };
        let options = LogOptions {
            policy: LogFullPolicy::Append,
            max_size: 0,
        };
        let file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(folder.path().join("log"))
            .unwrap();
        Self {
            writer: LogWriter::create(file, &header, options).unwrap(),
            types: EventTypes::default(),
            events: 0,
            name: b"clock",
            folder,
        }
    }

    fn completed(events: u64) -> Completed {
        Self::of_program(events, b"clock")
    }

    fn of_program(events: u64, name: &'static [u8]) -> Completed {
        let mut log = Self::new();
        log.name = name;
        log.add(events);
        log.complete()
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    /// Returns the header of the next event.
    fn header(&self, event_type: EventTypeId) -> EventHeader {
        EventHeader {
            time: MonotonicNs(1_000 + self.events * 1_000_000),
            event_type,
            pid: 7,
            tid: 7,
            cpu: None,
            thread_id: 0,
            program_address: 0,
            truncation: Truncation::None,
        }
    }

    /// Adds events and sees to it that they are in the file.
    fn add(&mut self, events: u64) {
        let event_type = self.types.define_user(b"tick", None);
        for _ in 0..events {
            self.events += 1;
            let header = self.header(event_type);
            let data = self.events.to_string();
            self.writer
                .append(&header, data.as_bytes(), self.name, &self.types)
                .unwrap();
        }
        self.writer.flush(&Ledger::default()).unwrap();
    }

    fn complete(mut self) -> Completed {
        let status = FinalStatus::default();
        self.writer
            .complete(&self.types, &Ledger::default(), status)
            .unwrap();
        Completed(self.folder)
    }
}

/// Turns a log into one of a machine of another kind, in all copies of its start.
fn make_foreign(log: &Path) {
    const CRC: std::ops::Range<usize> = 12..16;
    let mut bytes = fs::read(log).unwrap();
    let machine = std::env::consts::ARCH.as_bytes();
    let mut copies = 0;
    for at in [0, 4096] {
        let (_, copy) = bytes.split_at_mut(at);
        let length = u32::from_le_bytes(copy[16..20].try_into().unwrap());
        let copy = &mut copy[..usize::try_from(length).unwrap()];
        let found = copy.windows(machine.len()).position(|word| word == machine);
        let Some(found) = found else { continue };
        copy[found..found + machine.len()].fill(0);
        copy[found..found + 5].copy_from_slice(b"s390x");
        copy[CRC].fill(0);
        let crc = crc32c::crc32c(copy).to_le_bytes();
        copy[CRC].copy_from_slice(&crc);
        copies += 1;
    }
    assert!(copies > 0, "the machine is not in the log");
    fs::write(log, bytes).unwrap();
}

#[test]
fn calls_of_a_machine_of_another_kind_have_no_names_and_are_not_left_out_by_name() {
    let mut log = Log::new();
    // As `SyscallEnterData` begins: which call, of the machine's table, and its registers.
    let nr = i32::try_from(libc::SYS_openat).unwrap();
    let openat = [&nr.to_ne_bytes()[..], &[0; 4], &[1; 48]].concat();
    let header = log.header(EventTypeId::SYSCALL_ENTER);
    log.writer
        .append(&header, &openat, b"clock", &log.types)
        .unwrap();
    log.writer.flush(&Ledger::default()).unwrap();
    let log = log.complete();
    let read = |options: &[&str]| {
        let output = output("read", &log.path(), options);
        assert_eq!(output.status.code(), Some(0));
        [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap())
    };
    let json = ["--format", "json"];
    let [ours, said] = read(&json);
    assert!(
        ours.contains("\"openat\"") && ours.contains("\"filename\""),
        "{ours}"
    );
    assert!(!said.contains("another kind"), "{said}");
    let [chosen, _] = read(&["--syscalls", "close"]);
    assert!(!chosen.contains("openat"), "{chosen}");

    make_foreign(&log.path());
    let [theirs, said] = read(&json);
    assert!(
        said.contains("s390x") && said.contains("no names"),
        "{said}"
    );
    assert!(
        !theirs.contains("openat") && !theirs.contains("filename"),
        "{theirs}"
    );
    let nr = libc::SYS_openat.to_string();
    assert!(theirs.contains(&nr), "{theirs}");
    let [chosen, _] = read(&["--syscalls", "close"]);
    assert!(chosen.contains(&nr), "{chosen}");
}

/// A log that was completed.
struct Completed(TempDir);

impl Completed {
    fn path(&self) -> PathBuf {
        self.0.path().join("log")
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

fn tracer(subcommand: &str, file: &Path, options: &[&str]) -> Command {
    // The tests may be run with signals ignored: SIGHUP, as `nohup` does; SIGINT and SIGQUIT, as
    // shells do behind `&`.
    let mut command = Command::new("env");
    command.args([
        "--default-signal=HUP,INT,QUIT,TERM",
        env!("CARGO_BIN_EXE_tracer-user"),
    ]);
    command.arg(subcommand).arg(file).args(options);
    command.stdin(Stdio::null());
    command
}

fn output(subcommand: &str, file: &Path, options: &[&str]) -> Output {
    tracer(subcommand, file, options).output().unwrap()
}

/// Returns the line that goes with a refusal.
fn refused(subcommand: &str, file: &Path, options: &[&str]) -> String {
    let output = output(subcommand, file, options);
    let line = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{options:?}: {line}");
    assert_eq!(output.stdout, b"", "{options:?}");
    assert_eq!(line.lines().count(), 1, "{options:?}: {line}");
    line
}

#[test]
fn what_is_made_of_a_log_lies_beside_it() {
    let log = Log::new().complete();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.log");
    fs::copy(log.path(), &path).unwrap();
    for (subcommand, options, made) in [
        ("report", &[][..], "a.html"),
        ("export", &["--to", "perfetto"], "a.pftrace"),
        ("export", &["--to", "chrome"], "a.json"),
        ("export", &["--to", "ctf"], "a.ctf"),
        ("export", &["--to", "parquet"], "a.parquet"),
        (
            "export",
            &["--to", "parquet", "--table", "calls"],
            "a.calls.parquet",
        ),
    ] {
        let first = output(subcommand, &path, options);
        let said = String::from_utf8_lossy(&first.stderr);
        assert_eq!(first.status.code(), Some(0), "{said}");
        assert!(folder.path().join(made).exists(), "{made}");
        assert!(said.contains(made), "{said}");
        // It is there now, and is not written over.
        let second = output(subcommand, &path, options);
        assert_eq!(second.status.code(), Some(2));
        let said = String::from_utf8_lossy(&second.stderr);
        assert!(said.contains("--force"), "{said}");
    }
}

#[test]
fn a_log_has_what_was_recorded_and_no_time_is_added() {
    let log = Log::new().complete();
    let line = refused("stat", log.path().as_ref(), &["--duration", "1s"]);
    assert!(line.contains("--duration goes with processes"), "{line}");
}

/// Waits for the end, but not for ever.
fn ended(mut process: Child) -> ExitStatus {
    let start = Instant::now();
    loop {
        if let Some(status) = process.try_wait().unwrap() {
            return status;
        }
        if start.elapsed() > Duration::from_secs(30) {
            process.kill().unwrap();
            panic!("it does not end");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Starts a look at a log that grows, and returns it with its output.
fn following(log: &Log) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut process = tracer("read", &log.path(), &["--follow"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(process.stdout.take().unwrap());
    (process, lines)
}

fn expect_events(lines: &mut impl BufRead, ticks: std::ops::RangeInclusive<u64>) {
    for tick in ticks {
        let mut line = String::new();
        while line.is_empty() || line.starts_with('#') {
            line.clear();
            lines.read_line(&mut line).unwrap();
        }
        assert!(
            line.ends_with(&format!("tick             \"{tick}\"\n")),
            "{line}"
        );
    }
}

#[test]
fn what_is_no_log_is_refused_by_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let garbage = folder.path().join("garbage");
    fs::write(&garbage, vec![0xa5; 100_000]).unwrap();
    let empty = folder.path().join("empty");
    fs::write(&empty, b"").unwrap();
    let out = folder.path().join("out");
    let out = out.to_str().unwrap();
    for file in [
        &garbage,
        &empty,
        &folder.path().join("missing"),
        folder.path(),
    ] {
        for (subcommand, options) in [
            ("read", &[][..]),
            ("info", &[]),
            ("stat", &[]),
            ("export", &["--to", "chrome", "-o", out]),
        ] {
            let line = refused(subcommand, file, options);
            assert!(line.contains(file.to_str().unwrap()), "{line}");
            assert!(!Path::new(out).exists(), "nothing is left behind");
        }
    }
}

#[test]
fn a_log_does_not_differ_from_itself_and_what_is_no_log_is_named() {
    let log = Log::completed(9);
    let path = log.path();
    let path = path.to_str().unwrap();
    let same = output("compare", log.path().as_ref(), &[path]);
    let text = String::from_utf8(same.stdout).unwrap();
    assert_eq!(same.status.code(), Some(0), "{text}");
    assert!(
        text.contains("nothing is clearly slower or faster"),
        "{text}"
    );
    let json = output("compare", log.path().as_ref(), &[path, "--format", "json"]);
    let answer: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(answer["subjects"][0]["verdict"], "same", "{answer}");
    assert_eq!(answer["subjects"][0]["chance"], serde_json::Value::Null);

    let garbage = log.file("garbage");
    fs::write(&garbage, b"no log").unwrap();
    let line = refused("compare", log.path().as_ref(), &[garbage.to_str().unwrap()]);
    assert!(line.contains("garbage"), "{line}");
    for options in [&[][..], &["--a", path], &[path, "--b", path], &[path, path]] {
        refused("compare", log.path().as_ref(), options);
    }
}

#[test]
fn options_that_make_no_sense_are_refused_by_name() {
    let log = Log::completed(1);
    for options in [
        ["--pid", "me"],
        ["--tid", "0"],
        ["--from", "soon"],
        ["--until", "yesterday"],
        ["--events", "frok"],
        ["--format", "pdf"],
        ["--output", "/no/such/folder/file"],
    ] {
        let line = refused("read", &log.path(), &options);
        let name = options[0].trim_start_matches('-');
        assert!(
            line.contains(name) || line.contains("/no/such/folder"),
            "{line}"
        );
    }
    let out = log.file("out");
    let out = out.to_str().unwrap();
    let line = refused("export", &log.path(), &["--to", "pdf", "-o", out]);
    assert!(
        line.contains("perfetto, chrome, ctf, ctf2, parquet"),
        "{line}"
    );
    let unknown = ["--to", "parquet", "--table", "call", "-o", out];
    let line = refused("export", &log.path(), &unknown);
    assert!(line.contains("known are events, threads"), "{line}");
    let other = ["--to", "ctf", "--table", "calls", "-o", out];
    let line = refused("export", &log.path(), &other);
    assert!(line.contains("give --to parquet"), "{line}");
}

#[test]
fn the_help_has_the_exit_codes() {
    for subcommand in ["read", "info", "stat", "compare", "export"] {
        let output = output(subcommand, Path::new("--help"), &[]);
        let help = String::from_utf8(output.stdout).unwrap();
        assert!(help.contains("Exit codes: 0 "), "{help}");
        assert_eq!(output.status.code(), Some(0));
    }
}

#[test]
fn events_are_shown_and_the_closing_line_goes_to_the_standard_error() {
    let log = Log::completed(3);
    let output = output("read", &log.path(), &[]);

    assert_eq!(
        String::from_utf8(output.stdout)
            .unwrap()
            .lines()
            .take(3)
            .collect::<Vec<_>>(),
        [
            "# time: seconds since 2001-09-09T01:46:40.000000000Z",
            "#          TIME  THREAD           PID/TID      CPU    EVENT            WHAT IT CARRIES",
            "    0.001000000  clock            7            [  -]  tick             \"1\""
        ]
    );
    assert_eq!(
        String::from_utf8(output.stderr).unwrap(),
        "tracer-user: 3 events in 0.003 s: 3 tick\ntracer-user: 0 lost\n"
    );
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn a_time_and_a_format_have_options_of_their_own_and_the_old_ones_go_on() {
    let log = Log::completed(3);
    let shown = |options: &[&str]| {
        let output = output(
            "read",
            &log.path(),
            &[options, &["--format", "json"]].concat(),
        );
        String::from_utf8(output.stdout).unwrap().lines().count()
    };
    assert_eq!(shown(&["--until", "2ms"]), shown(&["--to", "2ms"]));
    assert_eq!(shown(&["--limit", "1"]), shown(&["--events", "1"]));
    assert_eq!(
        (shown(&["--until", "2ms"]), shown(&["--limit", "1"])),
        (3, 2)
    );
    let out = log.file("out");
    let out = out.to_str().unwrap();
    let refusal = [
        "--to", "parquet", "--to", "1ms", "--until", "2ms", "-o", out,
    ];
    assert!(refused("export", &log.path(), &refusal).contains("--until"));
    let taken = ["--to", "parquet", "--until", "2ms", "-o", out];
    assert_eq!(output("export", &log.path(), &taken).status.code(), Some(0));
}

#[test]
fn what_was_not_found_is_reported() {
    let log = Log::completed(3);
    let output = output("read", &log.path(), &["--pid", "99"]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("tracer-user info"), "{stderr}");
}

#[test]
fn following_ends_when_the_lines_are_not_read_any_more() {
    let mut log = Log::new();
    log.add(1);
    let (process, mut lines) = following(&log);
    expect_events(&mut lines, 1..=1);
    drop(lines);

    assert_eq!(ended(process).code(), Some(0));
}

#[test]
fn a_conversion_that_is_ended_leaves_nothing_behind() {
    let log = Log::completed(400_000);
    for (signal, target) in [
        (libc::SIGINT, "ctf"),
        (libc::SIGTERM, "parquet"),
        (libc::SIGHUP, "perfetto"),
        (libc::SIGQUIT, "chrome"),
        (libc::SIGINT, "report"),
    ] {
        // On a busy machine it may be done before it is ended.
        let ended_midway = (0..60).any(|_| {
            let code = signalled(&log, target, signal);
            assert!(matches!(code, Some(0 | 2)), "{target}: {code:?}");
            let left = names_beside(&log);
            match code {
                Some(2) => assert_eq!(left, [""; 0], "{target}"),
                _ => assert_eq!(left, [target]),
            }
            let out = log.file(target);
            let _ = fs::remove_file(&out).or_else(|_| fs::remove_dir_all(&out));
            code == Some(2)
        });
        assert!(ended_midway, "{target}: always too late");
    }
}

/// Returns the exit code of an export, or a report, that gets a signal while it writes.
fn signalled(log: &Completed, target: &str, signal: i32) -> Option<i32> {
    let out = log.file(target);
    let options = ["-o", out.to_str().unwrap(), "--to", target];
    let (subcommand, options) = match target {
        "report" => ("report", &options[..2]),
        _ => ("export", &options[..]),
    };
    let process = tracer(subcommand, &log.path(), options)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let folder = log.path().parent().unwrap().to_owned();
    // A file has no name until it is whole, but it is open, and lies in the folder.
    let is_writing = || {
        let files = fs::read_dir(format!("/proc/{}/fd", process.id()));
        let mut files = files.into_iter().flatten().flatten();
        files.any(|file| {
            let file = fs::read_link(file.path()).unwrap_or_default();
            file.starts_with(&folder) && file != log.path()
        })
    };
    let start = Instant::now();
    while !is_writing() && names_beside(log).is_empty() {
        assert!(start.elapsed() < Duration::from_secs(30), "{target}");
        std::thread::yield_now();
    }
    let pid = i32::try_from(process.id()).unwrap();
    // SAFETY: the call takes integers only; the process is a child that was not waited for.
    unsafe { libc::kill(pid, signal) };
    ended(process).code()
}

/// Returns the names of the files beside a log.
fn names_beside(log: &Completed) -> Vec<String> {
    let entries = fs::read_dir(log.path().parent().unwrap()).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name != "log").collect()
}

#[test]
fn a_conversion_for_which_there_is_no_space_leaves_nothing_behind() {
    let log = Log::completed(100_000);
    for target in ["perfetto", "chrome", "parquet", "ctf"] {
        let script = "ulimit -f 64; exec \"$0\" export \"$1\" --to $2 -o \"$1.out\"";
        let output = Command::new("sh")
            .args(["-c", script, env!("CARGO_BIN_EXE_tracer-user")])
            .arg(log.path())
            .arg(target)
            .output()
            .unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{target}: {said}");
        assert!(said.contains("File too large"), "{target}: {said}");
        let entries = fs::read_dir(log.path().parent().unwrap()).unwrap();
        assert_eq!(entries.count(), 1, "{target}: the log alone");
    }
}

#[test]
fn a_conversion_goes_to_the_standard_output_as_to_a_file() {
    let log = Log::completed(1_000);
    for target in ["perfetto", "chrome", "parquet"] {
        let out = log.file(target);
        for options in [
            ["--to", target, "-o", "-"],
            ["--to", target, "-o", out.to_str().unwrap()],
        ] {
            let mut command = tracer("export", &log.path(), &options);
            let output = command.stderr(Stdio::piped()).output().unwrap();
            assert!(output.status.success(), "{output:?}");
            if options[3] == "-" {
                fs::write(log.file("stdout"), output.stdout).unwrap();
            } else {
                assert!(output.stdout.is_empty(), "{target}");
            }
        }
        let written = fs::read(log.file("stdout")).unwrap();
        assert!(
            !written.is_empty() && written == fs::read(out).unwrap(),
            "{target}"
        );
    }
}

#[test]
fn a_folder_does_not_go_to_the_standard_output() {
    let log = Log::completed(3);
    let mut command = tracer("export", &log.path(), &["--to", "ctf", "-o", "-"]);
    let output = command.stderr(Stdio::piped()).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("folder") && said.contains("--output"),
        "{said}"
    );
    assert!(output.stdout.is_empty());
}

#[test]
fn a_conversion_ends_when_it_is_not_read_any_more() {
    let log = Log::completed(400_000);
    for target in ["perfetto", "chrome", "parquet"] {
        let mut process = tracer("export", &log.path(), &["--to", target, "-o", "-"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = process.stdout.take().unwrap();
        stdout.read_exact(&mut [0; 4]).unwrap();
        drop(stdout);
        let mut stderr = process.stderr.take().unwrap();
        assert_eq!(ended(process).code(), Some(0), "{target}");
        let mut said = String::new();
        stderr.read_to_string(&mut said).unwrap();
        assert_eq!(said, "", "{target}");
    }
}

#[test]
fn the_dash_is_the_standard_output() {
    let log = Log::completed(3);
    let here = output("read", &log.path(), &["--format", "csv", "-o", "-"]);
    assert_eq!(
        here.stdout,
        output("read", &log.path(), &["--format", "csv"]).stdout
    );
    assert!(!Path::new("-").exists());
}

#[test]
fn a_truncated_log_says_so_and_shows_what_is_there() {
    let mut log = Log::new();
    log.add(5);
    let output = output("read", &log.path(), &["--format", "json"]);
    let shown = String::from_utf8(output.stdout).unwrap();

    assert_eq!(shown.lines().count(), 6);
    let summary: serde_json::Value = serde_json::from_str(shown.lines().last().unwrap()).unwrap();
    assert_eq!(summary["summary"]["completed"], false);
    assert_eq!(summary["summary"]["events"]["tick"], 5);
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn each_answer_says_what_a_damaged_log_lacks() {
    let log = Log::completed(100_000);
    let mut bytes = fs::read(log.path()).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 1000].fill(0);
    fs::write(log.path(), bytes).unwrap();
    let path = log.path();
    let path = path.to_str().unwrap();

    for command in ["stat", "why", "explain", "compare", "info"] {
        let more = match command {
            "why" => &["--whole"][..],
            "compare" => &[path],
            _ => &[],
        };
        let said = |options: &[&str]| {
            let output = output(command, &log.path(), &[more, options].concat());
            assert_eq!(output.status.code(), Some(1), "{command}");
            String::from_utf8(output.stdout).unwrap()
        };
        let words = match command {
            "info" => " bytes at 1 site",
            _ => "the log is damaged: ",
        };
        // However little of an answer there is.
        for budget in [&[][..], &["--budget=256"]] {
            let text = said(budget);
            assert!(text.contains(words), "{command}: {text}");
            let json = said(&[budget, &["--format", "json"]].concat());
            let json: serde_json::Value = serde_json::from_str(&json).unwrap();
            let damage = match (command, budget) {
                ("compare", []) => &json["a"][0]["damage"],
                ("compare", _) => &json["truncated"]["damage"],
                _ => &json["damage"],
            };
            assert!(damage["bytes"].as_u64() > Some(0), "{command}: {json}");
        }
    }
    let events = output("read", &log.path(), &["--format=json", "--budget=256"]);
    let events: serde_json::Value = serde_json::from_slice(&events.stdout).unwrap();
    assert!(events["truncated"]["damage"]["bytes"].as_u64() > Some(0));
}

#[test]
fn two_programs_and_two_machines_are_not_compared_as_if_they_were_one() {
    let compare = |one: &Completed, other: &Completed| {
        let other = other.path();
        let other = other.to_str().unwrap();
        let said = |options: &[&str]| {
            let output = output("compare", &one.path(), &[&[other], options].concat());
            String::from_utf8(output.stdout).unwrap()
        };
        let json = said(&["--format", "json"]);
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        (said(&[]), json)
    };
    let (short, long) = (Log::completed(100), Log::completed(1000));
    let (text, json) = compare(&short, &long);
    assert!(text.contains("all of clock: slower, "), "{text}");
    assert!(json["subjects"][0]["other_name"].is_null(), "{json}");
    assert!(!text.contains("different systems"), "{text}");

    let bell = Log::of_program(1000, b"bell");
    let (text, json) = compare(&short, &bell);
    let words = "all of bell: not to be compared by itself with clock, another program";
    assert!(text.contains(words), "{text}");
    assert_eq!(json["subjects"][0]["verdict"], "unsure", "{json}");
    assert_eq!(json["subjects"][0]["other_name"], "clock", "{json}");

    make_foreign(&long.path());
    let (text, json) = compare(&short, &long);
    assert!(text.contains("recorded on different systems"), "{text}");
    assert_eq!(json["b"][0]["machine"], "s390x", "{json}");
}

#[test]
fn a_closed_pipe_is_no_failure() {
    let log = Log::completed(100_000);
    let mut process = tracer("read", &log.path(), &[])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(process.stdout.take());
    let mut stderr = process.stderr.take().unwrap();

    assert_eq!(ended(process).code(), Some(0));
    let mut said = String::new();
    stderr.read_to_string(&mut said).unwrap();
    assert_eq!(said, "");
}

#[test]
fn following_goes_on_until_the_log_is_completed() {
    let mut log = Log::new();
    log.add(2);
    let (process, mut lines) = following(&log);
    expect_events(&mut lines, 1..=2);
    log.add(3);
    expect_events(&mut lines, 3..=5);
    log.add(1);
    let _completed = log.complete();
    expect_events(&mut lines, 6..=6);

    assert_eq!(ended(process).code(), Some(0));
}

#[test]
fn following_ends_when_the_writer_is_gone() {
    let mut log = Log::new();
    log.add(2);
    let (mut process, mut lines) = following(&log);
    let mut stderr = process.stderr.take().unwrap();
    expect_events(&mut lines, 1..=2);
    assert!(process.try_wait().unwrap().is_none(), "it is being written");
    let Log { folder, writer, .. } = log;
    drop(writer);

    // It was not completed.
    assert_eq!(ended(process).code(), Some(1));
    let mut said = String::new();
    stderr.read_to_string(&mut said).unwrap();
    assert!(
        said.contains("no process writes the log any more"),
        "{said}"
    );
    drop(folder);
}

#[test]
fn following_ends_with_its_closing_line_on_ctrl_c() {
    let mut log = Log::new();
    log.add(2);
    let (mut process, mut lines) = following(&log);
    expect_events(&mut lines, 1..=2);
    let pid = i32::try_from(process.id()).unwrap();
    // SAFETY: the call takes integers only; the process is a child that was not waited for.
    assert_eq!(unsafe { libc::kill(pid, libc::SIGINT) }, 0);
    let mut stderr = process.stderr.take().unwrap();

    assert_eq!(ended(process).code(), Some(0), "who stops misses nothing");
    let mut said = String::new();
    stderr.read_to_string(&mut said).unwrap();
    assert!(said.contains("2 events in "), "{said}");
}

#[test]
fn an_export_never_replaces_anything_unasked() {
    let log = Log::completed(3);
    for to in ["perfetto", "chrome", "parquet"] {
        let out = log.file(to);
        fs::write(&out, "precious").unwrap();
        let options = ["--to", to, "-o", out.to_str().unwrap()];
        assert!(refused("export", &log.path(), &options).contains("--force"));
        assert_eq!(fs::read(&out).unwrap(), b"precious");
        let forced = output(
            "export",
            &log.path(),
            &[&options[..], &["--force"]].concat(),
        );
        assert_eq!(forced.status.code(), Some(0), "{forced:?}");
        assert_ne!(fs::read(&out).unwrap(), b"precious");
    }
    let folder = log.file("ctf");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("thesis.tex"), "precious").unwrap();
    let options = ["--to", "ctf", "--force", "-o", folder.to_str().unwrap()];
    assert!(refused("export", &log.path(), &options).contains("thesis.tex"));
    assert!(folder.join("thesis.tex").exists());
}

#[test]
fn the_log_itself_is_never_replaced() {
    let log = Log::completed(3);
    let path = log.path();
    let path = path.to_str().unwrap();
    let before = fs::read(path).unwrap();
    refused("read", &log.path(), &["-o", path]);
    refused(
        "export",
        &log.path(),
        &["--to", "chrome", "--force", "-o", path],
    );
    assert_eq!(fs::read(path).unwrap(), before);
}

#[test]
fn an_export_of_a_log_without_events_is_whole() {
    let log = Log::completed(0);
    for to in ["perfetto", "chrome", "ctf", "parquet"] {
        let out = log.file(to);
        let options = ["--to", to, "-o", out.to_str().unwrap()];
        let output = output("export", &log.path(), &options);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert!(out.exists());
    }
}

#[test]
fn a_bar_is_shown_on_a_terminal_and_nowhere_else() {
    let log = Log::completed(300_000);
    let out = log.file("out");
    let options = ["--to", "perfetto", "--force", "-o", out.to_str().unwrap()];
    let command = tracer("export", &log.path(), &options);
    let words: Vec<_> = std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| format!("'{}'", word.to_str().unwrap()))
        .collect();
    // `script` gives the command a terminal.
    let on_terminal = Command::new("script")
        .args(["-qec", &words.join(" "), "/dev/null"])
        .env("TERM", "xterm")
        .stdin(Stdio::null())
        .output()
        .expect("script of util-linux is there");
    let shown = String::from_utf8_lossy(&on_terminal.stdout).into_owned();
    assert_eq!(on_terminal.status.code(), Some(0), "{shown}");
    assert!(shown.contains(" %  "), "{shown}");
    assert!(shown.trim_end().ends_with("tracer-user: 0 lost"), "{shown}");

    let elsewhere = output("export", &log.path(), &options);
    let said = String::from_utf8(elsewhere.stderr).unwrap();
    assert!(!said.contains('%') && said.lines().count() == 2, "{said}");
}
