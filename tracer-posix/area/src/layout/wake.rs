//! A reader that sleeps until there is an event, and the emitter that wakes it.
//!
//! The reader says in its stream's control words that it is about to sleep, makes every running
//! thread pass a barrier, and looks once more; an emitter looks at the word after the event is
//! there. So one of the two sees the other. The reader is not woken twice: the emitter that wakes
//! it takes back what the reader has said.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, SeqCst};
use std::time::Duration;

use tracer_common::area::StreamControl;

use crate::system::errno;

/// Set while the reader sleeps, or is about to. The other bits count how often it was woken.
const WAITING: u32 = 1;
const ONE_WAKING: u32 = 2;

/// Tells whether a reader sleeps, or is about to.
#[inline(always)]
pub(crate) fn is_awaited(control: &StreamControl) -> bool {
    control.waiting.load(Relaxed) & WAITING != 0
}

/// Wakes the reader that sleeps on this stream. Async-signal-safe.
#[cold]
pub(crate) fn wake(control: &StreamControl) {
    let word = &control.waiting;
    let before = word.load(Relaxed);
    let after = before.wrapping_add(ONE_WAKING) & !WAITING;
    let is_ours = before & WAITING != 0
        && word
            .compare_exchange(before, after, AcqRel, Relaxed)
            .is_ok();
    if is_ours {
        wake_whoever_sleeps(word);
    }
}

/// Wakes the thread that sleeps on a word, whatever the word says. Async-signal-safe.
pub(crate) fn wake_whoever_sleeps(waiting: &AtomicU32) {
    let before = errno::get();
    // SAFETY: the word lives as long as it is borrowed.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            &raw const *waiting,
            libc::FUTEX_WAKE,
            i32::MAX,
        )
    };
    errno::set(before);
}

/// Counts one more waking of the reader.
pub(crate) fn count_waking(waiting: &AtomicU32) {
    waiting.fetch_add(ONE_WAKING, SeqCst);
}

/// Returns how often the reader was woken so far.
pub(crate) fn wakings(waiting: &AtomicU32) -> u32 {
    waiting.load(Acquire) & !WAITING
}

/// Sleeps until the reader was woken more than `known` times, whether or not it has said yet that
/// it sleeps. Returns how often it was woken by then. May return before that.
pub(crate) fn sleep_until_woken(waiting: &AtomicU32, known: u32) -> u32 {
    let before = waiting.load(Acquire);
    if before & !WAITING == known {
        futex_wait(waiting, before, None);
    }
    wakings(waiting)
}

/// Says that the reader is about to sleep. The reader then has to pass a barrier, and look once
/// more.
pub(crate) fn announce(waiting: &AtomicU32) {
    waiting.fetch_or(WAITING, SeqCst);
}

/// Takes back that the reader is about to sleep.
pub(crate) fn retract(waiting: &AtomicU32) {
    waiting.fetch_and(!WAITING, SeqCst);
}

/// Sleeps until the reader is woken, for `time` at most.
pub(crate) fn sleep(waiting: &AtomicU32, time: Duration) {
    let before = waiting.load(Acquire);
    if before & WAITING != 0 {
        futex_wait(waiting, before, Some(time));
    }
}

fn futex_wait(word: &AtomicU32, before: u32, time: Option<Duration>) {
    let time = time.map(|time| libc::timespec {
        tv_sec: time.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: time.subsec_nanos().into(),
    });
    let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the word and the time are valid; a word that is not as it was, a signal or the end of
    // the time are errors.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            &raw const *word,
            libc::FUTEX_WAIT,
            before,
            time,
        )
    };
}
