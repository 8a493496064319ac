//! Table of a log.

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_schema::ffi::FFI_ArrowSchema;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::arrow::{ArrowReader, schema};
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
        let reader = ArrowReader::new(schema(&self.reading.setup), batches);
        let stream = FFI_ArrowArrayStream::new(Box::new(reader));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }

    /// Returns the types of the columns (the Arrow PyCapsule interface).
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(&*schema(&self.reading.setup));
        let schema = schema.map_err(|error| PyValueError::new_err(error.to_string()))?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    /// Returns an iterator over the rows, as tuples.
    fn rows(&self) -> PyResult<RowIterator> {
        let batches = self.reading.start().map_err(|error| exception(&error))?;
        Ok(RowIterator::new(batches))
    }
}
