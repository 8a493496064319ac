//! Preparing a thread and its process, so that what the thread emits takes neither a page fault nor
//! a system call: not at its first event either, nor when a controller attaches later.
//!
//! This does the work that a thread would otherwise do when it first emits to a stream: it makes
//! memory for the thread, maps windows, and puts memory behind them and behind the area's fixed
//! parts. A stream takes the first windows that are free, so as many of these are prepared as the
//! streams of the future are to have, together. They hold their memory from then on, whichever
//! process reads and whichever stream ends (`AreaHeader::prepared`), and the area is passed on over
//! exec in any case.

use std::ffi::{c_int, c_void};
use std::ptr::NonNull;
use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};

use tracer_common::area::{
    DATA_OFFSET, PROCESS_SLOTS, StreamControl, WINDOW_BYTES, WINDOW_SLOTS, stream_state,
};

use super::process::{self, STATE, share_over_exec};
use super::start;
use super::thread;
use super::windows::OwnWindows;
use crate::layout::chunk_ref::Shape;
use crate::layout::mapping::{self, Parts};
use crate::layout::pool::Windows as _;
use crate::layout::ticks::TickSource;
use crate::system::errno::ErrnoGuard;

/// Bytes that streams of the future may have together, where the program does not say how many:
/// four windows.
pub const DEFAULT_BYTES: usize = 4 * WINDOW_BYTES;

/// Bytes of stack that an emission takes at most.
const STACK_BYTES: usize = 4096;

/// Error (`ENOMEM`): there is too little memory, or the area has no space for so much.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no memory for what emissions take")]
pub struct PrefaultError;

impl PrefaultError {
    /// Returns the error number that the C functions return for it.
    #[must_use]
    pub fn error_number(self) -> c_int {
        libc::ENOMEM
    }
}

/// Prepares the calling thread and its process for streams that live, and for others of `bytes`
/// bytes together.
///
/// # Errors
///
/// [`PrefaultError`] (`ENOMEM`).
pub fn prefault(bytes: usize) -> Result<(), PrefaultError> {
    let _errno = ErrnoGuard::keep();
    // A process that can have no area emits nothing.
    let Some(parts) = process::parts_if_ready().or_else(start::parts_made_ready) else {
        return Ok(());
    };
    prepare_process(parts, bytes)?;
    prepare_thread(parts)
}

/// Takes back what the program before this one has prepared in the same process.
pub(super) fn forget(parts: Parts<'_>) {
    let own = process::pid();
    let entries = (0..PROCESS_SLOTS).filter_map(|index| parts.process(index));
    entries
        .filter(|entry| entry.pid.load(Relaxed) == own)
        .for_each(|entry| entry.prepared.store(0, Relaxed));
}

fn prepare_process(parts: Parts<'static>, bytes: usize) -> Result<(), PrefaultError> {
    let windows = windows_for(parts, bytes.max(1)).ok_or(PrefaultError)?;
    let windows = windows.max(process::prepared());
    let count = u32::try_from(windows).map_err(|_too_many| PrefaultError)?;
    // From here on memory that is put in now is not taken out again.
    if !start::write_process(parts, count) {
        return Err(PrefaultError);
    }
    parts.header().prepared.fetch_max(count, SeqCst);
    if !mapping::populate(parts.base(), DATA_OFFSET) {
        return Err(PrefaultError);
    }
    for index in 0..windows {
        let base = OwnWindows.base(index).ok_or(PrefaultError)?;
        if !mapping::populate(base, WINDOW_BYTES) {
            return Err(PrefaultError);
        }
    }
    STATE.prepared.fetch_max(windows, SeqCst);
    share_over_exec(parts);
    // SAFETY: the function is called for each object that is loaded, with a valid description.
    unsafe { libc::dl_iterate_phdr(Some(populate_if_own), std::ptr::null_mut()) };
    Ok(())
}

