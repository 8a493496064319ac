//! Going through a log event by event, and knowing before each whether others are missing.

use tracer_engine::EventTypes;
use tracer_engine::event::{Event, EventHeader, MonotonicNs};

use crate::log_view::{Entry, Gaps, Log, Pause, Walk};
use crate::report::Gap;

/// Who is given events, in order.
pub trait Follower {
    /// Event types have come: these are all that are known.
    fn learn(&mut self, types: &EventTypes);
    /// Events were lost before the next one.
    fn lose(&mut self, gap: Gap);
    /// The next event, with the name of its thread where it is known.
    fn event(&mut self, event: &Event<'_>, comm: &[u8]);
}

/// An event until it is known whether others were lost before it.
#[derive(Debug, Default)]
struct Held {
    header: Option<EventHeader>,
    data: Vec<u8>,
    comm: Vec<u8>,
}

impl Held {
    fn hold(&mut self, entry: &Entry<'_>) {
        self.header = Some(entry.line.event.header);
        self.data.clear();
        self.data.extend_from_slice(entry.line.event.data);
        self.comm.clear();
        self.comm
            .extend_from_slice(entry.line.comm.unwrap_or_default());
    }
}

/// Gives all that `walk` goes by to `follower`.
///
/// # Errors
///
/// The log cannot be read.
pub fn follow<L: Log>(walk: &mut Walk<L>, follower: &mut impl Follower) -> anyhow::Result<()> {
    let mut held = Held::default();
    let mut gaps: Option<Gaps> = None;
    let mut seen = Vec::new();
    // One by one: what is missing before an event is known once that was read.
    while walk.go_on(1, |entry| {
        held.hold(entry);
        Ok(())
    })? == Pause::Midway
    {
        let Some(header) = held.header.take() else {
            continue;
        };
        let gaps_by_now = walk.gaps();
        // What the log misses before its first event leaves no gap. What the trace had lost when
        // that was written may have been lost later than the event.
        let gaps_before = gaps.replace(gaps_by_now).unwrap_or(Gaps {
            of_log: gaps_by_now.of_log,
            ..Gaps::default()
        });
        if let Some(gap) = gap(gaps_before, gaps_by_now, header.time) {
            follower.lose(gap);
        }
        if is_first(&mut seen, header.event_type.0) {
            follower.learn(walk.log().event_types());
        }
        let event = Event {
            header,
            data: &held.data,
        };
        follower.event(&event, &held.comm);
    }
    let last = walk.span().map(|span| span.last.0);
    if let (Some(gaps), Some(last)) = (gaps, last)
        && let Some(gap) = gap(gaps, walk.gaps(), last)
    {
        follower.lose(gap);
    }
    Ok(())
}

/// What is missing now and was not `before`, where the next event is at `next`.
fn gap(before: Gaps, now: Gaps, next: MonotonicNs) -> Option<Gap> {
    let is_lost = now.missing.is_more_than(&before.missing);
    let is_damaged = now.of_log > before.of_log;
    (is_lost || is_damaged).then_some(Gap {
        next,
        until: if is_lost {
            now.counted_by.map(|by| by.max(next))
        } else {
            Some(next)
        },
        is_kernels: !is_damaged && now.missing.others == before.missing.others,
    })
}

/// Whether an event is the first of its type.
fn is_first(seen: &mut Vec<bool>, id: u32) -> bool {
    let index = usize::try_from(id.min(tracer_common::event_type::EVENT_ID_LIMIT)).unwrap_or(0);
    if seen.len() <= index {
        seen.resize(index + 1, false);
    }
    seen.get_mut(index)
        .is_some_and(|seen| !std::mem::replace(seen, true))
}
