//! Wanted event types and system calls, and the maps by which the programs know them.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tracer_area::monotonic_now;
use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::{syscalls, wanted};
use tracer_engine::event::MonotonicNs;

use super::call::{ProgramRuns, time_runs};
use super::call_links::ProgramLinks;
use super::mapping::MapMemory;
use super::programs::Detachable;
use super::switch_tables::SwitchTables;
use super::switches::SWITCHES;
use tracer_syscalls::choice::SyscallSet;

/// Events that the programs are to record: the maps `WANTED` and `SYSCALLS`, shared by all that
/// change them.
#[derive(Clone)]
pub struct WantedMaps(Arc<Maps>);

struct Maps {
    wanted: MapMemory,
    syscalls: MapMemory,
    wishes: Mutex<Wishes>,
    /// Programs at system calls, where they can be detached.
    links: Mutex<ProgramLinks>,
    switches: Mutex<Switches>,
    /// The moment of [`WantedMaps::held_at`]; 0: there is none.
    held_at: AtomicU64,
}

/// Programs at switches, where they can be detached.
#[derive(Default)]
struct Switches {
    links: ProgramLinks,
    tables: Option<SwitchTables>,
    /// Whether they are detached.
    is_paused: bool,
}

/// Types that the programs at system calls record.
const CALLS: u64 = wanted::bit(EventTypeId::SYSCALL_ENTER) | wanted::bit(EventTypeId::SYSCALL_EXIT);

/// Types as bits: those that can be recorded, and those that the tracer's own stream and the
/// streams of others want.
#[derive(Clone, Copy, Debug, Default)]
struct Wishes {
    /// Types whose programs are attached.
    recorded: u64,
    own: u64,
    of_others: u64,
    /// Types that the tracer's own stream does not want for a while.
    paused: u64,
}

impl Wishes {
    fn in_all(self) -> u64 {
        (self.own & !self.paused | self.of_others) & self.recorded
    }

    /// Tells whether switches are not recorded for a while.
    fn are_switches_paused(self) -> bool {
        self.paused & SWITCHES != 0 && self.in_all() & SWITCHES == 0
    }
}

/// Timing of the programs at switches, wake-ups and page faults.
pub struct TimedRuns {
    maps: WantedMaps,
    before: ProgramRuns,
    _timing: OwnedFd,
}

impl TimedRuns {
    /// Returns how many runs were timed, and how long they took together, in nanoseconds.
    #[must_use]
    pub fn so_far(&self) -> (u64, u64) {
        let now = self.maps.switches().links.runs();
        (
            now.timed.saturating_sub(self.before.timed),
            now.timed_ns.saturating_sub(self.before.timed_ns),
        )
    }
}

impl WantedMaps {
    pub(super) fn new(wanted: MapMemory, syscalls: MapMemory) -> Self {
        let wishes = Mutex::default();
        Self(Arc::new(Maps {
            wanted,
            syscalls,
            wishes,
            links: Mutex::default(),
            switches: Mutex::default(),
            held_at: AtomicU64::new(0),
        }))
    }

    /// Sets the programs that can be detached, and what those at switches note.
    pub(super) fn set_links(&self, links: Detachable, tables: SwitchTables) {
        *self.links() = links.calls;
        let mut switches = self.switches();
        (switches.links, switches.tables) = (links.switches, Some(tables));
    }

    /// Attaches the programs at system calls that can be detached, unless they are attached
    /// already, and has the events of system calls recorded.
    ///
    /// # Errors
    ///
    /// They cannot be attached; then nothing is changed.
    pub fn attach_calls(&self) -> io::Result<()> {
        self.links().attach()?;
        self.wish(|wishes| wishes.own |= CALLS & wishes.recorded);
        Ok(())
    }

