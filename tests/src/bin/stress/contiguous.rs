//! A round in which threads and children emit at once, each at its own speed, and the stream is
//! read by their own process, by another one, into a log, or by `tracer-user`. What is kept is held
//! against the [law](crate::law).

use std::fs::File;
use std::os::fd::{AsFd as _, AsRawFd as _, FromRawFd as _, OwnedFd};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use anyhow::{Context as _, bail, ensure};
use tracer_area::{DeferredSource, RingMode, StreamRequest, monotonic_now};
use tracer_engine::{ActiveStream, Attributes, Inheritance, Origin, StreamFullPolicy};
use tracer_log::LogReader;
use tracer_posix::emit::UserEvent;
use tracer_posix::logged::LoggedStream;

use crate::law::{Law, SENDERS, Shared};
use crate::world::Random;

const NAME: &str = "contiguous";
/// The argument after which this program reads the stream of another one.
pub const READ: &str = "--read-contiguous";
const SHARED: &str = "TRACER_STRESS_SHARED";

/// Reader of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reader {
    Own,
    Other,
    Log,
    TracerUser,
}

/// A stream of a round.
#[derive(Clone, Copy, Debug)]
struct Plan {
    pid: i32,
    policy: StreamFullPolicy,
    bytes: usize,
    seed: u64,
    /// Whether it is read while others emit, and asked how it is.
    reads: bool,
    asks: bool,
}

impl Plan {
    fn request(&self) -> StreamRequest {
        StreamRequest {
            target: Some(self.pid),
            inherit: true,
            is_only_source: true,
            bytes: self.bytes,
            mode: RingMode::for_policy(self.policy),
            max_data: 80,
            lease: None,
        }
    }

    fn arguments(&self) -> [String; 6] {
        let policy = match self.policy {
            StreamFullPolicy::Loop => 0,
            StreamFullPolicy::UntilFull => 1,
            StreamFullPolicy::Flush => 2,
        };
        [
            self.pid.to_string(),
            policy.to_string(),
            self.bytes.to_string(),
            self.seed.to_string(),
            u8::from(self.reads).to_string(),
            u8::from(self.asks).to_string(),
        ]
    }

    fn from_arguments(arguments: &[String]) -> anyhow::Result<Self> {
        let [pid, policy, bytes, seed, reads, asks, ..] = arguments else {
            bail!("too few arguments");
        };
        Ok(Self {
            pid: pid.parse()?,
            policy: match policy.as_str() {
                "0" => StreamFullPolicy::Loop,
                "1" => StreamFullPolicy::UntilFull,
                _ => StreamFullPolicy::Flush,
            },
            bytes: bytes.parse()?,
            seed: seed.parse()?,
            reads: reads == "1",
            asks: asks == "1",
        })
    }
}

/// The memory of all rounds. Its file is passed on to readers.
pub fn shared() -> anyhow::Result<(OwnedFd, &'static Shared)> {
    let size = size_of::<Shared>();
    let file = if let Ok(passed) = env::var(SHARED) {
        // SAFETY: the descriptor was passed to this program for that.
        unsafe { OwnedFd::from_raw_fd(passed.parse()?) }
    } else {
        // SAFETY: a name with a null.
        let file = unsafe { libc::memfd_create(c"stress".as_ptr(), 0) };
        ensure!(file >= 0, "no file for the shared memory");
        // SAFETY: just opened, and no other value owns it.
        let file = unsafe { OwnedFd::from_raw_fd(file) };
        File::from(file.try_clone()?).set_len(size as u64)?;
        file
    };
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let (none, fd) = (std::ptr::null_mut(), file.as_raw_fd());
    // SAFETY: asks for a new mapping at an address of the kernel's choice.
    let base = unsafe { libc::mmap(none, size, access, libc::MAP_SHARED, fd, 0) };
    ensure!(base != libc::MAP_FAILED, "no memory that is shared");
    // SAFETY: page aligned, zeroed, of that size, never unmapped, and atomics alone.
    Ok((file, unsafe { &*base.cast::<Shared>() }))
}

