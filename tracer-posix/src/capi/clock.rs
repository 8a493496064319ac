//! The clock that C programs see: `CLOCK_REALTIME`.

use crate::area::monotonic_now;
use crate::engine::Attributes;
use crate::event::{MonotonicNs, RealtimeNs};

/// Turns event times into `CLOCK_REALTIME`. Within one stream they never decrease, though the
/// realtime clock may be set back.
#[derive(Debug)]
pub(super) struct RealtimeClock {
    /// Realtime less monotonic, in nanoseconds.
    offset: i64,
    last: RealtimeNs,
}

impl RealtimeClock {
    pub(super) fn new() -> Self {
        Self {
            offset: offset_now(),
            last: RealtimeNs(0),
        }
    }

    /// Looks at both clocks again.
    pub(super) fn look(&mut self) {
        self.offset = offset_now();
    }

    pub(super) fn time(&mut self, time: MonotonicNs) -> RealtimeNs {
        self.last = self
            .last
            .max(RealtimeNs(time.0.saturating_add_signed(self.offset)));
        self.last
    }
}

fn offset_now() -> i64 {
    let before = monotonic_now().0;
    let realtime = now().0;
    let after = monotonic_now().0;
    let monotonic = before + (after - before) / 2;
    i64::try_from(realtime).unwrap_or(0) - i64::try_from(monotonic).unwrap_or(0)
}

/// `CLOCK_REALTIME` now.
pub(super) fn now() -> RealtimeNs {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `now` is a valid place; the clock exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut now) };
    RealtimeNs(nanoseconds(&now).unwrap_or(0))
}

/// A point of time in nanoseconds; `None` when its nanoseconds are less than 0 or no less than a
/// second. What is before the clock's beginning or after its end is the nearest point it has.
pub(super) fn nanoseconds(time: &libc::timespec) -> Option<u64> {
    let rest = u64::try_from(time.tv_nsec)
        .ok()
        .filter(|&rest| rest < 1_000_000_000)?;
    let Ok(seconds) = u64::try_from(time.tv_sec) else {
        return Some(0);
    };
    Some(seconds.saturating_mul(1_000_000_000).saturating_add(rest))
}

/// As C has it.
pub(super) fn timespec(time: RealtimeNs) -> libc::timespec {
    libc::timespec {
        tv_sec: libc::time_t::try_from(time.0 / 1_000_000_000).unwrap_or(libc::time_t::MAX),
        tv_nsec: libc::c_long::try_from(time.0 % 1_000_000_000).unwrap_or(0),
    }
}

/// The defaults, with the resolution that the kernel says its clock has.
pub(super) fn default_attributes() -> Attributes {
    let mut resolution = libc::timespec {
        tv_sec: 0,
        tv_nsec: 1,
    };
    // SAFETY: a valid place; the clock exists on every Linux.
    unsafe { libc::clock_getres(libc::CLOCK_REALTIME, &raw mut resolution) };
    Attributes::default().with_clock_resolution_ns(nanoseconds(&resolution).unwrap_or(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_its_nanoseconds_make_a_time_invalid() {
        let of = |tv_sec, tv_nsec| nanoseconds(&libc::timespec { tv_sec, tv_nsec });

        assert_eq!(of(2, 3), Some(2_000_000_003));
        assert_eq!(of(-1, 999_999_999), Some(0));
        assert_eq!(of(libc::time_t::MAX, 0), Some(u64::MAX));
        assert_eq!(of(0, -1), None);
        assert_eq!(of(0, 1_000_000_000), None);
    }
}