    /// Stops recording system calls for the tracer's own stream, and detaches the programs at
    /// system calls where no other stream wants their events. Returns a moment before which all
    /// calls were recorded. The source is complete up to this moment, and no further until the
    /// stream's filter is [changed](tracer_engine::source::Source::control).
    pub fn detach_calls(&self) -> MonotonicNs {
        let at = self.hold();
        self.wish(|wishes| wishes.own &= !CALLS);
        let wishes = self.0.wishes.lock();
        let wishes = wishes.unwrap_or_else(PoisonError::into_inner);
        if wishes.in_all() & CALLS == 0 {
            self.links().detach();
        }
        at
    }

    /// Stops recording these types for the tracer's own stream, for a while. Returns a moment
    /// before which all were recorded: that of [`detach_calls`](Self::detach_calls), where the
    /// stream has not learnt of that yet. The source is complete up to this moment, and no further
    /// until the stream's filter is [changed](tracer_engine::source::Source::control).
    pub fn pause(&self, types: u64) -> MonotonicNs {
        let at = self.hold();
        self.wish(|wishes| wishes.paused = types);
        at
    }

    /// Holds the source at this moment, unless it is held at an earlier one. Returns the moment.
    fn hold(&self) -> MonotonicNs {
        let held = &self.0.held_at;
        let order = (Ordering::AcqRel, Ordering::Acquire);
        let before = held.compare_exchange(0, monotonic_now().0, order.0, order.1);
        if let Err(at) = before {
            return MonotonicNs(at);
        }
        // Another thread reads: until it sees that it is held, it may have come beyond that moment,
        // but not beyond this one.
        let at = monotonic_now();
        held.store(at.0, Ordering::Release);
        at
    }

    /// Records all types again that were recorded before the pause.
    ///
    /// # Errors
    ///
    /// The programs cannot be attached; then nothing is changed.
    pub fn go_on(&self) -> io::Result<()> {
        self.attach_switches()?;
        self.wish(|wishes| wishes.own |= std::mem::take(&mut wishes.paused) & wishes.recorded);
        Ok(())
    }

    /// Has the kernel time the runs of the programs at switches, wake-ups and page faults that can
    /// be detached, as long as the result lives. Each run of any program of the machine takes some
    /// 40 ns more meanwhile.
    ///
    /// # Errors
    ///
    /// The kernel does not: kernels do so since Linux 5.8.
    pub fn time_switches(&self) -> io::Result<TimedRuns> {
        let timing = time_runs()?;
        Ok(TimedRuns {
            maps: self.clone(),
            before: self.switches().links.runs(),
            _timing: timing,
        })
    }

    /// Returns the moment up to which the source may be complete, while the stream has not learnt
    /// yet that something is recorded no more.
    pub(super) fn held_at(&self) -> Option<MonotonicNs> {
        let at = self.0.held_at.load(Ordering::Acquire);
        (at != 0).then_some(MonotonicNs(at))
    }

    /// Notes that the stream has learnt what is recorded no more.
    pub(super) fn let_go(&self) {
        self.0.held_at.store(0, Ordering::Release);
    }

    fn links(&self) -> std::sync::MutexGuard<'_, ProgramLinks> {
        self.0.links.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the event types that can be recorded. All of them are recorded, until fewer are wanted.
    pub fn set_recorded(&self, bits: u64) {
        self.wish(|wishes| {
            wishes.recorded = bits;
            wishes.own = bits;
        });
    }

    /// Changes the event types that the tracer's own stream wants. Takes effect at once.
    pub fn set_types(&self, bits: u64) {
        self.wish(|wishes| wishes.own = bits);
    }

    /// Changes the event types that the streams of programs want, beside those that the tracer's
    /// own stream wants. Takes effect at once. Where no stream wants system calls, the programs at
    /// system calls that can be detached are detached, unless they were attached just now.
    pub fn set_types_of_others(&self, bits: u64) {
        self.wish(|wishes| wishes.of_others = bits);
        let wishes = self.0.wishes.lock();
        let wishes = wishes.unwrap_or_else(PoisonError::into_inner);
        if wishes.in_all() & CALLS == 0 {
            self.links().detach_if_due();
        }
    }

