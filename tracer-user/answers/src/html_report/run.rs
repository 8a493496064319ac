//! One report from start to end, of a log or of a trace that is still to happen.

use std::path::{Path, PathBuf};

use anyhow::Context;
use tracer_event::summary::Summary;
use tracer_log_view::{Log, Walk, WantedEvents, open, outcome, report_missing};
use tracer_output::destination::Destination;
use tracer_output::interruption::Interruption;
use tracer_output::progress::Progress;
use tracer_output::terminal::Outcome;
use tracer_output::unfinished::Unfinished;
use tracer_text::WallClock;

use super::flames::flames;
use super::header::{LogOrigin, header, layout};
use super::page;
use super::recording::ReportContent;
use crate::queries::{SpanSpec, follow_while};
use crate::stat;

/// Setup of a report.
#[derive(Clone, Debug)]
pub struct ReportSetup {
    /// Log to be shown.
    pub file: PathBuf,
    /// Title of the page; without it, the name of the log.
    pub title: Option<String>,
    /// Spans to look at; without any, all whose names tell that they are spans.
    pub spans: Vec<SpanSpec>,
    /// Choice of its events.
    pub wanted: WantedEvents,
    /// File to be made.
    pub output: PathBuf,
    /// Whether an existing file is replaced.
    pub force: bool,
    /// Number of spans whose critical paths are in it.
    pub slowest: usize,
}

/// Number of spans whose critical paths are in a report, unless another is asked for.
pub const SLOWEST: usize = 1000;

/// Page that was made, and its log.
pub struct Made<L> {
    walk: Walk<L>,
    summary: Summary,
}

impl<L: Log> Made<L> {
    /// Returns whether anything is missing.
    pub fn outcome(&self) -> Outcome {
        outcome(&self.summary, false)
    }
}

/// Makes the report, and reports the losses.
///
/// # Errors
///
/// The log cannot be read, or the output is there already or cannot be written.
pub fn make(setup: &ReportSetup) -> anyhow::Result<Outcome> {
    let log = open(&setup.file)?;
    // From where the output begins, a signal leaves nothing behind.
    let interruption = Interruption::watch()?;
    let destination = Destination::file(&setup.output, Some(&setup.file), setup.force)?;
    let made = make_into(setup, log, destination, &interruption)?;
    report_missing(&made.walk, &made.summary);
    Ok(made.outcome())
}

/// Makes the report of this log at the destination.
///
/// # Errors
///
/// The log cannot be read, or the output cannot be written.
pub fn make_into<L: Log>(
    setup: &ReportSetup,
    log: L,
    destination: Destination,
    interruption: &Interruption,
) -> anyhow::Result<Made<L>> {
    let wanted = setup.wanted.settled_in(&setup.file)?;
    let mut walk = Walk::new(log, wanted.clone());
    let progress = Progress::start();
    let mut recording = ReportContent::new(setup.spans.clone(), setup.slowest);
    follow_while(&mut walk, &mut recording, |walk| {
        progress.show(walk.log().progress());
        interruption.check(destination.early_end())
    })?;
    let summary = walk.summary();
    let source = source(setup, &walk);
    let flames = flames(setup, wanted, recording.stacks(), |done| {
        progress.show(done);
        interruption.check(destination.early_end())
    })?;
    let (rows, mut statistics, types) = recording.finish(summary.clone());
    statistics.start = source.start;
    let mut header = header(&source, &rows, &statistics, &types);
    let columns = rows.into_columns()?;
    if let Some(header) = header.as_object_mut() {
        header.insert("columns".to_owned(), layout(&columns));
        header.insert("flames".to_owned(), flames.into());
    }
    interruption.check(destination.early_end())?;
    let mut writer = destination.writer()?;
    let header = serde_json::to_string(&Header {
        parts: header,
        stat: stat::json(&statistics, stat::View::default()),
    })?;
    page::write(&mut writer, &source.name, header.as_bytes(), &columns)?;
    writer.flush()?;
    drop(writer);
    interruption.check(destination.early_end())?;
    destination.complete()?;
    progress.end();
    Ok(Made { walk, summary })
}

/// Header with the tables of `stat`, which have as many rows as there were threads.
#[derive(serde::Serialize)]
struct Header<S: serde::Serialize> {
    #[serde(flatten)]
    parts: serde_json::Value,
    stat: S,
}

fn source<L: Log>(setup: &ReportSetup, walk: &Walk<L>) -> LogOrigin {
    let name = setup.file.file_name().unwrap_or(setup.file.as_os_str());
    let mut date = Vec::new();
    WallClock::new(walk.anchor()).push_date(&mut date, walk.anchor().realtime);
    let system = walk.log().system();
    let system = [&system.kernel_release[..], &system.machine[..]].join(&b' ');
    LogOrigin {
        name: match &setup.title {
            Some(title) => title.clone(),
            None => name.to_string_lossy().into_owned(),
        },
        start: walk.anchor().monotonic,
        date: String::from_utf8_lossy(&date).into_owned(),
        system: String::from_utf8_lossy(&system).into_owned(),
    }
}

/// Name of the temporary log of a trace.
const LOG: &str = "log";

/// Setup of the page of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageSetup {
    /// File to be made.
    pub output: PathBuf,
    /// Whether an existing file is replaced.
    pub force: bool,
    /// Spans to look at; without any, all whose names tell that they are spans.
    pub spans: Vec<SpanSpec>,
    /// Description of the traced programs, in words.
    pub title: String,
    /// Whether inlined functions are shown too.
    pub inlined: bool,
}

/// Page that waits for the end of its trace.
#[derive(Debug)]
pub struct TracePage {
    destination: Destination,
    setup: ReportSetup,
    /// Folder of the log, where the user did not ask for one: it is removed with this.
    _folder: Option<Unfinished>,
}

impl PageSetup {
    /// Ensures that the page can be written, before there is a trace. Its events go to `log`, or
    /// else to a log of its own.
    ///
    /// # Errors
    ///
    /// Something is there already, or nothing can be made there.
    pub fn begin(&self, log: Option<&Path>) -> anyhow::Result<TracePage> {
        let folder = match log {
            Some(_) => None,
            None => Some(
                Unfinished::folder(&self.output, &[LOG])
                    .with_context(|| format!("cannot write beside {}", self.output.display()))?,
            ),
        };
        let file = match (log, &folder) {
            (Some(log), _) => log.to_owned(),
            (None, Some(folder)) => folder.path().join(LOG),
            (None, None) => PathBuf::new(),
        };
        Ok(TracePage {
            destination: Destination::file(&self.output, Some(&file), self.force)?,
            setup: ReportSetup {
                file,
                title: Some(self.title.clone()),
                spans: self.spans.clone(),
                wanted: WantedEvents {
                    inlined: self.inlined,
                    ..WantedEvents::default()
                },
                output: self.output.clone(),
                force: self.force,
                slowest: SLOWEST,
            },
            _folder: folder,
        })
    }
}

impl TracePage {
    /// Returns the log to which the events of the trace are to go.
    #[must_use]
    pub fn log(&self) -> &Path {
        &self.setup.file
    }

    /// Makes the page, when the trace has ended. The trace has reported the losses.
    ///
    /// # Errors
    ///
    /// The log cannot be read, or the page cannot be written.
    pub fn make(self) -> anyhow::Result<Outcome> {
        let log = open(&self.setup.file)?;
        let interruption = Interruption::watch()?;
        let made = make_into(&self.setup, log, self.destination, &interruption)?;
        Ok(made.outcome())
    }
}