/// Runs a round, and returns how many events were seen.
pub fn round(
    (file, shared): (&OwnedFd, &'static Shared),
    index: u64,
    seed: u64,
) -> anyhow::Result<u64> {
    shared.begin();
    let mut random = Random(seed ^ index.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let tracer_user = env::var_os("TRACER_USER");
    let reader = match random.next(if tracer_user.is_some() { 4 } else { 3 }) {
        0 => Reader::Own,
        1 => Reader::Other,
        2 => Reader::Log,
        _ => Reader::TracerUser,
    };
    let has_log = matches!(reader, Reader::Log | Reader::TracerUser);
    let policy = match random.next(if has_log { 3 } else { 2 }) {
        0 => StreamFullPolicy::Loop,
        1 => StreamFullPolicy::UntilFull,
        _ => StreamFullPolicy::Flush,
    };
    let plan = Plan {
        pid: i32::try_from(std::process::id())?,
        policy,
        bytes: 4096 << random.next(12),
        seed: random.next(u64::MAX),
        reads: random.chance(2),
        asks: random.chance(2),
    };
    let event = UserEvent::open(NAME)?;
    let told = format!("{reader:?} {plan:?}");
    let folder = tempfile::tempdir()?;
    let log = folder.path().join("log");
    let seen = match reader {
        Reader::Own => {
            let mut stream = stream_of(&plan)?;
            let law = Law::new(shared, event.id(), false);
            with_senders(shared, event, &mut random, || {
                read(&mut stream, &plan, law, shared)
            })?
        }
        Reader::Other | Reader::Log | Reader::TracerUser => {
            let child = match &tracer_user {
                Some(program) if reader == Reader::TracerUser => {
                    attach(Path::new(program), &plan, &log, shared)?
                }
                _ => start_reader(file, &plan, has_log.then_some(&log))?,
            };
            with_senders(shared, event, &mut random, || {
                wait_until_ready(shared)?;
                thread::sleep(Duration::from_millis(random_ms(plan.seed)));
                shared.is_over.store(true, SeqCst);
                end_reader(child, reader, shared)
            })??;
            if has_log {
                read_log(&log, shared)
            } else {
                Ok(0)
            }
        }
    };
    seen.with_context(|| told)
}

/// Chooses how long senders emit.
fn random_ms(seed: u64) -> u64 {
    20 + seed % 300
}

/// Runs `act` while senders emit, some of them in children of this process.
fn with_senders<R>(
    shared: &'static Shared,
    event: UserEvent,
    random: &mut Random,
    act: impl FnOnce() -> anyhow::Result<R>,
) -> anyhow::Result<anyhow::Result<R>> {
    let senders = 1 + random.index(SENDERS);
    let of_children = random.index(senders);
    let mut children = Vec::new();
    shared.at_work.store(u32::try_from(senders)?, SeqCst);
    // Children first: there are no threads yet.
    for sender in 0..of_children {
        let slow = pause(random);
        if let Some(sender) = shared.senders.get(sender) {
            sender.made.store(monotonic_now().0, SeqCst);
        }
        // SAFETY: the child only emits, and ends without running what is its parent's.
        match unsafe { libc::fork() } {
            0 => {
                send(shared, event, sender, slow);
                // SAFETY: as above.
                unsafe { libc::_exit(0) };
            }
            child if child > 0 => children.push(child),
            _ => bail!("fork: {}", std::io::Error::last_os_error()),
        }
    }
    let result = thread::scope(|scope| {
        for sender in of_children..senders {
            let slow = pause(random);
            scope.spawn(move || send(shared, event, sender, slow));
        }
        let result = act();
        shared.is_over.store(true, SeqCst);
        result
    });
    for child in children {
        let mut status = 0;
        // SAFETY: valid for writes.
        let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
        ensure!(
            waited == child && status == 0,
            "a child ended with {status:#x}"
        );
    }
    Ok(result)
}

/// Chooses the time between the bursts of a sender, in microseconds: none for a fast one.
fn pause(random: &mut Random) -> u64 {
    if random.chance(3) {
        0
    } else {
        1 << random.next(15)
    }
}

fn send(shared: &Shared, event: UserEvent, sender: usize, pause: u64) {
    let mut random = Random(sender as u64 | 1);
    while !shared.is_over.load(Acquire) {
        for _ in 0..=random.next(if pause == 0 { 1000 } else { 3 }) {
            shared.emit(event, sender, random.index(64));
        }
        if pause > 0 {
            thread::sleep(Duration::from_micros(pause));
        }
    }
    shared.at_work.fetch_sub(1, SeqCst);
}

/// Waits until no sender emits any more.
fn wait_for_senders(shared: &Shared) -> anyhow::Result<()> {
    let begin = Instant::now();
    while shared.at_work.load(SeqCst) > 0 {
        ensure!(
            begin.elapsed() < Duration::from_secs(30),
            "a sender does not end"
        );
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

fn stream_of(plan: &Plan) -> anyhow::Result<ActiveStream> {
    let source = DeferredSource::open(plan.pid, plan.request())?;
    let mut stream = ActiveStream::new(plan.policy, plan.bytes, monotonic_now);
    stream.add_source(Box::new(source));
    stream.start(Origin::NONE);
    Ok(stream)
}

/// Reads now and then while others emit, and all when they have ended.
fn read(
    stream: &mut ActiveStream,
    plan: &Plan,
    mut law: Law<'_>,
    shared: &Shared,
) -> anyhow::Result<u64> {
    let mut random = Random(plan.seed | 1);
    let is_own = plan.pid == i32::try_from(std::process::id())?;
    let end = Instant::now() + Duration::from_millis(random_ms(plan.seed));
    let is_over = || shared.is_over.load(Acquire) || is_own && Instant::now() >= end;
    while !is_over() {
        if plan.asks && random.chance(3) {
            stream.status();
        }
        if plan.reads {
            for _ in 0..random.next(20_000) {
                let Some(event) = stream.try_next_event() else {
                    break;
                };
                law.take(&event.header, event.data)?;
            }
        }
        thread::sleep(Duration::from_micros(random.next(20_000)));
    }
    shared.is_over.store(true, SeqCst);
    wait_for_senders(shared)?;
    stream.settle();
    while let Some(event) = stream.try_next_event() {
        law.take(&event.header, event.data)?;
    }
    law.end()?;
    Ok(law.seen)
}

/// This program as a reader of another one.
pub fn be_the_reader(arguments: &[String]) -> anyhow::Result<()> {
    let plan = Plan::from_arguments(arguments)?;
    let (_file, shared) = shared()?;
    if let Some(log) = arguments.get(6) {
        return record(&plan, Path::new(log), shared);
    }
    let mut stream = stream_of(&plan)?;
    let id = stream.define_event_type(NAME.as_bytes());
    shared.ready.store(1, SeqCst);
    let seen = read(&mut stream, &plan, Law::new(shared, id, true), shared)?;
    println!("{seen} seen");
    Ok(())
}

/// Records into a log until all is over.
fn record(plan: &Plan, log: &Path, shared: &Shared) -> anyhow::Result<()> {
    let attributes = Attributes::default()
        .with_stream_min_size(plan.bytes)
        .with_stream_full_policy(plan.policy)
        .with_max_data_size(80)
        .with_inheritance(Inheritance::Inherited);
    let file = File::create(log)?;
    let mut stream = LoggedStream::create(plan.pid, &attributes, file.as_fd())?;
    stream.start()?;
    shared.ready.store(1, SeqCst);
    let mut random = Random(plan.seed | 1);
    while !shared.is_over.load(Acquire) {
        if plan.asks && random.chance(3) {
            stream.status()?;
        }
        if plan.reads && random.chance(3) {
            stream.flush()?;
        }
        thread::sleep(Duration::from_micros(random.next(20_000)));
    }
    wait_for_senders(shared)?;
    stream.stop()?;
    stream.shut_down()?;
    Ok(())
}

fn start_reader(file: &OwnedFd, plan: &Plan, log: Option<&Path>) -> anyhow::Result<Child> {
    let passed = file.as_raw_fd();
    let child = Command::new(env::current_exe()?)
        .arg(READ)
        .args(plan.arguments())
        .args(log)
        .env(SHARED, passed.to_string())
        .stdout(Stdio::null())
        .spawn()?;
    Ok(child)
}

fn attach(program: &Path, plan: &Plan, log: &Path, shared: &Shared) -> anyhow::Result<Child> {
    let policy = match plan.policy {
        StreamFullPolicy::Loop => "loop",
        StreamFullPolicy::UntilFull => "until-full",
        StreamFullPolicy::Flush => "flush",
    };
    let child = Command::new(program)
        .args(["attach", "--no-system", "--full-policy", policy, "--log"])
        .arg(log)
        .arg(plan.pid.to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    // It says nothing when it has begun, but has a log then.
    let begin = Instant::now();
    while !fs::metadata(log).is_ok_and(|metadata| metadata.len() > 0) {
        ensure!(
            begin.elapsed() < Duration::from_secs(20),
            "tracer-user makes no log"
        );
        thread::sleep(Duration::from_millis(1));
    }
    shared.ready.store(1, SeqCst);
    Ok(child)
}

fn wait_until_ready(shared: &Shared) -> anyhow::Result<()> {
    let begin = Instant::now();
    while shared.ready.load(Acquire) == 0 {
        ensure!(
            begin.elapsed() < Duration::from_secs(30),
            "the reader does not begin"
        );
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

fn end_reader(mut child: Child, reader: Reader, shared: &Shared) -> anyhow::Result<()> {
    if reader == Reader::TracerUser {
        wait_for_senders(shared)?;
        // SAFETY: takes no pointers; the child was not waited for yet.
        unsafe { libc::kill(child.id().cast_signed(), libc::SIGINT) };
    }
    let status = child.wait()?;
    // It says so where events were lost.
    let is_expected = status.success() || reader == Reader::TracerUser && status.code() == Some(1);
    ensure!(is_expected, "the reader ended with {status}");
    Ok(())
}

fn read_log(log: &Path, shared: &Shared) -> anyhow::Result<u64> {
    let mut reader = LogReader::open(File::open(log)?)?;
    let types = reader.event_types().clone();
    let Some(id) = types.id(NAME.as_bytes()) else {
        return Ok(0);
    };
    let mut law = Law::new(shared, id, true);
    while let Some(record) = reader.next_record()? {
        law.take(&record.event.header, record.event.data)?;
    }
    ensure!(reader.damage().sites == 0, "a damaged log");
    law.end()?;
    fs::remove_file(log)?;
    shared.ready.store(0, Relaxed);
    Ok(law.seen)
}
