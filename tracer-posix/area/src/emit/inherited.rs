//! Finding the area that the program before this one left open for it, or that of the parent.
//! Nothing here allocates memory, since it may run in the first emission of a program.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use tracer_common::area::MEMFD_LINK;

use crate::layout::file::{Kind, kind};
use crate::layout::mapping::{self, HIGH_DESCRIPTORS};

/// How the kernel shows an area's descriptor.
pub(crate) const LINK: &[u8] = MEMFD_LINK.as_bytes();

/// Returns a descriptor to map the area by that was inherited over exec, if there is one.
#[inline]
pub(super) fn take() -> Option<OwnedFd> {
    if is_privileged_program() {
        return None;
    }
    let mut youngest: Option<(u64, OwnedFd)> = None;
    let mut look = |raw: RawFd| {
        // A command that a traced process started with an area made for it has two areas. The one
        // that was made for it is the younger.
        if let Some((created, file)) = area_behind(raw)
            && youngest.as_ref().is_none_or(|(best, _)| created > *best)
        {
            youngest = Some((created, file));
        }
    };
    if for_each_high_descriptor(&mut look).is_none() {
        for_each_descriptor(&mut look)?;
    }
    youngest.map(|(_, file)| file)
}

/// Opens the area of the parent process, of which this program inherited no descriptor. `None`
/// where the parent has no area, or this process may not open it.
///
/// A process passes its area on from its first event on that a stream with inheritance records. One
/// that has emitted nothing since another process began to trace it does not know of the stream.
/// Where the area's descriptor is not the first of the high ones, the area is not found: every
/// program that is started pays for the look.
#[inline]
pub(super) fn take_from_parent() -> Option<OwnedFd> {
    // SAFETY: takes nothing and cannot fail.
    let parent = unsafe { libc::getppid() };
    if parent <= 1 || is_privileged_program() {
        return None;
    }
    let path = mapping::link_in(parent, HIGH_DESCRIPTORS.start);
    let how = libc::O_PATH | libc::O_CLOEXEC;
    // SAFETY: the path ends with a null.
    let raw = unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path.as_ptr(), how) };
    let raw = RawFd::try_from(raw).ok().filter(|raw| *raw >= 0)?;
    // SAFETY: a new descriptor that no other value owns.
    let file = unsafe { OwnedFd::from_raw_fd(raw) };
    is_area(raw)
        .then(|| open_area(&file))?
        .map(|(_, file)| file)
}

