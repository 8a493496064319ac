//! Table of threads, by process.

use std::cmp::Reverse;

use foldhash::{HashMap, HashMapExt as _};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use tracer_analysis::Thread;

use super::bars::{draw_bar, draw_sparkline};
use super::columns::{self, Entry, ThreadColumn, now};
use super::look::{Role, ScreenLook};
use crate::model::{Shot, Sum, ThreadRow};
use tracer_answers::queries::words::thread;

/// Width of the names of threads.
const LABEL: u16 = 24;

/// Limit of the width of the column of current states: most wakers' names with their ids fit.
const MOST_NOW: u16 = 64;

const SECOND: u64 = 1_000_000_000;

/// Choice of the threads to be shown, and their order.
#[derive(Clone, Debug)]
pub struct ThreadListing {
    /// Column by which they are sorted.
    pub sort: ThreadColumn,
    /// Whether the least is first.
    pub is_reversed: bool,
    /// Whether threads of one process are together, below a line of it.
    pub is_grouped: bool,
    /// Text that the name or an id of each shown thread has.
    pub filter: String,
    /// Columns that are shown.
    pub columns: Vec<ThreadColumn>,
    /// Width of the column of current states.
    pub now_width: u16,
    /// Whether columns give way where there is too little space.
    pub is_fitted: bool,
}

impl Default for ThreadListing {
    fn default() -> Self {
        Self {
            sort: ThreadColumn::Run,
            is_reversed: false,
            is_grouped: true,
            filter: String::new(),
            columns: columns::USUAL.to_vec(),
            now_width: 0,
            is_fitted: true,
        }
    }
}

/// Line of the table: a thread, or a process with several.
#[derive(Clone, Debug)]
pub enum Line<'a> {
    /// Process, represented by one of its threads.
    Process(&'a ThreadRow, Box<ThreadsTogether>),
    /// Thread, and whether it is indented below its process.
    Thread(&'a ThreadRow, bool),
}

/// Sums over the threads of a process.
#[derive(Clone, Debug, Default)]
pub struct ThreadsTogether {
    /// Number of threads.
    pub threads: usize,
    /// Sums of all of them.
    pub sum: Sum,
    minute: Vec<u64>,
}

impl Line<'_> {
    /// Returns the thread that the line selects; a tid of 0 is the whole process.
    pub fn thread(&self) -> Thread {
        match self {
            Self::Process(row, _) => Thread {
                pid: row.thread.pid,
                tid: 0,
            },
            Self::Thread(row, _) => row.thread,
        }
    }

    fn sum(&self) -> &Sum {
        match self {
            Self::Process(_, together) => &together.sum,
            Self::Thread(row, _) => &row.sum,
        }
    }
}

