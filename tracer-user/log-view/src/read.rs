//! Showing the events of a log, also of one that is still being written.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use serde_json::{Map, Value, json};
use tokio::runtime::Builder;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracer_engine::event::MonotonicNs;

use super::writer::Writers;
use super::{GapWatch, Log, Output, Pause, Walk, WantedEvents, open};
use tracer_event::consumer::Consumer;
use tracer_event::document::object_line;
use tracer_event::summary::Summary;
use tracer_output::report::{Csv, JsonLines, Report, TextLines, TextLook};
use tracer_output::terminal::output::Sink;
use tracer_output::terminal::{Outcome, TerminalScreen};
use tracer_text::WallClock;
use tracer_text::escape::push_for_people;
use tracer_text::say;

/// How events are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ReadFormat {
    /// Aligned columns, for people.
    Text,
    /// One JSON object a line, for programs.
    Json,
    /// Comma-separated values.
    Csv,
}

/// Log to be read, and how it is shown.
#[derive(Clone, Debug)]
pub struct ReadSetup {
    /// The log.
    pub file: PathBuf,
    /// Events of it that are wanted.
    pub wanted: WantedEvents,
    /// Format of the events.
    pub format: ReadFormat,
    /// Whether to wait for events that are still to be written.
    pub follow: bool,
    /// Output for the events.
    pub output: Sink,
    /// Look of text.
    pub look: TextLook,
    /// Limit of what is written, and the command that shows the rest.
    pub limit: Option<(ReadLimit, String)>,
}

/// Limit of what is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadLimit {
    /// At most so many bytes.
    Bytes(usize),
    /// A screen, on which the closing lines have room too.
    Screen(TerminalScreen),
}

/// Events between two looks at how much is to be written.
const AT_ONCE: usize = 1024;

/// Interval between looks at a log that is being written.
const TICK: Duration = Duration::from_millis(50);

/// Shows the events of a log, and reports missing ones.
///
/// # Errors
///
/// The log cannot be read, or the lines cannot be written.
pub fn read(setup: &ReadSetup) -> anyhow::Result<Outcome> {
    let log = open(&setup.file)?;
    let mut output = Output::open(&setup.output, &setup.file)?;
    let mut walk = Walk::new(log, setup.wanted.clone()).naming_by(&setup.file);
    let mut report = report_of(setup, &walk, &output);
    report.begin();
    match &setup.limit {
        Some((ReadLimit::Bytes(bytes), _)) => {
            output.limit(bytes.saturating_sub(reserved(*bytes)));
        }
        Some((ReadLimit::Screen(screen), _)) => output.limit_to(*screen),
        None => {}
    }
    output.settle();
    let was_stopped = if setup.follow {
        wait_and_show(&mut walk, &mut *report, &mut output, &setup.file)?
    } else {
        show(
            &mut walk,
            &mut GapWatch::default(),
            &mut *report,
            &mut output,
        )?;
        false
    };
    walk.finish(|entry| {
        report.event(entry)?;
        output.drain()
    })?;
    let summary = walk.summary();
    let closing = closing_lines(&walk, &summary);
    if setup.limit.is_some() {
        // A call that has not ended is an entry like others.
        report.idle(MonotonicNs(u64::MAX));
        output.settle();
    }
    match &setup.limit {
        Some((ReadLimit::Screen(screen), rest)) => {
            let truncated = |left_out| truncated(setup.format, left_out, rest);
            let screen = screen.beside(closing.iter().map(String::as_str));
            report.finish(&summary)?;
            output.settle();
            output.lift_for(screen, truncated);
        }
        Some((ReadLimit::Bytes(bytes), rest)) => {
            end(setup.format, (*bytes, rest), report, &mut output, &summary)?;
        }
        None => report.finish(&summary)?,
    }
    output.flush()?;
    if setup.format != ReadFormat::Json {
        closing.iter().for_each(|line| say(line));
    }
    Ok(outcome(&summary, was_stopped))
}

/// Returns how much of a budget is held back for the end.
fn reserved(bytes: usize) -> usize {
    /// Bytes of a closing line that has much to say.
    const USUAL: usize = 2048;
    USUAL.min(bytes / 2)
}