/// Tells whether this program has more rights than the process may have that started it.
#[inline]
fn is_privileged_program() -> bool {
    // SAFETY: takes no pointers.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// Looks at each high descriptor behind which an inherited area may be. Returns `None` where the
/// area may have another descriptor: this process may not have such high ones, or the last of them
/// is in use.
///
/// Every program that is started pays for the look: a call for each descriptor takes far less time
/// than reading `/proc/self/fd`. (An area is missed where the process before this one was not
/// allowed so high a descriptor, and raised its limit before the exec.)
#[inline]
fn for_each_high_descriptor(look_at: &mut impl FnMut(RawFd)) -> Option<()> {
    let end = u64::try_from(HIGH_DESCRIPTORS.end).unwrap_or(u64::MAX);
    // SAFETY: no pointer is passed; what is no descriptor is an error, not a fault.
    let is_open = |raw: RawFd| unsafe { libc::fcntl(raw, libc::F_GETFD) } >= 0;
    if mapping::descriptor_limit().ok()? < end || is_open(HIGH_DESCRIPTORS.end - 1) {
        return None;
    }
    HIGH_DESCRIPTORS
        .filter(|raw| is_handed_on(*raw))
        .for_each(look_at);
    Some(())
}

/// Looks at every descriptor that is open.
fn for_each_descriptor(look: &mut impl FnMut(RawFd)) -> Option<()> {
    let directory = open(c"/proc/self/fd")?;
    let mut buffer = [0_u8; 2048];
    loop {
        // SAFETY: the buffer is valid for as many bytes as are named.
        let read = unsafe {
            libc::syscall(
                libc::SYS_getdents64,
                directory.as_raw_fd(),
                buffer.as_mut_ptr(),
                buffer.len(),
            )
        };
        let entries = usize::try_from(read).unwrap_or(0);
        let Some(entries) = buffer.get(..entries).filter(|entries| !entries.is_empty()) else {
            return Some(());
        };
        descriptors(entries).for_each(&mut *look);
    }
}

/// Returns the descriptors that the entries of `getdents64` name: each entry is inode (8), offset
/// (8), length (2), type (1), name ended by a null.
fn descriptors(mut entries: &[u8]) -> impl Iterator<Item = RawFd> {
    const NAME_AT: usize = 19;
    std::iter::from_fn(move || {
        let length = u16::from_ne_bytes(*entries.get(16..)?.first_chunk()?);
        let (entry, rest) = entries.split_at_checked(usize::from(length).max(NAME_AT))?;
        entries = rest;
        // "." and ".." are no descriptors.
        Some(entry.get(NAME_AT..).and_then(descriptor))
    })
    .flatten()
}

/// Returns the descriptor that `name` spells. A null ends the name.
fn descriptor(name: &[u8]) -> Option<RawFd> {
    let digits = name
        .iter()
        .position(|&byte| byte == 0)
        .and_then(|end| name.get(..end))?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Returns when the area behind `raw` was made, and a descriptor to map it by. Closes `raw` where
/// it is the descriptor of an area.
fn area_behind(raw: RawFd) -> Option<(u64, OwnedFd)> {
    if !is_area(raw) {
        return None;
    }
    // SAFETY: it is an area's descriptor, which only this library opens: no other code uses it.
    open_area(&unsafe { OwnedFd::from_raw_fd(raw) })
}

/// Tells whether a descriptor is one by which an area is handed on.
fn is_area(raw: RawFd) -> bool {
    let path = mapping::link_of(raw);
    let mut link = [0_u8; 64];
    // SAFETY: `path` ends with a null; `link` is valid for as many bytes as are named.
    let length =
        unsafe { libc::readlink(path.as_ptr().cast(), link.as_mut_ptr().cast(), link.len()) };
    let is_named_so = usize::try_from(length).ok().and_then(|end| link.get(..end)) == Some(LINK);
    is_named_so && is_handed_on(raw)
}

/// Returns when an area was made, and a descriptor to map it by. `None` where it belongs to another
/// user: a process that has given privileges up reads nothing of those that have them, and a
/// privileged process takes nothing from those that are not.
fn open_area(handed_on: &OwnedFd) -> Option<(u64, OwnedFd)> {
    let file = mapping::open_anew(handed_on.as_raw_fd(), libc::O_RDWR).ok()?;
    // SAFETY: takes nothing and cannot fail.
    let user = unsafe { libc::geteuid() };
    let is_ours = mapping::facts(file.as_raw_fd()).is_ok_and(|facts| facts.is_only_for(user));
    match kind(&file) {
        Kind::Area { created } if is_ours => Some((created, file)),
        Kind::Area { .. } | Kind::Unfinished | Kind::Foreign | Kind::Unknown => None,
    }
}

/// Tells whether `raw` is a descriptor as areas are [handed on](mapping::to_hand_on) by.
pub(super) fn is_handed_on(raw: RawFd) -> bool {
    // SAFETY: no pointer is passed; what is no descriptor is an error, not a fault.
    let flags = unsafe { libc::fcntl(raw, libc::F_GETFL) };
    flags >= 0 && flags & libc::O_PATH != 0
}

fn open(path: &std::ffi::CStr) -> Option<OwnedFd> {
    // SAFETY: `path` is a string ended by a null.
    let raw = unsafe {
        libc::open(
            path.as_ptr(),
            libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC,
        )
    };
    // SAFETY: a new descriptor that no other value owns.
    (raw >= 0).then(|| unsafe { OwnedFd::from_raw_fd(raw) })
}
