//! Content of the closing line: events by type, losses by cause.

use std::time::Duration;

use tracer_common::event_type::SYSTEM_EVENT_TYPES;
use tracer_engine::event::MonotonicNs;
use tracer_engine::source::LossCause;
use tracer_log::Damage;

use crate::document::push_line_end;
use crate::unrecorded::UnrecordedPart;
use tracer_text::digits::{push_decimal, push_filled};
use tracer_text::escape::{push_for_people, push_json_string};
use tracer_text::push_short_name;

/// Numbers of events that were shown, and that were lost.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Name and number of the shown events of each type, most first.
    pub events: Vec<(Vec<u8>, u64)>,
    /// Number of lost events, for every cause.
    pub lost: Vec<(LossCause, u64)>,
    /// CPUs on which the kernel's ring was full, each with the number of events lost by that.
    pub ring_full_on: Vec<(usize, u64)>,
    /// Time from the start of the trace to its end.
    pub elapsed: Duration,
    /// End of the trace, or else the time of the last event.
    pub last: MonotonicNs,
    /// End of the trace; `None` where a log does not have it, or where only a part of it was looked
    /// at.
    pub ended: Option<MonotonicNs>,
    /// Losses on the way into a log; `None` where events went to no log.
    pub written: Option<WriteLosses>,
    /// Further losses that a log reports; `None` for a live trace.
    pub log: Option<LogCondition>,
    /// Part that a log does not have since it was not to be recorded.
    pub unrecorded: UnrecordedPart,
    /// Cost of the system calls, where that was bounded; `None` for a log.
    pub held_up: Option<HeldUp>,
}

/// Cost of recording system calls for the threads that make them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeldUp {
    /// Calls that began while the programs at system calls were attached.
    pub calls: u64,
    /// Whether runs of the programs were timed. Else what a call costs is taken from what it costs
    /// threads that are not traced, and calls in windows are those that were given.
    pub is_timed: bool,
    /// Cost of each, as it was measured meanwhile, in nanoseconds.
    pub call_ns: u64,
    /// Cost of each other event, in nanoseconds: as it was measured meanwhile, or else as it is
    /// elsewhere.
    pub event_ns: u64,
    /// Time of the cheapest system call that is not recorded, in nanoseconds, at the speed that the
    /// processor had when it was measured.
    pub cheapest_ns: u64,
    /// How long the threads had CPUs in the whole trace, in nanoseconds.
    pub ran_ns: u64,
    /// Calls in the windows in which they are recorded.
    pub window_calls: u64,
    /// How long the threads had CPUs in these, in nanoseconds.
    pub window_ns: u64,
}

/// Losses of events on their way into a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteLosses {
    /// Events that gave way to others because stream or log were full, as their policies say.
    pub gave_way: u64,
    /// Events that could not be written.
    pub unwritten: u64,
    /// Whether a write failed, with or without a loss of events.
    pub has_failed: bool,
}

/// Losses in a log beside the events that its trace lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogCondition {
    /// Events that the trace lost for causes that only a later version knows.
    pub lost_for_other_causes: u64,
    /// Events that the log had to overwrite or discard.
    pub lost_in_log: u64,
    /// Parts of it that cannot be read.
    pub damage: Damage,
    /// Whether it was completed: the events written last may be missing in one that was not.
    pub is_completed: bool,
}

impl LogCondition {
    /// Tells whether nothing is damaged. That a log is not completed yet does not count.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.damage == Damage::default()
    }
}

impl Summary {
    /// Merges events of equal name (a program may name an event type like a system event type) and
    /// sorts them.
    #[must_use]
    pub fn new(
        mut events: Vec<(Vec<u8>, u64)>,
        lost: Vec<(LossCause, u64)>,
        elapsed: Duration,
    ) -> Self {
        events.sort();
        events.dedup_by(|(name, count), (first_name, first_count)| {
            let is_same = name == first_name;
            if is_same {
                *first_count += *count;
            }
            is_same
        });
        events.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        Self {
            events,
            lost,
            ring_full_on: Vec::new(),
            elapsed,
            last: MonotonicNs::default(),
            ended: None,
            written: None,
            log: None,
            unrecorded: UnrecordedPart::default(),
            held_up: None,
        }
    }

