//! Batches as Arrow's.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::builder::make_view;
use arrow_array::types::{
    BinaryType, BinaryViewType, ByteArrayType, ByteViewType, Int32Type, LargeUtf8Type,
    StringViewType, Utf8Type,
};
use arrow_array::{
    ArrayRef, BooleanArray, DictionaryArray, GenericByteArray, GenericByteViewArray, Int32Array,
    Int64Array, RecordBatch, RecordBatchReader, StringArray, TimestampNanosecondArray, UInt32Array,
    UInt64Array,
};
use arrow_buffer::{
    ArrowNativeType, BooleanBuffer, Buffer, MutableBuffer, NullBuffer, OffsetBuffer, ScalarBuffer,
    ToByteSlice,
};
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
    /// One behind the other, with ends of 64 bits of texts, which pandas takes without copies.
    LongOffsets,
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
            TextLayout::LongOffsets => DataType::LargeUtf8,
            TextLayout::Views => DataType::Utf8View,
        },
        ColumnType::Bytes => match layout {
            TextLayout::Offsets | TextLayout::LongOffsets => DataType::Binary,
            TextLayout::Views => DataType::BinaryView,
        },
    }
}

/// Batches of a table, as they come.
pub struct ArrowReader {
    schema: SchemaRef,
    layout: TextLayout,
    batches: Batches,
    zeros: Zeros,
    /// Dictionaries of the last batch, column by column: most are those of the next one.
    dictionaries: Vec<Known>,
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
            zeros: Zeros::default(),
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
        let mut arrays = Arrays {
            layout: self.layout,
            zeros: &mut self.zeros,
        };
        let rows = batch.rows();
        let columns = batch.into_packed_columns().zip(&mut self.dictionaries);
        let columns = columns.map(|(column, known)| arrays.array(column, rows, known));
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

/// Longest value that lies in its view itself.
const LONGEST_IN_VIEW: u32 = 12;

/// Dictionary of a column, and the names that it was made of.
type Known = Option<(Arc<TextValues>, Arc<StringArray>)>;

/// Maker of arrays.
struct Arrays<'m> {
    layout: TextLayout,
    zeros: &'m mut Zeros,
}

