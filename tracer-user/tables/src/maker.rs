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

use super::batch::RowBatch;
use super::definition::TableDefinition;
use super::rows::{self, Rows};

/// Origin of the rows of a trace.
#[derive(Clone, Debug, Default)]
pub struct RowOrigin {
    /// Name of the host, where it is known.
    pub host: Option<Arc<str>>,
    /// Boot of the host, where it is known.
    pub boot_id: Option<Arc<str>>,
    /// The trace.
    pub trace_id: Arc<str>,
}

impl RowOrigin {
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
    pub table: &'static TableDefinition,
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
    /// Bytes of text and data after which a batch is closed, however few its rows are.
    pub most_bytes: usize,
    /// Whether the data of events is rendered by who takes the batches ([`RowBatch::render`]).
    pub defers: bool,
    /// Origin of the rows.
    pub origin: RowOrigin,
}

impl TableSetup {
    /// Returns the setup of a whole table.
    #[must_use]
    pub fn new(table: &'static TableDefinition, origin: RowOrigin) -> Self {
        Self {
            table,
            columns: None,
            spans: Vec::new(),
            scope: Scope::default(),
            tids: Vec::new(),
            most_rows: MOST_ROWS,
            most_bytes: MOST_BYTES,
            defers: false,
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

/// Bytes of text and data of a batch where nothing else is asked for.
pub const MOST_BYTES: usize = 8 << 20;

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
    batch: RowBatch,
    most_rows: usize,
    most_bytes: usize,
    defers: bool,
    give: F,
}

impl<F: FnMut(RowBatch) -> anyhow::Result<()>> TableMaker<F> {
    /// Begins the table. `give` is called with each batch, which has rows.
    pub fn new(setup: &TableSetup, give: F) -> Self {
        let columns = setup.columns.as_deref();
        let batch = RowBatch::new(setup.table, columns, setup.origin.clone());
        Self {
            rows: rows::make(setup, &batch),
            batch,
            most_rows: setup.most_rows.max(1),
            most_bytes: setup.most_bytes,
            defers: setup.defers,
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
        let mut batch = self.batch.take();
        self.rows.complete(&mut batch);
        if !self.defers {
            batch.render(usize::MAX);
        }
        (self.give)(batch)
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
        if self.batch.is_full(self.most_rows, self.most_bytes) {
            self.flush()?;
        }
        Ok(())
    }
}

impl<F: FnMut(RowBatch) -> anyhow::Result<()>> Consumer for TableMaker<F> {
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tracer_answers::queries::follow;
    use tracer_common::event_type::{EventTypeId, FIRST_USER_EVENT};
    use tracer_engine::event::{EventHeader, Truncation};
    use tracer_log_view::test_log::TestLog;
    use tracer_log_view::{Walk, WantedEvents};

    use super::super::{BatchColumn, ColumnValues, TABLES};
    use super::*;

    /// Returns the batches of a table of a log.
    fn batches(log: TestLog, setup: &TableSetup) -> Vec<RowBatch> {
        let mut batches = Vec::new();
        let mut maker = TableMaker::new(setup, |batch| {
            batches.push(batch);
            Ok(())
        });
        let mut walk = Walk::new(log, WantedEvents::default());
        follow(&mut walk, &mut maker).unwrap();
        maker.end(&walk.summary()).unwrap();
        drop(maker);
        batches
    }

    fn count(column: &BatchColumn) -> usize {
        match &column.values {
            ColumnValues::Nothing => 0,
            ColumnValues::U64(values) => values.len(),
            ColumnValues::I64(values) => values.len(),
            ColumnValues::U32(values) => values.len(),
            ColumnValues::I32(values) => values.len(),
            ColumnValues::Bool(values) => values.len(),
            ColumnValues::Name(values, names) => {
                let names = i32::try_from(names.texts().count()).unwrap();
                assert!(values.iter().all(|number| (0..names).contains(number)));
                values.len()
            }
            ColumnValues::TextValues(texts) => texts.count(),
        }
    }

    /// Returns the columns of a batch, each of which has a value for each row, and text that is
    /// UTF-8.
    fn checked(batch: RowBatch) -> Vec<BatchColumn> {
        let rows = batch.rows();
        // Either all values are held, or none is.
        let are_all_or_none = |column| [0, rows].contains(&count(column));
        assert!(batch.columns().all(are_all_or_none));
        let columns: Vec<_> = batch.into_columns().collect();
        for column in &columns {
            let name = column.column.name;
            assert_eq!(count(column), rows, "{name}");
            assert!([0, rows].contains(&column.valid.len()), "{name}");
            assert!(
                column.valid.is_empty() || column.column.is_nullable,
                "{name}"
            );
            assert!(!column.is_absent || !column.valid.contains(&true), "{name}");
            match &column.values {
                ColumnValues::TextValues(texts) if column.column.of != crate::ColumnType::Bytes => {
                    assert!(std::str::from_utf8(&texts.bytes).is_ok(), "{name}");
                }
                ColumnValues::Name(_, names) => {
                    assert!(std::str::from_utf8(&names.texts().bytes).is_ok(), "{name}");
                }
                _ => {}
            }
        }
        columns
    }

    proptest! {
        /// Checks that every table has a value in each column, whatever a log has.
        #[test]
        fn rows_are_whole_whatever_a_log_has(
            events in prop::collection::vec(
                (any::<u16>(), 0_u32..66, 0..4_i32, 0..4_i32, any::<Option<u32>>(),
                 prop::collection::vec(any::<u8>(), 0..80)),
                0..60),
            most_rows in 1_usize..20,
        ) {
            for table in TABLES {
                let mut log = TestLog { late: 3, lost_in_log: 1, ..TestLog::default() };
                log.define(b"x begin");
                log.define(b"x end");
                let mut at = 0;
                for (later, id, pid, tid, cpu, data) in &events {
                    let id = if *id < 64 { *id } else { FIRST_USER_EVENT + 1 + id % 2 };
                    at += u64::from(*later);
                    let header = EventHeader {
                        time: MonotonicNs(at),
                        event_type: EventTypeId(id),
                        pid: *pid,
                        tid: *tid,
                        cpu: *cpu,
                        thread_id: 0,
                        program_address: 0,
                        truncation: Truncation::None,
                    };
                    log.push_event(header, data, b"a\x1b\xff");
                }
                let setup = TableSetup { most_rows, ..TableSetup::new(table, RowOrigin::default()) };
                batches(log, &setup).into_iter().for_each(|batch| drop(checked(batch)));
            }
        }
    }

    #[test]
    fn data_that_is_rendered_later_is_the_same() {
        for columns in [None, Some(vec!["data".to_owned()])] {
            let texts = |defers| {
                let mut log = TestLog::default();
                let names = [log.define(b"x"), log.define(b"y")];
                for nth in 1..=9_u8 {
                    log.push(
                        nth.into(),
                        names[usize::from(nth % 2)],
                        (1, 2),
                        &[b'a' + nth],
                    );
                    log.push(nth.into(), EventTypeId::FORK, (1, 2), &[nth; 40]);
                }
                let setup = TableSetup {
                    columns: columns.clone(),
                    most_rows: 5,
                    defers,
                    ..TableSetup::new(TableDefinition::events(), RowOrigin::default())
                };
                let mut texts = Vec::new();
                for mut batch in batches(log, &setup) {
                    while batch.render(2) {}
                    let mut columns = checked(batch).into_iter();
                    let data = columns.find(|column| column.column.name == "data").unwrap();
                    let ColumnValues::TextValues(data) = data.values else {
                        panic!("no text");
                    };
                    texts.extend((0..data.count()).map(|nth| data.get(nth).to_vec()));
                }
                texts
            };
            assert_eq!(texts(true).len(), 18);
            assert_eq!(texts(true), texts(false));
        }
    }

    #[test]
    fn values_that_all_rows_have_are_there_though_they_are_not_held() {
        let mut log = TestLog::default();
        let name = log.define(b"x");
        for (at, address) in [(1, 0), (2, 0), (3, 5), (4, 0), (5, 0), (6, 0)] {
            let header = EventHeader {
                time: MonotonicNs(at),
                event_type: name,
                pid: 1,
                tid: 2,
                cpu: (at == 2).then_some(0),
                thread_id: 0,
                program_address: address,
                truncation: Truncation::None,
            };
            log.push_event(header, b"", b"comm");
        }
        let origin = RowOrigin {
            host: Some("h".into()),
            ..RowOrigin::default()
        };
        let setup = TableSetup {
            most_rows: 4,
            ..TableSetup::new(TableDefinition::events(), origin)
        };
        let mut addresses = Vec::new();
        let mut cpus = Vec::new();
        for batch in batches(log, &setup) {
            let rows = batch.rows();
            for column in checked(batch) {
                match (column.column.name, column.values) {
                    ("prog_address", ColumnValues::U64(values)) => addresses.push(values),
                    ("cpu", ColumnValues::U32(_)) => cpus.push(column.valid),
                    ("host", ColumnValues::Name(numbers, names)) => {
                        assert_eq!((numbers, names.texts().get(0)), (vec![0; rows], &b"h"[..]));
                        assert!(column.valid.is_empty() && !column.is_absent);
                    }
                    ("boot_id" | "duration_ns" | "stack" | "stack_ends", _) => {
                        assert!(column.is_absent && column.valid == vec![false; rows]);
                    }
                    _ => {}
                }
            }
        }
        assert_eq!(addresses, [vec![0, 0, 5, 0], vec![0, 0]]);
        assert_eq!(cpus, [vec![false, true, false, false], vec![false; 2]]);
    }

    #[test]
    fn columns_that_are_not_chosen_are_not_made() {
        let mut log = TestLog::default();
        let name = log.define(b"x");
        (1..=9).for_each(|nth| log.push(nth * 10, name, (1, 2), b"data"));
        let setup = TableSetup {
            columns: Some(vec!["pid".to_owned(), "ns".to_owned()]),
            most_rows: 4,
            ..TableSetup::new(TableDefinition::events(), RowOrigin::default())
        };
        let batches = batches(log, &setup);
        assert_eq!(
            batches.iter().map(RowBatch::rows).collect::<Vec<_>>(),
            [4, 4, 1]
        );
        for batch in batches {
            let columns = checked(batch);
            let names: Vec<_> = columns.iter().map(|column| column.column.name).collect();
            assert_eq!(names, ["ns", "pid"]);
        }
    }

    #[test]
    fn a_trace_has_one_identifier_and_another_trace_another() {
        let clocks = |monotonic, realtime| ClockPair {
            monotonic: MonotonicNs(monotonic),
            realtime: tracer_engine::event::RealtimeNs(realtime),
        };
        let id = |name: &[u8], clocks| RowOrigin::from_trace(name, clocks).trace_id;
        // As the first version made it: identifiers are in files.
        assert_eq!(&*id(b"", clocks(0, 0)), "88201fb960ff6465");
        assert_eq!(id(b"a", clocks(1, 2)), id(b"a", clocks(1, 2)));
        assert_ne!(id(b"a", clocks(1, 2)), id(b"a", clocks(2, 1)));
        assert_ne!(id(b"a", clocks(1, 2)), id(b"b", clocks(1, 2)));
    }
}
