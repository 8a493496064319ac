//! Making the area of this process, and bringing what is known of it up to date in a child.
//!
//! The area is made, or taken over from the program that was here before an exec, when the library
//! is loaded. A forked child goes on in its parent's area, but has to forget some of its parent's
//! state. The library notices that it is in a child by a page that the kernel wipes on fork, so it
//! notices children made without the C library's `fork()` too.

use std::os::fd::{AsFd, AsRawFd, IntoRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use tracer_common::area::{DATA_OFFSET, PROCESS_SLOTS, ProcessEntry, home, stream_state};

use super::enabled;
use super::inherited;
use super::prefault;
use super::process::{RAW, STATE, note_namespace, parts_if_ready, share_over_exec};
use super::resident;
use super::thread;
use crate::layout::file::write_header;
use crate::layout::mapping::{self, Mapping, Parts};
use crate::layout::overcommit;
use crate::system::errno::ErrnoGuard;
use crate::system::pids::{self, own_pid};
use crate::system::proc_stat;

/// Being set up.
const BUSY: u32 = 1;
/// Set up, with an area or without one.
const DONE: u32 = 2;

/// Returns the same as [`parts_if_ready`], after making the area ready where that has to be done.
/// Async-signal-safe.
#[cold]
pub(crate) fn parts_made_ready() -> Option<Parts<'static>> {
    let _errno = ErrnoGuard::keep();
    if STATE.setup.load(Acquire) == RAW {
        set_up();
    }
    if parts_if_ready().is_none() && !STATE.base.load(Relaxed).is_null() {
        renew_in_child();
    }
    parts_if_ready()
}

/// Makes the area, once. A handler that interrupts it finds no area and emits nothing.
///
/// This function is in a section of its own, with all that it calls, since every program that is
/// started loads the pages on which it lies.
#[unsafe(link_section = "linux_trace_start")]
fn set_up() {
    if STATE
        .setup
        .compare_exchange(RAW, BUSY, Acquire, Relaxed)
        .is_ok()
    {
        // A process that cannot have an area (no memory, no descriptors) runs on without one; the
        // standard has no error for it, since a trace point never fails.
        let _without_area = make_area();
        match parts_if_ready() {
            Some(parts) => {
                enabled::follow(&parts.header().active);
                // A program that emits nothing, such as a shell, passes on the area that it was
                // given.
                if parts.header().active.load(Relaxed) != 0 {
                    share_over_exec(parts);
                }
            }
            None => enabled::close(),
        }
        STATE.setup.store(DONE, Release);
    }
}

#[inline(always)]
fn make_area() -> Option<()> {
    let (parts, is_new) = match map_named() {
        Ok(named) => named,
        Err(_no_file) => (map_unnamed()?, true),
    };
    if is_new {
        write_header(parts);
    }
    register_with_membarrier();
    STATE.pid.store(own_pid(), Relaxed);
    thread::prepare();
    if !is_new {
        let program = parts.header().programs.fetch_add(1, Relaxed);
        let program = program.wrapping_add(1);
        STATE.home.store(home::word(0, program), Relaxed);
        note_namespace(pids::own_pid_namespace());
        learn_ancestry(parts);
        // The program before this one may have prepared itself; this one has not.
        prefault::forget(parts);
    }
    STATE.base.store(parts.base().as_ptr(), Relaxed);
    let page = wiped_page()?;
    page.store(parts.base().as_ptr(), Relaxed);
    STATE
        .wiped
        .store(std::ptr::from_ref(page).cast_mut(), Release);
    // SAFETY: the handler is a function of this library, and async-signal-safe.
    unsafe { libc::pthread_atfork(None, None, Some(after_fork_in_child)) };
    Some(())
}

/// Maps the area of the program before this one, or a new one. Returns too whether it is new.
#[inline(always)]
fn map_named() -> std::io::Result<(Parts<'static>, bool)> {
    let from_parent = || inherited::take_from_parent().filter(passes_to_children_of_parent);
    let (file, is_new) = match inherited::take().or_else(from_parent) {
        Some(file) => (file, false),
        None => (mapping::create_file()?, true),
    };
    let facts = mapping::facts(file.as_raw_fd())?;
    let fixed = Mapping::new(file.as_fd(), 0, DATA_OFFSET)?;
    if is_new && !Parts::new(fixed.words()).is_some_and(overcommit::provide_new) {
        return Err(std::io::ErrorKind::OutOfMemory.into());
    }
    let parts = Parts::new(fixed.leak()).ok_or(std::io::ErrorKind::InvalidData)?;
    STATE.device.store(facts.device, Relaxed);
    STATE.inode.store(facts.inode, Relaxed);
    STATE
        .windows
        .store(mapping::windows_in(facts.bytes), Relaxed);
    // Where there is no `/proc`, the process keeps the descriptor by which the area was mapped.
    // That one is never handed on.
    let high = mapping::to_hand_on(file.as_fd()).or_else(|_| mapping::move_high(file.as_fd()));
    STATE
        .file
        .store(high.unwrap_or(file).into_raw_fd(), Relaxed);
    Ok((parts, is_new))
}

