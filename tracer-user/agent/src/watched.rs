//! Process whose events are held for a controller, and whether they may be seen.

use tracer_engine::event::{EventHeader, MonotonicNs};
use tracer_engine::source::{Loss, LossCause};

use super::queue::bytes_held;
use super::share::PoolPart;

/// Most bytes of memory for what is held back of one process: an exec takes a moment.
const MOST_HELD_BYTES: u64 = 256 << 10;

/// Treatment of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Recorded for the controller.
    Keep,
    /// Held until it is known whether it may be seen.
    Hold,
    /// Hidden: the controller may not see it, nor know of it.
    Hide,
    /// Counted as lost: it may have been the controller's to see, but what says so may be lost.
    Lose,
}

/// Events that are held back, in their order.
pub type Held = Vec<(EventHeader, Box<[u8]>)>;

/// Events of a process in an exec.
#[derive(Debug)]
pub struct HeldEvents {
    events: Held,
    /// Memory that they take.
    memory: PoolPart,
    bytes: u64,
    /// Number of later ones for which there was no space, and the time of the first.
    lost: Option<(u64, MonotonicNs)>,
}

impl HeldEvents {
    /// Holds an event back, or counts it where the process or its user has no space for it.
    fn hold(&mut self, header: &EventHeader, data: &[u8]) {
        let bytes = bytes_held(data);
        if self.lost.is_none() && self.bytes + bytes <= MOST_HELD_BYTES && self.memory.grow(bytes) {
            self.bytes += bytes;
            self.events.push((*header, data.into()));
        } else {
            let (count, _) = self.lost.get_or_insert((0, header.time));
            *count += 1;
        }
    }

    /// Returns the time of the first event.
    fn since(&self) -> Option<MonotonicNs> {
        let first = self.events.first().map(|(header, _)| header.time);
        first.or(self.lost.map(|(_, since)| since))
    }

    /// Returns all of it as a loss, where it is not known whether it may be seen.
    pub fn as_loss(&self, cause: LossCause) -> Option<Loss> {
        let lost = self.lost.map_or(0, |(count, _)| count);
        self.since().map(|since| Loss {
            cause,
            count: lost + self.events.len() as u64,
            since,
            is_marked: false,
        })
    }

    /// Hands each event on, which may be seen. Returns what was lost for want of space.
    pub fn let_go(mut self, mut keep: impl FnMut(&EventHeader, &[u8])) -> Option<Loss> {
        for (header, data) in std::mem::take(&mut self.events) {
            self.memory.shrink(bytes_held(&data));
            keep(&header, &data);
        }
        self.lost.map(|(count, since)| Loss {
            cause: LossCause::KernelRingFull,
            count,
            since,
            is_marked: false,
        })
    }
}

/// Visibility of a process to one controller.
#[derive(Debug)]
pub enum Watched {
    /// Visible, from this time on.
    Seen { from: MonotonicNs },
    /// In an exec: not known yet.
    InExec(Box<HeldEvents>),
    /// Not visible.
    Hidden,
}

impl Watched {
    /// Visible at all times.
    pub const SEEN: Self = Self::Seen {
        from: MonotonicNs(0),
    };

    /// Returns the state of a process that is in an exec, with its part of its user's memory.
    pub fn in_exec(memory: PoolPart) -> Self {
        let held = HeldEvents {
            events: Vec::new(),
            memory,
            bytes: 0,
            lost: None,
        };
        Self::InExec(Box::new(held))
    }

    /// Returns how an event of it is treated.
    pub fn fate(&self, header: &EventHeader) -> Fate {
        match self {
            Self::Seen { from } if header.time < *from => Fate::Lose,
            Self::Seen { .. } => Fate::Keep,
            Self::InExec(_) => Fate::Hold,
            Self::Hidden => Fate::Hide,
        }
    }

    /// Holds an event back.
    pub fn hold(&mut self, header: &EventHeader, data: &[u8]) {
        if let Self::InExec(held) = self {
            held.hold(header, data);
        }
    }

    /// Returns the time of the first event that is held back.
    pub fn held_since(&self) -> Option<MonotonicNs> {
        match self {
            Self::InExec(held) => held.since(),
            Self::Seen { .. } | Self::Hidden => None,
        }
    }

    /// Returns the state of a child that it makes now.
    pub fn child(&self) -> Self {
        match self {
            Self::Seen { from } => Self::Seen { from: *from },
            Self::InExec(_) | Self::Hidden => Self::Hidden,
        }
    }
}

#[cfg(test)]
mod tests {
    use tracer_common::event_type::EventTypeId;
    use tracer_engine::event::Truncation;

    use super::*;
    use crate::share::{Most, Pool};

    fn header(time: u64) -> EventHeader {
        EventHeader {
            time: MonotonicNs(time),
            event_type: EventTypeId::SIGNAL_GENERATE,
            pid: 7,
            tid: 7,
            cpu: None,
            thread_id: 0,
            program_address: 0,
            truncation: Truncation::None,
        }
    }

    fn pool() -> Pool {
        Pool::new(Most {
            a_user: 1 << 20,
            all_but_root: 2 << 20,
            all: 2 << 20,
        })
    }

    /// Holds events of these times of a process of user 1.
    fn held(pool: &Pool, times: std::ops::Range<u64>) -> HeldEvents {
        let mut watched = Watched::in_exec(pool.part_of(1));
        times.for_each(|time| watched.hold(&header(time), &[0; 100]));
        match watched {
            Watched::InExec(held) => *held,
            Watched::Seen { .. } | Watched::Hidden => panic!("not in an exec"),
        }
    }

    #[test]
    fn execs_that_do_not_end_take_no_more_than_their_users_memory() {
        let pool = pool();
        let all: Vec<_> = (0..100).map(|_| held(&pool, 0..10_000)).collect();
        let events: usize = all.iter().map(|one| one.events.len()).sum();
        let bytes = events as u64 * bytes_held(&[0; 100]);
        assert!(bytes <= 1 << 20 && bytes > (1 << 20) - 1000, "{bytes}");
        // Each process has so many, and each event is held or counted.
        let one = MOST_HELD_BYTES / bytes_held(&[0; 100]);
        assert_eq!(all[0].events.len() as u64, one);
        for held in &all {
            assert_eq!(held.since(), Some(MonotonicNs(0)));
            assert_eq!(held.as_loss(LossCause::Withheld).unwrap().count, 10_000);
        }
        // Another user has its own.
        let mut other = Watched::in_exec(pool.part_of(2));
        other.hold(&header(0), &[]);
        assert!(matches!(other, Watched::InExec(held) if held.events.len() == 1));
        drop(all);
        assert!(pool.take(1, 1 << 20).is_some());
    }

    #[test]
    fn of_a_program_that_may_be_seen_what_was_not_held_is_lost_for_want_of_space() {
        let pool = pool();
        let mut times = Vec::new();
        let lost = held(&pool, 5..10_005).let_go(|header, data| {
            assert_eq!(data.len(), 100);
            times.push(header.time.0);
        });
        let lost = lost.unwrap();
        let kept = times.len() as u64;
        assert!(times.iter().copied().eq(5..5 + kept) && kept > 100);
        assert_eq!(lost.cause, LossCause::KernelRingFull);
        assert_eq!((lost.count, lost.since.0), (10_000 - kept, 5 + kept));
        assert!(held(&pool, 0..3).let_go(|_, _| {}).is_none());
        assert!(held(&pool, 0..0).as_loss(LossCause::Withheld).is_none());
        assert!(pool.take(1, 1 << 20).is_some());
    }
}
