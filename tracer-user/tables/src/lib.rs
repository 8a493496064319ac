//! Traces as tables, in bounded memory.
//!
//! - [`TABLES`] defines each table once: its columns, their types, units and meaning. Parquet
//!   files, Arrow batches, SQL views and `docs/tables.md` are made from it;
//! - [`RowBatch`] holds rows, column by column;
//! - [`TableMaker`] is the consumer of events that makes the rows of one table, batch by batch.

// Whatever comes from outside is no reason to end the program.
#![cfg_attr(
    not(test),
    deny(
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::print_stdout
    )
)]

mod batch;
mod columns;
mod definition;
mod held_data;
mod maker;
mod names;
pub mod page;
mod rows;

pub use batch::{BatchColumn, ColumnValues, RowBatch};
pub use columns::{Column, ColumnType};
pub use definition::{ORIGIN, TABLES, TableDefinition};
pub use maker::{MOST_BYTES, MOST_ROWS, RowOrigin, TableMaker, TableSetup};
pub use names::{NameDictionary, TextValues, ValuePlace};
