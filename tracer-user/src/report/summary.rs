//! What the closing line tells: events by type, losses by cause.

use std::time::Duration;

use tracer_common::event_type::SYSTEM_EVENT_TYPES;
use tracer_posix::source::LossCause;

use super::escape::{push_for_people, push_json_string};
use super::numbers::{push_filled, push_number};
use super::text::push_short_name;

/// What was shown, and what was lost.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Name and number of the events of each type that were shown, most first.
    pub events: Vec<(Vec<u8>, u64)>,
    /// Events lost, for every cause.
    pub lost: Vec<(LossCause, u64)>,
    /// From the start of the trace to its end.
    pub elapsed: Duration,
}

impl Summary {
    /// Puts events of equal name together (a program may name an event type like one of ours) and
    /// brings them in order.
    #[must_use]
    pub fn new(
        mut events: Vec<(Vec<u8>, u64)>,
        lost: Vec<(LossCause, u64)>,
        elapsed: Duration,
    ) -> Self {
        events.sort();
        events.dedup_by(|(name, count), (kept_name, kept_count)| {
            let is_same = name == kept_name;
            if is_same {
                *kept_count += *count;
            }
            is_same
        });
        events.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        Self {
            events,
            lost,
            elapsed,
        }
    }

    /// Events lost, for whatever cause.
    #[must_use]
    pub fn lost_in_all(&self) -> u64 {
        self.lost.iter().map(|(_, count)| count).sum()
    }

    /// Two lines for people.
    #[must_use]
    pub fn for_people(&self) -> String {
        let mut out = Vec::new();
        push_number(
            &mut out,
            self.events.iter().map(|(_, count)| count).sum::<u64>(),
        );
        out.extend_from_slice(b" events in ");
        push_seconds(&mut out, self.elapsed);
        out.extend_from_slice(b" s");
        for (place, (name, count)) in self.events.iter().enumerate() {
            out.extend_from_slice(if place == 0 { b": " } else { b", " });
            push_number(&mut out, *count);
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
        push_number(&mut out, self.lost_in_all());
        out.extend_from_slice(b" lost");
        let causes = self.lost.iter().filter(|(_, count)| *count > 0);
        for (place, (cause, count)) in causes.enumerate() {
            out.extend_from_slice(if place == 0 { b": " } else { b", " });
            push_number(&mut out, *count);
            out.push(b' ');
            out.extend_from_slice(cause.name().as_bytes());
        }
        String::from_utf8_lossy(&out).into_owned()
    }

    /// The last JSON line.
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
        out.extend_from_slice(b",\"seconds\":");
        push_seconds(out, self.elapsed);
        out.extend_from_slice(b"}}\n");
    }
}

fn push_counts<'a>(out: &mut Vec<u8>, counts: impl Iterator<Item = (&'a [u8], u64)>) {
    out.push(b'{');
    for (place, (name, count)) in counts.enumerate() {
        if place > 0 {
            out.push(b',');
        }
        push_json_string(out, name);
        out.push(b':');
        push_number(out, count);
    }
    out.push(b'}');
}

fn push_seconds(out: &mut Vec<u8>, elapsed: Duration) {
    push_number(out, elapsed.as_secs());
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
    fn nothing_lost_is_said_too() {
        assert_eq!(
            Summary::default().for_people(),
            "0 events in 0.000 s\n0 lost"
        );
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
            }})
        );
    }
}
