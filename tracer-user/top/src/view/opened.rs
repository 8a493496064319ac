//! View of one thread: its recent states, and its events.

use std::sync::Arc;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use tracer_analysis::{Interval, IntervalEnd, State, Wait, Waker};
use tracer_engine::event::MonotonicNs;

use super::look::{Role, ScreenLook};
use crate::model::Opened;
use tracer_answers::queries::words::{duration, inside, seconds, task, thread, throttled};

/// Number of rows above the events.
pub const ROWS: u16 = 9;

/// Largest number of last wake-ups that are shown.
const WAKEUPS: usize = 3;

/// Draws its timeline: a track of states, with wake-ups below, and its events as ticks.
pub fn draw(buffer: &mut Buffer, area: Rect, opened: &Opened, look: ScreenLook) {
    let width = usize::from(area.width);
    let name = thread(opened.thread, b"");
    let mut title = format!("{} {name}", opened.name);
    if let Some(last) = opened.track.last() {
        title.push_str(&format!(", {} for {}", state(last), duration(last.ns())));
    }
    if !opened.command.is_empty() {
        title.push_str(&format!("  {}", opened.command));
    }
    let heading = look.style(Role::Heading);
    buffer.set_stringn(area.x, area.y, title.trim_start(), width, heading);
    let ns = opened.to.0.saturating_sub(opened.from.0);
    let since = |at: MonotonicNs| seconds(at.0.saturating_sub(opened.start.0));
    let (left, right) = (since(opened.from), since(opened.to));
    let middle = format!(
        "{:^1$}",
        duration(ns),
        width.saturating_sub(left.len() + right.len())
    );
    let axis = format!("{left}{middle}{right}");
    buffer.set_stringn(area.x, area.y + 1, axis, width, look.style(Role::Aside));
    for x in 0..area.width {
        draw_cell(
            buffer,
            (area.x, area.y + 2, x),
            (opened, cell(opened, x, area.width)),
            look,
        );
    }
    for (line, y) in wakeups(opened).iter().zip(area.y + 5..) {
        buffer.set_stringn(area.x, y, line, width, Style::new());
    }
}

/// Returns the beginning and the end of the time that a cell covers.
fn cell(opened: &Opened, x: u16, width: u16) -> (u64, u64) {
    let ns = u128::from(opened.to.0.saturating_sub(opened.from.0));
    let at = |x: u16| {
        let since = ns * u128::from(x) / u128::from(width.max(1));
        opened
            .from
            .0
            .saturating_add(u64::try_from(since).unwrap_or(0))
    };
    (at(x), at(x + 1))
}

fn draw_cell(
    buffer: &mut Buffer,
    (left, y, x): (u16, u16, u16),
    (opened, (from, to)): (&Opened, (u64, u64)),
    look: ScreenLook,
) {
    let track = &opened.track;
    let first = track.partition_point(|one| one.to.0 <= from);
    let within = track.iter().skip(first).take_while(|one| one.from.0 < to);
    let (mut parts, mut is_woken) = ([0_u64; 5], false);
    for one in within {
        let ns = one.to.0.min(to).saturating_sub(one.from.0.max(from));
        let Some(part) = role(one.state) else {
            continue;
        };
        if let Some(total) = parts.get_mut(part) {
            *total += ns;
        }
        is_woken |= matches!(one.end, IntervalEnd::Woken(_)) && (from..to).contains(&one.to.0);
    }
    let most = parts.iter().enumerate().max_by_key(|(_, ns)| **ns);
    if let Some((most, 1..)) = most.map(|(part, ns)| (part, *ns)) {
        let role = ROLES.get(most).copied().unwrap_or(Role::Unknown);
        set(buffer, (left + x, y), look.part(role), look.style(role));
    }
    if is_woken {
        let mark = if look.is_unicode { '↑' } else { '^' };
        set(buffer, (left + x, y + 1), mark, look.style(Role::Runnable));
    }
    let first = opened.ticks.partition_point(|(at, _)| at.0 < from);
    let mut ticks = opened.ticks.iter().skip(first);
    let ticks = ticks.by_ref().take_while(|(at, _)| at.0 < to);
    let has_users = ticks.fold(None, |has, (_, is_users)| {
        Some(has.unwrap_or(false) | is_users)
    });
    match has_users {
        Some(true) => set(buffer, (left + x, y + 2), '|', look.style(Role::Running)),
        Some(false) => set(buffer, (left + x, y + 2), '.', look.style(Role::Aside)),
        None => {}
    }
}

fn set(buffer: &mut Buffer, at: (u16, u16), character: char, style: Style) {
    if let Some(cell) = buffer.cell_mut(at) {
        cell.set_char(character).set_style(style);
    }
}

const ROLES: [Role; 5] = [
    Role::Running,
    Role::Runnable,
    Role::Blocked,
    Role::Stopped,
    Role::Unknown,
];

fn role(state: State) -> Option<usize> {
    Some(match state {
        State::Running => 0,
        State::Runnable(_) => 1,
        State::Blocked(_) => 2,
        State::Stopped => 3,
        State::Unknown => 4,
        State::Dead => return None,
    })
}

fn state(interval: &Interval) -> String {
    match interval.state {
        State::Running => "running".to_owned(),
        State::Runnable(Wait::Throttled(_)) => throttled(None),
        State::Runnable(_) => "runnable".to_owned(),
        State::Blocked(reason) => match inside(reason.inside) {
            Some(inside) => format!("blocked in {inside}"),
            None => "blocked".to_owned(),
        },
        State::Stopped => "stopped".to_owned(),
        State::Unknown => "unknown".to_owned(),
        State::Dead => "ended".to_owned(),
    }
}

/// Returns the last wake-ups, the newest first.
fn wakeups(opened: &Opened) -> Vec<String> {
    let newest = opened.track.iter().rev();
    let woken = newest.filter_map(|one| match one.end {
        IntervalEnd::Woken(waker) => Some((one, waker)),
        IntervalEnd::Open | IntervalEnd::Unsaid | IntervalEnd::GotCpu(_) => None,
    });
    let lines = woken.take(WAKEUPS).map(|(one, waker)| {
        let who = match waker {
            Waker::Unknown => "an unknown waker".to_owned(),
            Waker::Thread(who) => task(&who),
            Waker::Interrupt => "an interrupt".to_owned(),
            Waker::SoftInterrupt => "a soft interrupt".to_owned(),
            Waker::Timer => "a timer".to_owned(),
        };
        let at = seconds(one.to.0.saturating_sub(opened.start.0));
        let took = duration(one.ns());
        format!("at {at} woken by {who}, {} for {took}", state(one))
    });
    lines.collect()
}

/// Returns the lines that have these words.
pub fn lines<'a>(opened: &'a Opened, filter: &str) -> Vec<&'a Arc<str>> {
    let filter = filter.to_lowercase();
    let lines = opened.lines.iter();
    lines
        .filter(|line| filter.is_empty() || line.to_lowercase().contains(&filter))
        .collect()
}
