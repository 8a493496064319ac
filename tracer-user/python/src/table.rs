//! Table of a log.

use std::sync::{Mutex, PoisonError};

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchIterator};
use arrow_schema::ffi::FFI_ArrowSchema;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::arrow::{ArrowReader, TextLayout, schema};
use crate::failure::exception;
use crate::reading::LogReading;
use crate::rows::RowIterator;

/// Table of a log: each stream of it goes through the log once more.
#[pyclass(frozen, name = "Table", module = "tracer._native")]
pub struct PyTable {
    reading: LogReading,
}

impl PyTable {
    /// Returns the table that is made by `reading`.
    pub fn new(reading: LogReading) -> Self {
        Self { reading }
    }
}

#[pymethods]
impl PyTable {
    /// Returns the rows as a stream of Arrow batches (the Arrow PyCapsule interface).
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // Who asks for other types gets these, as the interface allows.
        drop(requested_schema);
        let batches = self.reading.start().map_err(|error| exception(&error))?;
        let reader = ArrowReader::new(&self.reading.setup, TextLayout::Offsets, batches);
        let stream = FFI_ArrowArrayStream::new(Box::new(reader));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }

    /// Returns the types of the columns (the Arrow PyCapsule interface).
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = schema(&self.reading.setup, TextLayout::Offsets);
        let schema = FFI_ArrowSchema::try_from(&*schema);
        let schema = schema.map_err(|error| PyValueError::new_err(error.to_string()))?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    /// Returns an iterator over the batches, each a stream of itself alone, with texts and bytes as
    /// polars has them, or else pandas.
    fn batches(&self, has_views: bool) -> PyResult<BatchIterator> {
        let batches = self.reading.start().map_err(|error| exception(&error))?;
        let layout = if has_views {
            TextLayout::Views
        } else {
            TextLayout::LongOffsets
        };
        let reader = ArrowReader::new(&self.reading.setup, layout, batches);
        Ok(BatchIterator(Mutex::new(reader)))
    }

    /// Returns an iterator over the rows, as tuples.
    fn rows(&self) -> PyResult<RowIterator> {
        let batches = self.reading.start().map_err(|error| exception(&error))?;
        Ok(RowIterator::new(batches))
    }
}

/// Iterator over the batches of a table.
#[pyclass(frozen, module = "tracer._native")]
pub struct BatchIterator(Mutex<ArrowReader>);

#[pymethods]
impl BatchIterator {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<PyBatch>> {
        // Other threads of Python go on while this one waits.
        py.detach(|| {
            let mut reader = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            Ok(reader.next_batch()?.map(PyBatch))
        })
    }
}

/// Batch of a table.
#[pyclass(frozen, name = "Batch", module = "tracer._native")]
pub struct PyBatch(RecordBatch);

#[pymethods]
impl PyBatch {
    /// Returns the rows as a stream of one batch (the Arrow PyCapsule interface).
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema);
        let reader = RecordBatchIterator::new([Ok(self.0.clone())], self.0.schema());
        let stream = FFI_ArrowArrayStream::new(Box::new(reader));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }
}
