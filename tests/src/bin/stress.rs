//! Random stress of the trace area: threads that emit and end, handlers that emit within emissions, children that are killed amid
//! them, programs that are exec'ed, limits, a reader that reads now and then. `stress SECONDS [SEED]`.
//!
//! Each round has a stream of its own. What was sent is counted outside of the trace area, before and after each emission, in memory
//! that killed children leave behind. At the end of a round all that was sent has to have been seen, or counted as lost, in order,
//! with its data; and at the end of all rounds no memory, descriptor or thread is left.

use std::collections::HashMap;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::{Duration, Instant, SystemTime};
use std::{env, fs, thread};

use anyhow::{Context as _, bail, ensure};
use tracer_area::{Area, AreaSource, RingMode, StreamRequest, monotonic_now};
use tracer_engine::source::LossCause;
use tracer_engine::{ActiveStream, Origin, StreamFullPolicy};
use tracer_posix::EventTypeId;
use tracer_posix::emit::UserEvent;

/// Senders of one round: threads, handlers, children.
const SENDERS: usize = 64;
const MOST_THREADS: usize = 16;
/// The one sender of all handlers: they interrupt each other.
const HANDLERS: usize = SENDERS - 1;
/// Events of a program that is exec'ed.
const OF_A_PROGRAM: u64 = 500;

/// Emissions of each sender: begun, and done. In memory that all processes of a round share.
struct Counts {
    senders: &'static [[AtomicU64; 2]],
}

impl Counts {
    fn new() -> anyhow::Result<Self> {
        let bytes = SENDERS * size_of::<[AtomicU64; 2]>();
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: asks for a new mapping at an address of the kernel's choice.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, flags, -1, 0) };
        ensure!(base != libc::MAP_FAILED, "no memory for the counts");
        // SAFETY: page aligned, zeroed, never unmapped, and atomics alone.
        let senders = unsafe { std::slice::from_raw_parts(base.cast(), SENDERS) };
        Ok(Self { senders })
    }

    fn clear(&self) {
        for count in self.senders.iter().flatten() {
            count.store(0, SeqCst);
        }
    }

    fn begun(&self) -> u64 {
        self.senders
            .iter()
            .map(|[begun, _]| begun.load(SeqCst))
            .sum()
    }

    fn done(&self) -> u64 {
        self.senders.iter().map(|[_, done]| done.load(SeqCst)).sum()
    }
}

/// What everybody in the process needs, handlers too.
struct World {
    event: UserEvent,
    counts: Counts,
    is_over: AtomicBool,
}

static WORLD: std::sync::OnceLock<World> = std::sync::OnceLock::new();

fn world() -> &'static World {
    match WORLD.get() {
        Some(world) => world,
        None => std::process::abort(),
    }
}

/// Pseudorandom values (xorshift).
struct Random(u64);

impl Random {
    fn next(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % below.max(1)
    }

    fn index(&mut self, below: usize) -> usize {
        usize::try_from(self.next(below as u64)).unwrap_or(0)
    }

    fn chance(&mut self, of: u64) -> bool {
        self.next(of) == 0
    }
}

/// Emits one event of a sender: the sender's index, the sequence number, and as much filling as that says.
fn emit(sender: usize) {
    let World { event, counts, .. } = world();
    let Some([begun, done]) = counts.senders.get(sender) else {
        return;
    };
    let sequence = begun.fetch_add(1, SeqCst);
    let mut data = [0; 16 + 64];
    data[..8].copy_from_slice(&(sender as u64).to_ne_bytes());
    data[8..16].copy_from_slice(&sequence.to_ne_bytes());
    let filling = filling_of(sequence);
    data[16..16 + filling].fill(u8::try_from(sequence % 251).unwrap_or(0));
    event.emit(&data[..16 + filling]);
    done.fetch_add(1, SeqCst);
}

fn filling_of(sequence: u64) -> usize {
    usize::try_from(sequence * 7 % 65).unwrap_or(0)
}

extern "C" fn emit_in_handler(_signal: libc::c_int) {
    emit(HANDLERS);
}

/// A child that emits until it is killed, or has emitted enough; under some limit.
fn child(sender: usize, random: &mut Random) -> ! {
    if random.chance(3) {
        let most = libc::rlimit {
            rlim_cur: random.next(1 << 22),
            rlim_max: libc::RLIM_INFINITY,
        };
        // SAFETY: a valid object.
        unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const most) };
    }
    if random.chance(3) {
        // SAFETY: takes no pointers; nothing is needed of them.
        unsafe { libc::close_range(3, u32::MAX, 0) };
    }
    for _ in 0..random.next(200_000) {
        emit(sender);
    }
    // SAFETY: ends the child without running what belongs to the parent.
    unsafe { libc::_exit(0) };
}

