//! Table of spans, and why the slowest took as long as it did.

use std::cmp::Reverse;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::bars::{draw_bar, draw_sparkline};
use super::columns::rate;
use super::look::{Role, ScreenLook};
use crate::model::{Shot, SpanRow};
use tracer_answers::queries::words::{duration, seconds, thread};

/// Width of the names of spans.
const LABEL: usize = 24;

/// Number of lines that tell why.
pub const LINES: usize = 3;

/// Returns the kinds of which spans have ended, those that took most time first.
pub fn rows(shot: &Shot) -> Vec<&SpanRow> {
    let rows = shot.spans.iter();
    let mut rows: Vec<&SpanRow> = rows
        .filter(|row| row.count > 0 || row.trend.iter().any(|ns| *ns > 0))
        .collect();
    rows.sort_by_key(|row| (Reverse(row.total), row.name.clone()));
    rows
}

/// Draws the headings and the kinds.
pub fn draw(
    buffer: &mut Buffer,
    area: Rect,
    (shot, rows): (&Shot, &[&SpanRow]),
    selected: Option<usize>,
    look: ScreenLook,
) {
    let (split, trend) = widths(area.width);
    let heading = format!(
        "{:<LABEL$}{:>9}{:>10}{:>10}{:>10} {:<split$} {:<trend$}",
        "span",
        "span/s",
        "p50",
        "p99",
        "max",
        "split",
        "trend",
        split = usize::from(split),
        trend = usize::from(trend),
    );
    let width = usize::from(area.width);
    buffer.set_stringn(area.x, area.y, heading, width, look.style(Role::Heading));
    for (nth, (row, y)) in rows.iter().zip(area.y + 1..area.bottom()).enumerate() {
        let name: String = row.name.chars().take(LABEL - 1).collect();
        let text = format!(
            "{name:<LABEL$}{:>9}{:>10}{:>10}{:>10} ",
            rate(row.count, shot.span),
            known(row.p50),
            known(row.p99),
            known(row.longest),
        );
        let (x, _) = buffer.set_stringn(area.x, y, text, width, Style::new());
        draw_bar(buffer, (x, y, split), &row.split.parts(), row.total, look);
        let most = row.trend.iter().copied().max().unwrap_or(0);
        draw_sparkline(buffer, (x + split + 1, y, trend), &row.trend, most, look);
        if selected == Some(nth) {
            let row = Rect::new(area.x, y, area.width, 1);
            look.select(buffer, row);
        }
    }
}

/// Returns the widths of the bar and of the trend.
fn widths(all: u16) -> (u16, u16) {
    let rest = all.saturating_sub(24 + 9 + 30 + 2);
    (rest.min(20), rest.saturating_sub(20).min(60))
}

fn known(ns: Option<u64>) -> String {
    ns.map_or_else(|| "-".to_owned(), duration)
}

/// Describes the slowest span of a kind: which one it is, and why it took so long in at most
/// `lines` lines.
pub fn slowest(row: &SpanRow, lines: usize) -> Vec<String> {
    let Some(slowest) = &row.slowest else {
        return vec![format!("{}: none has ended lately", row.name)];
    };
    let title = format!(
        "slowest {}: {} of {}, at {}",
        row.name,
        duration(slowest.ns),
        thread(slowest.thread, &slowest.comm),
        seconds(slowest.at.0)
    );
    let why = slowest.lines.iter().take(lines).cloned();
    std::iter::once(title).chain(why).collect()
}
