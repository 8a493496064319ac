//! The way of events to what finds an answer: while they happen, with the answer at the end, and
//! from a log, event by event, with the knowledge before each whether others are missing.

use tracer_engine::EventTypes;
use tracer_engine::event::MonotonicNs;

use tracer_event::consumer::Consumer;
use tracer_event::event_view::EventView;
use tracer_event::gap::Gap;
use tracer_event::robots::Callbacks;
use tracer_event::summary::Summary;
use tracer_log_view::{GapWatch, Log, Pause, Walk, losses_of};

/// Consumer that gives all events to another one, and shows what that one has found.
#[derive(Debug)]
pub struct Answering<C, F> {
    finder: C,
    show: F,
}

impl<C, F> Answering<C, F>
where
    C: Consumer,
    F: FnOnce(C, &Summary) -> anyhow::Result<()>,
{
    /// Returns a consumer that calls `show` with the finder after the last event.
    pub fn new(finder: C, show: F) -> Self {
        Self { finder, show }
    }
}

impl<C, F> Consumer for Answering<C, F>
where
    C: Consumer,
    F: FnOnce(C, &Summary) -> anyhow::Result<()>,
{
    fn learn_types(&mut self, types: &EventTypes) {
        self.finder.learn_types(types);
    }

    fn gap(&mut self, gap: &Gap) {
        self.finder.gap(gap);
    }

    fn idle(&mut self, now: MonotonicNs) {
        self.finder.idle(now);
    }

    fn event(&mut self, view: &EventView<'_>) -> anyhow::Result<()> {
        self.finder.event(view)
    }

    fn finish(self: Box<Self>, summary: &Summary) -> anyhow::Result<()> {
        (self.show)(self.finder, summary)
    }
}

/// Gives all events of `walk` to `consumer`.
///
/// # Errors
///
/// The log cannot be read, or `consumer` fails.
pub fn follow<L: Log>(walk: &mut Walk<L>, consumer: &mut impl Consumer) -> anyhow::Result<()> {
    follow_while(walk, consumer, |_| Ok(()))
}

