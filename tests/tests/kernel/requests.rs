//! Requests to block devices, against what the kernel's own tracer says of who started each.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, ensure};
use tests::event::Event;
use tests::ftrace::{Ftrace, Noted, to_us};
use tests::rights::missing_right;
use tests::target::{Target, values_after};
use tests::tracer::{Trace, Tracer};
use tests::{dist, mount};

/// Blocks of 4 KiB that each of two programs reads.
const BLOCKS: usize = 4096;
const ROUNDS: usize = 300;
/// Rounds of the other program, which runs for longer, so that it reuses every request that the
/// traced one had.
const ROUNDS_OF_OTHER: usize = 400;

/// A block device whose requests wait for one another: a file as a device, with a scheduler and
/// few requests at a time. Given back when dropped.
struct Disk {
    device: String,
    _nodes: Nodes,
    _file: tempfile::NamedTempFile,
}

impl Disk {
    fn make() -> anyhow::Result<Self> {
        let file = tempfile::NamedTempFile::new()?;
        file.as_file().set_len(2 * 4096 * BLOCKS as u64)?;
        let nodes = Nodes::make()?;
        let output = Command::new("losetup")
            .args(["--find", "--show"])
            .arg(file.path())
            .output()
            .context("cannot run losetup")?;
        ensure!(output.status.success(), "losetup: {output:?}");
        let device = String::from_utf8(output.stdout)?.trim().to_owned();
        let disk = Self {
            device,
            _nodes: nodes,
            _file: file,
        };
        disk.set("scheduler", "mq-deadline")?;
        disk.set("nr_requests", "4")?;
        Ok(disk)
    }

    fn set(&self, file: &str, value: &str) -> anyhow::Result<()> {
        let name = self.device.trim_start_matches("/dev/");
        let path = format!("/sys/block/{name}/queue/{file}");
        fs::write(&path, value).context(path)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["-d", &self.device]).status();
    }
}

/// The names of loop devices in `/dev`, as far as they were made for this: a chroot may have none.
/// Removed when dropped.
struct Nodes(Vec<String>);

impl Nodes {
    fn make() -> anyhow::Result<Self> {
        const CONTROL: &str = "/dev/loop-control";
        const LOOP_CTL_GET_FREE: libc::c_ulong = 0x4c82;
        let mut nodes = Self(Vec::new());
        nodes.add(CONTROL, ["c", "10", "237"])?;
        let control = fs::File::options().read(true).write(true).open(CONTROL)?;
        // SAFETY: the request takes nothing and gives an index.
        let free = unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE) };
        ensure!(free >= 0, "no loop device is free");
        nodes.add(&format!("/dev/loop{free}"), ["b", "7", &free.to_string()])?;
        Ok(nodes)
    }

    fn add(&mut self, path: &str, what: [&str; 3]) -> anyhow::Result<()> {
        if fs::exists(path)? {
            return Ok(());
        }
        let status = Command::new("mknod").arg(path).args(what).status()?;
        ensure!(status.success(), "mknod {path}: {status}");
        self.0.push(path.to_owned());
        Ok(())
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        for path in &self.0 {
            let _ = fs::remove_file(path);
        }
    }
}

/// A program of `queue` that waits for its start.
struct Reader {
    target: Target,
    threads: BTreeSet<i64>,
}

impl Reader {
    fn start(
        folder: &tempfile::TempDir,
        disk: &Disk,
        rounds: usize,
        first: usize,
    ) -> anyhow::Result<Self> {
        let program = dist::compile("queue", folder.path())?;
        let mut command = Command::new(program);
        let arguments = [BLOCKS, rounds, first].map(|value| value.to_string());
        let (target, said) = Target::start(command.arg(&disk.device).args(arguments))?;
        let threads = values_after(&said, "thread")?.concat();
        let threads = threads.into_iter().map(i64::try_from);
        Ok(Self {
            target,
            threads: threads.collect::<Result<_, _>>()?,
        })
    }
}

struct Run {
    trace: Trace,
    noted: Vec<Noted>,
    /// The threads of the traced program.
    threads: BTreeSet<i64>,
    /// Bytes that the traced program read, as the kernel counted them.
    read: u64,
    /// Ends that the kernel did not report, as the summary says.
    unreported: u64,
}

/// The kernel's own events of who starts a request, since 6.5 and before.
const STARTS: [&str; 2] = ["block_io_start", "block_getrq"];

/// Returns that of this kernel.
fn start_event() -> anyhow::Result<&'static str> {
    let folder = Path::new("/sys/kernel/tracing/events/block");
    let mut starts = STARTS.into_iter();
    let start = starts.find(|name| folder.join(name).exists());
    start.context("no event says who starts a request")
}

/// Runs two programs that read at the same time, of which one is traced.
fn run() -> anyhow::Result<Run> {
    let disk = Disk::make()?;
    let folder = tempfile::tempdir()?;
    let mut traced = Reader::start(&folder, &disk, ROUNDS, 0)?;
    let mut other = Reader::start(&folder, &disk, ROUNDS_OF_OTHER, BLOCKS)?;
    let mut tracer = Tracer::attach(traced.target.pid(), &["--events", "block,switch"])?;
    tracer.wait_for(|event| event.is_system("switch_in"))?;
    let start = format!("block/{}", start_event()?);
    let events = [
        (start.as_str(), ""),
        ("block/block_rq_issue", ""),
        ("block/block_rq_complete", ""),
    ];
    let ftrace = Ftrace::start("requests", &events)?;
    other.target.go()?;
    traced.target.go()?;
    let said = traced.target.wait_until_done()?;
    other.target.wait_until_done()?;
    let trace = tracer.stop()?;
    let noted = ftrace.noted()?;
    traced.target.end()?;
    other.target.end()?;
    let summary = trace.summary()?;
    let unreported = summary.lost["kernel_not_told"];
    ensure!(summary.all_lost() == 0, "events were lost");
    let read = values_after(&said, "read")?.concat();
    Ok(Run {
        trace,
        noted,
        threads: traced.threads,
        read: read.first().copied().context("no count")?,
        unreported,
    })
}

