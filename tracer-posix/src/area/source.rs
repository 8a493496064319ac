//! A trace area as a source of a stream: reads its rings up to a moment that it can vouch for.

use std::collections::HashMap;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::{Duration, Instant};

use tracer_common::area::{RingEntry, StreamControl};
use tracer_common::event_type::EventTypeId;

use super::directory;
use super::find::Area;
use super::hands::{self, Stand, generation_of};
use super::mapping::{Mapping, Parts};
use super::names;
use super::process;
use super::retirement::Retirement;
use super::ring::{Consumer, Found, Ring, UntrustedRecord};
use super::slot::{self, OpenError, Slot, StreamRequest};
use super::ticks::TickClock;
use super::type_numbers::TypeNumbers;
use crate::event::{EventHeader, MonotonicNs, Truncation};
use crate::source::{Batch, Control, Loss, LossCause, Source};

use super::slot::RingMode;

/// How long a thread between the marks of an emission holds the watermark up. A thread that was
/// stopped or killed there must not hold the whole stream up; an emission takes nanoseconds.
const PATIENCE: Duration = Duration::from_millis(200);

/// Looks at a thread's marks before it is left for the next round.
const LOOKS: usize = 200;

/// How long a source that may retire has to bring nothing before it does.
const IDLE_BEFORE_RETIRING: Duration = Duration::from_secs(1);

/// One stream's user events from one area. Ends the stream in the area when dropped.
#[derive(Debug)]
pub struct AreaSource {
    area: Area,
    slot: Slot,
    mode: RingMode,
    lease: Option<Duration>,
    clock: TickClock,
    watermark: MonotonicNs,
    cursors: HashMap<usize, Cursor>,
    types: TypeNumbers,
    refused_no_ring: u64,
    refused_nesting: u64,
    retirement: Retirement,
    /// When it last brought an event.
    last_brought: Instant,
}

/// Where the reading of one ring is.
#[derive(Debug)]
struct Cursor {
    consumer: Consumer,
    data: Mapping,
    last_time: MonotonicNs,
    /// The record that was found begun and not ended, and since when.
    stuck: Option<(u64, Instant)>,
}

impl AreaSource {
    /// Opens a stream in `area`, suspended until [`Source::control`] says otherwise.
    ///
    /// # Errors
    ///
    /// See [`OpenError`].
    pub fn open(area: Area, request: &StreamRequest) -> Result<Self, OpenError> {
        let slot = Slot::take(&area, request)?;
        let clock = TickClock::new(area.ticks());
        let mut source = Self {
            slot,
            mode: request.mode,
            lease: request.lease,
            watermark: clock.time_of(clock.source().now()),
            clock,
            cursors: HashMap::new(),
            types: TypeNumbers::default(),
            refused_no_ring: 0,
            refused_nesting: 0,
            retirement: Retirement::default(),
            last_brought: Instant::now(),
            area,
        };
        source.renew_lease();
        process::streams_changed();
        Ok(source)
    }

    /// Which area this reads.
    #[must_use]
    pub fn area(&self) -> &Area {
        &self.area
    }

    /// What lets this source end.
    #[must_use]
    pub fn retirement(&self) -> Retirement {
        self.retirement.clone()
    }

    fn renew_lease(&mut self) {
        let Some(lease) = self.lease else { return };
        let until = self
            .clock
            .source()
            .now()
            .saturating_add(self.clock.ticks_in(lease));
        if let Some(control) = self.control_words() {
            control.lease_until.store(until, Relaxed);
        }
    }

    /// The stream's control words in the area.
    fn control_words(&self) -> Option<&StreamControl> {
        self.area.parts()?.stream(self.slot.index)
    }

    /// Whether there is something to read in a ring.
    fn has_more(&self, round: &Round<'_>) -> bool {
        let cursor = self.cursors.get(&round.index);
        cursor.is_some_and(|cursor| !cursor.consumer.is_at(round.stand.head))
    }

    fn lost_in_ring(&self) -> LossCause {
        match self.mode {
            RingMode::OverwriteOldest => LossCause::ThreadRingOverwritten,
            RingMode::KeepOldest => LossCause::ThreadRingFull,
        }
    }

