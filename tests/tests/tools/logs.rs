//! Logs that the command line writes, read back by the library.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tests::mount::Mount;
use tests::processes::switches_at_rest;
use tests::rights::missing_right;
use tests::sequence_log::{Found, read};
use tests::target::{Target, values_after};
use tests::tracer::{Trace, Tracer};
use tests::{dist, log_reader, tools, wait_until};
use tracer_engine::Inheritance;
use tracer_log::LogReader;

/// Name of the events with sequence numbers of `flood`.
const FLOOD: &str = "flood";

struct Scene {
    folder: tempfile::TempDir,
    target: Target,
}

/// Events that each thread of a program has sent, and those in the log.
struct Logged {
    sent: Vec<u64>,
    found: Found,
    /// Bytes of the log.
    length: u64,
    trace: Trace,
}

impl Scene {
    /// A program that will emit `rate` events a second for `seconds`, from four threads.
    fn new(rate: &str, seconds: &str) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let program = dist::compile("flood", folder.path())?;
        let (target, _) = Target::start(Command::new(program).args(["4", rate, seconds]))?;
        Ok(Self { folder, target })
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    /// Attaches; returns when the program's events are recorded.
    fn attach(&mut self, options: &[&str]) -> anyhow::Result<Tracer> {
        let log = self.log();
        self.attach_to(&log, options)
    }

    fn attach_to(&mut self, log: &Path, options: &[&str]) -> anyhow::Result<Tracer> {
        let log = log.to_string_lossy().into_owned();
        let options = [&["--no-system", "--log", &log], options].concat();
        let tracer = Tracer::attach(self.target.pid(), &options)?;
        // It has a slot in the program's area by the time it waits for events.
        wait_until("the tracer", Duration::from_secs(60), || {
            let wait = fs::read_to_string(format!("/proc/{}/wchan", tracer.pid()))?;
            let waits = wait.contains("poll");
            Ok((waits && fs::metadata(&log).is_ok_and(|log| log.len() > 0)).then_some(()))
        })?;
        Ok(tracer)
    }

    /// Lets the program do its work, and ends the trace.
    fn finish(mut self, tracer: Tracer) -> anyhow::Result<Logged> {
        let log = self.log();
        let sent = self.work()?;
        let trace = tracer.stop()?;
        Ok(Logged {
            sent,
            found: read(&log, FLOOD)?,
            length: fs::metadata(&log)?.len(),
            trace,
        })
    }

    fn work(&mut self) -> anyhow::Result<Vec<u64>> {
        self.target.go()?;
        let said = self.target.wait_until_done()?;
        Ok(values_after(&said, "sent")?
            .iter()
            .map(|pair| pair[1])
            .collect())
    }
}

#[test]
fn a_log_has_every_event_once_and_in_order() {
    let mut scene = Scene::new("400000", "1").unwrap();
    // Large enough for all, so that nothing is lost however late the tracer gets a processor.
    let sizes = ["--thread-ring-size", "64M", "--stream-size", "128M"];
    let tracer = scene.attach(&sizes).unwrap();
    let logged = scene.finish(tracer).unwrap();

    assert_eq!(logged.sent.iter().sum::<u64>(), 400_000);
    for (thread, sent) in (0..).zip(&logged.sent) {
        assert_eq!(logged.found.range(thread).unwrap(), (0, sent - 1));
    }
    assert_eq!((logged.found.lost, logged.found.lost_in_log), (0, 0));
    assert!(logged.found.status.is_some(), "completed");
    assert_eq!(
        logged.trace.status.code(),
        Some(0),
        "{}",
        logged.trace.stderr
    );
}

