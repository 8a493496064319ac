//! Events for asynchronous functions, by two executors: tokio's, and one that is nothing but a
//! thread.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::task::{Context, Poll, Wake};
use std::thread::{self, Thread};
use std::time::Duration;

use futures_core::Stream as _;
use tracer_posix::{AsyncStream, Attributes, EventTypeId, OwnedEvent, Stream, UserEvent};

/// Streams on this process see all of its threads: one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future, as the least executor that there is.
fn run<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Arc::new(Unpark(thread::current())).into();
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(done) = future.as_mut().poll(&mut context) {
            return done;
        }
        thread::park();
    }
}

async fn next(events: &mut AsyncStream) -> Option<OwnedEvent> {
    poll_fn(|task| Pin::new(&mut *events).poll_next(task)).await
}

fn running() -> AsyncStream {
    let mut stream = Stream::create_for_self(&Attributes::default()).unwrap();
    stream.start();
    stream.into_async().unwrap()
}

/// Reads events, each of which is emitted when the one before was read.
async fn ping_pong(mut events: AsyncStream) {
    const ROUNDS: u32 = 2000;
    let event = UserEvent::open("asynchronous").unwrap();
    let (read, has_read) = mpsc::channel::<()>();
    let emitting = thread::spawn(move || {
        for round in 0..ROUNDS {
            event.emit(&round.to_ne_bytes());
            has_read.recv().unwrap();
        }
    });
    assert_eq!(
        next(&mut events).await.unwrap().header.event_type,
        EventTypeId::START
    );
    for round in 0..ROUNDS {
        let event = next(&mut events).await.unwrap();
        assert_eq!(event.name, "asynchronous");
        assert_eq!(event.data, round.to_ne_bytes());
        read.send(()).unwrap();
    }
    emitting.join().unwrap();
    events.get_mut().stop();
    assert_eq!(next(&mut events).await.unwrap().name, "posix_trace_stop");
    assert_eq!(next(&mut events).await, None);
}

#[test]
fn each_event_wakes_a_task_of_any_executor() {
    let _alone = alone();
    run(ping_pong(running()));
}

#[test]
fn each_event_wakes_a_task_of_tokio() {
    let _alone = alone();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    runtime.block_on(ping_pong(running()));
}

/// A task that ends, with its stream, as soon as it is woken: on the thread that wakes it.
struct EndsWhenWoken(Mutex<Option<AsyncStream>>, mpsc::Sender<()>);

impl Wake for EndsWhenWoken {
    fn wake(self: Arc<Self>) {
        *self.0.lock().unwrap() = None;
        self.1.send(()).unwrap();
    }
}

#[test]
fn a_stream_that_is_dropped_by_the_woken_thread_holds_no_thread_up() {
    let _alone = alone();
    let event = UserEvent::open("ends its reader").unwrap();
    let (dropped, was_dropped) = mpsc::channel::<()>();
    let task = Arc::new(EndsWhenWoken(Mutex::new(Some(running())), dropped));
    let waker = Arc::clone(&task).into();
    let mut context = Context::from_waker(&waker);
    loop {
        let mut events = task.0.lock().unwrap();
        let Some(events) = events.as_mut() else {
            break;
        };
        if Pin::new(events).poll_next(&mut context).is_pending() {
            break;
        }
    }
    event.emit(b"");
    was_dropped.recv_timeout(Duration::from_secs(20)).unwrap();
    assert!(task.0.lock().unwrap().is_none());
}

#[test]
fn a_task_with_a_stream_may_move_between_threads() {
    fn may_move<T: Send>() {}
    may_move::<AsyncStream>();
    may_move::<Stream>();
}

#[test]
fn a_stream_ends_with_its_process() {
    let _alone = alone();
    let mut child = Command::new("sleep").arg("0.3").spawn().unwrap();
    let pid = child.id().cast_signed();
    let mut stream = Stream::create(pid, &Attributes::default()).unwrap();
    stream.start();
    let mut events = stream.into_async().unwrap();
    run(async {
        assert!(next(&mut events).await.is_some());
        assert_eq!(next(&mut events).await, None);
    });
    child.wait().unwrap();
}

#[test]
fn a_stream_is_dropped_while_a_task_waits() {
    let _alone = alone();
    let (waits, has_waited) = mpsc::channel::<()>();
    let waiting = thread::spawn(move || {
        let mut events = running();
        run(async {
            next(&mut events).await.unwrap();
            let mut first = true;
            let nothing = poll_fn(|task| {
                let polled = Pin::new(&mut events).poll_next(task);
                if std::mem::take(&mut first) {
                    waits.send(()).unwrap();
                    return polled.map(|_| ());
                }
                Poll::Ready(())
            });
            nothing.await;
        });
    });
    has_waited.recv().unwrap();
    thread::sleep(Duration::from_millis(20));
    UserEvent::open("ends it").unwrap().emit(b"");
    waiting.join().unwrap();
    // Its threads end by themselves.
    let names = || {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap();
        tasks
            .filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok())
            .filter(|name| name.trim() == "posix-trace")
            .count()
    };
    for _ in 0..1000 {
        if names() == 0 {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("{} threads are left", names());
}