    /// Adds what trace points refused before they had a ring.
    fn collect_refusals(&mut self, batch: &mut Batch<'_>) {
        let Some(control) = self.control_words() else {
            return;
        };
        let no_ring = control.refused_no_ring.load(Relaxed);
        let nesting = control.refused_nesting.load(Relaxed);
        let since = self.watermark;
        let counts = [
            (no_ring, &mut self.refused_no_ring, LossCause::NoThreadRing),
            (
                nesting,
                &mut self.refused_nesting,
                LossCause::NestedTooDeeply,
            ),
        ];
        for (now, known, cause) in counts {
            batch.lose(Loss {
                cause,
                count: now.saturating_sub(*known),
                since,
            });
            *known = now.max(*known);
        }
    }
}

/// A ring as it stood when the round began, and how far it may be read.
struct Round<'a> {
    index: usize,
    entry: &'a RingEntry,
    stand: Stand,
}

impl Source for AreaSource {
    fn collect(&mut self, batch: &mut Batch<'_>) -> MonotonicNs {
        self.renew_lease();
        // Every record whose clock was read before `now` either has its mark set, visibly so after
        // the barrier, or is finished: its thread set the mark before it read the clock.
        let now = self.clock.source().now();
        slot::barrier();
        let area = &self.area;
        let Some(parts) = area.parts() else {
            return self.watermark;
        };
        let mut rounds = Vec::new();
        let mut is_complete = true;
        for (index, entry) in directory::used(parts) {
            let word = entry.state.load(Acquire);
            if generation_of(word) != self.slot.generation || !hands::is_readable(word) {
                continue;
            }
            let Some(cursor) = cursor(
                &mut self.cursors,
                area,
                (index, entry),
                self.slot,
                self.watermark,
            ) else {
                continue;
            };
            is_complete &= cursor.is_settled(entry);
            rounds.push(Round {
                index,
                entry,
                stand: Stand::of(entry, word),
            });
        }
        // All that is read now was stamped before this anchor, and lies between two.
        self.clock.advance();
        let cause = self.lost_in_ring();
        if rounds.iter().any(|round| self.has_more(round)) {
            self.last_brought = Instant::now();
        }
        for round in rounds {
            let Some(cursor) = self.cursors.get_mut(&round.index) else {
                continue;
            };
            let mut reader = Reader {
                parts,
                clock: &self.clock,
                types: &mut self.types,
                cause,
            };
            reader.read(cursor, &round, batch);
        }
        self.collect_refusals(batch);
        if is_complete {
            self.watermark = self.watermark.max(self.clock.time_of(now));
        }
        self.apply_filter();
        let is_idle = self.last_brought.elapsed() > IDLE_BEFORE_RETIRING;
        if is_idle && self.retirement.is_allowed() {
            self.retirement.end();
            return MonotonicNs(u64::MAX);
        }
        self.watermark
    }

    fn control(&mut self, control: &Control) {
        self.types.filter = Some(control.filter);
        self.types.is_changed = true;
        self.apply_filter();
        self.renew_lease();
        if let Some(parts) = self.area.parts() {
            self.slot.set_running(parts, control.running);
        }
    }

    fn define_event_type(&mut self, name: &[u8]) -> Option<EventTypeId> {
        self.area.define_name(name).ok()
    }

    fn event_types(&mut self, tell: &mut dyn FnMut(&[u8], EventTypeId) -> EventTypeId) {
        if let Some(parts) = self.area.parts() {
            names::for_each(parts, &mut |name, own| {
                let number = tell(name, own);
                self.types.learn(own, number);
            });
        }
        self.apply_filter();
    }
}

impl AreaSource {
    /// Writes the filter into the area, in the area's numbers. A type whose number in the stream is
    /// not known yet passes, unless no user type does: the engine filters again.
    fn apply_filter(&mut self) {
        if !std::mem::take(&mut self.types.is_changed) {
            return;
        }
        let Some(filter) = &self.types.filter else {
            return;
        };
        let Some(control) = self
            .area
            .parts()
            .and_then(|parts| parts.stream(self.slot.index))
        else {
            return;
        };
        let is_no_user_type_wanted = filter.holds_every_user_type();
        for (index, word) in control.filter.iter().enumerate() {
            let bits = (0..64_u32).filter(|bit| {
                let own = u32::try_from(index * 64)
                    .unwrap_or(u32::MAX)
                    .saturating_add(*bit);
                let known = self.types.known(EventTypeId(own));
                known.map_or(is_no_user_type_wanted, |id| filter.contains(id))
            });
            word.store(bits.fold(0, |word, bit| word | 1 << bit), Release);
        }
    }
}

