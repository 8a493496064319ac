//! Apache Parquet: one row an event, in row groups by time, for data bases and data frames.
//!
//! `rows` holds the rows of the group that is being filled, column by column.

mod rows;

use std::io::Write;
use std::sync::Arc;

use anyhow::Context;
use parquet::basic::{Compression, Encoding};
use parquet::errors::ParquetError;
use parquet::file::metadata::{KeyValue, SortingColumn};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use super::TraceOrigin;
use rows::RowGroup;
use tracer_event::consumer::Consumer;
use tracer_event::event_view::EventView;
use tracer_event::gap::Gap;
use tracer_event::summary::Summary;
use tracer_output::report::CallTimes;

/// Columns. Bytes of names that are not harmless are written as in a string literal of Rust; `data`
/// is the object of the JSON lines, as text, which every reader takes for text, and `raw` the bytes
/// that it was made of; `duration_ns` is that of the JSON lines too. Columns are added at the end.
const SCHEMA: &str = "
message event {
    required int64 time (TIMESTAMP(NANOS, true));
    required int64 ns (INTEGER(64, false));
    required binary type (STRING);
    required binary class (STRING);
    required int32 pid;
    required int32 tid;
    required binary comm (STRING);
    optional int32 cpu (INTEGER(32, false));
    required int64 prog_address (INTEGER(64, false));
    required int64 thread_id (INTEGER(64, false));
    required boolean truncated;
    required binary data (STRING);
    required binary raw;
    optional int64 duration_ns (INTEGER(64, false));
}";

/// Number of rows of a group, as in the files that DuckDB writes.
const MOST_ROWS: usize = 122_880;

/// Number of bytes of text and data after which a group is closed, however few its rows are.
const MOST_BYTES: usize = 12 << 20;

/// Exporter that writes a file.
pub struct Parquet {
    file: SerializedFileWriter<Box<dyn Write + Send>>,
    rows: RowGroup,
    calls: CallTimes,
}

impl Parquet {
    /// Begins the file.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    pub fn new(out: Box<dyn Write + Send>, origin: &TraceOrigin) -> anyhow::Result<Self> {
        let schema = parse_message_type(SCHEMA).context(CANNOT_WRITE)?;
        let by_time = SortingColumn {
            column_idx: 0,
            descending: false,
            nulls_first: false,
        };
        let name = String::from_utf8_lossy(origin.attributes.name().as_bytes()).into_owned();
        let pairs = [
            ("tracer.stream", name),
            ("tracer.monotonic_ns", origin.anchor.monotonic.0.to_string()),
            ("tracer.realtime_ns", origin.anchor.realtime.0.to_string()),
        ];
        let mut properties = WriterProperties::builder();
        for column in ["time", "ns"] {
            // Integers that grow by little.
            properties = properties
                .set_column_dictionary_enabled(column.into(), false)
                .set_column_encoding(column.into(), Encoding::DELTA_BINARY_PACKED);
        }
        for column in ["data", "raw"] {
            // Values that seldom come twice, and whose least and greatest are of no use.
            properties = properties
                .set_column_dictionary_enabled(column.into(), false)
                .set_column_statistics_enabled(column.into(), EnabledStatistics::None);
        }
        let properties = properties
            .set_created_by(concat!("tracer-user version ", env!("CARGO_PKG_VERSION")).to_owned())
            .set_compression(Compression::SNAPPY)
            .set_sorting_columns(Some(vec![by_time]))
            .set_key_value_metadata(Some(pairs.map(pair).to_vec()))
            .build();
        let file = SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties));
        Ok(Self {
            file: file.context(CANNOT_WRITE)?,
            rows: RowGroup::default(),
            calls: CallTimes::default(),
        })
    }

    fn write_group(&mut self) -> Result<(), ParquetError> {
        let mut group = self.file.next_row_group()?;
        self.rows.write(&mut group)?;
        group.close()?;
        Ok(())
    }
}

fn pair((key, value): (&str, String)) -> KeyValue {
    KeyValue::new(key.to_owned(), value)
}

const CANNOT_WRITE: &str = "cannot write the rows";

impl Consumer for Parquet {
    fn event(&mut self, entry: &EventView<'_>) -> anyhow::Result<()> {
        let took = self.calls.took(entry);
        self.rows.push(entry, took);
        if self.rows.count() >= MOST_ROWS || self.rows.bytes() >= MOST_BYTES {
            self.write_group().context(CANNOT_WRITE)?;
        }
        Ok(())
    }

    fn gap(&mut self, _: &Gap) {
        self.calls.forget();
    }

    fn finish(mut self: Box<Self>, summary: &Summary) -> anyhow::Result<()> {
        if self.rows.count() > 0 {
            self.write_group().context(CANNOT_WRITE)?;
        }
        // What the closing line says, for who opens the file.
        let mut text = Vec::new();
        summary.push_json(&mut text);
        let summary = String::from_utf8_lossy(text.trim_ascii_end()).into_owned();
        self.file
            .append_key_value_metadata(pair(("tracer.summary", summary)));
        self.file.finish().context(CANNOT_WRITE)?;
        self.file.inner_mut().flush().context(CANNOT_WRITE)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;
    use tracer_common::event_type::EventTypeId;

    use tracer_engine::event::MonotonicNs;

    use super::*;
    use crate::testing::{MemoryFile, origin_of};
    use tracer_log_view::test_log::TestLog;
    use tracer_log_view::{Pause, Walk, WantedEvents};

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
