//! A file that is written to even when others make it non-blocking.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;

/// File that is written to even when another process that shares it has made it non-blocking, as
/// some shells and terminals do.
pub struct BlockingFile(pub File);

impl Write for BlockingFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match self.0.write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.wait(),
                result => return result,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl BlockingFile {
    fn wait(&self) {
        let mut poll = libc::pollfd {
            fd: self.0.as_raw_fd(),
            events: libc::POLLOUT,
            revents: 0,
        };
        // SAFETY: `poll` is one valid `pollfd`, as the second argument says.
        // Whatever it returns, the next write shows more.
        unsafe { libc::poll(&raw mut poll, 1, 1000) };
    }
}
