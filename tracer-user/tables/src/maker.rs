//! Consumer of events that makes the rows of a table.

use std::sync::Arc;

use tracer_answers::queries::SpanSpec;
use tracer_engine::EventTypes;
use tracer_engine::event::MonotonicNs;
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

/// Setup of a table that is made of a trace.
#[derive(Clone, Debug)]
pub struct TableSetup {
    /// The table.
    pub table: &'static Table,
    /// Names of the columns that are made; all without it.
    pub columns: Option<Vec<String>>,
    /// Spans that are meant, of `spans` and `path`; empty for all whose names show it.
    pub spans: Vec<SpanSpec>,
    /// Most rows of a batch.
    pub most_rows: usize,
    /// Origin of the rows.
    pub origin: Origin,
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
