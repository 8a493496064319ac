//! Flame graphs of a log that has stacks, as the page takes them.

use std::collections::HashMap;
use std::path::Path;

use foldhash::fast::RandomState;
use serde_json::{Value, json};
use tracer_common::event_type::EventTypeId;
use tracer_engine::EventTypes;
use tracer_engine::event::MonotonicNs;

use super::run::ReportSetup;
use crate::flame::{FlameKind, Flames, Folded, FrameKind};
use crate::queries::follow_while;
use tracer_event::consumer::Consumer;
use tracer_event::event_view::EventView;
use tracer_event::gap::Gap;
use tracer_log_view::{Walk, WantedEvents, open};

/// Kinds of stacks that a log has, found out event by event.
#[derive(Debug, Default)]
pub struct StacksSeen {
    is_next: bool,
    samples: bool,
    switches: bool,
    wakeups: bool,
}

impl StacksSeen {
    /// Notes that the next event has a stack.
    pub fn stack(&mut self) {
        self.is_next = true;
    }

    /// Notes an event.
    pub fn event(&mut self, id: EventTypeId) {
        if !std::mem::take(&mut self.is_next) {
            return;
        }
        match id {
            EventTypeId::SAMPLE => self.samples = true,
            EventTypeId::SWITCH_OUT | EventTypeId::SWITCH_IN => self.switches = true,
            EventTypeId::WAKEUP => self.wakeups = true,
            _ => {}
        }
    }

    fn kinds(&self) -> impl Iterator<Item = FlameKind> {
        let kinds = [
            (FlameKind::OnCpu, self.samples),
            (FlameKind::OffCpu, self.switches),
            (FlameKind::Wakeup, self.wakeups),
        ];
        let seen = kinds.into_iter().filter(|(_, is_seen)| *is_seen);
        seen.map(|(kind, _)| kind)
    }
}

/// Graphs that are folded side by side.
struct Graphs(Vec<(FlameKind, Flames)>);

impl Consumer for Graphs {
    fn idle(&mut self, now: MonotonicNs) {
        self.0.iter_mut().for_each(|(_, one)| one.idle(now));
    }

    fn learn_types(&mut self, types: &EventTypes) {
        self.0
            .iter_mut()
            .for_each(|(_, one)| one.learn_types(types));
    }

    fn gap(&mut self, gap: &Gap) {
        self.0.iter_mut().for_each(|(_, one)| one.gap(gap));
    }

    fn event(&mut self, view: &EventView<'_>) -> anyhow::Result<()> {
        self.0.iter_mut().try_for_each(|(_, one)| one.event(view))
    }
}

/// Returns the graphs of the kinds of stacks that were seen, for the page.
///
/// # Errors
///
/// As [`folded`].
pub fn flames(
    setup: &ReportSetup,
    wanted: WantedEvents,
    seen: &StacksSeen,
    check: impl FnMut((u64, u64)) -> anyhow::Result<()>,
) -> anyhow::Result<Vec<Value>> {
    let graphs = folded(&setup.file, wanted, seen, check)?.into_iter();
    Ok(graphs
        .map(|(kind, folded)| json_of(kind, &folded))
        .collect())
}

/// Folds the kinds of stacks that were seen: the log is read again, if there were any. `check` is
/// called now and then with the progress.
///
/// # Errors
///
/// The log cannot be read, or the error is that of `check`.
pub fn folded(
    log: &Path,
    wanted: WantedEvents,
    seen: &StacksSeen,
    mut check: impl FnMut((u64, u64)) -> anyhow::Result<()>,
) -> anyhow::Result<Vec<(FlameKind, Folded)>> {
    let kinds = seen.kinds().map(|kind| (kind, Flames::new(kind)));
    let mut graphs = Graphs(kinds.collect());
    if graphs.0.is_empty() {
        return Ok(Vec::new());
    }
    let mut walk = Walk::new(open(log)?, wanted).naming_by(log);
    follow_while(&mut walk, &mut graphs, |walk| check(walk.log().progress()))?;
    let graphs = graphs.0.into_iter();
    // Stacks of wakers without switches are no graph.
    let folded = graphs.filter_map(|(kind, flames)| Some((kind, flames.finish().ok()?)));
    Ok(folded.filter(|(_, folded)| folded.total() > 0).collect())
}

/// Returns a graph as the page reads it: frames, and paths with indices of frames.
fn json_of(kind: FlameKind, folded: &Folded) -> Value {
    let mut frames: Vec<Value> = Vec::new();
    let mut known = HashMap::with_hasher(RandomState::default());
    let paths = folded.paths();
    let paths = paths.iter().map(|(path, ns)| {
        let path = path.iter().map(|frame| {
            *known.entry(*frame).or_insert_with(|| {
                let kind = match frame.kind {
                    FrameKind::Thread => "thread",
                    FrameKind::User => "user",
                    FrameKind::Inlined => "inlined",
                    FrameKind::Kernel => "kernel",
                    FrameKind::Mark => "mark",
                };
                frames.push(json!([&*frame.name, kind]));
                frames.len() - 1
            })
        });
        json!([ns, path.collect::<Vec<_>>()])
    });
    let paths: Vec<Value> = paths.collect();
    json!({ "title": kind.title(), "frames": frames, "paths": paths })
}