/// Appends what comes behind the events: how many of them were left out, and, in JSON, the summary,
/// as far as they fit.
fn end(
    format: ReadFormat,
    (bytes, rest): (usize, &str),
    report: Box<dyn Consumer>,
    output: &mut Output,
    summary: &Summary,
) -> anyhow::Result<()> {
    let Some((left_out, left)) = output.lift(reserved(bytes)) else {
        return report.finish(summary);
    };
    let before = output.lines().bytes().len();
    report.finish(summary)?;
    let mut bytes = output.lines().bytes();
    let begun = before.min(bytes.len());
    let closing = bytes.split_off(begun);
    let truncated = if left_out == 0 {
        String::new()
    } else {
        truncated(format, left_out, rest)
    };
    let (first, second) = match format {
        _ if truncated.len() + closing.len() <= left => (truncated, closing),
        ReadFormat::Json => (truncated_summary(left_out, rest, summary, left), Vec::new()),
        ReadFormat::Text | ReadFormat::Csv => (truncated, Vec::new()),
    };
    if first.len() <= left {
        bytes.extend_from_slice(first.as_bytes());
        bytes.extend_from_slice(&second);
    }
    drop(bytes);
    if left_out > 0 && format == ReadFormat::Csv {
        say(&format!("{left_out} entries are left out; all: {rest}"));
    }
    Ok(())
}

/// Returns the line that says how many events were left out; none in CSV, whose lines are events.
fn truncated(format: ReadFormat, left_out: u64, rest: &str) -> String {
    match format {
        ReadFormat::Text => format!("truncated: {left_out} entries are left out; all: {rest}\n"),
        ReadFormat::Json => object_line(&json!({
            "truncated": { "left_out": left_out, "rest": rest },
        })),
        ReadFormat::Csv => String::new(),
    }
}

/// Returns the line that stands for the summary too, where that has no room in `bytes`: it says how
/// many events are missing, and of what of a log.
fn truncated_summary(left_out: u64, rest: &str, summary: &Summary, bytes: usize) -> String {
    let mut about = Map::new();
    about.insert("left_out".to_owned(), left_out.into());
    let lost = summary.lost_by_tracer();
    if lost > 0 {
        about.insert("lost".to_owned(), lost.into());
    }
    if let Some([places, bytes, packets_missing]) = summary.damage() {
        let damage = json!({
            "places": places, "bytes": bytes, "packets_missing": packets_missing,
        });
        about.insert("damage".to_owned(), damage);
    }
    let line = |about: &Map<String, Value>| object_line(&json!({ "truncated": about }));
    about.insert("rest".to_owned(), "".into());
    let short = line(&about);
    about.insert("rest".to_owned(), rest.into());
    [line(&about), short]
        .into_iter()
        .find(|line| line.len() <= bytes)
        .unwrap_or_default()
}

fn report_of<L: Log>(setup: &ReadSetup, walk: &Walk<L>, output: &Output) -> Box<dyn Consumer> {
    // Every event of a log brings its date; the clock is for that of the log itself.
    let anchor = walk.anchor();
    let clock = WallClock::new(anchor);
    let lines = output.lines().clone();
    match setup.format {
        ReadFormat::Text => {
            let style = output.style(setup.look);
            let text = TextLines::new(anchor.monotonic, clock, style);
            Box::new(Report::new(text, lines))
        }
        ReadFormat::Json => Box::new(Report::new(JsonLines::default(), lines)),
        ReadFormat::Csv => Box::new(Report::new(Csv::default(), lines)),
    }
}

/// Shows the events, and the gaps between them.
fn show<L: Log>(
    walk: &mut Walk<L>,
    watch: &mut GapWatch,
    report: &mut dyn Consumer,
    output: &mut Output,
) -> anyhow::Result<Pause> {
    loop {
        let pause = watch.go_on(walk, AT_ONCE, |_, gap, line| {
            if let Some(gap) = gap {
                report.gap(&gap);
            }
            report.event(line)?;
            output.drain()
        })?;
        if pause != Pause::Midway {
            return Ok(pause);
        }
    }
}

/// Shows the events that are there and those that come, until the log is completed. Returns whether
/// a signal ended it before.
fn wait_and_show<L: Log>(
    walk: &mut Walk<L>,
    report: &mut dyn Consumer,
    output: &mut Output,
    file: &Path,
) -> anyhow::Result<bool> {
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("cannot wait for the log to grow")?;
    runtime.block_on(async {
        let signals = Signals::new().context("cannot watch for signals")?;
        follow(walk, report, output, signals, &Writers::open(file)).await
    })
}

