//! The shared memory of a trace area: making it, mapping it, reaching its parts.

use std::io;
use std::marker::PhantomData;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use tracer_common::area::{
    AreaHeader, DATA_OFFSET, NAME_SLOTS, NAMES_OFFSET, NameEntry, PROCESS_SLOTS, PROCESSES_OFFSET,
    ProcessEntry, RING_SLOTS, RINGS_OFFSET, RingEntry, STREAM_SLOTS, STREAMS_OFFSET, StreamControl,
};

/// Bytes of an area's file. It is sparse: only what rings hold takes memory. All of it is there
/// from the start and sealed so that no one can change the size: nobody ever gets SIGBUS, and no
/// process has to resize a descriptor that its program may have closed and opened as another file.
pub(super) const AREA_BYTES: usize = 16 << 30;

/// A shared mapping of a part of a file. Unmapped when dropped.
#[derive(Debug)]
pub(super) struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a mapping belongs to the process, not to a thread; all access to it is by atomics.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `bytes` from `offset` of the file, to be read and written by everyone.
    #[inline]
    pub(super) fn new(file: BorrowedFd<'_>, offset: usize, bytes: usize) -> io::Result<Self> {
        let offset = libc::off_t::try_from(offset).map_err(io::Error::other)?;
        // SAFETY: asks for a new mapping at an address of the kernel's choice: no memory of ours
        // is replaced.
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

    /// The mapping as words of 64 bits.
    pub(super) fn words(&self) -> &[AtomicU64] {
        let words = self.base.as_ptr().cast::<AtomicU64>();
        // SAFETY: the mapping is page aligned, has `bytes` bytes, lives as long as `self`, is
        // within the file's sealed size, and is only reached by atomics.
        unsafe { std::slice::from_raw_parts(words, self.bytes / size_of::<AtomicU64>()) }
    }

    /// Gives the mapping up without unmapping it: it stays until the process ends.
    pub(super) fn leak(self) -> &'static [AtomicU64] {
        let words = std::ptr::from_ref(self.words());
        std::mem::forget(self);
        // SAFETY: nobody unmaps it any more.
        unsafe { &*words }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and no reference into it outlives `self`.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

/// The fixed parts of a mapped area.
#[derive(Clone, Copy)]
pub(super) struct Parts<'a> {
    base: NonNull<u8>,
    lifetime: PhantomData<&'a Mapping>,
}

// SAFETY: everything reached through it is atomics in shared memory.
unsafe impl Send for Parts<'_> {}
// SAFETY: as above.
unsafe impl Sync for Parts<'_> {}

impl<'a> Parts<'a> {
    /// The fixed parts in `words`, which must be the mapping of an area's first [`DATA_OFFSET`]
    /// bytes; `None` when it is too short to be.
    pub(super) fn new(words: &'a [AtomicU64]) -> Option<Self> {
        (size_of_val(words) >= DATA_OFFSET).then(|| Self {
            base: NonNull::from(words).cast(),
            lifetime: PhantomData,
        })
    }

    /// # Safety
    ///
    /// `base` is where the first [`DATA_OFFSET`] bytes of an area are mapped, for as long as `'a`.
    #[inline(always)]
    pub(super) unsafe fn from_base(base: NonNull<u8>) -> Self {
        Self {
            base,
            lifetime: PhantomData,
        }
    }

    pub(super) fn base(self) -> NonNull<u8> {
        self.base
    }

    #[inline(always)]
    pub(super) fn header(self) -> &'a AreaHeader {
        self.part(0)
    }

    #[inline(always)]
    pub(super) fn stream(self, slot: usize) -> Option<&'a StreamControl> {
        (slot < STREAM_SLOTS).then(|| self.part(STREAMS_OFFSET + slot * size_of::<StreamControl>()))
    }

    pub(super) fn name(self, index: usize) -> Option<&'a NameEntry> {
        (index < NAME_SLOTS).then(|| self.part(NAMES_OFFSET + index * size_of::<NameEntry>()))
    }

    pub(super) fn process(self, index: usize) -> Option<&'a ProcessEntry> {
        (index < PROCESS_SLOTS)
            .then(|| self.part(PROCESSES_OFFSET + index * size_of::<ProcessEntry>()))
    }

    pub(super) fn ring(self, index: usize) -> Option<&'a RingEntry> {
        (index < RING_SLOTS).then(|| self.part(RINGS_OFFSET + index * size_of::<RingEntry>()))
    }

    /// All streams' control words, with their slots.
    pub(super) fn streams(self) -> impl Iterator<Item = (usize, &'a StreamControl)> {
        (0..STREAM_SLOTS).filter_map(move |slot| Some((slot, self.stream(slot)?)))
    }

    #[inline(always)]
    fn part<T>(self, offset: usize) -> &'a T {
        // SAFETY: callers pass offsets of parts of type `T`, which end before `DATA_OFFSET`.
        let place = unsafe { self.base.add(offset) }.cast::<T>();
        // SAFETY: mapped for `'a`, aligned since the base is page aligned and the offset fits the
        // type's alignment (asserted in `tracer-common`), and every bit pattern of a part is
        // valid: all of it is atomics or plain numbers that nobody writes.
        unsafe { place.as_ref() }
    }
}

