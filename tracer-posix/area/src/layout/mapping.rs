//! The shared memory of a trace area: making it, mapping it, reaching its parts.

use std::io;
use std::marker::PhantomData;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64};

use tracer_common::area::{
    AreaHeader, CHAIN_SLOTS, CHAINS_OFFSET, ChainEntry, DATA_OFFSET, ENTERING_OFFSET,
    ENTERING_SLOTS, EnteringEntry, FILTER_WORDS, FILTERS_OFFSET, MEMFD_NAME, NAME_BUCKETS,
    NAME_BUCKETS_OFFSET, NAME_SLOTS, NAMES_OFFSET, NameEntry, PROCESS_SLOTS, PROCESSES_OFFSET,
    ProcessEntry, STREAM_SLOTS, STREAM_WINDOWS_OFFSET, STREAMS_OFFSET, StreamControl, WINDOW_BYTES,
    WINDOW_SLOTS, WINDOWS_OFFSET,
};

use crate::emit::lock::PiLock;

/// Bytes of an area's file. It is sparse: only what chunks hold takes memory. All of it is there
/// from the start and sealed so that its size can never change: no process ever gets SIGBUS, and
/// none has to resize a descriptor that its program may have closed and opened as another file.
pub(super) const AREA_BYTES: usize = 16 << 30;

/// Bytes of an area without a file, which are mapped from the start. It has some pages more than it
/// needs, so that other processes know it by its size: no other mapping has the same.
pub(crate) const UNNAMED_AREA_BYTES: [usize; 2] = [(256 << 20) + MARK, (32 << 20) + MARK];

const MARK: usize = 7 << 12;

/// Returns the number of windows that fit into an area of so many bytes.
#[inline]
pub(crate) fn windows_in(bytes: u64) -> usize {
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    (bytes.saturating_sub(DATA_OFFSET) / WINDOW_BYTES).min(WINDOW_SLOTS)
}

/// A shared mapping of a part of a file. Unmapped when dropped.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a mapping belongs to the process, not to a thread; all access to it is by atomics.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `bytes` from `offset` of the file, shared, to be read and written.
    #[inline]
    pub(crate) fn new(file: BorrowedFd<'_>, offset: usize, bytes: usize) -> io::Result<Self> {
        let offset = libc::off_t::try_from(offset).map_err(io::Error::other)?;
        // SAFETY: asks for a new mapping at an address of the kernel's choice: no memory of this
        // process is replaced.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                offset,
            )
        };
        match NonNull::new(base.cast::<u8>()) {
            Some(base) if base.as_ptr().cast() != libc::MAP_FAILED => Ok(Self { base, bytes }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Returns where it begins.
    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Returns the mapping as words of 64 bits.
    pub(crate) fn words(&self) -> &[AtomicU64] {
        let words = self.base.as_ptr().cast::<AtomicU64>();
        // SAFETY: the mapping is page aligned, has `bytes` bytes, lives as long as `self`, is
        // within the file's sealed size, and is only reached by atomics.
        unsafe { std::slice::from_raw_parts(words, self.bytes / size_of::<AtomicU64>()) }
    }

    /// Gives the mapping up without unmapping it: it stays until the process ends.
    pub(crate) fn leak(self) -> &'static [AtomicU64] {
        let words = std::ptr::from_ref(self.words());
        std::mem::forget(self);
        // SAFETY: it is not unmapped any more.
        unsafe { &*words }
    }
}

/// Lock of the thread of this process that gives memory back. The kernel locks the file meanwhile,
/// and the kernel's lock lends no priority: without this one a real-time thread would wait for an
/// ordinary one that has lost its CPU.
static RELEASING: PiLock<()> = PiLock::new(());

/// Gives the memory of a shared mapping back to the machine; it reads as zeros afterwards.
pub(crate) fn release(base: NonNull<u8>, bytes: usize) {
    // A child that was forked while a thread of its parent had the lock goes on without it.
    let _turn = RELEASING.lock_unless_left();
    // SAFETY: what is mapped there is reached by atomics alone, and zeros are valid for all of it.
    // (Where it cannot be done the memory stays in use.)
    unsafe { libc::madvise(base.as_ptr().cast(), bytes, libc::MADV_REMOVE) };
}

