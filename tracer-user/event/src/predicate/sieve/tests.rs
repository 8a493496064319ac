use proptest::prelude::*;
use tracer_common::event_type::{FIRST_USER_EVENT, system_event_type};
use tracer_common::kernel::SyscallEnterData;
use tracer_engine::event::{EventHeader, RealtimeNs, Truncation};

use super::*;
use tracer_syscalls::pointer_data::push_item;

const ENTER: EventTypeId = EventTypeId::SYSCALL_ENTER;
const EXIT: EventTypeId = EventTypeId::SYSCALL_EXIT;

/// An event that is made up.
#[derive(Clone, Debug)]
struct Made {
    at: u64,
    id: EventTypeId,
    tid: i32,
    data: Vec<u8>,
}

fn enter(at: u64, tid: i32, nr: i64, path: &str) -> Made {
    // The call, 32 bits that say of which table it is, and six registers.
    let mut bytes = i32::try_from(nr).unwrap().to_ne_bytes().to_vec();
    bytes.resize(size_of::<SyscallEnterData>(), 0);
    push_item(&mut bytes, 1, 0, path.as_bytes());
    made(at, ENTER, tid, &bytes)
}

fn exit(at: u64, tid: i32, nr: i64, ret: i64) -> Made {
    let mut bytes = i32::try_from(nr).unwrap().to_ne_bytes().to_vec();
    bytes.resize(8, 0);
    bytes.extend_from_slice(&ret.to_ne_bytes());
    made(at, EXIT, tid, &bytes)
}

fn made(at: u64, id: EventTypeId, tid: i32, data: &[u8]) -> Made {
    Made {
        at,
        id,
        tid,
        data: data.to_vec(),
    }
}

fn sieve(filter: &str, is_failed: bool) -> Sieve {
    let expression = (!filter.is_empty()).then(|| Expression::parse(filter).unwrap());
    let predicate = Predicate {
        is_failed,
        expression: expression.map(Arc::new),
        spares_others: false,
    };
    Sieve::new(&predicate, MonotonicNs(0)).unwrap()
}

fn offer(sieve: &mut Sieve, event: &Made, shown: &mut Vec<u64>) {
    let header = EventHeader {
        time: MonotonicNs(event.at),
        event_type: event.id,
        pid: 7,
        tid: event.tid,
        cpu: Some(1),
        thread_id: 0,
        program_address: 0,
        truncation: Truncation::None,
    };
    let line = EventView {
        event: Event {
            header,
            data: &event.data,
        },
        entry: system_event_type(event.id),
        name: b"made up",
        comm: Some(b"shop"),
        date: RealtimeNs(0),
        inside: None,
        stack: None,
        context: None,
    };
    sieve.offer(&line, true, &mut |line| {
        shown.push(line.event.header.time.0)
    });
}

/// Returns the times of the events that pass.
fn shown(sieve: &mut Sieve, events: &[Made]) -> Vec<u64> {
    let mut shown = Vec::new();
    for event in events {
        offer(sieve, event, &mut shown);
    }
    sieve.end(&mut |line| shown.push(line.event.header.time.0));
    shown
}

const NO_SUCH_FILE: i64 = -2;

#[test]
fn an_entry_waits_for_the_exit_that_says_whether_it_is_wanted() {
    let openat = libc::SYS_openat;
    let events = [
        enter(1, 1, openat, "/etc/passwd"),
        enter(2, 2, openat, "/nowhere"),
        exit(3, 2, openat, NO_SUCH_FILE),
        exit(6, 1, openat, 3),
        made(7, EventTypeId::FORK, 1, b""),
    ];
    for (filter, is_failed, expected) in [
        ("", true, &[2, 3, 7][..]),
        ("ret < 0", false, &[2, 3]),
        ("error == \"ENOENT\"", false, &[2, 3]),
        ("ret >= 0 && filename.startsWith(\"/etc\")", false, &[1, 6]),
        ("duration >= duration(\"5ns\")", false, &[1, 6]),
        ("duration >= \"5ns\" && duration != 0", false, &[1, 6]),
        ("duration < duration(\"2ns\")", false, &[2, 3]),
        ("!has(ret)", false, &[7]),
        (
            "type == \"syscall-exit\" && filename == \"/nowhere\"",
            false,
            &[3],
        ),
        ("type == \"syscall-enter\" && ret == 3", false, &[1]),
        ("filename == \"/nowhere\"", false, &[2, 3]),
        (
            "type == \"fork\" || filename == \"/etc/passwd\"",
            false,
            &[1, 6, 7],
        ),
        ("comm == \"shop\" && pid == 7 && cpu == 1", true, &[2, 3, 7]),
        ("tid == 1", false, &[1, 6, 7]),
        ("filename.matches(\"^/etc/.*wd$\")", false, &[1, 6]),
        ("signal == SIGSEGV", false, &[]),
    ] {
        let mut sieve = sieve(filter, is_failed);
        assert_eq!(shown(&mut sieve, &events), expected, "{filter} {is_failed}");
    }
}

