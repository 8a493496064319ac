//! Tests of a reader's common uses: names while events are held, waiting, going through them,
//! waiting for a descriptor.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::sync::mpsc;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tracer_common::event_type::TRACE_EVENT_NAME_MAX;
use tracer_posix::{
    Attributes, EventTypeId, Inheritance, LogReader, LoggedStream, OwnedEvent, PollableStream,
    Stream, StreamFullPolicy, UserEvent, UserSpan,
};

/// Streams on this process see all of its threads: one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Longer than anything takes that ends at all.
const LONG: Duration = Duration::from_secs(20);

fn running() -> Stream {
    let mut stream = Stream::create_for_self(&Attributes::default()).unwrap();
    stream.start();
    stream
}

#[test]
fn an_event_is_held_while_its_name_is_asked_for() {
    let _alone = alone();
    let event = UserEvent::open("held").unwrap();
    let mut stream = running();
    event.emit(b"one");
    event.emit(b"two");

    let mut found = Vec::new();
    while let Some(traced) = stream.try_next() {
        let id = traced.event.header.event_type;
        assert_eq!(traced.event_types().name(id), traced.name_bytes());
        found.push((traced.name().into_owned(), traced.event.data.to_vec()));
    }
    let found: Vec<_> = found
        .iter()
        .map(|(name, data)| (&**name, &**data))
        .collect();
    assert_eq!(found[0].0, "posix_trace_start");
    assert_eq!(found[1..], [("held", &b"one"[..]), ("held", b"two")]);
}

#[test]
fn an_event_that_is_owned_outlives_its_stream() {
    let _alone = alone();
    let event = UserEvent::open("owned").unwrap();
    let mut stream = running();
    event.emit(b"data");
    let owned: Vec<OwnedEvent> = stream.try_events().collect();
    // The stream is there to be asked, too.
    let types = stream.event_types();
    assert_eq!(types.name(owned[1].header.event_type), Some(&b"owned"[..]));
    drop(stream);

    let names: Vec<String> = owned.iter().map(|event| event.name.to_string()).collect();
    assert_eq!(names, ["posix_trace_start", "owned"]);
    assert_eq!(owned[1].data, b"data");
    assert_eq!(owned[1].as_event().data, b"data");
    assert!(owned[1].realtime >= owned[0].realtime);
}

#[test]
fn a_reader_that_waits_is_woken_by_each_event() {
    const ROUNDS: u32 = 2000;
    let _alone = alone();
    let event = UserEvent::open("wakes").unwrap();
    let mut stream = running();
    let (read, has_read) = mpsc::channel::<()>();
    let emitting = thread::spawn(move || {
        for round in 0..ROUNDS {
            event.emit(&round.to_ne_bytes());
            has_read.recv().unwrap();
        }
    });
    let mut next = 0_u32;
    while next < ROUNDS {
        let traced = stream.next().unwrap();
        if traced.event.header.event_type == EventTypeId::START {
            continue;
        }
        assert_eq!(traced.event.data, next.to_ne_bytes());
        next += 1;
        read.send(()).unwrap();
    }
    emitting.join().unwrap();
}

#[test]
fn waiting_ends_when_no_event_can_come() {
    let _alone = alone();
    let event = UserEvent::open("last").unwrap();
    let mut never_started = Stream::create_for_self(&Attributes::default()).unwrap();
    assert!(never_started.next().is_none());
    assert!(never_started.next_within(LONG).is_none());

    let mut stream = running();
    event.emit(b"");
    stream.stop();
    let names: Vec<String> = stream
        .events()
        .map(|event| event.name.to_string())
        .collect();
    assert_eq!(names, ["posix_trace_start", "last", "posix_trace_stop"]);
    assert!(stream.next().is_none());

    // It goes on when it is started again.
    stream.start();
    assert!(stream.next().is_some());
}

#[test]
fn a_full_stream_starts_again_while_it_is_waited_for() {
    let _alone = alone();
    let event = UserEvent::open("fills").unwrap();
    let attributes = Attributes::default()
        .with_stream_min_size(16 << 10)
        .with_stream_full_policy(StreamFullPolicy::UntilFull);
    let mut stream = Stream::create_for_self(&attributes).unwrap();
    stream.start();
    for _ in 0..10_000 {
        event.emit(&[7; 64]);
    }
    // Full, stopped, and started again by its reader.
    let mut starts = 0;
    while starts < 2 {
        let traced = stream.next().unwrap();
        starts += u32::from(traced.event.header.event_type == EventTypeId::START);
    }
    let emitting = thread::spawn(move || event.emit(b"after"));
    while stream.next().unwrap().event.data != b"after" {}
    emitting.join().unwrap();
}

