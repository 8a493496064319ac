//! The gate of a stream: the moment from which it takes no event, from any thread.
//!
//! A pool may have room for one writer and none for another, since each has a chunk open. One
//! buffer has room for all writers or for none. So the first event that a stream has no space for
//! shuts its gate: every emission compares its time with [`StreamControl::accepts_until`] anyway,
//! and events after the time that is written there are all refused and counted. The reader finds
//! that time ([`StreamControl::full_since`]): up to it the stream has all that was emitted. The
//! reader drops and counts what was recorded later, by threads that had not yet seen the gate shut.
//! Then it opens the gate again ([`open`]), at once or when the stream starts again.
//!
//! A controller that gave no sign of life for too long shuts the gate as well.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use tracer_common::area::StreamControl;

/// The time of a gate that is open.
pub(crate) const OPEN: u64 = u64::MAX;

/// Shuts the gate, unless it is shut, for an event that could not be recorded just before `now`, in
/// ticks. Async-signal-safe.
#[cold]
pub(crate) fn shut(control: &StreamControl, now: u64) {
    let full = &control.full_since;
    let since = full
        .compare_exchange(OPEN, now, SeqCst, SeqCst)
        .err()
        .unwrap_or(now);
    control.accepts_until.fetch_min(since, SeqCst);
}

/// Tells whether the gate is shut. The event of a thread that sees it shut is later than that.
#[inline(always)]
pub(crate) fn is_shut(control: &StreamControl) -> bool {
    control.full_since.load(Relaxed) != OPEN
}

/// Returns since when the gate is shut, in ticks, if it is.
pub(crate) fn shut_since(control: &StreamControl) -> Option<u64> {
    let since = control.full_since.load(SeqCst);
    (since != OPEN).then_some(since)
}

/// Opens the gate; called by the stream's reader. A thread that refuses an event meanwhile shuts it
/// again.
pub(crate) fn open(control: &StreamControl) {
    control.full_since.store(OPEN, SeqCst);
    let lease_until = control.lease_until.load(SeqCst);
    control.accepts_until.store(lease_until, SeqCst);
}

/// Notes until when the controller counts as alive, in ticks. A gate that is shut stays shut.
pub(crate) fn renew_lease(control: &StreamControl, until: u64) {
    control.lease_until.store(until, SeqCst);
    if shut_since(control).is_none() {
        control.accepts_until.store(until, SeqCst);
        // A thread may have shut the gate in between.
        if let Some(since) = shut_since(control) {
            control.accepts_until.fetch_min(since, SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn control() -> StreamControl {
        // SAFETY: all of it is atomics, for which zeros are valid.
        let control: StreamControl = unsafe { std::mem::zeroed() };
        control.lease_until.store(u64::MAX, Relaxed);
        open(&control);
        control
    }

    #[test]
    fn a_gate_is_shut_by_the_first_who_finds_no_space() {
        let control = control();
        assert_eq!(shut_since(&control), None);
        shut(&control, 7);
        shut(&control, 9);
        assert_eq!(shut_since(&control), Some(7));
        assert_eq!(control.accepts_until.load(Relaxed), 7);
        open(&control);
        assert_eq!(shut_since(&control), None);
        assert_eq!(control.accepts_until.load(Relaxed), u64::MAX);
    }

    #[test]
    fn a_sign_of_life_opens_no_gate() {
        let control = control();
        renew_lease(&control, 100);
        assert_eq!(control.accepts_until.load(Relaxed), 100);
        shut(&control, 50);
        renew_lease(&control, 200);
        assert_eq!(control.accepts_until.load(Relaxed), 50);
        open(&control);
        assert_eq!(control.accepts_until.load(Relaxed), 200);
    }
}