impl Drop for AreaSource {
    fn drop(&mut self) {
        self.slot.give_back(&self.area);
        process::streams_changed();
    }
}

/// The cursor of a ring; a new one where the ring was not seen before. `None` where the ring's data
/// cannot be mapped as the directory says.
fn cursor<'a>(
    cursors: &'a mut HashMap<usize, Cursor>,
    area: &Area,
    (index, entry): (usize, &RingEntry),
    slot: Slot,
    watermark: MonotonicNs,
) -> Option<&'a mut Cursor> {
    use std::collections::hash_map::Entry;
    match cursors.entry(index) {
        Entry::Occupied(known) => Some(known.into_mut()),
        Entry::Vacant(new) => {
            // Rings are made in one size: whatever else the directory says is not believed.
            let data = area.map_data(entry.data_offset.load(Relaxed), slot.ring_bytes)?;
            Some(new.insert(Cursor {
                consumer: Consumer::new(hands::before_first(slot.generation)),
                data,
                last_time: watermark,
                stuck: None,
            }))
        }
    }
}

impl Cursor {
    /// Whether nothing older than the round's beginning can still come from this ring, or its thread
    /// has been between the marks for so long that it is not waited for.
    fn is_settled(&mut self, entry: &RingEntry) -> bool {
        for _ in 0..LOOKS {
            let Some(begun) = hands::under_way(entry) else {
                self.stuck = None;
                return true;
            };
            match self.stuck {
                // Another record than the one that was found under way: that one is done.
                Some((earlier, _)) if earlier != begun => self.stuck = None,
                Some((_, since)) if since.elapsed() > PATIENCE => return true,
                Some(_) => {}
                None => self.stuck = Some((begun, Instant::now())),
            }
            std::hint::spin_loop();
        }
        false
    }
}

/// What reading a ring needs beside the ring.
struct Reader<'a> {
    parts: Parts<'a>,
    clock: &'a TickClock,
    types: &'a mut TypeNumbers,
    cause: LossCause,
}

impl Reader<'_> {
    fn read(&mut self, cursor: &mut Cursor, round: &Round<'_>, batch: &mut Batch<'_>) {
        let Cursor {
            consumer,
            data,
            last_time,
            ..
        } = cursor;
        let entry = round.entry;
        let Some(ring) = Ring::new(entry, data.words()) else {
            return;
        };
        let identity = Identity {
            pid: entry.pid.load(Relaxed),
            tid: entry.tid.load(Relaxed),
            thread_id: entry.thread_id.load(Relaxed),
        };
        let lose = |cause, count, since, batch: &mut Batch<'_>| {
            batch.lose(Loss {
                cause,
                count,
                since,
            });
        };
        let mut data = Vec::new();
        loop {
            data.clear();
            match consumer.next(ring, round.stand.head, &mut data) {
                Found::Record(record) => {
                    lose(self.cause, record.lost_before, *last_time, batch);
                    match self.header(&record, &identity, batch) {
                        Some(mut header) => {
                            // Two readings of the counter without a fence may change places.
                            header.time = header.time.max(*last_time);
                            *last_time = header.time;
                            batch.push(header, &data);
                        }
                        None => lose(LossCause::Damaged, 1, *last_time, batch),
                    }
                }
                Found::Damage => lose(LossCause::Damaged, 1, *last_time, batch),
                Found::Nothing => break,
            }
        }
        lose(
            self.cause,
            consumer.lost_at_end(round.stand.ended),
            *last_time,
            batch,
        );
        consumer.publish(ring);
        round.stand.free_if_left(entry, consumer);
    }

    fn header(
        &mut self,
        record: &UntrustedRecord,
        identity: &Identity,
        batch: &mut Batch<'_>,
    ) -> Option<EventHeader> {
        let event_type = self.types.number(self.parts, record.event_type, batch)?;
        // The anchor was taken after the record was: a later time is one that nobody read.
        let time = self.clock.time_of(record.ticks).min(self.clock.newest());
        Some(EventHeader {
            time,
            event_type,
            pid: identity.pid,
            tid: identity.tid,
            cpu: record.cpu,
            thread_id: identity.thread_id,
            program_address: record.address,
            truncation: if record.is_cut {
                Truncation::Record
            } else {
                Truncation::None
            },
        })
    }
}

/// Whose ring it is.
struct Identity {
    pid: i32,
    tid: i32,
    thread_id: u64,
}
