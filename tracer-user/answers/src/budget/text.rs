//! Text that is cut by whole lines.

use std::borrow::Cow;
use std::ops::Range;

use tracer_output::terminal::TerminalScreen;

/// Room for a text.
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

/// Beginnings of lines, and words of others, that say what is missing: in all answers but the last
/// of them, which are labels of `info`.
const MISSING: [&str; 4] = [
    " events lost",
    " events were lost",
    "the log is damaged: ",
    "the log was not completed: ",
];
const MISSING_LABELS: [&str; 3] = ["lost  ", "damage  ", "completed  "];

/// Tells whether a line says what is missing. Names that programs have chosen may say so too: such
/// a line is kept where it need not be.
fn is_of_missing(line: &str) -> bool {
    MISSING.iter().any(|words| line.contains(words))
        || MISSING_LABELS.iter().any(|label| line.starts_with(label))
}

/// Returns the lines of `whole` that fit into `room`, in their order, and a last one that counts
/// the others, with the command that shows them in `rest`.
///
/// Lines that say what is missing are chosen first, and shortened where they have no room. A table
/// is what lies between empty lines. The beginnings of all tables come next, two lines of each: its
/// head and its first row. Then come the third lines, and so on. On a screen, another line that
/// takes a quarter of it is left out.
pub fn cut(whole: &str, room: TextRoom<'_>, rest: Option<&str>) -> String {
    let lines: Vec<&str> = whole.lines().collect();
    let mut kept = KeptLines {
        room,
        left: room.size(),
        lines: vec![None; lines.len()],
    };
    // As long as any last line gets. What is missing goes before the command.
    let last = LastLine {
        all: lines.len(),
        rest,
    };
    let short = kept.reserve(&last.short(lines.len(), lines.len()));
    let of_missing = || {
        lines
            .iter()
            .enumerate()
            .filter(|(_, line)| is_of_missing(line))
    };
    for (index, line) in of_missing() {
        kept.choose_shortened(index, line);
    }
    let missing = of_missing().filter(|(index, _)| kept.lines.get(*index) == Some(&None));
    let missing = missing.count();
    kept.left += short;
    let is_long = missing == 0 && kept.has_room_for(&last.long(lines.len(), room));
    kept.reserve(&last.words(is_long, (lines.len(), missing), room));
    kept.choose_parts(&lines);
    let (mut out, count) = kept.joined();
    out.push_str(&last.words(is_long, (lines.len() - count, missing), room));
    out
}

/// Lines that are kept, and the room that is left.
struct KeptLines<'a> {
    room: TextRoom<'a>,
    left: usize,
    lines: Vec<Option<Cow<'a, str>>>,
}

impl<'a> KeptLines<'a> {
    fn has_room_for(&self, lines: &str) -> bool {
        self.room.taken_by(lines) <= self.left
    }

    /// Holds room back, and returns how much.
    fn reserve(&mut self, lines: &str) -> usize {
        let taken = match lines {
            "" => 0,
            lines => self.room.taken_by(lines).min(self.left),
        };
        self.left -= taken;
        taken
    }

    fn keep(&mut self, index: usize, line: Cow<'a, str>) {
        self.left = self.left.saturating_sub(self.room.taken_by(&line));
        if let Some(kept) = self.lines.get_mut(index) {
            *kept = Some(line);
        }
    }

    /// Keeps a line, or as much of its beginning as has room.
    fn choose_shortened(&mut self, index: usize, line: &'a str) {
        /// Least that says anything, and most that is looked at, in bytes.
        const LEAST: usize = 24;
        const MOST: usize = 1024;
        if self.has_room_for(line) {
            return self.keep(index, line.into());
        }
        if !self.has_room_for(&"…".repeat(LEAST / 3)) {
            return;
        }
        let beginning = (LEAST..MOST).rev().find_map(|end| {
            let beginning = format!("{}…", line.get(..end)?);
            self.has_room_for(&beginning).then_some(beginning)
        });
        if let Some(beginning) = beginning {
            self.keep(index, beginning.into());
        }
    }

    /// Keeps what has room of the tables.
    fn choose_parts(&mut self, lines: &[&'a str]) {
        // Tables from this one on have no room for their beginning.
        let mut tables = usize::MAX;
        for part in &parts(lines) {
            if part.table >= tables {
                continue;
            }
            let is_chosen = |index: &usize| self.lines.get(*index) == Some(&None);
            let chosen = part.lines.clone().filter(is_chosen).map(|index| {
                let line = lines.get(index).copied().unwrap_or_default();
                (index, line, self.room.taken_by(line))
            });
            let chosen: Vec<_> = chosen
                .filter(|(.., length)| !self.room.is_too_much(*length))
                .collect();
            let length: usize = chosen.iter().map(|(.., length)| length).sum();
            if length > self.left && part.place > 0 {
                break;
            }
            if length > self.left {
                tables = part.table;
                if part.table > 0 {
                    continue;
                }
            }
            for (index, line, length) in chosen {
                if length > self.left {
                    break;
                }
                self.keep(index, line.into());
            }
        }
    }

    /// Returns the lines, and how many they are.
    fn joined(&self) -> (String, usize) {
        let mut out = String::new();
        let mut count = 0;
        let mut was_empty = true;
        for line in self.lines.iter().flatten() {
            // Tables of which nothing is left are not parted.
            if line.is_empty() && was_empty {
                continue;
            }
            count += 1;
            was_empty = line.is_empty();
            out.push_str(line);
            out.push('\n');
        }
        (out, count)
    }
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

/// The line that counts what is left out.
struct LastLine<'a> {
    /// Lines of the whole text.
    all: usize,
    /// Command that shows it.
    rest: Option<&'a str>,
}

impl LastLine<'_> {
    fn short(&self, left_out: usize, missing: usize) -> String {
        let count = format!("truncated: {left_out} of {} lines are left out", self.all);
        match missing {
            0 => format!("{count}\n"),
            missing => format!("{count}, {missing} of them of losses\n"),
        }
    }

