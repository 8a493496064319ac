//! Events for asynchronous functions.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tracer_engine::event::OwnedEvent;

use super::active::Target;
use super::{PollableStream, Stream};
use crate::logged::BlockedSignals;

/// Stack of the thread that wakes tasks: it needs little, but the executor's waker runs on it.
const STACK_BYTES: usize = 256 << 10;

/// The events of a stream, as a stream of the crate `futures`. It ends where
/// [`next`](Stream::next) returns `None`.
///
/// It needs no particular executor: a thread of its own waits for the stream, and wakes the task.
///
/// ```
/// # use std::future::Future;
/// use futures_core::Stream as _;
/// use std::pin::pin;
/// use tracer_posix::{Attributes, Stream, UserEvent};
///
/// # struct Thread(std::thread::Thread);
/// # impl std::task::Wake for Thread {
/// #     fn wake(self: std::sync::Arc<Self>) {
/// #         self.0.unpark();
/// #     }
/// # }
/// # fn run<F: Future>(future: F) -> F::Output {
/// #     let mut future = pin!(future);
/// #     let waker = std::sync::Arc::new(Thread(std::thread::current())).into();
/// #     let mut context = std::task::Context::from_waker(&waker);
/// #     loop {
/// #         if let std::task::Poll::Ready(done) = future.as_mut().poll(&mut context) {
/// #             return done;
/// #         }
/// #         std::thread::park();
/// #     }
/// # }
/// let request = UserEvent::open("request")?;
/// let mut stream = Stream::create_for_self(&Attributes::default())?;
/// stream.start();
/// let mut events = stream.into_async()?;
/// std::thread::spawn(move || request.emit(b"hello"));
/// // As `StreamExt::next()` of the crate `futures` does.
/// let mut next = async || std::future::poll_fn(|task| pin!(&mut events).poll_next(task)).await;
/// run(async {
///     while let Some(event) = next().await {
///         println!("{} {:?}", event.name, event.data);
///         if event.data == b"hello" {
///             break;
///         }
///     }
/// });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct AsyncStream {
    stream: PollableStream,
    shared: Arc<Shared>,
}

/// State that a task shares with the thread that wakes it.
#[derive(Debug)]
struct Shared {
    /// The task that waits.
    state: Mutex<State>,
    changed: Condvar,
    /// The descriptor that the stream's events make readable.
    events: Arc<OwnedFd>,
    /// The descriptor that the end of the traced process makes readable, where no event comes after
    /// that.
    target: Option<Arc<OwnedFd>>,
    /// Readable when the thread has to end.
    end: OwnedFd,
}

#[derive(Debug)]
enum State {
    /// No task waits.
    Idle,
    /// A task waits.
    Waiting(Waker),
    /// The stream was dropped.
    Over,
}

impl Stream {
    /// Turns the stream into one whose events asynchronous functions wait for.
    ///
    /// # Errors
    ///
    /// No descriptor or no thread is available.
    pub fn into_async(self) -> io::Result<AsyncStream> {
        AsyncStream::new(self.into_pollable()?)
    }
}

impl AsyncStream {
    fn new(stream: PollableStream) -> io::Result<Self> {
        // SAFETY: takes no pointers.
        let end = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if end < 0 {
            return Err(io::Error::last_os_error());
        }
        let shared = Arc::new(Shared {
            state: Mutex::new(State::Idle),
            changed: Condvar::new(),
            events: Arc::clone(&stream.file),
            target: stream.target.as_ref().map(Target::file),
            // SAFETY: just opened, and no other value owns it.
            end: unsafe { OwnedFd::from_raw_fd(end) },
        });
        let waking = Arc::clone(&shared);
        // Signal handlers of the program run in the program's own threads.
        let blocked = BlockedSignals::new();
        let started = std::thread::Builder::new()
            .name("posix-trace".to_owned())
            .stack_size(STACK_BYTES)
            .spawn(move || waking.wake_when_readable());
        drop(blocked);
        started.map(|_detached| Self { stream, shared })
    }

    /// Returns the stream, for calls such as starting and stopping it.
    pub fn get_mut(&mut self) -> &mut Stream {
        &mut self.stream
    }
}

impl futures_core::Stream for AsyncStream {
    type Item = OwnedEvent;

    fn poll_next(self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Option<OwnedEvent>> {
        let this = self.get_mut();
        if let Some(event) = this.stream.try_next_owned() {
            return Poll::Ready(Some(event));
        }
        if this.stream.is_over() {
            return Poll::Ready(None);
        }
        // `try_next_owned()` found no event, so the next one makes the descriptor readable.
        this.shared.wait_for(task.waker().clone());
        Poll::Pending
    }
}

impl Drop for AsyncStream {
    fn drop(&mut self) {
        *self.shared.state() = State::Over;
        self.shared.changed.notify_all();
        let one = 1_u64.to_ne_bytes();
        // SAFETY: there are so many bytes; it does not wait.
        unsafe { libc::write(self.shared.end.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the thread wake a task once the stream has an event.
    fn wait_for(&self, waker: Waker) {
        *self.state() = State::Waiting(waker);
        self.changed.notify_all();
    }

    /// Runs the thread: whenever a task waits, waits for the descriptor, and wakes the task.
    fn wake_when_readable(&self) {
        loop {
            let mut state = self.state();
            while matches!(*state, State::Idle) {
                state = self
                    .changed
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
            }
            if matches!(*state, State::Over) {
                return;
            }
            drop(state);
            self.sleep();
            let mut state = self.state();
            // Wakes the task that waits now, which need not be the one from before.
            if let State::Waiting(waker) = &*state {
                let waker = waker.clone();
                *state = State::Idle;
                drop(state);
                // The task may end here, and the stream with it.
                waker.wake();
            }
        }
    }

    fn sleep(&self) {
        let polled = |fd: RawFd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        };
        // `poll()` ignores negative descriptors.
        let target = self.target.as_ref().map_or(-1, AsRawFd::as_raw_fd);
        let mut polled = [self.events.as_raw_fd(), self.end.as_raw_fd(), target].map(polled);
        // SAFETY: three valid entries.
        unsafe { libc::poll(polled.as_mut_ptr(), 3, -1) };
    }
}
