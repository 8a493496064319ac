//! Tables of a slice, all of which are made on one way through its log.
//!
//! What waits of them is bounded: a table for which there is no room is put off, and made on
//! another way through the log with the others that were.

use std::cell::Cell;
use std::io::{self, Write};
use std::path::Path;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Context as _;
use bytes::Bytes;
use tokio::sync::mpsc::Sender;
use tracer_answers::queries::Following;
use tracer_engine::EventTypes;
use tracer_engine::event::{MonotonicNs, RealtimeNs};
use tracer_event::consumer::{Consumer, TraceLosses};
use tracer_event::event_view::EventView;
use tracer_event::gap::Gap;
use tracer_event::summary::Summary;
use tracer_export::parquet::{GroupSize, Parquet};
use tracer_export::{TableChoice, TraceOrigin};
use tracer_log::LogReader;
use tracer_log_view::{EventSpan, Pause, Walk, WantedEvents, open};
use tracer_tables::{RowBatch, RowOrigin, TableDefinition, TableMaker, TableSetup};

use crate::queue::QueuedSlice;
use crate::store::{ObjectPart, PART_BYTES};

/// Row groups of all tables. All of a group is in memory until it is written.
const GROUPS: GroupSize = GroupSize {
    rows: 8192,
    bytes: 2 << 20,
};

/// Bytes of all objects together that may wait: four parts, and less than one each of the others.
const MOST_WAITING: usize = 4 * PART_BYTES;

/// Events between two looks at the pause.
const AT_ONCE: usize = 4096;

/// Rows of a batch of spans that are sent.
const SPANS_AT_ONCE: usize = 512;

/// Facts about a slice that its tables came from.
#[derive(Clone, Debug)]
pub struct Told {
    /// Rows of the table.
    pub rows: u64,
    /// Identifier of its trace.
    pub trace_id: String,
    /// Its first event and its last one.
    pub span: Option<EventSpan>,
    /// Events that are missing, as far as it is known.
    pub lost: u64,
    /// Whether it was completed and nothing in it is damaged.
    pub is_whole: bool,
}

/// Returns the date of the first event, by the clock of the host that recorded it, and the distance
/// from the monotonic clock to that.
///
/// # Errors
///
/// It cannot be read as a log.
pub fn beginning(log: &Path) -> anyhow::Result<(RealtimeNs, u64)> {
    let mut walk = Walk::new(open(log)?, WantedEvents::default());
    walk.go_on(1, |_| Ok(()))?;
    let anchor = walk.anchor();
    let first = walk.span().map(|span| span.first);
    let (monotonic, date) = first.unwrap_or((anchor.monotonic, anchor.realtime));
    Ok((date, date.0.wrapping_sub(monotonic.0)))
}

/// Message of who makes tables, about one of them.
#[derive(Debug)]
pub enum TableMessage {
    /// The next part of its object.
    Part(ObjectPart),
    /// It is put off: what there was of it is of no use.
    PutOff,
}

