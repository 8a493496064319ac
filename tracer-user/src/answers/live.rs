//! An answer that is found while events happen.

use anyhow::anyhow;
use tracer_engine::EventTypes;
use tracer_engine::event::MonotonicNs;

use super::{Choice, Paths, Question, SpanSpec};
use crate::consumer::{Consumer, Lines};
use crate::event_view::EventView;
use crate::flame::{FlameSetup, Flames};
use crate::report::{Gap, Summary, document};
use crate::stat::{self, Statistics, Sums, View};
use crate::top::{OnceForm, TopSetup};
use crate::why::{self, Why};
use tracer_text::say;

/// Question about events that are still to happen.
#[derive(Clone, Debug)]
pub enum Asked {
    /// Sums of events, with these spans; and how threads are shown.
    Stat(Vec<SpanSpec>, View),
    /// Causes of the durations of spans; at most 40 lines of it, or all.
    Why(Question, Choice, bool),
    /// Present activity of threads.
    Top(TopSetup),
    /// Places in their code where they spend their time.
    Flame(FlameSetup),
}

/// Question, and how its answer is shown.
#[derive(Clone, Debug)]
pub struct AnswerSetup {
    /// Question.
    pub asked: Asked,
    /// Whether the answer is for programs.
    pub is_json: bool,
}

impl AnswerSetup {
    /// Returns the consumer that finds the answer; its text goes to `lines`.
    #[must_use]
    pub fn consumer(&self, lines: &Lines) -> Box<dyn Consumer> {
        let finder = match &self.asked {
            Asked::Top(setup) if self.is_json => return setup.consumer(OnceForm::Json, lines),
            Asked::Top(setup) => return setup.consumer(OnceForm::Text, lines),
            Asked::Stat(spans, view) => Finder::Stat(Box::new(Sums::new(spans.clone())), *view),
            Asked::Flame(setup) => Finder::Flame(Box::new(Flames::new(setup.kind)), setup.clone()),
            Asked::Why(question, choice, is_brief) => {
                let paths = Paths::new(question.clone(), *choice);
                Finder::Why(Box::new(paths), *is_brief)
            }
        };
        Box::new(Answer {
            finder,
            is_json: self.is_json,
            lines: lines.clone(),
        })
    }
}

enum Finder {
    Stat(Box<Sums>, View),
    Why(Box<Paths>, bool),
    Flame(Box<Flames>, FlameSetup),
}

/// The answer, instead of lines of events.
struct Answer {
    finder: Finder,
    is_json: bool,
    lines: Lines,
}

impl Answer {
    fn finder(&mut self) -> &mut dyn Consumer {
        match &mut self.finder {
            Finder::Stat(sums, _) => &mut **sums,
            Finder::Why(paths, _) => &mut **paths,
            Finder::Flame(flames, _) => &mut **flames,
        }
    }
}

impl Consumer for Answer {
    fn learn_types(&mut self, types: &EventTypes) {
        self.finder().learn_types(types);
    }

    fn gap(&mut self, gap: &Gap) {
        self.finder().gap(gap);
    }

    fn idle(&mut self, now: MonotonicNs) {
        self.finder().idle(now);
    }

    fn event(&mut self, view: &EventView<'_>) -> anyhow::Result<()> {
        self.finder().event(view)
    }

    fn finish(self: Box<Self>, summary: &Summary) -> anyhow::Result<()> {
        let mut unanswered = None;
        let shown = match self.finder {
            Finder::Stat(sums, view) => {
                let statistics = Statistics::of(*sums, summary);
                if statistics.paths.has_named_spans() {
                    statistics.paths.unmet().iter().for_each(|unmet| say(unmet));
                }
                if self.is_json {
                    document(&stat::json(&statistics, view))
                } else {
                    stat::text(&statistics, view)
                }
            }
            Finder::Flame(flames, setup) => {
                let shown = setup.shown(&(*flames).finish()?)?;
                self.lines.bytes().extend_from_slice(&shown);
                return Ok(());
            }
            Finder::Why(paths, is_brief) => {
                let why = Why::of(*paths, summary);
                unanswered = why.unanswered();
                if unanswered.is_none() {
                    why.paths.unmet().iter().for_each(|unmet| say(unmet));
                }
                if self.is_json {
                    document(&why::json(&why))
                } else {
                    why::text(&why, is_brief)
                }
            }
        };
        self.lines.bytes().extend_from_slice(shown.as_bytes());
        match unanswered {
            Some(why) => Err(anyhow!(why)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tracer_common::event_type::{EventTypeId, FIRST_USER_EVENT};
    use tracer_engine::event::{Event, EventHeader, RealtimeNs, Truncation};

    use super::*;
    use crate::flame::{FlameKind, Form};
    use crate::stacks::{Names, Stack};

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
            let names = Names::live();
            let whole = Question::Thread { tid: None, from: None, until: None };
            for asked in [
                Asked::Stat(Vec::new(), View::default()),
                Asked::Why(Question::Spans(vec![between, call]), choice(), true),
                Asked::Why(Question::Spans(Vec::new()), choice(), false),
                Asked::Why(whole, choice(), false),
                Asked::Flame(flame(FlameKind::OnCpu, Form::Folded)),
                Asked::Flame(flame(FlameKind::OffCpu, Form::Svg)),
                Asked::Flame(flame(FlameKind::Wakeup, Form::Svg)),
            ] {
                for is_json in [false, true] {
                    let lines = Lines::default();
                    let setup = AnswerSetup { asked: asked.clone(), is_json };
                    let mut consumer = setup.consumer(&lines);
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
                                data,
                                names: &names,
                            }),
                        }).unwrap();
                    }
                    // Where there is no span, that is an error.
                    let _ = consumer.finish(&Summary::default());
                    let out = lines.bytes().clone();
                    prop_assert!(!out.contains(&0x1b), "a name of any bytes is harmless");
                    if is_json && !matches!(asked, Asked::Flame(_)) {
                        serde_json::from_slice::<serde_json::Value>(&out).unwrap();
                    }
                }
            }
        }
    }

    fn flame(kind: FlameKind, form: Form) -> FlameSetup {
        FlameSetup {
            kind,
            form,
            output: "-".into(),
            force: false,
        }
    }

    fn choice() -> Choice {
        Choice {
            slowest: 3,
            ..Choice::default()
        }
    }
}
