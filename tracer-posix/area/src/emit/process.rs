//! This process as a target: its area, and which streams trace it.
//!
//! [`start`](super::start) makes the area; this module has what is known of it from then on.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use std::sync::atomic::{
    AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, compiler_fence,
};

use tracer_common::area::{STREAM_SLOTS, StreamControl, clock, home, stream_state};

use super::inherited;
use crate::layout::file::AreaId;
use crate::layout::mapping::{self, FileFacts, Parts};
use crate::layout::ticks::TickSource;
use crate::system::errno::ErrnoGuard;
use tracer_engine::source::BegunAnew;

/// State of this process as a target. Copied into a forked child.
pub(super) struct ProcessState {
    pub(super) setup: AtomicU32,
    /// First byte of the page that is wiped on fork: holds the base of the area's fixed parts, and
    /// null in a child that has not noticed yet that it is one.
    pub(super) wiped: AtomicPtr<AtomicPtr<u8>>,
    /// Whether the kernel wipes that page. Where it may not be asked to, only a child made by the C
    /// library's `fork()` notices at once that it is one. Other children notice it when they need a
    /// chunk.
    pub(super) is_wiped: AtomicBool,
    /// Base of the area's fixed parts; survives fork.
    pub(super) base: AtomicPtr<u8>,
    pub(super) pid: AtomicI32,
    /// The descriptor of the area's file: one to be [handed on](mapping::to_hand_on), where that
    /// can be made.
    pub(super) file: AtomicI32,
    pub(super) device: AtomicU64,
    pub(super) inode: AtomicU64,
    /// Windows that fit into the area, as its file's size says.
    pub(super) windows: AtomicUsize,
    /// The area's clock, as this process has found it: one of [`clock`].
    clock: AtomicU32,
    /// Whether the kernel restarts this process's emissions when it is asked to.
    pub(super) can_restart: AtomicBool,
    /// Where this process's threads are at home: [`home`].
    pub(super) home: AtomicU64,
    /// Counts the forks that lie between this process and the one that has set itself up.
    pub(super) forks: AtomicU32,
    /// Set by the first of a new child's threads to bring the state up to date.
    pub(super) is_renewing: AtomicBool,
    /// The generation, for each slot, of the stream that this process was born into, or 0.
    pub(super) born_into: [AtomicU32; STREAM_SLOTS],
    /// Windows that this process has mapped and filled with memory: see
    /// [`prefault`](super::prefault).
    pub(super) prepared: AtomicUsize,
}

/// Not set up yet.
pub(super) const RAW: u32 = 0;

pub(super) static STATE: ProcessState = ProcessState {
    setup: AtomicU32::new(RAW),
    wiped: AtomicPtr::new(std::ptr::null_mut()),
    is_wiped: AtomicBool::new(false),
    base: AtomicPtr::new(std::ptr::null_mut()),
    pid: AtomicI32::new(0),
    file: AtomicI32::new(-1),
    device: AtomicU64::new(0),
    inode: AtomicU64::new(0),
    windows: AtomicUsize::new(0),
    clock: AtomicU32::new(clock::UNDECIDED),
    can_restart: AtomicBool::new(false),
    home: AtomicU64::new(home::UNKNOWN),
    forks: AtomicU32::new(0),
    is_renewing: AtomicBool::new(false),
    born_into: [const { AtomicU32::new(0) }; STREAM_SLOTS],
    prepared: AtomicUsize::new(0),
};

/// Returns the area's fixed parts, if this process is known to have an area, and is no child that
/// has yet to notice that it is one. Every emission starts with this look-up.
#[inline(always)]
pub(crate) fn parts_if_ready() -> Option<Parts<'static>> {
    let page = NonNull::new(STATE.wiped.load(Relaxed))?;
    // SAFETY: once set, the pointer is to a page that stays mapped as long as the process lives.
    let base = unsafe { page.as_ref() }.load(Relaxed);
    // SAFETY: a base that is not null is that of the area's fixed parts, which stay mapped.
    NonNull::new(base).map(|base| unsafe { Parts::from_base(base) })
}

/// Makes every thread of this process that is within an emission begin it anew, with a new time,
/// and every thread that runs pass a memory barrier. `false` where that cannot be done.
pub(crate) fn restart_emissions() -> bool {
    const PRIVATE_EXPEDITED_RSEQ: libc::c_long = 1 << 7;
    STATE.can_restart.load(Relaxed)
        // SAFETY: takes no pointers.
        && unsafe { libc::syscall(libc::SYS_membarrier, PRIVATE_EXPEDITED_RSEQ, 0, 0) } == 0
}

/// Restarts emissions as [`restart_emissions`] does, for a reader in another process. Returns a
/// moment: all that this process emitted before it is recorded now, except by threads whose
/// emissions cannot begin anew.
pub(crate) fn begin_emissions_anew() -> Option<BegunAnew> {
    let parts = parts_if_ready()?;
    let source = TickSource::from_header(parts.header().clock.load(Acquire))?;
    let ticks = source.now();
    // No event that is recorded later has this same time either.
    source.let_tick_pass();
    restart_emissions().then(|| BegunAnew { pid: pid(), ticks })
}

/// Returns the clock of this process's area, which a thread [learns](learn_clock) before it has a
/// chunk.
#[inline(always)]
pub(super) fn tick_source() -> TickSource {
    if STATE.clock.load(Relaxed) == clock::CYCLE_COUNTER {
        TickSource::CycleCounter
    } else {
        TickSource::Monotonic
    }
}

