//! Reading one chunk, and what is known of it and of its chain.

#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        reason = "another process may write anything"
    )
)]

use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::atomic::fence;
use std::time::{Duration, Instant};

use tracer_common::area::IDENTITY_RECORD;

use super::bounds::Bounds;
use super::round::{ChunkSnapshot, turn};
use super::type_ids::{TypeIds, UntrustedType};
use crate::discover::reader_windows::AreaWindows;
use crate::layout::chunk::{Cursor, Found, Head, UntrustedRecord};
use crate::layout::identity::Identity;
use crate::layout::pool::Pool;
use crate::layout::ticks::TickClock;
use tracer_engine::event::{EventHeader, MonotonicNs, Truncation};
use tracer_engine::source::{Batch, Loss, LossCause};

/// Longest time for which a thread amid an emission holds the watermark up, where it cannot be made
/// to begin anew. A thread that was stopped there must not hold the whole stream up; an emission
/// takes nanoseconds.
const TIMEOUT: Duration = Duration::from_millis(200);

/// Number of looks at a thread's mark before the mark is left for the next round.
const LOOKS: usize = 200;

/// Progress of reading in one chunk.
#[derive(Debug)]
pub(super) struct ChunkCursor {
    pub(super) turn: u64,
    pub(super) cursor: Cursor,
    /// Number of events that were read or given up.
    pub(super) events: u64,
    /// Number of refused events that were reported.
    pub(super) refused: u64,
    pub(super) identity: Identity,
    /// Time, in ticks, before which nothing new can come from the chunk.
    pub(super) settled: u64,
    /// Time of the newest event that was read, in ticks. Events that its thread records later are
    /// not older.
    pub(super) newest: u64,
    /// The mark that was found set, and since when.
    pub(super) stuck: Option<Stuck>,
}

/// A mark that was found set.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stuck {
    pub(super) begun: Head,
    pub(super) since: Instant,
    /// The time of the round that has found it.
    pub(super) round: u64,
}

/// Progress of reading in one chain.
#[derive(Debug)]
pub(super) struct ChainCursor {
    /// Events that were read or reported as lost.
    pub(super) accounted: u64,
    pub(super) last_time: MonotonicNs,
}

impl ChainCursor {
    pub(super) fn new(last_time: MonotonicNs) -> Self {
        Self {
            accounted: 0,
            last_time,
        }
    }

    /// Returns how many events of the chain are missing before the one with this index.
    pub(super) fn missing_before(&self, index: u64) -> u64 {
        let missing = index.wrapping_sub(self.accounted);
        // Where more events were accounted for already, this is "negative".
        if missing > u64::MAX / 2 { 0 } else { missing }
    }

    /// Accounts for all events of the chain up to this index: they were read, or are lost.
    pub(super) fn account_up_to(&mut self, events: u64, cause: LossCause, batch: &mut Batch<'_>) {
        let lost = self.missing_before(events);
        if lost == 0 {
            return;
        }
        self.accounted = events;
        batch.lose(Loss {
            cause,
            count: lost,
            since: self.last_time,
            is_marked: true,
        });
    }
}

impl ChunkCursor {
    pub(super) fn new(turn: u64, settled: u64) -> Self {
        Self {
            turn,
            cursor: Cursor::START,
            events: 0,
            refused: 0,
            identity: Identity::default(),
            settled,
            newest: 0,
            stuck: None,
        }
    }

    /// Finds out up to which time everything is in the chunk. The reader does not wait for a thread
    /// that has been amid a record for too long, or that has ended.
    pub(super) fn settle(
        &mut self,
        now: u64,
        under_way: impl Fn() -> Option<Head>,
        has_ended: impl Fn() -> bool,
    ) {
        for _ in 0..LOOKS {
            let Some(begun) = under_way() else {
                self.stuck = None;
                self.settled = now;
                return;
            };
            match self.stuck {
                // The record under way is another one than before: it was begun after that round.
                Some(earlier) if earlier.begun != begun => {
                    self.settled = self.settled.max(earlier.round);
                    self.stuck = None;
                }
                Some(earlier) if earlier.since.elapsed() > TIMEOUT => {
                    self.settled = now;
                    return;
                }
                Some(_) => {}
                None => {
                    self.stuck = Some(Stuck {
                        begun,
                        since: Instant::now(),
                        round: now,
                    });
                }
            }
            std::hint::spin_loop();
        }
        self.settled = self.settled.max(self.newest.min(now));
        if has_ended() {
            self.settled = now;
        }
    }
}

/// The state that reading a chunk needs beside the chunk.
pub(super) struct Reader<'a, 'b> {
    pub(super) pool: &'a Pool<'b, AreaWindows<'b>>,
    pub(super) clock: &'a TickClock,
    pub(super) types: &'a mut TypeIds,
    pub(super) cause: LossCause,
    pub(super) bounds: &'a mut Bounds,
}

