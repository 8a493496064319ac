//! Events that a trace point has to refuse before it has a ring for them are counted, by cause and once.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::ffi::{c_int, c_void};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::{fs, thread};

use tracer_common::area::NESTING_LEVELS;
use tracer_posix::area::{Area, AreaSource, RingMode, StreamRequest};
use tracer_posix::emit::UserEvent;
use tracer_posix::engine::{EventSet, EventTypes};
use tracer_posix::source::{Batch, Control, LossCause, Source};

/// A stream sees what all threads of the process emit: one test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A running stream on this process.
fn source() -> AreaSource {
    let request = StreamRequest {
        target: None,
        inherit: false,
        is_only_source: true,
        ring_bytes: 64 << 10,
        mode: RingMode::KeepOldest,
        max_data: 1024,
        lease: None,
    };
    let mut source = AreaSource::open(Area::own().unwrap(), &request).unwrap();
    source.control(&Control {
        running: true,
        filter: EventSet::EMPTY,
    });
    source
}

/// How many events came, and what was lost by cause.
fn collected(source: &mut AreaSource) -> (usize, Vec<(LossCause, u64)>) {
    let (mut pending, mut data, mut losses) = (Vec::new(), Vec::new(), Vec::new());
    let mut types = EventTypes::default();
    source.collect(&mut Batch::new(
        &mut types,
        &mut pending,
        &mut data,
        &mut losses,
    ));
    let losses = losses.iter().filter(|loss| loss.count > 0);
    let losses = losses.map(|loss| (loss.cause, loss.count)).collect();
    (pending.len(), losses)
}

unsafe extern "C" {
    fn posix_trace_event(event: u32, data: *const c_void, length: usize);
}

/// What the handler emits, and from where.
static EVENT: AtomicU32 = AtomicU32::new(0);
static PAGES: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());
static DEPTH: AtomicUsize = AtomicUsize::new(0);

const PAGE: usize = 4096;
const DATA: usize = 256;

/// Emits what cannot be read until a handler makes it so: the handler runs within this emission.
fn emit_page(index: usize) {
    let page = PAGES.load(SeqCst).wrapping_add(index * PAGE);
    // SAFETY: so many bytes are mapped, and can be read when the fault was handled.
    unsafe { posix_trace_event(EVENT.load(SeqCst), page.cast(), DATA) };
}

/// Emits from the next page, within the emission that it interrupts, and then makes that one's page readable.
extern "C" fn emit_within(_signal: c_int) {
    let depth = DEPTH.fetch_add(1, SeqCst);
    if depth >= NESTING_LEVELS {
        // Any other fault than those that the test makes.
        std::process::abort();
    }
    emit_page(depth + 1);
    let page = PAGES.load(SeqCst).wrapping_add(depth * PAGE);
    // SAFETY: a page of the test's.
    unsafe { libc::mprotect(page.cast(), PAGE, libc::PROT_READ) };
}

#[test]
fn an_event_that_interrupts_too_many_others_is_counted() {
    let _alone = alone();
    let event = UserEvent::open("nested").unwrap();
    // The page after the last is not read: the level that would is the one too many.
    let bytes = (NESTING_LEVELS + 1) * PAGE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: asks for a new mapping at an address of the kernel's choice.
    let pages = unsafe { libc::mmap(ptr::null_mut(), bytes, libc::PROT_NONE, flags, -1, 0) };
    assert_ne!(pages, libc::MAP_FAILED);
    PAGES.store(pages.cast(), SeqCst);
    EVENT.store(event.id().0, SeqCst);
    let handler: extern "C" fn(c_int) = emit_within;
    // SAFETY: plain numbers, for which zeros are valid.
    let (mut action, mut before): (libc::sigaction, libc::sigaction) =
        unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as libc::sighandler_t;
    action.sa_flags = libc::SA_NODEFER;
    let mut source = source();

    // SAFETY: valid places, and a handler that only makes calls that a handler may make.
    unsafe { libc::sigaction(libc::SIGSEGV, &raw const action, &raw mut before) };
    emit_page(0);
    // SAFETY: what was there before.
    unsafe { libc::sigaction(libc::SIGSEGV, &raw const before, ptr::null_mut()) };

    assert_eq!(DEPTH.load(SeqCst), NESTING_LEVELS);
    let lost = vec![(LossCause::NestedTooDeeply, 1)];
    assert_eq!(collected(&mut source), (NESTING_LEVELS, lost));
    assert_eq!(collected(&mut source), (0, vec![]));
}

/// The library's own descriptor of the area: it has the highest number of those there are.
fn area_number() -> RawFd {
    let entries = fs::read_dir("/proc/self/fd").unwrap();
    let numbers = entries.filter_map(|entry| {
        let path = entry.unwrap().path();
        let is_area = fs::read_link(&path).is_ok_and(|link| {
            link.to_string_lossy()
                .starts_with("/memfd:posix_trace_area")
        });
        is_area.then(|| path.file_name()?.to_str()?.parse().ok())?
    });
    numbers.max().unwrap()
}

#[test]
fn events_of_a_thread_that_can_have_no_ring_are_counted() {
    let _alone = alone();
    let event = UserEvent::open("no ring").unwrap();
    let mut source = source();
    let area = area_number();
    // SAFETY: takes no pointers.
    let kept = unsafe { libc::dup(area) };
    assert!(kept >= 0);
    // SAFETY: just opened, and nobody else's.
    let kept = unsafe { OwnedFd::from_raw_fd(kept) };

    // The program closes what it does not know. A thread that comes then cannot map its ring.
    // SAFETY: takes no pointers; the library finds out.
    unsafe { libc::close(area) };
    let emit = || (0..7).for_each(|_| event.emit(b"refused"));
    thread::scope(|scope| scope.spawn(emit).join()).unwrap();
    // SAFETY: takes no pointers; nobody else has opened anything meanwhile.
    unsafe { libc::dup2(kept.as_raw_fd(), area) };

    let lost = vec![(LossCause::NoThreadRing, 7)];
    assert_eq!(collected(&mut source), (0, lost));
    assert_eq!(collected(&mut source), (0, vec![]));
    thread::scope(|scope| scope.spawn(emit).join()).unwrap();
    assert_eq!(collected(&mut source), (7, vec![]));
}
