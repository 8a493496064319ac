//! Consumer of events that makes the rows of a table.

use std::sync::Arc;

use tracer_analysis::Thread;
use tracer_answers::queries::{Scope, SpanSpec};
use tracer_engine::event::MonotonicNs;
use tracer_engine::{ClockPair, EventTypes};
use tracer_event::consumer::{Consumer, TraceLosses};
use tracer_event::event_view::EventView;
use tracer_event::gap::Gap;
use tracer_event::summary::Summary;

use super::batch::Batch;
use super::definition::Table;
use super::rows::{self, Rows};

/// Origin of the rows of a trace.
#[derive(Clone, Debug, Default)]
pub struct Origin {
    /// Name of the host, where it is known.
    pub host: Option<Arc<str>>,
    /// Boot of the host, where it is known.
    pub boot_id: Option<Arc<str>>,
    /// The trace.
    pub trace_id: Arc<str>,
}

impl Origin {
    /// Returns the origin of a trace with this name that began at this moment, by which it is told
    /// from others.
    #[must_use]
    pub fn from_trace(name: &[u8], anchor: ClockPair) -> Self {
        // FNV-1a, which stays the same in all versions.
        const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
        const PRIME: u64 = 0x0100_0000_01b3;
        let clocks = [anchor.monotonic.0, anchor.realtime.0].map(u64::to_le_bytes);
        let bytes = clocks.as_flattened().iter().chain(name);
        let hash = bytes.fold(BASIS, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(PRIME)
        });
        Self {
            trace_id: format!("{hash:016x}").into(),
            ..Self::default()
        }
    }
}

/// Setup of a table that is made of a trace.
#[derive(Clone, Debug)]
pub struct TableSetup {
    /// The table.
    pub table: &'static Table,
    /// Names of the columns that are made; all without it.
    pub columns: Option<Vec<String>>,
    /// Spans that are meant, of `spans` and `path`; empty for all whose names show it.
    pub spans: Vec<SpanSpec>,
    /// Rows that are wanted of tables other than `events`, whose events are chosen: those of these
    /// processes that are, at least in part, in this time.
    pub scope: Scope,
    /// Threads that are wanted of these; empty for all.
    pub tids: Vec<i32>,
    /// Most rows of a batch.
    pub most_rows: usize,
    /// Origin of the rows.
    pub origin: Origin,
}

impl TableSetup {
    /// Returns the setup of a whole table.
    #[must_use]
    pub fn new(table: &'static Table, origin: Origin) -> Self {
        Self {
            table,
            columns: None,
            spans: Vec::new(),
            scope: Scope::default(),
            tids: Vec::new(),
            most_rows: MOST_ROWS,
            origin,
        }
    }

    /// Returns the choice of rows.
    pub(crate) fn choice(&self) -> RowChoice {
        RowChoice {
            scope: self.scope.clone(),
            tids: self.tids.clone(),
        }
    }
}

/// Rows of a batch where nothing else is asked for.
pub const MOST_ROWS: usize = 65_536;

/// Choice of rows.
#[derive(Clone, Debug)]
pub(crate) struct RowChoice {
    /// Processes, and the time.
    pub scope: Scope,
    tids: Vec<i32>,
}

impl RowChoice {
    /// Tells whether what a thread did from a moment to another is wanted.
    pub fn has(&self, thread: Thread, from: MonotonicNs, to: MonotonicNs) -> bool {
        self.has_thread(thread) && from <= self.scope.until && self.scope.from <= to
    }

    /// Tells whether a thread is wanted.
    pub fn has_thread(&self, thread: Thread) -> bool {
        let is_among = self.tids.is_empty() || self.tids.contains(&thread.tid);
        is_among && self.scope.has_process(thread.pid)
    }
}

/// Consumer that makes the rows of a table, and gives each batch away.
pub struct TableMaker<F> {
    rows: Box<dyn Rows>,
    batch: Batch,
    most_rows: usize,
    give: F,
}

impl<F: FnMut(Batch) -> anyhow::Result<()>> TableMaker<F> {
    /// Begins the table. `give` is called with each batch, which has rows.
    pub fn new(setup: &TableSetup, give: F) -> Self {
        let batch = Batch::new(setup.table, setup.columns.as_deref(), setup.origin.clone());
        Self {
            rows: rows::of(setup, &batch),
            batch,
            most_rows: setup.most_rows.max(1),
            give,
        }
    }

    /// Gives away the rows so far, if there are any.
    ///
    /// # Errors
    ///
    /// They cannot be taken.
    pub fn flush(&mut self) -> anyhow::Result<()> {
        if self.batch.rows() == 0 {
            return Ok(());
        }
        (self.give)(self.batch.take())
    }

    /// Ends the table: there are no more events.
    ///
    /// # Errors
    ///
    /// The last rows cannot be taken.
    pub fn end(&mut self, summary: &Summary) -> anyhow::Result<()> {
        self.rows.end(summary, &mut self.batch);
        // Rows of sums come all at once, and are few.
        self.flush()
    }

    fn flush_full(&mut self) -> anyhow::Result<()> {
        if self.batch.is_full(self.most_rows) {
            self.flush()?;
        }
        Ok(())
    }
}

impl<F: FnMut(Batch) -> anyhow::Result<()>> Consumer for TableMaker<F> {
    fn learn_types(&mut self, types: &EventTypes) {
        self.rows.learn_types(types);
    }

    fn count_losses(&mut self, losses: &TraceLosses) -> anyhow::Result<()> {
        self.rows.count_losses(losses);
        Ok(())
    }

    fn gap(&mut self, gap: &Gap) {
        self.rows.gap(gap, &mut self.batch);
    }

    fn event(&mut self, view: &EventView<'_>) -> anyhow::Result<()> {
        self.rows.event(view, &mut self.batch);
        self.flush_full()
    }

    fn idle(&mut self, now: MonotonicNs) {
        self.rows.idle(now);
    }

    fn finish(mut self: Box<Self>, summary: &Summary) -> anyhow::Result<()> {
        self.end(summary)
    }
}