/// Makes sure that memory lies behind so many bytes of a shared mapping, and that touching them is
/// no page fault of this process. `false` where there is no memory.
pub(crate) fn populate(base: NonNull<u8>, bytes: usize) -> bool {
    // SAFETY: the advice changes nothing in memory, and whatever is not mapped is an error.
    let result = unsafe { libc::madvise(base.as_ptr().cast(), bytes, libc::MADV_POPULATE_WRITE) };
    if result != 0 && crate::system::errno::get() == libc::EINVAL {
        // Linux before 5.14 cannot be asked.
        touch(base, bytes);
        return true;
    }
    result == 0
}

/// Writes to each page of a shared mapping, and changes nothing.
fn touch(base: NonNull<u8>, bytes: usize) {
    const PAGE: usize = 4096;
    for offset in (0..bytes).step_by(PAGE) {
        // SAFETY: within the mapping, and aligned: callers pass page aligned mappings.
        let word = unsafe { base.add(offset) }.cast::<AtomicU64>();
        // SAFETY: as above; all that is mapped there is reached by atomics.
        unsafe { word.as_ref() }.fetch_or(0, std::sync::atomic::Ordering::Relaxed);
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: `self` owns the mapping, and no reference into it outlives `self`.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

/// The fixed parts of a mapped area.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parts<'a> {
    base: NonNull<u8>,
    lifetime: PhantomData<&'a Mapping>,
}

// SAFETY: everything reached through it is atomics in shared memory.
unsafe impl Send for Parts<'_> {}
// SAFETY: as above.
unsafe impl Sync for Parts<'_> {}

impl<'a> Parts<'a> {
    /// Returns the fixed parts in `words`, which must be the mapping of an area's first
    /// [`DATA_OFFSET`] bytes; `None` when it is too short to be.
    pub(crate) fn new(words: &'a [AtomicU64]) -> Option<Self> {
        (size_of_val(words) >= DATA_OFFSET).then(|| Self {
            base: NonNull::from(words).cast(),
            lifetime: PhantomData,
        })
    }

    /// # Safety
    ///
    /// `base` is where the first [`DATA_OFFSET`] bytes of an area are mapped, for as long as `'a`.
    #[inline(always)]
    pub(crate) unsafe fn from_base(base: NonNull<u8>) -> Self {
        Self {
            base,
            lifetime: PhantomData,
        }
    }

    pub(crate) fn base(self) -> NonNull<u8> {
        self.base
    }

    #[inline(always)]
    pub(crate) fn header(self) -> &'a AreaHeader {
        self.part(0)
    }

    #[inline(always)]
    pub(crate) fn stream(self, slot: usize) -> Option<&'a StreamControl> {
        (slot < STREAM_SLOTS).then(|| self.part(STREAMS_OFFSET + slot * size_of::<StreamControl>()))
    }

    pub(super) fn name(self, index: usize) -> Option<&'a NameEntry> {
        (index < NAME_SLOTS).then(|| self.part(NAMES_OFFSET + index * size_of::<NameEntry>()))
    }

    /// Returns the first entry of a bucket of names, its index plus one, or 0.
    pub(super) fn name_bucket(self, index: usize) -> Option<&'a AtomicU32> {
        (index < NAME_BUCKETS)
            .then(|| self.part(NAME_BUCKETS_OFFSET + index * size_of::<AtomicU32>()))
    }

    /// Returns a word of a stream's filter.
    #[inline(always)]
    pub(crate) fn filter_word(self, slot: usize, word: usize) -> Option<&'a AtomicU64> {
        (slot < STREAM_SLOTS && word < FILTER_WORDS).then(|| {
            self.part(FILTERS_OFFSET + (slot * FILTER_WORDS + word) * size_of::<AtomicU64>())
        })
    }

    /// Returns the words of a stream's filter.
    pub(crate) fn filter(self, slot: usize) -> impl Iterator<Item = &'a AtomicU64> {
        (0..FILTER_WORDS).filter_map(move |word| self.filter_word(slot, word))
    }

    pub(crate) fn process(self, index: usize) -> Option<&'a ProcessEntry> {
        (index < PROCESS_SLOTS)
            .then(|| self.part(PROCESSES_OFFSET + index * size_of::<ProcessEntry>()))
    }

    /// Returns the word of a window.
    pub(crate) fn window(self, index: usize) -> Option<&'a AtomicU64> {
        (index < WINDOW_SLOTS).then(|| self.part(WINDOWS_OFFSET + index * size_of::<AtomicU64>()))
    }

    /// Returns the index of a stream's n-th window plus one, or 0.
    pub(crate) fn stream_window(self, slot: usize, n: usize) -> Option<&'a AtomicU32> {
        (slot < STREAM_SLOTS && n < WINDOW_SLOTS).then(|| {
            self.part(STREAM_WINDOWS_OFFSET + (slot * WINDOW_SLOTS + n) * size_of::<AtomicU32>())
        })
    }

    pub(crate) fn entering(self, slot: usize, index: usize) -> Option<&'a EnteringEntry> {
        (slot < STREAM_SLOTS && index < ENTERING_SLOTS).then(|| {
            let index = slot * ENTERING_SLOTS + index;
            self.part(ENTERING_OFFSET + index * size_of::<EnteringEntry>())
        })
    }

    pub(crate) fn chain(self, index: u32) -> Option<&'a ChainEntry> {
        let index = usize::try_from(index).ok()?;
        (index < CHAIN_SLOTS).then(|| self.part(CHAINS_OFFSET + index * size_of::<ChainEntry>()))
    }

    /// Returns all streams' control words, with their slots.
    pub(crate) fn streams(self) -> impl Iterator<Item = (usize, &'a StreamControl)> {
        (0..STREAM_SLOTS).filter_map(move |slot| Some((slot, self.stream(slot)?)))
    }

    #[inline(always)]
    fn part<T>(self, offset: usize) -> &'a T {
        // SAFETY: callers pass offsets of parts of type `T`, which end before `DATA_OFFSET`.
        let part = unsafe { self.base.add(offset) }.cast::<T>();
        // SAFETY: mapped for `'a`, aligned since the base is page aligned and the offset fits the
        // type's alignment (asserted in `tracer-common`), and every bit pattern of a part is
        // valid: all of it is atomics, or plain integers that are not written.
        unsafe { part.as_ref() }
    }
}