    /// Tells whether nothing is missing but the events that the policies gave up. A write that
    /// failed may have lost nothing, and is no success.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.lost_by_tracer() == 0 && self.written.is_none_or(|written| !written.has_failed)
    }

    /// Returns the number of lost events, for all causes.
    #[must_use]
    pub fn lost_in_all(&self) -> u64 {
        self.losses()
            .map(|(_, count)| count)
            .fold(0, u64::saturating_add)
    }

    /// Returns the number of events that the trace lost, without those that its log lost, and those
    /// that the kernel did not report: the next event of their thread shows that they are missing.
    #[must_use]
    pub fn lost_in_trace(&self) -> u64 {
        let others = self.log.map_or(0, |log| log.lost_for_other_causes);
        let is_gap = |(cause, _): &&(LossCause, u64)| *cause != LossCause::KernelNotReported;
        let counts = self.lost.iter().filter(is_gap);
        counts
            .map(|(_, count)| *count)
            .fold(others, u64::saturating_add)
    }

    /// Returns the number of events that the kernel did not report.
    #[must_use]
    pub fn not_reported(&self) -> u64 {
        let counts = self.lost.iter();
        counts
            .filter(|(cause, _)| *cause == LossCause::KernelNotReported)
            .map(|(_, count)| *count)
            .fold(0, u64::saturating_add)
    }

    /// Returns the number of lost events, except those that the kernel did not report: no other
    /// tracer on this kernel has them either, and no setting brings them.
    #[must_use]
    pub fn lost_by_tracer(&self) -> u64 {
        self.losses()
            .filter(|(cause, _)| *cause != LossCause::KernelNotReported.name())
            .map(|(_, count)| count)
            .fold(0, u64::saturating_add)
    }

    /// Returns the name and number of every cause of loss, those of a log included, whether it was
    /// written or is read.
    pub fn losses(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let unwritten = self.written.map(|written| (UNWRITTEN, written.unwritten));
        let of_log = self.log.map(|log| {
            [
                ("other_causes", log.lost_for_other_causes),
                ("log_full", log.lost_in_log),
            ]
        });
        let of_trace = self
            .lost
            .iter()
            .map(|(cause, count)| (cause.name(), *count));
        of_trace
            .chain(unwritten)
            .chain(of_log.into_iter().flatten())
    }

    /// Returns a remedy for each loss, for the next trace. For a log there is none: it is unknown
    /// who made it, and how.
    fn remedies(&self) -> impl Iterator<Item = (LossCause, &'static str)> {
        let is_live = self.log.is_none();
        let lost = self
            .lost
            .iter()
            .filter(move |(_, count)| is_live && *count > 0);
        let is_logged = self.written.is_some();
        lost.filter_map(move |(cause, _)| Some((*cause, remedy(*cause, is_logged)?)))
    }

    /// Returns two lines for people; more where something was lost, or of a log that is damaged or
    /// was not completed.
    #[must_use]
    pub fn for_people(&self) -> String {
        let mut out = Vec::new();
        let in_all = self.events.iter().map(|(_, count)| count).sum::<u64>();
        push_counted(&mut out, in_all, "event");
        out.extend_from_slice(b" in ");
        push_seconds(&mut out, self.elapsed);
        out.extend_from_slice(b" s");
        for (index, (name, count)) in self.events.iter().enumerate() {
            out.extend_from_slice(if index == 0 { b": " } else { b", " });
            push_decimal(&mut out, *count);
            out.push(b' ');
            match SYSTEM_EVENT_TYPES
                .iter()
                .find(|entry| entry.name.as_bytes() == name)
            {
                Some(entry) => push_short_name(&mut out, entry.name),
                None => push_for_people(&mut out, name),
            }
        }
        out.push(b'\n');
        push_decimal(&mut out, self.lost_by_tracer());
        out.extend_from_slice(b" lost");
        let unreported = LossCause::KernelNotReported.name();
        let causes = self.losses().filter(|(_, count)| *count > 0);
        for (index, (cause, count)) in causes.filter(|(cause, _)| *cause != unreported).enumerate()
        {
            out.extend_from_slice(if index == 0 { b": " } else { b", " });
            push_decimal(&mut out, count);
            out.push(b' ');
            out.extend_from_slice(cause.as_bytes());
            if cause == LossCause::KernelRingFull.name() {
                self.push_cpus(&mut out);
            }
        }
        out.extend_from_slice(self.but_for().as_bytes());
        for (cause, remedy) in self.remedies() {
            let line = format!("\nagainst {}: {remedy}", cause.name());
            out.extend_from_slice(line.as_bytes());
        }
        if let Some(written) = self.written {
            if written.unwritten > 0 {
                out.extend_from_slice(AGAINST_UNWRITTEN.as_bytes());
            }
            push_written(&mut out, written);
        }
        self.push_condition(&mut out);
        String::from_utf8_lossy(&out).into_owned()
    }

    /// Appends, line by line, what is wrong with a log, and what was not to be recorded in it.
    fn push_condition(&self, out: &mut Vec<u8>) {
        if let Some(log) = &self.log {
            log.push_for_people(out);
        }
        for line in self.unrecorded.words() {
            out.push(b'\n');
            out.extend_from_slice(line.as_bytes());
        }
    }

    /// Returns words for people about the events that the kernel did not report, which follow the
    /// number of lost events: `; complete, but for 7 switches and wake-ups that the kernel did not
    /// report`.
    /// Empty without any.
    #[must_use]
    pub fn but_for(&self) -> String {
        let is_request = |name: &[u8]| name.starts_with(b"linux_trace_block_");
        let has_requests = self.events.iter().any(|(name, _)| is_request(name));
        // A log that is damaged is not complete.
        let missing = self.lost_by_tracer() + u64::from(self.damage().is_some());
        but_for(self.not_reported(), missing, has_requests)
    }

    /// Returns words for people about a log that is damaged, was not completed, or was recorded in
    /// part, line by line; empty of any other.
    #[must_use]
    pub fn condition(&self) -> String {
        let mut out = Vec::new();
        self.push_condition(&mut out);
        String::from_utf8_lossy(&out).trim_start().to_owned()
    }

    /// Returns that condition, and for which part of the time system calls were recorded.
    #[must_use]
    pub fn condition_with_calls(&self) -> String {
        let condition = self.condition();
        let calls = self.unrecorded.calls_in_words();
        let lines = [condition, calls.unwrap_or_default()];
        let lines = lines.iter().filter(|line| !line.is_empty());
        lines.map(String::as_str).collect::<Vec<_>>().join("\n")
    }

    /// Returns the condition of a log, and of its system calls, as lines.
    #[must_use]
    pub fn condition_lines(&self) -> String {
        let condition = self.condition_with_calls();
        if condition.is_empty() {
            condition
        } else {
            condition + "\n"
        }
    }

    /// Returns the damage of a log: sites, bytes that could not be read, and packets that are
    /// missing. `None` where there is none.
    #[must_use]
    pub fn damage(&self) -> Option<[u64; 3]> {
        let log = self.log.filter(|log| !log.is_whole())?;
        let damage = log.damage;
        Some([damage.sites, damage.bytes, damage.packets_missing])
    }

    /// Appends the CPUs on which rings were full, where that is known.
    fn push_cpus(&self, out: &mut Vec<u8>) {
        for (index, (cpu, count)) in self.ring_full_on.iter().enumerate() {
            out.extend_from_slice(if index == 0 { b" (" } else { b", " });
            push_decimal(out, *count);
            out.extend_from_slice(b" on cpu ");
            out.extend_from_slice(cpu.to_string().as_bytes());
        }
        if !self.ring_full_on.is_empty() {
            out.push(b')');
        }
    }

    /// Appends the last JSON line.
    pub fn push_json(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"summary\":{\"events\":");
        let events = self.events.iter().map(|(name, count)| (&name[..], *count));
        push_counts(out, events);
        out.extend_from_slice(b",\"lost\":");
        let lost = self.lost.iter();
        push_counts(
            out,
            lost.map(|(cause, count)| (cause.name().as_bytes(), *count)),
        );
        if !self.ring_full_on.is_empty() {
            out.extend_from_slice(b",\"ring_full_by_cpu\":");
            let by_cpu = self.ring_full_on.iter();
            let by_cpu: Vec<_> = by_cpu
                .map(|(cpu, count)| (cpu.to_string(), *count))
                .collect();
            let by_cpu = by_cpu.iter();
            push_counts(out, by_cpu.map(|(cpu, count)| (cpu.as_bytes(), *count)));
        }
        if let Some(written) = self.written {
            out.extend_from_slice(b",\"gave_way\":");
            push_decimal(out, written.gave_way);
            out.extend_from_slice(b",\"unwritten\":");
            push_decimal(out, written.unwritten);
        }
        out.extend_from_slice(b",\"seconds\":");
        push_seconds(out, self.elapsed);
        if let Some(log) = &self.log {
            log.push_json(out);
        }
        out.push(b'}');
        push_line_end(out);
    }
}

