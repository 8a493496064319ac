//! Going through a log event by event, and knowing before each whether others are missing.

use tracer_event::consumer::Consumer;
use tracer_event::event_view::EventView;
use tracer_event::gap::Gap;
use tracer_log_view::{GapWatch, Log, Pause, Walk};

/// Gives all events of `walk` to `consumer`.
///
/// # Errors
///
/// The log cannot be read, or `consumer` fails.
pub fn follow<L: Log>(walk: &mut Walk<L>, consumer: &mut impl Consumer) -> anyhow::Result<()> {
    follow_while(walk, consumer, |_| Ok(()))
}

/// Does as [`follow`]; `check` is called every thousand events.
///
/// # Errors
///
/// The log cannot be read, or `consumer` or `check` fails.
pub fn follow_while<L: Log>(
    walk: &mut Walk<L>,
    consumer: &mut impl Consumer,
    mut check: impl FnMut(&Walk<L>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    const AT_ONCE: usize = 1024;
    let mut watch = GapWatch::default();
    let mut seen = Vec::new();
    let mut each = |walk: &Walk<L>, gap: Option<Gap>, line: &EventView<'_>| {
        if let Some(gap) = gap {
            consumer.gap(&gap);
        }
        if is_first(&mut seen, line.event.header.event_type.0) {
            consumer.learn_types(walk.log().event_types());
        }
        consumer.event(line)
    };
    while watch.go_on(walk, AT_ONCE, &mut each)? == Pause::Midway {
        check(walk)?;
    }
    if let Some(gap) = watch.behind(walk) {
        consumer.gap(&gap);
    }
    if let Some(ended) = walk.ended() {
        consumer.idle(ended);
    }
    Ok(())
}

/// Tells whether an event is the first of its type.
fn is_first(seen: &mut Vec<bool>, id: u32) -> bool {
    let index =
        usize::try_from(id.min(tracer_common::event_type::STREAM_EVENT_ID_LIMIT)).unwrap_or(0);
    if seen.len() <= index {
        seen.resize(index + 1, false);
    }
    seen.get_mut(index)
        .is_some_and(|seen| !std::mem::replace(seen, true))
}
