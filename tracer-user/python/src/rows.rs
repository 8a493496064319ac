//! Rows as objects of Python.

use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString, PyTuple};
use tracer_tables::{BatchColumn, ColumnType, ColumnValues, RowBatch, TextValues};

use crate::reading::Batches;

/// Iterator over the rows of a table.
#[pyclass(frozen, module = "tracer._native")]
pub struct RowIterator(Mutex<State>);

struct State {
    batches: Batches,
    columns: Vec<BatchColumn>,
    rows: usize,
    next: usize,
}

impl RowIterator {
    /// Begins with the first batch.
    pub fn new(batches: Batches) -> Self {
        Self(Mutex::new(State {
            batches,
            columns: Vec::new(),
            rows: 0,
            next: 0,
        }))
    }
}

#[pymethods]
impl RowIterator {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        // Other threads of Python go on while this one waits.
        let has_row = py.detach(|| {
            let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            state.advance()
        })?;
        if !has_row {
            return Ok(None);
        }
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let row = state.next;
        state.next += 1;
        let values = state.columns.iter().map(|column| value(py, column, row));
        PyTuple::new(py, values.collect::<PyResult<Vec<_>>>()?).map(Some)
    }
}

impl State {
    /// Goes on to a batch that has a row that was not given yet; false at the end.
    fn advance(&mut self) -> PyResult<bool> {
        while self.next >= self.rows {
            let Some(batch) = self.batches.next()? else {
                return Ok(false);
            };
            self.take(batch);
        }
        Ok(true)
    }

    fn take(&mut self, batch: RowBatch) {
        self.rows = batch.rows();
        self.next = 0;
        self.columns = batch.into_columns().collect();
    }
}

/// Returns a value of a row as an object; none where there is none.
fn value<'py>(py: Python<'py>, column: &BatchColumn, row: usize) -> PyResult<Bound<'py, PyAny>> {
    let none = || py.None().into_bound(py);
    if column.valid.get(row) == Some(&false) {
        return Ok(none());
    }
    Ok(match &column.values {
        ColumnValues::Nothing => none(),
        ColumnValues::U64(values) => values.get(row).into_pyobject(py)?,
        ColumnValues::I64(values) => values.get(row).into_pyobject(py)?,
        ColumnValues::U32(values) => values.get(row).into_pyobject(py)?,
        ColumnValues::I32(values) => values.get(row).into_pyobject(py)?,
        ColumnValues::Bool(values) => values.get(row).into_pyobject(py)?,
        ColumnValues::Name(values, names) => {
            let number = values
                .get(row)
                .and_then(|number| usize::try_from(*number).ok());
            text(py, names.texts(), number.unwrap_or(usize::MAX))
        }
        ColumnValues::TextValues(texts) if column.column.of == ColumnType::Bytes => {
            PyBytes::new(py, texts.get(row)).into_any()
        }
        ColumnValues::TextValues(texts) => text(py, texts, row),
    })
}

fn text<'py>(py: Python<'py>, texts: &TextValues, index: usize) -> Bound<'py, PyAny> {
    PyString::new(py, &String::from_utf8_lossy(texts.get(index))).into_any()
}