/// Returns words for people about the events that the kernel did not report, which follow the
/// number of lost events.
#[must_use]
pub fn but_for(not_reported: u64, lost: u64, has_requests: bool) -> String {
    let what = match (not_reported, has_requests) {
        (0, _) => return String::new(),
        (1, false) => "1 switch or wake-up".to_owned(),
        (count, false) => format!("{count} switches and wake-ups"),
        (count, true) => format!("{count} switches, wake-ups and ends of requests"),
    };
    let whole = if lost == 0 {
        "complete, but for"
    } else {
        "and"
    };
    format!("; {whole} {what} that the kernel did not report")
}

fn push_written(out: &mut Vec<u8>, written: WriteLosses) {
    if written.gave_way > 0 {
        out.push(b'\n');
        push_decimal(out, written.gave_way);
        out.extend_from_slice(b" gave way to others, as the policies of stream and log say");
    }
}

/// Cause of the loss of events that could not be written to their log.
const UNWRITTEN: &str = "could not be written to the log";

/// Remedy for that.
const AGAINST_UNWRITTEN: &str = "\nagainst what could not be written: make room on the log's file \
                                 system, put the log on another one, or bound it by --log-size";

/// Returns the remedy for a cause of loss; `None` where none is known.
fn remedy(cause: LossCause, is_logged: bool) -> Option<&'static str> {
    Some(match cause {
        LossCause::KernelRingFull => {
            "give a larger --ring-size, or fewer types by --events or --syscalls"
        }
        LossCause::ThreadRingOverwritten | LossCause::ThreadRingFull => {
            "give a larger --thread-ring-size"
        }
        LossCause::Withheld => {
            "these processes let no other look into them for a time; run as root to have it"
        }
        LossCause::NotRead => "let the programs rest before the trace ends, or record fewer types",
        LossCause::StreamOverwritten | LossCause::StreamFull if is_logged => {
            "give a larger --stream-size, or fewer types by --events or --syscalls"
        }
        LossCause::StreamOverwritten | LossCause::StreamFull => {
            "give a larger --stream-size, or what takes events faster: --log FILE"
        }
        _ => return None,
    })
}

