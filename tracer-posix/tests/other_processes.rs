//! Controller and target as different processes: finding an area, handing it on, losing a side.
//!
//! The other processes are this test binary again: a test whose role is named in the environment
//! plays it, and does nothing where none is.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tracer_area::{Area, AreaSource, DeferredSource, RingMode, StreamRequest, monotonic_now};
use tracer_engine::event::MonotonicNs;
use tracer_engine::source::{LossCause, Source};
use tracer_engine::{ActiveStream, Origin, StreamFullPolicy};
use tracer_posix::emit::UserEvent;

const ROLE: &str = "TRACER_TEST_ROLE";

/// Held by a test while it runs: all of them see the area of this process.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns this binary, to play the role of that name.
fn player(role: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "play", "--nocapture", "--test-threads=1"])
        .env(ROLE, role)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    forked(&mut command);
    command
}

/// Makes the standard library start the command by `fork()`, whose handlers look after the area's
/// descriptor, and not by `posix_spawn()`.
fn forked(command: &mut Command) -> &mut Command {
    // SAFETY: does nothing.
    unsafe { command.pre_exec(|| Ok(())) }
}

/// Passes nothing on to the command: not the area of this process either.
fn without_descriptors(command: &mut Command) -> &mut Command {
    // SAFETY: closes what the program does not need; safe after a fork.
    let close = || match unsafe { libc::close_range(3, u32::MAX, 0) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    };
    // SAFETY: as above.
    unsafe { command.pre_exec(close) }
}

/// Takes from this thread, if it is root's, what shows it the files that another process has only
/// mapped.
fn see_no_mapped_files() {
    const SYS_ADMIN: u64 = 1 << 21;
    const CHECKPOINT_RESTORE: u64 = 1 << 40;
    // Version 3, this thread; effective, permitted and inheritable, the lower half first.
    let header = [0x2008_0522_u32, 0];
    let mut sets = [[0_u32; 3]; 2];
    // SAFETY: the kernel reads the header and writes the two sets, which are as long as this
    // version has them.
    let got = unsafe { libc::syscall(libc::SYS_capget, &raw const header, &raw mut sets) };
    assert_eq!(got, 0);
    for (half, shift) in sets.iter_mut().zip([0, 32]) {
        half[0] &= !u32::try_from((SYS_ADMIN | CHECKPOINT_RESTORE) >> shift & 0xffff_ffff).unwrap();
    }
    // SAFETY: the kernel reads both, which are as above.
    let set = unsafe { libc::syscall(libc::SYS_capset, &raw const header, &raw const sets) };
    assert_eq!(set, 0);
}

/// Starts a player that says a line when it is ready, and waits for the line.
fn started(command: &mut Command) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut child = command.spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    wait_for(&mut output, "ready");
    (child, output)
}

fn wait_for(output: &mut impl BufRead, word: &str) {
    let mut line = String::new();
    while !line.contains(word) {
        line.clear();
        assert_ne!(output.read_line(&mut line).unwrap(), 0, "the player ended");
    }
}

fn say(word: &str) {
    println!("{word}");
    std::io::stdout().flush().unwrap();
}

fn wait_for_a_word() {
    let _ = std::io::stdin().read(&mut [0; 16]);
}

fn pid_of(child: &Child) -> i32 {
    i32::try_from(child.id()).unwrap()
}

fn request(target: Option<i32>) -> StreamRequest {
    StreamRequest {
        target,
        inherit: true,
        is_only_source: false,
        bytes: 1 << 20,
        mode: RingMode::KeepOldest,
        max_data: 256,
        lease: None,
    }
}

fn stream_over(source: AreaSource) -> ActiveStream {
    let mut stream = ActiveStream::new(StreamFullPolicy::Loop, 16 << 20, monotonic_now);
    stream.add_source(Box::new(source));
    stream.start(Origin::NONE);
    stream
}