/// What became of a round.
#[derive(Default)]
struct Tally {
    seen: u64,
    lost: u64,
    has_seen_start: bool,
    next: HashMap<u64, u64>,
}

impl Tally {
    /// Reads what is there, but no longer than this: others may emit faster than it is read.
    fn read(&mut self, stream: &mut ActiveStream, until: Instant) -> anyhow::Result<()> {
        while Instant::now() < until
            && let Some(event) = stream.try_next_event()
        {
            if event.header.event_type == EventTypeId::START {
                self.has_seen_start = true;
            }
            if event.header.event_type != world().event.id() {
                continue;
            }
            let (sender, rest) = event.data.split_first_chunk().context("no sender")?;
            let (sequence, filling) = rest.split_first_chunk().context("no sequence number")?;
            let sender = u64::from_ne_bytes(*sender);
            let sequence = u64::from_ne_bytes(*sequence);
            let byte = u8::try_from(sequence % 251)?;
            ensure!(
                filling.len() == filling_of(sequence) && filling.iter().all(|is| *is == byte),
                "event {sequence} of sender {sender} has another's data"
            );
            if sender != HANDLERS as u64 {
                let next = self.next.entry(sender).or_default();
                ensure!(
                    sequence >= *next,
                    "event {sequence} of sender {sender} came after {next}"
                );
                *next = sequence + 1;
            }
            self.seen += 1;
        }
        Ok(())
    }
}

struct Round {
    random: Random,
    children: Vec<(libc::pid_t, Instant)>,
    programs: u64,
}

