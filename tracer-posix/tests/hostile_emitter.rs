//! An area that another process writes nonsense into while a program emits and a controller reads:
//! neither is harmed, and neither is held up.
//!
//! The other processes are this test binary again, as in `other_processes.rs`.
//! `TRACER_HOSTILE_SECONDS` says for how long (1), `TRACER_SEED` from which random value on.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::mem::offset_of;
use std::os::fd::AsRawFd as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::{Duration, Instant};

use tracer_area::{Area, AreaSource, RingMode, StreamRequest};
use tracer_common::area::{
    AreaHeader, CHAINS_OFFSET, ChainEntry, ChunkHeader, DATA_OFFSET, ENTERING_OFFSET,
    FILTERS_OFFSET, MIN_CHUNK_BYTES, NAME_BUCKETS_OFFSET, NAMES_OFFSET, PROCESSES_OFFSET,
    STREAM_WINDOWS_OFFSET, STREAMS_OFFSET, StreamControl, WINDOW_BYTES, WINDOWS_OFFSET,
    chunk_state,
};
use tracer_engine::source::{Batch, Control, Source as _};
use tracer_engine::{EventSet, EventTypes};
use tracer_posix::emit::UserEvent;

const ROLE: &str = "TRACER_TEST_ROLE";
const SECONDS: &str = "TRACER_HOSTILE_SECONDS";
const SEED: &str = "TRACER_SEED";

/// Windows that the hostile process writes to.
const REACH: usize = DATA_OFFSET + 8 * WINDOW_BYTES;
/// Longest processor time of one event, in a library that was not optimized.
const MOST_OF_AN_EVENT: Duration = Duration::from_millis(200);
/// How much later than it should any process may end: others may have the processors. What one
/// event and one round take is measured by their own time.
const LIMIT: Duration = Duration::from_secs(30);
/// Memory that a hostile process may cost others.
const MOST_MEMORY_KIB: u64 = 200 * 1024;
const THREADS: u64 = 3;
/// Value of a word that no emission may write over.
const CANARY: u64 = 0x5ca1_ab1e_0ddb_a115;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).unwrap()
    }

    /// Returns a number of the kind that breaks arithmetic, or one that is nearly right.
    fn odd(&mut self) -> u64 {
        let random = self.next();
        match random % 9 {
            0 => 0,
            1 => u64::MAX,
            2 => random,
            3 => random % 300,
            4 => ((random % 300) << 32) | (random % 299),
            5 => random % u64::from(MIN_CHUNK_BYTES),
            6 => u64::from(MIN_CHUNK_BYTES) - random % 64,
            7 => u64::from(u32::MAX) - random % 4,
            _ => 1 << (random % 64),
        }
    }
}

fn from_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn time() -> Duration {
    Duration::from_secs(from_environment(SECONDS).unwrap_or(1))
}

fn player(role: &str, seed: u64) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "play", "--nocapture", "--test-threads=1"])
        .env(ROLE, role)
        .env(SEED, seed.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn play() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    match role.split_once(' ') {
        Some(("spoil", pid)) => spoil(pid.parse().unwrap()),
        Some(("spoil-chains", pid)) => spoil_chains(mapped(pid.parse().unwrap())),
        Some(("spoil-ended", pid)) => spoil_ended(mapped(pid.parse().unwrap())),
        _ => emit(),
    }
}

/// Says that it is ready, and waits until it is asked to begin.
fn wait_for_go() {
    println!("ready");
    std::io::stdout().flush().unwrap();
    std::io::stdin().read_exact(&mut [0]).unwrap();
}

fn go(player: &mut Child) {
    player.stdin.as_mut().unwrap().write_all(b"g").unwrap();
}

/// Returns the processor time of the calling thread.
fn own_time() -> Duration {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: valid for writes.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut now) };
    Duration::new(
        now.tv_sec.unsigned_abs(),
        u32::try_from(now.tv_nsec).unwrap(),
    )
}

