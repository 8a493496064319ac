//! The streams that `trace_id_t` values name.
//!
//! An identifier is an index into the table and a generation that no other stream of this process
//! has: a stale one is recognised, and no value from the caller is ever used as an address. In a
//! forked child the parent's identifiers mean nothing. The child gets a table of its own, whose
//! generations begin behind the parent's. It leaves the parent's table alone, whose locks are in
//! whatever state the fork found them.
//!
//! A real-time thread that waits for a stream lends its priority to the thread that has it
//! ([`PiLock`]). Locks are taken in this order: `entering`, `stream`, and then `activity` or
//! `filter`, which are held only while they are read or set.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicPtr, AtomicU32};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::codes::Invalid;
use super::kind::Kind;
use super::memory::Memory;
use super::reason;
use super::sanitizer;
use super::types::TraceId;
use tracer_area as area;
use tracer_area::lock::{PiGuard, PiLock};
use tracer_engine::{EventSet, Origin};
use tracer_posix::logged::Activity;
use tracer_posix::stream::LoggedStatus;

/// How long a call that must not wait still waits for another thread that uses the same stream.
/// Together with its wait for the recorder this is less than a millisecond.
const AT_ONCE: Duration = Duration::from_micros(400);

/// A stream with what C programs need beside it.
pub(super) struct Stream {
    pub(super) kind: Kind,
    /// Where `posix_trace_eventtypelist_getnext_id()` is.
    pub(super) list_position: u32,
    /// The data of an event that is lent out and is stored nowhere else.
    pub(super) lent: Vec<u8>,
    /// Dropped last.
    memory: Memory,
}

impl Stream {
    fn new(kind: Kind, memory: Memory) -> Self {
        Self {
            kind,
            list_position: 0,
            lent: Vec::new(),
            memory,
        }
    }

    /// Prepares memory before a call collects. If there is too little, the call collects nothing.
    /// Returns whether there is enough.
    pub(super) fn prepare(&mut self) -> bool {
        let is_enough = self.memory.suffice_for(&self.kind).is_ok();
        self.kind.set_poor(!is_enough);
        is_enough
    }
}

/// An entry of the table. It is made when it is first needed, and stays for good.
#[derive(Default)]
struct Entry {
    /// Generation of the stream that is here; 0 for none. Changed under the lock.
    generation: AtomicU32,
    stream: PiLock<Option<Stream>>,
    /// Status that the stream's recorder shares, if there is one. Read without the lock of
    /// `stream`.
    activity: PiLock<Option<Arc<Activity>>>,
    /// The filter of an active stream. Read in the same way.
    filter: PiLock<Option<EventSet>>,
}

/// The stream that an identifier named a moment ago.
pub(super) struct Found {
    entry: &'static Entry,
    generation: u32,
}

/// A stream, for one thread at a time.
pub(super) struct Held {
    stream: Locked<'static, Option<Stream>>,
    entry: &'static Entry,
}

impl Found {
    /// Waits for the stream. No thread holds it while waiting for events.
    #[inline]
    pub(super) fn lock(&self) -> Result<Held, Invalid> {
        let entry = self.entry;
        let stream = Locked::wait(&entry.stream);
        if self.is_there() {
            Ok(Held { stream, entry })
        } else {
            Err(Invalid)
        }
    }

    /// Waits for the stream, in a call that must not wait for another process. Returns `None` if
    /// another thread holds the stream for longer than a moment, as a thread does that waits for
    /// the recorder.
    #[inline]
    pub(super) fn lock_at_once(&self) -> Result<Option<Held>, Invalid> {
        let entry = self.entry;
        let stream = match Locked::try_now(&entry.stream) {
            Some(stream) => Some(stream),
            None if self.activity().is_some() => Locked::wait_until(&entry.stream, AT_ONCE),
            None => Some(Locked::wait(&entry.stream)),
        };
        if self.is_there() {
            Ok(stream.map(|stream| Held { stream, entry }))
        } else {
            Err(Invalid)
        }
    }

    #[inline]
    fn is_there(&self) -> bool {
        self.entry.generation.load(Acquire) == self.generation
    }

    /// Returns the status that the stream's recorder shares, if it has one.
    pub(super) fn activity(&self) -> Option<Arc<Activity>> {
        let activity = Locked::wait(&self.entry.activity).clone();
        activity.filter(|_| self.is_there())
    }

    /// Returns the filter in force, of an active stream, without waiting.
    pub(super) fn filter(&self) -> Result<EventSet, Invalid> {
        let filter = *Locked::wait(&self.entry.filter);
        filter.filter(|_| self.is_there()).ok_or(Invalid)
    }

    /// Returns the status while a flush that was asked for goes on, without waiting.
    pub(super) fn status_of_flush(&self) -> Option<LoggedStatus> {
        self.activity()?.status_of_flush()
    }
}

impl Held {
    /// Returns the stream.
    #[inline]
    pub(super) fn stream(&mut self) -> Result<&mut Stream, Invalid> {
        self.stream.as_mut().ok_or(Invalid)
    }

    /// Publishes the filter that is in force now to all threads.
    pub(super) fn show_filter(&mut self) -> Result<(), Invalid> {
        let filter = self.stream()?.kind.filter();
        *Locked::wait(&self.entry.filter) = filter;
        Ok(())
    }

    /// Takes the stream out of the table. A thread that waits for its events notices that.
    pub(super) fn remove(mut self) -> Result<Stream, Invalid> {
        self.entry.generation.store(0, Release);
        *Locked::wait(&self.entry.activity) = None;
        self.stream.take().ok_or(Invalid)
    }
}

/// The value that a lock protects, while the lock is held.
pub(super) struct Locked<'a, T> {
    guard: PiGuard<'a, T>,
    lock: &'a PiLock<T>,
}

