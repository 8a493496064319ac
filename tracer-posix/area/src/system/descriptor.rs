//! Descriptors of this library in a program that may close them.
//!
//! A program that closes all open descriptors, as daemons do, closes those of the library too, and
//! then opens something else as the same descriptor. The library must never write to, read or close
//! what the program opens. So it knows its descriptors by what is behind them, and not by their
//! value alone.

use std::io;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::os::fd::{AsFd, AsRawFd, RawFd};

/// An object with a descriptor of this library.
#[derive(Debug)]
pub struct Guarded<T: AsFd> {
    open: ManuallyDrop<T>,
    identity: Identity,
}

/// Identity of the object behind a descriptor: a file, a socket, shared memory. While the object is
/// open no other object has the same identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    device: u64,
    pub inode: u64,
}

impl Identity {
    /// Returns the identity of the object behind a descriptor. It is an error where `raw` is none.
    pub fn read(raw: RawFd) -> io::Result<Self> {
        let mut stat = MaybeUninit::<libc::stat>::zeroed();
        // SAFETY: `stat` may be written to; what is no descriptor is an error, not a fault.
        if unsafe { libc::fstat(raw, stat.as_mut_ptr()) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: zeroed, then filled by the kernel: all of it is integers.
        let stat = unsafe { stat.assume_init() };
        Ok(Self {
            device: stat.st_dev,
            inode: stat.st_ino,
        })
    }
}

impl<T: AsFd> Guarded<T> {
    /// Guards an object that was just opened.
    pub fn new(open: T) -> io::Result<Self> {
        let identity = Identity::read(open.as_fd().as_raw_fd())?;
        Ok(Self {
            open: ManuallyDrop::new(open),
            identity,
        })
    }

    /// Returns the identity of the object behind it.
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// Returns its descriptor, whatever is behind that by now.
    pub fn raw(&self) -> RawFd {
        self.open.as_fd().as_raw_fd()
    }

    /// Returns the object, if it is still open: `EBADF` when the program has closed it.
    pub fn get(&self) -> io::Result<&T> {
        if self.is_open() {
            Ok(&self.open)
        } else {
            Err(io::Error::from_raw_os_error(libc::EBADF))
        }
    }

    fn is_open(&self) -> bool {
        Identity::read(self.raw()).is_ok_and(|now| now == self.identity)
    }
}

impl<T: AsFd> Drop for Guarded<T> {
    fn drop(&mut self) {
        if self.is_open() {
            // SAFETY: it is not used any more.
            unsafe { ManuallyDrop::drop(&mut self.open) };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::{FromRawFd, OwnedFd};

    use super::*;

    /// Opens something else as this descriptor.
    fn replace(raw: RawFd) {
        let other = tempfile::tempfile().unwrap();
        // SAFETY: takes no pointers; what was there is the test's.
        assert_eq!(unsafe { libc::dup2(other.as_raw_fd(), raw) }, raw);
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no dup2")]
    fn what_another_has_opened_as_the_same_descriptor_is_neither_used_nor_closed() {
        let guarded = Guarded::new(tempfile::tempfile().unwrap()).unwrap();
        assert!(guarded.get().is_ok());
        let raw = guarded.raw();
        replace(raw);

        assert_eq!(guarded.get().unwrap_err().raw_os_error(), Some(libc::EBADF));
        drop(guarded);

        // SAFETY: it is open, as the next line shows, and the test's.
        let other = File::from(unsafe { OwnedFd::from_raw_fd(raw) });
        assert!(other.metadata().is_ok());
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no fcntl for this")]
    fn a_guarded_descriptor_is_closed() {
        let guarded = Guarded::new(tempfile::tempfile().unwrap()).unwrap();
        let (raw, identity) = (guarded.raw(), guarded.identity());
        drop(guarded);

        // Another test may have the descriptor by now.
        assert_ne!(Identity::read(raw).ok(), Some(identity));
    }
}
