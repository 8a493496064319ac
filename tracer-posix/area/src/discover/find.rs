//! Finding the area of a process, and mapping it; or why none is found.

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use tracer_common::area::DATA_OFFSET;
use tracer_engine::event::MonotonicNs;
use tracer_engine::source::WaitingWord;

use super::alive::{is_process, is_strictly_confined};
use super::belonging::{self, Belonging};
use super::liveness;
use super::reader_windows::{AreaWindows, MappedWindows};
use crate::emit::{process, start};
use crate::layout::file::{AreaId, Kind, kind, write_header};
use crate::layout::mapping::{self, Mapping, Parts};
use crate::layout::overcommit;
use crate::layout::ticks::TickSource;
use crate::system::pids::own_pid;

/// A mapped trace area.
#[derive(Debug)]
pub struct Area {
    memory: Memory,
    id: AreaId,
    owner: u32,
    ticks: TickSource,
    /// Whether the area's processes are in this process's pid namespace, so that pids and tids mean
    /// the same here and there.
    is_in_own_namespace: bool,
}

#[derive(Debug)]
enum Memory {
    /// This process's own area, which it has mapped for good. It needs no descriptor.
    Own(Parts<'static>),
    Other {
        fixed: Arc<Mapping>,
        windows: MappedWindows,
    },
}

/// The word of a stream that its reader sleeps on
/// ([`waiting`](tracer_common::area::StreamControl::waiting)). The word can be read as long as this
/// value lives, whatever becomes of the stream.
#[derive(Debug)]
struct MappedWord {
    /// The mapping that the word lies in; `None` for one that this process has mapped for good.
    fixed: Option<Arc<Mapping>>,
    parts: Parts<'static>,
    slot: usize,
}

impl WaitingWord for MappedWord {
    fn word(&self) -> &AtomicU32 {
        static NOTHING: AtomicU32 = AtomicU32::new(0);
        let mapped = self
            .fixed
            .as_ref()
            .and_then(|fixed| Parts::new(fixed.words()));
        let control = mapped.unwrap_or(self.parts).stream(self.slot);
        control.map_or(&NOTHING, |control| &control.waiting)
    }
}

impl Area {
    /// Returns the area of this process; the library makes it when it is loaded.
    #[must_use]
    pub fn own() -> Option<Self> {
        let parts = process::parts_if_ready().or_else(start::parts_made_ready)?;
        let ticks = TickSource::agreed(&parts.header().clock)?;
        Some(Self {
            memory: Memory::Own(parts),
            id: process::area_id(),
            // SAFETY: takes nothing and cannot fail.
            owner: unsafe { libc::geteuid() },
            ticks,
            is_in_own_namespace: true,
        })
    }

    /// Returns the area that process `pid` emits into, or `None` where it has none (yet).
    ///
    /// # Errors
    ///
    /// See [`FindError`].
    pub fn find(pid: i32) -> Result<Option<Self>, FindError> {
        if pid == own_pid() {
            return Ok(Self::own());
        }
        if !is_process(pid) {
            return Err(FindError::NoSuchProcess { pid });
        }
        if is_strictly_confined(pid) {
            return Err(FindError::Confined { pid });
        }
        match belonging::file_of(pid)? {
            Belonging::None => Ok(None),
            Belonging::Foreign => Err(FindError::Unreadable { pid }),
            Belonging::Area(file) => {
                let mut area = Self::of_file(file, pid)?;
                area.is_in_own_namespace = liveness::is_in_own_namespace(pid);
                Ok(Some(area))
            }
        }
    }

    /// Returns the area of process `pid`, which comes as a file. That process is in this process's
    /// pid namespace.
    pub(crate) fn of_file(file: OwnedFd, pid: i32) -> Result<Self, FindError> {
        let area = Self::open(file).map_err(|source| FindError::Map { pid, source })?;
        area.ok_or(FindError::Unreadable { pid })
    }

