//! Prints the page of the documentation that lists the tables.

use std::io::{self, Write as _};

fn main() -> io::Result<()> {
    io::stdout().write_all(tracer_tables::page::page().as_bytes())
}
