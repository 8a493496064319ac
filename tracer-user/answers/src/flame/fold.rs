//! Conversion of events into paths of frames.

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::ensure;
use tracer_analysis::{Absence, Absences, Thread, Waker};
use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::SampleData;
use tracer_engine::EventTypes;
use tracer_engine::event::MonotonicNs;
use zerocopy::FromBytes as _;

use super::folded::FrameId;
use super::{FlameKind, Folded, FrameKind};
use crate::queries::{Paths, Question, SpanChoice};
use tracer_binary::stacks::Stack;
use tracer_event::consumer::Consumer;
use tracer_event::event_view::EventView;
use tracer_event::fields::until_null;
use tracer_event::gap::Gap;

/// Limit of stacks that are known with their frames. Beyond it, all are looked up again.
const MOST_STACKS: usize = 65_536;

/// Limit of threads of which a stack is remembered. Beyond it, all are forgotten.
const MOST_THREADS: usize = 65_536;

/// Frames of a stack, the outermost first.
type Frames = Arc<[FrameId]>;

/// Consumer that folds events.
#[derive(Debug)]
pub struct Flames {
    kind: FlameKind,
    /// Engine that finds the states of threads.
    paths: Paths,
    absences: Absences,
    folded: Folded,
    /// Frames of known stacks, by process, what its addresses mean, and data.
    known: HashMap<(i32, u64, Vec<u8>), Frames>,
    /// Frames with which threads have left their CPUs.
    left: HashMap<Thread, Frames>,
    /// Frames of the wakers of threads.
    wakers: HashMap<Thread, Frames>,
    has_samples: bool,
    /// Whether samples were asked for: those of a running trace are.
    is_sampled: bool,
}

impl Flames {
    /// Creates an empty graph of this kind.
    #[must_use]
    pub fn new(kind: FlameKind) -> Self {
        Self {
            kind,
            paths: Paths::new(Question::Nothing, SpanChoice::default()),
            absences: Absences::default(),
            folded: Folded::default(),
            known: HashMap::new(),
            left: HashMap::new(),
            wakers: HashMap::new(),
            has_samples: false,
            is_sampled: false,
        }
    }

    /// Notes that samples were asked for.
    #[must_use]
    pub fn with_samples(mut self) -> Self {
        self.is_sampled = true;
        self
    }

    /// Returns the folded stacks, once there are no more events.
    ///
    /// # Errors
    ///
    /// No event was of the types that the graph needs.
    pub fn finish(mut self) -> anyhow::Result<Folded> {
        let (has_switches, has_wakeups) = self.paths.has_switches_and_wakeups();
        match self.kind {
            FlameKind::OnCpu if self.is_sampled => ensure!(
                self.has_samples,
                "there are no samples: no thread ran long enough to be in one; --flame off-cpu \
                 shows where they waited"
            ),
            FlameKind::OnCpu => ensure!(
                self.has_samples,
                "there are no samples: none were recorded (--sample 99, of run, attach and stat), \
                 or the processes hardly ran, and --flame off-cpu shows where they waited"
            ),
            FlameKind::OffCpu => ensure!(
                has_switches,
                "there are no switches: record them by --off-cpu 1ms (of run, attach, stat)"
            ),
            FlameKind::Wakeup => ensure!(
                has_switches && has_wakeups,
                "there are no switches and wake-ups: record them by --events switch,wakeup \
                 --off-cpu 1ms --stack user,kernel --stack-for wakeup (of run and attach)"
            ),
        }
        let absences = &mut self.absences;
        self.paths.finish(|found| absences.add(found));
        for (thread, absence) in self.absences.rest() {
            self.came_back(thread, &absence, None);
        }
        Ok(self.folded)
    }

    /// Returns the frames of a stack.
    fn frames(&mut self, stack: &Stack<'_>) -> Frames {
        let key = (stack.pid, stack.space(), stack.data.to_vec());
        if let Some(known) = self.known.get(&key) {
            return Arc::clone(known);
        }
        let mut frames: Vec<FrameId> = Vec::new();
        for frame in stack.frames() {
            let kind = if frame.is_kernel {
                FrameKind::Kernel
            } else if frame.is_inlined {
                FrameKind::Inlined
            } else {
                FrameKind::User
            };
            let id = match (&frame.function, &frame.mapping) {
                (Some((name, _)), _) => self.folded.frame(kind, name.as_bytes()),
                (None, Some(mapping)) if !mapping.path.is_empty() => {
                    let path = &mapping.path;
                    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
                    if name.starts_with(b"[") {
                        self.folded.frame(kind, name)
                    } else {
                        let name = [b"[", name.trim_ascii(), b"]"].concat();
                        self.folded.frame(kind, &name)
                    }
                }
                (None, _) => self.folded.frame(kind, b"[unknown]"),
            };
            frames.push(id);
        }
        if stack
            .why_it_ends()
            .is_some_and(|end| end.in_words().is_some())
        {
            frames.push(self.mark("[incomplete]"));
        }
        frames.reverse();
        if self.known.len() >= MOST_STACKS {
            self.known.clear();
        }
        let frames = Frames::from(frames);
        self.known.insert(key, Arc::clone(&frames));
        frames
    }

