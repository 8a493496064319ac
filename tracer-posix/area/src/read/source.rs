//! A trace area as a source of a stream: reads its chunks up to a moment that it can vouch for.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::time::{Duration, Instant};

use tracer_common::area::StreamControl;
use tracer_common::event_type::EventTypeId;

use super::effort::Effort;
use super::look::Look;
use super::reading::{self, Reading};
use super::round::Round;
use super::slice::Slice;
use super::slot::{RingMode, Slot, SlotError, StreamRequest};
use super::type_ids::{NameShare, Whose};
use crate::discover::find::Area;
use crate::discover::reader_windows::AreaWindows;
use crate::emit::{own_types, process};
use crate::layout::chunk_ref::Shape;
use crate::layout::gate;
use crate::layout::mapping::Parts;
use crate::layout::names::{self, Use};
use crate::layout::pool::Pool;
use crate::layout::ticks::TickClock;
use crate::layout::wake;
use crate::system::pids::own_pid;
use crate::system::thread;
use tracer_engine::event::MonotonicNs;
use tracer_engine::source::{
    Batch, BegunAnew, Control, Loss, LossCause, Source, Unread, WaitingWord,
};

/// Time without an event after which a source that may retire does so.
const IDLE_BEFORE_RETIRING: Duration = Duration::from_secs(1);

/// Least bytes that a round reads for their memory to go back to the machine; they also have to be
/// more than an eighth of the stream. A reader that finds so much at once does not come often, and
/// retains the events in its own memory from then on.
const RELEASED_AT_LEAST: u64 = 1 << 20;

/// Threads for which a stream has memory from the beginning.
const USUAL_WRITERS: usize = 16;

/// One stream's user events from one area. Ends the stream in the area when dropped.
#[derive(Debug)]
pub struct AreaSource {
    area: Area,
    slot: Slot,
    lease: Option<Duration>,
    /// Whether all threads that may emit are this process's.
    has_only_own_threads: bool,
    watermark: MonotonicNs,
    /// Time up to which it has brought everything. The watermark may be later, where the other
    /// sources need not wait for this one.
    has: MonotonicNs,
    reading: Reading,
    /// The look that has begun and has not ended yet.
    look: Option<Look>,
    /// The round that has begun and is not read yet.
    round: Option<Round>,
    /// Cost of the look and the round.
    effort: Effort,
    /// Bytes of a round above which the memory of what was read goes back to the machine.
    release_above: u64,
    refused_no_chunk: u64,
    refused_nested: u64,
    retirement: Retirement,
    /// Chunks of the stream as it was asked for, with those of the usual threads.
    least_chunks: usize,
    /// When it last brought an event.
    last_brought: Instant,
}

/// A handle that allows a source to end, for code that knows whether its area is still used.
#[derive(Clone, Debug, Default)]
pub struct Retirement(Arc<RetirementState>);

#[derive(Debug, Default)]
struct RetirementState {
    may_end: AtomicBool,
    has_ended: AtomicBool,
}

impl Retirement {
    /// Says whether the source may end. It does once it has brought nothing for a second; while
    /// events still come, it goes on.
    pub fn allow(&self, may_end: bool) {
        self.0.may_end.store(may_end, Relaxed);
    }

    /// Tells whether the source may end.
    pub(super) fn is_allowed(&self) -> bool {
        self.0.may_end.load(Relaxed)
    }

    /// Notes that the source has ended.
    pub(super) fn end(&self) {
        self.0.has_ended.store(true, Relaxed);
    }

    /// Tells whether the source has ended: it will bring nothing again, whatever is allowed now.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.0.has_ended.load(Relaxed)
    }
}

impl AreaSource {
    /// Opens a stream in `area`, suspended until [`Source::control`] says otherwise.
    ///
    /// # Errors
    ///
    /// See [`SlotError`].
    pub fn open(area: Area, request: &StreamRequest) -> Result<Self, SlotError> {
        Self::open_on_heap(area, request).map(|source| *source)
    }

