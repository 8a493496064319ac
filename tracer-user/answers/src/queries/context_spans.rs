//! Spans of OpenTelemetry, as the contexts of threads show them: the time from the first event at
//! which a thread works for a span to the last one, before it works for another trace or for none.

use std::collections::HashMap;

use tracer_analysis::Thread;
use tracer_engine::event::{Event, MonotonicNs};
use tracer_event::thread_contexts::{Route, ThreadContext, has_context};

/// Threads that work for the trace at a time, and spans of each: those within each other. Beyond
/// that, spans are not followed.
const MOST_THREADS: usize = 4096;
const MOST_SPANS: usize = 64;

/// Spans of one trace that threads work for, or of all traces.
#[derive(Debug)]
pub struct ContextSpans {
    trace: Option<[u8; 16]>,
    /// Spans of each thread, all of one trace.
    open: HashMap<Thread, Vec<ContextSpan>>,
}

/// Time for which a thread works for a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextSpan {
    /// Its trace and itself.
    pub context: ThreadContext,
    /// Time of the first event.
    pub from: MonotonicNs,
    /// Time of the last event.
    pub to: MonotonicNs,
}

impl ContextSpans {
    /// Begins with nothing, for this trace, or for all.
    pub fn new(trace: Option<[u8; 16]>) -> Self {
        Self {
            trace,
            open: HashMap::new(),
        }
    }

    /// Takes the next event, and returns the spans that its thread works for no longer.
    pub fn feed(&mut self, event: &Event<'_>, context: Option<ThreadContext>) -> Vec<ContextSpan> {
        let header = &event.header;
        // Of a program's own event it is known at times.
        let is_known = header.event_type.is_user() && context.is_some();
        if !is_known && !has_context(event) {
            return Vec::new();
        }
        let thread = Thread {
            pid: header.pid,
            tid: header.tid,
        };
        let is_wanted =
            |one: &ThreadContext| self.trace.is_none_or(|wanted| one.trace_id == wanted);
        let Some(context) = context.filter(is_wanted) else {
            return self.open.remove(&thread).unwrap_or_default();
        };
        let open = self.open.get(&thread).and_then(|spans| spans.first());
        let ended = match open {
            Some(open) if open.context.trace_id != context.trace_id => {
                self.open.remove(&thread).unwrap_or_default()
            }
            _ => Vec::new(),
        };
        if self.open.len() >= MOST_THREADS && !self.open.contains_key(&thread) {
            return ended;
        }
        let spans = self.open.entry(thread).or_default();
        let is_it = |span: &ContextSpan| span.context.is_same_span(&context);
        let known = spans.iter().position(is_it);
        match known {
            Some(known) => {
                if let Some(span) = spans.get_mut(known) {
                    span.to = header.time;
                }
            }
            None if spans.len() < MOST_SPANS => spans.push(ContextSpan {
                context,
                from: header.time,
                to: header.time,
            }),
            None => {}
        }
        ended
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

/// Requests, as contexts with a route or a name show them: the time from the first event at which a
/// thread works for a trace to the last one, whatever its spans are, before it works for another
/// one or for none.
#[derive(Debug, Default)]
pub struct RouteSpans {
    open: HashMap<Thread, RouteSpan>,
}

/// Time for which a thread works for a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteSpan {
    trace: [u8; 16],
    /// Route or name that was said last; it may be known only after a while.
    pub route: Route,
    /// Time of the first event.
    pub from: MonotonicNs,
    /// Time of the last event.
    pub to: MonotonicNs,
}

impl RouteSpans {
    /// Takes the next event, and returns the request that its thread works for no longer, where
    /// that has a route.
    pub fn feed(&mut self, event: &Event<'_>, context: Option<ThreadContext>) -> Option<RouteSpan> {
        let header = &event.header;
        if context.is_none() && (self.open.is_empty() || !has_context(event)) {
            return None;
        }
        let thread = Thread {
            pid: header.pid,
            tid: header.tid,
        };
        let ended = |span: Option<RouteSpan>| span.filter(|span| span.route.name().is_some());
        let Some(context) = context else {
            return ended(self.open.remove(&thread));
        };
        if let Some(open) = self.open.get_mut(&thread)
            && open.trace == context.trace_id
        {
            open.to = header.time;
            if context.route.name().is_some() {
                open.route = context.route;
            }
            return None;
        }
        let before = self.open.remove(&thread);
        if self.open.len() < MOST_THREADS {
            let span = RouteSpan {
                trace: context.trace_id,
                route: context.route,
                from: header.time,
                to: header.time,
            };
            self.open.insert(thread, span);
        }
        ended(before)
    }

