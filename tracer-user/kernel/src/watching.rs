//! Threads that watch what processes map, and tell the programs in the kernel.

use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;
use std::thread;

use super::mapped::MappingRings;

/// Reports of what processes map, which have begun, but which no thread takes yet.
#[derive(Debug)]
pub struct MappingWatcher {
    rings: Option<MappingRings>,
    stop: UnixStream,
    stopped: UnixStream,
}

/// Thread that watches until this is dropped.
#[derive(Debug)]
pub struct Watching {
    /// End of a pair of sockets, whose other end the thread waits for: when this end is closed, the
    /// thread ends.
    _stop: UnixStream,
}

/// The thread's own end of that pair.
#[derive(Debug)]
pub struct Stopped(UnixStream);

impl MappingWatcher {
    /// Begins the reports, where the kernel gives them.
    ///
    /// # Errors
    ///
    /// No descriptor is available.
    pub fn new() -> io::Result<Self> {
        let (stop, stopped) = UnixStream::pair()?;
        let rings = MappingRings::begin_waking();
        if let Err(error) = &rings {
            tracing::debug!(
                error = error as &dyn std::error::Error,
                "mappings are not reported, and looked up in /proc"
            );
        }
        Ok(Self {
            rings: rings.ok(),
            stop,
            stopped,
        })
    }

    /// Starts the thread, which is called `name` and takes the reports.
    ///
    /// # Errors
    ///
    /// No thread is available.
    pub fn start(
        self,
        name: &str,
        go_on: impl FnOnce(Option<MappingRings>, &Stopped) + Send + 'static,
    ) -> io::Result<Watching> {
        let (rings, stopped) = (self.rings, Stopped(self.stopped));
        let watcher = thread::Builder::new().name(name.to_owned());
        watcher.spawn(move || go_on(rings, &stopped))?;
        Ok(Watching { _stop: self.stop })
    }
}

impl Stopped {
    /// Waits until there are reports, or the thread is to end, for at most `timeout` milliseconds;
    /// -1: for as long as it takes. Returns whether the thread is to end.
    pub fn waits(&self, rings: Option<&MappingRings>, timeout: i32) -> bool {
        let fds = rings.map(MappingRings::fds).unwrap_or_default();
        let all = fds.iter().map(|fd| fd.as_raw_fd());
        let mut polled: Vec<libc::pollfd> = std::iter::once(self.0.as_raw_fd())
            .chain(all)
            .map(|fd| libc::pollfd {
                fd,
                events: libc::POLLIN,
                revents: 0,
            })
            .collect();
        // No descriptor says that there are reports that were kept back by the last call.
        let has_later = rings.is_some_and(MappingRings::has_later);
        let timeout = if has_later { 0 } else { timeout };
        let count = libc::nfds_t::try_from(polled.len()).unwrap_or(0);
        // SAFETY: it has that many entries, which it writes to.
        unsafe { libc::poll(polled.as_mut_ptr(), count, timeout) };
        polled.first().is_some_and(|stopped| stopped.revents != 0)
    }
}