    /// Makes an area to hand to a command that is about to be started: the descriptor is
    /// inherited over exec, and the library in the new program takes it up.
    ///
    /// # Errors
    ///
    /// The error of `memfd_create()`, `ftruncate()` or `mmap()`.
    pub fn for_command() -> io::Result<Self> {
        let file = mapping::create_file()?;
        {
            let fixed = Mapping::new(file.as_fd(), 0, DATA_OFFSET)?;
            if let Some(parts) = Parts::new(fixed.words()) {
                if !overcommit::provide_new(parts) {
                    return Err(io::ErrorKind::OutOfMemory.into());
                }
                write_header(parts);
            }
        }
        let file = mapping::move_high(file.as_fd()).unwrap_or(file);
        Self::open(file)?.ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))
    }

    /// Returns a descriptor of the area to be inherited over exec, where the library in the new
    /// program looks for it. It is closed on exec until the caller takes that flag off. Only a
    /// program of this process's effective user can open the area by it.
    ///
    /// # Errors
    ///
    /// No descriptor is available.
    pub fn to_be_inherited(&self) -> io::Result<OwnedFd> {
        match self.file() {
            Some(file) => mapping::to_hand_on(file),
            None => Err(io::Error::from_raw_os_error(libc::EBADF)),
        }
    }

    /// Returns the area's descriptor, if this is not the process's own.
    #[must_use]
    pub fn file(&self) -> Option<BorrowedFd<'_>> {
        match &self.memory {
            Memory::Own(_) => None,
            Memory::Other { windows, .. } => Some(windows.file()),
        }
    }

    /// Returns the area's identity: two mappings of the same area have the same.
    #[must_use]
    pub fn id(&self) -> AreaId {
        self.id
    }

    /// Tells whether process `pid` uses this area now, as the kernel says.
    #[must_use]
    pub fn is_used_by(id: AreaId, pid: i32) -> bool {
        belonging::is_mapped_by(pid, id.inode)
    }

    /// Returns the user whose area it is.
    #[must_use]
    pub fn owner(&self) -> u32 {
        self.owner
    }

    /// Tells whether this process may give memory of the area back. That waits for the lock of the
    /// area's file. Another user whose area it is may hold that lock for ever, and a thread that
    /// waits for it cannot even be killed.
    pub(crate) fn may_be_released(&self) -> bool {
        // SAFETY: has no preconditions and cannot fail.
        self.is_own() || self.owner == unsafe { libc::geteuid() }
    }

    /// Returns when the area was made.
    #[must_use]
    pub fn created(&self) -> MonotonicNs {
        let created = |parts: Parts<'_>| parts.header().created.load(Relaxed);
        MonotonicNs(self.parts().map_or(0, created))
    }

    /// Maps the area behind a descriptor. `None` when the file is no area, or one of another
    /// version; `WouldBlock` when the area is just being made.
    fn open(file: OwnedFd) -> io::Result<Option<Self>> {
        match kind(&file) {
            Kind::Area { .. } => {}
            Kind::Unfinished => return Err(io::ErrorKind::WouldBlock.into()),
            Kind::Foreign => return Ok(None),
            Kind::Unknown => return Err(io::ErrorKind::OutOfMemory.into()),
        }
        let facts = mapping::facts(file.as_raw_fd())?;
        let fixed = Mapping::new(file.as_fd(), 0, DATA_OFFSET)?;
        let ticks =
            Parts::new(fixed.words()).and_then(|parts| TickSource::agreed(&parts.header().clock));
        let id = AreaId {
            device: facts.device,
            inode: facts.inode,
        };
        Ok(ticks.map(|ticks| Self {
            memory: Memory::Other {
                fixed: Arc::new(fixed),
                windows: MappedWindows::new(file, mapping::windows_in(facts.bytes)),
            },
            id,
            owner: facts.owner,
            ticks,
            is_in_own_namespace: true,
        }))
    }

    pub(crate) fn parts(&self) -> Option<Parts<'_>> {
        match &self.memory {
            Memory::Own(parts) => Some(*parts),
            Memory::Other { fixed, .. } => Parts::new(fixed.words()),
        }
    }

    /// Returns the word that the reader of a stream sleeps on.
    pub(crate) fn waiting_word(&self, slot: usize) -> Option<Box<dyn WaitingWord>> {
        let fixed = match &self.memory {
            Memory::Own(_) => None,
            Memory::Other { fixed, .. } => Some(Arc::clone(fixed)),
        };
        Some(Box::new(MappedWord {
            fixed,
            parts: process::parts_if_ready()?,
            slot,
        }))
    }

    /// Gives up windows of another process's area that were not looked at for long, where many are
    /// mapped.
    pub(crate) fn trim_windows(&mut self) {
        if let Memory::Other { windows, .. } = &mut self.memory {
            windows.trim();
        }
    }

    pub(crate) fn windows(&self) -> AreaWindows<'_> {
        match &self.memory {
            Memory::Own(_) => AreaWindows::Own,
            Memory::Other { windows, .. } => AreaWindows::Mapped(windows),
        }
    }

    pub(crate) fn ticks(&self) -> TickSource {
        self.ticks
    }

    /// Tells whether this is the process's own area.
    pub(crate) fn is_own(&self) -> bool {
        matches!(self.memory, Memory::Own(_))
    }

    /// Tells whether pids and tids that the area names are those of this process's pid namespace.
    pub(crate) fn is_in_own_namespace(&self) -> bool {
        self.is_in_own_namespace
    }

    /// Tells whether a thread that the area names has ended for certain.
    pub(crate) fn has_ended(&self, (pid, tid): (i32, i32)) -> bool {
        self.is_in_own_namespace && liveness::has_ended(pid, tid)
    }
}

