//! Tables of a slice.

use std::io::{self, Write};
use std::path::Path;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Context as _;
use bytes::Bytes;
use tokio::sync::mpsc::Sender;
use tracer_answers::queries::Following;
use tracer_engine::event::RealtimeNs;
use tracer_event::consumer::Consumer;
use tracer_event::summary::Summary;
use tracer_export::parquet::Parquet;
use tracer_export::{TableChoice, TraceOrigin};
use tracer_log::LogReader;
use tracer_log_view::{EventSpan, Pause, Walk, WantedEvents, open};
use tracer_tables::{RowBatch, RowOrigin, TableDefinition, TableMaker, TableSetup};

use crate::queue::QueuedSlice;
use crate::store::{ObjectPart, PART_BYTES};

/// Rows of a row group. All of a group is in memory until it is written.
const GROUP_ROWS: usize = 8192;

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

/// Makes a table of a slice as a file in Parquet, whose parts are sent. Blocks.
///
/// # Errors
///
/// The slice cannot be read, or the parts are not taken.
pub fn make_table(
    log: &Path,
    entry: &QueuedSlice,
    table: &'static TableDefinition,
    to: &Sender<ObjectPart>,
) -> anyhow::Result<Told> {
    let mut walk = walk(log)?;
    let choice = TableChoice {
        table,
        host: Some(entry.host.clone()),
        boot_id: entry.boot_id.clone(),
    };
    let origin = TraceOrigin {
        attributes: walk.log().header().attributes.clone(),
        anchor: walk.anchor(),
        system: walk.log().system().clone(),
        is_wanted: Rc::new(|_, _| true),
        table: choice,
    };
    let rest = Arc::default();
    let out = PartWriter {
        to: to.clone(),
        part: Arc::clone(&rest),
    };
    let mut parquet = Parquet::in_groups(Box::new(out), &origin, GROUP_ROWS)?;
    let rows = parquet.rows();
    let summary = go_through(&mut walk, &mut parquet)?;
    Box::new(parquet).finish(&summary)?;
    let told = told(&walk, &summary, rows.get());
    let rest = std::mem::take(&mut *lock(&rest));
    if !rest.is_empty() {
        let part = ObjectPart::Bytes(Bytes::from(rest));
        to.blocking_send(part).context(NO_TAKER)?;
    }
    to.blocking_send(ObjectPart::End).context(NO_TAKER)?;
    Ok(told)
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

/// Writer that sends parts of one length. What is left at the end is with its maker: columns are
/// flushed one by one.
struct PartWriter {
    to: Sender<ObjectPart>,
    part: Arc<Mutex<Vec<u8>>>,
}

fn lock(part: &Mutex<Vec<u8>>) -> MutexGuard<'_, Vec<u8>> {
    part.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Write for PartWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut part = lock(&self.part);
        // What is not written to takes no memory, and it is not copied as it grows.
        let room = PART_BYTES.saturating_sub(part.len());
        part.reserve_exact(room);
        let taken = bytes.get(..room.min(bytes.len())).unwrap_or_default();
        part.extend_from_slice(taken);
        if part.len() >= PART_BYTES {
            let full = ObjectPart::Bytes(Bytes::from(std::mem::take(&mut *part)));
            let sent = self.to.blocking_send(full);
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
    fn parts_are_of_one_length_but_the_last() {
        let (to, mut from) = tokio::sync::mpsc::channel(9);
        let rest = Arc::default();
        let mut writer = PartWriter {
            to,
            part: Arc::clone(&rest),
        };
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
        while let Some(ObjectPart::Bytes(part)) = from.blocking_recv() {
            parts.push(part);
        }
        let lengths: Vec<_> = parts.iter().map(Bytes::len).collect();
        assert_eq!(lengths, [PART_BYTES, PART_BYTES]);
        assert_eq!(lock(&rest).len(), 7);
        assert_eq!([parts.concat(), lock(&rest).clone()].concat(), bytes);
    }
}
