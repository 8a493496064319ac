//! Words for people: durations, threads, and their activity.

use tracer_analysis::{
    Behind, CallKey, FunctionId, Inside, Interrupt, LockType, PathPart, Reason, Task, Then, Thread,
    UnknownReason, Wait, WaitedLock, Waker,
};

use super::functions::{Functions, Place};
use tracer_event::fields::until_null;
use tracer_event::value_names::softirq;
use tracer_syscalls::names::{Table, name};
use tracer_text::escape::push_for_people;

/// Returns the name of a system call.
#[must_use]
pub fn call_name(key: CallKey) -> String {
    let table = if key.is_compat {
        Table::Compat
    } else {
        Table::Native
    };
    match name(table, key.nr) {
        Some(name) => name.to_owned(),
        None => format!("syscall_{}", key.nr),
    }
}

/// Renders a thread: `nginx 4711`, `worker 4711/4713`.
#[must_use]
pub fn thread(thread: Thread, comm: &[u8]) -> String {
    let mut out = Vec::new();
    push_for_people(&mut out, comm);
    let comm = String::from_utf8_lossy(&out).into_owned();
    let Thread { pid, tid } = thread;
    let who = if pid == tid {
        pid.to_string()
    } else {
        format!("{pid}/{tid}")
    };
    if comm.is_empty() {
        who
    } else {
        format!("{comm} {who}")
    }
}

/// Renders a thread that an event names; only its name where it means all of that name.
#[must_use]
pub fn task(task: &Task) -> String {
    let comm = until_null(&task.comm);
    if task.thread != Thread::default() {
        return thread(task.thread, comm);
    }
    let mut out = Vec::new();
    push_for_people(&mut out, comm);
    String::from_utf8_lossy(&out).into_owned()
}

/// Returns where a blocked thread was: `futex`, `page fault`.
#[must_use]
pub fn inside(inside: Inside) -> Option<String> {
    match inside {
        Inside::Unknown => None,
        Inside::Call(key) => Some(call_name(key)),
        Inside::Fault => Some("page fault".to_owned()),
        Inside::Exit => Some("exit".to_owned()),
        Inside::Kernel => Some("kernel".to_owned()),
    }
}

/// Describes why a thread was blocked, and in which function: `in epoll_wait at wait_for_lock`.
fn reason_at(why: Reason, functions: &Functions) -> String {
    let words = match place(why.function, functions) {
        Some(place) => format!("{} {place}", reason(why)),
        None => reason(why),
    };
    let words = match functions.objects.get(why.object) {
        Some(object) => format!("{words} on {object}"),
        None => words,
    };
    match functions.locks.get(why.lock) {
        Some(lock) => format!("{words} for {}", waited_lock(lock)),
        None => words,
    }
}

/// Returns the waker in words, which has ended a wait for this reason.
fn waker_of(why: Reason, of: &Waker, functions: &Functions) -> String {
    let object = functions.objects.get(why.object);
    match (of, object.and_then(|object| object.remote())) {
        (Waker::SoftInterrupt, Some(from)) => format!("a packet from {from}"),
        (Waker::Thread(by), _) if object.is_some_and(|object| object.is_passed_on_by(by)) => {
            format!("{}, which passes on what comes there", waker(of))
        }
        _ => waker(of),
    }
}

/// Describes a lock that is waited for: `mutex 0x55d0c0a010`, and how many readers have it.
fn waited_lock(lock: &WaitedLock) -> String {
    if lock.kind == LockType::ThreadEnd {
        return "the end of a thread".to_owned();
    }
    let words = format!("{} {:#x}", lock_type(lock.kind), lock.key.address);
    match lock.readers {
        0 => words,
        1 => format!("{words}, which a reader has"),
        readers => format!("{words}, which {readers} readers have"),
    }
}

/// Returns the word for a type of locks.
#[must_use]
pub fn lock_type(kind: LockType) -> String {
    kind.name().replace('_', " ")
}

/// Describes who has what a thread waits for: `, held by io 4714`.
fn held_by(why: Reason, holder: &Task, functions: &Functions) -> String {
    let lock = functions.locks.get(why.lock);
    match lock.map(|lock| lock.kind) {
        Some(LockType::ThreadEnd) => format!(", {}", task(holder)),
        _ => format!(", held by {}", task(holder)),
    }
}

/// Returns who had the lock of a wait that this waker has ended; `None` where that is not known.
#[must_use]
pub fn holder(why: Reason, waker: Option<&Waker>, functions: &Functions) -> Option<Task> {
    functions.locks.get(why.lock)?.holder(waker)
}

/// Describes a function in which a thread was blocked: `at wait_for_lock`; `None` where it is not
/// known.
#[must_use]
pub fn place(function: FunctionId, functions: &Functions) -> Option<String> {
    let Place { name, is_innermost } = functions.place(function)?;
    let word = if *is_innermost { "at" } else { "within" };
    Some(format!("{word} {name}"))
}