/// Mode of an area's file: the user whose area it is may open it, and root.
pub(super) const OWNER_ONLY: libc::mode_t = 0o600;

/// Makes an area's memory: a sealed memfd of this process's effective user. The descriptor is
/// closed on exec.
#[inline]
pub(crate) fn create_file() -> io::Result<OwnedFd> {
    let bytes = permitted_bytes()?;
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: the name is a string ended by a null.
    let raw = unsafe { libc::memfd_create(MEMFD_NAME.as_ptr(), flags) };
    if raw < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `raw` is a new descriptor that no other value owns.
    let low = unsafe { OwnedFd::from_raw_fd(raw) };
    // SAFETY: an own descriptor; no pointer is passed.
    check(unsafe { libc::ftruncate(low.as_raw_fd(), bytes) })?;
    // A program that inherits the descriptor over exec opens the file anew, which only the file's
    // owner can. SAFETY: as above.
    check(unsafe { libc::fchmod(low.as_raw_fd(), OWNER_ONLY) })?;
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    // SAFETY: an own descriptor; no pointer is passed.
    check(unsafe { libc::fcntl(low.as_raw_fd(), libc::F_ADD_SEALS, seals) })?;
    Ok(low)
}

/// Makes the memory of an area for a process that can have no file: its children share it, and no
/// other process finds it. Returns its bytes as well.
#[cold]
pub(crate) fn create_unnamed() -> Option<(NonNull<u8>, usize)> {
    UNNAMED_AREA_BYTES.into_iter().find_map(|bytes| {
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        Some((
            map_anywhere(bytes, libc::PROT_READ | libc::PROT_WRITE, flags)?,
            bytes,
        ))
    })
}

/// Reserves `bytes` addresses, from a multiple of `bytes` on, and returns the first.
pub(crate) fn reserve_aligned(bytes: usize) -> Option<NonNull<u8>> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let all = map_anywhere(2 * bytes, libc::PROT_NONE, flags)?;
    let before = all.addr().get().next_multiple_of(bytes) - all.addr().get();
    // SAFETY: within what was just mapped.
    let aligned = unsafe { all.add(before) };
    // SAFETY: within what was just mapped, or at its end.
    let rest = unsafe { aligned.add(bytes) };
    for (start, bytes) in [(all, before), (rest, bytes - before)] {
        if bytes > 0 {
            // SAFETY: just mapped, and not used yet.
            unsafe { libc::munmap(start.as_ptr().cast(), bytes) };
        }
    }
    Some(aligned)
}

