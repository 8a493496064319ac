//! Apache Parquet: a table of a trace, in row groups by time, for data bases and data frames.

use std::cell::{Cell, RefCell};
use std::fmt::Write as _;
use std::io::Write;
use std::rc::Rc;
use std::sync::Arc;

use anyhow::Context;
use bytes::Bytes;
use parquet::basic::{Compression, Encoding};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::{KeyValue, SortingColumn};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::Type;
use tracer_engine::EventTypes;
use tracer_engine::event::MonotonicNs;
use tracer_event::consumer::{Consumer, TraceLosses};
use tracer_event::event_view::EventView;
use tracer_event::gap::Gap;
use tracer_event::summary::Summary;
use tracer_tables::{
    BatchColumn, Column, ColumnType, ColumnValues, RowBatch, RowOrigin, TableDefinition,
    TableMaker, TableSetup, TextValues, ValuePlace,
};

use super::TraceOrigin;

/// Most that a row group has: what is held in memory is a group.
#[derive(Clone, Copy, Debug)]
pub struct GroupSize {
    /// Rows.
    pub rows: usize,
    /// Bytes of text and data.
    pub bytes: usize,
}

impl Default for GroupSize {
    /// Returns the size in the files that DuckDB writes.
    fn default() -> Self {
        Self {
            rows: 122_880,
            bytes: tracer_tables::MOST_BYTES,
        }
    }
}

type File = Rc<RefCell<SerializedFileWriter<Box<dyn Write + Send>>>>;

/// Function that writes a batch of rows.
type WriteBatch = Box<dyn FnMut(RowBatch) -> anyhow::Result<()>>;

/// Exporter that writes a file.
pub struct Parquet {
    file: File,
    maker: TableMaker<WriteBatch>,
    rows: Rc<Cell<u64>>,
}

impl Parquet {
    /// Begins the file.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    pub fn new(out: Box<dyn Write + Send>, origin: &TraceOrigin) -> anyhow::Result<Self> {
        Self::in_groups(out, origin, GroupSize::default())
    }

    /// Begins a file whose row groups have at most this size.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    pub fn in_groups(
        out: Box<dyn Write + Send>,
        origin: &TraceOrigin,
        most: GroupSize,
    ) -> anyhow::Result<Self> {
        let choice = &origin.table;
        let name = origin.attributes.name();
        let rows = RowOrigin {
            host: choice.host.as_deref().map(Into::into),
            boot_id: choice.boot_id.as_deref().map(Into::into),
            ..RowOrigin::from_trace(name.as_bytes(), origin.anchor)
        };
        let pairs = [
            ("tracer.table", choice.table.name.to_owned()),
            (
                "tracer.stream",
                String::from_utf8_lossy(name.as_bytes()).into_owned(),
            ),
            ("tracer.trace_id", rows.trace_id.to_string()),
            ("tracer.monotonic_ns", origin.anchor.monotonic.0.to_string()),
            ("tracer.realtime_ns", origin.anchor.realtime.0.to_string()),
        ];
        let schema = of_table(choice.table).context(CANNOT_WRITE)?;
        let properties = properties(choice.table, pairs.map(pair).to_vec());
        let file = SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties));
        let file = Rc::new(RefCell::new(file.context(CANNOT_WRITE)?));
        let setup = TableSetup {
            most_rows: most.rows,
            most_bytes: most.bytes,
            // Much of the data of a group comes again and again.
            defers: true,
            ..TableSetup::new(choice.table, rows)
        };
        let written = Rc::clone(&file);
        let rows = Rc::new(Cell::new(0));
        let counted = Rc::clone(&rows);
        let write: WriteBatch = Box::new(move |mut batch| {
            while batch.render(usize::MAX) {}
            counted.set(counted.get() + u64::try_from(batch.rows()).unwrap_or(u64::MAX));
            write_group(&written, batch).context(CANNOT_WRITE)
        });
        Ok(Self {
            maker: TableMaker::new(&setup, write),
            file,
            rows,
        })
    }

    /// Returns the number of rows so far, which goes on being counted.
    #[must_use]
    pub fn rows(&self) -> Rc<Cell<u64>> {
        Rc::clone(&self.rows)
    }
}

fn write_group(file: &File, batch: RowBatch) -> Result<(), ParquetError> {
    let mut file = file.borrow_mut();
    let mut group = file.next_row_group()?;
    for column in batch.into_columns() {
        write(&mut group, column)?;
    }
    group.close()?;
    Ok(())
}

fn pair((key, value): (&str, String)) -> KeyValue {
    KeyValue::new(key.to_owned(), value)
}

const CANNOT_WRITE: &str = "cannot write the rows";

impl Consumer for Parquet {
    fn learn_types(&mut self, types: &EventTypes) {
        self.maker.learn_types(types);
    }