    fn mark(&mut self, words: &str) -> FrameId {
        self.folded.frame(FrameKind::Mark, words.as_bytes())
    }

    /// Adds the absence of a thread that is back on a CPU, or whose trace has ended: with `stack`,
    /// or the one with which it left.
    fn came_back(&mut self, thread: Thread, absence: &Absence, stack: Option<Frames>) {
        let left = self.left.remove(&thread);
        let waker = self.wakers.remove(&thread);
        let name = self.paths.names().get(thread).to_vec();
        let mut path = vec![self.folded.frame(FrameKind::Thread, &name)];
        match stack.or(left) {
            Some(frames) => path.extend(frames.iter()),
            None => path.push(self.mark("[no stack]")),
        }
        if self.kind == FlameKind::OffCpu {
            if absence.blocked_ns == 0 {
                path.push(self.mark("[waits for a CPU]"));
            }
            self.folded.add(&path, absence.ns());
            return;
        }
        path.push(self.mark("[woken by]"));
        // What the waker calls last is next to what it ends.
        path.extend(waker.iter().flat_map(|frames| frames.iter().rev()));
        path.push(match &absence.waker {
            Some(Waker::Thread(task)) => {
                self.folded.frame(FrameKind::Thread, until_null(&task.comm))
            }
            Some(Waker::Interrupt) => self.mark("[interrupt]"),
            Some(Waker::SoftInterrupt) => self.mark("[soft interrupt]"),
            Some(Waker::Timer) => self.mark("[timer]"),
            Some(Waker::Unknown) | None => self.mark("[unknown]"),
        });
        self.folded.add(&path, absence.blocked_ns);
    }

    /// Remembers the stack of a thread, or that it has none.
    fn remember(stacks: &mut HashMap<Thread, Frames>, thread: Thread, frames: Option<Frames>) {
        match frames {
            Some(frames) => {
                if stacks.len() >= MOST_THREADS {
                    stacks.clear();
                }
                stacks.insert(thread, frames);
            }
            None => {
                stacks.remove(&thread);
            }
        }
    }
}

impl Consumer for Flames {
    fn idle(&mut self, now: MonotonicNs) {
        self.paths.idle(now);
    }

    fn learn_types(&mut self, types: &EventTypes) {
        self.paths.learn_types(types);
    }

    fn gap(&mut self, gap: &Gap) {
        let absences = &mut self.absences;
        self.paths.lose_and(*gap, |found| absences.add(found));
        match gap.tid {
            Some(tid) => self.left.retain(|thread, _| thread.tid != tid),
            None => {
                self.left.clear();
                self.wakers.clear();
            }
        }
    }

    fn event(&mut self, view: &EventView<'_>) -> anyhow::Result<()> {
        let (event, comm) = (&view.event, view.comm.unwrap_or_default());
        let stack = view.stack.as_ref().map(|stack| self.frames(stack));
        let header = event.header;
        let thread = Thread {
            pid: header.pid,
            tid: header.tid,
        };
        if self.kind != FlameKind::OnCpu {
            let absences = &mut self.absences;
            let paths = &mut self.paths;
            paths.go_on_and(event, comm, |found| absences.add(found), |_| {});
        }
        match header.event_type {
            EventTypeId::SAMPLE if self.kind == FlameKind::OnCpu => {
                self.has_samples = true;
                let sampled = SampleData::read_from_prefix(event.data);
                let ns = sampled.map_or(0, |(data, _)| data.sampled_ns);
                let mut path = vec![self.folded.frame(FrameKind::Thread, comm)];
                match stack {
                    Some(frames) => path.extend(frames.iter()),
                    None => path.push(self.mark("[no stack]")),
                }
                self.folded.add(&path, ns);
            }
            EventTypeId::SWITCH_OUT => Self::remember(&mut self.left, thread, stack),
            EventTypeId::WAKEUP => Self::remember(&mut self.wakers, thread, stack),
            EventTypeId::SWITCH_IN => {
                if let Some(absence) = self.absences.take(thread) {
                    self.came_back(thread, &absence, stack);
                }
            }
            EventTypeId::EXEC => self.known.retain(|(pid, ..), _| *pid != header.pid),
            _ => {}
        }
        Ok(())
    }
}