impl Reader<'_, '_> {
    /// Reads `bytes` bytes of a chunk, or a little more, but not beyond its snapshot. Returns
    /// `false` if the chunk is gone.
    pub(super) fn read(
        &mut self,
        known: &mut ChunkCursor,
        chain: &mut ChainCursor,
        snapshot: &ChunkSnapshot,
        bytes: u64,
        batch: &mut Batch<'_>,
    ) -> bool {
        let Some(chunk_ref) = self.pool.chunk_ref(snapshot.present.ordinal) else {
            return false;
        };
        let Some(chunk) = chunk_ref.chunk() else {
            return false;
        };
        let is_first = known.events == 0 && known.refused == 0;
        if is_first && chain.missing_before(snapshot.present.first) > 0 {
            self.bounds.cut(None, self.pool.control, self.clock, batch);
        }
        let mark = batch.mark();
        let mut read = Read {
            cursor: known.cursor,
            identity: known.identity,
            last_time: chain.last_time,
            newest: known.newest,
            events: 0,
            dropped: 0,
            damaged: 0,
        };
        let mut data = Vec::new();
        while known.cursor.bytes_to(read.cursor) < bytes {
            data.clear();
            match read.cursor.next(chunk, snapshot.head, &mut data) {
                Found::Record(record) => self.take(&record, &data, &mut read, batch),
                Found::Damage => read.damaged = read.damaged.saturating_add(1),
                Found::Nothing => break,
            }
        }
        // Pairs with the fence in `Pool::claim`: if any of the words were written over, the chunk's
        // state that is read now is another one.
        fence(Acquire);
        if turn(chunk_ref.header.state.load(Relaxed)) != snapshot.present.turn {
            // The next chunk of the chain shows how many are lost.
            batch.go_back(mark);
            self.bounds.cut(None, self.pool.control, self.clock, batch);
            return false;
        }
        if is_first {
            chain.account_up_to(snapshot.present.first, self.cause, batch);
        }
        self.account(known, chain, &read, snapshot, batch);
        true
    }

    pub(super) fn take(
        &mut self,
        record: &UntrustedRecord,
        data: &[u8],
        read: &mut Read,
        batch: &mut Batch<'_>,
    ) {
        if record.event_type.0 == IDENTITY_RECORD {
            if let Some(identity) = Identity::from_bytes(data) {
                read.identity = identity;
            }
            return;
        }
        read.events = read.events.saturating_add(1);
        match self.header(record, &read.identity, batch) {
            Some(mut header) => {
                // Without a fence between them, two readings of the counter may come out in the
                // other order.
                header.time = header.time.max(read.last_time);
                read.last_time = header.time;
                read.newest = read.newest.max(record.ticks);
                if self.bounds.keep(record.ticks) {
                    batch.push(header, data);
                } else {
                    self.bounds.note_dropped(record.ticks, header.time);
                    read.dropped = read.dropped.saturating_add(1);
                }
            }
            None => read.damaged = read.damaged.saturating_add(1),
        }
    }

    /// Notes what was read of a chunk, and reports what is missing there.
    pub(super) fn account(
        &self,
        known: &mut ChunkCursor,
        chain: &mut ChainCursor,
        read: &Read,
        snapshot: &ChunkSnapshot,
        batch: &mut Batch<'_>,
    ) {
        let mut lose = |cause, count, is_marked| {
            batch.lose(Loss {
                cause,
                count,
                since: read.last_time,
                is_marked,
            });
        };
        lose(LossCause::Damaged, read.damaged, false);
        // Events that were refused come after all that are in the chunk.
        let refused = if read.cursor.is_at(snapshot.head) {
            snapshot.refused.wrapping_sub(known.refused)
        } else {
            0
        };
        // A target may say nonsense of itself, such as that it has taken refused events back.
        let refused = if refused > u64::MAX / 2 { 0 } else { refused };
        lose(self.cause, refused.saturating_add(read.dropped), true);
        known.refused = known.refused.wrapping_add(refused);
        known.cursor = read.cursor;
        known.identity = read.identity;
        known.newest = read.newest;
        known.events = known.events.wrapping_add(read.events);
        chain.last_time = read.last_time;
        chain.accounted = chain
            .accounted
            .wrapping_add(read.events)
            .wrapping_add(refused);
    }

    pub(super) fn header(
        &mut self,
        record: &UntrustedRecord,
        identity: &Identity,
        batch: &mut Batch<'_>,
    ) -> Option<EventHeader> {
        let untrusted = UntrustedType {
            number: record.number,
            id: record.event_type,
            pid: identity.pid,
        };
        let event_type = self.types.id_of(self.pool.parts, untrusted, batch)?;
        // The anchor was taken after the record was there: no thread can have read a later time.
        let time = self.clock.time_of(record.ticks).min(self.clock.newest());
        Some(EventHeader {
            time,
            event_type,
            pid: identity.pid,
            tid: identity.tid,
            cpu: record.cpu,
            thread_id: identity.thread_id,
            program_address: record.address,
            truncation: if record.is_truncated {
                Truncation::Record
            } else {
                Truncation::None
            },
        })
    }
}

/// Result of reading a chunk, so far.
pub(super) struct Read {
    pub(super) cursor: Cursor,
    pub(super) identity: Identity,
    pub(super) last_time: MonotonicNs,
    /// Time of the newest event of the chunk, in ticks.
    pub(super) newest: u64,
    pub(super) events: u64,
    /// Number of events outside the bounds of what is kept.
    dropped: u64,
    /// Number of records that say nonsense.
    pub(super) damaged: u64,
}
