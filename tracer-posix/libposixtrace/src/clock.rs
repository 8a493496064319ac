//! Points of time as C programs have them.

use tracer_engine::Attributes;
use tracer_engine::event::RealtimeNs;

/// Returns a point of time in nanoseconds; `None` when its nanoseconds are less than 0 or no less
/// than a second. A time that the clock cannot have gives the nearest one that it can.
pub(super) fn nanoseconds(time: &libc::timespec) -> Option<u64> {
    let rest = u64::try_from(time.tv_nsec)
        .ok()
        .filter(|&rest| rest < 1_000_000_000)?;
    let Ok(seconds) = u64::try_from(time.tv_sec) else {
        return Some(0);
    };
    Some(seconds.saturating_mul(1_000_000_000).saturating_add(rest))
}

/// Returns a point of time as C has it.
pub(super) fn timespec(time: RealtimeNs) -> libc::timespec {
    libc::timespec {
        tv_sec: libc::time_t::try_from(time.0 / 1_000_000_000).unwrap_or(libc::time_t::MAX),
        tv_nsec: libc::c_long::try_from(time.0 % 1_000_000_000).unwrap_or(0),
    }
}

/// Returns the default attributes, with the resolution that the kernel states for its clock.
pub(super) fn default_attributes() -> Attributes {
    let mut resolution = libc::timespec {
        tv_sec: 0,
        tv_nsec: 1,
    };
    // SAFETY: valid for writes; the clock exists on every Linux.
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