/// Describes why a thread was blocked: `in futex`, `in fsync for a device`.
#[must_use]
pub fn reason(reason: Reason) -> String {
    let mut words = match inside(reason.inside) {
        Some(_) if reason.inside == Inside::Kernel => "in the kernel".to_owned(),
        Some(inside) => format!("in {inside}"),
        None => "in something unknown".to_owned(),
    };
    if reason.is_io {
        words.push_str(" for a device");
    }
    words
}

/// Returns the name of an interrupt, as in `/proc/interrupts` and `/proc/softirqs`; its number
/// where it has none.
#[must_use]
pub fn interrupt_name(of: &Interrupt) -> String {
    match of {
        Interrupt::Device(_, name) => {
            let mut out = Vec::new();
            push_for_people(&mut out, until_null(name));
            String::from_utf8_lossy(&out).into_owned()
        }
        Interrupt::Soft(row) => softirq(*row).map_or_else(|| row.to_string(), str::to_owned),
    }
}

/// Returns the waker in words, where it is known.
fn waker(waker: &Waker) -> String {
    match waker {
        Waker::Unknown => "an unknown waker".to_owned(),
        Waker::Thread(of) => task(of),
        Waker::Interrupt => "an interrupt".to_owned(),
        Waker::SoftInterrupt => "a soft interrupt".to_owned(),
        Waker::Timer => "a timer".to_owned(),
    }
}

/// Describes a part of the time. `has_more` where parts within it follow.
#[must_use]
pub fn part(part: &PathPart, has_more: bool, functions: &Functions) -> String {
    match part {
        PathPart::Running => "ran".to_owned(),
        PathPart::Faulting => "ran from page fault to page fault".to_owned(),
        PathPart::Gap => "unknown gap of the CPU: it took no interrupt".to_owned(),
        PathPart::Interrupted(by @ Interrupt::Device(number, _)) => {
            format!("interrupted by {} (interrupt {number})", interrupt_name(by))
        }
        PathPart::Interrupted(by @ Interrupt::Soft(_)) => {
            format!("interrupted by a soft interrupt, {}", interrupt_name(by))
        }
        PathPart::Busy(with) => {
            let with = functions.place(*with);
            let with = with.map_or("another one", |place| &place.name);
            format!("busy with {with}, in which it")
        }
        PathPart::Runnable(Wait::Throttled(group), _) => {
            let group = functions.groups.name(*group);
            format!("{} (cpu.max)", throttled(group.map(|name| &**name)))
        }
        PathPart::Runnable(wait, behind) => runnable(*wait, behind.as_ref()),
        PathPart::Blocked(why, of) => {
            let mut blocked = format!("blocked {}", reason_at(*why, functions));
            if let Some(holder) = holder(*why, Some(of), functions) {
                if matches!(of, Waker::Thread(by) if *by == holder) {
                    let more = if has_more {
                        ", which meanwhile"
                    } else {
                        ", of which nothing was recorded"
                    };
                    return format!("{blocked}{}{more}", held_by(*why, &holder, functions));
                }
                blocked.push_str(&held_by(*why, &holder, functions));
            }
            match of {
                Waker::Unknown => format!("{blocked}, woken by an unknown waker"),
                Waker::Thread(_) if has_more => {
                    let by = waker_of(*why, of, functions);
                    format!("{blocked}, woken by {by}, which meanwhile")
                }
                Waker::Thread(_) => format!(
                    "{blocked}, woken by {}, of which nothing was recorded",
                    waker_of(*why, of, functions)
                ),
                Waker::Interrupt | Waker::SoftInterrupt | Waker::Timer => {
                    format!("{blocked}, woken by {}", waker_of(*why, of, functions))
                }
            }
        }
        PathPart::Underway => "asked another CPU to wake it, which took so long".to_owned(),
        PathPart::StillBlocked(why, at) => {
            let held = match holder(*why, None, functions) {
                Some(holder) => held_by(*why, &holder, functions),
                None => String::new(),
            };
            format!(
                "blocked {}{held}: still blocked {}",
                reason_at(*why, functions),
                then(*at)
            )
        }
        PathPart::StillStopped(at) => format!("stopped: still stopped {}", then(*at)),
        PathPart::Stopped(of) => format!("stopped, continued by {}", waker(of)),
        PathPart::Unmade(by) if by.thread == Thread::default() => {
            "not there yet; who made it, meanwhile".to_owned()
        }
        PathPart::Unmade(by) => format!("not there yet; {}, which made it, meanwhile", task(by)),
        PathPart::Unpolled(next) if next.thread == Thread::default() => {
            "no thread worked on it; the one that did next, meanwhile".to_owned()
        }
        PathPart::Unpolled(next) => {
            format!(
                "no thread worked on it; {}, which did next, meanwhile",
                task(next)
            )
        }
        PathPart::Unknown(UnknownReason::Lost) => "unknown: events were lost".to_owned(),
        PathPart::Unknown(UnknownReason::NotSeen) => {
            "unknown: nothing was recorded of it then".to_owned()
        }
        PathPart::Unknown(UnknownReason::TooLong) => "unknown: longer ago than is held".to_owned(),
    }
}

