//! Where a stream gets its events from.
//!
//! The engine knows nothing of eBPF or of trace areas: each is a [`Source`], and a test's vector
//! is a third.

use std::fmt;
use std::sync::atomic::AtomicU32;

use tracer_common::event_type::EventTypeId;

use crate::event::{EventHeader, MonotonicNs};
use crate::{EventSet, EventTypes};

/// The word that a stream's emitters wake its reader by. It can be read as long as this value
/// exists, whatever becomes of the stream.
#[doc(hidden)]
pub trait WaitingWord: fmt::Debug + Send + Sync {
    /// Returns the word.
    fn word(&self) -> &AtomicU32;
}

/// A source of events of one stream.
pub trait Source: Send {
    /// Hands over everything recorded since the last call, or a portion of it, and states a
    /// watermark: whatever a later call brings is not older than it.
    ///
    /// Events of one call may come in any order. A source that cannot state more than last time
    /// returns the same watermark again. It must not wait for longer than a few milliseconds.
    /// A source that will never bring anything again returns `MonotonicNs(u64::MAX)`.
    fn collect(&mut self, batch: &mut Batch<'_>) -> MonotonicNs;

    /// Tells whether the last [`collect`](Self::collect) has handed over a portion only, and the
    /// next one will go on.
    fn has_more(&self) -> bool {
        false
    }

    /// Tells whether the stream asks this source before all others, where there is not time for
    /// all. That is for a source whose events no process can make slow to collect.
    fn comes_first(&self) -> bool {
        false
    }

    /// Says that the stream's reader is about to sleep: a thread that records an event from now on
    /// wakes it. The reader has to [collect](Self::collect) once more before it
    /// [sleeps](Self::sleep). `false` from a source that cannot wake a reader, or not yet.
    fn announce_sleep(&mut self) -> bool {
        false
    }

    /// Sleeps until there is something new, but not for longer than `time`. After
    /// [`announce_sleep`](Self::announce_sleep) only.
    fn sleep(&mut self, time: std::time::Duration) {
        let _ = time;
    }

    /// Takes back that the reader is about to sleep.
    fn retract_sleep(&mut self) {}

    /// Returns the word that its emitters wake the reader by; `None` from a source that cannot, or
    /// not yet.
    #[doc(hidden)]
    fn waiting_word(&self) -> Option<Box<dyn WaitingWord>> {
        None
    }

    /// Keeps threads that have not begun to emit from doing so, where the source decides that.
    /// [`control`](Self::control) lets them emit again. Events that were emitted before are still
    /// collected.
    fn hold_emitters(&mut self) {}

    /// Tells the source that the stream records all that comes from now on, and keeps the newest
    /// `bytes` bytes of it, as [`event_size`](crate::sizes::event_size) counts them. Events that
    /// newer ones push out need not be handed over, if they are reported as lost. `None`: the
    /// source has to hand over all events.
    fn keep_newest(&mut self, bytes: Option<usize>) {
        let _ = bytes;
    }

    /// Has the next [`collect`](Self::collect) hand over what is there by then, and not continue
    /// with what was there before.
    fn begin_anew(&mut self) {}

    /// Tells the source that the emissions of a process have begun anew.
    #[doc(hidden)]
    fn note_begun_anew(&mut self, begun: BegunAnew) {
        let _ = begun;
    }

    /// Tells whether the source has handed over all that was emitted before that moment, by any
    /// process.
    #[doc(hidden)]
    fn has_all_before(&self, begun: BegunAnew) -> bool {
        let _ = begun;
        false
    }

    /// Has the source take events again, after it has said that it is [full](Batch::mark_full): the
    /// stream has space now, and events emitted from now on are recorded.
    fn take_again(&mut self) {}

    /// Ends the source with its stream, which no longer waits for events up to `until` that the
    /// source has not brought. The source counts these as lost ([`LossCause::NotRead`]), if that
    /// can be done by `end`; then it is not collected any more.
    fn count_unread(
        &mut self,
        until: MonotonicNs,
        end: std::time::Instant,
        batch: &mut Batch<'_>,
    ) -> Unread;

    /// Tells whether events may have been lost since this was last asked, where the source does not
    /// know whether there were any.
    fn may_have_lost(&mut self) -> bool {
        false
    }

    /// Returns the most bytes of memory that it takes to collect all that there is, and to keep it.
    fn memory_needed(&self) -> usize {
        0
    }

    /// Tells the source what the stream wants from now on, so that unwanted events are dropped
    /// where they arise. The engine filters again, exactly; a source may bring more than is wanted.
    fn control(&mut self, control: &Control);

    /// Defines a user event type where the events come from, so that the target gets the same
    /// identifier when it opens the name. `None` from a source that has no names of its own, or not
    /// yet: then the stream chooses the identifier.
    fn define_event_type(&mut self, name: &[u8]) -> Option<EventTypeId> {
        let _ = name;
        None
    }

    /// Reports the names and the source's own identifiers of all user event types that are defined
    /// where the events come from. `report` returns the stream's identifier of each, or `None`
    /// where the stream has none for it, since another type has that identifier there. A source
    /// that has no names of its own reports nothing.
    fn event_types(&mut self, report: &mut dyn FnMut(&[u8], EventTypeId) -> Option<EventTypeId>) {
        let _ = report;
    }
}

/// A moment at which the emissions under way of a process were made to begin anew: each of them is
/// recorded, or will be with a later time, whenever its thread has a CPU again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub struct BegunAnew {
    /// The process, as it calls itself.
    pub pid: i32,
    /// The moment, by the clock of the source that knows the process.
    pub ticks: u64,
}

