//! Events that a log does not have since they were not to be recorded, which is no loss.

use serde_json::{Value, json};

use crate::predicate::LogFilter;

/// Reason why nothing was recorded for a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Break {
    /// The log was continued by a later recording.
    Continued,
    /// The stream was stopped.
    Stopped,
    /// The stream was full, and stopped itself.
    Full,
    /// Newer events took the places of those of that time.
    GaveWay,
}

impl Break {
    fn words(self) -> &'static str {
        match self {
            Self::Continued => "the log was continued by a later recording",
            Self::Stopped => "its stream was stopped",
            Self::Full => "its stream was full",
            Self::GaveWay => "newer events took the places of others",
        }
    }
}

/// Part of a trace that was not to be recorded in its log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnrecordedPart {
    /// The expression that each event has passed.
    pub filter: Option<LogFilter>,
    /// The choice of system calls, where some were left out.
    pub chosen_calls: Option<String>,
    /// Times in which nothing was recorded.
    pub breaks: u64,
    /// Their length together, in nanoseconds.
    pub break_ns: u64,
    /// Beginning of the last one, in nanoseconds since the start of the log.
    pub last_break: u64,
    /// Their reasons, each once.
    pub causes: Vec<Break>,
    /// Time in which system calls were recorded, and all time, in nanoseconds, where they were not
    /// recorded in all of it.
    pub calls: Option<(u64, u64)>,
    /// Time in which switches were recorded, and all time, as above.
    pub switches: Option<(u64, u64)>,
}

impl UnrecordedPart {
    /// Tells whether all was recorded.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        let is_chosen = self.filter.is_some() || self.chosen_calls.is_some();
        !is_chosen && self.breaks == 0 && self.calls.is_none() && self.switches.is_none()
    }

    /// Returns the part of the time in which system calls were recorded, in thousandths, where it
    /// is not all of it.
    #[must_use]
    pub fn calls_recorded(&self) -> Option<u64> {
        self.calls.map(thousandths)
    }

    /// Returns that part of the time in which switches were recorded.
    #[must_use]
    pub fn switches_recorded(&self) -> Option<u64> {
        self.switches.map(thousandths)
    }

    /// Returns words for people, line by line; empty where all was recorded. System calls that were
    /// recorded for a part of the time are another matter.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(filter) = &self.filter {
            lines.push(format!(
                "the log holds only what --filter {:?} let through: what else there was is unknown",
                filter.text
            ));
        }
        if let Some(calls) = &self.chosen_calls {
            lines.push(format!(
                "the log holds only the system calls that --syscalls {calls:?} chose: whether \
                 others were made is unknown"
            ));
        }
        if self.breaks > 0 {
            lines.push(self.breaks_in_words());
        }
        if let Some(share) = self.switches_recorded() {
            lines.push(format!(
                "switches, wake-ups and page faults were recorded in {} of the time (--switch-cost \
                 100 records all): no figure has what threads did else",
                percent(share)
            ));
        }
        lines
    }

    fn breaks_in_words(&self) -> String {
        let causes: Vec<_> = self.causes.iter().map(|cause| cause.words()).collect();
        let causes = causes.join(", or ");
        let (all, last) = (seconds(self.break_ns), seconds(self.last_break));
        if self.breaks == 1 {
            format!(
                "nothing was recorded for {all}, from {last} after the log's start on: {causes}"
            )
        } else {
            format!(
                "nothing was recorded for {all} in all, {} times, the last from {last} after the \
                 log's start on: {causes}",
                self.breaks
            )
        }
    }

    /// Returns a line for people about system calls that were recorded for a part of the time.
    #[must_use]
    pub fn calls_in_words(&self) -> Option<String> {
        let share = self.calls_recorded()?;
        Some(format!(
            "system calls were recorded in {} of the time (--call-cost): their counts and sums are of \
             that time alone",
            percent(share)
        ))
    }

    /// Returns the member of JSON; `null` where all was recorded.
    #[must_use]
    pub fn json(&self) -> Value {
        if self.is_nothing() {
            return Value::Null;
        }
        json!({
            "filter": self.filter.as_ref().map(|filter| &filter.text),
            "syscalls": self.chosen_calls,
            "breaks": self.breaks,
            "break_ns": self.break_ns,
            "last_break_ns": (self.breaks > 0).then_some(self.last_break),
            "calls_recorded": self.calls_recorded(),
            "switches_recorded": self.switches_recorded(),
        })
    }
}

/// Returns a part of the time in thousandths.
fn thousandths((part, all): (u64, u64)) -> u64 {
    part.saturating_mul(1000) / all.max(1)
}

fn percent(thousandths: u64) -> String {
    format!("{}.{} %", thousandths / 10, thousandths % 10)
}

fn seconds(ns: u64) -> String {
    format!("{}.{:06} s", ns / 1_000_000_000, ns % 1_000_000_000 / 1000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predicate::FilterReach;

    #[test]
    fn all_that_was_not_recorded_is_said() {
        assert!(UnrecordedPart::default().is_nothing());
        assert!(UnrecordedPart::default().words().is_empty());
        assert_eq!(UnrecordedPart::default().json(), Value::Null);
        let filtered = UnrecordedPart {
            filter: Some(LogFilter {
                text: "pid == 1".to_owned(),
                reach: FilterReach::Processes,
            }),
            chosen_calls: Some("%file".to_owned()),
            breaks: 2,
            break_ns: 3_500_000_000,
            last_break: 1_250_000_000,
            causes: vec![Break::Continued, Break::Full],
            calls: Some((25, 200)),
            switches: Some((1, 5)),
        };
        let words = filtered.words();
        assert!(words[0].contains("--filter \"pid == 1\""), "{words:?}");
        assert!(words[1].contains("--syscalls \"%file\""), "{words:?}");
        assert!(words[2].contains("2 times") && words[2].contains("its stream was full"));
        assert!(words[3].contains("20.0 %"), "{words:?}");
        let calls = filtered.calls_in_words().unwrap();
        assert!(calls.contains("12.5 %"), "{calls}");
        let json = filtered.json();
        assert_eq!(json["filter"], "pid == 1");
        assert_eq!(json["syscalls"], "%file");
        assert_eq!(json["break_ns"], 3_500_000_000_u64);
        assert_eq!(json["calls_recorded"], 125);
        assert_eq!(json["switches_recorded"], 200);
    }
}
