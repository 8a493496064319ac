//! A descriptor that can be read when a stream has an event.

use std::io;
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use super::Stream;

/// How often the reader looks at a stream whose emitters cannot all wake it.
const LOOK_EVERY_NS: libc::c_long = 1_000_000;

/// The descriptor that becomes readable.
#[derive(Clone, Debug)]
pub(super) enum Readiness {
    /// A copy of the bell's descriptor.
    Bell(Arc<OwnedFd>),
    /// A timer: events from the agent wake no reader.
    Timer(Arc<OwnedFd>),
}

impl Stream {
    /// Turns the stream into one with a descriptor, for a program that polls it together with
    /// sockets and timers.
    ///
    /// # Errors
    ///
    /// No descriptor or no thread is available.
    pub fn into_pollable(mut self) -> io::Result<PollableStream> {
        let readiness = self.make_readiness()?;
        let (Readiness::Bell(file) | Readiness::Timer(file)) = readiness.clone();
        self.readiness = Some(readiness);
        // Events may be there already.
        self.ring();
        Ok(PollableStream { stream: self, file })
    }

    fn make_readiness(&mut self) -> io::Result<Readiness> {
        let Some(bell) = self.announce_sleep() else {
            return timer().map(Arc::new).map(Readiness::Timer);
        };
        // No other thread ever sleeps at it: the bell belongs to this stream, which has one reader.
        bell.take();
        let file = bell.file().ok_or(io::ErrorKind::NotFound)?;
        // SAFETY: the bell has just found it open, and keeps it open.
        let file = unsafe { BorrowedFd::borrow_raw(file) };
        let copy = file.try_clone_to_owned()?;
        Ok(Readiness::Bell(Arc::new(copy)))
    }

    /// Resets the descriptor, if no event is there: the next event makes it readable.
    pub(super) fn wait_for_next(&mut self) {
        match &self.readiness {
            Some(Readiness::Bell(_)) => {
                if let Some(bell) = &self.bell {
                    bell.leave();
                    bell.take();
                }
            }
            Some(Readiness::Timer(timer)) => expire(timer),
            None => return,
        }
        // Events from here on ring the bell; this collects those before.
        self.stream.announce_sleep();
        self.stream.fetch();
        if self.stream.held() > 0 {
            self.ring();
        }
    }
}

/// A stream with a descriptor that can be read when there is an event, or when the stream was
/// started or stopped.
///
/// Once the descriptor can be read, call [`try_next`](Stream::try_next) until it returns `None`:
/// from then on the descriptor cannot be read until there is more. The program need not read
/// anything from the descriptor.
///
/// A stream with events of programs alone has a thread, which sleeps. If the stream has the
/// kernel's events, or if the process has not loaded the library yet, the descriptor is a timer of
/// one millisecond instead. The end of the traced process does not make it readable.
///
/// ```
/// use std::os::fd::{AsFd, AsRawFd};
/// use tracer_posix::{Attributes, Stream, UserEvent};
///
/// let request = UserEvent::open("request")?;
/// let mut stream = Stream::create_for_self(&Attributes::default())?.into_pollable()?;
/// stream.start();
/// request.emit(b"hello");
/// let mut polled = libc::pollfd {
///     fd: stream.as_fd().as_raw_fd(),
///     events: libc::POLLIN,
///     revents: 0,
/// };
/// assert_eq!(unsafe { libc::poll(&mut polled, 1, -1) }, 1);
/// while let Some(traced) = stream.try_next() {
///     println!("{}", traced.name());
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct PollableStream {
    stream: Stream,
    pub(super) file: Arc<OwnedFd>,
}

impl PollableStream {
    /// Returns the stream without its descriptor.
    #[must_use]
    pub fn into_stream(mut self) -> Stream {
        if let Some(bell) = &self.stream.bell {
            bell.leave();
        }
        self.stream.readiness = None;
        self.stream
    }
}

impl Deref for PollableStream {
    type Target = Stream;

    fn deref(&self) -> &Stream {
        &self.stream
    }
}

impl DerefMut for PollableStream {
    fn deref_mut(&mut self) -> &mut Stream {
        &mut self.stream
    }
}

impl AsFd for PollableStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl AsRawFd for PollableStream {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

/// Returns a timer that expires again and again.
fn timer() -> io::Result<OwnedFd> {
    let flags = libc::TFD_NONBLOCK | libc::TFD_CLOEXEC;
    // SAFETY: takes no pointers.
    let timer = unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, flags) };
    if timer < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just opened, and no other value owns it.
    let timer = unsafe { OwnedFd::from_raw_fd(timer) };
    let time = libc::timespec {
        tv_sec: 0,
        tv_nsec: LOOK_EVERY_NS,
    };
    let times = libc::itimerspec {
        it_interval: time,
        it_value: time,
    };
    // SAFETY: valid times; the old ones are not asked for.
    let set = unsafe {
        libc::timerfd_settime(timer.as_raw_fd(), 0, &raw const times, std::ptr::null_mut())
    };
    if set < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(timer)
}

/// Empties the timer, which cannot be read until it expires again.
fn expire(timer: &OwnedFd) {
    let mut count = [0_u8; 8];
    // SAFETY: there is space for so many bytes; it does not wait.
    unsafe { libc::read(timer.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
}