    fn count_losses(&mut self, losses: &TraceLosses) -> anyhow::Result<()> {
        self.maker.count_losses(losses)
    }

    fn gap(&mut self, gap: &Gap) {
        self.maker.gap(gap);
    }

    fn event(&mut self, view: &EventView<'_>) -> anyhow::Result<()> {
        self.maker.event(view)
    }

    fn idle(&mut self, now: MonotonicNs) {
        self.maker.idle(now);
    }

    fn finish(mut self: Box<Self>, summary: &Summary) -> anyhow::Result<()> {
        self.maker.end(summary)?;
        // What the closing line says, for who opens the file.
        let mut text = Vec::new();
        summary.push_json(&mut text);
        let summary = String::from_utf8_lossy(text.trim_ascii_end()).into_owned();
        let mut file = self.file.borrow_mut();
        file.append_key_value_metadata(pair(("tracer.summary", summary)));
        file.finish().context(CANNOT_WRITE)?;
        file.inner_mut().flush().context(CANNOT_WRITE)
    }
}

/// Returns the schema of a table.
///
/// # Errors
///
/// There is none.
pub fn of_table(table: &TableDefinition) -> Result<Type, ParquetError> {
    let mut message = format!("message {} {{\n", table.name);
    for column in table.columns() {
        let repetition = if column.is_nullable {
            "optional"
        } else {
            "required"
        };
        let (physical, logical) = words(column.of);
        let _ = writeln!(message, "{repetition} {physical} {}{logical};", column.name);
    }
    message.push('}');
    parse_message_type(&message)
}

/// Returns the physical type of a column, and what its values mean.
fn words(of: ColumnType) -> (&'static str, &'static str) {
    match of {
        ColumnType::Time => ("int64", " (TIMESTAMP(NANOS, true))"),
        ColumnType::U64 => ("int64", " (INTEGER(64, false))"),
        ColumnType::I64 => ("int64", ""),
        ColumnType::U32 => ("int32", " (INTEGER(32, false))"),
        ColumnType::I32 => ("int32", ""),
        ColumnType::Bool => ("boolean", ""),
        // JSON is text too, which every reader takes for text.
        ColumnType::Name | ColumnType::Text | ColumnType::Json => ("binary", " (STRING)"),
        ColumnType::Bytes => ("binary", ""),
    }
}