#[test]
fn waiting_takes_no_longer_than_was_asked_for() {
    let _alone = alone();
    let mut stream = running();
    assert_eq!(
        stream.next_within(LONG).unwrap().event.header.event_type,
        EventTypeId::START
    );
    let since = Instant::now();
    assert!(stream.next_within(Duration::from_millis(50)).is_none());
    assert!(since.elapsed() >= Duration::from_millis(50));
    assert!(since.elapsed() < LONG);
}

#[test]
fn waiting_for_a_process_ends_when_it_has_ended() {
    let _alone = alone();
    let mut child = Command::new("sleep").arg("0.3").spawn().unwrap();
    let pid = child.id().cast_signed();
    let mut stream = Stream::create(pid, &Attributes::default()).unwrap();
    stream.start();
    // The child has ended, and was not waited for: its pid is still there.
    let names: Vec<String> = stream
        .events()
        .map(|event| event.name.to_string())
        .collect();
    assert_eq!(names, ["posix_trace_start"]);
    child.wait().unwrap();

    // Of one whose children are traced too, they may go on.
    let mut child = Command::new("sleep").arg("0.3").spawn().unwrap();
    let pid = child.id().cast_signed();
    let attributes = Attributes::default().with_inheritance(Inheritance::Inherited);
    let mut stream = Stream::create(pid, &attributes).unwrap();
    stream.start();
    child.wait().unwrap();
    assert!(stream.next_within(LONG).is_some());
    assert!(stream.next_within(Duration::from_millis(300)).is_none());
}

fn is_readable(stream: &PollableStream, most: Duration) -> bool {
    let mut polled = libc::pollfd {
        fd: stream.as_fd().as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    let most = i32::try_from(most.as_millis()).unwrap();
    // SAFETY: one valid entry.
    unsafe { libc::poll(&raw mut polled, 1, most) == 1 }
}

fn drained(stream: &mut PollableStream) -> usize {
    let mut count = 0;
    while stream.try_next().is_some() {
        count += 1;
    }
    count
}

#[test]
fn the_descriptor_can_be_read_while_there_is_an_event() {
    let _alone = alone();
    let event = UserEvent::open("polled").unwrap();
    let mut stream = running();
    event.emit(b"before");
    stream = stream.into_pollable().unwrap().into_stream();
    let mut stream = stream.into_pollable().unwrap();
    assert!(is_readable(&stream, Duration::ZERO), "there are two");
    assert_eq!(drained(&mut stream), 2);
    assert!(!is_readable(&stream, Duration::from_millis(20)));

    event.emit(b"one");
    event.emit(b"two");
    assert!(is_readable(&stream, LONG));
    assert_eq!(stream.try_next().unwrap().event.data, b"one");
    assert!(is_readable(&stream, Duration::ZERO), "there is one more");
    assert_eq!(drained(&mut stream), 1);
    assert!(!is_readable(&stream, Duration::from_millis(20)));

    stream.stop();
    assert!(is_readable(&stream, LONG), "there is a STOP");
    assert_eq!(drained(&mut stream), 1);
    stream.start();
    assert!(is_readable(&stream, LONG), "there is a START");
}

#[test]
fn a_stream_that_is_not_woken_is_looked_at_again_and_again() {
    let _alone = alone();
    // It never has the library. It is there before its exec has closed this process's descriptors,
    // the area's among them, which is passed on while the recorder of another test ends.
    let mut child = Command::new("sleep");
    let close_at_exec = || {
        let (first, last, flags) = (3_u32, u32::MAX, libc::CLOSE_RANGE_CLOEXEC);
        // SAFETY: takes no pointers.
        unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) };
        Ok(())
    };
    // SAFETY: it makes one system call.
    unsafe { child.pre_exec(close_at_exec) };
    let mut child = child.arg("60").spawn().unwrap();
    let pid = child.id().cast_signed();
    let has_area = || {
        let mut files = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
        let is_area = |path: PathBuf| path.to_string_lossy().starts_with("/memfd:");
        files.any(|file| fs::read_link(file.path()).is_ok_and(is_area))
    };
    while has_area() {
        thread::yield_now();
    }
    let stream = Stream::create(pid, &Attributes::default()).unwrap();
    let mut stream = stream.into_pollable().unwrap();
    assert_eq!(drained(&mut stream), 0);
    stream.start();
    assert!(is_readable(&stream, LONG));
    assert_eq!(drained(&mut stream), 1);
    assert!(is_readable(&stream, LONG), "it is time to look");
    assert_eq!(drained(&mut stream), 0);
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn no_event_is_missed_between_the_last_look_and_the_poll() {
    const ROUNDS: u32 = 5000;
    let _alone = alone();
    let event = UserEvent::open("in between").unwrap();
    let mut stream = running().into_pollable().unwrap();
    let (read, has_read) = mpsc::channel::<()>();
    let emitting = thread::spawn(move || {
        for round in 0..ROUNDS {
            // Just as the reader looks for the last time, or just after it.
            for _ in 0..(round * 7) % 1000 {
                std::hint::spin_loop();
            }
            event.emit(&round.to_ne_bytes());
            has_read.recv().unwrap();
        }
    });
    let mut next = 0_u32;
    while next < ROUNDS {
        assert!(is_readable(&stream, LONG), "event {next} was missed");
        while let Some(traced) = stream.try_next() {
            if traced.event.header.event_type == EventTypeId::START {
                continue;
            }
            assert_eq!(traced.event.data, next.to_ne_bytes());
            next += 1;
            read.send(()).unwrap();
        }
    }
    emitting.join().unwrap();
}

