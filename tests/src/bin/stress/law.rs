//! The law of contiguity, held against what emitters that run at once say of themselves: between
//! two places where a loss is marked no event of any sender is missing, and what is missing there
//! was emitted there.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

use anyhow::{Context as _, ensure};
use tracer_area::monotonic_now;
use tracer_engine::event::{EventHeader, MonotonicNs};
use tracer_posix::EventTypeId;
use tracer_posix::emit::UserEvent;

/// Senders of one round: threads and children.
pub const SENDERS: usize = 16;
/// Emissions of a sender whose times are remembered.
const REMEMBERED: usize = 1 << 15;
/// Tolerance between two clocks: the emitter's own, and the reader's interpolation of its ticks.
const TOLERANCE_NS: u64 = 50_000;

/// Number and times of one emission.
struct Emission {
    /// Number of the event, plus one.
    number: AtomicU64,
    begin: AtomicU64,
    /// 0 until the emission has ended.
    end: AtomicU64,
}

/// Emissions of one sender.
pub struct Sender {
    pub begun: AtomicU64,
    /// Time before its process was made; 0 for a thread.
    pub made: AtomicU64,
    emissions: [Emission; REMEMBERED],
}

/// State that all processes of a round share: it lies in a file, whose bytes are zero at first.
pub struct Shared {
    pub is_over: AtomicBool,
    /// Number of readers that are ready.
    pub ready: AtomicU32,
    /// Number of senders at work.
    pub at_work: AtomicU32,
    pub senders: [Sender; SENDERS],
}

impl Shared {
    pub fn begin(&self) {
        for sender in &self.senders {
            sender.begun.store(0, Relaxed);
            sender.made.store(0, Relaxed);
            for emission in &sender.emissions {
                emission.number.store(0, Relaxed);
            }
        }
        self.ready.store(0, Relaxed);
        self.at_work.store(0, Relaxed);
        self.is_over.store(false, Release);
    }

    /// Emits the next event of a sender: its index, and the number of the event.
    pub fn emit(&self, event: UserEvent, sender: usize, filling: usize) {
        let Some(Sender {
            begun, emissions, ..
        }) = self.senders.get(sender)
        else {
            return;
        };
        let number = begun.load(Relaxed);
        let mut data = [0; 16 + 64];
        data[..8].copy_from_slice(&(sender as u64).to_ne_bytes());
        data[8..16].copy_from_slice(&number.to_ne_bytes());
        let slot = usize::try_from(number).unwrap_or(0) % REMEMBERED;
        if let Some(emission) = emissions.get(slot) {
            emission.number.store(0, Release);
            emission.begin.store(monotonic_now().0, Relaxed);
            emission.end.store(0, Relaxed);
            emission.number.store(number + 1, Release);
            begun.store(number + 1, Release);
            event.emit(&data[..16 + filling.min(64)]);
            emission.end.store(monotonic_now().0, Release);
        }
    }

    /// Returns when an emission began, and when it ended, if it has. `None` where that is no longer
    /// remembered.
    fn emission(&self, sender: usize, number: u64) -> Option<(u64, Option<u64>)> {
        let slot = usize::try_from(number).ok()? % REMEMBERED;
        let emission = self.senders.get(sender)?.emissions.get(slot)?;
        if emission.number.load(Acquire) != number + 1 {
            return None;
        }
        let (begin, end) = (emission.begin.load(Relaxed), emission.end.load(Acquire));
        let is_same = emission.number.load(Acquire) == number + 1;
        is_same.then_some((begin, (end != 0).then_some(end)))
    }
}

/// Progress of a reader through a stream, against which the law is checked.
pub struct Law<'a> {
    shared: &'a Shared,
    event: EventTypeId,
    /// Number of the next event of each sender, and the stretch of its last one.
    next: [(u64, u64); SENDERS],
    /// Number of stretches between marks so far. `since` is the time of the current one's first
    /// event.
    stretch: u64,
    since: Option<MonotonicNs>,
    /// Time of the first event of all.
    first: Option<MonotonicNs>,
    is_stopped: bool,
    pub seen: u64,
}