/// Returns how a table is written.
pub fn properties(table: &TableDefinition, pairs: Vec<KeyValue>) -> WriterProperties {
    let mut properties = WriterProperties::builder();
    let is_by_time = |column: &Column| matches!(column.name, "time" | "ns");
    for column in table.columns() {
        let name = || column.name.into();
        if is_by_time(column) {
            // Integers that grow by little.
            properties = properties
                .set_column_dictionary_enabled(name(), false)
                .set_column_encoding(name(), Encoding::DELTA_BINARY_PACKED);
        } else if matches!(column.of, ColumnType::Json | ColumnType::Bytes) {
            // Values that seldom come twice, and whose least and greatest are of no use.
            properties = properties
                .set_column_dictionary_enabled(name(), false)
                .set_column_statistics_enabled(name(), EnabledStatistics::None);
        }
    }
    if table == TableDefinition::events() {
        properties = properties.set_sorting_columns(Some(vec![SortingColumn {
            column_idx: 0,
            descending: false,
            nulls_first: false,
        }]));
    }
    properties
        .set_created_by(concat!("tracer-user version ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(Compression::SNAPPY)
        .set_key_value_metadata(Some(pairs))
        .build()
}

/// Writes the next column of a row group.
///
/// # Errors
///
/// It cannot be written.
pub fn write<W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    column: BatchColumn,
) -> Result<(), ParquetError> {
    let is_nullable = column.column.is_nullable;
    let valid = column.valid;
    match column.values {
        ColumnValues::Nothing => Ok(()),
        ColumnValues::U64(values) => {
            let values = values.into_iter().map(u64::cast_signed).collect();
            put::<Int64Type, W>(group, values, is_nullable, &valid)
        }
        ColumnValues::I64(values) => put::<Int64Type, W>(group, values, is_nullable, &valid),
        ColumnValues::U32(values) => {
            let values = values.into_iter().map(u32::cast_signed).collect();
            put::<Int32Type, W>(group, values, is_nullable, &valid)
        }
        ColumnValues::I32(values) => put::<Int32Type, W>(group, values, is_nullable, &valid),
        ColumnValues::Bool(values) => put::<BoolType, W>(group, values, is_nullable, &valid),
        ColumnValues::Name(numbers, names) => {
            let texts = arrays(TextValues::clone(names.texts()));
            let of = |number: i32| {
                let text = usize::try_from(number)
                    .ok()
                    .and_then(|index| texts.get(index));
                text.cloned().unwrap_or_default()
            };
            let values = numbers.into_iter().map(of).collect();
            put::<ByteArrayType, W>(group, values, is_nullable, &valid)
        }
        ColumnValues::TextValues(texts) => {
            put::<ByteArrayType, W>(group, arrays(texts), is_nullable, &valid)
        }
    }
}

/// Returns the values of a column of text or bytes, in memory that they share.
fn arrays(texts: TextValues) -> Vec<ByteArray> {
    let bytes = Bytes::from(texts.bytes);
    let at = |at: u32| usize::try_from(at).unwrap_or(0);
    let array = |place: ValuePlace| {
        let start = at(place.start);
        ByteArray::from(bytes.slice(start..start + at(place.length)))
    };
    texts.places.into_iter().map(array).collect()
}

/// Writes the values that rows have; `valid` says which have one, or is empty where all have.
fn put<T: DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    values: Vec<T::T>,
    is_nullable: bool,
    valid: &[bool],
) -> Result<(), ParquetError> {
    let column = group.next_column()?;
    let mut column =
        column.ok_or_else(|| ParquetError::General("more columns than the schema has".into()))?;
    let writer = column.typed::<T>();
    if valid.is_empty() {
        let levels = vec![1; if is_nullable { values.len() } else { 0 }];
        writer.write_batch(&values, is_nullable.then_some(&levels), None)?;
    } else {
        let levels: Vec<i16> = valid.iter().map(|is_there| i16::from(*is_there)).collect();
        let known = values
            .into_iter()
            .zip(valid)
            .filter(|(_, is_there)| **is_there);
        let known: Vec<T::T> = known.map(|(value, _)| value).collect();
        writer.write_batch(&known, Some(&levels), None)?;
    }
    column.close()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;
    use tracer_common::event_type::EventTypeId;
    use tracer_log_view::test_log::TestLog;
    use tracer_log_view::{Pause, Walk, WantedEvents};

    use super::*;
    use crate::testing::{MemoryFile, origin_of};

    fn exported(log: TestLog) -> SerializedFileReader<Bytes> {
        let written = MemoryFile::default();
        let origin = origin_of(&log);
        let out = Box::new(written.clone());
        let mut parquet = Box::new(Parquet::new(out, &origin).unwrap());
        let mut walk = Walk::new(log, WantedEvents::default());
        while walk.go_on(9, |entry| parquet.event(entry)).unwrap() == Pause::Midway {}
        let summary = Summary {
            last: MonotonicNs(9_000),
            ..walk.summary()
        };
        parquet.finish(&summary).unwrap();
        SerializedFileReader::new(Bytes::from(written.bytes())).unwrap()
    }

    #[test]
    fn an_event_is_a_row() {
        let mut log = TestLog::default();
        let hostile = log.define(b"a\n\xff\"");
        log.push(200, hostile, (7, 8), b"\xff\0\n");
        log.push(300, EventTypeId::FORK, (7, 7), b"short");
        let reader = exported(log);
        let rows: Vec<_> = reader
            .get_row_iter(None)
            .unwrap()
            .map(Result::unwrap)
            .collect();

        assert_eq!(rows.len(), 2);
        let user = &rows[0];
        assert_eq!(user.get_ulong(1).unwrap(), 200);
        assert_eq!(user.get_string(2).unwrap(), "a\\n\\xff\"");
        assert_eq!(user.get_string(3).unwrap(), "user");
        assert_eq!((user.get_int(4).unwrap(), user.get_int(5).unwrap()), (7, 8));
        assert!(user.get_uint(7).is_err(), "an unknown CPU is null");
        assert_eq!(user.get_bytes(12).unwrap().data(), b"\xff\0\n");
        assert_eq!(rows[1].get_uint(7).unwrap(), 0);
        assert_eq!(rows[1].get_string(3).unwrap(), "system");
    }

    #[test]
    fn large_data_makes_small_groups() {
        let mut log = TestLog::default();
        let name = log.define(b"x");
        for ns in 200..1_200 {
            log.push(ns, name, (7, 7), &vec![b'x'; 20_000]);
        }
        let reader = exported(log);
        let groups = reader.metadata().row_groups();

        assert!(groups.len() > 2, "{}", groups.len());
        let rows: i64 = groups.iter().map(|group| group.num_rows()).sum();
        assert_eq!(rows, 1_000);
    }

    #[test]
    fn a_log_without_events_is_a_table_without_rows() {
        let reader = exported(TestLog::default());
        assert_eq!(reader.metadata().file_metadata().num_rows(), 0);
        let pairs = reader
            .metadata()
            .file_metadata()
            .key_value_metadata()
            .unwrap();
        assert!(pairs.iter().any(|pair| pair.key == "tracer.summary"));
    }
}
