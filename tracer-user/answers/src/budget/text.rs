//! Text that is cut by whole lines.

/// Returns the lines of `whole` that fit into `bytes`, in their order, and a last one that counts
/// the others.
///
/// A table is what lies between empty lines. The first lines of all tables are chosen first, then
/// the second ones, and so on.
pub fn cut(whole: &str, bytes: usize, rest: &str) -> String {
    let lines: Vec<&str> = whole.lines().collect();
    // As long as any last line gets.
    let reserved = last_line(lines.len(), lines.len(), rest, bytes).len();
    let mut left = bytes.saturating_sub(reserved);
    let mut is_kept = vec![false; lines.len()];
    let mut order: Vec<(usize, usize)> = Vec::with_capacity(lines.len());
    let mut within = 0;
    for (index, line) in lines.iter().enumerate() {
        // What parts tables belongs to the one behind it.
        within = if line.is_empty() { 0 } else { within + 1 };
        order.push((within, index));
    }
    order.sort_unstable();
    for (_, index) in order {
        let Some(line) = lines.get(index) else {
            continue;
        };
        let length = line.len() + 1;
        if length > left {
            break;
        }
        left -= length;
        if let Some(is_kept) = is_kept.get_mut(index) {
            *is_kept = true;
        }
    }
    let mut out = String::new();
    let mut kept = 0;
    let mut was_empty = true;
    for (line, _) in lines.iter().zip(&is_kept).filter(|(_, is_kept)| **is_kept) {
        kept += 1;
        // Tables of which nothing is left are not parted.
        if line.is_empty() && was_empty {
            continue;
        }
        was_empty = line.is_empty();
        out.push_str(line);
        out.push('\n');
    }
    out.push_str(&last_line(lines.len() - kept, lines.len(), rest, bytes));
    out
}

fn last_line(left_out: usize, all: usize, rest: &str, bytes: usize) -> String {
    let short = format!("truncated: {left_out} of {all} lines are left out\n");
    let whole = format!("{}; all: {rest}\n", short.trim_end());
    [whole, short]
        .into_iter()
        .find(|line| line.len() <= bytes)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_first_lines_of_each_table_stay_and_the_others_are_counted() {
        let rows: String = (0..20).map(|row| format!("row {row} of it\n")).collect();
        let whole = format!("sum\n\nhead 1\n{rows}\nhead 2\n{rows}");
        let cut = cut(&whole, 200, "tracer-user stat log");
        assert!(cut.len() <= 200);
        assert!(cut.starts_with("sum\n\nhead 1\nrow 0 of it\n"), "{cut}");
        assert!(cut.contains("\nhead 2\nrow 0 of it\n"), "{cut}");
        let last = cut.lines().last().unwrap();
        let kept = cut.lines().count() - 1;
        let expected = format!(
            "truncated: {} of 45 lines are left out; all: tracer-user stat log",
            45 - kept
        );
        assert_eq!(last, expected);
    }

    proptest! {
        #[test]
        fn no_text_is_longer_than_its_budget(
            whole in "([a-zß€ ]{0,40}\n){0,80}",
            rest in ".{0,300}",
            bytes in 0_usize..4000,
        ) {
            let short = cut(&whole, bytes, &rest);
            prop_assert!(short.len() <= bytes);
            prop_assert_eq!(&short, &cut(&whole, bytes, &rest));
        }
    }
}