    /// Opens a stream as [`open`](Self::open) does, and returns the source on the heap: it is
    /// large, and a thread may have little stack.
    #[inline(never)]
    pub(super) fn open_on_heap(
        area: Area,
        request: &StreamRequest,
    ) -> Result<Box<Self>, SlotError> {
        let slot = Slot::take(&area, request)?;
        let clock = TickClock::new(area.ticks());
        // Nothing older can come.
        let opened = clock.time_of(clock.source().now());
        let mut source = Box::new(Self {
            slot,
            lease: request.lease,
            has_only_own_threads: area.is_own()
                && request.target == Some(own_pid())
                && !request.inherit,
            watermark: opened,
            has: opened,
            reading: Reading::new(clock, lost_in_pool(request.mode)),
            look: None,
            round: None,
            effort: Effort::new(request),
            release_above: u64::try_from(request.bytes / 8)
                .map_or(u64::MAX, |bytes| bytes.max(RELEASED_AT_LEAST)),
            refused_no_chunk: 0,
            refused_nested: 0,
            retirement: Retirement::default(),
            least_chunks: least_chunks(request),
            last_brought: Instant::now(),
            area,
        });
        source.reading.types.whose = match request.target {
            Some(target) if target == own_pid() && source.area.is_own() => Whose::Own,
            Some(_) => Whose::Targets(source.target_pid()),
            None => Whose::Anybodys,
        };
        source.renew_lease();
        process::streams_changed();
        Ok(source)
    }

    /// Returns the area that this reads.
    #[must_use]
    pub fn area(&self) -> &Area {
        &self.area
    }

    /// Returns the handle that lets this source end.
    #[must_use]
    pub fn retirement(&self) -> Retirement {
        self.retirement.clone()
    }

    /// Lets the area bring names of event types into the stream as `share` says, and no more.
    pub fn share_names(&mut self, share: Box<dyn NameShare>) {
        self.reading.types.share = Some(share);
    }

    fn renew_lease(&mut self) {
        let Some(lease) = self.lease else { return };
        let until = self
            .reading
            .clock
            .source()
            .now()
            .saturating_add(self.reading.clock.ticks_in(lease));
        if let Some(control) = self.control_words() {
            gate::renew_lease(control, until);
        }
    }

    /// Returns the traced process as it calls itself.
    fn target_pid(&self) -> i32 {
        let control = self.control_words();
        control.map_or(0, |words| words.target_pid.load(Relaxed))
    }

    /// Returns the stream's control words in the area.
    fn control_words(&self) -> Option<&StreamControl> {
        self.area.parts()?.stream(self.slot.index)
    }

    /// Adds what trace points refused before they had a chunk.
    fn collect_refusals(&mut self, batch: &mut Batch<'_>) {
        self.reading.types.note_refused(self.area.names_refused());
        let Some(control) = self.control_words() else {
            return;
        };
        let no_chunk = control.refused_no_chunk.load(Relaxed);
        let nesting = control.refused_nested.load(Relaxed);
        let since = self.watermark;
        // The number of events in such a window is unknown: it counts as one.
        let failures = self.area.windows().take_failures();
        let unfollowed = self.reading.chains.take_refused();
        let mut lose = |cause, count, is_marked| {
            batch.lose(Loss {
                cause,
                count,
                since,
                is_marked,
            });
        };
        lose(LossCause::NoThreadRing, failures, false);
        lose(LossCause::NoThreadRing, unfollowed, false);
        // Where nothing is overwritten, such a refusal has shut the gate.
        let is_gate_shut = self.reading.cause == LossCause::ThreadRingFull;
        let no_chunk = newly(no_chunk, &mut self.refused_no_chunk);
        lose(LossCause::NoThreadRing, no_chunk, is_gate_shut);
        let nesting = newly(nesting, &mut self.refused_nested);
        lose(LossCause::NestedTooDeeply, nesting, false);
    }
}

/// Returns by how much a count has grown since it was `known`. A count that another process has
/// taken back has not grown.
fn newly(now: u64, known: &mut u64) -> u64 {
    let grown = now.saturating_sub(*known);
    *known = now.max(*known);
    grown
}

/// Returns the most bytes of memory that it takes to read a stream as it is asked for.
pub(super) fn memory_to_be_needed(request: &StreamRequest) -> usize {
    let chunk_bytes = Shape::for_data(u32::try_from(request.max_data).unwrap_or(u32::MAX));
    let chunk_bytes = usize::try_from(chunk_bytes).unwrap_or(usize::MAX);
    reading::memory_needed(least_chunks(request), USUAL_WRITERS, chunk_bytes)
}

fn least_chunks(request: &StreamRequest) -> usize {
    let max_data = u32::try_from(request.max_data).unwrap_or(u32::MAX);
    let shape = Shape::new(Shape::for_data(max_data));
    let chunks = shape.map_or(0, |shape| shape.for_size(request.bytes, max_data));
    let chunks = usize::try_from(chunks).unwrap_or(usize::MAX);
    // Each thread may have one open chunk, and one that it has left.
    chunks.saturating_add(2 * USUAL_WRITERS)
}