fn map_anywhere(bytes: usize, protection: libc::c_int, flags: libc::c_int) -> Option<NonNull<u8>> {
    // SAFETY: asks for a new mapping at an address of the kernel's choice.
    let base = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
    NonNull::new(base.cast::<u8>()).filter(|_| base != libc::MAP_FAILED)
}

/// Maps a part of a file over addresses that were [reserved](reserve_aligned).
pub(crate) fn map_file_at(start: NonNull<u8>, bytes: usize, file: RawFd, offset: usize) -> bool {
    let Ok(offset) = libc::off_t::try_from(offset) else {
        return false;
    };
    // SAFETY: nothing lies at these addresses; a bad descriptor is an error.
    let mapped = unsafe {
        libc::mmap(
            start.as_ptr().cast(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_FIXED,
            file,
            offset,
        )
    };
    mapped != libc::MAP_FAILED
}

/// The first page of the area, mapped once more, so that this mapping can be copied. In a program
/// that has its memory locked (`mlockall()`) the kernel would fill all of a copy of the original
/// mapping with memory before the call returns: that takes milliseconds, in an emission. A copy of
/// this one is locked too, but each of its pages only when it is touched first.
struct Seed(NonNull<libc::c_void>);

impl Seed {
    const BYTES: usize = 4096;

    fn new(base: NonNull<u8>) -> Option<Self> {
        // SAFETY: asks for a new mapping of what is mapped at `base`.
        let page =
            unsafe { libc::mremap(base.as_ptr().cast(), 0, Self::BYTES, libc::MREMAP_MAYMOVE) };
        let page = NonNull::new(page).filter(|page| page.as_ptr() != libc::MAP_FAILED)?;
        // SAFETY: the page was just mapped. The advice takes it out of this mapping, where it was
        // not read yet, and not out of the area.
        let is_locked =
            unsafe { libc::madvise(page.as_ptr(), Self::BYTES, libc::MADV_DONTNEED) } != 0;
        if is_locked {
            // SAFETY: as above. Where it cannot be done the copy is filled as it is made.
            unsafe {
                libc::syscall(
                    libc::SYS_mlock2,
                    page.as_ptr(),
                    Self::BYTES,
                    libc::MLOCK_ONFAULT,
                )
            };
        }
        Some(Self(page))
    }
}

impl Drop for Seed {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, and used by no other value.
        unsafe { libc::munmap(self.0.as_ptr(), Self::BYTES) };
    }
}

/// Maps a part of an area, whose beginning is mapped at `base`, once more, over addresses that were
/// [reserved](reserve_aligned). This needs no descriptor: `mremap()` of zero bytes of a shared
/// mapping maps it again.
pub(crate) fn map_again_at(
    start: NonNull<u8>,
    bytes: usize,
    base: NonNull<u8>,
    offset: usize,
) -> bool {
    let Some(seed) = Seed::new(base) else {
        return false;
    };
    // The new mapping goes from the area's beginning to the part's end: a part that is not mapped
    // yet has no address to begin from. SAFETY: asks for a new mapping of what is mapped there.
    let whole = unsafe { libc::mremap(seed.0.as_ptr(), 0, offset + bytes, libc::MREMAP_MAYMOVE) };
    drop(seed);
    if whole == libc::MAP_FAILED {
        return false;
    }
    // SAFETY: within what was just mapped.
    let part = unsafe { whole.add(offset) };
    // SAFETY: nothing lies at `start`.
    let mapped = unsafe {
        libc::mremap(
            part,
            bytes,
            bytes,
            libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED,
            start.as_ptr(),
        )
    };
    let is_mapped = mapped != libc::MAP_FAILED;
    // At the addresses that the part was moved from, another thread may have mapped something else.
    let left = if is_mapped { offset } else { offset + bytes };
    // SAFETY: just mapped, and not used yet.
    unsafe { libc::munmap(whole, left) };
    is_mapped
}

