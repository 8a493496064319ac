//! Columns of a table in Parquet's words.

use std::fmt::Write as _;

use parquet::basic::{Compression, Encoding};
use parquet::errors::ParquetError;
use parquet::file::metadata::{KeyValue, SortingColumn};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::Type;
use tracer_tables::{Column, ColumnType, TableDefinition};

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
            // ColumnValues that seldom come twice, and whose least and greatest are of no use.
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