/// Tells whether an area has a stream that traces the parent of this process, and its children.
#[cold]
fn passes_to_children_of_parent(area: &OwnedFd) -> bool {
    // SAFETY: takes nothing and cannot fail.
    let parent = unsafe { libc::getppid() };
    let fixed = Mapping::new(area.as_fd(), 0, DATA_OFFSET).ok();
    fixed.is_some_and(|fixed| {
        Parts::new(fixed.words())
            .is_some_and(|parts| passed_on(parts, parent, true).next().is_some())
    })
}

/// Makes an area for a process that can have no file.
#[cold]
fn map_unnamed() -> Option<Parts<'static>> {
    let (base, bytes) = mapping::create_unnamed()?;
    // SAFETY: more than the fixed parts was just mapped, and stays so if it is used.
    let parts = unsafe { Parts::from_base(base) };
    if !overcommit::provide_new(parts) {
        // SAFETY: just mapped, and not used yet.
        unsafe { libc::munmap(base.as_ptr().cast(), bytes) };
        return None;
    }
    let windows = mapping::windows_in(u64::try_from(bytes).unwrap_or(0));
    STATE.windows.store(windows, Relaxed);
    Some(parts)
}

/// Returns a private page that the kernel fills with zeros in every forked child, if it can be
/// asked to. (A program may have confined itself, or the kernel may be older than 4.14.)
fn wiped_page() -> Option<&'static AtomicPtr<u8>> {
    const PAGE: usize = 4096;
    // SAFETY: asks for a new mapping at an address of the kernel's choice.
    let page = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            PAGE,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if page == libc::MAP_FAILED {
        return None;
    }
    // SAFETY: the page was just mapped; the advice changes only what a forked child finds in it.
    let advised = unsafe { libc::madvise(page, PAGE, libc::MADV_WIPEONFORK) };
    STATE.is_wiped.store(advised == 0, Relaxed);
    // SAFETY: page aligned, zeroed (a null pointer), never unmapped, only reached by atomics.
    Some(unsafe { &*page.cast::<AtomicPtr<u8>>() })
}

/// Registers this process for memory barriers. By these a reader in another process orders this
/// process's stores before this process's readings of the clock, and a reader in this process makes
/// threads begin their emissions anew.
fn register_with_membarrier() {
    const REGISTER_GLOBAL_EXPEDITED: libc::c_long = 1 << 2;
    const REGISTER_PRIVATE_EXPEDITED_RSEQ: libc::c_long = 1 << 8;
    // SAFETY: takes no pointers; where it is not available it fails and changes nothing.
    unsafe { libc::syscall(libc::SYS_membarrier, REGISTER_GLOBAL_EXPEDITED, 0, 0) };
    // SAFETY: as above.
    let restarts =
        unsafe { libc::syscall(libc::SYS_membarrier, REGISTER_PRIVATE_EXPEDITED_RSEQ, 0, 0) };
    STATE.can_restart.store(restarts == 0, Relaxed);
}

/// Tells, in a new child of process `parent`, whether it is certainly in the same pid namespace. In
/// another namespace the child does not see its parent, and it may have been given a new parent,
/// most likely the first process of the namespace.
fn is_in_namespace_of(parent: i32) -> bool {
    // SAFETY: takes nothing and cannot fail.
    parent != 1 && unsafe { libc::getppid() } == parent
}

extern "C" fn after_fork_in_child() {
    if !STATE.is_wiped.load(Relaxed) {
        wipe();
    }
    if parts_if_ready().is_none() && !STATE.base.load(Relaxed).is_null() {
        renew_in_child();
    }
}

/// Notices a child that was made without the C library's `fork()`, where the kernel does not wipe
/// the page. Called for each event that does not go the usual way.
pub(super) fn notice_child() {
    if !STATE.is_wiped.load(Relaxed) && own_pid() != STATE.pid.load(Relaxed) {
        wipe();
    }
}

/// Wipes the page, as the kernel does in a child.
fn wipe() {
    // SAFETY: null, or to a page that stays mapped as long as the process lives.
    if let Some(page) = unsafe { STATE.wiped.load(Relaxed).as_ref() } {
        page.store(std::ptr::null_mut(), Relaxed);
    }
}

/// Brings the state of a new child up to date. Async-signal-safe; the child has one thread, unless
/// it was made behind the C library's back and made threads before its first event.
fn renew_in_child() {
    let Some(base) = NonNull::new(STATE.base.load(Relaxed)) else {
        return;
    };
    let Some(page) = NonNull::new(STATE.wiped.load(Relaxed)) else {
        return;
    };
    if STATE.is_renewing.swap(true, Acquire) {
        return;
    }
    // SAFETY: the base is that of the area's fixed parts, which stay mapped.
    let parts = unsafe { Parts::from_base(base) };
    STATE.forks.fetch_add(1, Relaxed);
    thread::begin_in_child();
    // The child does not have its parent's page tables.
    STATE.prepared.store(0, Relaxed);
    let parent = STATE.pid.load(Relaxed);
    inherit_from_parent(parts, parent);
    if !is_in_namespace_of(parent) {
        note_namespace(0);
    }
    STATE.pid.store(own_pid(), Relaxed);
    register_with_membarrier();
    enter_process(parts);
    share_over_exec(parts);
    // SAFETY: once set, the pointer is to a page that stays mapped as long as the process lives.
    unsafe { page.as_ref() }.store(base.as_ptr(), Release);
    STATE.is_renewing.store(false, Release);
}