impl<'a> Law<'a> {
    /// Begins with a stream of which nothing was read; `is_late` where the senders had begun before
    /// it.
    pub fn new(shared: &'a Shared, event: EventTypeId, is_late: bool) -> Self {
        Self {
            shared,
            event,
            next: [(0, 0); SENDERS],
            stretch: u64::from(is_late),
            since: None,
            first: None,
            is_stopped: false,
            seen: 0,
        }
    }

    /// Takes the next event that the stream gives out.
    pub fn take(&mut self, header: &EventHeader, data: &[u8]) -> anyhow::Result<()> {
        self.first.get_or_insert(header.time);
        match header.event_type {
            EventTypeId::OVERFLOW | EventTypeId::STOP => self.mark(header)?,
            EventTypeId::START => self.is_stopped = false,
            id if id == self.event => self.event(header.time, data)?,
            _ => {}
        }
        Ok(())
    }

    /// Takes a mark, from which on events may be missing. Checks that no event is missing that
    /// began after the first one of this stretch and had ended before the mark.
    fn mark(&mut self, header: &EventHeader) -> anyhow::Result<()> {
        self.stretch += 1;
        self.is_stopped = header.event_type == EventTypeId::STOP;
        let Some(since) = self.since.take() else {
            return Ok(());
        };
        for (sender, (next, _)) in self.next.iter().enumerate() {
            if self.may_be_untraced(sender) {
                continue;
            }
            if let Some((begin, Some(end))) = self.shared.emission(sender, *next) {
                ensure!(
                    begin < since.0 + TOLERANCE_NS || end + TOLERANCE_NS >= header.time.0,
                    "event {next} of sender {sender} is missing, which began {} ns after the \
                     first and was over {} ns before {:?}",
                    begin - since.0,
                    header.time.0 - end,
                    header.event_type
                );
            }
        }
        Ok(())
    }

    fn event(&mut self, time: MonotonicNs, data: &[u8]) -> anyhow::Result<()> {
        let (sender, rest) = data.split_first_chunk().context("no sender")?;
        let number = rest.first_chunk().context("no number")?;
        let sender = usize::try_from(u64::from_ne_bytes(*sender))?;
        let number = u64::from_ne_bytes(*number);
        let since = *self.since.get_or_insert(time);
        let (next, last) = *self.next.get(sender).context("no such sender")?;
        ensure!(number >= next, "{number} of sender {sender} after {next}");
        ensure!(
            number == next || last < self.stretch,
            "events {next} to {number} of sender {sender} are missing without a mark"
        );
        if number > next
            && let Some((begin, _)) = self.shared.emission(sender, number - 1)
        {
            ensure!(
                begin <= since.0 + TOLERANCE_NS,
                "event {} of sender {sender} is missing, which began {} ns after the others' first",
                number - 1,
                begin - since.0
            );
        }
        self.next[sender] = (number + 1, self.stretch);
        self.seen += 1;
        Ok(())
    }

    /// Tells whether a sender is a child that was made before the stream, which does not trace it.
    /// On a busy machine it may run for the first time only after that.
    fn may_be_untraced(&self, sender: usize) -> bool {
        let is_unseen = self.next.get(sender).is_none_or(|(next, _)| *next == 0);
        let made = self
            .shared
            .senders
            .get(sender)
            .map(|s| s.made.load(Relaxed));
        let is_before = |first: MonotonicNs| made.is_some_and(|made| made != 0 && made < first.0);
        is_unseen && self.first.is_some_and(is_before)
    }

    /// Checks the end, when everything was read and all emissions are over: the missing events at
    /// the end are older than those that are there, unless the stream has stopped.
    pub fn end(&self) -> anyhow::Result<()> {
        let Some(since) = self.since.filter(|_| !self.is_stopped) else {
            return Ok(());
        };
        for (sender, (next, _)) in self.next.iter().enumerate() {
            if self.may_be_untraced(sender) {
                continue;
            }
            if let Some((begin, _)) = self.shared.emission(sender, *next) {
                ensure!(
                    begin < since.0 + TOLERANCE_NS,
                    "the newest events of sender {sender} are missing, from {next} on"
                );
            }
        }
        Ok(())
    }
}