fn then(at: Then) -> &'static str {
    match at {
        Then::TraceEnd => "when the trace ended",
        Then::PathEnd => "at that moment",
    }
}

/// Describes a thread whose control group has used up its time: `throttled by its control group
/// /batch/night`.
#[must_use]
pub fn throttled(group: Option<&str>) -> String {
    let name = group.map_or_else(String::new, |name| format!(" {name}"));
    format!("throttled by its control group{name}")
}

fn runnable(wait: Wait, behind: Option<&Behind>) -> String {
    let since = match wait {
        // The thread that had the CPU meanwhile is not to blame.
        Wait::Throttled(_) => return throttled(None),
        Wait::OutOfBudget => return "throttled, its deadline budget used up".to_owned(),
        Wait::OutOfRealTime => {
            return "throttled, the time of real-time threads used up".to_owned();
        }
        Wait::New => "new, ",
        Wait::Woken | Wait::Preempted | Wait::Outranked | Wait::Unsaid => "",
        Wait::Yielded => "gave way, ",
    };
    let (what, before) = match wait {
        Wait::Preempted | Wait::Outranked => ("had to give way", "to"),
        _ => ("waited for a CPU", "behind"),
    };
    let Some(behind) = behind else {
        return format!("{since}{what}");
    };
    let last = task(&behind.task);
    if behind.task.thread.tid == 0 && is_idle(&behind.task) {
        return match behind.others {
            Some(true) => format!("{since}waited for a CPU behind others, which was idle at last"),
            Some(false) | None => format!("{since}waited for a CPU that was idle"),
        };
    }
    match (behind.others, wait) {
        (Some(false), Wait::Outranked) => format!("{what} {before} {last}, of a higher priority"),
        (Some(true), Wait::Outranked) => {
            format!("{what} to a higher priority and to others, {last} the last of them")
        }
        (None, Wait::Outranked) => {
            format!("{what} to a higher priority, {last} or perhaps others before it")
        }
        (Some(false), _) => format!("{since}{what} {before} {last}"),
        (Some(true), _) => format!("{since}{what} {before} others, {last} the last of them"),
        (None, _) => format!("{since}{what} {before} {last}, and perhaps others"),
    }
}

/// Tells whether a task without a tid is the idle one, and does not mean all of its name.
fn is_idle(task: &Task) -> bool {
    let comm = until_null(&task.comm);
    comm.is_empty() || comm.starts_with(b"swapper/")
}

/// Renders a duration with four digits at most that count: `999 ns`, `1.234 us`, `12.34 ms`,
/// `123.4 s`.
#[must_use]
pub fn duration(ns: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")];
    let Some((unit, name)) = UNITS.into_iter().find(|(unit, _)| ns >= *unit) else {
        return format!("{ns} ns");
    };
    let whole = ns / unit;
    let digits = match whole {
        0..=9 => 3,
        10..=99 => 2,
        100..=999 => 1,
        _ => return format!("{whole} {name}"),
    };
    let part = ns % unit / (unit / 10_u64.pow(digits));
    format!("{whole}.{part:0width$} {name}", width = digits as usize)
}

/// Renders a moment since the first event: `1.234567 s`.
#[must_use]
pub fn seconds(ns: u64) -> String {
    format!("{}.{:06} s", ns / 1_000_000_000, ns % 1_000_000_000 / 1000)
}

/// Renders a share of a whole: `61 %`, `0.4 %`.
#[must_use]
pub fn share(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "-".to_owned();
    }
    let thousandths = u128::from(part) * 1000 / u128::from(whole);
    if thousandths >= 10 {
        format!("{} %", (thousandths + 5) / 10)
    } else {
        format!("0.{thousandths} %")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_four_digits() {
        for (ns, expected) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_000, "1.000 us"),
            (12_345, "12.34 us"),
            (123_456_789, "123.4 ms"),
            (9_009_999_999, "9.009 s"),
            (12_345_000_000_000, "12345 s"),
        ] {
            assert_eq!(duration(ns), expected);
        }
    }

    #[test]
    fn shares_are_of_the_whole() {
        assert_eq!(share(995, 1000), "100 %");
        assert_eq!(share(614, 1000), "61 %");
        assert_eq!(share(4, 1000), "0.4 %");
        assert_eq!(share(1, 0), "-");
    }

    #[test]
    fn a_name_of_any_bytes_is_harmless() {
        assert_eq!(
            thread(Thread { pid: 1, tid: 2 }, b"a\x1b[2Jb"),
            "a\\u{1b}[2Jb 1/2"
        );
    }
}