/// Ends when all have ended.
fn round(index: u64, seed: u64) -> anyhow::Result<(u64, u64)> {
    let World {
        counts, is_over, ..
    } = world();
    counts.clear();
    is_over.store(false, SeqCst);
    let mut random = Random(seed ^ index.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let is_loop = random.chance(2);
    let bytes = 4096 << random.next(12);
    let request = StreamRequest {
        target: Some(own_pid()?),
        inherit: true,
        is_only_source: true,
        bytes,
        mode: if is_loop {
            RingMode::OverwriteOldest
        } else {
            RingMode::KeepOldest
        },
        max_data: 80 << random.next(8),
        lease: None,
    };
    let policy = if is_loop {
        StreamFullPolicy::Loop
    } else {
        StreamFullPolicy::UntilFull
    };
    let area = Area::own().context("the library has made no area")?;
    let source = AreaSource::open(area, &request)?;
    let mut stream = ActiveStream::new(policy, bytes, monotonic_now);
    stream.add_source(Box::new(source));
    stream.start(Origin::NONE);
    let mut round = Round {
        random,
        children: Vec::new(),
        programs: 0,
    };
    let mut tally = Tally::default();
    round.run(&mut stream, &mut tally)?;
    wait_for_threads()?;
    let sent = counts.begun()..=counts.begun();
    // Nobody emits any more: what is there is all that will be.
    let begin = Instant::now();
    for _ in 0..2 {
        let called = monotonic_now();
        while stream.settle() < called {
            ensure!(
                begin.elapsed() < Duration::from_secs(60),
                "what was emitted does not all come"
            );
        }
        tally.read(&mut stream, begin + Duration::from_secs(1000))?;
    }
    // The START of a stream that overwrites its oldest events is an event like the others, which nobody sent.
    let is_start_lost = is_loop && !tally.has_seen_start;
    tally.lost = stream.ledger().lost_in_all() - u64::from(is_start_lost);
    let accounted = tally.seen + tally.lost;
    let programs = round.programs * OF_A_PROGRAM;
    ensure!(
        (counts.done() + programs..=*sent.end() + programs).contains(&accounted),
        "{} seen and {} lost ({:?}) are {accounted}, of {} to {} that were sent ({request:?})",
        tally.seen,
        tally.lost,
        LossCause::ALL.map(|cause| (cause.name(), stream.ledger().lost(cause))),
        counts.done() + programs,
        sent.end() + programs,
    );
    Ok((tally.seen, tally.lost))
}

/// Waits until no other thread is left: one whose work is done may still run a handler on its way out.
fn wait_for_threads() -> anyhow::Result<()> {
    let begin = Instant::now();
    while fs::read_dir("/proc/self/task")?.count() > 1 {
        ensure!(
            begin.elapsed() < Duration::from_secs(30),
            "a thread does not end"
        );
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

impl Round {
    fn run(&mut self, stream: &mut ActiveStream, tally: &mut Tally) -> anyhow::Result<()> {
        let is_over = &world().is_over;
        let threads = 1 + self.random.index(MOST_THREADS);
        let longest = if self.random.chance(20) { 5000 } else { 200 };
        let until = Instant::now() + Duration::from_millis(20 + self.random.next(longest));
        let reads = !self.random.chance(3);
        thread::scope(|scope| {
            for sender in 0..threads {
                let burst = 1 + self.random.next(5000);
                scope.spawn(move || {
                    while !is_over.load(Relaxed) {
                        // A thread that ends and one that begins, of the same sender.
                        thread::scope(|inner| {
                            inner.spawn(|| {
                                let more = |_: &u64| !is_over.load(Relaxed);
                                (0..burst).take_while(more).for_each(|_| emit(sender));
                            });
                        });
                    }
                });
            }
            let result = self.disturb(stream, tally, until, reads);
            is_over.store(true, SeqCst);
            result
        })?;
        self.end_children(Duration::ZERO)
    }

    fn disturb(
        &mut self,
        stream: &mut ActiveStream,
        tally: &mut Tally,
        until: Instant,
        reads: bool,
    ) -> anyhow::Result<()> {
        let mut sender = MOST_THREADS;
        while Instant::now() < until {
            match self.random.next(8) {
                0 if sender < HANDLERS => {
                    self.fork(sender)?;
                    sender += 1;
                }
                1 if self.random.chance(4) => self.exec()?,
                2 | 3 => self.interrupt_a_thread()?,
                4 => {
                    // To any thread of the process.
                    // SAFETY: takes no pointers.
                    unsafe { libc::kill(own_pid()?, libc::SIGUSR1) };
                }
                5 if reads => tally.read(stream, until)?,
                6 => self.end_children(Duration::from_millis(5))?,
                _ => thread::sleep(Duration::from_micros(self.random.next(2000))),
            }
        }
        Ok(())
    }

    /// Sends one of the process's threads a signal, whatever it does.
    fn interrupt_a_thread(&mut self) -> anyhow::Result<()> {
        let threads: Vec<_> = fs::read_dir("/proc/self/task")?.collect();
        if let Some(Ok(thread)) = threads.get(self.random.index(threads.len()))
            && let Some(Ok(tid)) = thread.file_name().to_str().map(str::parse::<libc::pid_t>)
        {
            // SAFETY: takes no pointers; a thread that has ended meanwhile is an error.
            unsafe { libc::syscall(libc::SYS_tgkill, own_pid()?, tid, libc::SIGUSR1) };
        }
        Ok(())
    }

    fn fork(&mut self, sender: usize) -> anyhow::Result<()> {
        // SAFETY: the child does only what is safe after a fork of a process with threads.
        match unsafe { libc::fork() } {
            0 => child(sender, &mut self.random),
            pid if pid > 0 => {
                self.children.push((pid, Instant::now()));
                Ok(())
            }
            _ => bail!("fork: {}", std::io::Error::last_os_error()),
        }
    }

    fn exec(&mut self) -> anyhow::Result<()> {
        let mut command = Command::new(env::current_exe()?);
        command.args(["--emit", &OF_A_PROGRAM.to_string()]);
        // So that the library knows of the child: a `posix_spawn()` does not inform it.
        // SAFETY: does nothing.
        unsafe { command.pre_exec(|| Ok(())) };
        let status = command.status()?;
        ensure!(status.success(), "a program ended with {status}");
        self.programs += 1;
        Ok(())
    }

    /// Kills children that are older, and those that have ended by themselves are waited for.
    fn end_children(&mut self, older: Duration) -> anyhow::Result<()> {
        for (pid, since) in std::mem::take(&mut self.children) {
            if since.elapsed() < older {
                self.children.push((pid, since));
                continue;
            }
            // SAFETY: takes no pointers; the child was not waited for yet.
            unsafe { libc::kill(pid, libc::SIGKILL) };
            let mut status = 0;
            // SAFETY: valid for writes.
            let waited = unsafe { libc::waitpid(pid, &raw mut status, 0) };
            ensure!(
                waited == pid,
                "waitpid: {}",
                std::io::Error::last_os_error()
            );
            let is_as_it_should = if libc::WIFSIGNALED(status) {
                libc::WTERMSIG(status) == libc::SIGKILL
            } else {
                libc::WEXITSTATUS(status) == 0
            };
            ensure!(is_as_it_should, "a child ended with status {status:#x}");
        }
        Ok(())
    }
}

fn own_pid() -> anyhow::Result<libc::pid_t> {
    Ok(libc::pid_t::try_from(std::process::id())?)
}

/// What a process holds that could grow.
#[derive(Clone, Copy, Debug)]
struct Held {
    shared_kib: u64,
    own_kib: u64,
    descriptors: usize,
    mappings: usize,
}

impl Held {
    fn now() -> anyhow::Result<Self> {
        // Free memory that the C library keeps between what is in use says nothing of a round.
        // SAFETY: takes an integer only.
        unsafe { libc::malloc_trim(0) };
        let status = fs::read_to_string("/proc/self/status")?;
        let kib = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let kib = line.and_then(|line| line.split_ascii_whitespace().next()?.parse().ok());
            kib.with_context(|| format!("no {name} in /proc/self/status"))
        };
        Ok(Self {
            shared_kib: kib("RssShmem:")?,
            own_kib: kib("RssAnon:")?,
            descriptors: fs::read_dir("/proc/self/fd")?.count(),
            mappings: fs::read_to_string("/proc/self/maps")?.lines().count(),
        })
    }

    /// Nothing that a round leaves behind.
    fn has_not_grown_since(self, before: Self) -> bool {
        self.shared_kib < before.shared_kib + 4096
            && self.own_kib < before.own_kib + (8 << 10)
            && self.descriptors <= before.descriptors + 2
            && self.mappings < before.mappings + 200
    }
}

/// Ends the process when a round takes far too long: that is a hang.
fn watch() {
    // SAFETY: takes no pointers. The signal ends the process.
    unsafe { libc::alarm(120) };
}

fn run(seconds: u64, seed: u64) -> anyhow::Result<()> {
    println!("seed {seed}");
    let end = Instant::now() + Duration::from_secs(seconds);
    let (mut rounds, mut seen, mut lost) = (0, 0, 0);
    let mut before = None;
    while Instant::now() < end {
        watch();
        let of_round =
            round(rounds, seed).with_context(|| format!("round {rounds} of seed {seed}"))?;
        rounds += 1;
        seen += of_round.0;
        lost += of_round.1;
        if rounds == 20 {
            before = Some(Held::now()?);
        }
    }
    println!("{rounds} rounds, {seen} seen + {lost} lost = sent");
    if let Some(before) = before {
        let now = Held::now()?;
        ensure!(
            now.has_not_grown_since(before),
            "grown from {before:?} to {now:?}"
        );
        println!("from {before:?} to {now:?}");
    }
    ensure!(seen > 0, "nothing was seen");
    Ok(())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let argument = |at: usize| arguments.get(at).and_then(|text| text.parse().ok());
    let event = match UserEvent::open("stress") {
        Ok(event) => event,
        Err(error) => {
            eprintln!("stress: {error}");
            return ExitCode::FAILURE;
        }
    };
    if arguments.first().is_some_and(|first| first == "--emit") {
        // Another sender each time: which is not known here, nor has it an order.
        let mut data = [0; 16];
        data[..8].copy_from_slice(&(HANDLERS as u64).to_ne_bytes());
        for _ in 0..argument(1).unwrap_or(0) {
            event.emit(&data);
        }
        return ExitCode::SUCCESS;
    }
    let counts = match Counts::new() {
        Ok(counts) => counts,
        Err(error) => {
            eprintln!("stress: {error:#}");
            return ExitCode::FAILURE;
        }
    };
    let is_over = AtomicBool::new(false);
    let _first = WORLD.set(World {
        event,
        counts,
        is_over,
    });
    let handler: extern "C" fn(libc::c_int) = emit_in_handler;
    // SAFETY: the handler does only what a handler may.
    unsafe { libc::signal(libc::SIGUSR1, handler as libc::sighandler_t) };
    let of_the_clock = || {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        now.map_or(1, |now| u64::from(now.subsec_nanos()))
    };
    let seed = argument(1).unwrap_or_else(of_the_clock);
    match run(argument(0).unwrap_or(5), seed) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("stress: {error:#}");
            ExitCode::FAILURE
        }
    }
}
