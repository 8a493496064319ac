//! Random stress of the trace area: threads that emit and end, handlers that emit within emissions,
//! children that are killed amid them, programs that are exec'ed, limits, a reader that reads now
//! and then. `stress SECONDS [SEED]`.
//!
//! Each round has a stream of its own. What was sent is counted outside of the trace area, before
//! and after each emission, in memory that killed children leave behind. At the end of a round all
//! that was sent has to have been seen, or counted as lost, in order, with its data; and at the end
//! of all rounds no memory, descriptor or thread is left.

mod contiguous;
mod law;
mod round;
mod world;

use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant, SystemTime};
use std::{env, fs};

use anyhow::{Context as _, ensure};
use tracer_posix::emit::UserEvent;

use crate::round::round;
use crate::world::{Counts, HANDLERS, WORLD, World, emit_in_handler};

/// Resources that a process holds, which must not grow from round to round.
#[derive(Clone, Copy, Debug)]
pub struct Held {
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

    /// Tells whether no round has left anything behind since `before`.
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
    let (file, shared) = contiguous::shared()?;
    let mut contiguous = 0;
    while Instant::now() < end {
        watch();
        let of_round =
            round(rounds, seed).with_context(|| format!("round {rounds} of seed {seed}"))?;
        contiguous += contiguous::round((&file, shared), rounds, seed)
            .with_context(|| format!("contiguous round {rounds} of seed {seed}"))?;
        rounds += 1;
        seen += of_round.0;
        lost += of_round.1;
        if rounds == 20 {
            before = Some(Held::now()?);
        }
    }
    println!("{rounds} rounds, {seen} seen + {lost} lost = sent");
    println!("{contiguous} of other rounds are contiguous");
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
    if arguments
        .first()
        .is_some_and(|first| first == contiguous::READ)
    {
        return match contiguous::be_the_reader(&arguments[1..]) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("stress: the reader: {error:#}");
                ExitCode::FAILURE
            }
        };
    }
    if arguments.first().is_some_and(|first| first == "--emit") {
        // Each run is another sender, whose number is not known here; its events have no order.
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
