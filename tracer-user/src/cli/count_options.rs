//! Options of counting in the kernel, instead of recording.

use std::cell::Cell;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};

use super::source_options::{EventSource, LiveSource};
use tracer_answers::budget::Budget;
use tracer_answers::counting::{self, CountView};
use tracer_answers::stat::{By, View};
use tracer_kernel::{Counting, CountsBy};
use tracer_live::Beginning;
use tracer_output::terminal::Outcome;
use tracer_text::quantity::time;

/// Counting, as typed.
#[derive(Debug, clap::Args)]
pub struct CountArgs {
    /// Count in the kernel, and record nothing: system calls with their errors and times (all, or
    /// those of --syscalls), what threads do (switches), page faults; or some of these, separated
    /// by commas: --count=syscalls,faults. Probes and tracepoints that are named are counted too,
    /// or alone: --count=points. Times have histograms in powers of two. Sums are of all
    /// together, or as --by says. It costs the programs less than recording does, and the
    /// tracer next to nothing; needs root
    #[arg(
        long,
        value_name = "WHAT",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "syscalls,switches,faults",
        conflicts_with_all = ["span", "from", "until", "flame", "add_events"],
        help_heading = COUNTING
    )]
    count: Option<String>,
    /// Do not measure how long system calls take, which costs each as much again
    #[arg(long, requires = "count", help_heading = COUNTING)]
    no_times: bool,
    /// Show what was counted every so often too, and at the end all of it: 1s. With --format json,
    /// an object a line
    #[arg(
        id = "count_interval",
        long = "interval",
        value_name = "TIME",
        requires = "count",
        help_heading = COUNTING
    )]
    interval: Option<String>,
}

/// Heading of these options in the help.
const COUNTING: &str = "Counting";

/// Least time between tables: reading what is counted takes some milliseconds.
const LEAST_INTERVAL: Duration = Duration::from_millis(100);

/// Checked choice of counting.
#[derive(Clone, Debug)]
pub struct CountConfig {
    what: Counting,
    view: CountView,
    budget: Budget,
}

impl CountArgs {
    /// Tells whether it was asked for.
    pub fn is_given(&self) -> bool {
        self.count.is_some()
    }

    /// Checks what was typed; `None` where nothing is to be counted.
    ///
    /// # Errors
    ///
    /// A word names nothing that is counted, or the interval is no time.
    pub fn config(
        &self,
        view: View,
        is_json: bool,
        budget: &Budget,
    ) -> anyhow::Result<Option<CountConfig>> {
        let Some(typed) = &self.count else {
            return Ok(None);
        };
        let mut what = Counting {
            calls: false,
            switches: false,
            faults: false,
            points: false,
            times: !self.no_times,
            by: match view.by {
                None => CountsBy::All,
                Some(By::Process) => CountsBy::Process,
                Some(By::Thread) => CountsBy::Thread,
                Some(By::Comm) => CountsBy::Comm,
            },
        };
        for word in typed.split(',').map(str::trim) {
            match word {
                "syscalls" => what.calls = true,
                "switches" => what.switches = true,
                "faults" => what.faults = true,
                "points" => what.points = true,
                _ => bail!(
                    "--count={word:?}: what can be counted is syscalls, switches, faults and \
                     points (probes and tracepoints that are named); a log or processes come after \
                     a space"
                ),
            }
        }
        let interval = self.interval.as_deref();
        let interval = interval
            .map(|typed| time("--interval", typed))
            .transpose()?;
        ensure!(
            interval.is_none_or(|interval| interval >= LEAST_INTERVAL),
            "--interval must be at least 100ms"
        );
        let view = CountView {
            by: view.by,
            sort: view.sort,
            is_json,
            interval,
        };
        let mut budget = budget.clone();
        if interval.is_some() {
            // Tables follow each other, as they become known.
            budget.screen = None;
        }
        Ok(Some(CountConfig { what, view, budget }))
    }
}

impl CountConfig {
    /// Makes the trace of `source` one that counts.
    ///
    /// # Errors
    ///
    /// It is a log.
    pub fn apply(&self, source: EventSource) -> anyhow::Result<EventSource> {
        let EventSource::Live(mut live) = source else {
            bail!("--count goes with processes or a command; a log has what was recorded");
        };
        let mut what = self.what;
        let are_named = live.has_points();
        ensure!(
            are_named || !what.points,
            "--count=points counts what is named: add --probe, --usdt or --tracepoint"
        );
        what.points = are_named;
        live.count(what);
        Ok(EventSource::Live(live))
    }

    /// Counts, and shows what was counted.
    ///
    /// # Errors
    ///
    /// The processes cannot be traced, or what was counted cannot be read.
    pub fn run(&self, live: &LiveSource) -> anyhow::Result<ExitCode> {
        let (view, budget) = (self.view, self.budget.clone());
        let outcome = Rc::new(Cell::new(Outcome::Complete));
        let shown = Rc::clone(&outcome);
        let consumer = move |beginning: &Beginning<'_>, lines| {
            let counts = beginning.counts.clone();
            let counts = counts.context("what is counted cannot be read here")?;
            let outcome = Rc::clone(&outcome);
            let start = beginning.start;
            Ok(counting::consumer(
                counts,
                (view, budget.clone(), start),
                lines,
                outcome,
            ))
        };
        live.trace_with(consumer, || shown.get())
    }
}
