//! A controller's view of an area's windows.

use std::cell::RefCell;
use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;

use tracer_common::area::{DATA_OFFSET, WINDOW_BYTES};

use super::mapping::Mapping;
use super::pool::Windows;
use super::windows::OwnWindows;

/// Windows of another process's area, each mapped when it is first looked at.
#[derive(Debug)]
pub(super) struct MappedWindows {
    file: OwnedFd,
    /// How many the file has room for.
    count: usize,
    mapped: RefCell<HashMap<usize, Mapping>>,
}

impl MappedWindows {
    pub(super) fn new(file: OwnedFd, count: usize) -> Self {
        Self {
            file,
            count,
            mapped: RefCell::default(),
        }
    }

    pub(super) fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
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
        if let Some(mapping) = mapped.get(&index) {
            return Some(mapping.base());
        }
        let offset = DATA_OFFSET + index * WINDOW_BYTES;
        let mapping = Mapping::new(self.file.as_fd(), offset, WINDOW_BYTES).ok()?;
        Some(mapped.entry(index).or_insert(mapping).base())
    }
}

/// The windows of an area, whoever's it is.
#[derive(Clone, Copy)]
pub(super) enum AreaWindows<'a> {
    /// This process's own.
    Own,
    Mapped(&'a MappedWindows),
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
}
