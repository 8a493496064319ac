//! Going through a log event by event, and knowing before each whether others are missing.

use tracer_common::event_type::SystemEventType;
use tracer_engine::event::{Event, EventHeader, MonotonicNs, RealtimeNs};

use super::recorded_time::Missed;
use super::{Gaps, Log, Pause, Walk};
use tracer_binary::stacks::{Stack, SymbolNames};
use tracer_event::event_view::{EventView, NamespaceIds};
use tracer_event::gap::Gap;
use tracer_event::thread_contexts::ThreadContext;

/// An event until it is known whether others were lost before it.
#[derive(Debug, Default)]
pub struct HeldEvent {
    known: Option<Known>,
    data: Vec<u8>,
    name: Vec<u8>,
    comm: Vec<u8>,
    /// Process, time and data of its stack, and the names for it.
    stack: Option<(i32, MonotonicNs, Vec<u8>, SymbolNames)>,
}

/// Header and further facts of an event, beside its data and names.
#[derive(Clone, Copy, Debug)]
struct Known {
    header: EventHeader,
    entry: Option<&'static SystemEventType>,
    has_comm: bool,
    date: RealtimeNs,
    inside: Option<NamespaceIds>,
    context: Option<ThreadContext>,
}

impl HeldEvent {
    fn hold(&mut self, entry: &EventView<'_>) {
        self.known = Some(Known {
            header: entry.event.header,
            entry: entry.entry,
            has_comm: entry.comm.is_some(),
            date: entry.date,
            inside: entry.inside,
            context: entry.context,
        });
        let stack = entry.stack.as_ref();
        self.stack = stack.map(|stack| {
            (
                stack.pid,
                stack.at,
                stack.data.to_vec(),
                stack.names.clone(),
            )
        });
        self.data.clear();
        self.data.extend_from_slice(entry.event.data);
        self.name.clear();
        self.name.extend_from_slice(entry.name);
        self.comm.clear();
        self.comm.extend_from_slice(entry.comm.unwrap_or_default());
    }

    fn take(&mut self) -> Option<EventView<'_>> {
        let known = self.known.take()?;
        Some(EventView {
            event: Event {
                header: known.header,
                data: &self.data,
            },
            entry: known.entry,
            name: &self.name,
            comm: known.has_comm.then_some(&self.comm),
            date: known.date,
            inside: known.inside,
            stack: self.stack.as_ref().map(|(pid, at, data, names)| Stack {
                pid: *pid,
                at: *at,
                data,
                names,
            }),
            context: known.context,
        })
    }
}

/// Gaps that were counted when last asked.
#[derive(Debug, Default)]
pub struct GapWatch {
    before: Option<Gaps>,
    /// Events that one event of the log lets pass: mostly itself, or none.
    held: Vec<HeldEvent>,
}

impl GapWatch {
    /// Takes up to `most` events of `walk`, and gives each that is wanted to `visit`, with the gap
    /// before it.
    ///
    /// # Errors
    ///
    /// The log cannot be read, or `visit` fails.
    pub fn go_on<L: Log>(
        &mut self,
        walk: &mut Walk<L>,
        most: usize,
        mut visit: impl FnMut(&Walk<L>, Option<Gap>, &EventView<'_>) -> anyhow::Result<()>,
    ) -> anyhow::Result<Pause> {
        // One by one: what is missing before an event is known once that was read.
        for _ in 0..most {
            let held = &mut self.held;
            let mut count = 0;
            let pause = walk.go_on(1, |entry| {
                if held.len() == count {
                    held.push(HeldEvent::default());
                }
                if let Some(held) = held.get_mut(count) {
                    held.hold(entry);
                }
                count += 1;
                Ok(())
            })?;
            if pause != Pause::Midway {
                return Ok(pause);
            }
            if count == 0 {
                continue;
            }
            let now = walk.gaps();
            // What the log misses before its first event leaves no gap. What the trace had lost
            // when that was written may have been lost later than the event.
            let before = self.before.replace(now).unwrap_or(Gaps {
                of_log: now.of_log,
                ..Gaps::default()
            });
            if let Some(told) = &mut self.before
                && gap(before, now, MonotonicNs(0)).is_some_and(|gap| !gap.is_unrecorded)
            {
                // What was not recorded is told before the next event.
                told.missed = before.missed;
            }
            for (nth, held) in self.held.iter_mut().take(count).enumerate() {
                let Some(line) = held.take() else { continue };
                // The others were waited for, and come with the first.
                let gap = gap(before, now, line.event.header.time);
                visit(walk, gap.filter(|_| nth == 0), &line)?;
            }
        }
        Ok(Pause::Midway)
    }

    /// Returns the gap behind the last event of `walk`.
    pub fn behind<L: Log>(&self, walk: &Walk<L>) -> Option<Gap> {
        let last = walk.span()?.last.0;
        let (now, is_stopped) = walk.gaps_behind();
        let gap = gap(self.before?, now, last)?;
        // Of what follows nothing is known.
        let until = gap.until.filter(|_| !(is_stopped && gap.is_unrecorded));
        Some(Gap { until, ..gap })
    }
}

/// Returns the gap that is there now and was not `before`, where the next event is at `next`.
fn gap(before: Gaps, now: Gaps, next: MonotonicNs) -> Option<Gap> {
    let is_lost = now.missing.is_more_than(&before.missing);
    let is_damaged = now.of_log > before.of_log;
    if !is_lost && !is_damaged {
        return unrecorded(before.missed, now.missed, next);
    }
    Some(Gap {
        next,
        until: if is_lost {
            now.counted_by.map(|by| by.max(next))
        } else {
            Some(next)
        },
        is_kernels: !is_damaged && now.missing.others == before.missing.others,
        is_unrecorded: false,
        tid: None,
    })
}

/// Returns the gap of events that were not to be recorded.
fn unrecorded(before: Missed, now: Missed, next: MonotonicNs) -> Option<Gap> {
    let gap = Gap {
        next,
        until: (!now.is_partial).then_some(next),
        is_kernels: false,
        is_unrecorded: true,
        tid: None,
    };
    let is_new = now.breaks > before.breaks
        || now.is_partial != before.is_partial
        || (now.is_partial && now.has_lone_ends);
    let tid = (now.renames.0 > before.renames.0).then_some(now.renames.1);
    match tid {
        None if !is_new => None,
        tid => Some(Gap {
            tid: tid.filter(|_| !is_new),
            ..gap
        }),
    }
}