/// Returns all user events that are there: name, data, pid.
fn user_events(stream: &mut ActiveStream) -> Vec<(String, String, i32)> {
    stream.sync();
    let mut events = Vec::new();
    let mut last = MonotonicNs(0);
    while let Some(event) = stream.next_event() {
        assert!(last <= event.header.time);
        last = event.header.time;
        if event.header.event_type.is_user() {
            let data = String::from_utf8(event.data.to_vec()).unwrap();
            events.push((event.header, data));
        }
    }
    let name = |id| stream.event_name(id);
    events
        .into_iter()
        .map(|(header, data)| (name(header.event_type), data, header.pid))
        .collect()
}

/// Plays the player's side of every test.
#[test]
fn play() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    match role.as_str() {
        "emit when asked" => {
            let event = UserEvent::open("asked").unwrap();
            say("ready");
            wait_for_a_word();
            for index in 0..1000 {
                event.emit(index.to_string().as_bytes());
            }
            say("done");
            wait_for_a_word();
        }
        "emit when asked, with another area half made" => {
            // SAFETY: the name is a string ended by a null.
            let half = unsafe { libc::memfd_create(c"posix_trace_area".as_ptr(), 0) };
            assert!(half >= 0);
            let event = UserEvent::open("asked").unwrap();
            say("ready");
            wait_for_a_word();
            event.emit(b"despite it");
            say("done");
            wait_for_a_word();
        }
        "hide the area and emit" => {
            let event = UserEvent::open("hidden").unwrap();
            // SAFETY: closes the descriptors of areas, which nothing of this process uses.
            assert_eq!(unsafe { libc::close_range(992, 1023, 0) }, 0);
            event.emit(b"not seen");
            say("ready");
            wait_for_a_word();
        }
        "emit at once" => {
            UserEvent::open("at once").unwrap().emit(b"first");
            say("ready");
        }
        "start another when asked" => {
            let event = UserEvent::open("grandparent").unwrap();
            say("ready");
            wait_for_a_word();
            event.emit(b"before");
            let mut command = player("emit at once");
            command.stdin(Stdio::null());
            let (mut child, _output) = started(&mut command);
            child.wait().unwrap();
            event.emit(b"after");
            say("done");
        }
        "hold a stream" => {
            let parent = std::os::unix::process::parent_id();
            let area = Area::find(i32::try_from(parent).unwrap()).unwrap().unwrap();
            let request = StreamRequest {
                lease: Some(Duration::from_millis(50)),
                ..request(None)
            };
            let mut stream = stream_over(AreaSource::open(area, &request).unwrap());
            stream.sync();
            say("ready");
            wait_for_a_word();
        }
        other => panic!("no such role: {other}"),
    }
}

#[test]
fn a_running_process_is_found_and_its_events_come_once() {
    let _alone = alone();
    let (mut child, mut output) = started(&mut player("emit when asked"));
    let area = Area::find(pid_of(&child)).unwrap().expect("it has an area");
    let source = AreaSource::open(area, &request(Some(pid_of(&child)))).unwrap();
    let mut stream = stream_over(source);

    child.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
    wait_for(&mut output, "done");
    let events = user_events(&mut stream);
    drop(child.stdin.take());
    child.wait().unwrap();

    let expected: Vec<_> = (0..1000)
        .map(|index| ("asked".to_owned(), index.to_string(), pid_of(&child)))
        .collect();
    assert_eq!(events, expected);
    assert_eq!(stream.ledger().lost_in_all(), 0);
}

#[test]
fn an_area_that_is_just_being_made_is_no_damaged_one() {
    let _alone = alone();
    let role = "emit when asked, with another area half made";
    let (mut child, mut output) = started(&mut player(role));
    let area = Area::find(pid_of(&child)).unwrap().expect("the whole one");
    let source = AreaSource::open(area, &request(Some(pid_of(&child)))).unwrap();
    let mut stream = stream_over(source);

    child.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
    wait_for(&mut output, "done");
    let events = user_events(&mut stream);
    drop(child.stdin.take());
    child.wait().unwrap();
    assert_eq!(events.len(), 1);
}