/// Why the trace area of a process is not available.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FindError {
    /// `ESRCH`.
    #[error("no process has pid {pid}")]
    NoSuchProcess {
        /// The process asked for.
        pid: i32,
    },
    /// `EPERM`; `ENOMEM`, `EMFILE` or `ENFILE` where that is what was lacking.
    #[error("not permitted to look into process {pid}")]
    NotPermitted {
        /// The process asked for.
        pid: i32,
        /// The kernel's error.
        source: io::Error,
    },
    /// `EPERM`.
    #[error(
        "process {pid} is confined to read() and write() (SECCOMP_MODE_STRICT): its first event would end it"
    )]
    Confined {
        /// The process asked for.
        pid: i32,
    },
    /// `EPERM`. The process has closed the area's descriptor. The kernel shows a file that is only
    /// mapped to processes with a capability.
    #[error(
        "process {pid} has a trace area, of which it has closed the descriptor: what is only mapped the kernel shows to \
         those with CAP_CHECKPOINT_RESTORE or CAP_SYS_ADMIN"
    )]
    OnlyMapped {
        /// The process asked for.
        pid: i32,
    },
    /// `EPERM`. The process could have no file for its area.
    #[error(
        "the trace area of process {pid} is memory of its own, which no other process can have: it could make no file (by RLIMIT_FSIZE, a \
         filter of system calls, or for lack of descriptors or memory)"
    )]
    WithoutFile {
        /// The process asked for.
        pid: i32,
    },
    /// The area is not one that this library can read.
    #[error("the trace area of process {pid} is damaged or of another version")]
    Unreadable {
        /// The process asked for.
        pid: i32,
    },
    /// A system call failed: `EMFILE` or `ENFILE` where no descriptor was left, else `ENOMEM`.
    #[error("cannot map the trace area of process {pid}")]
    Map {
        /// The process asked for.
        pid: i32,
        /// The kernel's error.
        source: io::Error,
    },
}

impl FindError {
    /// Returns the error number that the C functions return for it.
    #[must_use]
    pub fn error_number(&self) -> c_int {
        match self {
            Self::NoSuchProcess { .. } => libc::ESRCH,
            // The C library had no memory to read a folder.
            Self::NotPermitted { source, .. } if source.raw_os_error() == Some(libc::ENOMEM) => {
                libc::ENOMEM
            }
            Self::NotPermitted { source, .. } | Self::Map { source, .. }
                if lacks_descriptors(source) =>
            {
                source.raw_os_error().unwrap_or(libc::EMFILE)
            }
            Self::NotPermitted { .. }
            | Self::OnlyMapped { .. }
            | Self::WithoutFile { .. }
            | Self::Confined { .. }
            | Self::Unreadable { .. } => libc::EPERM,
            Self::Map { .. } => libc::ENOMEM,
        }
    }

    /// Tells whether the area may be found later: this process lacks descriptors or memory now, or
    /// the area's owner has a lease on its file.
    #[must_use]
    pub fn is_for_lack(&self) -> bool {
        let (Self::NotPermitted { source, .. } | Self::Map { source, .. }) = self else {
            return false;
        };
        matches!(
            source.raw_os_error(),
            Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::EAGAIN)
        )
    }
}

/// Tells whether something failed for want of a descriptor, of this process or of the machine.
fn lacks_descriptors(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

#[cfg(test)]
mod tests {
    use tracer_common::area::clock;

    use super::*;
    use crate::layout::ticks::monotonic_now;

    #[test]
    fn a_new_area_has_no_clock_until_a_controller_opens_it() {
        let file = mapping::create_file().unwrap();
        let fixed = Mapping::new(file.as_fd(), 0, DATA_OFFSET).unwrap();
        let parts = Parts::new(fixed.words()).unwrap();
        let before = monotonic_now();
        write_header(parts);
        let clock = &parts.header().clock;
        assert_eq!(clock.load(Relaxed), clock::UNDECIDED);

        let area = Area::open(file).unwrap().unwrap();

        assert_ne!(clock.load(Relaxed), clock::UNDECIDED);
        assert_eq!(TickSource::agreed(clock), Some(area.ticks()));
        assert!((before..=monotonic_now()).contains(&area.created()));
    }

    #[test]
    fn an_area_with_an_unknown_clock_is_of_another_version() {
        let file = mapping::create_file().unwrap();
        let fixed = Mapping::new(file.as_fd(), 0, DATA_OFFSET).unwrap();
        let parts = Parts::new(fixed.words()).unwrap();
        write_header(parts);
        parts.header().clock.store(77, Relaxed);

        assert!(Area::open(file).unwrap().is_none());
    }
}