/// Device and sector of a line such as `254,0 R 4096 () 123456 + 8 none,0,0 [queue]`.
fn position(noted: &Noted) -> Option<(String, i64)> {
    let (head, _) = noted.text.split_once(" + ")?;
    let device = head.split_whitespace().next()?.replace(',', ":");
    let sector = head.split_whitespace().last()?.parse().ok()?;
    Some((device, sector))
}

fn position_of(event: &Event) -> Option<(String, i64)> {
    let (major, minor) = (event.integer("major")?, event.integer("minor")?);
    Some((format!("{major}:{minor}"), event.integer("sector")?))
}

#[test]
#[ignore = "loads eBPF"]
fn a_request_counts_for_the_thread_that_started_it() {
    if missing_right().is_some() {
        return;
    }
    let _tracefs = mount::tracefs().unwrap();
    // Each run is checked; in most of them a traced thread passes on what others have started.
    let mut for_others = (0..10).map(|_| requests_of_others(&run().unwrap()));
    assert!(for_others.any(|count| count > 0), "no request of others");
}

/// Checks a run, and returns how often a traced thread has handed over another's request.
fn requests_of_others(run: &Run) -> u32 {
    let is_traced = |tid: i64| run.threads.contains(&tid);
    let mut starts: BTreeMap<_, Vec<(u64, i64)>> = BTreeMap::new();
    // Who had the CPU at the end of a request, by its start.
    let mut ends = BTreeMap::new();
    let mut for_others = 0;
    for noted in &run.noted {
        let Some(position) = position(noted) else {
            continue;
        };
        if STARTS.contains(&noted.name.as_str()) {
            let starts = starts.entry(position).or_default();
            starts.push((noted.us, noted.on_cpu));
        } else if noted.name == "block_rq_complete" {
            let start = starts.get(&position).and_then(|starts| starts.last());
            ends.extend(start.map(|(us, _)| ((position, *us), noted.on_cpu)));
        } else if let Some((_, starter)) = starts.get(&position).and_then(|starts| starts.last()) {
            for_others += u32::from(is_traced(noted.on_cpu) && !is_traced(*starter));
        }
    }

    let events = run.trace.events().expect("its events");
    let (mut issued, mut completed) = (BTreeMap::new(), BTreeSet::new());
    let of_requests =
        |event: &&Event| event.is_system("block_issue") || event.is_system("block_complete");
    for event in events.iter().filter(of_requests) {
        let Some(position) = position_of(event).filter(|_| event.pid != 0) else {
            // Some requests have no start that was seen: a disk's own flushes.
            let is_flush = event.word("operation") == Some("flush");
            assert!(event.pid != 0 || is_flush, "{}", event.line);
            continue;
        };
        let known = starts.get(&position).map_or(&[][..], Vec::as_slice).iter();
        let start = known.rev().find(|(us, _)| *us <= to_us(event.ns));
        let (us, starter) = start.unwrap_or_else(|| panic!("no start: {}", event.line));
        if event.is_system("block_issue") {
            assert_eq!(i64::from(event.tid), *starter, "{}", event.line);
            assert!(is_traced(*starter), "{}", event.line);
            // A device may give a request back, which is then handed over again.
            issued.insert((position, *us), event.integer("bytes").expect("bytes"));
        } else {
            completed.insert((position, *us));
        }
    }
    assert_eq!(u64::try_from(issued.values().sum::<i64>()), Ok(run.read));
    let missing: Vec<_> = issued.keys().filter(|of| !completed.contains(of)).collect();
    let unreported = run.unreported - unreported_switches(&events);
    let counted = u64::try_from(missing.len()) == Ok(unreported);
    assert!(
        counted,
        "each is reported or counted: {missing:?}, {unreported}"
    );
    // While some threads have the CPU, a kernel may run no program at all: then nothing that
    // interrupts them is reported. Of who was interrupted otherwise, every end is.
    let reported: BTreeSet<_> = completed.iter().filter_map(|of| ends.get(of)).collect();
    for of in missing {
        let interrupted = ends.get(of);
        let is_reported = interrupted.is_some_and(|tid| reported.contains(tid));
        assert!(!is_reported, "{of:?}, thread {interrupted:?}");
    }
    for_others
}

/// Switches to threads that the kernel did not report, as the switches away after them show.
fn unreported_switches(events: &[Event]) -> u64 {
    let mut seen = BTreeSet::new();
    let mut unreported = 0;
    for event in events {
        let leaves = event.is_system("switch_out");
        if !leaves && !event.is_system("switch_in") {
            continue;
        }
        let is_known = !seen.insert(event.tid);
        unreported += u64::from(leaves && is_known && event.integer("ran_ns") == Some(0));
    }
    unreported
}
