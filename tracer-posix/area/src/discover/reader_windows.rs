//! A controller's view of an area's windows.

use std::cell::{Cell, RefCell};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use tracer_common::area::{DATA_OFFSET, WINDOW_BYTES};

use crate::emit::windows::OwnWindows;
use crate::layout::chunk_ref::ChunkRef;
use crate::layout::mapping::Mapping;
use crate::layout::pool::Windows;

/// Windows of one area that stay mapped. A hostile process may have thousands, each of which takes
/// one of the mappings that a process may have, and memory for what is looked at. Where there are
/// more, [`trim`](MappedWindows::trim) gives those up that were not looked at for longest. They are
/// mapped again when their turn comes.
const MOST_MAPPED: usize = 32;

/// Windows of one area that stay mapped where this process has [many](MANY_IN_ALL) mapped in all.
const FEW_MAPPED: usize = 8;

/// Windows of all areas together above which each area may have only few. A process may have 65,530
/// mappings.
const MANY_IN_ALL: usize = 8192;

/// Bytes at the start of a chunk that are never all zeros once the chunk was handed out.
const CHUNK_HEAD_BYTES: usize = 64;

/// Bytes of headers at the start of a window that say whether any of its chunks was handed out.
/// Chunks are handed out in order, and among so many there is always one whose thread has already
/// written the header.
const HEADERS_LOOKED_AT: usize = 4096;

/// Windows of all areas that are mapped now.
static MAPPED_IN_ALL: AtomicUsize = AtomicUsize::new(0);

/// Windows of another process's area, each mapped when it is looked at. No window is given up while
/// this is borrowed, so a [`ChunkRef`], which borrows this, never outlives its window.
#[derive(Debug)]
pub(crate) struct MappedWindows {
    file: OwnedFd,
    /// Number of windows that fit into the file.
    count: usize,
    /// Mapped windows, in the order in which they were looked at, the last one first.
    mapped: RefCell<Vec<MappedWindow>>,
    /// How often a window could not be mapped, as far as that was not reported yet.
    failures: Cell<u64>,
    /// How often a window was mapped.
    mappings: Cell<u64>,
}

/// A window that is mapped.
#[derive(Debug)]
struct MappedWindow {
    index: usize,
    mapping: Mapping,
}

impl MappedWindow {
    fn new(file: BorrowedFd<'_>, index: usize) -> Option<Self> {
        let offset = DATA_OFFSET + index * WINDOW_BYTES;
        let mapping = Mapping::new(file, offset, WINDOW_BYTES).ok()?;
        MAPPED_IN_ALL.fetch_add(1, Relaxed);
        Some(Self { index, mapping })
    }
}

impl Drop for MappedWindow {
    fn drop(&mut self) {
        MAPPED_IN_ALL.fetch_sub(1, Relaxed);
    }
}

impl MappedWindows {
    pub(super) fn new(file: OwnedFd, count: usize) -> Self {
        Self {
            file,
            count,
            mapped: RefCell::default(),
            failures: Cell::default(),
            mappings: Cell::default(),
        }
    }

    /// Gives up all but some windows: those that were not looked at for longest. No reference to a
    /// window is left by then.
    pub(super) fn trim(&mut self) {
        let is_many = MAPPED_IN_ALL.load(Relaxed) > MANY_IN_ALL;
        let most = if is_many { FEW_MAPPED } else { MOST_MAPPED };
        self.mapped.get_mut().truncate(most);
    }

    pub(super) fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Tells whether a chunk at this address was ever written to. A page that was never written to
    /// does not exist, and looking at it by its address would make it.
    fn is_written(&self, base: NonNull<u8>) -> bool {
        let mapped = self.mapped.borrow();
        let offset = mapped.iter().find_map(|window| {
            let window_base = window.mapping.base().addr().get();
            let inside = base.addr().get().checked_sub(window_base)?;
            (inside < WINDOW_BYTES).then_some(DATA_OFFSET + window.index * WINDOW_BYTES + inside)
        });
        offset.is_some_and(|offset| self.has_any::<CHUNK_HEAD_BYTES>(offset))
    }

    /// Tells whether there is anything but zeros in some bytes of the file. Reading the file makes
    /// no pages, and waits for no other process. (A question for holes by `lseek()` waits for the
    /// file's lock, which a hostile process can hold for as long as it likes, by a `write()` of
    /// bytes that do not come.)
    fn has_any<const BYTES: usize>(&self, offset: usize) -> bool {
        let Ok(offset) = libc::off_t::try_from(offset) else {
            return false;
        };
        // On the heap: a thread may have little stack.
        let mut bytes = vec![0_u8; BYTES];
        let file = self.file.as_raw_fd();
        // SAFETY: the buffer is valid for so many bytes.
        let read = unsafe { libc::pread(file, bytes.as_mut_ptr().cast(), BYTES, offset) };
        // All bytes are looked at together: those that were not read are zero.
        read > 0 && bytes.iter().fold(0, |all, byte| all | byte) != 0
    }
}

impl Windows for &MappedWindows {
    fn count(&self) -> usize {
        self.count
    }