#[test]
fn a_source_that_may_retire_ends_when_it_has_brought_nothing_for_a_while() {
    let _alone = alone();
    let event = UserEvent::open("before retiring").unwrap();
    let mut source = AreaSource::open(Area::own().unwrap(), &request(None)).unwrap();
    let retirement = source.retirement();
    source.control(&tracer_engine::source::Control {
        running: true,
        filter: tracer_engine::EventSet::EMPTY,
    });
    let mut stream = stream_over(source);
    retirement.allow(true);
    let begin = Instant::now();
    let (mut seen, mut last) = (0, begin);
    while begin.elapsed() < Duration::from_millis(1500) {
        last = Instant::now();
        event.emit(b"still here");
        seen += user_events(&mut stream).len();
        assert!(!retirement.has_ended(), "events still came");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(seen > 10);
    let begin = Instant::now();
    while !retirement.has_ended() {
        assert!(begin.elapsed() < Duration::from_secs(10), "it never ends");
        stream.sync();
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(last.elapsed() > Duration::from_millis(500), "too soon");
}

#[test]
fn a_command_that_is_given_an_area_is_traced_from_its_first_event() {
    let _alone = alone();
    let area = Area::for_command().unwrap();
    let inherited = area.to_be_inherited().unwrap();
    let raw = inherited.as_raw_fd();
    let mut command = player("emit at once");
    let keep_open = move || {
        // SAFETY: changes a flag of a descriptor that is open.
        unsafe { libc::fcntl(raw, libc::F_SETFD, 0) };
        Ok(())
    };
    // SAFETY: what is called is safe after a fork.
    unsafe { command.pre_exec(keep_open) };
    let mut stream = stream_over(AreaSource::open(area, &request(None)).unwrap());
    let (mut child, _output) = started(&mut command);
    child.wait().unwrap();

    let expected = ("at once".to_owned(), "first".to_owned(), pid_of(&child));
    assert_eq!(user_events(&mut stream), [expected]);
}

#[test]
fn what_a_traced_process_starts_is_traced_too() {
    let _alone = alone();
    let (mut child, mut output) = started(&mut player("start another when asked"));
    let area = Area::find(pid_of(&child)).unwrap().expect("it has an area");
    let source = AreaSource::open(area, &request(Some(pid_of(&child)))).unwrap();
    let mut stream = stream_over(source);
    child.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
    wait_for(&mut output, "done");
    child.wait().unwrap();

    let events = user_events(&mut stream);
    let data: Vec<_> = events.iter().map(|(_, data, _)| data.as_str()).collect();
    assert_eq!(data, ["before", "first", "after"]);
    assert_ne!(events[0].2, events[1].2, "another process");
}

#[test]
fn a_controller_that_was_killed_costs_the_target_nothing_but_a_slot_until_the_next_comes() {
    let _alone = alone();
    let event = UserEvent::open("to the dead").unwrap();
    for _ in 0..40 {
        let (mut child, _output) = started(&mut player("hold a stream"));
        child.kill().unwrap();
        child.wait().unwrap();
        event.emit(b"not read");
    }
    let area = Area::own().unwrap();
    let mut stream = stream_over(AreaSource::open(area, &request(None)).unwrap());
    event.emit(b"this one is read");

    let events = user_events(&mut stream);
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].1, "this one is read");
}

#[test]
fn what_is_emitted_after_the_lease_ran_out_is_counted() {
    let _alone = alone();
    let event = UserEvent::open("too late").unwrap();
    let request = StreamRequest {
        lease: Some(Duration::from_secs(1)),
        ..request(None)
    };
    let area = Area::own().unwrap();
    let mut stream = stream_over(AreaSource::open(area, &request).unwrap());
    event.emit(b"in time");
    std::thread::sleep(Duration::from_millis(1500));
    for _ in 0..7 {
        event.emit(b"too late");
    }

    assert_eq!(user_events(&mut stream).len(), 1);
    assert_eq!(stream.ledger().lost(LossCause::ThreadRingFull), 7);
    event.emit(b"in time again");
    assert_eq!(user_events(&mut stream).len(), 1);
}

