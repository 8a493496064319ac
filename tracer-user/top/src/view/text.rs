//! One screen as text: all rows and all columns, for scripts.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::columns;
use super::look::ScreenLook;
use super::threads::ThreadListing;
use super::{spans, threads, title};
use crate::model::Shot;

/// Width of the screen: command lines take the remaining space.
const WIDTH: u16 = 320;

/// Returns the screen, line by line.
#[must_use]
pub fn text(shot: &Shot) -> String {
    let look = ScreenLook::plain();
    let mut listing = ThreadListing {
        columns: columns::ALL.iter().map(|entry| entry.column).collect(),
        is_fitted: false,
        ..ThreadListing::default()
    };
    let mut out = String::new();
    push(&mut out, 1, |buffer, area| {
        title::draw(buffer, area, shot, look);
    });
    if let Some(missing) = shot.missing {
        out.push_str(&format!("{missing}\n"));
    }
    let lines = listing.lines(shot);
    listing.widen_now(&lines);
    out.push('\n');
    for (nth, lines) in lines.chunks(ROWS).enumerate() {
        let rows = u16::try_from(lines.len()).unwrap_or(0) + 1;
        let mut part = String::new();
        push(&mut part, rows, |buffer, area| {
            threads::draw(buffer, area, (shot, &listing), (lines, None), look);
        });
        // The headings come once.
        let skipped = usize::from(nth > 0);
        out.extend(part.split_inclusive('\n').skip(skipped));
    }
    let kinds = spans::rows(shot);
    if !kinds.is_empty() {
        out.push('\n');
    }
    for (nth, kinds) in kinds.chunks(ROWS).enumerate() {
        let rows = u16::try_from(kinds.len()).unwrap_or(0) + 1;
        let mut part = String::new();
        push(&mut part, rows, |buffer, area| {
            spans::draw(buffer, area, (shot, kinds), None, look);
        });
        out.extend(part.split_inclusive('\n').skip(usize::from(nth > 0)));
    }
    for kind in kinds {
        out.push('\n');
        for line in spans::slowest(kind, spans::LINES) {
            out.push_str(&format!("{line}\n"));
        }
    }
    out
}

/// Number of rows that are drawn at once: a buffer has a limit.
const ROWS: usize = 200;

fn push(out: &mut String, rows: u16, draw: impl FnOnce(&mut Buffer, Rect)) {
    let area = Rect::new(0, 0, WIDTH, rows);
    let mut buffer = Buffer::empty(area);
    draw(&mut buffer, area);
    for y in 0..rows {
        out.push_str(row(&buffer, y).trim_end());
        out.push('\n');
    }
}

fn row(buffer: &Buffer, y: u16) -> String {
    let cells = (0..buffer.area.width).filter_map(|x| buffer.cell((x, y)));
    cells.map(|cell| cell.symbol()).collect()
}