#[test]
fn a_log_that_loops_never_grows_beyond_its_size_and_has_the_newest() {
    const SIZE: u64 = 256 << 10;
    /// Both copies of the header, and the names of the types.
    const BESIDE: u64 = 16 << 10;
    let mut scene = Scene::new("200000", "1").unwrap();
    let log = scene.log();
    let tracer = scene.attach(&["--log-size", "256K"]).unwrap();
    let watched = log.clone();
    let watcher = std::thread::spawn(move || {
        let sizes = (0..100).map(|_| {
            std::thread::sleep(Duration::from_millis(10));
            fs::metadata(&watched).map_or(0, |log| log.len())
        });
        sizes.max().unwrap_or(0)
    });
    let logged = scene.finish(tracer).unwrap();

    assert!(watcher.join().unwrap() <= SIZE + BESIDE);
    assert!(logged.length <= SIZE + BESIDE);
    let mut retained = 0;
    for (thread, sent) in (0..).zip(&logged.sent) {
        let (first, last) = logged.found.range(thread).unwrap();
        assert!(first > 0 && last == sent - 1, "{first} to {last} of {sent}");
        retained += last - first + 1;
    }
    assert!(
        retained > 5000,
        "of 256 KiB little more than 16 bytes of data and 12 of header an event: {retained}"
    );
    let sent: u64 = logged.sent.iter().sum();
    let others = u64::try_from(logged.found.others.len()).unwrap();
    assert!(logged.found.lost_in_log >= sent - retained - others);
    assert!(logged.found.status.unwrap().is_log_full);
    // What gives way to newer events does so because it was asked for.
    assert_eq!(
        logged.trace.status.code(),
        Some(0),
        "{}",
        logged.trace.stderr
    );
}

#[test]
fn a_log_until_full_ends_with_a_stop_and_the_trace_ends() {
    let mut scene = Scene::new("200000", "1").unwrap();
    let log = scene.log();
    let options = ["--log-size", "256K", "--log-policy", "until-full"];
    let tracer = scene.attach(&options).unwrap();
    let sent = scene.work().unwrap();
    let trace = tracer.finish().unwrap();
    let found = read(&log, FLOOD).unwrap();

    for (thread, sent) in (0..).zip(&sent) {
        let (first, last) = found.range(thread).unwrap();
        assert!(first == 0 && last < sent - 1, "{first} to {last}");
    }
    assert_eq!(found.others.last().unwrap(), "posix_trace_stop");
    assert!(found.status.unwrap().is_log_full);
    assert!(trace.status.code().is_some(), "it has ended by itself");
}

#[test]
fn a_log_can_be_continued() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    for part in 0..2 {
        let mut scene = Scene::new("2000", "1").unwrap();
        let options: &[&str] = if part == 0 { &[] } else { &["--append"] };
        let tracer = scene.attach_to(&log, options).unwrap();
        scene.work().unwrap();
        tracer.stop().unwrap();
    }
    let found = read(&log, FLOOD).unwrap();
    let sequences = &found.sequences[&0];
    // Both from the first to the last, one after the other, and of one type.
    let once: Vec<u64> = (0..500).collect();
    assert_eq!(*sequences, [&once[..], &once[..]].concat());
}

#[test]
fn a_log_has_one_writer_and_a_dead_one_keeps_no_other_out() {
    let mut first = Scene::new("20000", "1").unwrap();
    let mut second = Scene::new("20000", "1").unwrap();
    let log = first.log();
    let tracer = first.attach(&[]).unwrap();
    for option in ["--append", "--force"] {
        let log = log.to_str().unwrap();
        let options = ["--no-system", "--log", log, option];
        let refused = Tracer::attach(second.target.pid(), &options).unwrap();
        let refused = refused.finish().unwrap();
        assert_eq!(refused.status.code(), Some(2));
        let writer = format!("process {} writes to the same log", tracer.pid());
        assert!(refused.stderr.contains(&writer), "{}", refused.stderr);
    }
    // What the first writes is as if no other tracer had tried.
    first.work().unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    tracer.signal(libc::SIGKILL).unwrap();
    tracer.wait_for_death().unwrap();
    assert_eq!(read(&log, FLOOD).unwrap().range(0).unwrap().0, 0);

    let tracer = second.attach_to(&log, &["--append"]).unwrap();
    second.work().unwrap();
    tracer.stop().unwrap();
    assert!(read(&log, FLOOD).unwrap().status.is_some(), "completed");
}