#[test]
fn a_target_that_was_killed_does_not_hold_the_stream_up() {
    let _alone = alone();
    let (mut child, mut output) = started(&mut player("emit when asked"));
    let pid = pid_of(&child);
    let area = Area::find(pid).unwrap().expect("it has an area");
    let mut source = AreaSource::open(area, &request(Some(pid))).unwrap();
    source.control(&tracer_engine::source::Control {
        running: true,
        filter: tracer_engine::EventSet::EMPTY,
    });
    child.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
    wait_for(&mut output, "done");
    child.kill().unwrap();
    child.wait().unwrap();
    let mut stream = stream_over(source);

    // The dead process's ring says nothing new; the watermark goes on all the same.
    let begin = Instant::now();
    let first = stream.sync();
    while stream.sync() <= first {
        assert!(begin.elapsed() < Duration::from_secs(5), "held up");
    }
}

#[test]
fn a_process_that_does_not_exist_and_one_without_an_area_are_distinguished() {
    use tracer_area::FindError;
    let _alone = alone();
    assert!(matches!(
        Area::find(i32::MAX),
        Err(FindError::NoSuchProcess { .. })
    ));
    assert!(matches!(
        Area::find(-1),
        Err(FindError::NoSuchProcess { .. })
    ));
    let mut command = Command::new("sleep");
    let mut sleeper = without_descriptors(command.arg("10")).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(50));
    assert!(Area::find(pid_of(&sleeper)).unwrap().is_none());
    sleeper.kill().unwrap();
    // Now a zombie: it exists, and has no area.
    std::thread::sleep(Duration::from_millis(20));
    assert!(Area::find(pid_of(&sleeper)).unwrap().is_none());
    sleeper.wait().unwrap();
}

/// Returns a program without an area that becomes a player of that role when it is asked to.
fn later(role: &str) -> (Child, BufReader<std::process::ChildStdout>) {
    let own = player(role);
    let mut command = Command::new("sh");
    command.args(["-c", r#"echo ready && read word && exec "$0" "$@""#]);
    command.arg(own.get_program()).args(own.get_args());
    command.env(ROLE, role);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    started(without_descriptors(&mut command))
}

#[test]
fn what_a_target_may_have_emitted_into_an_area_that_it_hides_is_unknown() {
    let _alone = alone();
    let (mut child, mut output) = later("hide the area and emit");
    see_no_mapped_files();
    // In two streams: one that is asked meanwhile, and one that is not.
    let [mut asked, mut silent] = [(); 2].map(|()| {
        let source = DeferredSource::open(pid_of(&child), request(None)).unwrap();
        let mut stream = ActiveStream::new(StreamFullPolicy::Loop, 16 << 20, monotonic_now);
        stream.add_source(Box::new(source));
        stream.start(Origin::NONE);
        stream
    });
    std::thread::sleep(Duration::from_millis(150));
    assert!(!asked.status().is_overrun, "it has no area yet");

    child.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
    wait_for(&mut output, "ready");
    let begin = Instant::now();
    while !asked.status().is_overrun {
        assert!(begin.elapsed() < Duration::from_secs(5), "nothing is said");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(!asked.status().is_overrun, "said twice");
    silent.stop(Origin::NONE);
    assert!(!silent.end(), "nothing is said at the end");

    // That it has ended takes nothing of it back.
    child.kill().unwrap();
    child.wait().unwrap();
    asked.stop(Origin::NONE);
    assert!(!asked.end());
}

#[test]
fn of_a_target_that_never_has_an_area_it_is_known_that_it_emits_nothing() {
    let _alone = alone();
    let (mut child, _output) = later("nothing");
    let source = DeferredSource::open(pid_of(&child), request(None)).unwrap();
    let mut stream = ActiveStream::new(StreamFullPolicy::Loop, 16 << 20, monotonic_now);
    stream.add_source(Box::new(source));
    stream.start(Origin::NONE);
    std::thread::sleep(Duration::from_millis(150));
    assert!(!stream.status().is_overrun);
    child.kill().unwrap();
    child.wait().unwrap();
    std::thread::sleep(Duration::from_millis(150));
    assert!(!stream.status().is_overrun);
    stream.stop(Origin::NONE);
    assert!(stream.end());
}
