//! A batch of rows as a row group, column by column.

use std::io::Write;

use bytes::Bytes;
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::writer::SerializedRowGroupWriter;
use tracer_tables::{BatchColumn, ColumnValues, TextValues};

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
    let mut ends = texts
        .ends
        .into_iter()
        .map(|end| usize::try_from(end).unwrap_or(0));
    let mut start = ends.next().unwrap_or(0);
    ends.map(|end| ByteArray::from(bytes.slice(std::mem::replace(&mut start, end)..end)))
        .collect()
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
