//! Choice of the consumer of a trace's events.

use std::fmt;
use std::fs::File;
use std::rc::Rc;

use tracer_engine::event::MonotonicNs;
use tracer_engine::{Attributes, ClockPair};
use tracer_text::WallClock;

use tracer_event::consumer::{Consumer, Lines};
use tracer_event::counts::SharedCounts;
use tracer_output::report::{JsonLines, Report, TextLines, TextLook};

/// Format of events that are shown as lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Aligned columns, for people.
    Text,
    /// One JSON object a line, for programs.
    Json,
}

/// Facts about a trace that begins.
pub struct Beginning<'a> {
    /// Time of its start.
    pub start: MonotonicNs,
    /// Both clocks at its start.
    pub clocks: ClockPair,
    /// Attributes of its stream.
    pub attributes: Attributes,
    /// Whether user events are chosen.
    pub has_user: bool,
    /// Output that the lines are written to.
    pub output: &'a File,
    /// Source of what the kernel counts, where that was asked for.
    pub counts: Option<SharedCounts>,
}

type Start = dyn Fn(&Beginning<'_>, Lines) -> anyhow::Result<Box<dyn Consumer>>;

/// Consumer of a trace's events, to be made when the trace begins.
#[derive(Clone)]
pub struct ConsumerSetup {
    start: Rc<Start>,
    is_for_people: bool,
    has_lines: bool,
}

impl ConsumerSetup {
    /// Returns the setup of a consumer that appends lines; `is_for_people` tells whether people
    /// read them: then a summary goes to the standard error at the end.
    pub fn new(
        is_for_people: bool,
        start: impl Fn(&Beginning<'_>, Lines) -> anyhow::Result<Box<dyn Consumer>> + 'static,
    ) -> Self {
        Self {
            start: Rc::new(start),
            is_for_people,
            has_lines: true,
        }
    }

    /// Returns the setup of a consumer that writes a file of its own, and no lines. It is given the
    /// types of pairs of events together.
    pub fn of_file(
        start: impl Fn(&Beginning<'_>) -> anyhow::Result<Box<dyn Consumer>> + 'static,
    ) -> Self {
        Self {
            start: Rc::new(move |beginning, _| start(beginning)),
            is_for_people: true,
            has_lines: false,
        }
    }

    /// Returns the setup of a report of each event as a line.
    #[must_use]
    pub fn report(format: Format, look: TextLook) -> Self {
        match format {
            Format::Text => Self::new(true, move |beginning, lines| {
                let clock = WallClock::new(beginning.clocks);
                let text = TextLines::new(beginning.start, clock, look.style(beginning.output));
                Ok(Box::new(Report::new(text, lines)))
            }),
            Format::Json => Self::new(false, |_, lines| {
                Ok(Box::new(Report::new(JsonLines::default(), lines)))
            }),
        }
    }

    /// Makes the consumer of a trace that begins; its lines are appended to `lines`.
    ///
    /// # Errors
    ///
    /// Its file cannot be made.
    pub fn start(
        &self,
        beginning: &Beginning<'_>,
        lines: Lines,
    ) -> anyhow::Result<Box<dyn Consumer>> {
        (self.start)(beginning, lines)
    }

    /// Tells whether a summary is said at the end.
    #[must_use]
    pub fn is_for_people(&self) -> bool {
        self.is_for_people
    }

    /// Tells whether it appends lines.
    #[must_use]
    pub fn has_lines(&self) -> bool {
        self.has_lines
    }
}

impl fmt::Debug for ConsumerSetup {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ConsumerSetup")
            .field("is_for_people", &self.is_for_people)
            .field("has_lines", &self.has_lines)
            .finish_non_exhaustive()
    }
}