/// Outcome of a way through a slice.
#[derive(Debug, Default)]
pub struct MadeTables {
    /// Tables that are whole.
    pub tables: Vec<(&'static TableDefinition, Told)>,
    /// Tables that were put off. They are fewer than were asked for.
    pub put_off: Vec<&'static TableDefinition>,
}

/// Makes tables of a slice as files in Parquet, whose parts are sent. Blocks.
///
/// # Errors
///
/// The slice cannot be read, or the parts are not taken.
pub fn make_tables(
    log: &Path,
    entry: &QueuedSlice,
    tables: &[&'static TableDefinition],
    to: &Sender<(&'static TableDefinition, TableMessage)>,
) -> anyhow::Result<MadeTables> {
    let mut walk = walk(log)?;
    let begin = |table: &&'static TableDefinition| TableObject::begin(table, &walk, entry, to);
    let objects = tables.iter().map(begin).collect::<Result<Vec<_>, _>>()?;
    let mut objects = TableObjects {
        objects,
        put_off: Vec::new(),
    };
    let summary = go_through(&mut walk, &mut objects)?;
    let mut made = MadeTables {
        put_off: objects.put_off,
        ..MadeTables::default()
    };
    for object in objects.objects {
        let table = object.table;
        let rows = object.end(&summary)?;
        made.tables.push((table, told(&walk, &summary, rows)));
    }
    Ok(made)
}

/// Table that is being made.
struct TableObject {
    table: &'static TableDefinition,
    parquet: Box<Parquet>,
    rows: Rc<Cell<u64>>,
    out: PartWriter,
}

impl TableObject {
    fn begin(
        table: &'static TableDefinition,
        walk: &Walk<LogReader>,
        entry: &QueuedSlice,
        to: &Sender<(&'static TableDefinition, TableMessage)>,
    ) -> anyhow::Result<Self> {
        let origin = TraceOrigin {
            attributes: walk.log().header().attributes.clone(),
            anchor: walk.anchor(),
            system: walk.log().system().clone(),
            is_wanted: Rc::new(|_, _| true),
            table: TableChoice {
                table,
                host: Some(entry.host.clone()),
                boot_id: entry.boot_id.clone(),
            },
        };
        let out = PartWriter {
            table,
            to: to.clone(),
            waiting: Arc::default(),
        };
        let parquet = Parquet::in_groups(Box::new(out.clone()), &origin, GROUPS)?;
        Ok(Self {
            table,
            rows: parquet.rows(),
            parquet: Box::new(parquet),
            out,
        })
    }

    /// Ends the table, sends what is left of it, and returns the number of its rows.
    fn end(self, summary: &Summary) -> anyhow::Result<u64> {
        self.parquet.finish(summary)?;
        let last = std::mem::take(&mut lock(&self.out.waiting).bytes);
        self.out.send(ObjectPart::Last(last.into()))?;
        Ok(self.rows.get())
    }
}

/// Tables that are being made on one way through a log.
struct TableObjects {
    objects: Vec<TableObject>,
    put_off: Vec<&'static TableDefinition>,
}

impl TableObjects {
    /// Puts tables off until there is room for the others.
    fn make_room(&mut self) -> anyhow::Result<()> {
        let waiting = |object: &TableObject| {
            let waiting = lock(&object.out.waiting);
            (waiting.has_sent, waiting.bytes.len())
        };
        while let Some(index) = without_room(self.objects.iter().map(waiting)) {
            let object = self.objects.remove(index);
            self.put_off.push(object.table);
            object.out.put_off()?;
        }
        Ok(())
    }
}

/// Returns which object is put off, where there is no room for all: that of which most bytes wait,
/// and rather one of which no part was sent. Each is said by whether any was, and by its bytes.
fn without_room(waiting: impl Iterator<Item = (bool, usize)> + Clone) -> Option<usize> {
    let bytes: usize = waiting.clone().map(|(_, bytes)| bytes).sum();
    let largest = waiting
        .enumerate()
        .max_by_key(|(_, (has_sent, bytes))| (!has_sent, *bytes));
    largest
        .filter(|_| bytes > MOST_WAITING)
        .map(|(index, _)| index)
}

impl Consumer for TableObjects {
    fn learn_types(&mut self, types: &EventTypes) {
        for object in &mut self.objects {
            object.parquet.learn_types(types);
        }
    }

    fn count_losses(&mut self, losses: &TraceLosses) -> anyhow::Result<()> {
        let mut objects = self.objects.iter_mut();
        objects.try_for_each(|object| object.parquet.count_losses(losses))
    }

    fn gap(&mut self, gap: &Gap) {
        for object in &mut self.objects {
            object.parquet.gap(gap);
        }
    }

    fn event(&mut self, view: &EventView<'_>) -> anyhow::Result<()> {
        let mut has_written = false;
        for object in &mut self.objects {
            let before = object.rows.get();
            object.parquet.event(view)?;
            has_written |= object.rows.get() != before;
        }
        if has_written {
            self.make_room()?;
        }
        Ok(())
    }

    fn idle(&mut self, now: MonotonicNs) {
        for object in &mut self.objects {
            object.parquet.idle(now);
        }
    }
}

/// Gives the spans of a slice away, in batches, and returns their number. Blocks.
///
/// # Errors
///
/// The slice cannot be read, or `give` fails.
pub fn spans(
    log: &Path,
    mut give: impl FnMut(RowBatch) -> anyhow::Result<()>,
) -> anyhow::Result<u64> {
    let mut walk = walk(log)?;
    let setup = TableSetup {
        most_rows: SPANS_AT_ONCE,
        ..TableSetup::new(spans_table()?, RowOrigin::default())
    };
    let mut rows = 0;
    let mut maker = TableMaker::new(&setup, |batch: RowBatch| {
        rows += u64::try_from(batch.rows()).unwrap_or(u64::MAX);
        give(batch)
    });
    let summary = go_through(&mut walk, &mut maker)?;
    maker.end(&summary)?;
    drop(maker);
    Ok(rows)
}

fn spans_table() -> anyhow::Result<&'static TableDefinition> {
    TableDefinition::named("spans").context("there is no table spans")
}

fn walk(log: &Path) -> anyhow::Result<Walk<LogReader>> {
    Ok(Walk::new(open(log)?, WantedEvents::default()).naming_by(log))
}

/// Gives all events to a consumer, as the exports of `tracer-user` do; it is not finished yet.
fn go_through(walk: &mut Walk<LogReader>, consumer: &mut impl Consumer) -> anyhow::Result<Summary> {
    consumer.learn_types(walk.log().event_types());
    let mut following = Following::default();
    while following.go_on(walk, AT_ONCE, consumer)? == Pause::Midway {}
    walk.finish(|view| consumer.event(view))?;
    consumer.count_losses(&walk.losses())?;
    following.end(walk, consumer);
    Ok(walk.summary())
}

fn told(walk: &Walk<LogReader>, summary: &Summary, rows: u64) -> Told {
    let header = walk.log().header();
    let name = header.attributes.name();
    let origin = RowOrigin::from_trace(name.as_bytes(), walk.anchor());
    let log = summary.log.unwrap_or_default();
    Told {
        rows,
        trace_id: origin.trace_id.to_string(),
        span: walk.span(),
        lost: summary.lost_in_all(),
        is_whole: log.is_whole() && log.is_completed,
    }
}

const NO_TAKER: &str = "the store takes no more";

/// Bytes of an object that wait until they are a part.
#[derive(Debug, Default)]
struct Waiting {
    bytes: Vec<u8>,
    /// Whether parts were sent.
    has_sent: bool,
}

/// Writer that sends parts of one length. What is left at the end is with the maker: columns are
/// flushed one by one.
#[derive(Clone, Debug)]
struct PartWriter {
    table: &'static TableDefinition,
    to: Sender<(&'static TableDefinition, TableMessage)>,
    waiting: Arc<Mutex<Waiting>>,
}

fn lock(waiting: &Mutex<Waiting>) -> MutexGuard<'_, Waiting> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}

impl PartWriter {
    fn send(&self, part: ObjectPart) -> anyhow::Result<()> {
        let message = (self.table, TableMessage::Part(part));
        self.to.blocking_send(message).context(NO_TAKER)
    }

    fn put_off(&self) -> anyhow::Result<()> {
        if !lock(&self.waiting).has_sent {
            return Ok(());
        }
        let message = (self.table, TableMessage::PutOff);
        self.to.blocking_send(message).context(NO_TAKER)
    }
}

impl Write for PartWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut waiting = lock(&self.waiting);
        // What is not written to takes no memory, and it is not copied as it grows.
        let room = PART_BYTES.saturating_sub(waiting.bytes.len());
        waiting.bytes.reserve_exact(room);
        let taken = bytes.get(..room.min(bytes.len())).unwrap_or_default();
        waiting.bytes.extend_from_slice(taken);
        if waiting.bytes.len() >= PART_BYTES {
            waiting.has_sent = true;
            let full = Bytes::from(std::mem::take(&mut waiting.bytes));
            let sent = self.send(ObjectPart::Part(full));
            sent.map_err(|error| io::Error::new(io::ErrorKind::BrokenPipe, error))?;
        }
        Ok(taken.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_most_is_put_off_once_there_is_no_room_and_what_was_sent_last() {
        let put_off = |mut waiting: Vec<(bool, usize)>| {
            let mut all = Vec::new();
            while let Some(index) = without_room(waiting.iter().copied()) {
                all.push(waiting.remove(index));
            }
            all
        };
        const HALF: usize = MOST_WAITING / 2;
        assert_eq!(put_off(vec![]), []);
        assert_eq!(put_off(vec![(false, HALF), (true, HALF), (false, 0)]), []);
        // The larger one, and no other.
        let waiting = vec![(false, 1), (false, HALF), (false, HALF - 1), (false, 1)];
        assert_eq!(put_off(waiting), [(false, HALF)]);
        // What was sent in part would have to be sent again.
        let waiting = vec![(true, HALF), (false, 2), (true, HALF - 1)];
        assert_eq!(put_off(waiting), [(false, 2)]);
        // Where that does not do, it has to.
        let waiting = vec![(true, HALF), (false, 2), (true, HALF + 1)];
        assert_eq!(put_off(waiting), [(false, 2), (true, HALF + 1)]);
    }

    #[test]
    fn parts_are_of_one_length_but_the_last() {
        let (to, mut from) = tokio::sync::mpsc::channel(9);
        let mut writer = PartWriter {
            table: TableDefinition::events(),
            to,
            waiting: Arc::default(),
        };
        let waiting = Arc::clone(&writer.waiting);
        let bytes: Vec<u8> = (0..=250).cycle().take(2 * PART_BYTES + 7).collect();
        let sender = std::thread::spawn({
            let bytes = bytes.clone();
            move || {
                bytes
                    .chunks(70_001)
                    .for_each(|some| writer.write_all(some).unwrap());
                writer.flush().unwrap();
            }
        });
        sender.join().unwrap();
        let mut parts = Vec::new();
        while let Some((_, TableMessage::Part(ObjectPart::Part(part)))) = from.blocking_recv() {
            parts.push(part);
        }
        let lengths: Vec<_> = parts.iter().map(Bytes::len).collect();
        assert_eq!(lengths, [PART_BYTES, PART_BYTES]);
        let rest = lock(&waiting).bytes.clone();
        assert_eq!(rest.len(), 7);
        assert_eq!([parts.concat(), rest].concat(), bytes);
    }
}