    fn long(&self, left_out: usize, room: TextRoom<'_>) -> String {
        let short = self.short(left_out, 0);
        match (self.rest, room) {
            (Some(rest), _) => format!("{}; all: {rest}\n", short.trim_end()),
            (None, TextRoom::Screen(_)) => {
                format!("{}; a pipe or a file gets all\n", short.trim_end())
            }
            (None, TextRoom::Bytes(_)) => short,
        }
    }

    /// Returns the line; nothing where the room is too small for any.
    fn words(
        &self,
        is_long: bool,
        (left_out, missing): (usize, usize),
        room: TextRoom<'_>,
    ) -> String {
        let line = if is_long {
            self.long(left_out, room)
        } else {
            self.short(left_out, missing)
        };
        if room.holds(&line) {
            line
        } else {
            String::new()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_first_lines_of_each_table_stay_and_the_others_are_counted() {
        let rows: String = (0..20).map(|row| format!("row {row} of it\n")).collect();
        let whole = format!("sum\n\nhead 1\n{rows}\nhead 2\n{rows}");
        let cut = cut(&whole, TextRoom::Bytes(200), Some("tracer-user stat log"));
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

    #[test]
    fn what_is_missing_stays_where_it_is_and_however_small_the_room() {
        let rows: String = (0..20).map(|row| format!("row {row} of it\n")).collect();
        let lost = "    7 events were lost: times around them are unknown\n";
        let damage = "the log is damaged: 3 bytes at 1 site could not be read\n";
        let whole = format!("sum\n{rows}\nhead\n{rows}{lost}{damage}");
        let screen = TerminalScreen::of_size(9, 80);
        for room in [TextRoom::Bytes(256), TextRoom::Screen(&screen)] {
            let cut = cut(&whole, room, Some("tracer-user stat log"));
            assert!(room.holds(&cut), "{cut}");
            assert!(cut.contains(lost) && cut.contains(damage), "{cut}");
            assert!(cut.starts_with("sum\n"), "{cut}");
            assert!(cut.contains("all: tracer-user stat log\n"), "{cut}");
        }
    }

    #[test]
    fn a_long_line_of_losses_is_shortened_and_goes_before_the_command() {
        let lost = format!("lost            12345: {}", "1234 a_cause, ".repeat(30));
        let whole = format!("stream  x\n{lost}\ndamage          none\n");
        let rest = format!("tracer-user info {}", "log".repeat(60));
        let cut = cut(&whole, TextRoom::Bytes(256), Some(&rest));
        assert!(cut.len() <= 256, "{cut}");
        assert!(cut.contains("lost            12345: 1234 a_cause"), "{cut}");
        assert!(cut.contains('…') && !cut.contains("all: "), "{cut}");
        assert!(cut.contains("truncated: 2 of 3 lines are left out, 1 of them of losses"));
    }

    #[test]
    fn without_a_command_a_terminal_is_told_of_pipes() {
        let whole = "a line\n".repeat(40);
        let screen = TerminalScreen::of_size(10, 80);
        let shown = cut(&whole, TextRoom::Screen(&screen), None);
        assert!(
            shown.ends_with(" lines are left out; a pipe or a file gets all\n"),
            "{shown}"
        );
        let shown = cut(&whole, TextRoom::Bytes(100), None);
        assert!(shown.ends_with(" lines are left out\n"), "{shown}");
    }

    proptest! {
        #[test]
        fn no_text_is_longer_than_its_budget(
            whole in "([a-zß€ ]{0,40}( events were lost[a-z€]{0,90})?\n){0,80}",
            rest in ".{0,300}",
            bytes in 0_usize..4000,
        ) {
            let short = cut(&whole, TextRoom::Bytes(bytes), Some(&rest));
            prop_assert!(short.len() <= bytes);
            prop_assert_eq!(&short, &cut(&whole, TextRoom::Bytes(bytes), Some(&rest)));
        }

        #[test]
        fn no_text_is_higher_than_its_screen(
            whole in "([a-zß€名 ]{0,200}( events were lost[a-z€]{0,90})?\n){0,80}",
            rest in "[a-z ]{0,120}",
            rows in 0_usize..60,
            columns in 20_usize..200,
        ) {
            let screen = TerminalScreen::of_size(rows, columns);
            let short = cut(&whole, TextRoom::Screen(&screen), Some(&rest));
            prop_assert!(screen.rows_of(&short) <= screen.rows(), "{}", short);
        }
    }
}
