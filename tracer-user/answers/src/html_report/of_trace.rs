//! Page of a trace that is still to happen.

use std::path::{Path, PathBuf};

use anyhow::Context;

use super::run::{ReportSetup, SLOWEST, make_into};
use crate::queries::SpanSpec;
use tracer_log_view::{WantedEvents, open};
use tracer_output::destination::Destination;
use tracer_output::interruption::Interruption;
use tracer_output::terminal::Outcome;
use tracer_output::unfinished::Unfinished;

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
