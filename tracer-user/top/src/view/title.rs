//! Line at the top: the subject of the view, and the losses.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::columns::rate;
use super::look::{Role, ScreenLook};
use crate::model::{Shot, Window};
use tracer_answers::queries::words::duration;
use tracer_event::summary::but_for;

/// Describes the losses in words: they are never left out.
pub fn losses(shot: &Shot) -> String {
    let lost = format!("{} events lost", shot.losses.lost);
    let ago = match shot.lost_ago {
        Some(ago) if shot.losses.lost > 0 => format!(" (last {} ago)", duration(ago)),
        _ => String::new(),
    };
    let unreported = but_for(
        shot.losses.not_reported,
        shot.losses.lost,
        shot.has_requests,
    );
    format!("{lost}{ago}{unreported}")
}

/// Describes the subject of the view in words.
pub fn looked_at(shot: &Shot) -> String {
    let window = match shot.window {
        Window::Last(ns) => format!("last {}", duration(ns.min(shot.span))),
        Window::All => "all of it".to_owned(),
    };
    let processes: foldhash::HashSet<i32> = shot.threads.iter().map(|row| row.thread.pid).collect();
    let more = if shot.has_others { "+" } else { "" };
    format!(
        "{} {window}, {} events/s, {} threads{more} of {} processes",
        duration(shot.at),
        rate(shot.events, shot.span),
        shot.threads.len(),
        processes.len(),
    )
}

/// Draws the line.
pub fn draw(buffer: &mut Buffer, area: Rect, shot: &Shot, look: ScreenLook) {
    let losses = losses(shot);
    let style = if shot.losses.lost > 0 {
        look.style(Role::Alarm)
    } else {
        Style::new()
    };
    let width = usize::from(area.width);
    let (x, _) = buffer.set_stringn(area.x, area.y, &losses, width, style);
    let rest = usize::from(area.right().saturating_sub(x));
    let words = format!("  {}", looked_at(shot));
    buffer.set_stringn(x, area.y, words, rest, Style::new());
}