/// Finds out the area's clock, before a thread takes a chunk in a stream: the controller that
/// opened the stream has decided the clock. The process keeps to the first answer for good. `None`
/// where the area names no clock of this machine.
pub(super) fn learn_clock(parts: Parts<'_>) -> Option<()> {
    if STATE.clock.load(Relaxed) == clock::UNDECIDED {
        let untrusted = parts.header().clock.load(Acquire);
        TickSource::from_header(untrusted)?;
        STATE.clock.store(untrusted, Relaxed);
    }
    Some(())
}

/// Returns this process's pid, as last known.
pub(crate) fn pid() -> i32 {
    STATE.pid.load(Relaxed)
}

/// Returns a number that is another one in each child from when the child has noticed that it is
/// one.
pub(super) fn forks() -> u32 {
    compiler_fence(SeqCst);
    let forks = STATE.forks.load(Relaxed);
    compiler_fence(SeqCst);
    forks
}

/// Returns where this process's threads are at home: [`home`].
pub(super) fn home() -> u64 {
    STATE.home.load(Relaxed)
}

/// Notes the pid namespace of this process (inode of `/proc/self/ns/pid`); 0 where it is not known.
pub(crate) fn note_namespace(namespace: u64) {
    let namespace = u32::try_from(namespace).unwrap_or(0);
    let program = home::program_of(home());
    STATE.home.store(home::word(namespace, program), Relaxed);
}

/// Learns the pid namespace of this process from the stream that traces it, if it is not known.
/// This makes no system call: a confined process might be killed for one.
pub(super) fn learn_namespace(control: &StreamControl) {
    if home::namespace_of(home()) == 0 && control.target_pid.load(Relaxed) == pid() {
        note_namespace(control.target_namespace.load(Relaxed));
    }
}

/// Returns the number of windows that fit into this process's area.
pub(super) fn window_count() -> usize {
    STATE.windows.load(Relaxed)
}

/// Returns the area's descriptor, if it still is the area's: the program may have closed it, and
/// may have opened something else as the same descriptor.
pub(crate) fn file() -> Option<RawFd> {
    let file = STATE.file.load(Relaxed);
    is_ours(file).then_some(file)
}

/// Returns the area's file, opened anew to be mapped. `None` where this process may no longer open
/// it, or there is no `/proc`.
pub(super) fn open_file() -> Option<OwnedFd> {
    let opened = mapping::open_anew(file()?, libc::O_RDWR).ok()?;
    // Another thread may have closed the area's descriptor, and opened a file of its own.
    is_ours(opened.as_raw_fd()).then_some(opened)
}

/// Opens the area's file as [`open_file`] does, and without `/proc` too where this process's
/// descriptor is one to map by.
pub(crate) fn open_file_in_any_case() -> Option<OwnedFd> {
    open_file().or_else(|| {
        let mapped_by = file().filter(|file| !inherited::is_handed_on(*file))?;
        // SAFETY: no pointer is passed; what is no descriptor is an error, not a fault.
        let copy = unsafe { libc::fcntl(mapped_by, libc::F_DUPFD_CLOEXEC, 3) };
        // SAFETY: a new descriptor that no other value owns.
        let copy = (copy >= 0).then(|| unsafe { OwnedFd::from_raw_fd(copy) })?;
        is_ours(copy.as_raw_fd()).then_some(copy)
    })
}

/// Tells whether a descriptor is one of this process's area.
fn is_ours(raw: RawFd) -> bool {
    mapping::facts(raw).is_ok_and(|FileFacts { device, inode, .. }| {
        device == STATE.device.load(Relaxed) && inode == STATE.inode.load(Relaxed)
    })
}

/// Returns the identity of this process's area.
pub(crate) fn area_id() -> AreaId {
    AreaId {
        device: STATE.device.load(Relaxed),
        inode: STATE.inode.load(Relaxed),
    }
}

/// Tells whether the stream in this slot traces this process.
pub(super) fn is_traced_by(slot: usize, control: &StreamControl, generation: u32) -> bool {
    let target = control.target_pid.load(Relaxed);
    target == 0
        || target == pid()
        || control.inherit.load(Relaxed) == 1
            && STATE
                .born_into
                .get(slot)
                .is_some_and(|born| born.load(Relaxed) == generation)
}

/// Calls [`share_over_exec`] after this process itself has made or ended a stream, or had its
/// recorder make one.
pub(crate) fn streams_changed() {
    let _errno = ErrnoGuard::keep();
    if let Some(parts) = parts_if_ready() {
        share_over_exec(parts);
    }
}

/// Returns the number of windows that this process has mapped and filled with memory.
pub(super) fn prepared() -> usize {
    STATE.prepared.load(Relaxed)
}

/// Passes the area on over exec while a stream traces this process, so that the program that comes
/// after this one goes on being traced. A process that has prepared itself passes the area on in
/// any case, since it makes no system call when a stream begins to trace it.
///
/// A program that is started by `vfork()` or spawn gets the area too, and finds out by itself
/// whether it is traced; a forked child decides anew. The descriptor alone lets no program in: a
/// program of another user cannot open it.
pub(super) fn share_over_exec(parts: Parts<'_>) {
    let is_traced = |parts: Parts<'_>| {
        parts.streams().any(|(slot, control)| {
            control.state.load(Acquire) == stream_state::LIVE
                && is_traced_by(slot, control, control.generation.load(Relaxed))
        })
    };
    let is_shared = prepared() > 0 || is_traced(parts);
    let flags = if is_shared { 0 } else { libc::FD_CLOEXEC };
    if let Some(file) = file()
        && inherited::is_handed_on(file)
    {
        // SAFETY: takes no pointers. The descriptor is the area's: `file()` has just looked.
        unsafe { libc::fcntl(file, libc::F_SETFD, flags) };
    }
}