    fn wish(&self, change: impl FnOnce(&mut Wishes)) {
        let wishes = self.0.wishes.lock();
        let mut wishes = wishes.unwrap_or_else(PoisonError::into_inner);
        change(&mut wishes);
        let bits = wishes.in_all();
        if bits & CALLS != 0
            && let Err(error) = self.links().attach()
        {
            tracing::warn!(%error, "the programs at system calls cannot be attached again");
        }
        let are_paused = wishes.are_switches_paused();
        if !are_paused && let Err(error) = self.attach_switches() {
            tracing::warn!(%error, "the programs at switches cannot be attached again");
        }
        self.change(|word| word & wanted::GENERATION | bits & !wanted::GENERATION);
        if are_paused {
            self.detach_switches();
        }
    }

    /// Attaches the programs at switches, where they are detached.
    fn attach_switches(&self) -> io::Result<()> {
        let mut switches = self.switches();
        if !switches.is_paused {
            return Ok(());
        }
        // What they have noted before does not go on from there.
        if let Some(tables) = &switches.tables {
            tables.forget();
        }
        if let Some(since) = self.since() {
            since.store(monotonic_now().0, Ordering::Release);
        }
        switches.links.attach()?;
        switches.is_paused = false;
        Ok(())
    }

    fn detach_switches(&self) {
        let mut switches = self.switches();
        switches.is_paused = true;
        switches.links.detach();
        if let Some(tables) = &switches.tables {
            tables.forget_running();
        }
    }

    fn switches(&self) -> std::sync::MutexGuard<'_, Switches> {
        let switches = self.0.switches.lock();
        switches.unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the word that says since when switches have been recorded.
    fn since(&self) -> Option<&AtomicU64> {
        self.0.wanted.word(size_of::<u64>())
    }

    /// Changes the system calls that are recorded, all of them at once. To be called by one
    /// thread at a time.
    pub fn set_syscalls(&self, calls: &SyscallSet) {
        let Some(word) = self.word() else { return };
        let next = (word.load(Ordering::Relaxed) & wanted::GENERATION) as u32 ^ 1;
        for (compat, words) in (0..).zip(calls.words()) {
            let set = syscalls::set(next, compat) as usize;
            for (index, bits) in words.iter().enumerate() {
                let at = (set * syscalls::WORDS + index) * 8;
                if let Some(word) = self.0.syscalls.word(at) {
                    word.store(*bits, Ordering::Relaxed);
                }
            }
        }
        // Release: a program that sees the new generation sees its sets.
        self.change(|word| word & !wanted::GENERATION | u64::from(next));
    }

    fn change(&self, new: impl Fn(u64) -> u64) {
        if let Some(word) = self.word() {
            let order = (Ordering::Release, Ordering::Relaxed);
            // The update never fails: the closure always returns a value.
            let _ = word.fetch_update(order.0, order.1, |word| Some(new(word)));
        }
    }

    fn word(&self) -> Option<&AtomicU64> {
        self.0.wanted.word(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_wanted_where_it_can_be_recorded() {
        let wishes = Wishes {
            recorded: 0b0110,
            own: 0b0010,
            of_others: 0b1100,
            paused: 0,
        };

        assert_eq!(wishes.in_all(), 0b0110);
    }

    #[test]
    fn switches_that_another_stream_wants_are_not_paused() {
        let paused = Wishes {
            recorded: u64::MAX,
            own: u64::MAX,
            of_others: 0,
            paused: SWITCHES,
        };
        assert!(paused.are_switches_paused());
        assert_eq!(paused.in_all(), !SWITCHES);
        let beside = Wishes {
            of_others: wanted::bit(EventTypeId::SWITCH_IN),
            ..paused
        };
        assert!(!beside.are_switches_paused());
        assert!(
            !Wishes::default().are_switches_paused(),
            "they were never recorded"
        );
    }
}
