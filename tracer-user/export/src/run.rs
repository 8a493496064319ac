//! One conversion from start to end.

use std::io;
use std::path::PathBuf;
use std::rc::Rc;

use super::live::{destination, refuse_terminal};
use super::{ExportFormat, TableChoice, TraceOrigin};
use tracer_log_view::{
    GapWatch, Log, Pause, Walk, WantedEvents, losses_of, open, outcome, report_missing,
};
use tracer_output::destination::Destination;
use tracer_output::interruption::Interruption;
use tracer_output::progress::Progress;
use tracer_output::terminal::Outcome;

/// Setup of a conversion.
#[derive(Clone, Debug)]
pub struct ExportSetup {
    /// Log to be converted.
    pub file: PathBuf,
    /// Choice of its events.
    pub wanted: WantedEvents,
    /// Format of the output.
    pub format: &'static ExportFormat,
    /// File or folder to be made.
    pub output: PathBuf,
    /// Whether an existing output is replaced.
    pub force: bool,
    /// Table that is made, by a format of tables.
    pub table: TableChoice,
}

/// Number of events between two looks at the losses and the progress.
const AT_ONCE: usize = 256;

/// Converts a log, and reports the losses.
///
/// # Errors
///
/// The log cannot be read, or the output is there already or cannot be written.
pub fn export(setup: &ExportSetup) -> anyhow::Result<Outcome> {
    refuse_terminal(setup.format, &setup.output)?;
    let log = open(&setup.file)?;
    let interruption = Interruption::watch()?;
    let input = Some(setup.file.as_path());
    let destination = destination(setup.format, &setup.output, input, setup.force)?;
    convert(setup, log, destination, &interruption).map_err(|error| {
        // A reader that closes the pipe is no failure, whatever error a format's library makes of
        // it.
        if has_lost_its_reader(&error) {
            io::Error::from(io::ErrorKind::BrokenPipe).into()
        } else {
            error
        }
    })
}

fn convert<L: Log>(
    setup: &ExportSetup,
    log: L,
    destination: Destination,
    interruption: &Interruption,
) -> anyhow::Result<Outcome> {
    let mut walk = Walk::new(log, setup.wanted.settled_in(&setup.file)?).naming_by(&setup.file);
    let wanted = walk.wanted().clone();
    let origin = TraceOrigin {
        attributes: walk.log().header().attributes.clone(),
        anchor: walk.anchor(),
        system: walk.log().system().clone(),
        is_wanted: Rc::new(move |id, name| wanted.has_type(id, name)),
        table: setup.table.clone(),
    };
    let mut exporter = setup.format.start(&origin, &destination)?;
    exporter.learn_types(walk.log().event_types());
    let progress = Progress::start();
    let mut watch = GapWatch::default();
    loop {
        let pause = if setup.format.needs_gaps {
            watch.go_on(&mut walk, AT_ONCE, |log, gap, view| {
                if let Some(gap) = gap {
                    exporter.count_losses(&losses_of(log))?;
                    exporter.gap(&gap);
                }
                exporter.event(view)
            })?
        } else {
            walk.go_on(AT_ONCE, |view| exporter.event(view))?
        };
        exporter.count_losses(&walk.losses())?;
        progress.show(walk.log().progress());
        interruption.check(destination.early_end())?;
        if pause != Pause::Midway {
            break;
        }
    }
    if let Some(gap) = watch.behind(&walk).filter(|_| setup.format.needs_gaps) {
        exporter.gap(&gap);
    }
    if let Some(ended) = walk.ended() {
        exporter.idle(ended);
    }
    let summary = walk.summary();
    exporter.finish(&summary)?;
    interruption.check(destination.early_end())?;
    destination.complete()?;
    progress.end();
    report_missing(&walk, &summary);
    Ok(outcome(&summary, false))
}

fn has_lost_its_reader(error: &anyhow::Error) -> bool {
    let mut causes = error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>());
    causes.any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}