/// Events that a source has not brought when its stream ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unread {
    /// No events.
    Nothing,
    /// Events that were counted as lost.
    Counted,
    /// Events of unknown number.
    Unknown,
}

/// State that a stream asks of its sources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Control {
    /// Whether the stream records.
    pub running: bool,
    /// The types that are not wanted, by the stream's identifiers.
    pub filter: EventSet,
}

/// Why an event was not recorded or was lost before it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum LossCause {
    /// The kernel's ring had no space.
    KernelRingFull,
    /// An eBPF program was not run because it was running on that CPU already.
    KernelMissed,
    /// A function returned while its thread was in more functions whose return was awaited than the
    /// kernel can see return.
    ReturnTooDeep,
    /// The kernel did not run an eBPF program where it should have, as later events show: a thread
    /// left a CPU that it never got, or got one though nothing had woken it; or a request to a disk
    /// was reused that never ended.
    KernelNotReported,
    /// A thread's chunk was overwritten before it was read.
    ThreadRingOverwritten,
    /// No chunk had space for a thread's event, or the controller gave no sign of life for too
    /// long.
    ThreadRingFull,
    /// No chunk was available for a thread that had none, or what there was could not be read.
    NoThreadRing,
    /// Signal handlers that emit were nested too deeply.
    NestedTooDeeply,
    /// A chunk or a ring held bytes that no emitter writes.
    Damaged,
    /// The event came after later ones had been given out already.
    Late,
    /// The event was there, and the stream ended before there was time to read it.
    NotRead,
    /// The stream was full and overwrote its oldest events (`POSIX_TRACE_LOOP`).
    StreamOverwritten,
    /// The stream was full and recorded no more (`POSIX_TRACE_UNTIL_FULL`).
    StreamFull,
    /// The process's own user was not permitted to look into it at that moment, or that was not
    /// known: the agent withheld the event.
    Withheld,
}

impl LossCause {
    /// Every cause.
    pub const ALL: [Self; 14] = [
        Self::KernelRingFull,
        Self::KernelMissed,
        Self::ReturnTooDeep,
        Self::KernelNotReported,
        Self::ThreadRingOverwritten,
        Self::ThreadRingFull,
        Self::NoThreadRing,
        Self::NestedTooDeeply,
        Self::Damaged,
        Self::Late,
        Self::NotRead,
        Self::StreamOverwritten,
        Self::StreamFull,
        Self::Withheld,
    ];

