//! The file of an area: which one it is, and whether it is one.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use tracer_common::area::{DATA_OFFSET, MAGIC, VERSION};

use super::mapping::{self, Mapping, Parts};
use super::ticks::monotonic_from_kernel;

/// Identifies a trace area on this machine while it exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AreaId {
    /// Device of the memfd.
    pub device: u64,
    /// Inode of the memfd.
    pub inode: u64,
}

/// Kind of a file, as far as the search for an area distinguishes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// An area of a version that this library knows, sealed so that it can be mapped whichever
    /// process made it.
    Area {
        /// When it was made, on `CLOCK_MONOTONIC` in nanoseconds.
        created: u64,
    },
    /// An area that is just being made: its descriptor can be seen from the first moment on.
    Unfinished,
    /// Another file, or an area of another version.
    Foreign,
    /// Not known: there is no memory to look into it.
    Unknown,
}

/// Finds out what a file is.
pub(crate) fn kind(file: &OwnedFd) -> Kind {
    // In huge pages, or on a file system that a process serves, a page that is not there yet may
    // never become available.
    if !mapping::is_ordinary_memory(file) {
        return Kind::Foreign;
    }
    if !mapping::is_sealed(file) {
        return Kind::Unfinished;
    }
    if !mapping::facts(file.as_raw_fd()).is_ok_and(|facts| facts.bytes >= DATA_OFFSET as u64) {
        return Kind::Foreign;
    }
    let fixed = match Mapping::new(file.as_fd(), 0, DATA_OFFSET) {
        Ok(fixed) => fixed,
        Err(error) if error.kind() == io::ErrorKind::OutOfMemory => return Kind::Unknown,
        Err(_) => return Kind::Foreign,
    };
    let Some(header) = Parts::new(fixed.words()).map(Parts::header) else {
        return Kind::Foreign;
    };
    match header.magic.load(Acquire) {
        0 => Kind::Unfinished,
        MAGIC if header.version.load(Relaxed) == VERSION => Kind::Area {
            created: header.created.load(Relaxed),
        },
        _ => Kind::Foreign,
    }
}

/// Fills in the head of an area that no other process has seen yet.
#[inline(always)]
pub(crate) fn write_header(parts: Parts<'_>) {
    let header = parts.header();
    header.version.store(VERSION, Relaxed);
    header.created.store(monotonic_from_kernel(), Relaxed);
    header.magic.store(MAGIC, Release);
}