impl Arrays<'_> {
    fn array(
        &mut self,
        column: BatchColumn,
        rows: usize,
        known: &mut Known,
    ) -> Result<ArrayRef, ArrowError> {
        let nulls = match column.valid {
            _ if column.is_absent => Some(NullBuffer::new_null(rows)),
            valid => (!valid.is_empty()).then(|| NullBuffer::from(valid)),
        };
        Ok(match column.values {
            ColumnValues::Nothing => {
                return Err(ArrowError::SchemaError("a column is missing".to_owned()));
            }
            ColumnValues::U64(values) => {
                Arc::new(UInt64Array::try_new(self.values(values, rows), nulls)?)
            }
            ColumnValues::I64(values) if column.column.of == ColumnType::Time => {
                let array = TimestampNanosecondArray::try_new(self.values(values, rows), nulls)?;
                Arc::new(array.with_timezone("UTC"))
            }
            ColumnValues::I64(values) => {
                Arc::new(Int64Array::try_new(self.values(values, rows), nulls)?)
            }
            ColumnValues::U32(values) => {
                Arc::new(UInt32Array::try_new(self.values(values, rows), nulls)?)
            }
            ColumnValues::I32(values) => {
                Arc::new(Int32Array::try_new(self.values(values, rows), nulls)?)
            }
            ColumnValues::Bool(values) => {
                let values = match values.len() {
                    0 => BooleanBuffer::new_unset(rows),
                    _ => values.into(),
                };
                Arc::new(BooleanArray::new(values, nulls))
            }
            ColumnValues::Name(values, names) => {
                let texts = names.texts();
                let dictionary = match known {
                    Some((of, dictionary)) if Arc::ptr_eq(of, texts) => Arc::clone(dictionary),
                    _ => {
                        let dictionary = Arc::new(dictionary(texts)?);
                        *known = Some((Arc::clone(texts), Arc::clone(&dictionary)));
                        dictionary
                    }
                };
                let keys = Int32Array::try_new(self.values(values, rows), nulls)?;
                Arc::new(DictionaryArray::<Int32Type>::try_new(keys, dictionary)?)
            }
            ColumnValues::TextValues(texts) => match (column.column.of, self.layout) {
                (ColumnType::Bytes, TextLayout::Views) => {
                    self.views::<BinaryViewType>(texts, rows, nulls)
                }
                (ColumnType::Bytes, TextLayout::Offsets | TextLayout::LongOffsets) => {
                    self.offsets::<BinaryType>(texts, rows, nulls)
                }
                (_, layout) => {
                    check_text(&texts)?;
                    match layout {
                        TextLayout::Offsets => self.offsets::<Utf8Type>(texts, rows, nulls),
                        TextLayout::LongOffsets => {
                            self.offsets::<LargeUtf8Type>(texts, rows, nulls)
                        }
                        TextLayout::Views => self.views::<StringViewType>(texts, rows, nulls),
                    }
                }
            },
        })
    }

    /// Returns an array of values one behind the other. Texts are checked.
    fn offsets<T: ByteArrayType>(
        &mut self,
        texts: TextValues,
        rows: usize,
        nulls: Option<NullBuffer>,
    ) -> ArrayRef {
        if texts.bytes.is_empty() {
            let offsets = OffsetBuffer::new(self.zero_values(rows + 1));
            let bytes = Buffer::from_vec(texts.bytes);
            // SAFETY: no value has bytes.
            return Arc::new(unsafe {
                GenericByteArray::<T>::new_unchecked(offsets, bytes, nulls)
            });
        }
        let lengths = texts.places.iter().map(|place| to_usize(place.length));
        let offsets = OffsetBuffer::<T::Offset>::from_lengths(lengths);
        let starts = texts.places.iter().zip(offsets.iter());
        let mut starts = starts.map(|(place, start)| to_usize(place.start) == start.as_usize());
        let length = offsets.last().as_usize();
        let is_as_it_is = length == texts.bytes.len() && starts.all(|is_there| is_there);
        let bytes = if is_as_it_is {
            texts.bytes
        } else {
            let mut bytes = Vec::with_capacity(length);
            for place in &texts.places {
                bytes.extend_from_slice(texts.at(*place));
            }
            bytes
        };
        let bytes = buffer(bytes);
        // SAFETY: the last offset is the number of the bytes; each value is as it was checked.
        Arc::new(unsafe { GenericByteArray::<T>::new_unchecked(offsets, bytes, nulls) })
    }

    /// Returns an array of views; values that are the same share their bytes. Texts are checked.
    fn views<T: ByteViewType>(
        &mut self,
        texts: TextValues,
        rows: usize,
        nulls: Option<NullBuffer>,
    ) -> ArrayRef {
        let views = texts.places.iter().map(|place| {
            let value = texts.at(*place);
            make_view(value, 0, place.start)
        });
        let views = self.values(views.collect(), rows);
        // Short values lie in the views themselves.
        let has_long = texts
            .places
            .iter()
            .any(|place| place.length > LONGEST_IN_VIEW);
        let bytes = has_long.then(|| buffer(texts.bytes));
        let buffers = bytes.into_iter().collect();
        // SAFETY: the views are of places in the bytes; each value is as it was checked.
        Arc::new(unsafe { GenericByteViewArray::<T>::new_unchecked(views, buffers, nulls) })
    }

    /// Returns values; those that are all 0, as they are without any, in shared memory.
    fn values<T: ArrowNativeType>(&mut self, values: Vec<T>, rows: usize) -> ScalarBuffer<T> {
        let count = match values.len() {
            0 => rows,
            count => count,
        };
        let bytes = values.to_byte_slice();
        let mut parts = bytes.chunks(64);
        let is_zero = parts.all(|part| part.iter().fold(0, |all, byte| all | byte) == 0);
        if is_zero {
            return self.zero_values(count);
        }
        ScalarBuffer::new(buffer(values), 0, count)
    }

    /// Returns so many values that are 0.
    fn zero_values<T: ArrowNativeType>(&mut self, count: usize) -> ScalarBuffer<T> {
        ScalarBuffer::new(self.zeros.first(count * size_of::<T>()), 0, count)
    }
}

/// Bytes that are 0, which columns share that have nothing else: many do.
#[derive(Default)]
struct Zeros(Option<Buffer>);

impl Zeros {
    /// Returns so many.
    fn first(&mut self, length: usize) -> Buffer {
        let zeros = self.0.take().filter(|zeros| zeros.len() >= length);
        let zeros = zeros.unwrap_or_else(|| MutableBuffer::from_len_zeroed(length).into());
        self.0.insert(zeros).slice_with_length(0, length)
    }
}

/// Returns values in memory that is not larger than they are.
fn buffer<T: ArrowNativeType>(mut values: Vec<T>) -> Buffer {
    values.shrink_to_fit();
    Buffer::from_vec(values)
}

/// Returns the names by number.
fn dictionary(names: &TextValues) -> Result<StringArray, ArrowError> {
    let names = (0..names.count()).map(|index| std::str::from_utf8(names.get(index)));
    let names = names.collect::<Result<Vec<_>, _>>();
    names
        .map(StringArray::from_iter_values)
        .map_err(|error| ArrowError::InvalidArgumentError(error.to_string()))
}

/// Checks that all values are text.
fn check_text(texts: &TextValues) -> Result<(), ArrowError> {
    // Of what is ASCII each part is text.
    if texts.bytes.is_ascii() {
        return Ok(());
    }
    let mut values = texts.places.iter().map(|place| texts.at(*place));
    let error = values.find_map(|value| std::str::from_utf8(value).err());
    error.map_or(Ok(()), |error| {
        Err(ArrowError::InvalidArgumentError(error.to_string()))
    })
}

fn to_usize(length: u32) -> usize {
    usize::try_from(length).unwrap_or(usize::MAX)
}