async fn follow<L: Log>(
    walk: &mut Walk<L>,
    report: &mut dyn Consumer,
    output: &mut Output,
    mut signals: Signals,
    writers: &Writers,
) -> anyhow::Result<bool> {
    let mut watch = GapWatch::default();
    loop {
        // So is this: who completes a log writes no more.
        let have_ended = writers.have_ended();
        // Asked for first: what was written before the log was completed is shown below.
        let is_completed = walk.log().final_status().is_some();
        let before = walk.span();
        let pause = show(walk, &mut watch, report, output)?;
        if walk.span() == before {
            report.idle(MonotonicNs(u64::MAX));
        }
        output.flush()?;
        if pause == Pause::Enough || is_completed {
            return Ok(false);
        }
        if have_ended && walk.log().final_status().is_none() {
            say("no process writes the log any more: its writer ended without completing it");
            return Ok(false);
        }
        if output.has_lost_its_reader() {
            return Ok(true);
        }
        tokio::select! {
            () = tokio::time::sleep(TICK) => {}
            () = signals.any() => return Ok(true),
        }
    }
}

/// The signals that end a look at a log.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    async fn any(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// Reports to people how many events were shown and how many are missing.
pub fn report_missing<L: Log>(walk: &Walk<L>, summary: &Summary) {
    let lines = closing_lines(walk, summary);
    lines.iter().for_each(|line| say(line));
}

/// Returns what people are told: how many events were shown and how many are missing.
fn closing_lines<L: Log>(walk: &Walk<L>, summary: &Summary) -> Vec<String> {
    let mut lines = Vec::new();
    for name in walk.names_without_events() {
        let mut line = b"no event was of type \"".to_vec();
        push_for_people(&mut line, name);
        line.push(b'"');
        lines.push(String::from_utf8_lossy(&line).into_owned());
    }
    if summary.events.is_empty() && walk.is_restricted() {
        lines.push(
            "no event is as was asked for; `tracer-user info LOG` shows what there is".to_owned(),
        );
    }
    lines.extend(summary.for_people().lines().map(str::to_owned));
    lines
}

/// Tells whether everything that was asked for was there. A log that is being written is not
/// complete, unless its reader has had enough.
pub fn outcome(summary: &Summary, was_stopped: bool) -> Outcome {
    let log = summary.log.unwrap_or_default();
    let is_complete =
        summary.lost_by_tracer() == 0 && log.is_whole() && (log.is_completed || was_stopped);
    if is_complete {
        Outcome::Complete
    } else {
        Outcome::EventsLost
    }
}

#[cfg(test)]
mod tests {
    use tracer_log::{Damage, FinalStatus};

    use super::*;
    use crate::test_log::TestLog;

    fn outcome_of(log: TestLog, was_stopped: bool) -> Outcome {
        let mut walk = Walk::new(log, WantedEvents::default());
        while walk.go_on(10, |_| Ok(())).unwrap() == Pause::Midway {}
        outcome(&walk.summary(), was_stopped)
    }

    fn completed() -> TestLog {
        TestLog {
            status: Some(FinalStatus::default()),
            ..TestLog::default()
        }
    }

    #[test]
    fn a_log_that_was_completed_without_losses_is_complete() {
        assert_eq!(outcome_of(completed(), false), Outcome::Complete);
    }

    #[test]
    fn whatever_is_missing_shows_in_the_outcome() {
        let late = TestLog {
            late: 1,
            ..completed()
        };
        let overwritten = TestLog {
            lost_in_log: 1,
            ..completed()
        };
        let damage = Damage {
            sites: 1,
            bytes: 10,
            packets_missing: 0,
        };
        let damaged = TestLog {
            damage,
            ..completed()
        };
        for log in [late, overwritten, damaged, TestLog::default()] {
            assert_eq!(outcome_of(log, false), Outcome::EventsLost);
        }
    }

    #[test]
    fn who_stops_following_does_not_miss_the_rest() {
        assert_eq!(outcome_of(TestLog::default(), true), Outcome::Complete);
    }
}
