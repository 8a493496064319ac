//! Batches as Arrow's.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, BinaryArray, BinaryViewArray, BooleanArray, DictionaryArray, Int32Array, Int64Array,
    RecordBatch, RecordBatchReader, StringArray, StringViewArray, TimestampNanosecondArray,
    UInt32Array, UInt64Array,
};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef, TimeUnit};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tracer_tables::{
    BatchColumn, Column, ColumnType, ColumnValues, RowBatch, TableSetup, TextValues,
};

use crate::reading::Batches;

/// Layout of texts and bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextLayout {
    /// One behind the other, with the end of each: what every reader of Arrow takes.
    Offsets,
    /// Views, which polars takes without copies.
    Views,
}

/// Returns the schema of a table.
pub fn schema(setup: &TableSetup, layout: TextLayout) -> SchemaRef {
    let chosen = setup.columns.as_deref();
    let is_chosen = |column: &&Column| {
        chosen.is_none_or(|chosen| chosen.iter().any(|name| name == column.name))
    };
    let columns = setup.table.columns().filter(is_chosen);
    let fields: Vec<Field> = columns.map(|column| field(column, layout)).collect();
    let metadata = [
        ("tracer.table", setup.table.name.to_owned()),
        ("tracer.about", setup.table.about.to_owned()),
        ("tracer.trace_id", setup.origin.trace_id.to_string()),
    ];
    let metadata = metadata.map(|(key, value)| (key.to_owned(), value));
    Arc::new(Schema::new_with_metadata(fields, HashMap::from(metadata)))
}

fn field(column: &Column, layout: TextLayout) -> Field {
    let metadata = [("about", column.about), ("unit", column.unit)];
    let metadata = metadata.into_iter().filter(|(_, text)| !text.is_empty());
    let metadata = metadata.map(|(key, text)| (key.to_owned(), text.to_owned()));
    Field::new(
        column.name,
        data_type(column.of, layout),
        column.is_nullable,
    )
    .with_metadata(metadata.collect::<HashMap<_, _>>())
}

fn data_type(of: ColumnType, layout: TextLayout) -> DataType {
    match of {
        ColumnType::Time => DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())),
        ColumnType::U64 => DataType::UInt64,
        ColumnType::I64 => DataType::Int64,
        ColumnType::U32 => DataType::UInt32,
        ColumnType::I32 => DataType::Int32,
        ColumnType::Bool => DataType::Boolean,
        ColumnType::Name => {
            DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
        }
        ColumnType::Text | ColumnType::Json => match layout {
            TextLayout::Offsets => DataType::Utf8,
            TextLayout::Views => DataType::Utf8View,
        },
        ColumnType::Bytes => match layout {
            TextLayout::Offsets => DataType::Binary,
            TextLayout::Views => DataType::BinaryView,
        },
    }
}

/// Batches of a table, as they come.
pub struct ArrowReader {
    schema: SchemaRef,
    layout: TextLayout,
    batches: Batches,
    /// Dictionaries of the last batch, column by column: most are those of the next one.
    dictionaries: Vec<Option<(Arc<TextValues>, Arc<StringArray>)>>,
}

impl ArrowReader {
    /// Begins with the first batch of a table that is made like this.
    pub fn new(setup: &TableSetup, layout: TextLayout, batches: Batches) -> Self {
        let schema = schema(setup, layout);
        let dictionaries = schema.fields().iter().map(|_| None).collect();
        Self {
            schema,
            layout,
            batches,
            dictionaries,
        }
    }

    /// Returns the next batch; `None` at the end.
    ///
    /// # Errors
    ///
    /// As those of [`Batches::next`].
    pub fn next_batch(&mut self) -> PyResult<Option<RecordBatch>> {
        let Some(batch) = self.batches.next()? else {
            return Ok(None);
        };
        let made = self.record_batch(batch);
        let made = made.map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(Some(made))
    }

    fn record_batch(&mut self, batch: RowBatch) -> Result<RecordBatch, ArrowError> {
        let layout = self.layout;
        let columns = batch.into_columns().zip(&mut self.dictionaries);
        let columns = columns.map(|(column, known)| array(column, layout, known));
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        RecordBatch::try_new(Arc::clone(&self.schema), columns)
    }
}

impl Iterator for ArrowReader {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.next_batch();
        let batch = batch.map_err(|error| ArrowError::ExternalError(Box::new(error)));
        batch.transpose()
    }
}

impl RecordBatchReader for ArrowReader {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

/// Dictionary of a column, and the names that it was made of.
type Known = Option<(Arc<TextValues>, Arc<StringArray>)>;

fn array(
    column: BatchColumn,
    layout: TextLayout,
    known: &mut Known,
) -> Result<ArrayRef, ArrowError> {
    let nulls = (!column.valid.is_empty()).then(|| NullBuffer::from(column.valid));
    Ok(match column.values {
        ColumnValues::Nothing => {
            return Err(ArrowError::SchemaError("a column is missing".to_owned()));
        }
        ColumnValues::U64(values) => Arc::new(UInt64Array::try_new(values.into(), nulls)?),
        ColumnValues::I64(values) if column.column.of == ColumnType::Time => {
            let array = TimestampNanosecondArray::try_new(values.into(), nulls)?;
            Arc::new(array.with_timezone("UTC"))
        }
        ColumnValues::I64(values) => Arc::new(Int64Array::try_new(values.into(), nulls)?),
        ColumnValues::U32(values) => Arc::new(UInt32Array::try_new(values.into(), nulls)?),
        ColumnValues::I32(values) => Arc::new(Int32Array::try_new(values.into(), nulls)?),
        ColumnValues::Bool(values) => Arc::new(BooleanArray::new(values.into(), nulls)),
        ColumnValues::Name(values, names) => {
            let texts = names.texts();
            let dictionary = match known {
                Some((of, dictionary)) if Arc::ptr_eq(of, texts) => Arc::clone(dictionary),
                _ => {
                    let dictionary = Arc::new(strings(TextValues::clone(texts), None)?);
                    *known = Some((Arc::clone(texts), Arc::clone(&dictionary)));
                    dictionary
                }
            };
            let keys = Int32Array::try_new(values.into(), nulls)?;
            Arc::new(DictionaryArray::<Int32Type>::try_new(keys, dictionary)?)
        }
        ColumnValues::TextValues(texts) if column.column.of == ColumnType::Bytes => {
            let (offsets, bytes) = parts(texts);
            let values = BinaryArray::try_new(offsets, bytes, nulls)?;
            match layout {
                TextLayout::Offsets => Arc::new(values),
                TextLayout::Views => Arc::new(BinaryViewArray::from(&values)),
            }
        }
        ColumnValues::TextValues(texts) => {
            let values = strings(texts, nulls)?;
            match layout {
                TextLayout::Offsets => Arc::new(values),
                TextLayout::Views => Arc::new(StringViewArray::from(&values)),
            }
        }
    })
}

fn strings(texts: TextValues, nulls: Option<NullBuffer>) -> Result<StringArray, ArrowError> {
    let (offsets, bytes) = parts(texts);
    StringArray::try_new(offsets, bytes, nulls)
}

fn parts(texts: TextValues) -> (OffsetBuffer<i32>, Buffer) {
    let offsets = OffsetBuffer::new(ScalarBuffer::from(texts.ends));
    (offsets, Buffer::from_vec(texts.bytes))
}
