//! Beginning or end of a part of a log, as people type it.

use std::time::{Duration, UNIX_EPOCH};

use anyhow::Context;
use tracer_engine::event::{MonotonicNs, RealtimeNs};
use tracer_log::LogRecord;

/// A moment in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimePoint {
    /// Time after the start, as the text shows it.
    Offset(Duration),
    /// A date.
    Date(RealtimeNs),
}

impl TimePoint {
    /// Reads `1.5s`, `200ms`, `2m`, or a date as the JSON lines show it, in UTC:
    /// `2026-02-03T14:05:06.789Z`; its fraction and its `Z` may be missing.
    ///
    /// # Errors
    ///
    /// The text is neither. `option` is named in the message.
    pub fn parse(option: &str, typed: &str) -> anyhow::Result<Self> {
        if typed.contains('T') || typed.contains(':') {
            return date(typed).map(Self::Date).with_context(|| {
                format!("{option} {typed:?} is no date; give one as 2026-02-03T14:05:06.789Z")
            });
        }
        let digits = typed.trim_end_matches(|character: char| character.is_ascii_alphabetic());
        if digits.parse() == Ok(0.0) {
            return Ok(Self::Offset(Duration::ZERO));
        }
        tracer_text::quantity::time(option, typed)
            .map(Self::Offset)
            .with_context(|| format!("{option} takes a time since the start of the log, or a date"))
    }

    /// Returns the moment that it means in a log that starts at `start`.
    #[must_use]
    pub fn moment(self, start: MonotonicNs) -> Moment {
        match self {
            Self::Date(date) => Moment::Date(date),
            Self::Offset(offset) => Moment::Time(MonotonicNs(
                u64::try_from(offset.as_nanos()).map_or(u64::MAX, |ns| start.0.saturating_add(ns)),
            )),
        }
    }
}

/// A moment on one of a log's two clocks. Their difference may change within a log: dates
/// are set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Time on the monotonic clock.
    Time(MonotonicNs),
    /// A date.
    Date(RealtimeNs),
}

impl Moment {
    /// Tells whether an event was recorded before.
    #[must_use]
    pub fn is_after(self, record: &LogRecord<'_>) -> bool {
        match self {
            Self::Time(time) => record.event.header.time < time,
            Self::Date(date) => record.realtime < date,
        }
    }

    /// Tells whether an event was recorded afterwards.
    #[must_use]
    pub fn is_before(self, record: &LogRecord<'_>) -> bool {
        match self {
            Self::Time(time) => record.event.header.time > time,
            Self::Date(date) => record.realtime > date,
        }
    }
}

fn date(typed: &str) -> anyhow::Result<RealtimeNs> {
    let time = humantime::parse_rfc3339_weak(typed)?;
    let since = time.duration_since(UNIX_EPOCH)?;
    Ok(RealtimeNs(u64::try_from(since.as_nanos())?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(typed: &str) -> Option<TimePoint> {
        TimePoint::parse("--from", typed).ok()
    }

    #[test]
    fn offsets_have_units_and_may_be_nothing() {
        let offset = |ms| Some(TimePoint::Offset(Duration::from_millis(ms)));
        assert_eq!(parsed("1.5s"), offset(1500));
        assert_eq!(parsed("200ms"), offset(200));
        assert_eq!(parsed("2m"), offset(120_000));
        assert_eq!(parsed("0"), offset(0));
        assert_eq!(parsed("0s"), offset(0));
    }

    #[test]
    fn dates_are_those_that_the_json_lines_show() {
        let date = |ns| Some(TimePoint::Date(RealtimeNs(ns)));
        assert_eq!(
            parsed("2001-09-09T01:46:41.000000002Z"),
            date(1_000_000_001_000_000_002)
        );
        assert_eq!(
            parsed("2001-09-09T01:46:41"),
            date(1_000_000_001_000_000_000)
        );
        assert_eq!(
            parsed("2001-09-09 01:46:41"),
            date(1_000_000_001_000_000_000)
        );
    }

    #[test]
    fn what_is_neither_is_refused_by_name() {
        for typed in [
            "",
            "soon",
            "-1s",
            "2001-09-09",
            "25:00",
            "2001-13-09T01:46:41Z",
            "1d",
        ] {
            let error = TimePoint::parse("--from", typed).unwrap_err();
            assert!(
                format!("{error:#}").contains("--from"),
                "{typed}: {error:#}"
            );
        }
    }

    #[test]
    fn an_offset_counts_from_the_start() {
        let offset = TimePoint::Offset(Duration::from_nanos(5));
        let at = |start| offset.moment(MonotonicNs(start));
        assert_eq!(at(100), Moment::Time(MonotonicNs(105)));
        assert_eq!(at(u64::MAX), Moment::Time(MonotonicNs(u64::MAX)));
        let date = RealtimeNs(3);
        assert_eq!(
            TimePoint::Date(date).moment(MonotonicNs(100)),
            Moment::Date(date)
        );
    }
}
