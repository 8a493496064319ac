//! What a `trace_id_t` stands for.
//!
//! An identifier is a place in the table and a generation that no other stream of this process
//! has: a stale one is recognised, and no value from the caller is ever used as an address. In a
//! forked child the parent's identifiers mean nothing: the child gets a table of its own, whose
//! generations begin behind the parent's, and the parent's is left alone there, with its locks in
//! whatever state the fork found them.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use super::kind::Kind;
use super::numbers::Invalid;
use super::sanitizer;
use super::types::TraceId;
use crate::area;
use crate::engine::Origin;
use crate::logged::{Activity, Asking};
use crate::stream::LoggedStatus;

/// How long a call that must not wait does so for another thread that uses the same stream.
const AT_ONCE: Duration = Duration::from_millis(1);
/// How often it looks meanwhile.
const AGAIN: libc::timespec = libc::timespec {
    tv_sec: 0,
    tv_nsec: 50_000,
};

/// A stream with what C programs need beside it.
pub(super) struct Stream {
    pub(super) kind: Kind,
    /// Where `posix_trace_eventtypelist_getnext_id()` is.
    pub(super) list_position: u32,
    /// The data of an event that is lent out and has no other place.
    pub(super) lent: Vec<u8>,
}

impl Stream {
    fn new(kind: Kind) -> Self {
        Self {
            kind,
            list_position: 0,
            lent: Vec::new(),
        }
    }
}

/// A stream in the table.
pub(super) struct Shared {
    stream: Mutex<Stream>,
    is_shut_down: AtomicBool,
    /// What the recorder is about, if there is one: to be known without the lock.
    activity: Option<Arc<Activity>>,
}

impl Shared {
    /// The stream, for one thread at a time. Nobody keeps it while waiting for events.
    pub(super) fn lock(&self) -> Result<Locked<'_, Stream>, Invalid> {
        let stream = Locked::wait(&self.stream);
        if self.is_shut_down.load(Acquire) {
            Err(Invalid)
        } else {
            Ok(stream)
        }
    }

    /// As [`lock`](Self::lock), for a call that must not wait: `None` where another thread keeps the stream for longer than a
    /// millisecond, as one does that waits for the recorder.
    pub(super) fn lock_at_once(&self) -> Result<Option<Locked<'_, Stream>>, Invalid> {
        if self.activity.is_none() {
            // Nobody waits for another process with it.
            return self.lock().map(Some);
        }
        let stream = Locked::wait_until(&self.stream, AT_ONCE);
        if self.is_shut_down.load(Acquire) {
            Err(Invalid)
        } else {
            Ok(stream)
        }
    }

    /// How stream and log are as the recorder told last, if there is one. It waits for nobody.
    pub(super) fn status_told(&self) -> Option<LoggedStatus> {
        self.activity.as_deref().map(Activity::status)
    }

    /// Tells others that a flush is asked for, until what is returned is dropped.
    pub(super) fn asking_for_flush(&self) -> Option<Asking<'_>> {
        self.activity.as_deref().map(Activity::asking)
    }

    /// The status while a flush that was asked for goes on. It waits for nobody.
    pub(super) fn status_of_flush(&self) -> Option<LoggedStatus> {
        let activity = self.activity.as_deref()?;
        let is_shut_down = self.is_shut_down.load(Acquire);
        activity.status_of_flush().filter(|_| !is_shut_down)
    }
}

/// What a lock protects, while it is held.
pub(super) struct Locked<'a, T> {
    guard: MutexGuard<'a, T>,
    lock: &'a Mutex<T>,
}

impl<'a, T> Locked<'a, T> {
    fn wait(lock: &'a Mutex<T>) -> Self {
        let guard = lock.lock().unwrap_or_else(PoisonError::into_inner);
        sanitizer::acquired(lock);
        Self { guard, lock }
    }

    /// As [`wait`](Self::wait), but not for longer than `time`.
    fn wait_until(lock: &'a Mutex<T>, time: Duration) -> Option<Self> {
        let end = Instant::now() + time;
        loop {
            let guard = match lock.try_lock() {
                Ok(guard) => guard,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(TryLockError::WouldBlock) if Instant::now() < end => {
                    pause();
                    continue;
                }
                Err(TryLockError::WouldBlock) => return None,
            };
            sanitizer::acquired(lock);
            return Some(Self { guard, lock });
        }
    }
}