impl ThreadListing {
    /// Returns the lines, in order.
    #[must_use]
    pub fn lines<'a>(&self, shot: &'a Shot) -> Vec<Line<'a>> {
        let mut rows: Vec<&ThreadRow> = shot.threads.iter().filter(|row| self.has(row)).collect();
        let key = |row: &&ThreadRow| self.sort.key(&row.sum, row.current.as_ref());
        self.sort(&mut rows, key, |row| row.thread);
        if !self.is_grouped {
            return rows
                .into_iter()
                .map(|row| Line::Thread(row, false))
                .collect();
        }
        let mut by_process: HashMap<i32, usize> = HashMap::new();
        let mut processes: Vec<(ThreadsTogether, Vec<&ThreadRow>)> = Vec::new();
        for row in rows {
            let next = processes.len();
            let index = *by_process.entry(row.thread.pid).or_insert(next);
            if index == next {
                processes.push(Default::default());
            }
            if let Some((together, rows)) = processes.get_mut(index) {
                together.add(row);
                rows.push(row);
            }
        }
        let now_of = |rows: &[&ThreadRow]| rows.first().and_then(|row| row.current);
        self.sort(
            &mut processes,
            |(together, rows)| self.sort.key(&together.sum, now_of(rows).as_ref()),
            |(_, rows)| rows.first().map(|row| row.thread).unwrap_or_default(),
        );
        let mut lines = Vec::new();
        for (together, rows) in processes {
            let is_single = together.threads == 1;
            if let (false, Some(first)) = (is_single, rows.first()) {
                lines.push(Line::Process(first, Box::new(together)));
            }
            lines.extend(rows.into_iter().map(|row| Line::Thread(row, !is_single)));
        }
        lines
    }

    /// Sorts, the greatest first; equal lines stay where they are from one shot to the next.
    fn sort<T>(&self, of: &mut [T], key: impl Fn(&T) -> u64, thread: impl Fn(&T) -> Thread) {
        if self.is_reversed {
            of.sort_by_cached_key(|one| (key(one), thread(one)));
        } else {
            of.sort_by_cached_key(|one| (Reverse(key(one)), thread(one)));
        }
    }

    fn has(&self, row: &ThreadRow) -> bool {
        if self.filter.is_empty() {
            return true;
        }
        let words = thread(row.thread, b"");
        let filter = self.filter.to_lowercase();
        row.name.to_lowercase().contains(&filter) || words.contains(&filter)
    }

    /// Gives the column of current states the space that it takes, as far as other columns may give
    /// way for it. It never shrinks: columns that move would be worse.
    pub fn widen_now(&mut self, lines: &[Line<'_>]) {
        for line in lines {
            if let Line::Thread(row, _) = line {
                let width = now(row).chars().count() + 2;
                let width = u16::try_from(width).unwrap_or(MOST_NOW).min(MOST_NOW);
                self.now_width = self.now_width.max(width);
            }
        }
    }

    /// Returns the column whose heading is at `x` in a table of this width.
    pub fn column_at(&self, x: u16, width: u16) -> Option<ThreadColumn> {
        let mut end = LABEL;
        let columns = self.fitting(width).into_iter();
        let mut columns = columns.map(|(entry, width)| {
            end = end.saturating_add(width);
            (entry.column, end)
        });
        let found = columns.find(|(_, end)| x < *end);
        found.map(|(column, _)| column).filter(|_| x >= LABEL)
    }

    /// Returns the columns that there is space for, each with its width.
    #[must_use]
    pub fn fitting(&self, width: u16) -> Vec<(&'static Entry, u16)> {
        let mut left = width.saturating_sub(LABEL);
        let mut shown = Vec::new();
        for column in &self.columns {
            let Some(entry) = column.entry() else {
                continue;
            };
            if entry.width <= left || !self.is_fitted {
                let width = match column {
                    ThreadColumn::Now => self.now_width.min(left).max(entry.width),
                    _ => entry.width,
                };
                left = left.saturating_sub(width);
                shown.push((*column, width));
            }
        }
        // What is left is for the words on the right.
        let is_last = |column| match column {
            ThreadColumn::Now => !shown
                .iter()
                .any(|(other, _)| *other == ThreadColumn::Command),
            _ => column == ThreadColumn::Command,
        };
        let entries = columns::ALL.iter().filter_map(|entry| {
            let (_, width) = shown.iter().find(|(column, _)| *column == entry.column)?;
            let more = if is_last(entry.column) { left } else { 0 };
            Some((entry, width + more))
        });
        entries.collect()
    }
}

impl ThreadsTogether {
    fn add(&mut self, row: &ThreadRow) {
        self.threads += 1;
        self.sum.add_all(&row.sum);
        // The newest seconds of each are the same.
        let longest = self.minute.len().max(row.minute.len());
        let missing = longest - self.minute.len();
        self.minute.splice(0..0, std::iter::repeat_n(0, missing));
        let newest = self.minute.iter_mut().rev();
        for (total, ns) in newest.zip(row.minute.iter().rev()) {
            *total = total.saturating_add(*ns);
        }
    }
}