/// Returns why events are lost in a stream of this mode.
fn lost_in_pool(mode: RingMode) -> LossCause {
    match mode {
        RingMode::OverwriteOldest => LossCause::ThreadRingOverwritten,
        RingMode::KeepOldest => LossCause::ThreadRingFull,
    }
}

impl Source for AreaSource {
    fn collect(&mut self, batch: &mut Batch<'_>) -> MonotonicNs {
        self.renew_lease();
        self.reading.bounds.passed = self.watermark;
        self.area.trim_windows();
        let area = &self.area;
        let Some(parts) = area.parts() else {
            return self.watermark;
        };
        let Some(pool) = pool(area, parts, self.slot) else {
            return self.watermark;
        };
        let slice = Slice::begin(&pool.windows);
        let mut round = match self.round.take() {
            Some(round) => round,
            None => {
                let mut look = self.look.take().unwrap_or_else(|| {
                    self.effort.begin(steps(&self.reading, &pool.windows));
                    // After the barrier, an emission that read the clock before `now` has left its
                    // record, or begins anew with a later time, or has its mark set: its thread set
                    // the mark before it read the clock.
                    let now = self.reading.clock.source().now();
                    // No event that is recorded later has this same time either.
                    self.reading.clock.source().let_tick_pass();
                    let has_restarted = area.is_own() && process::restart_emissions();
                    if !(has_restarted && self.has_only_own_threads) {
                        thread::membarrier();
                    }
                    self.reading.begin_look(&pool, now, has_restarted, &slice)
                });
                if !(self.reading).go_on_looking(&pool, area, &mut look, &slice) {
                    self.look = Some(look);
                    self.watermark = self.waited_for(self.watermark);
                    return self.watermark;
                }
                let round = look.into_round();
                self.reading.keep_contiguous(&pool, &round, batch);
                round
            }
        };
        if self.reading.read_portion(&pool, &mut round, batch, &slice) {
            self.last_brought = Instant::now();
        }
        if let Some(consumed) = round.consumed() {
            pool.control.consumed.store(consumed, Release);
            if round.bytes > self.release_above && area.may_be_released() {
                pool.release_read(consumed);
            }
        }
        let settled = self.reading.settled();
        let until = round.until().map_or(settled, |until| until.min(settled));
        let Reading { bounds, clock, .. } = &mut self.reading;
        bounds.tell_missing(until, clock, batch);
        self.has = self.has.max(until);
        self.watermark = self.watermark.max(until);
        if !round.is_read() {
            self.round = Some(round);
            self.watermark = self.waited_for(self.watermark);
            return self.watermark;
        }
        self.reading.end_round(&round, batch);
        let settled = self.reading.settled;
        let Reading { bounds, clock, .. } = &mut self.reading;
        bounds.tell(round.now, settled, clock, batch);
        self.collect_refusals(batch);
        self.apply_filter();
        let is_idle = self.last_brought.elapsed() > IDLE_BEFORE_RETIRING;
        if is_idle && self.retirement.is_allowed() {
            self.retirement.end();
            return MonotonicNs(u64::MAX);
        }
        self.watermark
    }

    fn take_again(&mut self) {
        let Some(control) = self.control_words() else {
            return;
        };
        let since = gate::shut_since(control).or(self.reading.bounds.shut_since());
        let Some(since) = since else { return };
        gate::open(control);
        // A thread that has seen the gate shut has read the clock before this.
        thread::membarrier();
        let now = self.reading.clock.source().now();
        self.reading.bounds.open(since, now);
    }

    fn has_more(&self) -> bool {
        self.look.is_some() || self.round.is_some()
    }

    fn announce_sleep(&mut self) -> bool {
        let control = self.control_words();
        control
            .map(|words| wake::announce(&words.waiting))
            .is_some()
    }

    fn sleep(&mut self, time: Duration) {
        if let Some(words) = self.control_words() {
            wake::sleep(&words.waiting, time);
        }
    }

    fn waiting_word(&self) -> Option<Box<dyn WaitingWord>> {
        self.area.waiting_word(self.slot.index)
    }

    fn retract_sleep(&mut self) {
        if let Some(words) = self.control_words() {
            wake::retract(&words.waiting);
        }
    }

    fn control(&mut self, control: &Control) {
        self.reading.types.filter = Some(control.filter);
        self.reading.types.is_changed = true;
        self.apply_filter();
        self.renew_lease();
        if let Some(parts) = self.area.parts() {
            self.slot.set_running(parts, control.running);
        }
    }