/// Appends a number of things: `1 event`, `2 events`.
fn push_counted(out: &mut Vec<u8>, count: u64, thing: &str) {
    push_decimal(out, count);
    out.push(b' ');
    out.extend_from_slice(thing.as_bytes());
    if count != 1 {
        out.push(b's');
    }
}

impl LogCondition {
    fn push_for_people(&self, out: &mut Vec<u8>) {
        let Damage {
            sites,
            bytes,
            packets_missing,
        } = self.damage;
        if self.damage != Damage::default() {
            out.extend_from_slice(b"\nthe log is damaged: ");
            push_counted(out, bytes, "byte");
            out.extend_from_slice(b" at ");
            push_counted(out, sites, "site");
            out.extend_from_slice(b" could not be read, and ");
            push_counted(out, packets_missing, "packet");
            let are = if packets_missing == 1 { " is" } else { " are" };
            out.extend_from_slice(are.as_bytes());
            out.extend_from_slice(b" known to be missing");
        }
        if !self.is_completed {
            out.extend_from_slice(
                b"\nthe log was not completed: it is being written, or its writer ended early",
            );
        }
    }

    fn push_json(&self, out: &mut Vec<u8>) {
        for (name, count) in [
            ("lost_for_other_causes", self.lost_for_other_causes),
            ("lost_in_log", self.lost_in_log),
            ("damaged_places", self.damage.sites),
            ("damaged_bytes", self.damage.bytes),
            ("packets_missing", self.damage.packets_missing),
        ] {
            out.extend_from_slice(b",\"");
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b"\":");
            push_decimal(out, count);
        }
        out.extend_from_slice(b",\"completed\":");
        let truth: &[u8] = if self.is_completed { b"true" } else { b"false" };
        out.extend_from_slice(truth);
    }
}

