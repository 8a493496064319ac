//! Closing of what clients have sent.
//!
//! Who closes a file may wait for it: a file system that a process serves (FUSE) is asked to flush
//! what it has, a socket may linger until it has sent everything. So files that a client has sent
//! are received and closed in a thread of their own, and the client's place among the connections
//! is taken for as long: a user who has the agent wait takes places of its own only.
//!
//! Files in messages that were never received are closed as the connection is, in such a thread
//! too. A socket that lingers ends that for a signal, which a timer sends; a file system that has
//! writes to pass on does not. Connections of clients without a place wait for some threads that
//! close them one after another.

use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::thread;
use std::time::Duration;

use tokio::net::UnixStream;
use tokio::sync::oneshot;

use super::server::Slot;

/// Stack of a thread that receives or closes.
const STACK_BYTES: usize = 256 << 10;

/// Interval of the signals that end a wait.
const NUDGE: Duration = Duration::from_millis(1);

/// Files that a client has sent. They are closed in another thread, whatever becomes of this.
#[derive(Debug)]
pub struct SentFiles {
    files: Vec<OwnedFd>,
    slot: Slot,
}

impl SentFiles {
    /// Makes it, for files of the client that has this place.
    pub fn new(files: Vec<OwnedFd>, slot: &Slot) -> Self {
        Self {
            files,
            slot: slot.clone(),
        }
    }

    /// Returns the files.
    pub fn as_slice(&self) -> &[OwnedFd] {
        &self.files
    }

    /// Adds others.
    pub fn append(&mut self, mut others: Self) {
        self.files.append(&mut others.files);
    }

    /// Closes them, however long that takes.
    pub async fn close(mut self) {
        let files = std::mem::take(&mut self.files);
        if !files.is_empty() {
            // The files are closed where no thread begins, too.
            if let Ok(closed) = in_thread(self.slot.clone(), move || drop(files)) {
                let _ = closed.await;
            }
        }
    }
}

impl Drop for SentFiles {
    fn drop(&mut self) {
        let files = std::mem::take(&mut self.files);
        if !files.is_empty() {
            let _closed = in_thread(self.slot.clone(), move || drop(files));
        }
    }
}

/// Runs something that may wait in a thread of its own, and holds something, such as the client's
/// place, until it ends. Returns what gives its result.
///
/// # Errors
///
/// No thread can be made.
pub fn in_thread<T, F, H>(held: H, run: F) -> io::Result<oneshot::Receiver<T>>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
    H: Send + 'static,
{
    let (reply, replied) = oneshot::channel();
    let begun = thread::Builder::new().stack_size(STACK_BYTES);
    begun.spawn(move || {
        // The one that asked may be gone.
        let _ = reply.send(run());
        drop(held);
    })?;
    Ok(replied)
}

/// Connection that is closed without a wait.
#[derive(Debug)]
pub struct ClosingConnection {
    stream: ManuallyDrop<UnixStream>,
    /// The client's place, where it has one.
    slot: Option<Slot>,
}

impl ClosingConnection {
    /// Makes it of a connection.
    pub fn new(stream: UnixStream) -> Self {
        Self {
            stream: ManuallyDrop::new(stream),
            slot: None,
        }
    }

    /// Notes the client's place, which is taken until the connection is closed.
    pub fn take_place(&mut self, slot: &Slot) {
        self.slot = Some(slot.clone());
    }

    /// Returns the connection.
    pub fn stream(&self) -> &UnixStream {
        &self.stream
    }

    /// Returns the connection, to be written to.
    pub fn stream_mut(&mut self) -> &mut UnixStream {
        &mut self.stream
    }
}

impl Drop for ClosingConnection {
    fn drop(&mut self) {
        let socket = self.stream.as_raw_fd();
        // Nothing more comes.
        // SAFETY: takes integers only.
        unsafe { libc::shutdown(socket, libc::SHUT_RD) };
        // SAFETY: it is not used any more.
        let stream = unsafe { ManuallyDrop::take(&mut self.stream) };
        if !has_unread(socket) {
            return;
        }
        let Ok(stream) = stream.into_std() else {
            return;
        };
        match self.slot.take() {
            Some(slot) => {
                // Where no thread begins it stays open: to close it here might take for ever.
                let stream = ManuallyDrop::new(stream);
                let _closed = in_thread(slot, move || close(ManuallyDrop::into_inner(stream)));
            }
            None => Refused::close(stream),
        }
    }
}

