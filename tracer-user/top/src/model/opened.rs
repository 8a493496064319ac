//! Newest events, and those of the opened thread as lines.

use std::collections::VecDeque;
use std::sync::Arc;

use tracer_analysis::Thread;
use tracer_common::event_type::system_event_type;
use tracer_engine::event::{Event, MonotonicNs, RealtimeNs};
use tracer_engine::{ClockPair, EventTypes};

use super::LONGEST_WINDOW;
use tracer_answers::trigger::newest::Newest;
use tracer_event::event_view::EventView;
use tracer_output::report::{LineFormat as _, TextLines, TextStyle, TimeColumn};
use tracer_output::terminal::output::Width;
use tracer_text::WallClock;

/// Approximate limit of the bytes of the newest events: where there are more, the log of them
/// reaches back less far.
const MOST_BYTES: usize = 32 << 20;

/// Limit of the retained lines of the opened thread.
const MOST_LINES: usize = 5000;

/// Newest events.
#[derive(Debug)]
pub struct EventLog {
    newest: Newest,
    types: EventTypes,
    opened: Option<Lines>,
}

/// Events of one thread, as lines.
#[derive(Debug)]
struct Lines {
    thread: Thread,
    text: TextLines,
    lines: VecDeque<Arc<str>>,
    ticks: VecDeque<(MonotonicNs, bool)>,
    /// Buffer of the line written last.
    out: Vec<u8>,
}

impl EventLog {
    /// Creates an empty log.
    pub fn new() -> Self {
        Self {
            newest: Newest::within(LONGEST_WINDOW, MOST_BYTES),
            types: EventTypes::default(),
            opened: None,
        }
    }

    /// Learns the known event types.
    pub fn learn(&mut self, types: &EventTypes) {
        self.types = types.clone();
    }

    /// Returns the opened thread.
    pub fn opened(&self) -> Option<Thread> {
        self.opened.as_ref().map(|lines| lines.thread)
    }

    /// Opens a thread: its newest events are there at once, the others as they come.
    pub fn open(&mut self, thread: Option<Thread>, start: MonotonicNs) {
        if self.opened() == thread {
            return;
        }
        self.opened = thread.map(|thread| {
            let mut lines = Lines::new(thread, start);
            for block in self.newest.blocks() {
                for (event, comm) in block.events() {
                    lines.add(&event, comm, &self.types);
                }
            }
            lines
        });
    }

    /// Notes that events are missing before the next one.
    pub fn lose(&mut self) {
        if let Some(lines) = &mut self.opened {
            lines.text.gap();
            lines.push("… events are missing here …".into());
        }
    }

    /// Adds an event.
    pub fn add(&mut self, event: &Event<'_>, comm: &[u8]) {
        self.newest.push(event, comm);
        if let Some(lines) = &mut self.opened {
            lines.add(event, comm, &self.types);
        }
    }

    /// Returns the lines of the opened thread.
    pub fn lines(&self) -> Vec<Arc<str>> {
        let lines = self.opened.iter().flat_map(|lines| &lines.lines);
        lines.cloned().collect()
    }

    /// Returns the times of its events after `from`, each with whether it was a user event.
    pub fn ticks(&self, from: MonotonicNs) -> Vec<(MonotonicNs, bool)> {
        let ticks = self.opened.iter().flat_map(|lines| &lines.ticks);
        ticks.filter(|(at, _)| *at > from).copied().collect()
    }
}

impl Lines {
    fn new(thread: Thread, start: MonotonicNs) -> Self {
        let style = TextStyle {
            time: TimeColumn::Relative,
            is_coloured: false,
            width: Width::Whole,
        };
        Self {
            thread,
            text: TextLines::new(start, WallClock::new(ClockPair::default()), style)
                .for_one_thread(),
            lines: VecDeque::new(),
            ticks: VecDeque::new(),
            out: Vec::new(),
        }
    }

    fn add(&mut self, event: &Event<'_>, comm: &[u8], types: &EventTypes) {
        let header = event.header;
        if (header.pid, header.tid) != (self.thread.pid, self.thread.tid) {
            return;
        }
        let oldest = header.time.0.saturating_sub(LONGEST_WINDOW);
        while self.ticks.front().is_some_and(|(at, _)| at.0 < oldest) {
            self.ticks.pop_front();
        }
        self.ticks
            .push_back((header.time, header.event_type.is_user()));
        let entry = system_event_type(header.event_type);
        let name = match entry {
            Some(entry) => entry.name.as_bytes(),
            None => types.name(header.event_type).unwrap_or(b"?"),
        };
        self.out.clear();
        let line = EventView {
            event: *event,
            entry,
            name,
            comm: Some(comm).filter(|comm| !comm.is_empty()),
            date: RealtimeNs(0),
            inside: None,
            stack: None,
            context: None,
        };
        self.text.event(&mut self.out, &line);
        let text = String::from_utf8_lossy(&self.out).into_owned();
        for line in text.lines() {
            self.push(line.into());
        }
    }

    fn push(&mut self, line: Arc<str>) {
        if self.lines.len() >= MOST_LINES {
            self.lines.pop_front();
        }
        self.lines.push_back(line);
    }
}
