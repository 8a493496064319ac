//! Tables for people.

/// Rows that are listed; the JSON lists all.
pub const LISTED: usize = 40;

/// Width of the first column: the names of threads, system calls and interrupts.
pub const LABEL: usize = 24;

/// A column: its heading, its width, and its text for a row.
pub type TableColumn<T> = (&'static str, usize, fn(&T) -> String);

/// Appends a table of these rows: those that matter most first, and if there are too many, how many
/// more there are. Nothing without any.
pub fn push_table<T>(
    out: &mut String,
    heading: &str,
    columns: &[TableColumn<T>],
    rows: &[(String, T)],
    has_others: bool,
) {
    if rows.is_empty() {
        return;
    }
    out.push_str(&format!("\n{heading:<LABEL$}"));
    for (heading, width, _) in columns {
        out.push_str(&format!("{heading:>width$}"));
    }
    out.push('\n');
    for (label, row) in rows.iter().take(LISTED) {
        let label: String = label.chars().take(LABEL - 1).collect();
        out.push_str(&format!("{label:<LABEL$}"));
        for (_, width, says) in columns {
            out.push_str(&format!("{:>width$}", says(row)));
        }
        out.push('\n');
    }
    let rest = rows.len().saturating_sub(LISTED);
    if rest > 0 {
        out.push_str(&format!("and {rest} others (--format json has all)\n"));
    }
    if has_others {
        out.push_str("and others, of which there are too many\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_lists_the_first_rows_and_says_how_many_more_there_are() {
        let columns: [TableColumn<u64>; 1] = [("count", 7, u64::to_string)];
        let mut out = String::new();
        push_table(&mut out, "thing", &columns, &[], true);
        assert_eq!(out, "");
        let rows: Vec<_> = (0..43).map(|nth| ("x".repeat(30), nth)).collect();
        push_table(&mut out, "thing", &columns, &rows, true);
        let lines: Vec<&str> = out.lines().collect();
        assert_eq!(lines[1], "thing                     count");
        assert_eq!(lines[2], "xxxxxxxxxxxxxxxxxxxxxxx       0");
        assert_eq!(lines.len(), 2 + LISTED + 2);
        assert_eq!(lines[42], "and 3 others (--format json has all)");
        assert!(lines[43].contains("too many"), "{out}");
    }
}