    fn base(&self, index: usize) -> Option<NonNull<u8>> {
        if index >= self.count {
            return None;
        }
        let mut mapped = self.mapped.borrow_mut();
        match mapped.iter().position(|window| window.index == index) {
            Some(0) => {}
            Some(index) => {
                if let Some(passed) = mapped.get_mut(..=index) {
                    passed.rotate_right(1);
                }
            }
            None => {
                let Some(window) = MappedWindow::new(self.file.as_fd(), index) else {
                    self.failures.set(self.failures.get().saturating_add(1));
                    return None;
                };
                mapped.insert(0, window);
                self.mappings.set(self.mappings.get().wrapping_add(1));
            }
        }
        mapped.first().map(|window| window.mapping.base())
    }

    fn is_empty(&self, index: usize) -> bool {
        !self.has_any::<HEADERS_LOOKED_AT>(DATA_OFFSET + index * WINDOW_BYTES)
    }
}

/// The windows of an area, of this process or another one.
#[derive(Clone, Copy)]
pub(crate) enum AreaWindows<'a> {
    /// The windows of this process's own area.
    Own,
    Mapped(&'a MappedWindows),
}

impl AreaWindows<'_> {
    /// Tells whether the chunk at this address, in a window that was looked at just now, was ever
    /// written to. `true` for all of this process's own area.
    pub(super) fn is_written(&self, base: NonNull<u8>) -> bool {
        match self {
            Self::Own => true,
            Self::Mapped(windows) => windows.is_written(base),
        }
    }

    /// Returns how often a window was mapped so far: a cost of reading beside the events.
    pub(crate) fn mappings(&self) -> u64 {
        match self {
            Self::Own => 0,
            Self::Mapped(windows) => windows.mappings.get(),
        }
    }

    /// Returns how often since the last call a window could not be mapped, so that its events could
    /// not be read.
    pub(crate) fn take_failures(&self) -> u64 {
        match self {
            Self::Own => 0,
            Self::Mapped(windows) => windows.failures.take(),
        }
    }
}

/// Count of chunks whose headers say that there is something to read, though nothing was ever
/// written to them.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    untrue: usize,
}

/// Untrue claims after which no other is believed in the same look. The library never makes an
/// untrue claim.
const MOST_UNTRUE: usize = 64;

impl Claims {
    /// Tells whether a chunk was written to.
    pub(crate) fn is_true(&mut self, windows: &AreaWindows<'_>, chunk_ref: &ChunkRef<'_>) -> bool {
        let is_true = self.untrue < MOST_UNTRUE && windows.is_written(chunk_ref.base);
        self.untrue += usize::from(!is_true);
        is_true
    }
}

impl Windows for AreaWindows<'_> {
    fn count(&self) -> usize {
        match self {
            Self::Own => OwnWindows.count(),
            Self::Mapped(windows) => windows.count(),
        }
    }

    fn base(&self, index: usize) -> Option<NonNull<u8>> {
        match self {
            Self::Own => OwnWindows.base(index),
            Self::Mapped(windows) => windows.base(index),
        }
    }

    fn is_empty(&self, index: usize) -> bool {
        match self {
            Self::Own => false,
            Self::Mapped(windows) => windows.is_empty(index),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::mapping;

    fn windows() -> MappedWindows {
        MappedWindows::new(mapping::create_file().unwrap(), 4095)
    }

    #[test]
    fn no_more_than_some_windows_stay_mapped_and_each_is_what_it_was() {
        fn word(windows: &MappedWindows, index: usize) -> &AtomicUsize {
            let base = windows.base(index).unwrap().cast::<AtomicUsize>();
            assert!(base.as_ptr().align_offset(size_of::<u64>()) == 0);
            // SAFETY: mapped as long as the windows are borrowed, and only reached by atomics.
            unsafe { base.as_ref() }
        }
        let mut windows = windows();
        let words: Vec<_> = (0..200).map(|index| word(&windows, index)).collect();
        for (index, word) in words.iter().enumerate() {
            word.store(index + 1, Relaxed);
        }
        // The borrow checker allows no use of `words` from here on.
        windows.trim();
        assert_eq!(windows.mapped.borrow().len(), MOST_MAPPED);
        for index in (0..200).rev() {
            assert_eq!(word(&windows, index).load(Relaxed), index + 1);
        }
        let windows = &windows;
        assert!(!windows.is_empty(199) && windows.is_empty(200));
    }

    #[test]
    fn what_was_never_written_is_found_out_without_making_it() {
        let windows = windows();
        let base = (&windows).base(7).unwrap();
        assert!((&windows).is_empty(7) && !windows.is_written(base));
        // SAFETY: within the window.
        let third_page = unsafe { base.add(2 * 4096) };
        // SAFETY: mapped, aligned, and only reached by atomics.
        unsafe { third_page.cast::<AtomicUsize>().as_ref() }.store(1, Relaxed);
        assert!(windows.is_written(third_page) && !windows.is_written(base));
        assert!((&windows).is_empty(7), "no header says anything");
        // SAFETY: mapped, aligned, and only reached by atomics.
        unsafe { base.cast::<AtomicUsize>().as_ref() }.store(1, Relaxed);
        assert!(!(&windows).is_empty(7));
    }

    #[test]
    fn a_window_that_cannot_be_mapped_is_counted() {
        let file = mapping::create_file().unwrap();
        // By a descriptor for reading only, no window can be mapped for writing.
        let read_only = mapping::open_anew(file.as_raw_fd(), libc::O_RDONLY).unwrap();
        let windows = MappedWindows::new(read_only, 10);
        assert!((&windows).base(3).is_none());
        let windows = AreaWindows::Mapped(&windows);
        assert_eq!((windows.take_failures(), windows.take_failures()), (1, 0));
    }
}