/// Lets other threads run. (By a system call: in the C library's function a thread may be cancelled.)
fn pause() {
    let time = AGAIN;
    // SAFETY: a valid time; what is left of it is not asked for.
    unsafe {
        libc::syscall(
            libc::SYS_nanosleep,
            &raw const time,
            std::ptr::null_mut::<libc::timespec>(),
        )
    };
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

#[derive(Default)]
struct Place {
    generation: u32,
    stream: Option<Arc<Shared>>,
}

struct Table {
    pid: i32,
    places: Mutex<Vec<Place>>,
}

static TABLE: AtomicPtr<Table> = AtomicPtr::new(std::ptr::null_mut());

/// The generation of the stream that was entered last. Copied into a forked child.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// Bits of an identifier that name the place; the others are the generation.
const PLACE_BITS: u32 = 10;
/// Streams that one process can have at once.
const MAX_PLACES: usize = 1 << PLACE_BITS;

/// This process's table, if it ever made a stream.
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
    let new = Box::new(Table {
        pid: area::own_pid(),
        places: Mutex::default(),
    });
    let new = Box::into_raw(new);
    if !found.is_null() {
        GENERATION.fetch_add(distance_from_parent(), Relaxed);
    }
    if TABLE.compare_exchange(found, new, AcqRel, Relaxed).is_err() {
        // SAFETY: made above, and nobody else has seen it.
        drop(unsafe { Box::from_raw(new) });
    }
    table()
}

fn places(table: &Table) -> Locked<'_, Vec<Place>> {
    Locked::wait(&table.places)
}

/// Enters a stream; `None` when no identifiers are left.
pub(super) fn enter(kind: Kind) -> Option<TraceId> {
    let mut places = places(table_made()?);
    let index = match places.iter().position(|place| place.stream.is_none()) {
        Some(index) => index,
        None if places.len() < MAX_PLACES => {
            places.push(Place::default());
            places.len() - 1
        }
        None => return None,
    };
    let place = places.get_mut(index)?;
    place.generation = next_generation();
    place.stream = Some(Arc::new(Shared {
        activity: kind.activity(),
        stream: Mutex::new(Stream::new(kind)),
        is_shut_down: AtomicBool::new(false),
    }));
    Some(place.generation << PLACE_BITS | u32::try_from(index).ok()?)
}

/// The next generation. Never 0, so that no identifier is.
fn next_generation() -> u32 {
    loop {
        let next = GENERATION.fetch_add(1, Relaxed).wrapping_add(1);
        match next & (u32::MAX >> PLACE_BITS) {
            0 => {}
            generation => return generation,
        }
    }
}

/// How far a child's generations begin behind those of its parent, which makes streams as well after
/// the fork: another distance for each child, and at most half of all generations.
fn distance_from_parent() -> u32 {
    let spread = area::own_pid().unsigned_abs().wrapping_mul(0x9e37_79b9);
    1 + (spread >> (PLACE_BITS + 1))
}

/// The stream that an identifier stands for.
pub(super) fn find(untrusted: TraceId) -> Result<Arc<Shared>, Invalid> {
    let places = places(table().ok_or(Invalid)?);
    let index = usize::try_from(untrusted & (u32::MAX >> (32 - PLACE_BITS)));
    let place = index
        .ok()
        .and_then(|index| places.get(index))
        .ok_or(Invalid)?;
    let is_current = place.generation == untrusted >> PLACE_BITS;
    place
        .stream
        .as_ref()
        .filter(|_| is_current)
        .cloned()
        .ok_or(Invalid)
}

/// Takes a stream out of the table; who waits for its events is told.
pub(super) fn remove(untrusted: TraceId) -> Result<Arc<Shared>, Invalid> {
    let shared = find(untrusted)?;
    let mut places = places(table().ok_or(Invalid)?);
    let place = places.iter_mut().find(|place| {
        place
            .stream
            .as_ref()
            .is_some_and(|held| Arc::ptr_eq(held, &shared))
    });
    // Another thread may have been faster.
    place.ok_or(Invalid)?.stream = None;
    shared
        .is_shut_down
        .store(true, std::sync::atomic::Ordering::Release);
    Ok(shared)
}

/// Runs when the program ends or the library is unloaded: streams end with their process, and the
/// targets' trace points need not find that out by themselves.
extern "C" fn on_unload() {
    let Some(table) = table() else { return };
    // A thread that was killed in the middle of a call may hold the lock for ever.
    if let Ok(mut places) = table.places.try_lock() {
        for place in places.iter_mut() {
            if let Some(shared) = place.stream.take()
                && let Ok(mut stream) = shared.stream.try_lock()
            {
                // Its log is completed before the program is gone; nobody is there to hear of an error.
                let _ = stream.kind.shut_down(Origin::NONE);
            }
        }
    }
}

#[used]
#[unsafe(link_section = ".fini_array")]
static ON_UNLOAD: extern "C" fn() = on_unload;
