//! Snapshots of a flight recorder, read back by the library.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use tests::sequence_log::{Found, read};
use tests::target::{Target, values_after};
use tests::tracer::Tracer;
use tests::{dist, wait_until};

/// A program that emits from four threads, and a recorder of it.
struct Scene {
    folder: tempfile::TempDir,
    target: Target,
    tracer: Tracer,
}

impl Scene {
    /// The program will emit `rate` events a second for `seconds`.
    fn new(rate: &str, seconds: &str, options: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let program = dist::compile("flood", folder.path()).unwrap();
        let (target, _) = Target::start(Command::new(program).args(["4", rate, seconds])).unwrap();
        let log = folder.path().join("ring");
        let mut line = vec!["--no-system", "--full-policy", "loop", "--log"];
        line.push(log.to_str().unwrap());
        line.extend(options);
        let tracer = Tracer::attach(target.pid(), &line).unwrap();
        // It waits for events once it has a slot in the program's area.
        wait_until("the recorder", Duration::from_secs(60), || {
            let wait = fs::read_to_string(format!("/proc/{}/wchan", tracer.pid()))?;
            Ok((wait.contains("poll") && log.exists()).then_some(()))
        })
        .unwrap();
        Self {
            folder,
            target,
            tracer,
        }
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("ring")
    }

    fn path(&self, index: u32) -> PathBuf {
        self.folder.path().join(format!("ring.{index}"))
    }

    fn found(&self, index: u32) -> Found {
        found(&self.folder, index)
    }

    /// Asks for a snapshot of it by `tracer-user snapshot`.
    fn ask(&self) -> Output {
        ask(&self.log(), self.tracer.pid(), "30s")
    }

    fn snapshot(&self) {
        let said = self.ask();
        let printed = String::from_utf8_lossy(&said.stdout).into_owned();
        assert!(said.status.success(), "{said:?}");
        assert_eq!(Path::new(printed.trim_end()), self.path(1));
    }

    /// Returns how many events each thread has emitted in the end.
    fn sent(&mut self) -> Vec<u64> {
        let said = self.target.wait_until_done().unwrap();
        let pairs = values_after(&said, "sent").unwrap();
        pairs.iter().map(|pair| pair[1]).collect()
    }
}

fn found(folder: &tempfile::TempDir, index: u32) -> Found {
    read(&folder.path().join(format!("ring.{index}")), "flood").unwrap()
}

fn ask(log: &Path, pid: i32, timeout: &str) -> Output {
    let mut command = Command::new(dist::tracer_user().unwrap());
    command.args(["snapshot", "--timeout", timeout, "--log"]);
    command.arg(log).arg(pid.to_string()).output().unwrap()
}

#[test]
fn snapshots_in_a_row_have_every_event_once_and_only_the_newest_are_stored() {
    // So large that nothing gives way and nothing is lost.
    let sizes = ["--thread-ring-size", "16M", "--stream-size", "64M"];
    let options = [&sizes[..], &["--snapshots", "3"]].concat();
    let mut scene = Scene::new("20000", "2", &options);
    scene.target.go().unwrap();
    for _ in 0..3 {
        std::thread::sleep(Duration::from_millis(400));
        scene.snapshot();
    }
    let first = scene.found(3);
    let sent = scene.sent();
    // The one before gives way to the one at the end.
    let Scene { folder, tracer, .. } = scene;
    tracer.signal(libc::SIGINT).unwrap();
    tracer.wait_for_death().unwrap();
    let found = [
        first,
        found(&folder, 3),
        found(&folder, 2),
        found(&folder, 1),
    ];

    for (thread, sent) in (0..).zip(&sent) {
        let mut next = 0;
        for snapshot in &found {
            let (first, last) = snapshot.range(thread).unwrap();
            assert_eq!(first, next, "of thread {thread}");
            next = last + 1;
        }
        assert_eq!(next, *sent);
    }
    for snapshot in &found {
        assert!(snapshot.status.is_some(), "completed");
        assert_eq!((snapshot.lost, snapshot.lost_in_log), (0, 0));
    }
    let mut names: Vec<_> = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("ring"))
        .collect();
    names.sort_unstable();
    assert_eq!(names, ["ring.1", "ring.2", "ring.3"]);
}

#[test]
fn a_snapshot_has_the_newest_events_and_counts_what_was_lost_since_the_one_before() {
    // The rings of threads are so small that a recorder that is stopped loses most.
    let sizes = ["--thread-ring-size", "4K", "--stream-size", "64K"];
    let options = [&sizes[..], &["--snapshots", "2"]].concat();
    let mut scene = Scene::new("20000", "2", &options);
    scene.target.go().unwrap();
    scene.tracer.signal(libc::SIGSTOP).unwrap();
    std::thread::sleep(Duration::from_millis(600));
    scene.tracer.signal(libc::SIGCONT).unwrap();
    scene.snapshot();
    let sent = scene.sent();
    scene.snapshot();

    let lost = scene.found(2).lost;
    assert!(lost > 5_000, "{lost}");
    let newest = scene.found(1);
    assert!(newest.lost < lost, "{} of {lost}", newest.lost);
    for (thread, sent) in (0..).zip(&sent) {
        assert_eq!(newest.sequences[&thread].last(), Some(&(sent - 1)));
    }
}

#[test]
fn what_is_no_recorder_is_sent_nothing_and_who_writes_no_snapshot_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let mut bystander = Command::new("sleep").arg("1000").spawn().unwrap();
    let pid = i32::try_from(bystander.id()).unwrap();
    let refused = ask(&folder.path().join("ring"), pid, "1s");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2));
    assert!(said.contains("is no tracer-user"), "{said}");
    assert!(bystander.try_wait().unwrap().is_none(), "it lives");
    bystander.kill().unwrap();
    bystander.wait().unwrap();

    let scene = Scene::new("100", "1", &[]);
    let refused = ask(&scene.log(), scene.tracer.pid(), "500ms");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2));
    assert!(said.contains("--snapshots"), "{said}");
}

#[test]
fn a_snapshot_that_cannot_get_its_name_stays_and_the_trace_ends() {
    let mut scene = Scene::new("2000", "1", &["--snapshots", "1"]);
    // A folder that is not empty is not replaced.
    fs::create_dir_all(scene.path(1).join("occupied")).unwrap();
    scene.target.go().unwrap();
    let sent = scene.sent();
    let refused = scene.ask();
    assert_eq!(refused.status.code(), Some(2));
    let log = scene.log();
    let trace = scene.tracer.finish().unwrap();
    assert_eq!(trace.status.code(), Some(1), "{}", trace.stderr);
    assert!(trace.stderr.contains("it stays"), "{}", trace.stderr);
    let found = read(&log, "flood").unwrap();
    for (thread, sent) in (0..).zip(&sent) {
        assert_eq!(found.range(thread).unwrap(), (0, sent - 1));
    }
}