impl<'a, T> Locked<'a, T> {
    fn wait(lock: &'a PiLock<T>) -> Self {
        Self::from_guard(lock, lock.lock())
    }

    /// Takes the lock if it is free now.
    #[inline]
    fn try_now(lock: &'a PiLock<T>) -> Option<Self> {
        Some(Self::from_guard(lock, lock.try_lock()?))
    }

    /// Waits for the lock, but not for longer than `time`.
    fn wait_until(lock: &'a PiLock<T>, time: Duration) -> Option<Self> {
        Some(Self::from_guard(lock, lock.lock_within(time)?))
    }

    #[inline]
    fn from_guard(lock: &'a PiLock<T>, guard: PiGuard<'a, T>) -> Self {
        sanitizer::acquired(lock);
        Self { guard, lock }
    }
}

impl<T> Deref for Locked<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> DerefMut for Locked<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

impl<T> Drop for Locked<'_, T> {
    fn drop(&mut self) {
        sanitizer::releasing(self.lock);
    }
}

struct Table {
    pid: i32,
    entries: Box<[OnceLock<Box<Entry>>]>,
    /// Held by a thread that enters a stream.
    entering: PiLock<()>,
}

static TABLE: AtomicPtr<Table> = AtomicPtr::new(std::ptr::null_mut());

/// The generation of the stream that was entered last. Copied into a forked child.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// Bits of an identifier that are the index; the others are the generation.
const INDEX_BITS: u32 = 10;
/// Streams that one process can have at once.
const MAX_STREAMS: usize = 1 << INDEX_BITS;

/// Returns this process's table, if it ever made a stream.
fn table() -> Option<&'static Table> {
    // SAFETY: tables are made by `table_made` and never freed.
    let table = unsafe { TABLE.load(Acquire).as_ref() }?;
    (table.pid == area::own_pid()).then_some(table)
}

fn table_made() -> Option<&'static Table> {
    let found = TABLE.load(Acquire);
    if let Some(table) = table() {
        return Some(table);
    }
    sanitizer::look();
    reason::hold_panics_back();
    let new = Box::new(Table {
        pid: area::own_pid(),
        entries: (0..MAX_STREAMS).map(|_| OnceLock::new()).collect(),
        entering: PiLock::default(),
    });
    let new = Box::into_raw(new);
    if !found.is_null() {
        GENERATION.fetch_add(distance_from_parent(), Relaxed);
    }
    if TABLE.compare_exchange(found, new, AcqRel, Relaxed).is_err() {
        // SAFETY: made above, and no other thread has seen it.
        drop(unsafe { Box::from_raw(new) });
    }
    table()
}

/// Enters a stream; `None` when no identifiers are left.
pub(super) fn enter(kind: Kind, memory: Memory) -> Option<TraceId> {
    let table = table_made()?;
    let _entering = Locked::wait(&table.entering);
    let entries = table
        .entries
        .iter()
        .map(|entry| entry.get_or_init(Box::default));
    let (index, entry) = entries.zip(0..).find_map(|(entry, index)| {
        let is_free = entry.generation.load(Acquire) == 0;
        is_free.then_some((index, entry))
    })?;
    // A thread that found the stream that was here before may hold the lock, and is about to see
    // that the stream is gone.
    let mut stream = Locked::wait(&entry.stream);
    let generation = next_generation();
    *Locked::wait(&entry.activity) = kind.activity();
    *Locked::wait(&entry.filter) = kind.filter();
    *stream = Some(Stream::new(kind, memory));
    entry.generation.store(generation, Release);
    Some(generation << INDEX_BITS | index)
}

/// Returns the next generation. It is never 0, so that no identifier is 0.
fn next_generation() -> u32 {
    loop {
        let next = GENERATION.fetch_add(1, Relaxed).wrapping_add(1);
        match next & (u32::MAX >> INDEX_BITS) {
            0 => {}
            generation => return generation,
        }
    }
}

/// Returns how far a child's generations begin behind those of its parent, which also makes streams
/// after the fork. The distance is another one for each child, and at most half of all generations.
fn distance_from_parent() -> u32 {
    let spread = area::own_pid().unsigned_abs().wrapping_mul(0x9e37_79b9);
    1 + (spread >> (INDEX_BITS + 1))
}

/// Returns the stream that an identifier names.
#[inline]
pub(super) fn find(untrusted: TraceId) -> Result<Found, Invalid> {
    let table = table().ok_or(Invalid)?;
    let index = usize::try_from(untrusted & (u32::MAX >> (32 - INDEX_BITS)));
    let entry = index.ok().and_then(|index| table.entries.get(index));
    let entry = entry.and_then(OnceLock::get).ok_or(Invalid)?;
    let generation = untrusted >> INDEX_BITS;
    let found = Found { entry, generation };
    if generation != 0 && found.is_there() {
        Ok(found)
    } else {
        Err(Invalid)
    }
}

/// Runs when the program ends or the library is unloaded. It ends all streams, so that the targets'
/// trace points need not find out that their controller is gone.
extern "C" fn on_unload() {
    let Some(table) = table() else { return };
    for entry in table.entries.iter().filter_map(OnceLock::get) {
        // A thread that was killed in the middle of a call may hold the lock for ever.
        if let Some(mut held) = entry.stream.try_lock()
            && let Some(stream) = held.take()
        {
            entry.generation.store(0, Release);
            // Its log is completed before the program is gone; there is no caller to return an
            // error to.
            let _ = stream.kind.shut_down(Origin::NONE);
        }
    }
}

#[used]
#[unsafe(link_section = ".fini_array")]
static ON_UNLOAD: extern "C" fn() = on_unload;