    /// Returns the beginning of the oldest request that is open.
    pub fn oldest(&self) -> Option<MonotonicNs> {
        self.open.values().map(|span| span.from).min()
    }

    /// Ends all requests: there are no more events, or some are missing. Returns those that have a
    /// route.
    pub fn end(&mut self) -> Vec<(Thread, RouteSpan)> {
        let open = std::mem::take(&mut self.open).into_iter();
        let mut ended: Vec<_> = open
            .filter(|(_, span)| span.route.name().is_some())
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
        let mut spans = ContextSpans::new(Some([1; 16]));
        let mut all = ContextSpans::new(None);
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
                route: Route::NONE,
            });
            // At others, nothing is known of it.
            let other = EventHeader {
                event_type: EventTypeId::WAKEUP,
                ..header
            };
            let event = |header| Event { header, data: b"" };
            assert!(spans.feed(&event(other), None).is_empty());
            [&mut spans, &mut all].map(|spans| {
                let ended = spans.feed(&event(header), context).into_iter();
                ended
                    .map(|span| (span.context.span_id[0], span.from.0, span.to.0))
                    .collect::<Vec<_>>()
            })
        };
        for (at, tid, context) in [
            (1, 7, None),
            (2, 7, Some((1, 1))),
            (3, 7, Some((1, 2))),
            (4, 8, Some((1, 2))),
            (5, 7, Some((1, 1))),
            (6, 9, Some((2, 1))),
        ] {
            assert!(feed(at, tid, context).iter().all(Vec::is_empty));
        }
        // It works for another trace.
        let ended = vec![(1, 2, 5), (2, 3, 3)];
        assert_eq!(feed(7, 7, Some((2, 9))), [ended.clone(), ended]);
        assert_eq!(feed(8, 7, None), [vec![], vec![(9, 7, 7)]]);
        assert_eq!(spans.oldest(), Some(MonotonicNs(4)));
        let left = spans.end();
        assert_eq!(left.len(), 1);
        assert_eq!(left[0].0, Thread { pid: 7, tid: 8 });
        assert_eq!(spans.oldest(), None);
    }

    #[test]
    fn a_request_lasts_as_long_as_its_thread_works_for_the_trace_and_has_the_last_route() {
        let mut requests = RouteSpans::default();
        let mut feed = |at, context: Option<(u8, u8, &str)>| {
            let header = EventHeader {
                time: MonotonicNs(at),
                event_type: EventTypeId::SYSCALL_ENTER,
                pid: 7,
                tid: 7,
                cpu: None,
                thread_id: 0,
                program_address: 0,
                truncation: Truncation::None,
            };
            let context = context.map(|(trace, span, name)| {
                let mut route = Route::NONE;
                route.0[..name.len()].copy_from_slice(name.as_bytes());
                ThreadContext {
                    trace_id: [trace; 16],
                    span_id: [span; 8],
                    route,
                }
            });
            let event = Event { header, data: b"" };
            let ended = requests.feed(&event, context);
            ended.map(|span| (span.route.name().unwrap().to_vec(), span.from.0, span.to.0))
        };
        // Which route it is comes out later, and a span within it does not say it.
        assert_eq!(feed(1, Some((1, 1, ""))), None);
        assert_eq!(feed(2, Some((1, 1, "/a"))), None);
        assert_eq!(feed(3, Some((1, 2, ""))), None);
        assert_eq!(feed(5, Some((2, 3, ""))), Some((b"/a".to_vec(), 1, 3)));
        // Of one that says none, nothing is said.
        assert_eq!(feed(6, None), None);
        assert_eq!(feed(7, Some((3, 1, "/b"))), None);
        assert_eq!(requests.oldest(), Some(MonotonicNs(7)));
        assert_eq!(requests.end().len(), 1);
        assert_eq!(requests.oldest(), None);
    }
}