/// Closes a connection; signals end the wait for a socket that lingers.
fn close(stream: net::UnixStream) {
    let nudged = Nudged::begin();
    drop(stream);
    drop(nudged);
}

/// Connections of clients without a place.
#[derive(Debug)]
struct Refused {
    /// Those that no thread closes yet.
    waiting: Vec<net::UnixStream>,
    /// Threads that close them.
    threads: usize,
}

impl Refused {
    /// Most threads: more connections wait until one of these has closed another.
    const MOST_THREADS: usize = 32;

    fn all() -> MutexGuard<'static, Self> {
        static ALL: Mutex<Refused> = Mutex::new(Refused {
            waiting: Vec::new(),
            threads: 0,
        });
        ALL.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has a connection closed.
    fn close(stream: net::UnixStream) {
        let mut all = Self::all();
        all.waiting.push(stream);
        if all.threads == Self::MOST_THREADS {
            return;
        }
        all.threads += 1;
        let close_each = || {
            while let Some(stream) = Self::next() {
                close(stream);
            }
        };
        if in_thread((), close_each).is_err() {
            all.threads -= 1;
        }
    }

    /// Returns the next connection. The thread ends where there is none.
    fn next() -> Option<net::UnixStream> {
        let mut all = Self::all();
        let next = all.waiting.pop();
        if next.is_none() {
            all.threads -= 1;
        }
        next
    }
}

/// Tells whether there are bytes that were not received, with which files may have come.
fn has_unread(socket: libc::c_int) -> bool {
    let mut bytes: libc::c_int = 0;
    // SAFETY: it is written to where it is.
    let failed = unsafe { libc::ioctl(socket, libc::FIONREAD, &raw mut bytes) };
    failed != 0 || bytes > 0
}

/// Timer that sends this thread a signal again and again, so that waits end that a signal ends.
#[derive(Debug)]
struct Nudged(libc::timer_t);

impl Nudged {
    fn begin() -> io::Result<Self> {
        ignore_nudges();
        // SAFETY: all-zero bytes are valid.
        let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = libc::SIGURG;
        // SAFETY: takes nothing, and cannot fail.
        event.sigev_notify_thread_id = unsafe { libc::gettid() };
        let mut timer: libc::timer_t = std::ptr::null_mut();
        // SAFETY: both are valid; the timer is written where it is.
        let failed =
            unsafe { libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer) };
        if failed != 0 {
            return Err(io::Error::last_os_error());
        }
        let timer = Self(timer);
        let each = libc::timespec {
            tv_sec: 0,
            tv_nsec: NUDGE.subsec_nanos().into(),
        };
        let times = libc::itimerspec {
            it_interval: each,
            it_value: each,
        };
        // SAFETY: the timer is there, and the times are valid.
        let failed =
            unsafe { libc::timer_settime(timer.0, 0, &raw const times, std::ptr::null_mut()) };
        if failed == 0 {
            Ok(timer)
        } else {
            Err(io::Error::last_os_error())
        }
    }
}

impl Drop for Nudged {
    fn drop(&mut self) {
        // SAFETY: it was made, and is not used any more.
        unsafe { libc::timer_delete(self.0) };
    }
}

/// Handles the signal: one that is ignored ends no wait.
fn ignore_nudges() {
    extern "C" fn nothing(_signal: libc::c_int) {}
    static HANDLED: Once = Once::new();
    HANDLED.call_once(|| {
        // SAFETY: all-zero bytes are an action without flags but those set here.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as usize;
        action.sa_flags = libc::SA_RESTART;
        // SAFETY: the action is valid; the function may run at any moment.
        unsafe { libc::sigaction(libc::SIGURG, &raw const action, std::ptr::null_mut()) };
    });
}

/// Tells whether files come with the next bytes, which stay where they are; and how many these are.
///
/// # Errors
///
/// The system's error: `WouldBlock` where nothing has come.
pub fn peek(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<(usize, bool)> {
    let mut part = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    // SAFETY: all-zero bytes are a header that names nothing.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = &raw mut part;
    header.msg_iovlen = 1;
    // SAFETY: the header names the buffer only, which is written to.
    let received = unsafe {
        libc::recvmsg(
            socket.as_raw_fd(),
            &raw mut header,
            libc::MSG_PEEK | libc::MSG_DONTWAIT,
        )
    };
    let bytes = usize::try_from(received).map_err(|_failed| io::Error::last_os_error())?;
    // There is no space for files: where some have come, that is said.
    Ok((bytes, header.msg_flags & libc::MSG_CTRUNC != 0))
}