/// Descriptors of areas, in a process that may have so many. They are out of the way of the
/// program's own descriptors: a program counts on getting the lowest.
pub(crate) const HIGH_DESCRIPTORS: Range<RawFd> = 992..1024;

/// Returns a high copy of a descriptor: as high as possible in a process that may not have so many.
#[inline]
pub(crate) fn move_high(file: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let Range { start, end } = HIGH_DESCRIPTORS;
    let missing = i64::from(end).saturating_sub_unsigned(descriptor_limit()?);
    let lowest = i64::from(start) - missing.max(0);
    let lowest = RawFd::try_from(lowest.max(10)).map_err(io::Error::other)?;
    // SAFETY: a descriptor that is open; no pointer is passed.
    let raw = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_DUPFD_CLOEXEC, lowest) };
    if raw < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `raw` is a new descriptor that no other value owns.
    Ok(unsafe { OwnedFd::from_raw_fd(raw) })
}

/// Returns a descriptor of the same file, high and closed on exec, by which nothing can be read,
/// written or mapped: a process that has it opens the file anew ([`open_anew`]), for which the
/// kernel asks for rights again.
pub(crate) fn to_hand_on(file: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let low = open_anew(file.as_raw_fd(), libc::O_PATH)?;
    let high = move_high(low.as_fd());
    close(low);
    high
}

/// Opens the file behind a descriptor once more. It never waits, though the owner of the file may
/// have taken a lease on it. No thread is cancelled in it, as it may be in the C library's
/// `open()`.
pub(crate) fn open_anew(raw: RawFd, how: libc::c_int) -> io::Result<OwnedFd> {
    let path = link_of(raw);
    let how = how | libc::O_NONBLOCK | libc::O_CLOEXEC;
    // SAFETY: the path ends with a null.
    let raw = unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path.as_ptr(), how) };
    let raw = RawFd::try_from(raw).unwrap_or(-1);
    // SAFETY: a new descriptor that no other value owns.
    check(raw).map(|raw| unsafe { OwnedFd::from_raw_fd(raw) })
}

/// Closes a descriptor. No thread is cancelled in it, as it may be in the C library's `close()`.
pub(crate) fn close(file: OwnedFd) {
    // SAFETY: no other value owned it, and none owns it now.
    unsafe { libc::syscall(libc::SYS_close, file.into_raw_fd()) };
}

/// Returns the path of what is behind a descriptor, ended by a null. This allocates no memory,
/// since it may run in the first emission of a program.
#[inline]
pub(crate) fn link_of(raw: RawFd) -> [u8; 32] {
    ended_by_null(b"/proc/self/fd/".iter().copied().chain(digits(raw)))
}

/// Returns the path of what is behind a descriptor of process `pid`, as [`link_of`] does.
#[inline]
pub(crate) fn link_in(pid: i32, raw: RawFd) -> [u8; 32] {
    let process = b"/proc/".iter().copied().chain(digits(pid));
    ended_by_null(process.chain(*b"/fd/").chain(digits(raw)))
}

/// Returns a path in memory that ends with a null. The last byte stays one: numbers have ten digits
/// at most.
fn ended_by_null(path: impl Iterator<Item = u8>) -> [u8; 32] {
    let mut ended = [0_u8; 32];
    for (to, byte) in ended.iter_mut().zip(path) {
        *to = byte;
    }
    ended
}

/// Returns the decimal digits of a descriptor or a pid.
fn digits(raw: RawFd) -> impl Iterator<Item = u8> {
    let mut divisor = 1_i32;
    while raw / divisor >= 10 {
        divisor *= 10;
    }
    std::iter::from_fn(move || {
        let digit = u8::try_from(raw.checked_div(divisor)? % 10).ok()?;
        divisor /= 10;
        Some(b'0' + digit)
    })
}

/// Returns how many descriptors this process may have.
#[inline]
pub(crate) fn descriptor_limit() -> io::Result<u64> {
    limit_of(libc::RLIMIT_NOFILE)
}

/// Returns the number of bytes that this process may give a file: beyond RLIMIT_FSIZE the kernel
/// would not only refuse, it would send SIGXFSZ.
#[inline]
fn permitted_bytes() -> io::Result<libc::off_t> {
    let limit = limit_of(libc::RLIMIT_FSIZE)?;
    let bytes = u64::try_from(AREA_BYTES).map_or(limit, |wanted| wanted.min(limit)) & !4095;
    if windows_in(bytes) == 0 {
        return Err(io::Error::from_raw_os_error(libc::EFBIG));
    }
    libc::off_t::try_from(bytes).map_err(io::Error::other)
}

