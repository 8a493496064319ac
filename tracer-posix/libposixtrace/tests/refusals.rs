//! Trace points under bad conditions: within each other, without descriptors, without memory. What
//! they refuse is counted, by cause and once.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::process::Command;
use std::ptr;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use posixtrace::emit::posix_trace_event;
use tracer_area::{Area, AreaSource, RingMode, StreamRequest, monotonic_now};
use tracer_engine::event::MonotonicNs;
use tracer_engine::source::{Batch, Control, LossCause, Source, Unread};
use tracer_engine::{EventSet, EventTypes};
use tracer_posix::emit::UserEvent;

/// Waits for the turn of a test: a stream sees what all threads of the process emit.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns a running stream on this process, which keeps its oldest events.
fn source() -> AreaSource {
    source_of(RingMode::KeepOldest)
}

fn source_of(mode: RingMode) -> AreaSource {
    let request = StreamRequest {
        target: None,
        inherit: false,
        is_only_source: true,
        bytes: 64 << 10,
        mode,
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

/// Returns how many events came, and what was lost by cause.
fn collected(source: &mut AreaSource) -> (usize, Vec<(LossCause, u64)>) {
    let (mut pending, mut data, mut losses) = (Vec::new(), Vec::new(), Vec::new());
    let mut types = EventTypes::default();
    let mut is_all = false;
    while !is_all {
        source.collect(&mut Batch::new(
            &mut types,
            &mut pending,
            &mut data,
            &mut losses,
        ));
        is_all = !source.has_more();
    }
    let losses = losses.iter().filter(|loss| loss.count > 0);
    let losses = losses.map(|loss| (loss.cause, loss.count)).collect();
    (pending.len(), losses)
}

/// Returns the losses that the source counts when its stream ends, at `until`, by cause.
fn unread(source: &mut AreaSource, until: MonotonicNs) -> (Unread, Vec<(LossCause, u64)>) {
    let (mut pending, mut data, mut losses) = (Vec::new(), Vec::new(), Vec::new());
    let mut types = EventTypes::default();
    let mut batch = Batch::new(&mut types, &mut pending, &mut data, &mut losses);
    let end = Instant::now() + Duration::from_secs(60);
    let unread = source.count_unread(until, end, &mut batch);
    assert!(pending.is_empty());
    let mut by_cause = BTreeMap::new();
    for loss in losses.iter().filter(|loss| loss.count > 0) {
        *by_cause.entry(loss.cause).or_default() += loss.count;
    }
    (unread, by_cause.into_iter().collect())
}

#[test]
fn what_is_not_read_when_the_stream_ends_is_counted_by_cause() {
    const EVENTS: u64 = 3000;
    let _alone = alone();
    let event = UserEvent::open("unread").unwrap();
    let emit = || (0..EVENTS).for_each(|_| event.emit(&[7; 64]));
    for (mode, cause) in [
        (RingMode::KeepOldest, None),
        (
            RingMode::OverwriteOldest,
            Some(LossCause::ThreadRingOverwritten),
        ),
    ] {
        let ended = monotonic_now();
        let mut source = source_of(mode);
        event.emit(b"after the end");
        assert_eq!(unread(&mut source, ended), (Unread::Nothing, vec![]));
        drop(source);

        let mut source = source_of(mode);
        (0..100).for_each(|_| event.emit(b"read"));
        assert_eq!(collected(&mut source), (100, vec![]));
        emit();
        thread::scope(|scope| {
            (0..3).for_each(|_| drop(scope.spawn(emit)));
        });
        let (unread, lost) = unread(&mut source, monotonic_now());
        assert_eq!(unread, Unread::Counted);
        let all: u64 = lost.iter().map(|(_, count)| count).sum();
        assert_eq!(all, 4 * EVENTS, "{lost:?}");
        let of = |wanted| {
            lost.iter()
                .any(|(cause, count)| *cause == wanted && *count > 0)
        };
        assert!(of(LossCause::NotRead), "{lost:?}");
        assert!(cause.is_none_or(of), "{lost:?}");
    }
}

/// The event that the handler emits, and its place.
static EVENT: AtomicU32 = AtomicU32::new(0);
static PAGES: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());
static DEPTH: AtomicUsize = AtomicUsize::new(0);

const PAGE: usize = 4096;
const DATA: usize = 256;
/// Emissions that each interrupt the one before.
const LEVELS: usize = 5;

/// Emits what cannot be read until a handler makes it so: the handler runs within this emission.
fn emit_page(index: usize) {
    let page = PAGES.load(SeqCst).wrapping_add(index * PAGE);
    // SAFETY: so many bytes are mapped, and can be read when the fault was handled.
    unsafe { posix_trace_event(EVENT.load(SeqCst), page.cast(), DATA) };
}

/// Emits from the next page, within the emission that it interrupts, and then makes that one's page
/// readable.
extern "C" fn emit_within(_signal: c_int) {
    let depth = DEPTH.fetch_add(1, SeqCst);
    if depth >= LEVELS {
        // Any other fault than those that the test makes.
        std::process::abort();
    }
    if depth + 1 < LEVELS {
        emit_page(depth + 1);
    }
    let page = PAGES.load(SeqCst).wrapping_add(depth * PAGE);
    // SAFETY: a page of the test's.
    unsafe { libc::mprotect(page.cast(), PAGE, libc::PROT_READ) };
}

/// Emits from within emissions, each in a handler that has interrupted the one before. What came,
/// and what was lost.
fn emit_within_each_other() -> (usize, Vec<(LossCause, u64)>) {
    let event = UserEvent::open("nested").unwrap();
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    let bytes = LEVELS * PAGE;
    // SAFETY: asks for a new mapping at an address of the kernel's choice.
    let pages = unsafe { libc::mmap(ptr::null_mut(), bytes, libc::PROT_NONE, flags, -1, 0) };
    assert_ne!(pages, libc::MAP_FAILED);
    PAGES.store(pages.cast(), SeqCst);
    EVENT.store(event.id().0, SeqCst);
    let handler: extern "C" fn(c_int) = emit_within;
    // SAFETY: plain integers, for which zeros are valid.
    let (mut action, mut before): (libc::sigaction, libc::sigaction) =
        unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as libc::sighandler_t;
    action.sa_flags = libc::SA_NODEFER;
    let mut source = source();

    // SAFETY: valid pointers, and a handler that only makes calls that a handler may make.
    unsafe { libc::sigaction(libc::SIGSEGV, &raw const action, &raw mut before) };
    emit_page(0);
    // SAFETY: what was there before.
    unsafe { libc::sigaction(libc::SIGSEGV, &raw const before, ptr::null_mut()) };
    collected(&mut source)
}

/// Asks this test binary, run again without restartable sequences, to play its part.
const WITHOUT_RSEQ: &str = "TRACER_TEST_WITHOUT_RSEQ";

#[test]
fn an_emission_that_interrupts_another_loses_nothing() {
    let _alone = alone();
    if env::var_os(WITHOUT_RSEQ).is_some() {
        return;
    }
    assert_eq!(emit_within_each_other(), (LEVELS, vec![]));
}

#[test]
fn without_restartable_sequences_what_interrupts_an_emission_is_counted() {
    let _alone = alone();
    if env::var_os(WITHOUT_RSEQ).is_some() {
        // The page of the second is never read: it is refused before.
        let lost = vec![(LossCause::NestedTooDeeply, 1)];
        assert_eq!(emit_within_each_other(), (1, lost));
        return;
    }
    let name = "without_restartable_sequences_what_interrupts_an_emission_is_counted";
    let output = Command::new(env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(WITHOUT_RSEQ, "1")
        .env("GLIBC_TUNABLES", "glibc.pthread.rseq=0")
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// Closes every descriptor of the library's in the calling thread's own table of descriptors, as
/// `closefrom(3)` would.
fn close_areas() {
    // SAFETY: takes no pointers.
    assert_eq!(unsafe { libc::unshare(libc::CLONE_FILES) }, 0);
    for entry in fs::read_dir("/proc/thread-self/fd").unwrap() {
        let path = entry.unwrap().path();
        let is_area = fs::read_link(&path)
            .is_ok_and(|link| link.to_string_lossy().contains("posix_trace_area"));
        if is_area {
            let descriptor = path.file_name().unwrap().to_str().unwrap();
            // SAFETY: takes no pointers; the library finds out.
            unsafe { libc::close(descriptor.parse().unwrap()) };
        }
    }
}

#[test]
fn a_thread_without_the_area_s_descriptor_records_all_the_same() {
    let _alone = alone();
    let event = UserEvent::open("no descriptor").unwrap();
    let recorded = thread::spawn(move || {
        close_areas();
        let mut source = source();
        (0..7).for_each(|_| event.emit(b"recorded"));
        let others = thread::spawn(move || (0..7).for_each(|_| event.emit(b"recorded")));
        others.join().unwrap();
        collected(&mut source)
    });

    assert_eq!(recorded.join().unwrap(), (14, vec![]));
}
