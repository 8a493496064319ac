//! From the monotonic clock to dates.

use tracer_engine::ClockPair;
use tracer_engine::event::{MonotonicNs, RealtimeNs};

use super::digits::push_filled;

const NS_PER_SECOND: u64 = 1_000_000_000;

/// The relation between the monotonic clock and the date, taken once: a clock that is set while we
/// trace does not disorder the timeline.
#[derive(Clone, Debug)]
pub struct WallClock {
    /// Date minus monotonic clock. The boot was after 1970, or else the clock is not set.
    epoch_offset_ns: u64,
    /// Seconds since 1970 whose date is in `prefix`.
    second: u64,
    /// Date and time to the second, with the dot.
    prefix: Vec<u8>,
}

impl Default for WallClock {
    /// Returns a clock for dates alone.
    fn default() -> Self {
        Self::new(ClockPair::default())
    }
}

impl WallClock {
    /// Returns the clock that goes by these two.
    #[must_use]
    pub fn new(clocks: ClockPair) -> Self {
        Self {
            epoch_offset_ns: clocks.realtime.0.saturating_sub(clocks.monotonic.0),
            second: u64::MAX,
            prefix: Vec::new(),
        }
    }

    /// Appends `time` as RFC 3339, in UTC with nanoseconds.
    pub fn push(&mut self, out: &mut Vec<u8>, time: MonotonicNs) {
        self.push_date(out, RealtimeNs(time.0.saturating_add(self.epoch_offset_ns)));
    }

    /// Appends a date as RFC 3339, in UTC with nanoseconds.
    pub fn push_date(&mut self, out: &mut Vec<u8>, date: RealtimeNs) {
        let ns = date.0;
        let second = ns / NS_PER_SECOND;
        if second != self.second {
            self.second = second;
            self.prefix.clear();
            push_date(&mut self.prefix, second);
        }
        out.extend_from_slice(&self.prefix);
        push_filled(out, ns % NS_PER_SECOND, 9, b'0');
        out.push(b'Z');
    }
}

/// Appends `YYYY-MM-DDTHH:MM:SS.` of a number of seconds since 1970.
fn push_date(out: &mut Vec<u8>, second: u64) {
    let (year, month, day) = civil(second / 86_400);
    let in_day = second % 86_400;
    for (value, width, after) in [
        (year, 4, b'-'),
        (month, 2, b'-'),
        (day, 2, b'T'),
        (in_day / 3600, 2, b':'),
        (in_day / 60 % 60, 2, b':'),
        (in_day % 60, 2, b'.'),
    ] {
        push_filled(out, value, width, b'0');
        out.push(after);
    }
}

/// Returns year, month and day of a number of days since 1970-01-01.
///
/// Counts years from March, so that the leap day is the last of its year, and in eras of 400 years,
/// which all have 146,097 days.
fn civil(days: u64) -> (u64, u64, u64) {
    // 719,468 days from 0000-03-01 to 1970-01-01.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    // 1,460: days of 4 years less the leap day; 36,524: of 100; 146,096: of 400.
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // 153 days in each five months from March: 31, 30, 31, 30, 31.
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn date(second: u64, ns: u64) -> String {
        let mut clock = WallClock::new(ClockPair::default());
        let mut out = Vec::new();
        clock.push(&mut out, MonotonicNs(second * NS_PER_SECOND + ns));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(date(0, 0), "1970-01-01T00:00:00.000000000Z");
        assert_eq!(date(951_782_400, 1), "2000-02-29T00:00:00.000000001Z");
        assert_eq!(
            date(951_868_799, 999_999_999),
            "2000-02-29T23:59:59.999999999Z"
        );
        assert_eq!(date(1_709_251_200, 0), "2024-03-01T00:00:00.000000000Z");
        assert_eq!(date(4_107_542_399, 0), "2100-02-28T23:59:59.000000000Z");
        assert_eq!(date(4_107_542_400, 0), "2100-03-01T00:00:00.000000000Z");
    }

    #[test]
    fn the_date_is_the_one_at_which_the_clock_was_compared() {
        let mut clock = WallClock::new(ClockPair {
            monotonic: MonotonicNs(5 * NS_PER_SECOND),
            realtime: RealtimeNs(1_000_000_000 * NS_PER_SECOND),
        });
        let mut out = Vec::new();
        clock.push(&mut out, MonotonicNs(6 * NS_PER_SECOND));

        assert_eq!(out, b"2001-09-09T01:46:41.000000000Z");
    }
}
