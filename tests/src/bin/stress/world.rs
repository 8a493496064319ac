//! State that all processes of a round share, and the events that each emits.

use std::sync::OnceLock;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU64};

use anyhow::ensure;
use tracer_posix::emit::UserEvent;

/// Senders of one round: threads, handlers, children.
const SENDERS: usize = 64;
/// The one sender of all handlers: they interrupt each other.
pub const HANDLERS: usize = SENDERS - 1;

/// Emissions of each sender: begun, and done. In memory that all processes of a round share.
pub struct Counts {
    senders: &'static [[AtomicU64; 2]],
}

impl Counts {
    pub fn new() -> anyhow::Result<Self> {
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

    pub fn clear(&self) {
        for count in self.senders.iter().flatten() {
            count.store(0, SeqCst);
        }
    }

    pub fn begun(&self) -> u64 {
        self.senders
            .iter()
            .map(|[begun, _]| begun.load(SeqCst))
            .sum()
    }

    pub fn done(&self) -> u64 {
        self.senders.iter().map(|[_, done]| done.load(SeqCst)).sum()
    }
}

/// State that all threads of the process need, signal handlers included.
pub struct World {
    pub event: UserEvent,
    pub counts: Counts,
    pub is_over: AtomicBool,
}

pub static WORLD: OnceLock<World> = OnceLock::new();

pub fn world() -> &'static World {
    match WORLD.get() {
        Some(world) => world,
        None => std::process::abort(),
    }
}

/// Emits one event of a sender: the sender's index, the sequence number, and as much filling as
/// that says.
pub fn emit(sender: usize) {
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

pub fn filling_of(sequence: u64) -> usize {
    usize::try_from(sequence * 7 % 65).unwrap_or(0)
}

pub extern "C" fn emit_in_handler(_signal: libc::c_int) {
    emit(HANDLERS);
}

/// Choices of a round, which its seed repeats: pseudorandom values (xorshift).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % below.max(1)
    }

    pub fn index(&mut self, below: usize) -> usize {
        usize::try_from(self.next(below as u64)).unwrap_or(0)
    }

    pub fn chance(&mut self, of: u64) -> bool {
        self.next(of) == 0
    }
}