#[test]
fn all_readers_show_the_same_dates() {
    // For some seconds, so that the clocks are compared many times.
    let mut scene = Scene::new("20000", "3").unwrap();
    let log = scene.log();
    let tracer = scene.attach(&[]).unwrap();
    let folder = scene.folder.path().to_owned();
    scene.work().unwrap();
    tracer.stop().unwrap();
    let ctf = folder.join("ctf").to_string_lossy().into_owned();
    log_reader::run("export", &log, &["--to", "ctf", "-o", &ctf]).unwrap();
    let (printed, warnings) = tools::babeltrace2(
        &["--clock-date", "--clock-gmt", "--no-delta"],
        Path::new(&ctf),
    )
    .unwrap();
    assert_eq!(warnings, "");
    let of_babeltrace = printed
        .lines()
        .map(|line| line.trim_start_matches('[').split(']').next());
    let read = log_reader::run("read", &log, &["--format", "csv"]).unwrap();
    let read = String::from_utf8(read.stdout).unwrap();
    let of_read = read
        .lines()
        .skip(1)
        .map(|line| line.split(',').nth(1))
        .map(|date| date.map(|date| date.replace('T', " ").replace('Z', "")));
    let mut count = 0;
    for (theirs, ours) in of_babeltrace.zip(of_read) {
        assert_eq!(theirs, ours.as_deref(), "event {count}");
        count += 1;
    }
    assert!(count > 50_000, "{count}");
}

#[test]
fn a_log_says_whether_children_were_traced() {
    let inheritance = |options: &[&str]| {
        let mut scene = Scene::new("100", "1").unwrap();
        let tracer = scene.attach(options).unwrap();
        tracer.stop().unwrap();
        let log = fs::File::open(scene.log()).unwrap();
        let log = LogReader::open(log).unwrap();
        log.header().attributes.inheritance()
    };

    assert_eq!(inheritance(&[]), Inheritance::Inherited);
    assert_eq!(inheritance(&["--no-inherit"]), Inheritance::CloseForChild);
}

#[test]
fn a_flight_recorder_has_the_last_events_when_it_is_asked_and_at_the_end() {
    let mut scene = Scene::new("100000", "1").unwrap();
    let log = scene.log();
    let tracer = scene
        .attach(&["--full-policy", "loop", "--stream-size", "64K"])
        .unwrap();
    let is_empty = || {
        let mut log = LogReader::open(fs::File::open(&log).unwrap()).unwrap();
        log.next_record().unwrap().is_none()
    };
    // Longer than a log without a flight recorder waits until it is written.
    std::thread::sleep(Duration::from_millis(1500));
    assert!(is_empty(), "nothing is written before it is asked for");
    tracer.signal(libc::SIGUSR1).unwrap();
    wait_until("what it was asked for", Duration::from_secs(60), || {
        Ok((!is_empty()).then_some(()))
    })
    .unwrap();
    let logged = scene.finish(tracer).unwrap();

    let found = &logged.found;
    let mut retained = 0;
    for (thread, sent) in (0..).zip(&logged.sent) {
        let (first, last) = found.range(thread).unwrap();
        assert!(first > 0 && last == sent - 1, "{first} to {last} of {sent}");
        retained += last - first + 1;
    }
    assert!(retained > 100 && retained < 1000, "{retained}");
    assert!(
        found
            .others
            .iter()
            .any(|name| name == "posix_trace_overflow")
    );
    assert!(found.others.iter().any(|name| name == "posix_trace_resume"));
}