/// Returns how many of the area's first windows are needed, so that streams that trace this process
/// have as many as they may ever ask for, and later streams `bytes` bytes. `None` where the area
/// has too few.
fn windows_for(parts: Parts<'_>, bytes: usize) -> Option<usize> {
    let for_streams = parts
        .streams()
        .filter(|(slot, control)| {
            control.state.load(Acquire) == stream_state::LIVE
                && process::is_traced_by(*slot, control, control.generation.load(Relaxed))
        })
        .map(|(slot, control)| still_missing(parts, slot, control))
        .fold(0_usize, usize::saturating_add);
    let mut missing = bytes.div_ceil(WINDOW_BYTES).saturating_add(for_streams);
    let count = OwnWindows.count().min(WINDOW_SLOTS);
    let mut needed = 0;
    for index in 0..count {
        let is_free = parts.window(index)?.load(Relaxed) == 0;
        match missing {
            // A used window behind the last needed one may already belong to a stream that traces
            // this process.
            0 if is_free => {}
            0 => needed = index + 1,
            _ => {
                missing -= usize::from(is_free);
                needed = index + 1;
            }
        }
    }
    (missing == 0).then_some(needed)
}

/// Returns the number of windows that a stream may still ask for.
fn still_missing(parts: Parts<'_>, slot: usize, control: &StreamControl) -> usize {
    let Some(shape) = Shape::new(control.chunk_bytes.load(Relaxed)) else {
        return 0;
    };
    let writers = control.writers.load(Relaxed).saturating_add(1);
    let chunks = control
        .chunks_for_size
        .load(Relaxed)
        .saturating_add(writers.saturating_mul(2));
    let (last, _) = shape.window_and_index(chunks.saturating_sub(1));
    let held = (0..WINDOW_SLOTS)
        .map_while(|n| parts.stream_window(slot, n))
        .take_while(|window| window.load(Relaxed) != 0)
        .count();
    (last + 1).saturating_sub(held)
}

fn prepare_thread(parts: Parts<'static>) -> Result<(), PrefaultError> {
    let known = thread::known().map(|state| (state, false));
    let (state, is_ending) = known.or_else(thread::register).ok_or(PrefaultError)?;
    touch_stack();
    // A first reading of the clock loads what the C library and the kernel need for that.
    let clock = TickSource::from_header(parts.header().clock.load(Relaxed));
    let _now = clock.unwrap_or(TickSource::Monotonic).now();
    if is_ending {
        thread::end_now(state);
    }
    Ok(())
}

/// Touches as much stack as an emission takes.
#[inline(never)]
fn touch_stack() {
    let mut frame = [0_u8; STACK_BYTES];
    std::hint::black_box(&mut frame);
}

/// Brings the code and the variables of the object that this function is part of into the process's
/// page tables, as far as the kernel can be asked for that.
unsafe extern "C" fn populate_if_own(
    object: *mut libc::dl_phdr_info,
    _size: usize,
    _nothing: *mut c_void,
) -> c_int {
    // SAFETY: `dl_iterate_phdr()` passes a valid description.
    let object = unsafe { &*object };
    // SAFETY: it says where its program headers are, and how many.
    let headers =
        unsafe { std::slice::from_raw_parts(object.dlpi_phdr, usize::from(object.dlpi_phnum)) };
    let address = |offset: u64| usize::try_from(object.dlpi_addr.wrapping_add(offset)).unwrap_or(0);
    let own = populate_if_own as *const () as usize;
    let segments = || {
        let loaded = headers
            .iter()
            .filter(|header| header.p_type == libc::PT_LOAD);
        loaded.map(|header| {
            let start = address(header.p_vaddr);
            let end = start.saturating_add(usize::try_from(header.p_memsz).unwrap_or(0));
            (start..end, header.p_flags & libc::PF_W != 0)
        })
    };
    if !segments().any(|(segment, _)| segment.contains(&own)) {
        return 0;
    }
    for (segment, is_writable) in segments() {
        const PAGE: usize = 4096;
        let start = segment.start / PAGE * PAGE;
        let bytes = segment.end.next_multiple_of(PAGE) - start;
        advise(start, bytes, libc::MADV_POPULATE_READ);
        if is_writable {
            // Page by page: some pages became constant once the object was loaded.
            for offset in (0..bytes).step_by(PAGE) {
                advise(start + offset, PAGE, libc::MADV_POPULATE_WRITE);
            }
        }
    }
    1
}

fn advise(start: usize, bytes: usize, advice: c_int) {
    if let Some(start) = NonNull::new(std::ptr::with_exposed_provenance_mut::<c_void>(start)) {
        // SAFETY: neither advice changes what is in memory; what is not mapped is an error.
        unsafe { libc::madvise(start.as_ptr(), bytes, advice) };
    }
}
