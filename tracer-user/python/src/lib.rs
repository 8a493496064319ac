//! Python's module `tracer._native`: logs as Arrow streams, and the answers about them.
//!
//! `log` is an open log, `choice` the events and rows that are chosen, `table` a table of it;
//! `reading` goes through the log in a thread of its own, `arrow` makes record batches of its rows
//! and `rows` objects of Python; `memory` gives back what these free. The package around it, in
//! `tracer/`, is what people see.

// Whatever comes from outside is no reason to end the program.
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout
)]

mod arrow;
mod choice;
mod failure;
mod log;
mod memory;
mod reading;
mod rows;
mod table;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use tracer_tables::TABLES;

#[global_allocator]
static MEMORY: memory::MappedMemory = memory::MappedMemory;

/// Fills the module.
#[pymodule]
#[pyo3(name = "_native")]
fn native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<log::PyLog>()?;
    module.add_class::<table::PyTable>()?;
    module.add_class::<table::PyBatch>()?;
    module.add_class::<table::BatchIterator>()?;
    module.add_class::<rows::RowIterator>()?;
    module.add_function(wrap_pyfunction!(definitions, module)?)
}

/// Returns the definitions of all tables: a dictionary for each.
#[pyfunction]
fn definitions(py: Python<'_>) -> PyResult<Bound<'_, PyList>> {
    let all = PyList::empty(py);
    for table in TABLES {
        let columns = PyList::empty(py);
        for column in table.columns() {
            let one = PyDict::new(py);
            one.set_item("name", column.name)?;
            one.set_item("type", column.of.word())?;
            one.set_item("nullable", column.is_nullable)?;
            one.set_item("unit", column.unit)?;
            one.set_item("about", column.about)?;
            columns.append(one)?;
        }
        let one = PyDict::new(py);
        one.set_item("name", table.name)?;
        one.set_item("about", table.about)?;
        one.set_item("columns", columns)?;
        all.append(one)?;
    }
    Ok(all)
}
