//! Spans of OpenTelemetry, as the contexts of threads show them: the time from the first event at
//! which a thread works for a span to the last one, before it works for another trace or for none.

use std::collections::HashMap;

use tracer_analysis::Thread;
use tracer_engine::event::{Event, MonotonicNs};
use tracer_event::thread_contexts::{ThreadContext, has_context};

/// Threads that work for the trace at a time, and spans of each: those within each other. Beyond
/// that, spans are not followed.
const MOST_THREADS: usize = 4096;
const MOST_SPANS: usize = 64;

/// Spans of one trace that threads work for.
#[derive(Debug)]
pub struct ContextSpans {
    trace: [u8; 16],
    open: HashMap<Thread, Vec<ContextSpan>>,
}

/// Time for which a thread works for a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextSpan {
    /// Identifier of the span.
    pub span_id: [u8; 8],
    /// Time of the first event.
    pub from: MonotonicNs,
    /// Time of the last event.
    pub to: MonotonicNs,
}

impl ContextSpans {
    /// Begins with nothing, for this trace.
    pub fn new(trace: [u8; 16]) -> Self {
        Self {
            trace,
            open: HashMap::new(),
        }
    }

    /// Takes the next event, and returns the spans that its thread works for no longer.
    pub fn feed(&mut self, event: &Event<'_>, context: Option<ThreadContext>) -> Vec<ContextSpan> {
        let header = &event.header;
        if !has_context(event) {
            return Vec::new();
        }
        let thread = Thread {
            pid: header.pid,
            tid: header.tid,
        };
        let Some(context) = context.filter(|context| context.trace_id == self.trace) else {
            return self.open.remove(&thread).unwrap_or_default();
        };
        if self.open.len() >= MOST_THREADS && !self.open.contains_key(&thread) {
            return Vec::new();
        }
        let spans = self.open.entry(thread).or_default();
        let of = |span: &ContextSpan| span.span_id == context.span_id;
        let known = spans.iter().position(of);
        match known {
            Some(known) => {
                if let Some(span) = spans.get_mut(known) {
                    span.to = header.time;
                }
            }
            None if spans.len() < MOST_SPANS => spans.push(ContextSpan {
                span_id: context.span_id,
                from: header.time,
                to: header.time,
            }),
            None => {}
        }
        Vec::new()
    }

    /// Returns the beginning of the oldest span that is open.
    pub fn oldest(&self) -> Option<MonotonicNs> {
        let spans = self.open.values().flatten();
        spans.map(|span| span.from).min()
    }

    /// Ends all spans: there are no more events, or some are missing.
    pub fn end(&mut self) -> Vec<(Thread, ContextSpan)> {
        let open = std::mem::take(&mut self.open).into_iter();
        let mut ended: Vec<_> = open
            .flat_map(|(thread, spans)| spans.into_iter().map(move |span| (thread, span)))
            .collect();
        ended.sort_unstable_by_key(|(thread, span)| (span.to, span.from, thread.tid));
        ended
    }
}

#[cfg(test)]
mod tests {
    use tracer_common::event_type::EventTypeId;
    use tracer_engine::event::{EventHeader, Truncation};

    use super::*;

    #[test]
    fn a_span_lasts_from_its_first_event_to_its_last_whatever_is_within_it() {
        let mut spans = ContextSpans::new([1; 16]);
        let mut feed = |at, tid, context: Option<(u8, u8)>| {
            let header = EventHeader {
                time: MonotonicNs(at),
                event_type: EventTypeId::SYSCALL_ENTER,
                pid: 7,
                tid,
                cpu: None,
                thread_id: 0,
                program_address: 0,
                truncation: Truncation::None,
            };
            let context = context.map(|(trace, span)| ThreadContext {
                trace_id: [trace; 16],
                span_id: [span; 8],
            });
            // At others, nothing is known of it.
            let other = EventHeader {
                event_type: EventTypeId::WAKEUP,
                ..header
            };
            let event = |header| Event { header, data: b"" };
            assert!(spans.feed(&event(other), None).is_empty());
            let ended = spans.feed(&event(header), context).into_iter();
            ended
                .map(|span| (span.span_id[0], span.from.0, span.to.0))
                .collect::<Vec<_>>()
        };
        for (at, tid, context) in [
            (1, 7, None),
            (2, 7, Some((1, 1))),
            (3, 7, Some((1, 2))),
            (4, 8, Some((1, 2))),
            (5, 7, Some((1, 1))),
            (6, 9, Some((2, 1))),
        ] {
            assert!(feed(at, tid, context).is_empty());
        }
        // It works for another trace.
        assert_eq!(feed(7, 7, Some((2, 9))), [(1, 2, 5), (2, 3, 3)]);
        assert!(feed(8, 7, None).is_empty());
        assert_eq!(spans.oldest(), Some(MonotonicNs(4)));
        let left = spans.end();
        assert_eq!(left.len(), 1);
        assert_eq!(left[0].0, Thread { pid: 7, tid: 8 });
        assert_eq!(spans.oldest(), None);
    }
}