/// Draws the headings and, one per row, the lines from the first shown one on.
pub fn draw(
    buffer: &mut Buffer,
    area: Rect,
    (shot, listing): (&Shot, &ThreadListing),
    (lines, selected): (&[Line<'_>], Option<usize>),
    look: ScreenLook,
) {
    let columns = listing.fitting(area.width);
    let heading = look.style(Role::Heading);
    buffer.set_stringn(area.x, area.y, "thread", usize::from(LABEL), heading);
    let mut x = area.x + LABEL;
    for (entry, width) in &columns {
        let style = if entry.column == listing.sort {
            heading.add_modifier(Modifier::UNDERLINED)
        } else {
            heading
        };
        put(
            buffer,
            (x, area.y, *width),
            entry.name,
            is_left(entry.column),
            style,
        );
        x = x.saturating_add(*width);
    }
    for (nth, (line, y)) in lines.iter().zip(area.y + 1..area.bottom()).enumerate() {
        draw_line(buffer, (area.x, y), (shot, line), &columns, look);
        if selected == Some(nth) {
            let row = Rect::new(area.x, y, area.width, 1);
            look.select(buffer, row);
        }
    }
}

fn is_left(column: ThreadColumn) -> bool {
    matches!(
        column,
        ThreadColumn::Bar | ThreadColumn::Minute | ThreadColumn::Now | ThreadColumn::Command
    )
}

/// Writes a text, after a space, on the left or the right.
fn put(
    buffer: &mut Buffer,
    (x, y, width): (u16, u16, u16),
    text: &str,
    is_left: bool,
    style: Style,
) {
    let space = usize::from(width.saturating_sub(1));
    let text: String = text.chars().take(space).collect();
    let text = if is_left {
        format!(" {text}")
    } else {
        format!(" {text:>space$}")
    };
    buffer.set_stringn(x, y, &text, usize::from(width), style);
}

fn draw_line(
    buffer: &mut Buffer,
    (x, y): (u16, u16),
    (shot, line): (&Shot, &Line<'_>),
    columns: &[(&'static Entry, u16)],
    look: ScreenLook,
) {
    let (label, style) = match line {
        Line::Process(row, _) => {
            let of = Thread {
                pid: row.thread.pid,
                tid: row.thread.pid,
            };
            (named(&row.process, of), look.style(Role::Heading))
        }
        Line::Thread(row, false) => (named(&row.name, row.thread), Style::new()),
        Line::Thread(row, true) => (format!("  {} {}", row.name, row.thread.tid), Style::new()),
    };
    buffer.set_stringn(x, y, &label, usize::from(LABEL), style);
    let mut x = x + LABEL;
    for (entry, width) in columns {
        let inner = (x + 1, y, width.saturating_sub(2));
        match (entry.column, line) {
            (ThreadColumn::Bar, _) => {
                let (sum, whole) = match line {
                    Line::Process(_, together) => (&together.sum, together.sum.all()),
                    Line::Thread(row, _) => (&row.sum, shot.span),
                };
                draw_bar(buffer, inner, &sum.parts(), whole, look);
            }
            (ThreadColumn::Minute, Line::Thread(row, _)) => {
                draw_sparkline(buffer, inner, &row.minute, SECOND, look);
            }
            (ThreadColumn::Minute, Line::Process(_, together)) => {
                let most = together.minute.iter().copied().max().unwrap_or(0);
                draw_sparkline(buffer, inner, &together.minute, most.max(SECOND), look);
            }
            (ThreadColumn::Now, Line::Thread(row, _)) => {
                put(buffer, (x, y, *width), &now(row), true, Style::new());
            }
            (ThreadColumn::Now, Line::Process(row, together)) => {
                let is_beside = |(entry, _): &(&Entry, u16)| entry.column == ThreadColumn::Command;
                let words = match columns.iter().any(is_beside) {
                    true => format!("{} threads", together.threads),
                    false => format!("{} threads  {}", together.threads, row.command),
                };
                put(
                    buffer,
                    (x, y, *width),
                    &words,
                    true,
                    look.style(Role::Aside),
                );
            }
            (ThreadColumn::Command, Line::Thread(_, true)) => {}
            (ThreadColumn::Command, Line::Process(row, _) | Line::Thread(row, false)) => {
                put(
                    buffer,
                    (x, y, *width),
                    &row.command,
                    true,
                    look.style(Role::Aside),
                );
            }
            (column, _) => {
                let words = column.says(line.sum(), shot.span);
                put(buffer, (x, y, *width), &words, false, Style::new());
            }
        }
        x = x.saturating_add(*width);
    }
}

/// Returns a harmless name, with the ids of its thread.
fn named(name: &str, of: Thread) -> String {
    let who = thread(of, b"");
    format!("{name} {who}").trim_start().to_owned()
}
