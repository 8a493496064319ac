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

/// Least width of the names of spans, with the space behind it.
const LABEL: usize = 24;

/// Most width of the names: those of callbacks have a node and a topic in them.
const MOST_LABEL: usize = 64;

/// Width of the figures that are always there.
const FIGURES: usize = 9 + 3 * 10 + 1;

/// Width of the number of spans, which is there where there is space.
const COUNT: usize = 9;

/// Width of the bar, and least width of the trend.
const BAR: usize = 20;

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
    let Widths {
        label,
        count,
        split,
        trend,
    } = widths(area.width, rows);
    let heading = format!(
        "{:<label$}{:>count$}{:>9}{:>10}{:>10}{:>10} {:<split$} {:<trend$}",
        "span",
        if count > 0 { "count" } else { "" },
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
        let number = if count > 0 {
            row.count.to_string()
        } else {
            String::new()
        };
        let text = format!(
            "{:<label$}{number:>count$}{:>9}{:>10}{:>10}{:>10} ",
            fitted(&row.name, label - 1),
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

/// Widths of columns.
struct Widths {
    label: usize,
    count: usize,
    split: u16,
    trend: u16,
}

/// Returns the widths of the columns: the bar gives way to the names.
fn widths(all: u16, rows: &[&SpanRow]) -> Widths {
    let all = usize::from(all);
    let names = rows.iter().map(|row| row.name.chars().count() + 1);
    let wished = names.max().unwrap_or(0).clamp(LABEL, MOST_LABEL);
    let label = wished.min(all.saturating_sub(FIGURES)).max(LABEL);
    let rest = all.saturating_sub(label + FIGURES + 1);
    let count = if rest >= COUNT + BAR { COUNT } else { 0 };
    let rest = u16::try_from(rest - count).unwrap_or(0);
    let bar = u16::try_from(BAR).unwrap_or(0);
    Widths {
        label,
        count,
        split: rest.min(bar),
        trend: rest.saturating_sub(bar).min(60),
    }
}

/// Returns a name in at most `width` characters. Of a longer one the end is kept, where those of
/// one node differ.
fn fitted(name: &str, width: usize) -> String {
    let count = name.chars().count();
    if count <= width {
        return name.to_owned();
    }
    let front = width / 3;
    let end = width - front - 1;
    let front = name.chars().take(front);
    let end = name.chars().skip(count - end);
    front.chain(['…']).chain(end).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_callbacks_have_space_and_their_ends_are_kept() {
        let named = |name: &str| SpanRow {
            name: name.to_owned(),
            ..SpanRow::default()
        };
        let short = named("request");
        let of = |all| {
            let long = named("/perception/lidar/front/filter /points/filtered");
            let of = widths(all, &[&short, &long]);
            (of.label, of.count, of.split, of.trend)
        };
        assert_eq!(of(80), (40, 0, 0, 0));
        assert_eq!(of(120), (48, COUNT, 20, 2));
        assert_eq!(of(320), (48, COUNT, 20, 60));
        let usual = widths(80, &[&short]);
        assert_eq!((usual.label, usual.count, usual.split), (24, 0, 15));

        assert_eq!(fitted("/talker timer 10ms", 18), "/talker timer 10ms");
        let shown = fitted("/perception/lidar/front /points/filtered", 20);
        assert_eq!(shown, "/perce…ints/filtered");
        assert_eq!(shown.chars().count(), 20);
    }
}