#[test]
fn the_end_of_a_signal_handler_does_not_fail() {
    const INTERRUPTED: i64 = -4;
    let events = [
        exit(1, 1, libc::SYS_rt_sigreturn, INTERRUPTED),
        exit(2, 1, libc::SYS_read, INTERRUPTED),
    ];
    for (filter, is_failed, expected) in [
        ("", true, &[2][..]),
        ("error == \"EINTR\"", false, &[2]),
        ("ret == -4", false, &[1, 2]),
    ] {
        let mut sieve = sieve(filter, is_failed);
        assert_eq!(shown(&mut sieve, &events), expected, "{filter} {is_failed}");
    }
}

#[test]
fn a_signal_goes_by_its_name_and_by_its_number() {
    let mut kill = enter(2, 1, libc::SYS_kill, "").data;
    kill.truncate(size_of::<SyscallEnterData>());
    kill[16..24].copy_from_slice(&9_u64.to_ne_bytes());
    let mut delivered = 11_i32.to_ne_bytes().to_vec();
    delivered.resize(64, 0);
    let events = [
        made(1, EventTypeId::SIGNAL_DELIVER, 1, &delivered),
        made(2, ENTER, 1, &kill),
    ];
    for (filter, expected) in [
        ("signal == SIGSEGV", &[1][..]),
        ("signal == \"SIGSEGV\"", &[1]),
        ("signal in [9, \"SEGV\"]", &[1]),
        ("signal == 11", &[1]),
        ("signal == 9", &[]),
        ("sig == SIGKILL", &[2]),
        ("sig == \"SIGKILL\"", &[2]),
        ("arguments.sig == 9", &[2]),
        ("sig in [SIGTERM, SIGKILL]", &[2]),
        ("sig != SIGKILL && has(sig)", &[]),
    ] {
        assert_eq!(
            shown(&mut sieve(filter, false), &events),
            expected,
            "{filter}"
        );
    }
}

#[test]
fn a_first_pass_and_a_second_keep_the_order_of_time() {
    let read = libc::SYS_read;
    let events = [
        enter(1, 1, read, ""),
        enter(2, 2, read, ""),
        exit(3, 2, read, NO_SUCH_FILE),
        enter(4, 2, read, ""),
        exit(5, 1, read, NO_SUCH_FILE),
        exit(6, 2, read, 1),
    ];
    assert_eq!(shown(&mut sieve("ret < 0", false), &events), [2, 3, 1, 5]);
    let mut noting = sieve("ret < 0", false).noting();
    assert!(shown(&mut noting, &events).is_empty());
    let settled = noting.settled().whole().unwrap();
    assert_eq!(settled.until(), MonotonicNs(6));
    let mut following = sieve("ret < 0", false).following(Arc::new(settled));
    assert_eq!(shown(&mut following, &events), [1, 2, 3, 5]);
}

#[test]
fn what_never_ends_is_judged_at_the_end_of_its_thread() {
    let never = libc::SYS_exit_group;
    let events = [
        enter(1, 1, never, ""),
        made(2, EventTypeId::THREAD_EXIT, 1, b""),
        enter(3, 2, libc::SYS_sched_yield, ""),
    ];
    let mut unfinished = sieve("has(syscall) && !has(ret)", false);
    let mut seen = Vec::new();
    offer(&mut unfinished, &events[0], &mut seen);
    assert!(seen.is_empty());
    offer(&mut unfinished, &events[1], &mut seen);
    assert_eq!(seen, [1]);
    // Where the trace ends first, then.
    offer(&mut unfinished, &events[2], &mut seen);
    assert_eq!(seen, [1]);
    unfinished.end(&mut |line| seen.push(line.event.header.time.0));
    assert_eq!(seen, [1, 3]);
    assert_eq!(shown(&mut sieve("", true), &events), [2]);
}

#[test]
fn a_thread_that_runs_a_program_goes_on_under_its_processs_identifier() {
    // The file is as long as it is.
    let mut data = vec![0; 21];
    data[16..20].copy_from_slice(&5_u32.to_ne_bytes());
    let events = [
        enter(1, 5, libc::SYS_execve, ""),
        made(2, EventTypeId::EXEC, 4, &data),
        exit(3, 4, libc::SYS_execve, 0),
    ];
    assert_eq!(
        shown(&mut sieve("duration == \"2ns\"", false), &events),
        [1, 3]
    );
}