    /// Returns its identifier in logs. New causes get new ones; none is ever used again.
    #[must_use]
    pub const fn log_id(self) -> u32 {
        match self {
            Self::KernelRingFull => 1,
            Self::KernelMissed => 2,
            Self::ThreadRingOverwritten => 3,
            Self::ThreadRingFull => 4,
            Self::NoThreadRing => 5,
            Self::NestedTooDeeply => 6,
            Self::Damaged => 7,
            Self::Late => 8,
            Self::StreamOverwritten => 9,
            Self::StreamFull => 10,
            Self::ReturnTooDeep => 11,
            Self::KernelNotReported => 12,
            Self::NotRead => 13,
            Self::Withheld => 14,
        }
    }

    /// Returns its name in the closing line and in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::KernelRingFull => "kernel_ring_full",
            Self::KernelMissed => "kernel_missed",
            Self::ReturnTooDeep => "return_too_deep",
            Self::KernelNotReported => "kernel_not_told",
            Self::ThreadRingOverwritten => "thread_ring_overwritten",
            Self::ThreadRingFull => "thread_ring_full",
            Self::NoThreadRing => "no_thread_ring",
            Self::NestedTooDeeply => "nested_too_deeply",
            Self::Damaged => "damaged",
            Self::Late => "late",
            Self::NotRead => "not_read",
            Self::StreamOverwritten => "stream_overwritten",
            Self::StreamFull => "stream_full",
            Self::Withheld => "withheld",
        }
    }
}

/// Events lost in a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// Why.
    pub cause: LossCause,
    /// How many.
    pub count: u64,
    /// Time not later than the first of them, and not earlier than the last event before it; as
    /// exact as the source knows.
    pub since: MonotonicNs,
    /// Whether the stream need not mark the loss, since the source says by itself where events are
    /// missing ([`Batch::mark_missing`], [`Batch::mark_full`]), or later events show it. Otherwise
    /// events count as missing from `since` on.
    pub is_marked: bool,
}

/// Marks that sources have set.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    /// Marks that the stream has not come to yet.
    pub(crate) waiting: Vec<Mark>,
    /// The sources that have said that they are full since this was last looked at.
    pub(crate) full: Vec<u32>,
}

/// A place in the sequence of a source's events that its stream marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// The mark comes after all events that are not newer than this, and before all others.
    pub(crate) time: MonotonicNs,
    /// Whether the source had no space from then on, and takes nothing any more.
    pub(crate) is_full: bool,
}

/// One event in a [`Batch`]: where its data lies is the batch's business.
#[derive(Clone, Copy, Debug)]
pub struct Pending {
    /// Everything but the data.
    pub header: EventHeader,
    pub(crate) data_start: usize,
    pub(crate) data_length: usize,
    /// The source that has brought it, by its number in the stream.
    pub(crate) source: u32,
}

impl Pending {
    /// Returns its data, in the store that its batch appended to.
    #[must_use]
    pub fn data<'a>(&self, store: &'a [u8]) -> &'a [u8] {
        store
            .get(self.data_start..)
            .and_then(|rest| rest.get(..self.data_length))
            .unwrap_or_default()
    }
}

/// How much was in a [`Batch`].
#[derive(Clone, Copy, Debug)]
pub struct BatchMark {
    events: usize,
    data: usize,
}

/// Events, types and losses that sources hand to the engine in one round.
#[derive(Debug)]
pub struct Batch<'a> {
    types: &'a mut EventTypes,
    events: &'a mut Vec<Pending>,
    data: &'a mut Vec<u8>,
    losses: &'a mut Vec<Loss>,
    /// `None` where no source marks anything.
    marks: Option<&'a mut Marks>,
    source: u32,
    /// How many events were there before, of all sources.
    start: usize,
}

impl<'a> Batch<'a> {
    /// Returns a batch that appends to the given queues.
    pub fn new(
        types: &'a mut EventTypes,
        events: &'a mut Vec<Pending>,
        data: &'a mut Vec<u8>,
        losses: &'a mut Vec<Loss>,
    ) -> Self {
        Self {
            types,
            start: events.len(),
            events,
            data,
            losses,
            marks: None,
            source: 0,
        }
    }

    /// Returns this batch for the source with this number, which marks places in `marks`.
    pub(crate) fn for_source(self, source: u32, marks: &'a mut Marks) -> Self {
        Self {
            marks: Some(marks),
            source,
            ..self
        }
    }