/// Keeps those of the parent's streams that trace its children too.
fn inherit_from_parent(parts: Parts<'_>, parent: i32) {
    for ((_, control), born) in parts.streams().zip(&STATE.born_into) {
        let generation = control.generation.load(Acquire);
        let is_inherited = control.state.load(Relaxed) == stream_state::LIVE
            && control.inherit.load(Relaxed) == 1
            && (control.target_pid.load(Relaxed) == parent || born.load(Relaxed) == generation);
        born.store(if is_inherited { generation } else { 0 }, Relaxed);
    }
}

/// Writes down which streams this process was born into, for programs that it may exec.
fn enter_process(parts: Parts<'_>) {
    if STATE.born_into.iter().all(|born| born.load(Relaxed) == 0) {
        return;
    }
    write_process(parts, 0);
}

/// Writes down which streams this process was born into, and how many windows it has prepared.
/// Returns whether there was space for it.
pub(super) fn write_process(parts: Parts<'_>, prepared: u32) -> bool {
    let own = STATE.pid.load(Relaxed);
    let entries = || (0..PROCESS_SLOTS).filter_map(|index| parts.process(index));
    let claim = |entry: &ProcessEntry, holder: i32| {
        let pid = &entry.pid;
        pid.compare_exchange(holder, -1, Acquire, Relaxed).is_ok()
    };
    let ours = |entry: &&ProcessEntry| claim(entry, own);
    let free = |entry: &&ProcessEntry| {
        let holder = entry.pid.load(Relaxed);
        let is_free = holder == 0 || holder > 0 && !pids::process_exists(holder);
        is_free && claim(entry, holder)
    };
    let Some(entry) = entries().find(ours).or_else(|| entries().find(free)) else {
        return false;
    };
    for (to, born) in entry.traced_by.iter().zip(&STATE.born_into) {
        to.store(born.load(Relaxed), Relaxed);
    }
    entry.prepared.store(prepared, Relaxed);
    entry.pid.store(own, Release);
    true
}

/// Finds out which streams this program was born into, where it got its area from the program
/// before it. It reads what its process, or the nearest known ancestor, has written down.
fn learn_ancestry(parts: Parts<'_>) {
    const GENERATIONS: usize = 16;
    let mut pid = own_pid();
    for distance in 0..GENERATIONS {
        for (slot, generation) in passed_on(parts, pid, distance > 0) {
            if let Some(born) = STATE.born_into.get(slot) {
                born.store(generation, Relaxed);
            }
        }
        match proc_stat::parent_of(pid) {
            Some(parent) if parent > 1 && written_down(parts, pid).is_none() => pid = parent,
            _ => break,
        }
    }
    enter_process(parts);
}

/// Returns the streams that trace what process `pid` makes, each by its slot and its generation:
/// those that it was born into, and those that it is the target of, if it is an ancestor.
fn passed_on(parts: Parts<'_>, pid: i32, is_ancestor: bool) -> impl Iterator<Item = (usize, u32)> {
    let entry = written_down(parts, pid);
    parts.streams().filter_map(move |(slot, control)| {
        let generation = control.generation.load(Acquire);
        let is_target = is_ancestor && control.target_pid.load(Relaxed) == pid;
        let was_born_into = entry
            .and_then(|entry| entry.traced_by.get(slot))
            .is_some_and(|born| born.load(Relaxed) == generation);
        let is_wanted =
            control.state.load(Relaxed) == stream_state::LIVE && control.inherit.load(Relaxed) == 1;
        (is_wanted && (is_target || was_born_into)).then_some((slot, generation))
    })
}

/// Returns what process `pid` has written down about itself.
fn written_down(parts: Parts<'_>, pid: i32) -> Option<&ProcessEntry> {
    (0..PROCESS_SLOTS)
        .filter_map(|index| parts.process(index))
        .find(|entry| entry.pid.load(Acquire) == pid)
}

/// Runs when the library is loaded.
#[unsafe(link_section = "linux_trace_start")]
#[cfg(not(any(miri, tracer_recorder)))]
extern "C" fn on_load() {
    resident::stay_loaded();
    set_up();
}

// Miri has no shared memory: there the area is not made. The recorder has no events of its own.
#[cfg(not(any(miri, tracer_recorder)))]
#[used]
#[unsafe(link_section = ".init_array")]
static ON_LOAD: extern "C" fn() = on_load;