/// Type of `getrlimit()`'s first argument: the C libraries differ.
#[cfg(target_env = "gnu")]
type Resource = libc::__rlimit_resource_t;
#[cfg(not(target_env = "gnu"))]
type Resource = libc::c_int;

#[inline]
fn limit_of(resource: Resource) -> io::Result<u64> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` may be written to.
    check(unsafe { libc::getrlimit(resource, &raw mut limit) })?;
    Ok(limit.rlim_cur)
}

#[inline]
pub(super) fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// Facts about the file of a descriptor, as far as an area's descriptor is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileFacts {
    pub(crate) device: u64,
    pub(crate) inode: u64,
    pub(crate) bytes: u64,
    /// Owner of the file, and the mode that says which other users may open it.
    pub(crate) owner: u32,
    pub(super) mode: u32,
}

impl FileFacts {
    /// Tells whether it is a file of this user's, which no other user may open.
    pub(crate) fn is_only_for(&self, user: u32) -> bool {
        self.owner == user && self.mode & 0o7777 == OWNER_ONLY
    }
}

/// Asks what `file` refers to.
#[inline]
pub(crate) fn facts(file: RawFd) -> io::Result<FileFacts> {
    let mut stat = std::mem::MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: `stat` may be written to; a bad descriptor is an error, not a fault.
    check(unsafe { libc::fstat(file, stat.as_mut_ptr()) })?;
    // SAFETY: zeroed, then filled by the kernel: all of it is integers.
    let stat = unsafe { stat.assume_init() };
    Ok(FileFacts {
        device: stat.st_dev,
        inode: stat.st_ino,
        bytes: stat.st_size.unsigned_abs(),
        owner: stat.st_uid,
        mode: stat.st_mode,
    })
}

/// Tells whether it is memory in ordinary pages, as a memfd is.
pub(super) fn is_ordinary_memory(file: &impl AsFd) -> bool {
    let mut facts = std::mem::MaybeUninit::<libc::statfs>::zeroed();
    let raw = file.as_fd().as_raw_fd();
    // SAFETY: `facts` may be written to.
    let is_known = unsafe { libc::fstatfs(raw, facts.as_mut_ptr()) } == 0;
    // SAFETY: zeroed, then filled by the kernel: all of it is integers.
    let kind = unsafe { facts.assume_init() }.f_type;
    // The number has a sign in some C libraries, and none in others.
    is_known && i128::from(kind) == i128::from(libc::TMPFS_MAGIC)
}

/// Tells whether the file can neither shrink nor grow, so that mapping it is safe whichever process
/// made it.
pub(super) fn is_sealed(file: &impl AsFd) -> bool {
    const WANTED: libc::c_int = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW;
    // SAFETY: no pointer is passed.
    let seals = unsafe { libc::fcntl(file.as_fd().as_raw_fd(), libc::F_GET_SEALS) };
    seals >= 0 && seals & WANTED == WANTED
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_spell_a_descriptor() {
        for raw in [0, 7, 10, 991, 1_000_000, RawFd::MAX] {
            let spelled: Vec<u8> = digits(raw).collect();
            assert_eq!(spelled, raw.to_string().as_bytes());
            assert_eq!(link_of(raw).last(), Some(&0));
        }
    }

    #[test]
    fn what_is_handed_on_gives_nothing_away_by_itself() {
        let file = create_file().unwrap();
        let handed_on = to_hand_on(file.as_fd()).unwrap();
        let mapped = Mapping::new(handed_on.as_fd(), 0, DATA_OFFSET);
        assert_eq!(mapped.unwrap_err().raw_os_error(), Some(libc::EBADF));

        let anew = open_anew(handed_on.as_raw_fd(), libc::O_RDWR).unwrap();
        assert!(Mapping::new(anew.as_fd(), 0, DATA_OFFSET).is_ok());
        assert_eq!(
            facts(anew.as_raw_fd()).unwrap(),
            facts(file.as_raw_fd()).unwrap()
        );
    }
}