/// Returns memory that windows come to lie beside.
fn canaries() -> Vec<&'static [AtomicU64]> {
    let words = WINDOW_BYTES / 8;
    let make = |_| {
        let words: Vec<AtomicU64> = (0..words).map(|_| AtomicU64::new(CANARY)).collect();
        &*words.leak()
    };
    (0..4).map(make).collect()
}

/// Plays the victim: threads that emit, threads that come and go, new names, and children.
fn emit() {
    let is_over = AtomicBool::new(false);
    let (longest, events) = (AtomicU64::new(0), AtomicU64::new(0));
    let event = UserEvent::open("victim").unwrap();
    let canaries = canaries();
    wait_for_go();
    let timed = |data: &[u8]| {
        let before = own_time();
        event.emit(data);
        let took = own_time().saturating_sub(before);
        longest.fetch_max(took.as_micros().try_into().unwrap(), Relaxed);
        events.fetch_add(1, Relaxed);
    };
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (timed, is_over) = (&timed, &is_over);
            scope.spawn(move || {
                let data = [u8::try_from(thread).unwrap(); 100];
                for length in (0..=data.len()).cycle() {
                    if is_over.load(Relaxed) {
                        break;
                    }
                    timed(&data[..length]);
                }
            });
        }
        let until = Instant::now() + time();
        while Instant::now() < until {
            std::thread::spawn(move || (0..100).for_each(|_| event.emit(b"short")))
                .join()
                .unwrap();
            child_that_emits(&event);
        }
        is_over.store(true, Relaxed);
    });
    let mut words = canaries.iter().flat_map(|words| words.iter());
    assert!(words.all(|word| word.load(Relaxed) == CANARY));
    let (longest, events) = (longest.load(Relaxed), events.load(Relaxed));
    println!("longest {longest} events {events}");
    std::io::stdout().flush().unwrap();
}

fn child_that_emits(event: &UserEvent) {
    // SAFETY: the child emits and ends: nothing of that needs a lock of another thread's.
    let child = unsafe { libc::fork() };
    if child == 0 {
        (0..100).for_each(|_| event.emit(b"child"));
        // SAFETY: ends the process.
        unsafe { libc::_exit(0) };
    }
    let mut status = 0;
    // SAFETY: valid for writes.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!((waited, status), (child, 0), "the child was harmed");
}

/// Returns the area of another process, as memory.
fn mapped(pid: i32) -> &'static [AtomicU64] {
    let area = Area::find(pid).unwrap().expect("it has an area");
    // SAFETY: asks for a new mapping at an address of the kernel's choice.
    let base = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            REACH,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            area.file().unwrap().as_raw_fd(),
            0,
        )
    };
    assert_ne!(base, libc::MAP_FAILED);
    // SAFETY: mapped as long as the process lives, page aligned, and only reached by atomics.
    unsafe { std::slice::from_raw_parts(base.cast(), REACH / 8) }
}

/// Plays the hostile process.
fn spoil(pid: i32) {
    let words = mapped(pid);
    let mut random = Random(from_environment(SEED).unwrap());
    // The words that let emissions go on at all, as they were at first.
    let header = 0..size_of::<AreaHeader>() / 8;
    let control = STREAMS_OFFSET / 8..(STREAMS_OFFSET + size_of::<StreamControl>()) / 8;
    let right: Vec<(usize, u64)> = header
        .chain(control)
        .map(|index| (index, words[index].load(Relaxed)))
        .collect();
    wait_for_go();
    let generation = &words[(STREAMS_OFFSET + offset_of!(StreamControl, generation)) / 8];
    // It is the upper half of its word.
    let generation = u32::try_from(generation.load(Relaxed) >> 32).unwrap();
    let parent = std::os::unix::process::parent_id();
    for round in 0_u64.. {
        if round.is_multiple_of(256) && std::os::unix::process::parent_id() != parent {
            return;
        }
        for _ in 0..64 {
            let (at, value) = nonsense(&mut random, generation);
            words[at].store(value, Relaxed);
        }
        if !round.is_multiple_of(4) {
            right
                .iter()
                .for_each(|(index, value)| words[*index].store(*value, Relaxed));
        }
    }
}