fn push_counts<'a>(out: &mut Vec<u8>, counts: impl Iterator<Item = (&'a [u8], u64)>) {
    out.push(b'{');
    for (index, (name, count)) in counts.enumerate() {
        if index > 0 {
            out.push(b',');
        }
        push_json_string(out, name);
        out.push(b':');
        push_decimal(out, count);
    }
    out.push(b'}');
}

fn push_seconds(out: &mut Vec<u8>, elapsed: Duration) {
    push_decimal(out, elapsed.as_secs());
    out.push(b'.');
    push_filled(out, u64::from(elapsed.subsec_millis()), 3, b'0');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary() -> Summary {
        Summary::new(
            vec![
                (b"rare".to_vec(), 1),
                (b"linux_trace_fork".to_vec(), 2),
                (b"lock \"held\"".to_vec(), 40),
                (b"linux_trace_fork".to_vec(), 3),
            ],
            vec![(LossCause::KernelRingFull, 0), (LossCause::Late, 7)],
            Duration::from_millis(2503),
        )
    }

    #[test]
    fn people_read_the_most_frequent_first_and_what_was_lost() {
        assert_eq!(
            summary().for_people(),
            "46 events in 2.503 s: 40 lock \"held\", 5 fork, 1 rare\n7 lost: 7 late"
        );
    }

    #[test]
    fn what_could_not_be_written_is_lost_as_well() {
        let summary = Summary {
            written: Some(WriteLosses {
                gave_way: 0,
                unwritten: 5,
                has_failed: true,
            }),
            ..summary()
        };
        assert_eq!(summary.lost_in_all(), 12);
        assert!(!summary.is_complete());
        let lines = summary.for_people();
        let expected = "12 lost: 7 late, 5 could not be written to the log";
        assert_eq!(lines.lines().nth(1), Some(expected));
        let remedy = "against what could not be written: make room";
        let last = lines.lines().last().unwrap();
        assert!(
            last.starts_with(remedy) && last.contains("--log-size"),
            "{lines}"
        );
    }

    #[test]
    fn a_single_event_is_one_event() {
        let events = vec![(b"x".to_vec(), 1)];
        let summary = Summary::new(events, Vec::new(), Duration::ZERO);
        assert!(summary.for_people().starts_with("1 event in 0.000 s: 1 x"));
    }

    #[test]
    fn nothing_lost_is_said_too() {
        assert_eq!(
            Summary::default().for_people(),
            "0 events in 0.000 s\n0 lost"
        );
    }

    #[test]
    fn what_the_kernel_did_not_report_is_no_loss() {
        let line = |lost: u64, not_reported: u64| {
            let lost = vec![
                (LossCause::Late, lost),
                (LossCause::KernelNotReported, not_reported),
            ];
            let summary = Summary::new(Vec::new(), lost, Duration::ZERO);
            summary.for_people().lines().nth(1).unwrap().to_owned()
        };
        let expected =
            "0 lost; complete, but for 7 switches and wake-ups that the kernel did not report";
        assert_eq!(line(0, 7), expected);
        assert!(line(0, 1).contains("for 1 switch or wake-up that"));
        let expected = "5 lost: 5 late; and 7 switches and wake-ups that the kernel did not report";
        assert_eq!(line(5, 7), expected);
    }

    #[test]
    fn programs_read_every_cause() {
        let mut out = Vec::new();
        summary().push_json(&mut out);
        let parsed: serde_json::Value = serde_json::from_slice(&out).unwrap();

        assert_eq!(
            parsed,
            serde_json::json!({"summary": {
                "events": {"lock \"held\"": 40, "linux_trace_fork": 5, "rare": 1},
                "lost": {"kernel_ring_full": 0, "late": 7},
                "seconds": 2.503,
            }, "schema": 1})
        );
    }

    #[test]
    fn full_rings_are_reported_by_cpu() {
        let full = Summary {
            lost: vec![(LossCause::KernelRingFull, 12), (LossCause::Late, 7)],
            ring_full_on: vec![(0, 5), (3, 7)],
            ..summary()
        };
        let mut json = Vec::new();
        full.push_json(&mut json);
        let json: serde_json::Value = serde_json::from_slice(&json).unwrap();

        assert_eq!(
            full.for_people().lines().nth(1),
            Some("19 lost: 12 kernel_ring_full (5 on cpu 0, 7 on cpu 3), 7 late")
        );
        let remedy = "against kernel_ring_full: give a larger --ring-size";
        let lines = full.for_people();
        assert!(
            lines.lines().any(|line| line.starts_with(remedy)),
            "{lines}"
        );
        assert_eq!(
            json["summary"]["ring_full_by_cpu"],
            serde_json::json!({"0": 5, "3": 7})
        );
    }

    #[test]
    fn a_log_is_no_remedy_where_there_is_one() {
        let mut lossy = Summary {
            lost: vec![(LossCause::StreamOverwritten, 12)],
            ..summary()
        };
        assert!(lossy.for_people().contains("--log FILE"));
        lossy.written = Some(WriteLosses::default());
        let lines = lossy.for_people();
        assert!(lines.contains("against stream_overwritten: give a larger --stream-size"));
        assert!(!lines.contains("--log FILE"), "{lines}");
    }

    #[test]
    fn of_a_log_it_says_what_else_is_missing() {
        let log = LogCondition {
            lost_for_other_causes: 3,
            lost_in_log: 5,
            damage: Damage {
                sites: 2,
                bytes: 900,
                packets_missing: 1,
            },
            is_completed: false,
        };
        let damaged = Summary {
            log: Some(log),
            ..summary()
        };

        assert_eq!(damaged.lost_in_all(), 15);
        assert_eq!(
            damaged.for_people().lines().skip(1).collect::<Vec<_>>(),
            [
                "15 lost: 7 late, 3 other_causes, 5 log_full",
                "the log is damaged: 900 bytes at 2 sites could not be read, \
                 and 1 packet is known to be missing",
                "the log was not completed: it is being written, or its writer ended early"
            ]
        );
        let mut out = Vec::new();
        damaged.push_json(&mut out);
        let parsed: serde_json::Value = serde_json::from_slice(&out).unwrap();
        let summary = &parsed["summary"];
        assert_eq!(summary["lost_in_log"], 5);
        assert_eq!(summary["damaged_bytes"], 900);
        assert_eq!(summary["completed"], false);
    }

    #[test]
    fn of_a_whole_log_it_says_no_more() {
        let whole = Summary {
            log: Some(LogCondition {
                is_completed: true,
                ..LogCondition::default()
            }),
            ..Summary::default()
        };
        assert_eq!(whole.for_people(), "0 events in 0.000 s\n0 lost");
    }
}