#[test]
fn a_tracer_that_is_killed_leaves_what_it_had_written() {
    let mut scene = Scene::new("20000", "3").unwrap();
    let log = scene.log();
    let tracer = scene.attach(&[]).unwrap();
    scene.target.go().unwrap();
    std::thread::sleep(Duration::from_millis(2500));
    tracer.signal(libc::SIGKILL).unwrap();
    tracer.wait_for_death().unwrap();
    let found = read(&log, FLOOD).unwrap();

    assert_eq!(found.status, None, "never completed");
    for thread in 0..4 {
        let (first, last) = found.range(thread).unwrap();
        assert!(first == 0 && last > 1000, "{first} to {last}");
    }
}

#[test]
#[ignore = "mounts a file system"]
fn a_full_file_system_costs_events_that_are_counted_and_nothing_else() {
    if missing_right().is_some() {
        return;
    }
    let small = Mount::new("tmpfs", "size=512K").unwrap();
    let log = small.path().join("log");
    let mut scene = Scene::new("100000", "1").unwrap();
    // What is missing is missing in the file, however late the tracer gets a processor.
    let sizes = ["--thread-ring-size", "64M"];
    let tracer = scene.attach_to(&log, &sizes).unwrap();
    let sent = scene.work().unwrap();
    let trace = tracer.stop().unwrap();
    let found = read(&log, FLOOD).unwrap();

    assert!(
        trace.stderr.contains("No space left on device"),
        "{}",
        trace.stderr
    );
    assert_eq!(trace.status.code(), Some(1), "{}", trace.stderr);
    let mut retained = 0;
    for (thread, sent) in (0..).zip(&sent) {
        let (first, last) = found.range(thread).unwrap();
        assert!(first == 0 && last < sent - 1, "{first} to {last} of {sent}");
        retained += last + 1;
    }
    let unwritten = trace.summary().unwrap().unwritten;
    let missing = sent.iter().sum::<u64>() - retained;
    assert!(
        unwritten >= missing && unwritten <= missing + 1000,
        "{unwritten} of {missing}"
    );
}

#[test]
#[ignore = "loads eBPF"]
fn the_kernels_events_in_a_log_are_as_many_as_the_kernel_counted() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = dist::compile("switches", folder.path()).unwrap();
    let (mut target, said) = Target::start(Command::new(program).args(["300", "200"])).unwrap();
    let threads = values_after(&said, "thread").unwrap().concat();
    let threads: Vec<i32> = threads
        .iter()
        .map(|tid| i32::try_from(*tid).unwrap())
        .collect();
    let pid = target.pid();
    let log = folder.path().join("log");
    let tracer = Tracer::attach(pid, &["--log", log.to_str().unwrap()]).unwrap();
    wait_until("events in the log", Duration::from_secs(60), || {
        let reader = fs::File::open(&log)
            .ok()
            .and_then(|log| LogReader::open(log).ok());
        Ok(reader.and_then(|mut log| log.next_record().ok().flatten().map(drop)))
    })
    .unwrap();

    let before = switches_at_rest(pid, &threads).unwrap();
    target.go().unwrap();
    target.wait_until_done().unwrap();
    let after = switches_at_rest(pid, &threads).unwrap();
    tracer.stop().unwrap();

    let mut reader = LogReader::open(fs::File::open(&log).unwrap()).unwrap();
    let types = reader.event_types().clone();
    let mut seen = std::collections::BTreeMap::new();
    while let Some(record) = reader.next_record().unwrap() {
        let header = record.event.header;
        assert!(
            header.pid != pid || record.comm == b"switches",
            "{:?}",
            record.comm
        );
        if types.name(header.event_type) == Some(b"linux_trace_switch_out")
            && threads.contains(&header.tid)
        {
            *seen.entry(header.tid).or_insert(0) += 1;
        }
    }
    let growth = after.iter().map(|(tid, count)| (*tid, count - before[tid]));
    assert_eq!(seen, growth.collect());
}