    fn hold_emitters(&mut self) {
        if let Some(parts) = self.area.parts() {
            self.slot.set_running(parts, false);
        }
    }

    fn keep_newest(&mut self, bytes: Option<usize>) {
        self.reading.keeps = bytes.and_then(|bytes| u64::try_from(bytes).ok());
    }

    fn begin_anew(&mut self) {
        let was_looking = self.look.take().is_some();
        if self.round.take().is_some() || was_looking {
            self.reading.look_again();
        }
    }

    fn note_begun_anew(&mut self, begun: BegunAnew) {
        self.reading.begun_anew = Some(begun);
    }

    fn has_all_before(&self, begun: BegunAnew) -> bool {
        !self.has_more() && self.reading.settled >= begun.ticks
    }

    fn count_unread(&mut self, until: MonotonicNs, end: Instant, batch: &mut Batch<'_>) -> Unread {
        if self.has >= until {
            return Unread::Nothing;
        }
        let area = &self.area;
        let pool = area.parts().and_then(|parts| pool(area, parts, self.slot));
        let Some(pool) = pool else {
            return Unread::Unknown;
        };
        let is_all = self.reading.count_unread(&pool, end, batch);
        self.collect_refusals(batch);
        if is_all {
            Unread::Counted
        } else {
            Unread::Unknown
        }
    }

    fn memory_needed(&self) -> usize {
        let (Some(parts), Some(control)) = (self.area.parts(), self.control_words()) else {
            return 0;
        };
        let count = |word: &AtomicU32| usize::try_from(word.load(Relaxed)).unwrap_or(0);
        let chains = count(&parts.header().chain_count);
        let chunks = count(&control.fresh).max(self.least_chunks);
        reading::memory_needed(
            chunks,
            chains.max(USUAL_WRITERS),
            self.slot.shape.chunk_bytes,
        )
    }

    fn define_event_type(&mut self, name: &[u8]) -> Option<EventTypeId> {
        self.reading.types.tell_again();
        let parts = self.area.parts()?;
        if self.reading.types.whose == Whose::Own {
            return own_types::define(parts, name).ok();
        }
        // The area has the name before the target opens it, so that the filter knows the type.
        let unknown = Use::Identified(EventTypeId(0));
        let known = names::find(parts, name).or_else(|| names::add(parts, name, unknown));
        names::first_id(parts, known?)
    }

    fn event_types(&mut self, report: &mut dyn FnMut(&[u8], EventTypeId) -> Option<EventTypeId>) {
        if let Some(parts) = self.area.parts() {
            self.reading.types.report(parts, report);
        }
        self.apply_filter();
    }
}

impl AreaSource {
    /// Returns the watermark of this source, which has everything up to `has`. It is later where
    /// the other sources need not wait for this one any longer.
    fn waited_for(&self, has: MonotonicNs) -> MonotonicNs {
        let steps = steps(&self.reading, &self.area.windows());
        if self.effort.is_too_much(steps) {
            // Older events that it still brings are late then, and are counted.
            let clock = &self.reading.clock;
            return has.max(clock.time_of(clock.source().now()));
        }
        has
    }

    /// Writes the filter into the area, by the numbers that the types have there.
    fn apply_filter(&mut self) {
        if !std::mem::take(&mut self.reading.types.is_changed) {
            return;
        }
        let Some(filter) = &self.reading.types.filter else {
            return;
        };
        let Some(parts) = self.area.parts() else {
            return;
        };
        let words = self.reading.types.filter_words(filter);
        for (word, value) in parts.filter(self.slot.index).zip(words) {
            word.store(value, Release);
        }
    }
}

impl Drop for AreaSource {
    fn drop(&mut self) {
        self.slot.give_back(&self.area);
        process::streams_changed();
    }
}

/// Returns the steps that reading has taken so far beside its events.
fn steps(reading: &Reading, windows: &AreaWindows<'_>) -> u64 {
    windows.mappings().wrapping_add(reading.waits.get())
}

/// Returns the stream's pool as this process sees it.
fn pool<'a>(area: &'a Area, parts: Parts<'a>, slot: Slot) -> Option<Pool<'a, AreaWindows<'a>>> {
    Some(Pool {
        parts,
        slot: slot.index,
        control: parts.stream(slot.index)?,
        generation: slot.generation,
        shape: slot.shape,
        windows: area.windows(),
    })
}