#[test]
fn after_losses_nothing_is_guessed() {
    let openat = libc::SYS_openat;
    let filter = "ret < 0 && filename == \"/nowhere\"";
    let mut unsure = sieve(filter, false);
    let mut seen = Vec::new();
    offer(&mut unsure, &enter(1, 1, openat, "/nowhere"), &mut seen);
    // The exit of this call and the entry of the next may be what was lost.
    unsure.lose(MonotonicNs(5), &mut |line| {
        seen.push(line.event.header.time.0)
    });
    offer(&mut unsure, &enter(3, 2, openat, "/nowhere"), &mut seen);
    offer(&mut unsure, &exit(6, 1, openat, NO_SUCH_FILE), &mut seen);
    offer(&mut unsure, &exit(7, 2, openat, NO_SUCH_FILE), &mut seen);
    assert!(seen.is_empty());
    for event in [
        enter(8, 1, openat, "/nowhere"),
        exit(9, 1, openat, NO_SUCH_FILE),
        // Another call's exit ends no call.
        enter(10, 1, openat, "/nowhere"),
        exit(11, 1, libc::SYS_close, NO_SUCH_FILE),
    ] {
        offer(&mut unsure, &event, &mut seen);
    }
    assert_eq!(seen, [8, 9]);
    // What the exit says itself is certain.
    let mut sure = sieve("", true);
    assert_eq!(shown(&mut sure, &[exit(1, 1, openat, NO_SUCH_FILE)]), [1]);
}

#[test]
fn memory_is_bounded_and_what_cannot_wait_is_said() {
    let mut sieve = sieve("ret < 0", false);
    let path = "x".repeat(8000);
    let mut seen = Vec::new();
    for tid in 1..=20_000 {
        offer(
            &mut sieve,
            &enter(1, tid, libc::SYS_openat, &path),
            &mut seen,
        );
    }
    let note = sieve.note().unwrap();
    let hurried = note.split(' ').next().unwrap().parse::<u32>().unwrap();
    assert!((10_000..15_000).contains(&hurried), "{note}");
}

#[test]
fn marks_of_losses_pass_whatever_is_asked() {
    let mark = made(1, EventTypeId::OVERFLOW, 0, b"");
    assert_eq!(shown(&mut sieve("pid == 1", true), &[mark]), [1]);
}

/// Pieces of expressions, good ones and others.
const PIECES: [&str; 34] = [
    "ret",
    "<",
    "0",
    "&&",
    "||",
    "!",
    "(",
    ")",
    "comm",
    "==",
    "\"x\"",
    "filename",
    ".",
    "startsWith",
    "has",
    "duration",
    "[",
    "]",
    ",",
    "in",
    "type",
    "'fork'",
    "+",
    "-",
    "9e999",
    "18446744073709551615u",
    "arguments",
    "?",
    ":",
    "matches",
    "{",
    "}",
    "\\",
    "\u{1b}é",
];

proptest! {
    /// Checks that any typed text is an expression or is refused, with advice on what to do.
    #[test]
    fn whatever_is_typed_is_read_or_refused(
        pieces in prop::collection::vec(0..PIECES.len(), 0..24),
        free in ".{0,40}",
        events in events(),
    ) {
        let spaced: Vec<_> = pieces.iter().map(|piece| PIECES[*piece]).collect();
        for text in [spaced.join(" "), spaced.concat(), free] {
            match Expression::parse(&text) {
                Ok(expression) => {
                    let predicate = Predicate {
                        is_failed: false,
                        expression: Some(Arc::new(expression)),
                        spares_others: false,
                    };
                    let mut sieve = Sieve::new(&predicate, MonotonicNs(0)).unwrap();
                    prop_assert!(shown(&mut sieve, &events).len() <= events.len());
                }
                Err(refusal) => prop_assert!(refusal.to_string().contains("; "), "{refusal}"),
            }
        }
    }

    /// Checks that of any events, truncated anywhere, each passes once at most, and that a second
    /// pass shows the same as waiting does, but in order.
    #[test]
    fn whatever_comes_passes_once_at_most(events in events(), which in 0..6_usize) {
        let filter = [
            "ret < 0", "filename.contains(\"e\") && duration > \"3ns\"", "!has(ret)", "tid == 1",
            "type == \"syscall-exit\"", "buf == \"\" || error == \"ENOENT\" || cpu == 1",
        ][which];
        let mut waiting = shown(&mut sieve(filter, false), &events);
        let mut noting = sieve(filter, false).noting();
        prop_assert!(shown(&mut noting, &events).is_empty());
        let settled = Arc::new(noting.settled());
        let following = shown(&mut sieve(filter, false).following(settled), &events);
        waiting.sort_unstable();
        prop_assert!(waiting.windows(2).all(|pair| pair[0] < pair[1]), "{waiting:?}");
        prop_assert_eq!(waiting, following);
    }
}

prop_compose! {
    fn events()(listed in prop::collection::vec(
        (0..9_u32, 1..4_i32, 0..3_i64, -3..3_i64, 0..120_usize), 0..40)
    ) -> Vec<Made> {
        let made = (1..).zip(listed).map(|(at, (kind, tid, nr, ret, length))| {
            let mut event = match kind {
                0..=2 => enter(at, tid, nr, "/etc"),
                3..=5 => exit(at, tid, nr, ret),
                6 => super::tests::made(at, EventTypeId::THREAD_EXIT, tid, &[0; 8]),
                7 => super::tests::made(at, EventTypeId::EXEC, tid, &[1; 64]),
                _ => super::tests::made(at, EventTypeId(FIRST_USER_EVENT), tid, b"text"),
            };
            if length < 90 {
                event.data.truncate(length);
            }
            event
        });
        made.collect()
    }
}