/// Continues until its parent has ended.
fn for_ever(mut once: impl FnMut()) {
    let parent = std::os::unix::process::parent_id();
    while std::os::unix::process::parent_id() == parent {
        (0..1000).for_each(|_| once());
    }
}

/// Plays the hostile process that takes all chains, and always takes back how many there are.
fn spoil_chains(words: &[AtomicU64]) {
    let chain_count = &words[offset_of!(AreaHeader, chain_count) / 8];
    let free = &words[(STREAMS_OFFSET + offset_of!(StreamControl, free_chains)) / 8];
    let chains =
        words[CHAINS_OFFSET / 8..DATA_OFFSET / 8].chunks_exact(size_of::<ChainEntry>() / 8);
    wait_for_go();
    // Of a generation that no stream has.
    chains.for_each(|chain| chain[0].store(0xffff, Relaxed));
    for_ever(|| {
        chain_count.store(0, Relaxed);
        free.store(0, Relaxed);
    });
}

/// Plays the hostile process that makes full chunks of ended threads out of others, in a list
/// without an end.
fn spoil_ended(words: &[AtomicU64]) {
    let control = STREAMS_OFFSET / 8;
    let generation = &words[control + offset_of!(StreamControl, generation) / 8];
    let generation = u32::try_from(generation.load(Relaxed) >> 32).unwrap();
    let ended = &words[control + offset_of!(StreamControl, ended) / 8];
    let state = chunk_state::word(generation, 1, chunk_state::ENDED);
    let full = u64::from(MIN_CHUNK_BYTES) - 16;
    wait_for_go();
    for_ever(|| {
        for index in 0..4 {
            // The first chunk's memory is taken by the headers.
            let header = DATA_OFFSET / 8 + (index + 1) * size_of::<ChunkHeader>() / 8;
            let chunk = DATA_OFFSET / 8 + (index + 1) * MIN_CHUNK_BYTES as usize / 8;
            words[chunk].store(full, Relaxed);
            words[header + offset_of!(ChunkHeader, next) / 8]
                .store(1 + (index as u64 + 1) % 4, Relaxed);
            words[header].store(state, Relaxed);
        }
        ended.store(1, Relaxed);
    });
}

/// Returns the index of a word, and what is written there.
fn nonsense(random: &mut Random, generation: u32) -> (usize, u64) {
    let fixed = [
        (0, size_of::<AreaHeader>()),
        (STREAMS_OFFSET, size_of::<StreamControl>()),
        (STREAMS_OFFSET, PROCESSES_OFFSET - STREAMS_OFFSET),
        (FILTERS_OFFSET, 8192),
        (NAME_BUCKETS_OFFSET, NAMES_OFFSET - NAME_BUCKETS_OFFSET),
        (NAMES_OFFSET, 8192),
        (PROCESSES_OFFSET, WINDOWS_OFFSET - PROCESSES_OFFSET),
        (WINDOWS_OFFSET, 128),
        (STREAM_WINDOWS_OFFSET, 128),
        (ENTERING_OFFSET, 8192),
        (CHAINS_OFFSET, 8192),
        (CHAINS_OFFSET, DATA_OFFSET - CHAINS_OFFSET),
    ];
    let window = DATA_OFFSET + random.below(8) * WINDOW_BYTES;
    let chunk = random.below(WINDOW_BYTES / MIN_CHUNK_BYTES as usize);
    let start = window + chunk * MIN_CHUNK_BYTES as usize;
    let choice = random.below(fixed.len() + 8);
    let (at, value) = match fixed.get(choice) {
        Some((offset, bytes)) => (offset + random.below(*bytes), random.odd()),
        // A chunk's header, and its state in particular.
        None if choice < fixed.len() + 3 => (window + chunk * 64 + random.below(64), random.odd()),
        None if choice < fixed.len() + 5 => {
            let states = [
                chunk_state::OPEN,
                chunk_state::ENDED,
                chunk_state::CLOSED,
                chunk_state::UNUSED,
            ];
            let state = states[random.below(4)];
            let turn = u32::try_from(random.below(3)).unwrap();
            let word = chunk_state::word(generation, turn, state);
            (window + chunk * 64, word)
        }
        // Where its records end, and all else that it begins with.
        None if choice < fixed.len() + 7 => (start + random.below(24), random.odd()),
        None => (start + random.below(MIN_CHUNK_BYTES as usize), random.odd()),
    };
    (at / 8, value)
}

fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let size = line.unwrap().trim().trim_end_matches(" kB");
    size.parse().unwrap()
}

fn wait_for_ready(child: &mut Child) -> BufReader<std::process::ChildStdout> {
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("ready") {
        line.clear();
        assert_ne!(output.read_line(&mut line).unwrap(), 0, "a player ended");
    }
    output
}

#[test]
fn whatever_others_write_into_the_area_a_program_emits_and_its_controller_reads() {
    for mode in [RingMode::OverwriteOldest, RingMode::KeepOldest] {
        attack(mode, "spoil");
    }
}

#[test]
fn a_count_that_always_goes_back_holds_no_thread_up() {
    attack(RingMode::OverwriteOldest, "spoil-chains");
}

#[test]
fn a_list_without_an_end_holds_no_thread_up() {
    attack(RingMode::OverwriteOldest, "spoil-ended");
}

fn attack(mode: RingMode, how: &str) {
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
    let seed = from_environment(SEED).unwrap_or(u64::from(now.subsec_nanos()) | 1);
    println!("{SEED}={seed}");
    let before_kib = peak_kib();
    let mut victim = player("emit", seed);
    let mut said = wait_for_ready(&mut victim);
    let pid = i32::try_from(victim.id()).unwrap();
    let area = Area::find(pid).unwrap().expect("it has an area");
    let request = StreamRequest {
        target: None,
        inherit: true,
        is_only_source: false,
        bytes: 1 << 20,
        mode,
        max_data: 64,
        lease: None,
    };
    let mut source = AreaSource::open(area, &request).unwrap();
    source.control(&Control {
        running: true,
        filter: EventSet::EMPTY,
    });
    let mut hostile = player(&format!("{how} {pid}"), seed);
    let _hostile_said = wait_for_ready(&mut hostile);

    let begin = Instant::now();
    go(&mut victim);
    let (mut seen, mut last, mut is_spoilt) = (0, None, false);
    let (mut types, mut longest_round) = (EventTypes::default(), Duration::ZERO);
    let ended = loop {
        // What is spoilt for good may be so at once: then nothing more is read.
        if seen > 0 && !is_spoilt {
            go(&mut hostile);
            is_spoilt = true;
        }
        if let Some(status) = victim.try_wait().unwrap() {
            break status;
        }
        assert!(begin.elapsed() < time() + LIMIT, "held up");
        let (mut events, mut data, mut losses) = (Vec::new(), Vec::new(), Vec::new());
        let batch = &mut Batch::new(&mut types, &mut events, &mut data, &mut losses);
        let began = own_time();
        let watermark = source.collect(batch);
        longest_round = longest_round.max(own_time().saturating_sub(began));
        assert!(last <= Some(watermark), "the watermark went back");
        last = Some(watermark);
        seen += events.len();
    };
    hostile.kill().unwrap();
    hostile.wait().unwrap();
    drop(source);
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    println!("{rest}; {seen} events read, longest round {longest_round:?}");
    assert_eq!(ended.signal(), None, "the victim was harmed");
    assert!(ended.success(), "{ended}: {rest}");
    let line = rest.lines().find(|line| line.starts_with("longest"));
    let words: Vec<u64> = line
        .unwrap()
        .split(' ')
        .filter_map(|word| word.parse().ok())
        .collect();
    let [longest, events] = words[..] else {
        panic!("{rest}");
    };
    // A busy machine leaves it little time.
    assert!(events > 100, "the victim was held up: {rest}");
    assert!(Duration::from_micros(longest) < MOST_OF_AN_EVENT, "{rest}");
    assert!(is_spoilt, "nothing was read before it was spoilt");
    assert!(longest_round < Duration::from_secs(1), "{longest_round:?}");
    let grown = peak_kib().saturating_sub(before_kib);
    assert!(grown < MOST_MEMORY_KIB, "{grown} KiB");
}
