//! One round: a stream, those who emit, and what disturbs them.

use std::collections::HashMap;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use anyhow::{Context as _, bail, ensure};
use tracer_area::{Area, AreaSource, RingMode, StreamRequest, monotonic_now};
use tracer_engine::source::LossCause;
use tracer_engine::{ActiveStream, Origin, StreamFullPolicy};
use tracer_posix::EventTypeId;

use crate::world::{HANDLERS, Random, World, emit, filling_of, world};

const MOST_THREADS: usize = 16;
/// Events of a program that is exec'ed.
const OF_A_PROGRAM: u64 = 500;

struct Round {
    random: Random,
    children: Vec<(libc::pid_t, Instant)>,
    programs: u64,
}

/// Ends when all have ended.
pub fn round(index: u64, seed: u64) -> anyhow::Result<(u64, u64)> {
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
    // No thread emits any more: all events are there.
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
    // The START of a stream that overwrites its oldest events is an event like the others, but no
    // sender has sent it.
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

/// Waits until no other thread is left: one whose work is done may still run a handler on its way
/// out.
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

    /// Sends a signal to one of the process's threads, in the middle of its work.
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

fn own_pid() -> anyhow::Result<libc::pid_t> {
    Ok(libc::pid_t::try_from(std::process::id())?)
}

/// Outcome of a round: its events that were read or lost, in order.
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