/// Makes an area's memory: a sealed memfd. The descriptor is closed on exec.
#[inline]
pub(super) fn create_file() -> io::Result<OwnedFd> {
    let bytes = permitted_bytes()?;
    // The name is `MEMFD_NAME` with its null.
    let name = c"posix_trace_area";
    // SAFETY: `name` is a string ended by a null.
    let raw =
        unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING) };
    if raw < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `raw` is a new descriptor that nobody else owns.
    let low = unsafe { OwnedFd::from_raw_fd(raw) };
    // SAFETY: an own descriptor; no pointer is passed.
    check(unsafe { libc::ftruncate(low.as_raw_fd(), bytes) })?;
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    // SAFETY: an own descriptor; no pointer is passed.
    check(unsafe { libc::fcntl(low.as_raw_fd(), libc::F_ADD_SEALS, seals) })?;
    Ok(move_high(low.as_fd()).unwrap_or(low))
}

/// Where areas' descriptors are, in a process that may have so many: out of the way of the program's own,
/// which counts on getting the lowest numbers.
pub(super) const HIGH_NUMBERS: Range<RawFd> = 992..1024;

/// A copy of a descriptor at a high number; in a process that may have fewer, as high as may be.
#[inline]
pub(super) fn move_high(file: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let Range { start, end } = HIGH_NUMBERS;
    let missing = i64::from(end).saturating_sub_unsigned(descriptor_limit()?);
    let lowest = i64::from(start) - missing.max(0);
    let lowest = RawFd::try_from(lowest.max(10)).map_err(io::Error::other)?;
    // SAFETY: a descriptor that is open; no pointer is passed.
    let raw = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_DUPFD_CLOEXEC, lowest) };
    if raw < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `raw` is a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(raw) })
}

/// How many descriptors this process may have.
#[inline]
pub(super) fn descriptor_limit() -> io::Result<u64> {
    limit_of(libc::RLIMIT_NOFILE)
}

/// Bytes that this process may give a file: beyond RLIMIT_FSIZE the kernel would not only refuse,
/// it would send SIGXFSZ.
#[inline]
fn permitted_bytes() -> io::Result<libc::off_t> {
    let limit = limit_of(libc::RLIMIT_FSIZE)?;
    let bytes = u64::try_from(AREA_BYTES).map_or(limit, |wanted| wanted.min(limit)) & !4095;
    if bytes < (DATA_OFFSET as u64) * 2 {
        return Err(io::Error::from_raw_os_error(libc::EFBIG));
    }
    libc::off_t::try_from(bytes).map_err(io::Error::other)
}

#[inline]
fn limit_of(resource: libc::__rlimit_resource_t) -> io::Result<u64> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is a valid place to write to.
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

/// What a descriptor refers to, as far as an area's descriptor is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileFacts {
    pub(super) device: u64,
    pub(super) inode: u64,
    pub(super) bytes: u64,
}

/// Asks what `file` refers to.
#[inline]
pub(super) fn facts(file: RawFd) -> io::Result<FileFacts> {
    let mut stat = std::mem::MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: `stat` is a valid place to write to; a bad descriptor is an error, not a fault.
    check(unsafe { libc::fstat(file, stat.as_mut_ptr()) })?;
    // SAFETY: zeroed, then filled by the kernel: all of it is numbers.
    let stat = unsafe { stat.assume_init() };
    Ok(FileFacts {
        device: stat.st_dev,
        inode: stat.st_ino,
        bytes: stat.st_size.unsigned_abs(),
    })
}

/// Whether the file can neither shrink nor grow, so that mapping it is safe whoever made it.
pub(super) fn is_sealed(file: &impl AsFd) -> bool {
    is_sealed_number(file.as_fd().as_raw_fd())
}

/// As [`is_sealed`], for a number behind which there may be no file.
pub(super) fn is_sealed_number(number: RawFd) -> bool {
    // SAFETY: no pointer is passed; a bad descriptor is an error, not a fault.
    let seals = unsafe { libc::fcntl(number, libc::F_GET_SEALS) };
    seals >= 0 && seals & libc::F_SEAL_SHRINK != 0
}
