//! Page of the documentation that lists the tables.

use std::fmt::Write as _;

use super::columns::Column;
use super::definition::{ORIGIN, TABLES};

/// Returns the page, in Markdown: `docs/tables.md`.
#[must_use]
pub fn page() -> String {
    let mut out = HEAD.to_owned();
    for table in TABLES {
        let _ = write!(out, "\n## `{}`\n\n{}.\n\n{ROWS}", table.name, table.about);
        let own = table.columns().take(table.own_columns());
        own.for_each(|column| push_row(&mut out, column));
    }
    out.push_str(ORIGIN_HEAD);
    out.push_str(ROWS);
    ORIGIN.iter().for_each(|column| push_row(&mut out, column));
    out.push_str(TAIL);
    out
}

fn push_row(out: &mut String, column: &Column) {
    let null = if column.is_nullable { "yes" } else { "" };
    let (name, of, unit, about) = (column.name, column.of.word(), column.unit, column.about);
    let unit = if unit.is_empty() {
        String::new()
    } else {
        format!(" [{unit}]")
    };
    let _ = writeln!(out, "| `{name}` | {of} | {null} | {about}{unit} |");
}

const ROWS: &str = "| column | type | null | meaning |\n|---|---|---|---|\n";

const HEAD: &str = "# Tables

<!-- Made by `cargo run -p tracer-tables --example page > docs/tables.md`. -->

A trace is nine tables. They are the same wherever they come from: `tracer-user export --to parquet --table NAME`
writes one as a file, and the Python package ([`python.md`](python.md)) gives it to data frames and to SQL. What is not
known is null. Times are there twice: as a date in UTC, and as nanoseconds of the host's monotonic clock, by which rows
of one boot are joined. Bytes of names that are not harmless text are written as in a string literal of Rust.

Columns are added at the end of a table's own, and none changes its meaning.
";

const ORIGIN_HEAD: &str = "
## Columns that every table ends with

";

const TAIL: &str = "
A log does not say on which host it was made: who reads it says so (`--host`, `--boot-id`; `tracer.open(…, host=…)`).
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_of_the_documentation_is_up_to_date() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/tables.md");
        let present = std::fs::read_to_string(path).unwrap();
        assert!(
            present == page(),
            "docs/tables.md is not up to date; run: cargo run -p tracer-tables --example page > docs/tables.md"
        );
    }
}