/// Does as [`follow`], until `consumer` takes no more events; `check` is called every thousand
/// events.
///
/// # Errors
///
/// The log cannot be read, or `consumer` or `check` fails.
pub fn follow_while<L: Log>(
    walk: &mut Walk<L>,
    consumer: &mut impl Consumer,
    mut check: impl FnMut(&Walk<L>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    const AT_ONCE: usize = 1024;
    let mut consumer = Callbacks::before(consumer);
    let mut following = Following::default();
    while following.go_on(walk, AT_ONCE, &mut consumer)? == Pause::Midway {
        check(walk)?;
        if consumer.is_done() {
            return Ok(());
        }
    }
    following.end(walk, &mut consumer);
    Ok(())
}

/// Way of the events of a log to a consumer, step by step.
#[derive(Debug, Default)]
pub struct Following {
    watch: GapWatch,
    /// Types of which there was an event.
    seen: Vec<bool>,
}

impl Following {
    /// Gives up to `most` events of `walk` to `consumer`, with the gaps between them.
    ///
    /// # Errors
    ///
    /// The log cannot be read, or `consumer` fails.
    pub fn go_on<L: Log>(
        &mut self,
        walk: &mut Walk<L>,
        most: usize,
        consumer: &mut impl Consumer,
    ) -> anyhow::Result<Pause> {
        let seen = &mut self.seen;
        self.watch.go_on(walk, most, |log, gap, line| {
            if let Some(gap) = gap {
                consumer.count_losses(&losses_of(log))?;
                consumer.gap(&gap);
            }
            if is_first(seen, line.event.header.event_type.0) {
                consumer.learn_types(log.event_types());
            }
            consumer.event(line)
        })
    }

    /// Tells `consumer` about the time behind the last event.
    pub fn end<L: Log>(&self, walk: &Walk<L>, consumer: &mut impl Consumer) {
        if let Some(gap) = self.watch.behind(walk) {
            consumer.gap(&gap);
        }
        if let Some(ended) = walk.ended() {
            consumer.idle(ended);
        }
    }
}

/// Tells whether an event is the first of its type.
fn is_first(seen: &mut Vec<bool>, id: u32) -> bool {
    let index =
        usize::try_from(id.min(tracer_common::event_type::STREAM_EVENT_ID_LIMIT)).unwrap_or(0);
    if seen.len() <= index {
        seen.resize(index + 1, false);
    }
    seen.get_mut(index)
        .is_some_and(|seen| !std::mem::replace(seen, true))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tracer_common::event_type::{EventTypeId, FIRST_USER_EVENT};
    use tracer_engine::event::{Event, EventHeader, RealtimeNs, Truncation};

    use super::super::{Question, SpanChoice, SpanSpec};
    use super::*;
    use crate::budget::Budget;
    use crate::explain::{self, ExplainSubject};
    use crate::flame::{FlameKind, FlameSetup, Form};
    use crate::stat::{self, View};
    use crate::why;
    use tracer_binary::stacks::{Stack, SymbolNames};
    use tracer_event::consumer::Lines;

    proptest! {
        /// Checks that there is an answer, in both forms, whatever a log has or a target says.
        #[test]
        fn no_events_keep_it_from_answering(
            events in prop::collection::vec(
                (any::<u64>(), 0_u32..66, 0..4_i32, 0..4_i32, any::<Option<u32>>(),
                 prop::collection::vec(any::<u8>(), 0..80), any::<Option<u64>>()),
                0..60),
            is_sorted in any::<bool>(),
        ) {
            let mut events = events;
            if is_sorted {
                events.sort_by_key(|(at, ..)| *at);
            }
            let mut types = EventTypes::default();
            types.define_user(b"x begin", None);
            types.define_user(b"x end", None);
            let between = SpanSpec::parse("y=x begin[0:2]..x end[1:3]").unwrap();
            let call = SpanSpec::parse("syscall:read").unwrap();
            let names = SymbolNames::live();
            let whole = Question::Thread { tid: None, from: None, until: None };
            let spans = [vec![between, call], Vec::new()].map(Question::Spans);
            for is_json in [false, true] {
                let mut consumers = Vec::new();
                let mut add = |is_json, make: &dyn Fn(Lines) -> Box<dyn Consumer>| {
                    let lines = Lines::default();
                    consumers.push((make(lines.clone()), lines, is_json));
                };
                add(is_json, &|to| {
                    stat::consumer(Vec::new(), View::default(), (is_json, any_bytes()), to)
                });
                for question in [&spans[0], &spans[1], &whole] {
                    add(is_json, &|to| {
                        why::consumer(question.clone(), choice(), (!is_json, is_json, any_bytes()), to)
                    });
                }
                add(is_json, &|to| {
                    let log = ExplainSubject::Log("log".to_owned());
                    explain::consumer(None, log, (is_json, any_bytes()), |_| explain::TraceUse::default(), to)
                });
                for (kind, form) in [
                    (FlameKind::OnCpu, Form::Folded),
                    (FlameKind::OffCpu, Form::Svg),
                    (FlameKind::Wakeup, Form::Svg),
                ] {
                    add(false, &|to| flame(kind, form).consumer(to));
                }
                for (mut consumer, lines, is_json) in consumers {
                    consumer.learn_types(&types);
                    for (at, id, pid, tid, cpu, data, lost) in &events {
                        // Two of the user's, and all of the system's.
                        let id = if *id < 64 { *id } else { FIRST_USER_EVENT + 1 + id % 2 };
                        let header = EventHeader {
                            time: MonotonicNs(*at),
                            event_type: EventTypeId(id),
                            pid: *pid,
                            tid: *tid,
                            cpu: *cpu,
                            thread_id: 0,
                            program_address: 0,
                            truncation: Truncation::None,
                        };
                        if let Some(until) = lost {
                            consumer.gap(&Gap {
                                next: header.time,
                                until: (until % 2 == 0).then_some(MonotonicNs(*until)),
                                is_kernels: until % 3 == 0,
                                is_unrecorded: until % 5 == 0,
                                tid: (until % 7 == 0).then_some(1),
                            });
                        }
                        consumer.event(&EventView {
                            event: Event { header, data },
                            entry: None,
                            name: b"any",
                            comm: Some(b"a\x1b\xff"),
                            date: RealtimeNs(0),
                            inside: None,
                            stack: (at % 2 == 0).then_some(Stack {
                                pid: *pid,
                                tid: *tid,
                                at: MonotonicNs(0),
                                data,
                                names: &names,
                            }),
                            context: None,
                        }).unwrap();
                    }
                    // Where there is no span, that is an error.
                    let _ = consumer.finish(&Summary::default());
                    let out = lines.bytes().clone();
                    prop_assert!(!out.contains(&0x1b), "a name of any bytes is harmless");
                    if is_json {
                        serde_json::from_slice::<serde_json::Value>(&out).unwrap();
                    }
                }
            }
        }
    }

    fn any_bytes() -> Budget {
        Budget::default()
    }

    fn flame(kind: FlameKind, form: Form) -> FlameSetup {
        FlameSetup {
            kind,
            form,
            output: "-".into(),
            force: false,
        }
    }

    fn choice() -> SpanChoice {
        SpanChoice {
            slowest: 3,
            ..SpanChoice::default()
        }
    }
}
