//! Text that is cut by whole lines.

use std::ops::Range;

use tracer_output::terminal::TerminalScreen;

/// TextRoom for a text.
#[derive(Clone, Copy, Debug)]
pub enum TextRoom<'a> {
    /// A number of bytes.
    Bytes(usize),
    /// The screen of a terminal.
    Screen(&'a TerminalScreen),
}

impl TextRoom<'_> {
    /// Returns how much there is.
    fn size(self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Screen(screen) => screen.rows(),
        }
    }

    /// Returns how much of it some lines take, the last of which need not end.
    fn taken_by(self, lines: &str) -> usize {
        match self {
            Self::Bytes(_) => lines.len() + usize::from(!lines.ends_with('\n')),
            // What is empty is a line too.
            Self::Screen(screen) => screen.rows_of(lines).max(1),
        }
    }

    /// Tells whether a line is left out for the sake of the others: one that takes many rows, as
    /// the words of a command may.
    fn is_too_much(self, length: usize) -> bool {
        match self {
            Self::Bytes(_) => false,
            Self::Screen(screen) => length > (screen.rows() / 4).max(1),
        }
    }

    /// Tells whether a text has room.
    pub fn holds(self, whole: &str) -> bool {
        match self {
            Self::Bytes(bytes) => whole.len() <= bytes,
            Self::Screen(screen) => screen.rows_of(whole) <= screen.rows(),
        }
    }
}

/// Returns the lines of `whole` that fit into `room`, in their order, and a last one that counts
/// the others.
///
/// A table is what lies between empty lines. The beginnings of all tables are chosen first, two
/// lines of each: its head and its first row. Then come the third lines, and so on. On a screen, a
/// line that takes a quarter of it is left out.
pub fn cut(whole: &str, room: TextRoom<'_>, rest: &str) -> String {
    let lines: Vec<&str> = whole.lines().collect();
    // As long as any last line gets.
    let reserved = last_line(lines.len(), lines.len(), rest, room);
    let reserved = if reserved.is_empty() {
        0
    } else {
        room.taken_by(&reserved)
    };
    let mut left = room.size().saturating_sub(reserved);
    let mut is_kept = vec![false; lines.len()];
    let parts = parts(&lines);
    // Tables from this one on have no room for their beginning.
    let mut tables = usize::MAX;
    for part in &parts {
        if part.table >= tables {
            continue;
        }
        let chosen = part.lines.clone().map(|index| {
            let line = lines.get(index).copied().unwrap_or_default();
            (index, room.taken_by(line))
        });
        let chosen = chosen.filter(|(_, length)| !room.is_too_much(*length));
        let length: usize = chosen.clone().map(|(_, length)| length).sum();
        if length > left && part.place > 0 {
            break;
        }
        if length > left {
            tables = part.table;
            if part.table > 0 {
                continue;
            }
        }
        for (index, length) in chosen {
            if length > left {
                break;
            }
            left -= length;
            if let Some(is_kept) = is_kept.get_mut(index) {
                *is_kept = true;
            }
        }
    }
    let mut out = String::new();
    let mut kept = 0;
    let mut was_empty = true;
    for (line, _) in lines.iter().zip(&is_kept).filter(|(_, is_kept)| **is_kept) {
        // Tables of which nothing is left are not parted.
        if line.is_empty() && was_empty {
            continue;
        }
        kept += 1;
        was_empty = line.is_empty();
        out.push_str(line);
        out.push('\n');
    }
    out.push_str(&last_line(lines.len() - kept, lines.len(), rest, room));
    out
}

/// Lines that are kept together.
struct LinePart {
    /// Its place in the table: 0 for the beginning.
    place: usize,
    table: usize,
    lines: Range<usize>,
}

/// Returns the parts of the tables, in the order in which they are chosen.
fn parts(lines: &[&str]) -> Vec<LinePart> {
    /// Lines of a beginning.
    const BEGINNING: usize = 2;
    let mut parts: Vec<LinePart> = Vec::with_capacity(lines.len());
    let (mut table, mut within) = (0, 0);
    for (index, line) in lines.iter().enumerate() {
        if line.is_empty() {
            // What parts tables belongs to the one behind it.
            table += usize::from(within > 0);
            within = 0;
        } else {
            within += 1;
        }
        match parts.last_mut() {
            Some(last) if within <= BEGINNING && last.table == table => last.lines.end = index + 1,
            _ => parts.push(LinePart {
                place: within.saturating_sub(BEGINNING),
                table,
                lines: index..index + 1,
            }),
        }
    }
    parts.sort_by_key(|part| (part.place, part.table));
    parts
}

fn last_line(left_out: usize, all: usize, rest: &str, room: TextRoom<'_>) -> String {
    let short = format!("truncated: {left_out} of {all} lines are left out\n");
    let whole = format!("{}; all: {rest}\n", short.trim_end());
    [whole, short]
        .into_iter()
        .find(|line| room.holds(line))
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
        let cut = cut(&whole, TextRoom::Bytes(200), "tracer-user stat log");
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
            let short = cut(&whole, TextRoom::Bytes(bytes), &rest);
            prop_assert!(short.len() <= bytes);
            prop_assert_eq!(&short, &cut(&whole, TextRoom::Bytes(bytes), &rest));
        }

        #[test]
        fn no_text_is_higher_than_its_screen(
            whole in "([a-zß€名 ]{0,200}\n){0,80}",
            rest in "[a-z ]{0,120}",
            rows in 0_usize..60,
            columns in 20_usize..200,
        ) {
            let screen = TerminalScreen::of_size(rows, columns);
            let short = cut(&whole, TextRoom::Screen(&screen), &rest);
            prop_assert!(screen.rows_of(&short) <= screen.rows(), "{}", short);
        }
    }
}
