//! Rows of the table `ship`: what was shipped whole, and what was dropped.

use std::sync::Arc;

use parquet::basic::Compression;
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;

use crate::counts::ByCause;
use crate::queue::QueuedSlice;
use crate::slice::Told;

/// Row of the table.
#[derive(Clone, Debug, Default)]
pub struct ShipRow {
    /// Date of the slice's first event; of the newest thing that was dropped [ns since 1970].
    pub date: u64,
    /// Time of its first event and of its last one on the monotonic clock, in nanoseconds.
    pub times: Option<(u64, u64)>,
    /// Name of the slice; `None` for what was dropped.
    pub slice: Option<String>,
    /// Reason for which it was dropped.
    pub cause: Option<&'static str>,
    /// Number of slices.
    pub slices: u64,
    /// Bytes of their logs.
    pub bytes: u64,
    /// Spans that were dropped.
    pub spans: Option<u64>,
    /// Events in the slice.
    pub events: Option<u64>,
    /// Events that are missing in it.
    pub lost: Option<u64>,
    /// Whether it was completed and nothing in it is damaged.
    pub is_whole: Option<bool>,
    /// Host.
    pub host: String,
    /// Boot.
    pub boot_id: Option<String>,
    /// Identifier of the trace.
    pub trace_id: Option<String>,
}

/// Columns, as Parquet has them.
const SCHEMA: &str = "message ship {
    required int64 time (TIMESTAMP(NANOS, true));
    optional int64 ns (INTEGER(64, false));
    optional int64 last_ns (INTEGER(64, false));
    required binary state (STRING);
    optional binary cause (STRING);
    optional binary slice (STRING);
    required int64 slices (INTEGER(64, false));
    required int64 bytes (INTEGER(64, false));
    optional int64 spans (INTEGER(64, false));
    optional int64 events (INTEGER(64, false));
    optional int64 lost (INTEGER(64, false));
    optional boolean is_whole;
    required binary host (STRING);
    optional binary boot_id (STRING);
    optional binary trace_id (STRING);
}";

/// Returns the row of a slice that is in the store.
pub fn of_slice(entry: &QueuedSlice, events: &Told, date: u64) -> ShipRow {
    ShipRow {
        date,
        times: events.span.map(|span| (span.first.0.0, span.last.0.0)),
        slice: Some(entry.slice.clone()),
        slices: 1,
        bytes: entry.bytes,
        events: Some(events.rows),
        lost: Some(events.lost),
        is_whole: Some(events.is_whole),
        host: entry.host.clone(),
        boot_id: entry.boot_id.clone(),
        trace_id: Some(events.trace_id.clone()),
        ..ShipRow::default()
    }
}

/// Returns the rows of what was dropped.
pub fn of_counts(host: &str, counts: &ByCause) -> Vec<ShipRow> {
    let row = |(cause, count): (&crate::counts::Cause, &crate::counts::DropCount)| ShipRow {
        date: count.date,
        cause: Some(cause.name()),
        slices: count.slices,
        bytes: count.bytes,
        spans: Some(count.spans),
        host: host.to_owned(),
        ..ShipRow::default()
    };
    counts.iter().map(row).collect()
}

/// Returns rows as a file.
///
/// # Errors
///
/// There is none.
pub fn file(rows: &[ShipRow]) -> Result<Vec<u8>, ParquetError> {
    let schema = Arc::new(parse_message_type(SCHEMA)?);
    let properties = WriterProperties::builder()
        .set_created_by(concat!("tracer-user version ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(Compression::SNAPPY)
        .build();
    let mut out = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut out, schema, Arc::new(properties))?;
    let mut group = writer.next_row_group()?;
    let number = |value: u64| Some(value.cast_signed());
    let text = |value: &str| Some(ByteArray::from(value));
    let maybe = |value: &Option<String>| value.as_deref().map(ByteArray::from);
    let state = |row: &ShipRow| {
        let is_dropped = row.cause.is_some();
        text(if is_dropped { "dropped" } else { "shipped" })
    };
    put::<Int64Type>(&mut group, rows, false, |row| number(row.date))?;
    put::<Int64Type>(&mut group, rows, true, |row| number(row.times?.0))?;
    put::<Int64Type>(&mut group, rows, true, |row| number(row.times?.1))?;
    put::<ByteArrayType>(&mut group, rows, false, state)?;
    put::<ByteArrayType>(&mut group, rows, true, |row| row.cause.and_then(text))?;
    put::<ByteArrayType>(&mut group, rows, true, |row| maybe(&row.slice))?;
    put::<Int64Type>(&mut group, rows, false, |row| number(row.slices))?;
    put::<Int64Type>(&mut group, rows, false, |row| number(row.bytes))?;
    put::<Int64Type>(&mut group, rows, true, |row| row.spans.and_then(number))?;
    put::<Int64Type>(&mut group, rows, true, |row| row.events.and_then(number))?;
    put::<Int64Type>(&mut group, rows, true, |row| row.lost.and_then(number))?;
    put::<BoolType>(&mut group, rows, true, |row| row.is_whole)?;
    put::<ByteArrayType>(&mut group, rows, false, |row| text(&row.host))?;
    put::<ByteArrayType>(&mut group, rows, true, |row| maybe(&row.boot_id))?;
    put::<ByteArrayType>(&mut group, rows, true, |row| maybe(&row.trace_id))?;
    group.close()?;
    writer.close()?;
    Ok(out)
}

/// Writes the next column.
fn put<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, &mut Vec<u8>>,
    rows: &[ShipRow],
    is_nullable: bool,
    get: impl Fn(&ShipRow) -> Option<T::T>,
) -> Result<(), ParquetError> {
    let column = group.next_column()?;
    let mut column =
        column.ok_or_else(|| ParquetError::General("more columns than the schema has".into()))?;
    let values: Vec<Option<T::T>> = rows.iter().map(get).collect();
    let levels: Vec<i16> = values
        .iter()
        .map(|value| i16::from(value.is_some()))
        .collect();
    let values: Vec<T::T> = values.into_iter().flatten().collect();
    let writer = column.typed::<T>();
    writer.write_batch(&values, is_nullable.then_some(&levels), None)?;
    column.close()
}
