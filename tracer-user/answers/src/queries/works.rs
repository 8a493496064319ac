//! Work that threads have first while messages wait for them: the callbacks of robots.

use std::collections::VecDeque;

use foldhash::HashMap;
use tracer_analysis::{FunctionId, OtherWork, Pairs, Span, Thread};
use tracer_common::event_type::EventTypeId;
use tracer_engine::EventTypes;
use tracer_engine::event::{EventHeader, MonotonicNs};
use tracer_event::robots::DELIVERY;

use super::Functions;

/// Threads whose callbacks are remembered.
const MOST_THREADS: usize = 4096;

/// Callbacks that are remembered of each.
const MOST_WORKS: usize = 1024;

/// Callbacks of one thread.
#[derive(Debug, Default)]
struct OfThread {
    /// The outermost one that is open, and how many are open within it.
    open: Option<(EventTypeId, FunctionId, MonotonicNs, u32)>,
    done: VecDeque<OtherWork>,
}

/// Callbacks of all threads, as far back as messages wait.
#[derive(Debug, Default)]
pub struct Works {
    /// Callback that each type begins or ends, with the type that begins it.
    borders: HashMap<EventTypeId, (EventTypeId, bool, FunctionId)>,
    threads: HashMap<i32, OfThread>,
}

impl Works {
    /// Learns which types begin and end callbacks, where there are messages that wait for them.
    pub fn bind(&mut self, types: &EventTypes, functions: &mut Functions) {
        let pairs = Pairs::among(types, |_, _| true);
        for (stem, begin, end) in pairs.all() {
            if self.borders.contains_key(&begin) {
                continue;
            }
            let name = functions.named(&String::from_utf8_lossy(stem));
            self.borders.insert(begin, (begin, true, name));
            self.borders.insert(end, (begin, false, name));
        }
    }

    /// Takes an event.
    pub fn feed(&mut self, header: &EventHeader) {
        let Some((begin, is_begin, name)) = self.borders.get(&header.event_type).copied() else {
            return;
        };
        let is_known = self.threads.contains_key(&header.tid);
        if !is_known && (!is_begin || self.threads.len() >= MOST_THREADS) {
            return;
        }
        let thread = self.threads.entry(header.tid).or_default();
        match (&mut thread.open, is_begin) {
            // What is left by a jump has no end.
            (Some((of, .., since, within)), true) if *of == begin => {
                (*since, *within) = (header.time, 0);
            }
            (Some((.., within)), true) => *within = within.saturating_add(1),
            (None, true) => thread.open = Some((begin, name, header.time, 0)),
            (Some((of, _, from, _)), false) if *of == begin => {
                let work = OtherWork {
                    name,
                    from: *from,
                    to: header.time,
                };
                thread.open = None;
                if thread.done.len() >= MOST_WORKS {
                    thread.done.pop_front();
                }
                thread.done.push_back(work);
            }
            (Some((.., within)), false) => *within = within.saturating_sub(1),
            (None, false) => {}
        }
    }

    /// Returns what a thread was busy with while a span waited, in order of time.
    pub fn during(&self, thread: Thread, span: &Span) -> Vec<OtherWork> {
        let Some(of) = self.threads.get(&thread.tid) else {
            return Vec::new();
        };
        let open = of.open.map(|(_, name, from, _)| OtherWork {
            name,
            from,
            to: span.to,
        });
        let all = of.done.iter().copied().chain(open);
        all.filter(|work| work.to > span.from && work.from < span.to)
            .collect()
    }

    /// Notes that events are missing: what is open may have ended.
    pub fn lose(&mut self) {
        for thread in self.threads.values_mut() {
            thread.open = None;
        }
    }

    /// Notes that a thread has ended.
    pub fn forget(&mut self, tid: i32) {
        self.threads.remove(&tid);
    }
}

/// Tells whether spans that begin with this type are messages that wait for a callback.
pub fn is_message(types: &EventTypes, begin: EventTypeId) -> bool {
    let [published, _] = DELIVERY;
    let name = types.name(begin);
    name.is_some_and(|name| name.starts_with(published))
}

#[cfg(test)]
mod tests {
    use tracer_engine::event::Truncation;

    use super::*;

    const THREAD: Thread = Thread { pid: 7, tid: 7 };

    struct Scene {
        works: Works,
        types: EventTypes,
        functions: Functions,
    }

    impl Scene {
        fn new() -> Self {
            let mut types = EventTypes::default();
            for name in ["/n /a begin", "/n /a end", "part begin", "part end"] {
                types.define_user(name.as_bytes(), None);
            }
            let (mut works, mut functions) = (Works::default(), Functions::default());
            works.bind(&types, &mut functions);
            Self {
                works,
                types,
                functions,
            }
        }

        fn event(&mut self, at: u64, name: &str) {
            self.works.feed(&EventHeader {
                time: MonotonicNs(at),
                event_type: self.types.id(name.as_bytes()).unwrap(),
                pid: 7,
                tid: 7,
                cpu: None,
                thread_id: 0,
                program_address: 0,
                truncation: Truncation::None,
            });
        }

        fn during(&self, from: u64, to: u64) -> Vec<(&str, u64, u64)> {
            let span = Span {
                rule: 0,
                begun_by: THREAD,
                thread: THREAD,
                from: MonotonicNs(from),
                to: MonotonicNs(to),
                polls: Vec::new(),
                has_older_polls: false,
            };
            let works = self.works.during(THREAD, &span).into_iter();
            let named = works.map(|work| {
                let place = self.functions.place(work.name).unwrap();
                (&*place.name, work.from.0, work.to.0)
            });
            named.collect()
        }
    }

    #[test]
    fn the_outermost_callback_counts_and_one_that_is_left_has_no_end() {
        let mut scene = Scene::new();
        for (at, name) in [
            (10, "/n /a begin"),
            (12, "part begin"),
            (14, "part end"),
            (20, "/n /a end"),
            (30, "/n /a begin"),
            (40, "/n /a begin"),
            (50, "/n /a end"),
            (60, "part begin"),
        ] {
            scene.event(at, name);
        }
        let all = [("/n /a", 10, 20), ("/n /a", 40, 50), ("part", 60, 70)];
        assert_eq!(scene.during(0, 70), all);
        assert_eq!(scene.during(20, 41), [("/n /a", 40, 50)]);
        scene.works.lose();
        assert_eq!(scene.during(55, 70), []);
    }
}
