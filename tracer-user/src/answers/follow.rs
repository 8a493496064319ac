//! Going through a log event by event, and knowing before each whether others are missing.

use tracer_engine::EventTypes;
use tracer_engine::event::{Event, MonotonicNs};

use crate::event_view::EventView;
use crate::log_view::{GapWatch, Log, Pause, Walk};
use crate::report::Gap;
use crate::stacks::Stack;

/// Who is given events, in order.
pub trait Follower {
    /// Event types have come: these are all that are known.
    fn learn(&mut self, types: &EventTypes);
    /// Events were lost before the next one.
    fn lose(&mut self, gap: Gap);
    /// Nothing has happened from the last event up to this moment.
    fn advance(&mut self, _now: MonotonicNs) {}
    /// The stack of the next event.
    fn stack(&mut self, _stack: &Stack<'_>) {}
    /// The next event, with the name of its thread where it is known.
    fn event(&mut self, event: &Event<'_>, comm: &[u8]);
}

/// Gives all that `walk` goes by to `follower`.
///
/// # Errors
///
/// The log cannot be read.
pub fn follow<L: Log>(walk: &mut Walk<L>, follower: &mut impl Follower) -> anyhow::Result<()> {
    follow_while(walk, follower, |_| Ok(()))
}

/// As [`follow`]; `check` is called every thousand events.
///
/// # Errors
///
/// The log cannot be read, or what `check` says.
pub fn follow_while<L: Log>(
    walk: &mut Walk<L>,
    follower: &mut impl Follower,
    mut check: impl FnMut(&Walk<L>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    const AT_ONCE: usize = 1024;
    let mut watch = GapWatch::default();
    let mut seen = Vec::new();
    let mut each = |walk: &Walk<L>, gap: Option<Gap>, line: &EventView<'_>| {
        if let Some(gap) = gap {
            follower.lose(gap);
        }
        if is_first(&mut seen, line.event.header.event_type.0) {
            follower.learn(walk.log().event_types());
        }
        if let Some(stack) = &line.stack {
            follower.stack(stack);
        }
        follower.event(&line.event, line.comm.unwrap_or_default());
        Ok(())
    };
    while watch.go_on(walk, AT_ONCE, &mut each)? == Pause::Midway {
        check(walk)?;
    }
    if let Some(gap) = watch.behind(walk) {
        follower.lose(gap);
    }
    Ok(())
}

/// Whether an event is the first of its type.
fn is_first(seen: &mut Vec<bool>, id: u32) -> bool {
    let index =
        usize::try_from(id.min(tracer_common::event_type::STREAM_EVENT_ID_LIMIT)).unwrap_or(0);
    if seen.len() <= index {
        seen.resize(index + 1, false);
    }
    seen.get_mut(index)
        .is_some_and(|seen| !std::mem::replace(seen, true))
}
