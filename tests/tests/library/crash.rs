//! Logs of controllers and targets that are killed at any moment.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{bail, ensure};
use tests::dist;
use tests::sequence_log::{THREADS, make_notes, notes, read, read_completed};
use tests::target::Target;

/// Number of controllers that are killed, and of targets.
const RUNS: u64 = 100;

struct Scene {
    folder: tempfile::TempDir,
    program: PathBuf,
}

impl Scene {
    fn new() -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let program = dist::compile("crash", folder.path())?;
        Ok(Self { folder, program })
    }

    fn notes(&self) -> PathBuf {
        self.folder.path().join("notes")
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    fn start(&self, arguments: &[&str]) -> anyhow::Result<Target> {
        let mut command = Command::new(&self.program);
        command
            .arg(self.notes())
            .args(arguments)
            .env("LD_LIBRARY_PATH", dist::folder()?.join("lib"));
        Ok(Target::start(&mut command)?.0)
    }

    fn start_controller(&self, rest: &[&str]) -> anyhow::Result<Target> {
        let log = self.log();
        let log = log.to_string_lossy().into_owned();
        self.start(&[&[&*log], rest].concat())
    }
}

/// A different moment in every run, from at once to 20 ms: the sequence is the same each time, the
/// moments are not.
fn any_moment(run: u64) -> Duration {
    Duration::from_micros(run.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 20_000)
}

/// Name of the program's events with sequence numbers.
const SEQUENCE: &str = "sequence";

/// Checks that the log has all events that a thread had emitted, and noted, when it was killed.
fn has_all_that_was_noted(log: &Path, notes: &[u64]) -> anyhow::Result<()> {
    let found = read_completed(log, SEQUENCE)?;
    for (thread, noted) in (0..).zip(notes) {
        // A thread that had noted one event or none may have nothing in the log.
        let (first, last) = match found.range(thread) {
            Err(_) if *noted < 2 => continue,
            range => range?,
        };
        ensure!(first == 1, "thread {thread} begins with {first}");
        ensure!(
            last >= *noted && last <= noted + 1,
            "thread {thread} had emitted {noted}, and the log ends with {last}"
        );
    }
    let [first, .., last] = &found.others[..] else {
        bail!("no start, or no stop: {:?}", found.others);
    };
    ensure!(first == "posix_trace_start" && last == "posix_trace_stop");
    Ok(())
}

#[test]
fn a_controller_that_traces_itself_and_is_killed_leaves_a_complete_log() {
    let scene = Scene::new().unwrap();
    for run in 0..RUNS {
        make_notes(&scene.notes()).unwrap();
        let target = scene.start_controller(&["self"]).unwrap();
        std::thread::sleep(any_moment(run));
        drop(target);
        let noted = notes(&scene.notes()).unwrap();
        if let Err(error) = has_all_that_was_noted(&scene.log(), &noted) {
            panic!("run {run}: {error:#}");
        }
    }
}

#[test]
fn a_target_that_is_killed_is_in_the_log_to_its_end() {
    let scene = Scene::new().unwrap();
    for run in 0..RUNS {
        make_notes(&scene.notes()).unwrap();
        let target = scene.start(&["-"]).unwrap();
        let pid = target.pid().to_string();
        let controller = scene.start_controller(&["pid", &pid]).unwrap();
        std::thread::sleep(any_moment(run));
        drop(target);
        let noted = notes(&scene.notes()).unwrap();
        drop(controller);
        let found = read_completed(&scene.log(), SEQUENCE).unwrap();
        for (thread, noted) in (0..).zip(noted) {
            // Some were emitted before the controller came.
            match found.range(thread) {
                Ok((_, last)) => assert!(last >= noted, "run {run}: {last} of {noted}"),
                Err(error) => assert!(!found.sequences.contains_key(&thread), "run {run}: {error}"),
            }
        }
    }
}

#[test]
fn a_controller_that_execs_has_shut_its_stream_down() {
    let scene = Scene::new().unwrap();
    make_notes(&scene.notes()).unwrap();
    let target = scene.start_controller(&["exec"]).unwrap();
    let found = read_completed(&scene.log(), SEQUENCE).unwrap();
    assert_eq!(found.sequences.len(), THREADS);
    let comm = fs::read_to_string(format!("/proc/{}/comm", target.pid())).unwrap();
    assert_eq!(comm.trim(), "sleep", "it runs on");
}

#[test]
fn the_recorder_may_be_killed_too_and_what_it_had_written_is_there() {
    let scene = Scene::new().unwrap();
    make_notes(&scene.notes()).unwrap();
    let target = scene.start_controller(&["self"]).unwrap();
    // It writes once a second at least.
    std::thread::sleep(Duration::from_millis(2500));
    let recorder = recorder_of(&scene.log()).expect("a process that has the log open");
    // The shell's own: not every machine has the program.
    let kill = ["-c", "kill -KILL \"$0\"", &recorder];
    let killed = Command::new("sh").args(kill).status();
    assert!(killed.unwrap().success());
    drop(target);
    let found = read(&scene.log(), SEQUENCE).unwrap();
    assert_eq!(found.status, None);
    let mut missing = 0;
    for thread in (0..).take(THREADS) {
        let sequences = &found.sequences[&thread];
        assert!(sequences.is_sorted_by(|one, next| one < next));
        let (first, last) = (sequences[0], sequences[sequences.len() - 1]);
        assert!(first == 1 && last > 100, "{first} to {last}");
        missing += last - sequences.len() as u64;
    }
    // On a busy machine the recorder may be without a processor for so long that the stream is
    // full; then it says so.
    let reported = found.lost + found.lost_in_log;
    assert!(
        missing <= reported,
        "{missing} missing, {reported} reported"
    );
}

/// The process, other than the program itself, that has a file open.
fn recorder_of(log: &Path) -> Option<String> {
    let processes = fs::read_dir("/proc").ok()?;
    let names = processes.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names
        .filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
        .filter(|pid| {
            fs::read_to_string(format!("/proc/{pid}/comm"))
                .is_ok_and(|comm| comm.trim() == "posixtrace-log")
        })
        .find(|pid| {
            let files = fs::read_dir(format!("/proc/{pid}/fd"))
                .into_iter()
                .flatten();
            let mut targets = files.filter_map(|file| fs::read_link(file.ok()?.path()).ok());
            targets.any(|target| target == log)
        })
}