    /// Adds an event with its data.
    pub fn push(&mut self, header: EventHeader, data: &[u8]) {
        self.push_with(header, |buffer| buffer.extend_from_slice(data));
    }

    /// Adds an event whose data `write` appends to the vector it is given.
    pub fn push_with(&mut self, header: EventHeader, write: impl FnOnce(&mut Vec<u8>)) {
        let data_start = self.data.len();
        write(self.data);
        let data_length = self.data.len().saturating_sub(data_start);
        self.events.push(Pending {
            header,
            data_start,
            data_length,
            source: self.source,
        });
    }

    /// Says that events of this source are missing after those that are not newer than `since`, and
    /// before all others. A stream that has a place for it marks it there.
    pub fn mark_missing(&mut self, since: MonotonicNs) {
        self.put_mark(since, false);
    }

    /// Says that this source was full at that time: all that it had space for is not newer, and it
    /// takes nothing any more until it is [opened anew](Source::take_again).
    pub fn mark_full(&mut self, at: MonotonicNs) {
        self.put_mark(at, true);
    }

    fn put_mark(&mut self, time: MonotonicNs, is_full: bool) {
        if let Some(marks) = &mut self.marks {
            marks.waiting.push(Mark { time, is_full });
            if is_full {
                marks.full.push(self.source);
            }
        }
    }

    /// Takes back the events of this source that are newer than `after`, and not newer than
    /// `until`, as far as the stream has not taken them in yet: those after the last watermark.
    /// Returns how many there were, and the time of the oldest.
    pub fn take_back(
        &mut self,
        after: MonotonicNs,
        until: MonotonicNs,
    ) -> (u64, Option<MonotonicNs>) {
        let Self { source, start, .. } = *self;
        let (mut count, mut oldest) = (0, None::<MonotonicNs>);
        let mut index = 0;
        self.events.retain(|event| {
            let time = event.header.time;
            let stays = event.source != source || time <= after || time > until;
            if !stays {
                count += 1;
                oldest = Some(oldest.map_or(time, |oldest| oldest.min(time)));
                self.start -= usize::from(index < start);
            }
            index += 1;
            stays
        });
        (count, oldest)
    }

    /// Returns how many events are here, those of other sources included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Tells whether no events are here.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Returns the events that came after the first `count` ones, with their data.
    pub fn since(&self, count: usize) -> impl Iterator<Item = (&EventHeader, &[u8])> {
        let events = self.events.get(count..).unwrap_or_default();
        events
            .iter()
            .map(|event| (&event.header, event.data(self.data)))
    }

    /// Returns the headers of the events that came to this batch. A source that passes on the
    /// events of another one, and knows more of them, can change the headers.
    pub fn new_headers(&mut self) -> impl Iterator<Item = &mut EventHeader> {
        let events = self.events.get_mut(self.start..).unwrap_or_default();
        events.iter_mut().map(|event| &mut event.header)
    }

    /// Returns the losses that are here, those of other sources included.
    #[must_use]
    pub fn losses(&self) -> &[Loss] {
        self.losses
    }

    /// Returns how much is here, for [`go_back`](Self::go_back).
    pub fn mark(&self) -> BatchMark {
        BatchMark {
            events: self.events.len(),
            data: self.data.len(),
        }
    }

    /// Takes back the events that came since the mark.
    pub fn go_back(&mut self, mark: BatchMark) {
        self.events.truncate(mark.events);
        self.data.truncate(mark.data);
    }

    /// Reports that events were lost.
    pub fn lose(&mut self, loss: Loss) {
        if loss.count > 0 {
            self.losses.push(loss);
        }
    }

    /// Tells whether the stream knows the user event type `name`.
    #[must_use]
    pub fn knows_user_event_type(&self, name: &[u8]) -> bool {
        self.types.id(name).is_some()
    }

    /// Returns the stream's identifier of the user event type `name`. `own` is its identifier in
    /// the source, if it has one: the stream uses the same, unless another type has taken it.
    pub fn user_event_type(&mut self, name: &[u8], own: Option<EventTypeId>) -> EventTypeId {
        self.types.define_user(name, own)
    }
}
