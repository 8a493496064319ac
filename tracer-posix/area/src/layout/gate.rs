//! The gate of a stream: the moment from which it takes no event, from any thread.
//!
//! A pool has room for one writer while it has none for another: each has a chunk open. One buffer
//! has room for all or for none. So the first event that a stream has no space for shuts its gate:
//! every emission compares its time with [`StreamControl::accepts_until`] in any case, and from the
//! time on that is written there, all are refused and counted. The reader finds that time
//! ([`StreamControl::full_since`]): what the stream has up to it is all that was emitted up to it.
//! What was recorded later, before the gate was seen, it drops and counts. Then it opens the gate
//! again ([`open`]), at once or when the stream starts again.
//!
//! A controller that gave no sign of life for too long shuts the gate as well.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use tracer_common::area::StreamControl;

/// The time of a gate that is open.
pub(crate) const OPEN: u64 = u64::MAX;

/// Shuts the gate for an event that could not be recorded just before `now`, in ticks, unless it is
/// shut. Async-signal-safe.
#[cold]
pub(crate) fn shut(control: &StreamControl, now: u64) {
    let full = &control.full_since;
    let since = full
        .compare_exchange(OPEN, now, SeqCst, SeqCst)
        .err()
        .unwrap_or(now);
    control.accepts_until.fetch_min(since, SeqCst);
}

/// Tells whether the gate is shut: a thread that sees that has an event that is later.
#[inline(always)]
pub(crate) fn is_shut(control: &StreamControl) -> bool {
    control.full_since.load(Relaxed) != OPEN
}

/// Returns since when the gate is shut, in ticks, if it is.
pub(crate) fn shut_since(control: &StreamControl) -> Option<u64> {
    let since = control.full_since.load(SeqCst);
    (since != OPEN).then_some(since)
}

/// Opens the gate, for the stream's reader. Who refuses an event meanwhile shuts it again.
pub(crate) fn open(control: &StreamControl) {
    control.full_since.store(OPEN, SeqCst);
    let lease_until = control.lease_until.load(SeqCst);
    control.accepts_until.store(lease_until, SeqCst);
}

/// Says until when the controller counts as alive, in ticks. A gate that is shut stays so.
pub(crate) fn renew_lease(control: &StreamControl, until: u64) {
    control.lease_until.store(until, SeqCst);
    if shut_since(control).is_none() {
        control.accepts_until.store(until, SeqCst);
        // It may have been shut in between.
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