#[test]
fn streams_with_descriptors_leave_none_behind() {
    let _alone = alone();
    let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let make = || {
        let mut stream = running().into_pollable().unwrap();
        assert!(is_readable(&stream, LONG));
        drained(&mut stream);
    };
    make();
    let before = open();
    for _ in 0..50 {
        make();
    }
    assert!(open() <= before + 2, "{before} and then {}", open());
}

#[test]
fn a_stream_with_a_log_traces_its_own_process() {
    let _alone = alone();
    let event = UserEvent::open("logged").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let log = std::fs::File::create(&path).unwrap();
    let mut stream = LoggedStream::create_for_self(&Attributes::default(), log.as_fd()).unwrap();
    stream.start().unwrap();
    event.emit(b"by this thread");
    thread::spawn(move || event.emit(b"by another"))
        .join()
        .unwrap();

    let until = Instant::now() + LONG;
    let mut shown = Vec::new();
    while shown.len() < 3 && Instant::now() < until {
        shown.extend(stream.show_next_owned().unwrap());
    }
    let names: Vec<String> = shown.iter().map(|event| event.name.to_string()).collect();
    assert_eq!(names, ["posix_trace_start", "logged", "logged"]);
    stream.shut_down().unwrap();

    let mut log = LogReader::open(std::fs::File::open(&path).unwrap()).unwrap();
    let mut data = Vec::new();
    while let Some(record) = log.next_record().unwrap() {
        assert_eq!(record.event.header.pid, std::process::id().cast_signed());
        if record.name() == "logged" {
            data.push(record.event.data.to_vec());
        }
    }
    assert_eq!(data, [&b"by this thread"[..], b"by another"]);
    log.rewind();
    let owned: Vec<OwnedEvent> = log.records().map(Result::unwrap).collect();
    let of_thread = owned.iter().find(|event| event.name == "logged").unwrap();
    assert!(of_thread.comm.is_some(), "{of_thread:?}");
}

#[test]
fn spans_lie_between_a_beginning_and_an_end() {
    let _alone = alone();
    let (outer, inner) = (
        UserSpan::open("outer").unwrap(),
        UserSpan::open("inner").unwrap(),
    );
    let mut stream = running();
    {
        let _outer = outer.enter_with(b"id=1");
        let span = inner.enter();
        span.exit_with(b"result=2");
        assert_eq!(inner.in_scope(|| 3), 3);
    }
    stream.stop();
    let found: Vec<(String, Vec<u8>)> = stream
        .events()
        .map(|event| (event.name.to_string(), event.data))
        .collect();
    let expected = [
        ("outer begin", &b"id=1"[..]),
        ("inner begin", b""),
        ("inner end", b"result=2"),
        ("inner begin", b""),
        ("inner end", b""),
        ("outer end", b""),
    ];
    let found: Vec<_> = found[1..7]
        .iter()
        .map(|(name, data)| (&**name, &**data))
        .collect();
    assert_eq!(found, expected);

    let long = "x".repeat(TRACE_EVENT_NAME_MAX);
    let span = UserSpan::open(&long).unwrap();
    assert_ne!(span.begin(), span.end());
    assert!(UserSpan::open(&"x".repeat(TRACE_EVENT_NAME_MAX + 1)).is_err());
}
